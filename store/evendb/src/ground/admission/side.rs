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
}

impl Side {
    pub(super) fn new(limit: u64, stretches: bool) -> Side {
        Side {
            used: CachePadded::new(AtomicU64::new(0)),
            limit: AtomicU64::new(limit),
            stretches,
        }
    }

    /// Whether a request may go above the limit. A large one may go to twice the limit: otherwise
    /// it would find room only after a checkpoint had freed nearly everything, and would wait for
    /// whole checkpoints. One that is larger than that goes above it in any case, and alone: what
    /// is there must be within the limit, which with it is exceeded for the next one. Any request
    /// may go above the limit if nothing else is reserved.
    #[cold]
    fn stretches_for(&self, used: u64, bytes: u64) -> bool {
        let limit = self.limit();
        let twice = limit.saturating_mul(2);
        used == 0
            || (bytes > limit / 4 && used.saturating_add(bytes) <= twice)
            || (bytes > twice && used <= limit)
    }

    /// The sum never exceeds the limit, unless this request may exceed it: other threads would see
    /// that and queue.
    #[inline]
    pub(super) fn try_take(&self, bytes: u64) -> bool {
        if bytes == 0 {
            return true;
        }
        let limit = self.limit();
        let fits = |used: u64| {
            let sum = used.checked_add(bytes)?;
            (sum <= limit || (self.stretches && self.stretches_for(used, bytes))).then_some(sum)
        };
        // AcqRel: a thread that gets room comes after the threads that gave it back.
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, fits)
            .is_ok()
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
        let before = self.used.fetch_sub(bytes, Ordering::AcqRel);
        assert!(before >= bytes, "more came back than was reserved");
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }
}
