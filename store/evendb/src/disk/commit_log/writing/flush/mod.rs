//! Making appended records durable: group commit without a thread of its own.
//!
//! A thread that waits for durability while no thread syncs becomes the **leader**. It syncs for
//! all threads that have appended by then, the **group**, which wait. Threads that come during the
//! sync wait apart from them, as the next group. A leader that is done wakes its group with one
//! call. It also wakes one thread of the next group, which leads unless another thread came before
//! it. So a lone writer makes one system call and no thread switch, and each thread that is woken
//! has something to do.
//!
//! ```text
//!    wait_durable --nobody leads--> lead: form a group, write, sync ---> wake the group
//!         |                           ^                             `--> wake one of the next
//!         +------somebody leads--> wait in the next group --woken--+--> durable, or failed
//!                                     ^----------------------------+--> nobody leads: lead
//! ```
//!
//! Invariants: at most one thread leads (of two concurrent syncs, only one would hear of a
//! failure). A leader closes the group before it looks how far the log goes: a member of the group
//! has appended before that, so the sync covers its record. While a thread waits, one leads or has
//! been woken to lead. Other files that records name ([`SyncedFirst`]) are synced after the leader
//! has looked how far the log goes, and before the log. `durable` is raised, and waiters come and
//! go, under the sync mutex: no wake-up is lost. After an error no write or sync begins and no sync
//! raises `durable` (I16); a waiter looks at `durable` before it looks at the error. A leader that
//! unwinds leaves an error behind, because the records that it had taken may be missing in the
//! file.
//!
//! Futures wait without a thread ([`awaiting`]): the invariant "while a thread waits, one leads or
//! has been woken to lead" holds for them with a signal to the syncer in place of the waking.
//!
//! Locks: the sync mutex is a leaf; the leader's mutex is taken before the ring latch and held over
//! the I/O. Not here: what a record is, and when the tail may move.

pub(crate) mod awaiting;

use crate::commit_log::append::{CommitLog, Gathered};
use crate::commit_log::blocks::Blocks;
use crate::commit_log::{LogPlant, Lsn};
use crate::options::Writing;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, thread};
use evendb_base::wakers::Wakers;
use evendb_storage::{Error, ErrorKind};
use std::io;
use std::time::{Duration, Instant};

/// The largest number of gathered bytes of memory that is kept for the next group.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// The longest wait for a group; half of a sync's time if that is shorter.
const PATIENCE_MAX: Duration = Duration::from_millis(1);

/// Data in other files that records name, and that must be durable before the records are.
pub(crate) trait SyncedFirst: Send + Sync {
    /// Syncs all data that records appended before the call name. Only a leader calls it, before it
    /// syncs the log; a failure counts as a failed sync of the log.
    fn sync(&self) -> Result<(), Error>;
}

/// Which thread syncs, and which ones wait for it.
#[derive(Default)]
pub(crate) struct Syncing {
    state: Mutex<SyncState>,
    /// The members of two groups wait here, by parity: the group that is synced, and the next one.
    groups: [Condvar; 2],
    /// The leader's data; locked while it leads.
    leader: Mutex<Leader>,
    /// Signals that no thread leads, for the end of the log.
    rested: Condvar,
    /// Signals futures to sync for or to wake, for the syncer.
    syncer: Condvar,
}

#[derive(Default)]
struct SyncState {
    /// Whether a thread leads.
    leading: bool,
    /// The last group that was closed; a thread that comes belongs to the next.
    group: u64,
    /// The number of waiting threads in the closed group and in the next, by parity.
    waiting: [usize; 2],
    /// The number of writers at the end of the last sync.
    writers: usize,
    /// The first failure; set once.
    error: Option<Arc<Error>>,
    /// The futures that wait, by the ends of their records.
    futures: Wakers,
    /// The syncer is there and will look at the futures before it goes; and it waits for a signal.
    attended: bool,
    syncer_waits: bool,
    /// The leader is the syncer, which has no record of its own.
    leader_attends: bool,
    /// The log is about to end, and the syncer goes.
    ended: bool,
}

