//! Admission: room for a put is reserved before the put does anything (I9), so that nothing in it
//! can fail or wait for room later.
//!
//! The ledger has two sides: bytes of the commit log's ring, and bytes of deltas. A reservation is
//! taken on both at once or not at all, and comes back when the checkpoint moves the ring's tail
//! and when deltas leave memory. The deltas exceed their limit in two cases only: a batch of more
//! than a quarter of it may take them to twice the limit (the caches shrink meanwhile), and a batch
//! of more than twice the limit is let in alone: what is reserved must be within the limit, and is
//! beyond it from then on, so no second one comes until checkpoints have freed enough. Others have
//! the limit beside it: a put does not wait until the large one has been written to disk.
//!
//! Above 3/4 of either side puts are slowed down in proportion to their bytes, and more with less
//! room left. So one long sync of a busy disk does not take them to the limit. At the limit they
//! queue, first come, first served, so that small requests do not starve a large one.
//! Reorganisation that is owed slows puts down in a similar way, but never stops them: more debt
//! costs space on disk and meets no limit.
//!
//! A wait can end without room. Only a checkpoint makes room; if it found the disk full and nothing
//! else helped, all requests that wait at that moment are dismissed in one step: the queue's turn
//! is moved behind the last of them. Each tries once more and leaves.
//!
//! Thread safety: any number of callers. The fast path is one compare-and-swap for each side. The
//! queue's mutex is a leaf; `relief` is called without it. No wake-up is lost: a waiter counts
//! itself in `waiters` before it looks at the ledger; a thread that gives room back writes the
//! ledger before it looks at `waiters`; each has a `SeqCst` fence between its two steps. Not here:
//! what starts a checkpoint ([`Admission::half_full`] only tells when one is due), and room on the
//! disk.

#[cfg_attr(any(evendb_loom, evendb_shuttle), path = "pace/models.rs")]
mod pace;
mod side;

use crate::metrics::pauses::Waits;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{Condvar, Mutex};
use crate::trace;
use crossbeam_utils::CachePadded;
use side::Side;
use std::time::Duration;

/// Why waiting ended without room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// The database closes or failed.
    Cancelled,
    /// The checkpoint that would make room found the disk full.
    Dismissed,
}

/// The ledger.
pub(crate) struct Admission {
    ring: Side,
    delta: Side,
    /// The most bytes of deltas that were reserved lately.
    delta_peak: AtomicU64,
    /// The part of the reserved delta bytes whose deltas are durable already.
    carried: CachePadded<AtomicU64>,
    /// Bytes of range deletions in views that no checkpoint has taken.
    covers: AtomicU64,
    /// Requests in the queue.
    waiters: CachePadded<AtomicUsize>,
    cancelled: AtomicBool,
    /// How far reorganisation is behind, 0..=[`DEBT_PRESSURE_MAX`].
    debt_pressure: AtomicU64,
    /// Nanoseconds that a byte costs because metadata is large, as bits of an `f64`.
    metadata_nanos: AtomicU64,
    /// When puts may continue that are delayed because there is little room.
    schedule: pace::Schedule,
    queue: Mutex<TicketQueue>,
    changed: Condvar,
    /// A waiter must look again by itself: there are no threads that would make room later.
    is_alone: bool,
    /// Waits for room, from entering the queue on.
    pub(crate) room: Waits,
    /// Delays because there is little room.
    pub(crate) pace: Waits,
    /// Delays because reorganisation is behind.
    pub(crate) debt: Waits,
    #[cfg(test)]
    plant: AdmissionPlant,
}

/// How long the first waiter lets others continue before it makes room once more, in a database
/// without threads.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The most that debt slows puts down: a tenth of a microsecond for each byte, in each thread.
const DEBT_PRESSURE_MAX: u64 = 120;

/// The share of the greatest slowdown from which on debt is felt: by its cube, a hundredth of that.
const DEBT_FELT: f64 = 0.2;

