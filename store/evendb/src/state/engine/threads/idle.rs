//! Finds out whether a database is idle ([`crate::rebalance::idle`] acts on it).
//!
//! Thread safety: the state's mutex is a leaf. Whether it is idle is an atomic that any thread may
//! read.

use crate::chunk::Chunk;
use crate::metrics::Metrics;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, Weak};
use std::time::Instant;

/// The value of `at_writes` that means: not idle.
pub(crate) const BUSY: u64 = u64::MAX;

/// State of the idle database.
pub(crate) struct Idle {
    /// The number of writes when the database became idle; it stays idle until there are more
    /// writes.
    pub(crate) at_writes: AtomicU64,
    pub(crate) state: Mutex<IdleState>,
}

#[derive(Default)]
pub(crate) struct IdleState {
    /// The numbers of writes and jobs at the last look that found new ones.
    pub(crate) writes: u64,
    pub(crate) jobs: u64,
    pub(crate) since: Option<Instant>,
    /// The number of bytes that may still be rewritten.
    pub(crate) account_bytes: u64,
    /// The number of deletions that have been credited with bytes to rewrite.
    pub(crate) deletes: u64,
    /// The number of range deletions for which a checkpoint was requested.
    pub(crate) ranges: u64,
    /// Whether the plan was made in this idle time.
    pub(crate) planned: bool,
    /// Chunks to rewrite, with the approximate bytes that each writes; the last one comes first.
    pub(crate) plan: Vec<(Weak<Chunk>, u64)>,
    /// The time at which the next rewrite may begin.
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
        // Relaxed: no other data depends on it.
        self.at_writes.load(Ordering::Relaxed) == metrics.writes()
    }
}
