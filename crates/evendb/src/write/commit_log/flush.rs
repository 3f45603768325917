//! Making durable what was appended: group commit without a thread of its own.
//!
//! Whoever waits for durability and finds nobody syncing becomes the **leader** and syncs, for all
//! who have appended by then; the others wait, each on a slot of its own. A leader that is done
//! tells those whose records are durable, and hands the lead to one that is left, if any. So a
//! lone writer makes one system call and no thread switch, and no thread is woken for nothing.
//!
//! ```text
//!    wait_durable --nobody leads--> lead: form a group, write, sync --+--> told: durable
//!         |                           ^                               |    (returns without a lock)
//!         +------somebody leads--> slot <---handed the lead-----------+--> told: failed
//! ```
//!
//! Invariants: at most one thread leads (of two syncs at once, only one would hear of a failure).
//! While anybody waits, somebody leads or has been told to. `durable` is raised, and waiters come
//! and go, under the sync mutex: no wake-up is lost. After an error no write or sync begins and
//! `durable` is not raised by a sync any more (I16); what is durable is asked before the error. A
//! leader that unwinds leaves an error behind, since what it had taken may not be in the file.
//!
//! Locks: the sync mutex and the slots are leaves; the leader's mutex is taken before the ring
//! latch and held over the I/O. Not here: what a record is, and when the tail may move.

use super::append::{CommitLog, Gathered, Writing};
use super::blocks::Blocks;
use super::{Lsn, Plant};
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, thread};
use evendb_storage::{Error, ErrorKind};
use std::io;
use std::time::{Duration, Instant};

/// Gathered bytes that are kept for the next group.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// The longest wait for a group; half of a sync's time if that is shorter.
const PATIENCE_MAX: Duration = Duration::from_millis(1);

/// Who syncs, and who waits for it.
#[derive(Default)]
pub(super) struct Syncing {
    state: Mutex<SyncState>,
    /// What the leader needs; held while it leads.
    leader: Mutex<Leader>,
    /// Nobody leads: for the end of the log.
    rested: Condvar,
}

#[derive(Default)]
struct SyncState {
    /// Somebody leads, or has been told to.
    leading: bool,
    /// Who waits, in order of arrival; of these none has been told anything.
    waiters: Vec<Waiter>,
    /// Writers that were there at the end of the last sync.
    writers: usize,
    /// The first failure; set once.
    error: Option<Arc<Error>>,
}

struct Waiter {
    lsn: Lsn,
    slot: Arc<Slot>,
}

/// Where one waiter waits.
#[derive(Default)]
struct Slot {
    told: Mutex<Option<Told>>,
    changed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Durable,
    Failed,
    /// Nobody else will sync: it is the waiter's turn.
    Lead,
}

impl Slot {
    fn tell(&self, what: Told) {
        *self.told.lock() = Some(what);
        self.changed.notify_one();
    }

    fn wait(&self) -> Told {
        let mut told = self.told.lock();
        loop {
            if let Some(told) = *told {
                return told;
            }
            self.changed.wait(&mut told);
        }
    }
}

/// What passes from leader to leader.
#[derive(Default)]
struct Leader {
    /// Empty; swapped with what was gathered.
    spare: Gathered,
    /// A sync of the whole file succeeded in this life: from then on syncing what is written is
    /// enough. Before, the file may hold pages that an earlier life wrote and nobody synced.
    whole_file_synced: bool,
    /// How long a sync takes, roughly.
    sync_time: Duration,
    blocks: Blocks,
}

/// A failure that many hear of.
#[derive(Debug)]
struct Shared(Arc<Error>);

