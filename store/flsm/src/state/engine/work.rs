//! [`Work`]: the work of the background, which threads do it, and which calls wait for it.
//!
//! ```text
//!   writer -- full generation --> waiting, oldest first --> the flusher --> level 0 --> compactors
//! ```
//! Generations are flushed one after the other, so that the durable writes stay a prefix of all
//! writes. Compactors take jobs whose tables no other job has (`busy`). A job's tables stay busy
//! until its result is shown.
//!
//! A failure for lack of room is counted, and the work is tried again after a while. Calls that
//! wait get the error. If a job above level 0 finds damage, its tables are set aside: they stay
//! busy, so their guard is left as it is until the next opening, and all other guards are
//! compacted. A call that asks for a compaction or for settled debt gets that error. Any other
//! failure latches the database, which ends all waiting.

use crate::engine::health::Health;
use crate::error::{Error, ErrorKind, Result};
use crate::keyspace::KeyspaceState;
use crate::memory::MemoryTable;
use crate::options::WAITING_MAX;
use crate::types::FileNumber;
use evendb_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use evendb_base::sync::thread::JoinHandle;
use evendb_base::sync::{Arc, Condvar, Mutex};
use evendb_storage::{TableId, Version};
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

/// The rest after the first failure for lack of room. Each further failure in a row doubles it, at
/// most `DOUBLINGS_MAX` times.
const RETRY: Duration = Duration::from_millis(100);
const DOUBLINGS_MAX: u32 = 3;

/// Memory tables that get no more records, and the log that has these records.
pub(crate) struct Generation {
    pub(crate) number: FileNumber,
    pub(crate) memories: Vec<(Arc<KeyspaceState>, Arc<MemoryTable>)>,
    /// The version of its last record.
    pub(crate) last_version: Version,
    /// Logs that are removed when it is flushed.
    pub(crate) logs: Vec<FileNumber>,
    /// After its flush, logs below this number are not needed.
    pub(crate) next: FileNumber,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Work {
    state: Mutex<State>,
    /// Signals that there may be something to do.
    wake: Condvar,
    /// Signals that something was done, or failed.
    done: Condvar,
    /// The number of tables in level 0 of the keyspace that has the greatest number of them. Orders
    /// nothing else: a reader of it may be late.
    level0: AtomicUsize,
    /// Logs below this number are not needed. Orders nothing else.
    logs_needed: AtomicU64,
    /// The number of calls that wait until no debt is left. Orders nothing else.
    hurried: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// See [`Work::hurry`].
pub(crate) struct Hurry<'w>(&'w AtomicUsize);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Arc<Generation>>,
    busy: HashSet<TableId>,
    /// The number of busy tables that were set aside, and the first damage.
    aside: usize,
    damage: Option<Error>,
    /// The number of running jobs.
    jobs: usize,
    /// Whether workers have to end.
    stopping: bool,
    /// Counts the events that may make a job due.
    changes: u64,
    /// The number of failures for lack of room, and the last one.
    failures: u64,
    failure: Option<Error>,
}

impl Work {
    /// Adds a thread that works here.
    pub(crate) fn add_thread(&self, thread: JoinHandle<()>) {
        self.threads.lock().push(thread);
    }

