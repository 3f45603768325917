//! The clock of all writes: the global version GV, the operations that are pending at a version
//! (the paper's PO array), waiting for older ones, and the registered snapshots.
//!
//! ```text
//! gv        current version; a put takes it, a snapshot takes it and adds one, a checkpoint
//!           rounds it up to the next multiple of 2^24
//! slots     64 words, one per cache line: 0 = free, else a lower bound of the version of the one
//!           put that holds it, and that version itself once the put has raised it
//! visible   `visible_below`: no put of a version below this one is pending any more
//! registry  version -> number of handles and time, for every snapshot in use
//! expiry    the time by which records expire (expiry.rs)
//! ```
//!
//! Invariants (docs/concurrency.md): I5, no record of a version >= w becomes visible before all
//! puts of versions < w are visible: [`Clock::announce`] returns only when that holds for its
//! version. I9: an announced operation waits only for older announced ones, which wait for still older
//! ones, so the oldest never waits. A snapshot registered after a [`Horizon`] was taken is at or above
//! its floor.
//!
//! Why the fences: a put writes its slot and then reads GV; whoever moved GV, or saw it moved,
//! reads the slots afterwards. With a `SeqCst` fence between the two steps on both sides, either
//! the put sees the moved GV, or the other sees the put's slot. Fences rather than `SeqCst`
//! accesses: the loom models treat the latter as weaker than they are.
//!
//! Thread safety: everything takes `&self`. The registry mutex is a leaf and is never held while
//! waiting for slots. Not here: what a version means to a record, and the epoch of a log.

use super::horizon::Horizon;
use crate::expiry::{ExpiryClock, WallClock};
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::{Arc, Mutex, spin_loop, thread};
use crossbeam_utils::CachePadded;
use evendb_storage::{Time, Version};
use std::collections::BTreeMap;

/// The low bits of a version count within a checkpoint, the high ones are its checkpoint number.
pub(crate) const CHECKPOINT_SHIFT: u32 = 24;

/// No database has so many checkpoints; a greater number on disk is damage. So a version leaves two bits free,
/// of which records use one.
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

/// Puts that may be pending at once; more of them wait for a slot.
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
const SLOTS: usize = 64;
/// Every slot that is looked at is a step of a schedule; four show what 64 do.
#[cfg(all(evendb_shuttle, not(evendb_loom)))]
const SLOTS: usize = 4;
/// In a model every slot costs states; two puts and one spare show all there is.
#[cfg(evendb_loom)]
const SLOTS: usize = 2;

/// Turns of a short spin before a waiting thread gives its core away.
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
const SPINS: u32 = 64;
#[cfg(any(evendb_loom, evendb_shuttle))]
const SPINS: u32 = 0;

/// Turns that a reader of the log waits for a slot to be free before it moves GV.
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
    /// P9: collectors take the registered snapshots for all there can be.
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
    /// Claimed AcqRel, raised Release, withdrawn Release; pairs with the Acquire of [`wait`].
    slots: Box<[CachePadded<AtomicU64>]>,
    /// Each snapshot in use.
    registry: Mutex<BTreeMap<Version, Registered>>,
    /// By what time records expire.
    pub(crate) expiry: ExpiryClock,
    #[cfg(test)]
    plant: ClockPlant,
}

/// A snapshot in use.
#[derive(Default)]
struct Registered {
    /// How many handles hold it.
    handles: usize,
    /// By what time it judges; 0 until that is known, and where nothing expires.
    time: Time,
}

/// A pending put; dropping it withdraws, also when unwinding.
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
        // Pairs with the Acquire in `await_older`: a thread that sees the slot free sees the records.
        self.slot.store(0, Ordering::Release);
    }
}

impl Clock {
    /// A clock that stands at `gv`, which must not be zero: zero marks a free slot.
    #[cfg(any(test, evendb_loom))]
    pub(crate) fn new(gv: Version) -> Clock {
        Clock::with_wall_clock(gv, Arc::new(crate::expiry::SystemWallClock))
    }

    /// The same, with records that expire by this clock.
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

    /// Takes part in the order of all writes: from here until the announcement is dropped,
    /// snapshots and checkpoints that cover its version wait for it. The caller holds nothing
    /// that an announced operation may wait for, except chunk latches.
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