impl SyncState {
    /// The number of writers that the next sync would serve: those that wait, and the leader.
    fn writers_of_next(&self) -> usize {
        let leader = usize::from(!self.leader_attends);
        self.waiting[place(self.group + 1)] + leader + self.futures.len()
    }
}

/// The index at which members of a group wait.
fn place(group: u64) -> usize {
    (group % 2) as usize
}

/// The data that passes from leader to leader.
#[derive(Default)]
struct Leader {
    /// Empty; swapped with the gathered records.
    spare: Gathered,
    /// Whether a sync of the whole file succeeded in this life: from then on syncing the written
    /// part is enough. Before that, the file may hold pages that an earlier life wrote and left
    /// unsynced.
    whole_file_synced: bool,
    /// The approximate time of a sync.
    sync_time: Duration,
    blocks: Blocks,
}

/// A failure that is reported to many threads.
#[derive(Debug)]
struct SharedError(Arc<Error>);

impl std::fmt::Display for SharedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SharedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

/// The lead; given up when dropped, also when the leader unwinds.
struct Lead<'a> {
    log: &'a CommitLog,
    /// The end of the part that was synced.
    synced: Option<Lsn>,
    unwinding: bool,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if self.unwinding {
            let source = io::Error::other("the thread that synced for all panicked");
            let error = Error::io(self.log.file.path(), "sync the commit log", source);
            self.log.fail(error);
        }
        self.log.hand_over(self.synced);
    }
}

