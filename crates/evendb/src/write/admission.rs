//! Admission: room for a put is reserved before the put does anything (I9), so that nothing in it
//! can fail or wait for room later.
//!
//! The ledger has two sides: bytes of the commit log's ring, and bytes of deltas. A reservation is
//! taken on both at once or not at all, and comes back when the checkpoint moves the ring's tail
//! and when deltas leave memory. A side never exceeds its limit, with one exception: more delta
//! bytes than the limit are admitted when no others are reserved.
//!
//! Above 3/4 of either side puts are slowed down in proportion to their bytes; at the limit they
//! queue, first come, first served, so that a large request is not starved by small ones. What
//! reorganisation is behind with slows puts down in the same way, but never stops them: more debt is
//! more space on disk, not a limit.
//!
//! Who waits need not wait for ever: when a checkpoint, the only thing that makes room, found the disk
//! full and nothing else helped, all that wait at that moment are dismissed, in one step: the queue's
//! turn is moved behind the last of them. Each tries once more and leaves.
//!
//! Thread safety: any number of callers. The fast path is one compare-and-swap per side. The
//! queue's mutex is a leaf; `relief` is called without it. No wake-up is lost: a waiter counts
//! itself in `waiters` before it looks at the ledger, who gives back writes the ledger before it
//! looks at `waiters`, each with a `SeqCst` fence between. Not here: what starts a checkpoint
//! ([`Admission::half_full`] only tells), and room on the disk.

use crate::pauses::Waits;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{Condvar, Mutex};
use crossbeam_utils::CachePadded;

/// Why waiting ended without room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// The database closes or failed.
    Cancelled,
    /// What would make room found the disk full.
    Dismissed,
}

/// The ledger.
pub(crate) struct Admission {
    ring: Side,
    delta: Side,
    /// Requests in the queue.
    waiters: CachePadded<AtomicUsize>,
    cancelled: AtomicBool,
    /// How far reorganisation is behind, 0..=[`DEBT_PRESSURE_MAX`].
    debt_pressure: AtomicU64,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Waits for room, the queue included.
    pub(crate) room: Waits,
    /// Delays because there is little room.
    pub(crate) pace: Waits,
    /// Delays because reorganisation is behind.
    pub(crate) debt: Waits,
    #[cfg(test)]
    plant: Plant,
}

/// The most that debt slows puts down: a tenth of a microsecond per byte and thread.
const DEBT_PRESSURE_MAX: u64 = 120;

/// Faults that the models must notice.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Plant {
    #[default]
    Nothing,
    /// Who gives room back looks for waiters before it is back.
    LookBeforeRelease,
    /// Who dismisses wakes nobody.
    DismissInSilence,
}

/// Tickets of the requests that wait: those from `served` on. Who finds its own passed was dismissed.
#[derive(Default)]
struct Queue {
    next: u64,
    served: u64,
}

/// One limit and how much of it is reserved.
struct Side {
    used: CachePadded<AtomicU64>,
    limit: u64,
    /// Whether a request above the limit is admitted alone.
    alone: bool,
}

impl Side {
    fn new(limit: u64, alone: bool) -> Side {
        Side {
            used: CachePadded::new(AtomicU64::new(0)),
            limit,
            alone,
        }
    }

