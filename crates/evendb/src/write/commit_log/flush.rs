//! Making durable what was appended: group commit without a thread of its own.
//!
//! Whoever waits for durability and finds nobody who would sync for him becomes a **leader**: takes
//! what was appended by then as one **group**, writes it and syncs; those whose records are in it
//! wait, each on a slot of its own. A leader that is done tells those whose records are durable,
//! and gives the lead to one whose records no group took, if any. So a lone writer makes one
//! system call and no thread switch, and no thread is woken for nothing.
//!
//! ```text
//!    wait_durable --nobody forms--> form a group, take it, write, sync, land --+--> told: durable
//!         |                           ^                                        |   (without a lock)
//!         +------somebody does--> slot <----------given the lead---------------+--> told: failed
//! ```
//!
//! Where groups are gathered and go past the cache, **two are in flight** at once when enough
//! threads write: the disk syncs two in three quarters of the time that it takes for one after the
//! other, and the threads of one group work while the other's wait. A group that another may
//! follow ends at the end of a block (a filler covers the rest), so that no two write one block.
//!
//! Invariants: one thread at a time forms a group. Groups are taken in the order of LSNs, disjoint
//! and without a gap. `durable` covers a group only when all older ones have landed, and none
//! failed. While anybody waits for what no group took, somebody forms one, or will be told to by
//! one in flight. `durable` is raised, and waiters come and go, under the sync mutex: no wake-up is
//! lost. After an error no write or sync begins and `durable` is not raised by a sync any more
//! (I16); what is durable is asked before the error. A leader that unwinds leaves an error behind,
//! since what it had taken may not be in the file.
//!
//! Locks: the ring latch before the sync mutex, which is a leaf, as are the slots; none is held over
//! the I/O. Not here: what a record is, and when the tail may move.

use super::append::{CommitLog, Gathered, Writing};
use super::blocks::Blocks;
use super::{Lsn, Plant};
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, thread};
use evendb_storage::vfs::BLOCK_BYTES;
use evendb_storage::{Error, ErrorKind};
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// Gathered bytes that are kept for the next group.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// The longest wait for a group; half of a sync's time if that is shorter.
const PATIENCE_MAX: Duration = Duration::from_millis(1);

/// From so many writers on two groups fly at once; fewer are served better by one. Not so many where
/// correctness is tested, with a few threads.
const PAIRED_WRITERS_MIN: usize = match (
    cfg!(any(evendb_loom, evendb_shuttle)),
    cfg!(debug_assertions),
) {
    (true, _) => 1,
    (false, true) => 2,
    (false, false) => 4,
};

/// Who syncs, and who waits for it.
#[derive(Default)]
pub(super) struct Syncing {
    state: Mutex<SyncState>,
    /// A group has landed: for the end of the log, and for a group that must not overtake a lap.
    landed: Condvar,
}

#[derive(Default)]
struct SyncState {
    /// Somebody forms a group, or has been told to.
    forming: bool,
    /// Groups taken and not known to be durable, oldest first.
    flights: VecDeque<Flight>,
    /// End of the last group taken.
    taken: u64,
    /// It ended at the end of a block, and went past the cache.
    next_may_fly_beside: bool,
    /// A sync of the whole file succeeded in this life: from then on syncing what is written is
    /// enough. Before, the file may hold pages that an earlier life wrote and nobody synced.
    whole_file_synced: bool,
    /// The file system refused blocks past the cache.
    cache_only: bool,
    /// Who waits, in order of arrival; of these none has been told anything.
    waiters: Vec<Waiter>,
    /// Writers that were there when the last group landed.
    writers: usize,
    /// How long a sync takes, roughly.
    sync_time: Duration,
    /// What leaders need, while nobody uses it; the last used first.
    spare_tools: Vec<Tools>,
    /// The first failure; set once.
    error: Option<Arc<Error>>,
}

/// A group that is being written, or waits for older ones to be.
struct Flight {
    start: u64,
    /// Where it ends.
    target: u64,
    landed: bool,
}

impl SyncState {
    /// How many groups are being written.
    fn in_the_air(&self) -> usize {
        self.flights.iter().filter(|flight| !flight.landed).count()
    }

    /// Whether a group with what lies below `lsn` may be formed now.
    fn may_form(&self, lsn: Lsn) -> bool {
        let flights_max = match self.next_may_fly_beside {
            true => 2,
            false => 1,
        };
        lsn.0 > self.taken && !self.forming && self.in_the_air() < flights_max
    }

