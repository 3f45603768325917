//! [`Work`]: what there is to do in the background, who does it, and who waits for it.
//!
//! ```text
//!   writer -- a full generation --> waiting, the oldest first --> the flusher --> level 0 --> compactors
//! ```
//! Generations are flushed one after the other, so that what is durable stays a prefix. Compactors take jobs whose tables
//! nobody else has (`busy`); a job's tables stay busy until its result is shown.
//!
//! A failure for want of room is counted and tried again after a while; whoever waits then gets the error. Where a job above level 0
//! finds damage its tables are set aside: they stay busy, so their guard is left as it is until the next opening, and all others are
//! compacted. Who asks for a compaction, or for nothing to be owed, gets that error. Any other failure latches the database, which ends
//! all waiting.

use crate::engine::health::Health;
use crate::error::{Error, ErrorKind, Result};
use crate::keyspace::KeyspaceState;
use crate::memory::MemoryTable;
use crate::types::FileNumber;
use evendb_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use evendb_base::sync::thread::JoinHandle;
use evendb_base::sync::{Arc, Condvar, Mutex};
use evendb_storage::{TableId, Version};
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

/// Generations that wait to be flushed before writers wait, too.
pub(crate) const WAITING_MAX: usize = 2;
/// What failed for want of room is tried again after this; twice as long after each further failure in a row, so often.
const RETRY: Duration = Duration::from_millis(100);
const DOUBLINGS_MAX: u32 = 3;

/// Memory tables that get no more records, and the log that has them.
pub(crate) struct Generation {
    pub(crate) number: FileNumber,
    pub(crate) memories: Vec<(Arc<KeyspaceState>, Arc<MemoryTable>)>,
    /// Of its last record.
    pub(crate) last_version: Version,
    /// Logs that go when it is flushed.
    pub(crate) logs: Vec<FileNumber>,
    /// Logs below this number are not needed then.
    pub(crate) next: FileNumber,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Work {
    state: Mutex<State>,
    /// There may be something to do.
    wake: Condvar,
    /// Something was done, or failed.
    done: Condvar,
    /// Tables of level 0 of the keyspace that has the most. Pairs with nothing: who acts by it may be late.
    level0: AtomicUsize,
    /// Logs below this number are not needed. Pairs with nothing.
    logs_needed: AtomicU64,
    /// Calls that wait until nothing is owed. Pairs with nothing.
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
    /// Tables among these that were set aside, and the first damage.
    aside: usize,
    damage: Option<Error>,
    /// Jobs under way.
    jobs: usize,
    /// Workers are to end.
    stopping: bool,
    /// Grows with whatever may make a job due.
    changes: u64,
    /// Failures for want of room, and the last one.
    failures: u64,
    failure: Option<Error>,
}

impl Work {
    /// A thread that works here.
    pub(crate) fn add_thread(&self, thread: JoinHandle<()>) {
        self.threads.lock().push(thread);
    }

    /// Waits until all threads have ended, which are to ([`Work::stop`]).
    pub(crate) fn join_threads(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // One that panicked has latched the database.
            let _ = thread.join();
        }
    }

    /// A full generation.
    pub(crate) fn push(&self, generation: Generation) {
        self.state.lock().waiting.push_back(Arc::new(generation));
        self.wake.notify_all();
    }

    /// Everybody looks again: the database was latched, or is being closed.
    pub(crate) fn wake_all(&self) {
        self.state.lock().changes += 1;
        self.wake.notify_all();
        self.done.notify_all();
    }

    /// Workers end after what they are at; what waits stays.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.wake_all();
    }

    /// Whether workers are to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.state.lock().stopping
    }

    /// Waits for the oldest generation that is to be flushed. `None`: the flusher is to end.
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

    /// The oldest generation is flushed and leaves.
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

    /// A job failed for want of room, after so many failures in a row: tells those who wait, and rests. `true`: it is to be tried
    /// again.
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

    /// Takes a job of what `pick` finds, which is given the tables that are not free, and tells of the tables of what it picks.
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

    /// What [`Work::wait_for_job`] wants to know: read before a job is looked for.
    pub(crate) fn changes(&self) -> u64 {
        self.state.lock().changes
    }

    /// Waits until there may be a job that was not there at `seen`. `false`: the compactor is to end.
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

    /// A job is over, and its result is shown if it has one. After `damage` its tables are set aside.
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

    /// Tables that were set aside.
    pub(crate) fn set_aside(&self) -> u64 {
        self.state.lock().aside as u64
    }

    /// The first damage for which tables were set aside.
    pub(crate) fn check_damage(&self) -> Result<()> {
        self.state.lock().damage.clone().map_or(Ok(()), Err)
    }

    /// Tables of level 0 of the keyspace that has the most.
    pub(crate) fn level0(&self) -> usize {
        self.level0.load(Ordering::Relaxed)
    }

    pub(crate) fn set_level0(&self, tables: usize) {
        self.level0.store(tables, Ordering::Relaxed);
    }

    /// Whether somebody waits for jobs, or soon will: a call, or writers, for a flush or for level 0, which has so many tables when
    /// it is to go down.
    pub(crate) fn is_behind(&self, level0_due: usize) -> bool {
        self.level0() >= level0_due
            || self.hurried.load(Ordering::Relaxed) > 0
            || !self.state.lock().waiting.is_empty()
    }

    /// Says that a call waits until nothing is owed, until the result is dropped.
    pub(crate) fn hurry(&self) -> Hurry<'_> {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        Hurry(&self.hurried)
    }

    /// Whether another generation may wait now.
    pub(crate) fn has_room(&self, level0_stop: usize) -> bool {
        self.state.lock().has_room() && self.level0() < level0_stop
    }

    /// Waits until another generation may wait.
    pub(crate) fn wait_for_room(&self, health: &Health, level0_stop: usize) -> Result<()> {
        self.wait(health, |state| {
            state.has_room() && self.level0() < level0_stop
        })
    }

    /// Waits until this generation is flushed.
    pub(crate) fn wait_for_flush(&self, health: &Health, number: FileNumber) -> Result<()> {
        self.wait(health, |state| {
            let oldest = state.waiting.front();
            oldest.is_none_or(|oldest| oldest.number > number)
        })
    }

    /// Waits until a job that is under way has ended, or the database closes. `false` if none is.
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

    /// Waits until `is_done`. Fails when the database is latched, and with the failure of a job that found no room meanwhile.
    fn wait(&self, health: &Health, is_done: impl Fn(&State) -> bool) -> Result<()> {
        let mut state = self.state.lock();
        let failures = state.failures;
        // What rests is to try again.
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

    /// The last failure for want of room.
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
