//! The clock of all writes: the global version GV, the operations that are pending at a version
//! (the paper's PO array), the wait for older operations, and the registered snapshots.
//!
//! ```text
//! gv        current version; a put takes it, a snapshot takes it and adds one, a checkpoint
//!           rounds it up to the next multiple of 2^24
//! slots     64 words, one per cache line: 0 = free, else a lower bound of the version of the one
//!           put that holds it; once the put has raised the word, exactly its version
//! visible   `visible_below`: no put of a version below this one is pending any more
//! registry  version -> number of handles and time, for every snapshot in use
//! expiry    the time by which records expire (expiry.rs)
//! ```
//!
//! Invariants (ARCHITECTURE.md): I5, no record of a version >= w becomes visible before all
//! puts of versions < w are visible: [`Clock::announce`] returns only when that holds for its
//! version. I9, an announced operation waits only for older announced operations. These wait for
//! still older ones, so the oldest never waits. A snapshot that is registered after a [`Horizon`]
//! was taken is at or above the horizon's floor.
//!
//! Why the fences: a put writes its slot and then reads GV. A thread that moved GV, or saw it
//! moved, reads the slots afterwards. With a `SeqCst` fence between the two steps on both sides,
//! either the put sees the moved GV, or the other thread sees the put's slot. The code uses fences
//! and not `SeqCst` accesses, because the loom models treat these as weaker than they are.
//!
//! Thread safety: every method takes `&self`. The registry mutex is a leaf, and no thread holds it
//! while it waits for slots. Not here: what a version means to a record, and the epoch of a log.

use super::horizon::Horizon;
use crate::expiry::{ExpiryClock, WallClock};
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::{Arc, Mutex, spin_loop, thread};
use crossbeam_utils::CachePadded;
use evendb_storage::{Time, Version};
use std::collections::BTreeMap;

/// The number of low bits of a version that count within a checkpoint; the higher bits are the
/// checkpoint's number.
pub(crate) const CHECKPOINT_SHIFT: u32 = 24;

/// The largest number of a checkpoint; a greater number on disk is damage. So two bits of a version
/// stay free; records use one of them.
pub(crate) const CHECKPOINT_MAX: u64 = 1 << (62 - CHECKPOINT_SHIFT);

/// The checkpoint that a record of this version belongs to.
#[inline]
pub(crate) fn checkpoint_of(version: Version) -> u64 {
    version.0 >> CHECKPOINT_SHIFT
}

/// The greatest version of a checkpoint.
pub(crate) fn last_version_of(checkpoint: u64) -> Version {
    Version(checkpoint << CHECKPOINT_SHIFT | ((1 << CHECKPOINT_SHIFT) - 1))
}

/// The largest number of pending puts; further puts wait for a slot.
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
const SLOTS: usize = 64;
/// Every look at a slot is a step of a schedule; 4 slots show the same behaviour as 64.
#[cfg(all(evendb_shuttle, not(evendb_loom)))]
const SLOTS: usize = 4;
/// Every slot multiplies a model's states; two slots suffice for the models.
#[cfg(evendb_loom)]
const SLOTS: usize = 2;

/// The turns of a short spin before a waiting thread gives its core away.
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
const SPINS: u32 = 64;
#[cfg(any(evendb_loom, evendb_shuttle))]
const SPINS: u32 = 0;

/// The turns for which a reader of the log waits for a free slot before it moves GV.
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
const TURNS_SEEN: u32 = 4 * SPINS;
#[cfg(any(evendb_loom, evendb_shuttle))]
const TURNS_SEEN: u32 = 1;

/// Faults that the models must notice.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum ClockPlant {
    #[default]
    Nothing,
    /// P1: a put does not wait for older ones.
    NoAwait,
    /// P2: no fence between reading GV and reading the slots.
    NoFenceToAwait,
    /// P2: no fence between writing the slot and reading GV.
    NoFenceToAnnounce,
    /// P9: collectors treat the registered snapshots as the only possible ones.
    NoFloor,
    /// A put withdraws before it is visible. The model itself does it.
    #[cfg(evendb_loom)]
    EarlyWithdraw,
}