    /// Who is to form the next group, if one can be formed and somebody waits for it; the caller
    /// tells.
    fn next_leader(&mut self) -> Option<Waiter> {
        let next = self
            .waiters
            .iter()
            .position(|waiter| self.may_form(waiter.lsn))?;
        self.forming = true;
        Some(self.waiters.remove(next))
    }
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

/// What a leader needs, kept from group to group.
#[derive(Default)]
struct Tools {
    /// Swapped with what was gathered.
    group: Gathered,
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
    /// What was taken, and is in the air.
    taken: Option<Lsn>,
    /// Up to where a sync succeeded, and how long it took.
    synced: Option<(Lsn, Duration)>,
    tools: Option<Tools>,
    unwinding: bool,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if self.unwinding {
            let source = io::Error::other("the thread that synced for all panicked");
            let error = Error::io(self.log.file.path(), "sync the commit log", source);
            self.log.fail(error);
        }
        self.log.land(self);
    }
}

/// Whom to tell what, once no lock is held.
#[must_use = "they sleep until they are told"]
#[derive(Default)]
struct News {
    lead: Option<Waiter>,
    durable: Vec<Waiter>,
}

impl News {
    fn tell(self) {
        // The next leader first: the disk rests.
        if let Some(next) = self.lead {
            next.slot.tell(Told::Lead);
        }
        for waiter in self.durable {
            waiter.slot.tell(Told::Durable);
        }
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
        loop {
            let mut state = self.syncing.state.lock();
            // Under the mutex, under which it is raised: no wake-up is lost.
            if let Some(settled) = self.settled(&state, lsn) {
                return settled;
            }
            if state.may_form(lsn) {
                state.forming = true;
                drop(state);
                self.lead();
                continue;
            }
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
        }
    }

    /// The answer to who waits for `lsn`, if there is one.
    fn settled(&self, state: &SyncState, lsn: Lsn) -> Option<Result<(), Error>> {
        if self.durable() >= lsn {
            return Some(Ok(()));
        }
        let error = state.error.as_ref()?;
        Some(Err(self.repeat(error)))
    }

    /// Forms a group and syncs it; the caller has the lead.
    fn lead(&self) {
        let mut lead = Lead {
            log: self,
            taken: None,
            synced: None,
            tools: None,
            unwinding: true,
        };
        if self.is_planted(Plant::LeaderDies) {
            return;
        }
        self.form_group();
        if let Some((target, whole_file)) = self.take_group(&mut lead) {
            let started = Instant::now();
            let tools = lead.tools.as_mut().expect("a group was taken with them");
            match self.plant_ack(self.write_and_sync(tools, whole_file)) {
                Ok(()) => {
                    let target = Lsn(self.plant_late_target(target.0));
                    lead.synced = Some((target, started.elapsed()));
                }
                Err(error) => {
                    let error = Error::io(self.file.path(), "sync the commit log", error);
                    self.fail(error);
                }
            }
        }
        lead.unwinding = false;
    }

    /// Waits a little for those whom the last sync served: one that begins at once takes only half
    /// of them along. Measured with 4 to 64 threads: a third to a half more puts. Of two groups in
    /// flight each takes half of the writers. A lone writer never waits.
    fn form_group(&self) {
        // A model has no time.
        if cfg!(any(evendb_loom, evendb_shuttle)) {
            return;
        }
        let started = Instant::now();
        loop {
            let state = self.syncing.state.lock();
            let expected = match state.next_may_fly_beside {
                true => state.writers.div_ceil(2),
                false => state.writers,
            };
            let patience = (state.sync_time / 2).min(PATIENCE_MAX);
            let untaken = state
                .waiters
                .iter()
                .filter(|waiter| waiter.lsn.0 > state.taken);
            if untaken.count() + 1 >= expected || started.elapsed() >= patience {
                return;
            }
            drop(state);
            // They are awake and need the core, not time.
            thread::yield_now();
        }
    }