/// Faults that the models must notice.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum AdmissionPlant {
    #[default]
    Nothing,
    /// A thread that gives room back looks for waiters before the room is back.
    LookBeforeRelease,
    /// Waiting requests are dismissed and not woken.
    DismissInSilence,
    /// Requests that came to wait beside one that is let in alone are not woken.
    AloneInSilence,
}

/// Tickets of the requests that wait: those from `served` on. A request whose ticket was passed has
/// been dismissed.
#[derive(Default)]
struct TicketQueue {
    next: u64,
    served: u64,
}

/// The part of a ring's `usable` bytes that is admitted. An eighth is left for the filler at the
/// end of a lap.
fn ring_limit(usable: u64) -> u64 {
    usable - usable / 8
}

/// Waits, and reports the wait if it was long. A put that waits for nothing is never reported,
/// however long its thread rests or reserves room for later puts: the first put of an empty
/// database does that.
fn tell_stalls<T>(ring_bytes: u64, delta_bytes: u64, wait: impl FnOnce() -> T) -> T {
    let watch = trace::Stopwatch::start();
    let result = wait();
    let waited_micros = watch.micros();
    if waited_micros >= trace::STALL_MICROS {
        trace::event!(
            WARN,
            "stalled",
            ring_bytes = ring_bytes,
            delta_bytes = delta_bytes,
            duration_micros = waited_micros
        );
    }
    result
}

impl Admission {
    /// A ledger for a ring with this number of usable bytes (0: there is no ring) and for this
    /// number of bytes of deltas.
    pub(crate) fn new(ring_usable: u64, delta_bytes_max: u64) -> Admission {
        Admission {
            ring: Side::new(ring_limit(ring_usable), false),
            delta: Side::new(delta_bytes_max, true),
            delta_peak: AtomicU64::new(0),
            carried: CachePadded::new(AtomicU64::new(0)),
            covers: AtomicU64::new(0),
            waiters: CachePadded::new(AtomicUsize::new(0)),
            cancelled: AtomicBool::new(false),
            debt_pressure: AtomicU64::new(0),
            metadata_nanos: AtomicU64::new(0),
            schedule: pace::Schedule::default(),
            room: Waits::default(),
            pace: Waits::default(),
            debt: Waits::default(),
            queue: Mutex::new(TicketQueue::default()),
            changed: Condvar::new(),
            is_alone: false,
            #[cfg(test)]
            plant: AdmissionPlant::Nothing,
        }
    }

    /// Sets whether the database has no threads: then the requests that wait for room make it.
    pub(crate) fn alone(mut self, is_alone: bool) -> Admission {
        self.is_alone = is_alone;
        self
    }

    /// Counts the bytes that recovery found (the live part of the ring, replayed deltas), whatever
    /// the limits. Called before any put.
    pub(crate) fn adopt(&self, ring_bytes: u64, delta_bytes: u64) {
        if self.has_ring() {
            self.ring.adopt(ring_bytes);
        }
        self.delta.adopt(delta_bytes);
    }

    /// Counts a change of a delta's size, from `before` to `after`, for which nothing was reserved.
    /// The size falls where a record has left others behind.
    pub(crate) fn adopt_change(&self, before: u64, after: u64) {
        match after > before {
            true => self.adopt(0, after - before),
            false => self.give_back(0, before - after),
        }
    }

