//! What is known of a database being idle ([`crate::rebalance::idle`] acts on it).
//!
//! Thread safety: the state's mutex is a leaf. Whether it is idle is an atomic that anybody may read.

use crate::chunk::Chunk;
use crate::metrics::Metrics;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, Weak};
use std::time::Instant;

/// Not idle.
pub(crate) const BUSY: u64 = u64::MAX;

/// What is known of being idle.
pub(crate) struct Idle {
    /// Writes there had been when it became idle: until there are more, it is.
    pub(crate) at_writes: AtomicU64,
    pub(crate) state: Mutex<IdleState>,
}

#[derive(Default)]
pub(crate) struct IdleState {
    /// Writes and jobs at the last look that found new ones.
    pub(crate) writes: u64,
    pub(crate) jobs: u64,
    pub(crate) since: Option<Instant>,
    /// Bytes that may be rewritten.
    pub(crate) account_bytes: u64,
    /// Deletions that have been earned for.
    pub(crate) deletes: u64,
    /// Made in this idle time.
    pub(crate) planned: bool,
    /// Chunks to rewrite, with about the bytes that each writes; the last one first.
    pub(crate) plan: Vec<(Weak<Chunk>, u64)>,
    /// When the next one may begin.
    pub(crate) next: Option<Instant>,
}

impl Default for Idle {
    fn default() -> Self {
        Idle {
            at_writes: AtomicU64::new(BUSY),
            state: Mutex::default(),
        }
    }
}

impl Idle {
    /// Whether no puts have come for a while, and none since.
    pub(crate) fn is_idle(&self, metrics: &Metrics) -> bool {
        // Relaxed: it tells of nothing else.
        self.at_writes.load(Ordering::Relaxed) == metrics.writes()
    }
}