impl CommitLog {
    /// Makes all records that were appended before the call durable. A failure latches the log.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        self.check_error()?;
        self.wait_durable(self.head())
    }

    /// Waits until everything below `lsn`, which has been appended, is durable; syncs if no other
    /// thread does. Returns the log's failure, unless `lsn` was durable before it.
    pub(crate) fn wait_durable(&self, lsn: Lsn) -> Result<(), Error> {
        if self.durable() >= lsn {
            return Ok(());
        }
        let mut state = self.syncing.state.lock();
        // Under the mutex under which `durable` is raised: no wake-up is lost.
        if let Some(answer) = self.answer(&state, lsn) {
            return answer;
        }
        if state.leading {
            let group = state.group + 1;
            state.waiting[place(group)] += 1;
            let answer = loop {
                self.syncing.groups[place(group)].wait(&mut state);
                let answer = self.answer(&state, lsn);
                if answer.is_some() || !state.leading {
                    break answer;
                }
            };
            // The members of a closed group are no longer counted one by one, and they are not
            // woken to lead.
            if state.group < group {
                state.waiting[place(group)] -= 1;
                if answer.is_some() {
                    self.pass_on(&state);
                }
            }
            if let Some(answer) = answer {
                return answer;
            }
        }
        state.leading = true;
        drop(state);
        self.lead();
        let state = self.syncing.state.lock();
        self.answer(&state, lsn)
            .expect("the sync covered what was appended before it, or failed")
    }

    /// Returns when the file has everything below `lsn`, which has been appended; writes and syncs
    /// it if no other thread does. It differs from [`wait_durable`](Self::wait_durable) where a
    /// checkpoint has made gathered records durable.
    pub(crate) fn wait_written(&self, lsn: Lsn) -> Result<(), Error> {
        while self.written() < lsn {
            let mut state = self.syncing.state.lock();
            if self.written() >= lsn {
                break;
            }
            if let Some(error) = &state.error {
                return Err(self.repeat(error));
            }
            if state.leading {
                drop(state);
                // The leader holds this mutex while it works.
                drop(self.syncing.leader.lock());
                thread::yield_now();
                continue;
            }
            state.leading = true;
            drop(state);
            self.lead();
        }
        Ok(())
    }

    /// Wakes one thread of the next group if no thread leads: the caller may have been woken to
    /// lead, and does not lead.
    fn pass_on(&self, state: &SyncState) {
        let next = place(state.group + 1);
        if !state.leading && state.waiting[next] > 0 {
            self.syncing.groups[next].notify_one();
        }
    }

    /// The answer to a thread that waits for `lsn`, if there is one yet.
    fn answer(&self, state: &SyncState, lsn: Lsn) -> Option<Result<(), Error>> {
        if self.durable() >= lsn {
            return Some(Ok(()));
        }
        let error = state.error.as_ref()?;
        Some(Err(self.repeat(error)))
    }

    /// Syncs once; the caller has the lead.
    fn lead(&self) {
        let mut leader = self.syncing.leader.lock();
        let mut lead = Lead {
            log: self,
            synced: None,
            unwinding: true,
        };
        if self.is_planted(LogPlant::LeaderDies) {
            return;
        }
        self.form_group(leader.sync_time);
        if self.check_error().is_ok() {
            match self.sync_appended(&mut leader) {
                Ok(target) => lead.synced = Some(target),
                Err(error) => self.fail(error),
            }
        }
        lead.unwinding = false;
        // From here on another thread may lead.
        drop(leader);
        drop(lead);
    }

    /// Closes the group, after a short wait for the writers that the last sync served: a sync that
    /// begins at once takes only half of them along. Measured with 4 to 64 threads: the wait gives
    /// a third to a half more puts. A lone writer never waits.
    fn form_group(&self, sync_time: Duration) {
        let patience = (sync_time / 2).min(PATIENCE_MAX);
        let started = Instant::now();
        loop {
            let mut state = self.syncing.state.lock();
            let next = state.group + 1;
            let is_whole = state.writers_of_next() >= state.writers;
            // A model has no time.
            let has_no_time = cfg!(any(evendb_loom, evendb_shuttle));
            if is_whole || has_no_time || started.elapsed() >= patience {
                state.group = next;
                return;
            }
            drop(state);
            // The writers are awake and need the core.
            thread::yield_now();
        }
    }

    /// Writes the gathered records, and syncs; returns the LSN up to which everything is durable.
    fn sync_appended(&self, leader: &mut Leader) -> Result<Lsn, Error> {
        let started = Instant::now();
        let target = if self.writing == Writing::Gathered {
            let mut ring = self.ring.lock();
            std::mem::swap(&mut ring.gathered, &mut leader.spare);
            let target = self.head.load(Ordering::Relaxed);
            drop(ring);
            // The leader before has made everything durable that is not in this group.
            leader.spare.tell_durable(self.seed, self.durable_hint());
            target
        } else {
            // Acquire: the copies of all records below the target are done.
            let head = self.head.load(Ordering::Acquire);
            self.write_from(head);
            head
        };
        // After the target was taken: a thread that appended below it has listed its files before.
        if let Some(files) = &self.synced_first {
            files.sync()?;
        }
        let result = self.write_and_sync(leader);
        self.plant_ack(result)
            .map_err(|error| Error::io(self.file.path(), "sync the commit log", error))?;
        leader.whole_file_synced = true;
        leader.spare.pieces.clear();
        leader.spare.bytes.clear();
        leader.spare.bytes.shrink_to(SPARE_BYTES_MAX);
        leader.sync_time = (leader.sync_time * 7 + started.elapsed()) / 8;
        Ok(Lsn(self.plant_late_target(target)))
    }

    fn write_and_sync(&self, leader: &mut Leader) -> io::Result<()> {
        let gathered = &leader.spare;
        if let [(lsn, 0)] = gathered.pieces[..]
            && leader.whole_file_synced
        {
            let bytes = &gathered.bytes;
            // If the tail has moved since then, there is only more room.
            let tail = self.tail().0;
            if leader
                .blocks
                .write(&*self.file, bytes, lsn, self.capacity, tail)?
            {
                return Ok(());
            }
            return self.file.write_at_durable(bytes, lsn % self.capacity);
        }
        let mut end = gathered.bytes.len();
        let mut writes = Vec::new();
        for &(lsn, start) in gathered.pieces.iter().rev() {
            writes.push((&gathered.bytes[start..end], lsn % self.capacity));
            end = start;
        }
        // In the order of LSNs: a checkpoint may have freed the first piece's place, and the last
        // piece may lie there.
        for (bytes, offset) in writes.into_iter().rev() {
            self.file.write_at(bytes, offset)?;
        }
        self.file.sync_data()
    }

    /// Gives the lead up. The synced records become durable, unless the log failed meanwhile.
    fn hand_over(&self, synced: Option<Lsn>) {
        let mut state = self.syncing.state.lock();
        if let Some(target) = synced
            && state.error.is_none()
        {
            self.followers.written_up_to(target);
            self.durable.fetch_max(target.0, Ordering::AcqRel);
        }
        let group = place(state.group);
        let members = std::mem::take(&mut state.waiting[group]);
        // Futures that were served are on the list until the syncer wakes them.
        state.writers = members + state.writers_of_next();
        state.leading = false;
        state.leader_attends = false;
        // The next leader is woken first, because the disk rests.
        if !self.is_planted(LogPlant::NoHandOver) {
            self.pass_on(&state);
        }
        let has_ended = state.error.is_some();
        self.signal_syncer(state);
        // Each wake-up is a system call. A leader in between may have woken one of these members to
        // lead, and that member does not lead: in that case this wakes another thread to lead.
        if members > 0 {
            self.syncing.groups[group].notify_all();
        }
        if has_ended {
            self.syncing.rested.notify_all();
        }
        self.wake_followers();
    }

    /// Orders the caller after every thread that has raised `durable` so far, and before every
    /// thread that will.
    pub(crate) fn pass_sync_mutex(&self) {
        drop(self.syncing.state.lock());
    }

    /// Notes that a checkpoint holds everything below `lsn`.
    pub(crate) fn raise_durable(&self, lsn: Lsn) {
        let state = self.syncing.state.lock();
        self.durable.fetch_max(lsn.0, Ordering::AcqRel);
        self.wake_all(state);
        self.wake_followers();
    }

    /// Wakes all waiting threads; each looks whether its record is durable. The syncer does so for
    /// futures.
    fn wake_all(&self, state: MutexGuard<'_, SyncState>) {
        let waiting = state.waiting;
        self.signal_syncer(state);
        for (group, _) in self
            .syncing
            .groups
            .iter()
            .zip(waiting)
            .filter(|at| at.1 > 0)
        {
            group.notify_all();
        }
    }

    /// Notes that the database failed. All waiters return `cause`, unless their records are durable
    /// already; no more records become durable. Only the first cause counts.
    pub(crate) fn fail(&self, cause: impl Into<Arc<Error>>) {
        let mut state = self.syncing.state.lock();
        if state.error.is_none() {
            state.error = Some(cause.into());
        }
        self.wake_all(state);
    }

    /// Ends the log: makes durable what it can, and returns when no thread writes to the file or
    /// will write to it. There are no appends from now on.
    pub(crate) fn close(&self) {
        // Waiting threads are told of a failure.
        let _ = self.flush();
        if self.keeps_for_readers() {
            // Records that a checkpoint made durable may be in no file yet.
            let _ = self.write_out();
        }
        let source = io::Error::other("the database was closed");
        self.fail(Error::io(self.file.path(), "use the commit log", source));
        let mut state = self.syncing.state.lock();
        while state.leading {
            self.syncing.rested.wait(&mut state);
        }
        drop(state);
        self.wake_futures();
        self.wait_for_growth();
    }

    /// Latches `error` unless an earlier one is there; returns the latched error.
    pub(crate) fn latch(&self, error: Error) -> Error {
        self.fail(error);
        self.check_error()
            .expect_err("an error was latched just now")
    }

    pub(crate) fn check_error(&self) -> Result<(), Error> {
        match &self.syncing.state.lock().error {
            Some(error) => Err(self.repeat(error)),
            None => Ok(()),
        }
    }

    /// The latched failure for one more caller, with the original as its source.
    fn repeat(&self, error: &Arc<Error>) -> Error {
        let kind = match error.kind() {
            ErrorKind::NoSpace => io::ErrorKind::StorageFull,
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::Other,
        };
        let source = io::Error::new(kind, SharedError(Arc::clone(error)));
        Error::io(self.file.path(), "use the commit log", source)
    }

    fn plant_ack(&self, result: io::Result<()>) -> io::Result<()> {
        match self.is_planted(LogPlant::AckAfterFailedSync) {
            true => Ok(()),
            false => result,
        }
    }

    fn plant_late_target(&self, target: u64) -> u64 {
        if !self.is_planted(LogPlant::LateTarget) {
            return target;
        }
        thread::yield_now();
        self.head.load(Ordering::Acquire)
    }
}