    /// Reserves both, waiting for room if necessary. The caller holds no lock. `relief` asks for a
    /// checkpoint; it is called whenever this is about to wait, so it must be cheap and may be
    /// repeated.
    pub(crate) fn reserve(
        &self,
        ring_bytes: u64,
        delta_bytes: u64,
        relief: &dyn Fn(),
    ) -> Result<(), Refused> {
        let ring_bytes = if self.has_ring() { ring_bytes } else { 0 };
        assert!(
            ring_bytes <= self.ring.limit(),
            "a record this long goes to a value extent"
        );
        if self.cancelled.load(Ordering::Acquire) {
            return Err(Refused::Cancelled);
        }
        // Behind the requests that wait already, so that they do not starve. The first in the queue
        // may have failed because this request held the bytes for a moment: wake it.
        let undo = || self.give_back(ring_bytes, 0);
        if self.waiters.load(Ordering::Relaxed) != 0
            || !self.try_take(ring_bytes, delta_bytes, undo)
        {
            let wait = || self.reserve_in_turn(ring_bytes, delta_bytes, relief);
            return tell_stalls(ring_bytes, delta_bytes, || self.room.time(wait));
        }
        self.tell_of_room_beside(delta_bytes);
        let bytes = ring_bytes.max(delta_bytes);
        if let Some(nanos_per_byte) = self.nanos_per_byte() {
            let wait = || self.schedule.slow_down(bytes, nanos_per_byte, &self.pace);
            tell_stalls(ring_bytes, delta_bytes, wait);
        } else {
            let debt = self.debt_pressure.load(Ordering::Relaxed);
            if debt > 0 {
                let wait = || pace::slow_down(bytes, debt, &self.debt);
                tell_stalls(ring_bytes, delta_bytes, wait);
            }
        }
        Ok(())
    }

    /// Reserves both if that needs no wait and no pause, and if no request waits before this one.
    /// Returns whether it did. Debt counts where it would slow a put down noticeably.
    pub(crate) fn try_reserve(&self, ring_bytes: u64, delta_bytes: u64) -> Result<bool, Refused> {
        let ring_bytes = if self.has_ring() { ring_bytes } else { 0 };
        if self.cancelled.load(Ordering::Acquire) {
            return Err(Refused::Cancelled);
        }
        let is_slowed = || self.nanos_per_byte().is_some() || self.debt_share() > DEBT_FELT;
        if self.is_waited_for() || is_slowed() {
            return Ok(false);
        }
        let undo = || self.give_back(ring_bytes, 0);
        let is_taken = self.try_take(ring_bytes, delta_bytes, undo);
        if is_taken {
            self.tell_of_room_beside(delta_bytes);
        }
        Ok(is_taken)
    }

    /// A request was let in alone: those that came to queue between its two steps may fit now.
    #[inline]
    fn tell_of_room_beside(&self, delta_bytes: u64) {
        #[cfg(test)]
        if self.plant == AdmissionPlant::AloneInSilence {
            return;
        }
        if self.delta.is_alone_with(delta_bytes) {
            self.give_back(0, 0);
        }
    }

    /// Notes that reorganisation owes `overdue` bytes. From `bound` bytes on the slowdown of puts
    /// is at its maximum.
    pub(crate) fn set_debt(&self, overdue: u64, bound: u64) {
        let pressure =
            u128::from(overdue) * u128::from(DEBT_PRESSURE_MAX) / u128::from(bound.max(1));
        let pressure = (pressure as u64).min(DEBT_PRESSURE_MAX);
        // Relaxed: one put sooner or later does no harm.
        self.debt_pressure.store(pressure, Ordering::Relaxed);
    }

    /// Notes that metadata of logs takes `above` bytes more than it should; `span` is the most.
    /// Puts are slowed as if the share `above / span` of the last quarter of room were used, but
    /// never stopped.
    pub(crate) fn set_metadata(&self, above: u64, span: u64) {
        let nanos = match above {
            0 => 0.0,
            _ => {
                let free = span.saturating_sub(above).max(span / 64).max(1) as f64;
                pace::TAU_NANOS * (1.0 / free - 1.0 / span.max(1) as f64)
            }
        };
        // Relaxed: one put sooner or later does no harm.
        self.metadata_nanos
            .store(nanos.max(0.0).to_bits(), Ordering::Relaxed);
    }