/// The clock; one per database.
pub(crate) struct Clock {
    /// Written AcqRel by the thread that moves it, read Acquire.
    gv: CachePadded<AtomicU64>,
    /// Raised AcqRel, read Acquire: a thread that reads a version here sees all records below it.
    visible_below: CachePadded<AtomicU64>,
    /// Claimed AcqRel, raised Release, withdrawn Release; pairs with the Acquire in `await_older`.
    slots: Box<[CachePadded<AtomicU64>]>,
    /// Each snapshot in use.
    registry: Mutex<BTreeMap<Version, Registered>>,
    /// The time by which records expire.
    pub(crate) expiry: ExpiryClock,
    #[cfg(test)]
    plant: ClockPlant,
}

/// A snapshot in use.
#[derive(Default)]
struct Registered {
    /// The number of handles that hold it.
    handles: usize,
    /// The time by which it judges; 0 until that is known, and in a database where nothing expires.
    time: Time,
}

/// A pending put. Its drop withdraws the put, also when the thread unwinds.
#[must_use = "dropping the announcement withdraws it"]
pub(crate) struct Announcement<'a> {
    slot: &'a AtomicU64,
    version: Version,
}

impl Announcement<'_> {
    /// The version that the put's records get.
    #[inline]
    pub(crate) fn version(&self) -> Version {
        self.version
    }
}

impl Drop for Announcement<'_> {
    #[inline]
    fn drop(&mut self) {
        // Pairs with the Acquire in `await_older`: a thread that sees a free slot sees the
        // records.
        self.slot.store(0, Ordering::Release);
    }
}

impl Clock {
    /// A clock that stands at `gv`, which must not be zero: zero marks a free slot.
    #[cfg(any(test, evendb_loom))]
    pub(crate) fn new(gv: Version) -> Clock {
        Clock::with_wall_clock(gv, Arc::new(crate::expiry::SystemWallClock))
    }

    /// A clock at `gv`; `wall_clock` decides which records have expired.
    pub(crate) fn with_wall_clock(gv: Version, wall_clock: Arc<dyn WallClock>) -> Clock {
        assert!(gv > Version::ZERO, "versions start at 1");
        Clock {
            gv: CachePadded::new(AtomicU64::new(gv.0)),
            // Nothing is pending in a new clock.
            visible_below: CachePadded::new(AtomicU64::new(gv.0)),
            slots: (0..SLOTS)
                .map(|_| CachePadded::new(AtomicU64::new(0)))
                .collect(),
            registry: Mutex::new(BTreeMap::new()),
            expiry: ExpiryClock::new(wall_clock),
            #[cfg(test)]
            plant: ClockPlant::Nothing,
        }
    }

    /// The current version.
    #[inline]
    pub(crate) fn now(&self) -> Version {
        Version(self.gv.load(Ordering::Acquire))
    }