    /// A snapshot of everything that has returned, and of nothing that begins later. To be given
    /// back with [`Clock::unregister`].
    pub(crate) fn register(&self) -> Version {
        let snapshot = {
            let mut registry = self.registry.lock();
            // Under the mutex, or a collector could read the registry before and GV after this
            // snapshot, and drop what it needs.
            let snapshot = Version(self.gv.fetch_add(1, Ordering::AcqRel));
            registry.entry(snapshot).or_default().handles += 1;
            snapshot
        };
        self.await_older(snapshot.0 + 1);
        snapshot
    }

    /// The same, with the time by which it judges.
    ///
    /// The look at whether anything expires comes after the wait for all writes that the snapshot sees
    /// ([`ExpiryClock::note_use`]). Until the time is noted, a horizon takes it for the least there is.
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

    /// Gives a handle on a snapshot back.
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

    /// Begins the next checkpoint number, and returns its first version once no put of an older
    /// one is pending.
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

    /// Calls `what` with a version that is above all snapshots registered before the call, and not above any that
    /// is registered later: those see what `what` has stored. It must not wait.
    pub(crate) fn between_snapshots(&self, what: impl FnOnce(Version)) {
        let _none_registers = self.registry.lock();
        what(self.now());
    }

    /// Moves on by one version: what is announced from now on has a greater one than what was announced before.
    pub(crate) fn advance(&self) {
        self.gv.fetch_add(1, Ordering::AcqRel);
    }

    /// Which versions a rewrite that starts now may drop.
    pub(crate) fn horizon(&self) -> Horizon {
        let registry = self.registry.lock();
        let mut horizon = Horizon {
            floor: self.floor(),
            snapshots: registry.keys().copied().collect(),
            ..Horizon::default()
        };
        if self.expiry.is_in_use() {
            // Whoever registers from now on asks for its time later.
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

    /// Returns once every put that was pending at the call has withdrawn. Every later put sees
    /// what the caller stored before the call (a keyspace marked as dropped, a closed database).
    pub(crate) fn wait_all_idle_once(&self) {
        // Moving GV tells old puts from new ones, so a slot that is taken again and again cannot
        // hold this up. A put that reads the moved GV sees the caller's stores through it.
        let last = self.gv.fetch_add(1, Ordering::AcqRel);
        self.await_older(last + 1);
    }

    /// Returns once every put that has withdrawn or is announced, and of which the caller has seen a store that it
    /// made while it was announced, has withdrawn: what such puts have made visible is visible to the caller.
    ///
    /// A put claims its slot before that store. So a slot that is free after it was left by that put, or by one
    /// after it in the same slot. A slot that is never seen free may be taken again and again. Then GV moves,
    /// which tells old puts from new ones; as a rule it stays, so that puts of one key go on replacing each other.
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
                // Looking first keeps a taken slot's line shared.
                if slot.load(Ordering::Relaxed) != 0 {
                    continue;
                }
                let version = self.gv.load(Ordering::Acquire);
                // Acquire: this put comes after the one that left the slot.
                let claimed =
                    slot.compare_exchange(0, version, Ordering::AcqRel, Ordering::Relaxed);
                if claimed.is_ok() {
                    if step != 0 {
                        remember(index);
                    }
                    return (slot, version);
                }
            }
            // Nobody waits for this thread yet: it holds no slot.
            pause(&mut tries);
        }
    }

    /// Waits for all puts of versions below `version`, which GV has reached, and says so.
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

    /// Between writing the slot and reading GV.
    #[inline]
    fn fence_to_announce(&self) {
        #[cfg(test)]
        if self.plant == ClockPlant::NoFenceToAnnounce {
            return;
        }
        fence(Ordering::SeqCst);
    }

    /// Between moving or reading GV and reading the slots.
    #[inline]
    fn fence_to_await(&self) {
        #[cfg(test)]
        if self.plant == ClockPlant::NoFenceToAwait {
            return;
        }
        fence(Ordering::SeqCst);
    }

    /// The least version that a snapshot registered from now on can have.
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
        // Two waiters that hand the core to each other for ever are a schedule too, but not one
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
        /// Where this thread found a free slot last: its own cache line as a rule. Threads start
        /// one apart, so that they do not meet at the same slot.
        static SLOT: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS);
    }

    #[inline]
    pub(in crate::version) fn hint() -> usize {
        // A thread that is being torn down may still write: any index will do.
        SLOT.try_with(Cell::get).unwrap_or(0)
    }

    pub(super) fn remember(index: usize) {
        // As above: without the hint the thread starts at 0.
        let _ = SLOT.try_with(|slot| slot.set(index));
    }
}
#[cfg(any(evendb_loom, evendb_shuttle))]
mod hints {
    pub(in crate::version) fn hint() -> usize {
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