    /// Notes that a range deletion has come to views, where it takes this number of bytes.
    pub(crate) fn cover_added(&self, bytes: u64) {
        // Relaxed: the sum decides when a checkpoint begins, and nothing else.
        self.covers.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that a checkpoint begins, which takes all range deletions of now.
    pub(crate) fn covers_taken(&self) {
        self.covers.store(0, Ordering::Relaxed);
    }

    /// Whether range deletions that are not durable take enough that one more should wait for the
    /// next checkpoint: until then their bytes only grow.
    pub(crate) fn covers_are_full(&self) -> bool {
        self.covers.load(Ordering::Relaxed) > self.delta.limit() / 2
    }

    /// Nanoseconds for each byte that puts are slowed because metadata is large; 0 if they are not.
    pub(crate) fn metadata_nanos(&self) -> f64 {
        f64::from_bits(self.metadata_nanos.load(Ordering::Relaxed))
    }

    #[cold]
    fn reserve_in_turn(
        &self,
        ring_bytes: u64,
        delta_bytes: u64,
        relief: &dyn Fn(),
    ) -> Result<(), Refused> {
        let mut queue = self.queue.lock();
        let ticket = queue.next;
        queue.next += 1;
        self.waiters.fetch_add(1, Ordering::AcqRel);
        let mut asked = false;
        let result = loop {
            // Pairs with the fence in `give_back`: this sees the room, or that sees the waiter.
            fence(Ordering::SeqCst);
            if self.cancelled.load(Ordering::Acquire) {
                break Err(Refused::Cancelled);
            }
            // No thread has to be woken: a thread that finds too little at this moment queues
            // behind this one.
            let undo = || self.ring.give_back(ring_bytes);
            let dismissed = queue.served > ticket;
            if (queue.served == ticket || dismissed) && self.try_take(ring_bytes, delta_bytes, undo)
            {
                // The ticket of a dismissed request has been passed already.
                queue.served = queue.served.max(ticket + 1);
                break Ok(());
            }
            if dismissed {
                break Err(Refused::Dismissed);
            }
            if asked && self.is_alone {
                // Memory that this thread released comes back when no other thread is pinned, and
                // another thread's checkpoint may have been under way: nobody would report it, and
                // the others may all come to wait here too.
                self.changed.wait_for(&mut queue, LOOK_AGAIN);
                asked = false;
            } else if asked || queue.served != ticket {
                self.changed.wait(&mut queue);
                asked = false;
            } else {
                // Asked for again after each wake-up: one checkpoint may make too little room.
                drop(queue);
                relief();
                asked = true;
                queue = self.queue.lock();
            }
        };
        self.waiters.fetch_sub(1, Ordering::AcqRel);
        // The next in the queue may fit too.
        if queue.served != queue.next {
            self.changed.notify_all();
        }
        result
    }

    /// Notes that delta memory came free.
    pub(crate) fn release_delta(&self, bytes: u64) {
        self.give_back(0, bytes);
    }

    /// Notes that the ring's tail moved; `ring_bytes_freed` is what `CommitLog::set_tail` returned.
    pub(crate) fn ring_tail_moved(&self, ring_bytes_freed: u64) {
        self.give_back(ring_bytes_freed, 0);
    }

    /// Notes that a put did not use everything that it reserved.
    pub(crate) fn return_unused(&self, ring_bytes: u64, delta_bytes: u64) {
        self.give_back(ring_bytes, delta_bytes);
    }

    /// Dismisses the requests that wait at this moment, because the checkpoint that should make
    /// room found the disk full. Those that fit by now succeed, the others fail. Later ones wait
    /// for the next attempt.
    pub(crate) fn dismiss(&self) {
        // No fence is needed, unlike in `give_back`: a thread that counts itself later has not
        // asked for relief yet.
        let mut queue = self.queue.lock();
        queue.served = queue.next;
        #[cfg(test)]
        if self.plant == AdmissionPlant::DismissInSilence {
            return;
        }
        self.changed.notify_all();
    }

    /// Ends admission because the database closes or failed: all requests fail, those that wait and
    /// later ones.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        // Under the mutex: a thread that looked before this store is waiting by now.
        let _queue = self.queue.lock();
        self.changed.notify_all();
    }