    /// Takes what was appended as a group: where it ends, and whether to sync the whole file.
    /// `None` after an error.
    fn take_group(&self, lead: &mut Lead<'_>) -> Option<(Lsn, bool)> {
        loop {
            // What is gathered goes with where it ends.
            let gathered = self.writing == Writing::Gathered;
            let mut ring = gathered.then(|| self.ring.lock());
            let mut state = self.syncing.state.lock();
            if state.error.is_some() {
                return None;
            }
            // Acquire: the copies of all records below are done.
            let head = self.head.load(Ordering::Acquire);
            // More than a lap behind its start is the place of one that is still being written: a
            // checkpoint made that one's records durable in the meantime.
            let oldest = state.flights.front().map_or(head, |flight| flight.start);
            if head + 2 * BLOCK_BYTES as u64 - oldest > self.capacity && !state.flights.is_empty() {
                drop(ring);
                self.syncing.landed.wait(&mut state);
                continue;
            }
            let past_cache = state.whole_file_synced && !state.cache_only && self.direct.is_some();
            let paired = past_cache && state.writers >= PAIRED_WRITERS_MIN;
            let mut tools = state.spare_tools.pop().unwrap_or_default();
            let mut target = head;
            if let Some(ring) = &mut ring {
                state.next_may_fly_beside = paired && self.pad_to_block(ring);
                std::mem::swap(&mut ring.gathered, &mut tools.group);
                target = self.head.load(Ordering::Relaxed);
            }
            let start = state.taken.max(self.tail().0).min(target);
            state.flights.push_back(Flight {
                start,
                target,
                landed: false,
            });
            state.taken = target;
            state.forming = false;
            lead.taken = Some(Lsn(target));
            lead.tools = Some(tools);
            let whole_file = !state.whole_file_synced;
            // Who came while it was formed, and is not in it.
            let lead = state.next_leader();
            drop(state);
            drop(ring);
            let durable = Vec::new();
            News { lead, durable }.tell();
            return Some((Lsn(target), whole_file));
        }
    }

    /// Writes a group in the order of LSNs (a checkpoint may have freed the first's place for the
    /// last), and syncs it.
    fn write_and_sync(&self, tools: &mut Tools, whole_file: bool) -> io::Result<()> {
        let group = &mut tools.group;
        let mut end = group.bytes.len();
        let mut writes = Vec::new();
        for &(lsn, start) in group.pieces.iter().rev() {
            writes.push((lsn, start..end));
            end = start;
        }
        for (lsn, place) in writes.into_iter().rev() {
            let bytes = &group.bytes[place];
            if whole_file {
                self.file.write_at(bytes, lsn % self.capacity)?;
            } else if !self.write_past_cache(&mut tools.blocks, bytes, lsn)? {
                self.file.write_at_durable(bytes, lsn % self.capacity)?;
            }
        }
        if whole_file || self.writing != Writing::Gathered {
            self.file.sync_data()?;
        }
        group.pieces.clear();
        group.bytes.clear();
        group.bytes.shrink_to(SPARE_BYTES_MAX);
        Ok(())
    }

    /// `false` if it cannot be written so.
    fn write_past_cache(&self, blocks: &mut Blocks, bytes: &[u8], lsn: u64) -> io::Result<bool> {
        let Some(direct) = &self.direct else {
            return Ok(false);
        };
        if self.syncing.state.lock().cache_only {
            return Ok(false);
        }
        let files = (&*self.file, &**direct);
        // A tail that has moved since leaves only more room.
        let written = blocks.write(files, bytes, lsn, self.capacity, self.tail().0);
        match written {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.syncing.state.lock().cache_only = true;
                Ok(false)
            }
            written => written,
        }
    }

    /// The lead ends: what a sync covered is durable when all before it is, unless anything failed
    /// meanwhile.
    fn land(&self, lead: &mut Lead<'_>) {
        let mut state = self.syncing.state.lock();
        state.spare_tools.extend(lead.tools.take());
        match lead.taken {
            // It died while it formed a group.
            None => state.forming = false,
            Some(target) => {
                let flight = state
                    .flights
                    .iter_mut()
                    .find(|flight| flight.target == target.0 && !flight.landed);
                flight.expect("it was in the air").landed = true;
            }
        }
        if let Some((_, took)) = lead.synced {
            state.whole_file_synced = true;
            state.sync_time = (state.sync_time * 7 + took) / 8;
        }
        let mut synced = lead.synced.map(|(target, _)| target.0).unwrap_or(0);
        while state.flights.front().is_some_and(|flight| flight.landed) {
            let landed = state.flights.pop_front();
            synced = landed.map_or(synced, |landed| landed.target.max(synced));
        }
        let unlanded = state.flights.front().map(|flight| flight.start);
        if let Some(oldest) = unlanded
            && !self.is_planted(Plant::OutOfOrder)
        {
            synced = synced.min(oldest);
        }
        // After an error nothing becomes durable; a flight that failed has left one.
        if state.error.is_none() {
            self.durable.fetch_max(synced, Ordering::AcqRel);
        }
        let durable = self.take_durable(&mut state);
        let leaders = 1 + state.in_the_air() + usize::from(state.forming);
        state.writers = durable.len() + state.waiters.len() + leaders;
        // After an error nobody waits.
        let lead = match self.is_planted(Plant::NoHandOver) {
            true => None,
            false => state.next_leader(),
        };
        drop(state);
        self.syncing.landed.notify_all();
        News { lead, durable }.tell();
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
        let lead = None;
        News { lead, durable }.tell();
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
        while state.forming || state.in_the_air() > 0 {
            self.syncing.landed.wait(&mut state);
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