    /// Never goes above the limit, not even for a moment: others would see that and queue.
    #[inline]
    fn try_take(&self, bytes: u64) -> bool {
        if bytes == 0 {
            return true;
        }
        let fits = |used: u64| {
            let sum = used.checked_add(bytes)?;
            (sum <= self.limit || (self.alone && used == 0)).then_some(sum)
        };
        // AcqRel: whoever gets room comes after those who gave it back.
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, fits)
            .is_ok()
    }

    fn give_back(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Ordering::AcqRel);
        assert!(before >= bytes, "more came back than was reserved");
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Admission {
    /// A ledger for a ring of this capacity (0: there is none) and this much delta memory.
    pub(crate) fn new(ring_capacity: u64, delta_bytes_max: u64) -> Admission {
        Admission {
            // The eighth left over is for the filler at the end of a lap.
            ring: Side::new(ring_capacity - ring_capacity / 8, false),
            delta: Side::new(delta_bytes_max, true),
            waiters: CachePadded::new(AtomicUsize::new(0)),
            cancelled: AtomicBool::new(false),
            debt_pressure: AtomicU64::new(0),
            room: Waits::default(),
            pace: Waits::default(),
            debt: Waits::default(),
            queue: Mutex::new(Queue::default()),
            changed: Condvar::new(),
            #[cfg(test)]
            plant: Plant::Nothing,
        }
    }

    /// Counts what recovery found (the live part of the ring, replayed deltas), whatever the
    /// limits. Before any put.
    pub(crate) fn adopt(&self, ring_bytes: u64, delta_bytes: u64) {
        if self.has_ring() {
            self.ring.used.fetch_add(ring_bytes, Ordering::AcqRel);
        }
        self.delta.used.fetch_add(delta_bytes, Ordering::AcqRel);
    }

    /// Reserves both, waiting for room if need be. The caller holds no lock. `relief` asks for a
    /// checkpoint; it is called whenever this is about to wait, so it must be cheap and bear
    /// repetition.
    pub(crate) fn reserve(
        &self,
        ring_bytes: u64,
        delta_bytes: u64,
        relief: &dyn Fn(),
    ) -> Result<(), Refused> {
        let ring_bytes = if self.has_ring() { ring_bytes } else { 0 };
        assert!(
            ring_bytes <= self.ring.limit,
            "a record this long goes to a value extent"
        );
        if self.cancelled.load(Ordering::Acquire) {
            return Err(Refused::Cancelled);
        }
        // Behind those who wait, lest they starve.
        // The first in the queue may have failed for want of what this took for a moment: wake it.
        let undo = || self.give_back(ring_bytes, 0);
        if self.waiters.load(Ordering::Relaxed) != 0
            || !self.try_take(ring_bytes, delta_bytes, undo)
        {
            let wait = || self.reserve_in_turn(ring_bytes, delta_bytes, relief);
            return self.room.time(wait);
        }
        let pressure = self.pressure();
        let debt = self.debt_pressure.load(Ordering::Relaxed);
        if pressure.max(debt) > 0 {
            let waits = if pressure < debt {
                &self.debt
            } else {
                &self.pace
            };
            pace::slow_down(ring_bytes.max(delta_bytes), pressure.max(debt), waits);
        }
        Ok(())
    }

    /// Reorganisation owes `overdue` bytes; from `bound` on puts are slowed as much as they ever are.
    pub(crate) fn set_debt(&self, overdue: u64, bound: u64) {
        let pressure =
            u128::from(overdue) * u128::from(DEBT_PRESSURE_MAX) / u128::from(bound.max(1));
        let pressure = (pressure as u64).min(DEBT_PRESSURE_MAX);
        // Relaxed: a put sooner or later does no harm.
        self.debt_pressure.store(pressure, Ordering::Relaxed);
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
            // Nobody to wake: who fails for want of it in this moment queues behind this one.
            let undo = || self.ring.give_back(ring_bytes);
            let dismissed = queue.served > ticket;
            if (queue.served == ticket || dismissed) && self.try_take(ring_bytes, delta_bytes, undo)
            {
                // Who was dismissed has been passed already.
                queue.served = queue.served.max(ticket + 1);
                break Ok(());
            }
            if dismissed {
                break Err(Refused::Dismissed);
            }
            if asked || queue.served != ticket {
                self.changed.wait(&mut queue);
                asked = false;
            } else {
                // Once more after each wake-up: a checkpoint need not have made room enough.
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

    /// Delta memory came free.
    pub(crate) fn release_delta(&self, bytes: u64) {
        self.give_back(0, bytes);
    }

    /// The ring's tail moved; `ring_bytes_freed` is what `CommitLog::set_tail` returned.
    pub(crate) fn ring_tail_moved(&self, ring_bytes_freed: u64) {
        self.give_back(ring_bytes_freed, 0);
    }

    /// A put did not use all it reserved.
    pub(crate) fn return_unused(&self, ring_bytes: u64, delta_bytes: u64) {
        self.give_back(ring_bytes, delta_bytes);
    }

    /// What was to make room found none on the disk: requests that wait at this moment fail, but
    /// for those that fit by now. Later ones wait for the next attempt.
    pub(crate) fn dismiss(&self) {
        // No fence as in `give_back`: who counts itself later has not asked for relief yet.
        let mut queue = self.queue.lock();
        queue.served = queue.next;
        #[cfg(test)]
        if self.plant == Plant::DismissInSilence {
            return;
        }
        self.changed.notify_all();
    }

    /// The database closes or failed: all requests, waiting or to come, fail.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        // Under the mutex: who looked before is waiting by now.
        let _queue = self.queue.lock();
        self.changed.notify_all();
    }

    /// Reserved bytes of deltas.
    pub(crate) fn delta_used(&self) -> u64 {
        self.delta.used()
    }

    /// Reserved bytes of the ring.
    pub(crate) fn ring_used(&self) -> u64 {
        self.ring.used()
    }

    /// Whether anybody waits for room.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiters.load(Ordering::Relaxed) != 0
    }

    /// Whether either side is above half: time for a checkpoint, so that puts have the other half
    /// while it runs. Of the deltas, `carried` bytes are durable already and wait for a munk or for
    /// their readers; a checkpoint would not free those, so a quarter must be new.
    pub(crate) fn half_full(&self, carried: u64) -> bool {
        let delta = self.delta.used();
        let limit = self.delta.limit;
        (delta > limit / 2 && delta.saturating_sub(carried) > limit / 4)
            || (self.has_ring() && self.ring.used() > self.ring.limit / 2)
    }

    /// How much of the fuller side is reserved, as a share.
    pub(crate) fn fullness(&self) -> f64 {
        let of = |side: &Side| side.used() as f64 / side.limit.max(1) as f64;
        of(&self.delta).max(if self.has_ring() { of(&self.ring) } else { 0.0 })
    }

    /// How much of what debt can slow puts down it does, as a share.
    pub(crate) fn debt_share(&self) -> f64 {
        self.debt_pressure.load(Ordering::Relaxed) as f64 / DEBT_PRESSURE_MAX as f64
    }

    fn has_ring(&self) -> bool {
        self.ring.limit != 0
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

    /// How far above 3/4 the fuller side is, in 1/256 of the last quarter.
    fn pressure(&self) -> u64 {
        let of = |side: &Side| {
            let quarter = side.limit / 4;
            let above = side.used().saturating_sub(side.limit - quarter);
            if above == 0 {
                return 0;
            }
            ((above as u128 * 256 / u128::from(quarter.max(1))) as u64).min(256)
        };
        of(&self.ring).max(of(&self.delta))
    }

    #[inline]
    fn look_early(&self) -> Option<usize> {
        #[cfg(test)]
        if self.plant == Plant::LookBeforeRelease {
            return Some(self.waiters.load(Ordering::Relaxed));
        }
        None
    }
}

/// Slowing puts down in proportion to their bytes.
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod pace {
    use crate::pauses::Waits;
    use crate::sync::thread;
    use std::cell::Cell;
    use std::time::Duration;

    /// The kernel does not sleep much shorter than this.
    const SLEEP_NANOS_MIN: u64 = 200_000;
    const SLEEP_NANOS_MAX: u64 = 1_000_000;

    std::thread_local! {
        /// Delay this thread owes. Collected over puts, since one alone owes less than the
        /// shortest sleep.
        static DEBT_NANOS: Cell<u64> = const { Cell::new(0) };
    }

    /// Delays by up to a microsecond per byte, with the cube of the pressure (0..=256): so the
    /// speed of puts settles where checkpoints keep up, without a jump.
    #[cold]
    pub(super) fn slow_down(bytes: u64, pressure: u64, waits: &Waits) {
        let nanos = bytes.saturating_mul(1000).saturating_mul(pressure.pow(3)) >> 24;
        let owed = DEBT_NANOS.try_with(|debt| {
            let owed = debt.get().saturating_add(nanos);
            debt.set(if owed < SLEEP_NANOS_MIN { owed } else { 0 });
            owed
        });
        let owed = owed.unwrap_or(nanos);
        if owed >= SLEEP_NANOS_MIN {
            waits.time(|| thread::sleep(Duration::from_nanos(owed.min(SLEEP_NANOS_MAX))));
        }
    }
}
#[cfg(any(evendb_loom, evendb_shuttle))]
mod pace {
    pub(super) fn slow_down(_bytes: u64, _pressure: u64, _waits: &crate::pauses::Waits) {
        crate::sync::thread::yield_now();
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