    /// Waits until all threads have ended. [`Work::stop`] tells them to end.
    pub(crate) fn join_threads(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A thread that panicked has latched the database.
            let _ = thread.join();
        }
    }

    /// Adds a full generation.
    pub(crate) fn push(&self, generation: Generation) {
        self.state.lock().waiting.push_back(Arc::new(generation));
        self.wake.notify_all();
    }

    /// Wakes all threads, so that they look again: the database was latched, or is closing.
    pub(crate) fn wake_all(&self) {
        self.state.lock().changes += 1;
        self.wake.notify_all();
        self.done.notify_all();
    }

    /// Makes workers end after their current step. Waiting generations stay.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.wake_all();
    }

    /// Whether workers have to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.state.lock().stopping
    }

    /// Waits for a generation to flush, and returns the oldest. `None`: the flusher has to end.
    pub(crate) fn wait_for_generation(&self, health: &Health) -> Option<Arc<Generation>> {
        let mut state = self.state.lock();
        loop {
            if state.stopping || health.check_latched().is_err() {
                return None;
            }
            if let Some(oldest) = state.waiting.front() {
                return Some(oldest.clone());
            }
            self.wake.wait(&mut state);
        }
    }

    /// Removes the oldest generation, which is flushed.
    pub(crate) fn flushed(&self, generation: &Generation) {
        self.logs_needed.store(generation.next.0, Ordering::Relaxed);
        let mut state = self.state.lock();
        let oldest = state.waiting.pop_front();
        debug_assert!(oldest.is_some_and(|oldest| oldest.number == generation.number));
        state.changes += 1;
        self.done.notify_all();
        // There is a new table of level 0.
        self.wake.notify_all();
    }

    /// Logs below this number are not needed.
    pub(crate) fn logs_needed(&self) -> FileNumber {
        FileNumber(self.logs_needed.load(Ordering::Relaxed))
    }

    /// Notes that a job failed for lack of room, after `failures` such failures in a row. Wakes the
    /// calls that wait, and rests. `true`: the job has to be tried again.
    pub(crate) fn rest_after(&self, error: &Error, failures: u32) -> bool {
        let mut state = self.state.lock();
        state.failures += 1;
        state.failure = Some(error.clone());
        self.done.notify_all();
        if !state.stopping {
            let rest = RETRY * (1 << failures.min(DOUBLINGS_MAX));
            self.wake.wait_for(&mut state, rest);
        }
        !state.stopping
    }

    /// Takes the job that `pick` finds. `pick` is given the busy tables, and returns the tables of
    /// its job.
    pub(crate) fn take_job<T>(
        &self,
        pick: impl FnOnce(&HashSet<TableId>) -> Option<(T, Vec<TableId>)>,
    ) -> Option<T> {
        let mut state = self.state.lock();
        if state.stopping {
            return None;
        }
        let (job, tables) = pick(&state.busy)?;
        state.busy.extend(tables);
        state.jobs += 1;
        Some(job)
    }

    /// The value that [`Work::wait_for_job`] needs. Read it before looking for a job.
    pub(crate) fn changes(&self) -> u64 {
        self.state.lock().changes
    }

    /// Waits until there may be a job that did not exist at `seen`. `false`: the compactor has to
    /// end.
    pub(crate) fn wait_for_job(&self, health: &Health, seen: u64) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.stopping || health.check_latched().is_err() {
                return false;
            }
            if state.changes != seen {
                return true;
            }
            self.wake.wait(&mut state);
        }
    }

    /// Ends a job. Its result is shown, if it has one. After `damage` its tables are set aside.
    pub(crate) fn end_job(&self, tables: &[TableId], damage: Option<Error>) {
        let mut state = self.state.lock();
        match damage {
            Some(error) => {
                state.aside += tables.len();
                state.damage.get_or_insert(error);
            }
            None => {
                for table in tables {
                    state.busy.remove(table);
                }
            }
        }
        state.jobs -= 1;
        state.changes += 1;
        self.done.notify_all();
        self.wake.notify_all();
    }

    /// The number of tables that were set aside.
    pub(crate) fn set_aside(&self) -> u64 {
        self.state.lock().aside as u64
    }

    /// Fails with the first damage for which tables were set aside.
    pub(crate) fn check_damage(&self) -> Result<()> {
        self.state.lock().damage.clone().map_or(Ok(()), Err)
    }

    /// The number of tables in level 0 of the keyspace that has the greatest number of them.
    pub(crate) fn level0(&self) -> usize {
        self.level0.load(Ordering::Relaxed)
    }

    pub(crate) fn set_level0(&self, tables: usize) {
        self.level0.store(tables, Ordering::Relaxed);
    }

    /// Whether a call or a writer waits for jobs, or soon will: a call waits until no debt is left,
    /// a generation waits for its flush, or level 0 has `level0_due` tables, at which it goes down.
    pub(crate) fn is_behind(&self, level0_due: usize) -> bool {
        self.level0() >= level0_due
            || self.hurried.load(Ordering::Relaxed) > 0
            || !self.state.lock().waiting.is_empty()
    }

    /// Notes that a call waits until no debt is left. The note holds until the result is dropped.
    pub(crate) fn hurry(&self) -> Hurry<'_> {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        Hurry(&self.hurried)
    }

    /// Whether another generation may be added to the waiting ones now.
    pub(crate) fn has_room(&self, level0_stop: usize) -> bool {
        self.state.lock().has_room() && self.level0() < level0_stop
    }

    /// Waits until another generation may be added to the waiting ones.
    pub(crate) fn wait_for_room(&self, health: &Health, level0_stop: usize) -> Result<()> {
        self.wait(health, |state| {
            state.has_room() && self.level0() < level0_stop
        })
    }

    /// Waits until generation `number` is flushed.
    pub(crate) fn wait_for_flush(&self, health: &Health, number: FileNumber) -> Result<()> {
        self.wait(health, |state| {
            let oldest = state.waiting.front();
            oldest.is_none_or(|oldest| oldest.number > number)
        })
    }

    /// Waits until a running job has ended, or the database closes. `false` if no job is running.
    pub(crate) fn wait_for_jobs(&self, health: &Health) -> Result<bool> {
        let jobs = self.state.lock().jobs;
        match jobs {
            0 => Ok(false),
            _ => {
                let is_done = |state: &State| state.jobs < jobs || health.is_closed();
                self.wait(health, is_done).map(|()| true)
            }
        }
    }

    /// Waits until `is_done`. Fails when the database is latched. Fails too when a job finds no
    /// room meanwhile, with that job's failure.
    fn wait(&self, health: &Health, is_done: impl Fn(&State) -> bool) -> Result<()> {
        let mut state = self.state.lock();
        let failures = state.failures;
        // Work that rests is tried again.
        if !is_done(&state) {
            self.wake.notify_all();
        }
        loop {
            if is_done(&state) {
                return Ok(());
            }
            health.check_latched()?;
            if state.stopping {
                return Err(Error::closed());
            }
            if state.failures > failures {
                return Err(state.no_space());
            }
            self.done.wait(&mut state);
        }
    }

    /// The last failure for lack of room.
    pub(crate) fn no_space(&self) -> Error {
        self.state.lock().no_space()
    }

    /// Bytes of memory tables that wait to be flushed.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let state = self.state.lock();
        let memories = state.waiting.iter().flat_map(|one| &one.memories);
        memories
            .map(|(_, table)| table.allocated_bytes() as u64)
            .sum()
    }

    /// Number of the newest generation that waits.
    pub(crate) fn newest_waiting(&self) -> Option<FileNumber> {
        let state = self.state.lock();
        state.waiting.back().map(|newest| newest.number)
    }
}

impl State {
    fn has_room(&self) -> bool {
        self.waiting.len() < WAITING_MAX
    }

    fn no_space(&self) -> Error {
        let failure = self.failure.clone();
        failure.unwrap_or_else(|| Error::new(ErrorKind::NoSpace, "there is no room on the disk"))
    }
}
