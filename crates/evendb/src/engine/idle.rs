//! What is known of a database being idle ([`crate::rebalance::idle`] acts on it).
//!
//! Thread safety: the state's mutex is a leaf. Whether it is idle is an atomic that any thread may read.

use crate::chunk::Chunk;
use crate::metrics::Metrics;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, Weak};
use std::time::Instant;

/// The value of `at_writes` that means: not idle.
pub(crate) const BUSY: u64 = u64::MAX;

/// What is known of being idle.
pub(crate) struct Idle {
    /// The number of writes when it became idle; it stays idle until there are more.
    pub(crate) at_writes: AtomicU64,
    pub(crate) state: Mutex<IdleState>,
}

#[derive(Default)]
pub(crate) struct IdleState {
    /// The numbers of writes and jobs at the last look that found new ones.
    pub(crate) writes: u64,
    pub(crate) jobs: u64,
    pub(crate) since: Option<Instant>,
    /// Bytes that may be rewritten.
    pub(crate) account_bytes: u64,
    /// Deletions for which bytes to rewrite have been earned.
    pub(crate) deletes: u64,
    /// Range deletions for which a checkpoint was asked.
    pub(crate) ranges: u64,
    /// Whether the plan was made in this idle time.
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
        // Relaxed: no other data hangs on it.
        self.at_writes.load(Ordering::Relaxed) == metrics.writes()
    }
}