    /// Joins the order of all writes: until the announcement is dropped, snapshots and checkpoints
    /// that cover its version wait for it. The caller holds nothing that an announced operation may
    /// wait for, except chunk latches.
    pub(crate) fn announce(&self) -> Announcement<'_> {
        let (slot, claimed) = self.claim();
        self.fence_to_announce();
        let version = self.gv.load(Ordering::Acquire);
        let announcement = Announcement {
            slot,
            version: Version(version),
        };
        if version != claimed {
            // Puts of one version do not wait for each other, so a slot must not stay below the
            // version of its put: two such puts would wait for each other.
            slot.store(version, Ordering::Release);
        }
        if self.must_await_older(version) {
            self.await_older(version);
        }
        announcement
    }

    /// Registers a snapshot of everything that has returned, and of nothing that begins later. The
    /// caller returns it by [`Clock::unregister`].
    pub(crate) fn register(&self) -> Version {
        let snapshot = {
            let mut registry = self.registry.lock();
            // GV moves under the mutex. Otherwise a collector could read the registry before
            // this
            // snapshot, and GV after it, and drop a record that the snapshot needs.
            let snapshot = Version(self.gv.fetch_add(1, Ordering::AcqRel));
            registry.entry(snapshot).or_default().handles += 1;
            snapshot
        };
        self.await_older(snapshot.0 + 1);
        snapshot
    }

    /// Like [`register`](Self::register), with the time by which the snapshot judges.
    ///
    /// The snapshot asks whether anything expires after it has waited for all writes that it sees
    /// ([`ExpiryClock::note_use`]). Until its time is noted, a horizon assumes the least time.
    pub(crate) fn register_timed(&self) -> (Version, Time) {
        let snapshot = self.register();
        if !self.expiry.is_in_use() {
            return (snapshot, Time::default());
        }
        let time = self.expiry.now();
        if let Some(registered) = self.registry.lock().get_mut(&snapshot) {
            registered.time = time;
        }
        (snapshot, time)
    }

    /// Counts one more handle on a registered snapshot.
    #[cfg(test)]
    pub(crate) fn retain(&self, snapshot: Version) {
        let mut registry = self.registry.lock();
        let handles = registry
            .get_mut(&snapshot)
            .expect("a snapshot is retained while a handle exists");
        handles.handles += 1;
    }

    /// Returns a handle on a snapshot.
    pub(crate) fn unregister(&self, snapshot: Version) {
        let mut registry = self.registry.lock();
        let handles = registry
            .get_mut(&snapshot)
            .expect("a snapshot is given back once per handle");
        handles.handles -= 1;
        if handles.handles == 0 {
            registry.remove(&snapshot);
        }
    }

    /// Begins the next checkpoint number. Returns its first version once no put of an older version
    /// is pending.
    pub(crate) fn advance_checkpoint(&self) -> Version {
        let mut current = self.gv.load(Ordering::Acquire);
        let boundary = loop {
            let boundary = ((current >> CHECKPOINT_SHIFT) + 1) << CHECKPOINT_SHIFT;
            match self.gv.compare_exchange_weak(
                current,
                boundary,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => break boundary,
                Err(seen) => current = seen,
            }
        };
        self.await_older(boundary);
        Version(boundary)
    }

    /// Calls `what` with a version that is above all snapshots registered before the call, and not
    /// above any snapshot registered later: these see everything that `what` has stored. `what`
    /// must not wait.
    pub(crate) fn between_snapshots(&self, what: impl FnOnce(Version)) {
        let _none_registers = self.registry.lock();
        what(self.now());
    }

    /// Moves GV on by one: puts announced from now on have a greater version than puts announced
    /// before.
    pub(crate) fn advance(&self) {
        self.gv.fetch_add(1, Ordering::AcqRel);
    }

    /// The versions that a rewrite which starts now may drop.
    pub(crate) fn horizon(&self) -> Horizon {
        let registry = self.registry.lock();
        let mut horizon = Horizon {
            floor: self.floor(),
            snapshots: registry.keys().copied().collect(),
            ..Horizon::default()
        };
        if self.expiry.is_in_use() {
            // A reader that registers from now on asks for its time later.
            horizon.now = self.expiry.now();
            let mut least = horizon.now;
            let mut times: Vec<Time> = Vec::with_capacity(registry.len());
            for registered in registry.values().rev() {
                least = least.min(registered.time);
                times.push(least);
            }
            times.reverse();
            horizon.times = times;
        }
        horizon
    }

    /// Returns once every put that was pending at the call has withdrawn. Every later put sees the
    /// caller's earlier stores (a keyspace marked as dropped, a closed database).
    pub(crate) fn wait_all_idle_once(&self) {
        // Moving GV tells old puts from new ones, so a slot that is taken again and again cannot
        // hold this up. A put that reads the moved GV sees the caller's stores through it.
        let last = self.gv.fetch_add(1, Ordering::AcqRel);
        self.await_older(last + 1);
    }

    /// Waits for the puts whose stores the caller has seen, if they made those stores while
    /// announced: on return each of them has withdrawn, and its records are visible to the caller.
    ///
    /// A put claims its slot before such a store. So once the slot is seen free, that put has left
    /// it, or a later put in the same slot has. A slot may be taken again and again and never be
    /// seen free. Then GV moves, which tells old puts from new ones. Usually it does not move, so
    /// puts of one key go on replacing each other.
    pub(crate) fn await_seen(&self) {
        for slot in &self.slots {
            let mut tries = 0;
            let mut turns = 0;
            while slot.load(Ordering::Acquire) != 0 {
                if turns == TURNS_SEEN {
                    return self.wait_all_idle_once();
                }
                turns += 1;
                pause(&mut tries);
            }
        }
    }

    /// The oldest registered snapshot.
    #[cfg(test)]
    pub(crate) fn oldest_snapshot(&self) -> Option<Version> {
        self.registry.lock().keys().next().copied()
    }

    /// Number of different registered snapshots.
    pub(crate) fn snapshot_count(&self) -> usize {
        self.registry.lock().len()
    }

    /// Claims a slot; returns it with the version written to it.
    fn claim(&self) -> (&AtomicU64, u64) {
        let start = hint();
        let mut tries = 0;
        loop {
            for step in 0..SLOTS {
                let index = (start + step) % SLOTS;
                let slot = &self.slots[index];
                // A load first keeps the line of a taken slot shared.
                if slot.load(Ordering::Relaxed) != 0 {
                    continue;
                }
                let version = self.gv.load(Ordering::Acquire);
                // Acquire: this put comes after the put that left the slot.
                let claimed =
                    slot.compare_exchange(0, version, Ordering::AcqRel, Ordering::Relaxed);
                if claimed.is_ok() {
                    if step != 0 {
                        remember(index);
                    }
                    return (slot, version);
                }
            }
            // No thread waits for this one yet: it holds no slot.
            pause(&mut tries);
        }
    }

    /// Waits for all puts of versions below `version`, which GV has reached, and notes that they
    /// are visible.
    fn await_older(&self, version: u64) {
        self.fence_to_await();
        for slot in &self.slots {
            let mut tries = 0;
            loop {
                let pending = slot.load(Ordering::Acquire);
                if pending == 0 || pending >= version {
                    break;
                }
                pause(&mut tries);
            }
        }
        self.visible_below.fetch_max(version, Ordering::AcqRel);
    }

    #[inline]
    fn must_await_older(&self, version: u64) -> bool {
        #[cfg(test)]
        if self.plant == ClockPlant::NoAwait {
            return false;
        }
        self.visible_below.load(Ordering::Acquire) < version
    }

    /// The fence between writing the slot and reading GV.
    #[inline]
    fn fence_to_announce(&self) {
        #[cfg(test)]
        if self.plant == ClockPlant::NoFenceToAnnounce {
            return;
        }
        fence(Ordering::SeqCst);
    }

    /// The fence between moving or reading GV and reading the slots.
    #[inline]
    fn fence_to_await(&self) {
        #[cfg(test)]
        if self.plant == ClockPlant::NoFenceToAwait {
            return;
        }
        fence(Ordering::SeqCst);
    }

    /// The least version of a snapshot that is registered from now on.
    fn floor(&self) -> Version {
        #[cfg(test)]
        if self.plant == ClockPlant::NoFloor {
            return Version::MAX;
        }
        self.now()
    }

    #[cfg(all(test, evendb_loom))]
    pub(crate) fn planted(gv: Version, plant: ClockPlant) -> Clock {
        Clock {
            plant,
            ..Clock::new(gv)
        }
    }
}