    /// Reserved bytes of deltas.
    pub(crate) fn delta_used(&self) -> u64 {
        self.delta.used()
    }

    /// The most bytes of deltas that were reserved lately.
    pub(crate) fn delta_peak(&self) -> u64 {
        let noted = self.delta_peak.load(Ordering::Relaxed);
        noted.max(self.delta_used())
    }

    /// Lets the peak sink a little, down to the bytes that are reserved now: half of the way in 89
    /// calls. What one write that was let in alone had above twice the limit is forgotten at once.
    /// One thread calls it.
    pub(crate) fn let_delta_peak_sink(&self) {
        let peak = self.delta_peak();
        let sunk = (peak - peak.div_ceil(128)).max(self.delta_used());
        let sunk = sunk.min(self.delta.limit().saturating_mul(2));
        self.delta_peak.store(sunk, Ordering::Relaxed);
    }

    /// Bytes of deltas that the next checkpoint has to write: all reserved bytes except those of
    /// durable deltas. Only they need room on the disk.
    pub(crate) fn delta_to_write(&self) -> u64 {
        // Read in this order, which fits the order of steps at a delta's end: a delta that comes or
        // goes in between is counted. Relaxed: a checkpoint copes with too little room.
        let used = self.delta_used();
        used.saturating_sub(self.carried.load(Ordering::Relaxed))
    }

    /// Reserved bytes of the ring.
    pub(crate) fn ring_used(&self) -> u64 {
        self.ring.used()
    }

    /// Notes that the ring has grown, and the number of its usable bytes now.
    pub(crate) fn ring_has_grown(&self, usable: u64) {
        self.ring.raise_limit(ring_limit(usable));
        // A request that waits may fit now.
        self.give_back(0, 0);
    }

    /// Sets the number of bytes of deltas that may be reserved. If more are reserved, the next
    /// requests wait until they are fewer.
    pub(crate) fn set_delta_limit(&self, bytes: u64) {
        self.delta.set_limit(bytes);
        // A request that waits may fit now.
        self.give_back(0, 0);
    }

    /// Whether more than `eighths` of the ring would be reserved with `bytes` more.
    pub(crate) fn ring_fuller_than(&self, eighths: u64, bytes: u64) -> bool {
        self.has_ring() && (self.ring.used() + bytes) * 8 > self.ring.limit() * eighths
    }

