//! What the last look at all chunks found ([`crate::rebalance::space`] looks).
//!
//! Thread safety: the atomics order no other data. A decision may read values of two looks, mixed, which
//! does no harm. The mutexes are leaves.

use crate::chunk::{Chunk, Heat};
use crate::metrics::SpaceStats;
use crate::picker::LogBudget;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the last round found.
#[derive(Default)]
pub(crate) struct Space {
    /// [`LogBudget`], the second one as bits of an `f64`; zero before the first round.
    pub(crate) total_bytes: AtomicU64,
    pub(crate) sum_sqrt: AtomicU64,
    /// Added to each chunk's rate, as bits of an `f32`.
    pub(crate) rate_floor: AtomicU32,
    /// A round has been made, and no room has been given back since.
    pub(crate) give_back: AtomicBool,
    /// Held through a round, so that there is one at a time.
    pub(crate) last: Mutex<Option<(Instant, Duration)>>,
    pub(crate) stats: Mutex<SpaceStats>,
    /// Bytes of a record, on average.
    pub(crate) record_bytes: AtomicU64,
    /// Keys and values in tables, obsolete ones included.
    pub(crate) data_bytes: AtomicU64,
    pub(crate) chunks: AtomicU64,
    /// Metadata that merges of runs would free which are due.
    pub(crate) mergeable_bytes: AtomicU64,
}

impl Space {
    /// Whether it is time to give room back; then the caller must do it.
    pub(crate) fn takes_give_back(&self) -> bool {
        self.give_back.swap(false, Ordering::Relaxed)
    }

    /// Whether it is time to give room back, and no thread has begun.
    pub(crate) fn owes_give_back(&self) -> bool {
        self.give_back.load(Ordering::Relaxed)
    }

    /// Chunks there were at the last round.
    pub(crate) fn chunks(&self) -> u64 {
        self.chunks.load(Ordering::Relaxed)
    }

    /// The bytes that logs may take, if a round has been made.
    pub(crate) fn log_budget(&self) -> Option<LogBudget> {
        let sum_sqrt = f64::from_bits(self.sum_sqrt.load(Ordering::Relaxed));
        let total_bytes = self.total_bytes.load(Ordering::Relaxed);
        (sum_sqrt > 0.0).then_some(LogBudget {
            total_bytes,
            sum_sqrt,
        })
    }

    /// A chunk's rate as the square-root rule takes it.
    pub(crate) fn update_rate(&self, chunk: &Chunk) -> f32 {
        Heat::load(&chunk.heat.log_rate) + f32::from_bits(self.rate_floor.load(Ordering::Relaxed))
    }
}