/// One turn of waiting: spin shortly, then give the core away.
pub(super) fn pause(tries: &mut u32) {
    if *tries < SPINS {
        *tries += 1;
        spin_loop();
    } else {
        // A schedule in which two waiters give each other the core for ever is possible, but not
        // worth following.
        #[cfg(evendb_loom)]
        {
            *tries += 1;
            if *tries > 2 {
                loom::skip_branch();
            }
        }
        thread::yield_now();
    }
}

#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod hints {
    use super::SLOTS;
    use crate::sync::atomic::{AtomicUsize, Ordering};
    use std::cell::Cell;

    static NEXT: AtomicUsize = AtomicUsize::new(0);

    std::thread_local! {
        /// The place where this thread last found a free slot; usually the line is in its own
        /// cache. The places of threads start one apart, so that threads do not meet at the same
        /// slot.
        static SLOT: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS);
    }

    #[inline]
    pub(in super::super) fn hint() -> usize {
        // A thread that is being torn down may still write: any index is fine.
        SLOT.try_with(Cell::get).unwrap_or(0)
    }

    pub(super) fn remember(index: usize) {
        // As above: without the hint, the thread starts at 0.
        let _ = SLOT.try_with(|slot| slot.set(index));
    }
}
#[cfg(any(evendb_loom, evendb_shuttle))]
mod hints {
    pub(in super::super) fn hint() -> usize {
        0
    }

    pub(super) fn remember(_index: usize) {}
}
pub(super) use hints::hint;
use hints::remember;

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clock({:?})", self.now())
    }
}

#[cfg(all(test, evendb_loom))]
mod models;
#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
