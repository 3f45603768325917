//! Results of the last look at all chunks ([`crate::rebalance::space`] looks).
//!
//! Thread safety: the atomics order no other data. A decision may read a mix of values from two
//! looks, which does no harm. The mutexes are leaves.

use crate::chunk::{Chunk, Heat};
use crate::metrics::SpaceStats;
use crate::picker::LogBudget;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Results of the last round.
#[derive(Default)]
pub(crate) struct Space {
    /// The parts of [`LogBudget`]; the second one holds the bits of an `f64`. Zero before the first
    /// round.
    pub(crate) total_bytes: AtomicU64,
    pub(crate) sum_sqrt: AtomicU64,
    /// Added to each chunk's rate; the bits of an `f32`.
    pub(crate) rate_floor: AtomicU32,
    /// A round has been made, and no room has been given back since.
    pub(crate) give_back: AtomicBool,
    /// Held through a round, so that only one runs at a time.
    pub(crate) last: Mutex<Option<(Instant, Duration)>>,
    pub(crate) stats: Mutex<SpaceStats>,
    /// Average bytes of a record.
    pub(crate) record_bytes: AtomicU64,
    /// Bytes of keys and values in tables, obsolete ones included.
    pub(crate) data_bytes: AtomicU64,
    pub(crate) chunks: AtomicU64,
    /// Bytes of metadata that due merges of runs would free.
    pub(crate) mergeable_bytes: AtomicU64,
}

impl Space {
    /// Takes the note that room should be given back; if it returns true, the caller must give it
    /// back.
    pub(crate) fn takes_give_back(&self) -> bool {
        self.give_back.swap(false, Ordering::Relaxed)
    }

    /// Whether room should be given back and no thread has begun to.
    pub(crate) fn owes_give_back(&self) -> bool {
        self.give_back.load(Ordering::Relaxed)
    }

    /// The number of chunks at the last round.
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

    /// A chunk's rate in the square-root rule.
    pub(crate) fn update_rate(&self, chunk: &Chunk) -> f32 {
        Heat::load(&chunk.heat.log_rate) + f32::from_bits(self.rate_floor.load(Ordering::Relaxed))
    }
}