    /// Whether any request waits for room.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiters.load(Ordering::Relaxed) != 0
    }

    /// Notes that a delta of this number of bytes is durable: a checkpoint would not free it any
    /// more.
    pub(crate) fn carry(&self, bytes: u64) {
        self.carried.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that a durable delta is gone from memory.
    pub(crate) fn carry_no_more(&self, bytes: u64) {
        let before = self.carried.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "more is gone than was carried");
    }

    /// Whether it is time for a checkpoint, so that puts have room while it runs. It is time in
    /// three cases: the ring is above half; or range deletions take a quarter of the deltas' limit;
    /// or deltas take half of it, and enough of their bytes are new. A checkpoint frees no delta
    /// that is durable already (it waits for a munk, for its readers, or for its grace period). The
    /// rest of the limit is room for new records: half of that must be used, or a quarter of the
    /// whole limit.
    pub(crate) fn half_full(&self) -> bool {
        let delta = self.delta.used();
        let limit = self.delta.limit();
        // Relaxed: one checkpoint more or less does no harm.
        if self.covers.load(Ordering::Relaxed) > limit / 4 {
            return true;
        }
        let carried = self.carried.load(Ordering::Relaxed);
        let new_bytes = delta.saturating_sub(carried);
        let half_of_the_rest = limit.saturating_sub(carried) / 2;
        // A few bytes are not worth a run in each of their chunks.
        let enough = half_of_the_rest.clamp(limit / 16, limit / 4);
        (delta > limit / 2 && new_bytes > enough)
            || (self.has_ring() && self.ring.used() > self.ring.limit() / 2)
    }

    /// The reserved share of the fuller side.
    pub(crate) fn fullness(&self) -> f64 {
        let of = |side: &Side| side.used_of_limit() as f64 / side.limit().max(1) as f64;
        of(&self.delta).max(if self.has_ring() { of(&self.ring) } else { 0.0 })
    }

    /// How much debt slows puts down, as a share of the greatest slowdown.
    pub(crate) fn debt_share(&self) -> f64 {
        self.debt_pressure.load(Ordering::Relaxed) as f64 / DEBT_PRESSURE_MAX as f64
    }

    /// Whether puts wait for reorganisation, or are about to.
    pub(crate) fn is_behind(&self) -> bool {
        self.fullness() > 0.7 || self.debt_share() > DEBT_FELT
    }

    fn has_ring(&self) -> bool {
        self.ring.limit() != 0
    }

    /// Takes both or none. `undo` gives ring bytes back that were taken for a moment.
    fn try_take(&self, ring_bytes: u64, delta_bytes: u64, undo: impl FnOnce()) -> bool {
        if !self.ring.try_take(ring_bytes) {
            return false;
        }
        if self.delta.try_take(delta_bytes) {
            return true;
        }
        undo();
        false
    }

    fn give_back(&self, ring_bytes: u64, delta_bytes: u64) {
        let looked = self.look_early();
        if self.has_ring() && ring_bytes != 0 {
            self.ring.give_back(ring_bytes);
        }
        if delta_bytes != 0 {
            self.delta.give_back(delta_bytes);
        }
        // Pairs with the fence in `reserve_in_turn`.
        fence(Ordering::SeqCst);
        let waiters = looked.unwrap_or_else(|| self.waiters.load(Ordering::Relaxed));
        if waiters != 0 {
            let _queue = self.queue.lock();
            self.changed.notify_all();
        }
    }

    /// Nanoseconds that a byte costs all puts together while the fuller side is above 3/4: none at
    /// 3/4, and towards the limit enough to make the last quarter last for seconds if no room comes
    /// back.
    ///
    /// With f the free share of the last quarter, bytes are admitted at `quarter / TAU * f / (1 -
    /// f)` a second, so from a start at 3/4 it takes `TAU * (ln(1 / f) - 1)` to come down to f.
    /// Where the quarter is small TAU is less, down to nothing, because otherwise puts would crawl
    /// at every checkpoint.
    fn nanos_per_byte(&self) -> Option<f64> {
        let of = |side: &Side| {
            let limit = side.limit();
            let quarter = limit / 4;
            let used = side.used_of_limit();
            if used <= limit - quarter {
                return 0.0;
            }
            let free = limit.saturating_sub(used).max(1) as f64;
            let quarter = quarter.max(1) as f64;
            let (none, all) = pace::QUARTERS;
            let part = ((quarter - none) / (all - none)).clamp(0.0, 1.0);
            part * pace::TAU_NANOS * (1.0 / free - 1.0 / quarter).max(0.0)
        };
        let nanos = of(&self.ring)
            .max(of(&self.delta))
            .max(self.metadata_nanos());
        (nanos > 0.0).then_some(nanos)
    }

    #[inline]
    fn look_early(&self) -> Option<usize> {
        #[cfg(test)]
        if self.plant == AdmissionPlant::LookBeforeRelease {
            return Some(self.waiters.load(Ordering::Relaxed));
        }
        None
    }
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission")
            .field("ring_used", &self.ring_used())
            .field("delta_used", &self.delta_used())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, evendb_loom))]
mod models;
#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