impl std::fmt::Display for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Shared {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

/// The lead; given up when dropped, whatever happened.
struct Lead<'a> {
    log: &'a CommitLog,
    /// Up to where a sync succeeded.
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
    /// Makes durable what was appended before the call. A failure latches the log.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        self.check_error()?;
        self.wait_durable(self.head())
    }

    /// Waits until everything below `lsn`, which has been appended, is durable, and sees to it. What
    /// is durable is so whatever failed since; else the failure is returned.
    pub(crate) fn wait_durable(&self, lsn: Lsn) -> Result<(), Error> {
        if self.durable() >= lsn {
            return Ok(());
        }
        let mut state = self.syncing.state.lock();
        // Under the mutex, under which it is raised: no wake-up is lost.
        if let Some(settled) = self.settled(&state, lsn) {
            return settled;
        }
        if state.leading {
            let slot = Arc::new(Slot::default());
            state.waiters.push(Waiter {
                lsn,
                slot: slot.clone(),
            });
            drop(state);
            match slot.wait() {
                Told::Durable => return Ok(()),
                Told::Failed => {}
                Told::Lead => self.lead(),
            }
        } else {
            state.leading = true;
            drop(state);
            self.lead();
        }
        let state = self.syncing.state.lock();
        self.settled(&state, lsn)
            .expect("the sync covered what was appended before it, or failed")
    }

    /// The answer to who waits for `lsn`, if there is one.
    fn settled(&self, state: &SyncState, lsn: Lsn) -> Option<Result<(), Error>> {
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
        if self.is_planted(Plant::LeaderDies) {
            return;
        }
        self.form_group(leader.sync_time);
        if self.check_error().is_ok() {
            match self.sync_appended(&mut leader) {
                Ok(target) => lead.synced = Some(target),
                Err(error) => {
                    let error = Error::io(self.file.path(), "sync the commit log", error);
                    self.fail(error);
                }
            }
        }
        lead.unwinding = false;
        // Another may lead as soon as it is told.
        drop(leader);
        drop(lead);
    }

    /// Waits a little for those whom the last sync served: one that begins at once takes only half
    /// of them along. Measured with 4 to 64 threads: a third to a half more puts. A lone writer
    /// never waits.
    fn form_group(&self, sync_time: Duration) {
        // A model has no time.
        if cfg!(any(evendb_loom, evendb_shuttle)) {
            return;
        }
        let patience = (sync_time / 2).min(PATIENCE_MAX);
        let started = Instant::now();
        loop {
            let state = self.syncing.state.lock();
            if state.waiters.len() + 1 >= state.writers || started.elapsed() >= patience {
                return;
            }
            drop(state);
            // They are awake and need the core, not time.
            thread::yield_now();
        }
    }

    /// Writes what is gathered, and syncs; up to where.
    fn sync_appended(&self, leader: &mut Leader) -> io::Result<Lsn> {
        let started = Instant::now();
        let target = if self.writing == Writing::Gathered {
            let mut ring = self.ring.lock();
            std::mem::swap(&mut ring.gathered, &mut leader.spare);
            self.head.load(Ordering::Relaxed)
        } else {
            // Acquire: the copies of all records below the target are done.
            self.head.load(Ordering::Acquire)
        };
        let result = self.write_and_sync(leader);
        self.plant_ack(result)?;
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
            // A tail that has moved since leaves only more room.
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
        // In the order of LSNs: a checkpoint may have freed the first's place for the last.
        for (bytes, offset) in writes.into_iter().rev() {
            self.file.write_at(bytes, offset)?;
        }
        self.file.sync_data()
    }

    /// Gives the lead up, or on: what a sync covered is durable unless anything failed meanwhile.
    fn hand_over(&self, synced: Option<Lsn>) {
        let mut state = self.syncing.state.lock();
        if let Some(target) = synced
            && state.error.is_none()
        {
            self.durable.fetch_max(target.0, Ordering::AcqRel);
        }
        let durable = self.take_durable(&mut state);
        state.writers = durable.len() + 1 + state.waiters.len();
        // After an error nobody waits.
        let next = match state.waiters.is_empty() || self.is_planted(Plant::NoHandOver) {
            true => None,
            false => Some(state.waiters.remove(0)),
        };
        state.leading = next.is_some();
        if !state.leading {
            self.syncing.rested.notify_all();
        }
        drop(state);
        // The next leader first: the disk rests.
        if let Some(next) = next {
            next.slot.tell(Told::Lead);
        }
        for waiter in durable {
            waiter.slot.tell(Told::Durable);
        }
    }

    /// Takes out those who wait for what is durable.
    fn take_durable(&self, state: &mut MutexGuard<'_, SyncState>) -> Vec<Waiter> {
        let durable = self.durable();
        state
            .waiters
            .extract_if(.., |waiter| waiter.lsn <= durable)
            .collect()
    }

    /// A checkpoint holds everything below `lsn`.
    pub(super) fn raise_durable(&self, lsn: Lsn) {
        let mut state = self.syncing.state.lock();
        self.durable.fetch_max(lsn.0, Ordering::AcqRel);
        let durable = self.take_durable(&mut state);
        drop(state);
        for waiter in durable {
            waiter.slot.tell(Told::Durable);
        }
    }

    /// The database failed: all waiters return `cause` unless what they wait for is durable
    /// already, and nothing becomes durable any more. The first cause stays.
    pub(crate) fn fail(&self, cause: impl Into<Arc<Error>>) {
        let mut state = self.syncing.state.lock();
        if state.error.is_none() {
            state.error = Some(cause.into());
        }
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        for waiter in waiters {
            waiter.slot.tell(Told::Failed);
        }
    }

    /// Ends the log: makes durable what it can, and returns when nobody writes to the file any
    /// more, nor ever will. There are no appends from now on.
    pub(crate) fn close(&self) {
        // Who waits hears of a failure.
        let _ = self.flush();
        let source = io::Error::other("the database was closed");
        self.fail(Error::io(self.file.path(), "use the commit log", source));
        let mut state = self.syncing.state.lock();
        while state.leading {
            self.syncing.rested.wait(&mut state);
        }
    }

    /// Latches `error` unless an earlier one is there; returns what is latched.
    pub(super) fn latch(&self, error: Error) -> Error {
        self.fail(error);
        self.check_error()
            .expect_err("an error was latched just now")
    }

    pub(super) fn check_error(&self) -> Result<(), Error> {
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
        let source = io::Error::new(kind, Shared(Arc::clone(error)));
        Error::io(self.file.path(), "use the commit log", source)
    }

    fn plant_ack(&self, result: io::Result<()>) -> io::Result<()> {
        match self.is_planted(Plant::AckAfterFailedSync) {
            true => Ok(()),
            false => result,
        }
    }

    fn plant_late_target(&self, target: u64) -> u64 {
        if !self.is_planted(Plant::LateTarget) {
            return target;
        }
        thread::yield_now();
        self.head.load(Ordering::Acquire)
    }
}
