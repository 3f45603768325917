//! One side of the ledger: a limit, and the bytes of it that are reserved.
//!
//! Thread safety: any thread; one compare-and-swap for each reservation.

use crate::sync::atomic::{AtomicU64, Ordering};
use crossbeam_utils::CachePadded;

/// One limit, and the bytes of it that are reserved.
pub(super) struct Side {
    used: CachePadded<AtomicU64>,
    /// The ring's limit rises when the ring gets more room: an old limit is smaller. That of deltas
    /// follows a part of a shared budget: a request that sees an old one comes before the change.
    /// Relaxed for both.
    limit: AtomicU64,
    /// Whether large requests may go above the limit.
    stretches: bool,
    /// The part of `used` that one request has taken above the limit, alone. What comes back is
    /// taken off here first. The others have the limit to themselves beside it.
    alone: AtomicU64,
}

impl Side {
    pub(super) fn new(limit: u64, stretches: bool) -> Side {
        Side {
            used: CachePadded::new(AtomicU64::new(0)),
            limit: AtomicU64::new(limit),
            stretches,
            alone: AtomicU64::new(0),
        }
    }

    /// Whether a request may go above the limit. A large one may go to twice the limit: otherwise
    /// it would find room only after a checkpoint had freed nearly everything, and would wait for
    /// whole checkpoints. One that is larger than that goes above it in any case, and alone: what
    /// is there must be within the limit, which with it is exceeded for the next large one. Small
    /// ones go on beside it, within the limit. Any request may go above the limit if nothing else
    /// is reserved.
    #[cold]
    fn stretches_for(&self, used: u64, bytes: u64) -> bool {
        let limit = self.limit();
        let twice = limit.saturating_mul(2);
        used == 0
            || (bytes > limit / 4 && used.saturating_add(bytes) <= twice)
            || (bytes > twice && used <= limit)
    }

    /// The sum never exceeds the limit and what is taken alone, unless this request may exceed it:
    /// other threads would see that and queue.
    ///
    /// A request looks at `used` before `alone`, and [`give_back`](Self::give_back) lowers `alone`
    /// before `used`. So a request that looks in between sees too little room; room comes with a
    /// wake-up. It sees too much only by what comes back at the same moment, and in any case no
    /// more than the limit and what was taken alone.
    #[inline]
    pub(super) fn try_take(&self, bytes: u64) -> bool {
        if bytes == 0 {
            return true;
        }
        let limit = self.limit();
        let fits = |used: u64| {
            let sum = used.checked_add(bytes)?;
            let is_within = sum <= limit || sum <= limit.saturating_add(self.alone());
            (is_within || (self.stretches && self.stretches_for(used, bytes))).then_some(sum)
        };
        // AcqRel: a thread that gets room comes after the threads that gave it back.
        let is_taken = self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fits)
            .is_ok();
        if is_taken && self.is_alone_with(bytes) {
            // Not before: others would take room that this request did not have yet.
            self.alone.fetch_max(bytes, Ordering::Release);
        }
        is_taken
    }

    /// Whether a request of this size goes above the limit alone. The others that came to queue
    /// just now have room once it is taken.
    #[inline]
    pub(super) fn is_alone_with(&self, bytes: u64) -> bool {
        self.stretches && bytes > self.limit().saturating_mul(2)
    }

    fn alone(&self) -> u64 {
        self.alone.load(Ordering::Acquire)
    }

    /// Counts bytes whatever the limit is.
    pub(super) fn adopt(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(super) fn raise_limit(&self, limit: u64) {
        self.limit.fetch_max(limit, Ordering::Relaxed);
    }

    pub(super) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub(super) fn give_back(&self, bytes: u64) {
        if self.alone() != 0 {
            let less = |alone: u64| Some(alone.saturating_sub(bytes));
            let _ = self
                .alone
                .fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
        }
        let before = self.used.fetch_sub(bytes, Ordering::AcqRel);
        assert!(before >= bytes, "more came back than was reserved");
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// What is reserved of the limit: all but what one request has taken above it.
    pub(super) fn used_of_limit(&self) -> u64 {
        self.used().saturating_sub(self.alone())
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }
}
