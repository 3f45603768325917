//! Counters of an open database, and [`Stats`], which shows them.
//!
//! They are atomics that order nothing else: each figure stands alone.

use evendb_base::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) user_bytes: AtomicU64,
    pub(crate) log_bytes: AtomicU64,
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) moved_bytes: AtomicU64,
    pub(crate) merged_bytes: AtomicU64,
    pub(crate) compaction_read_bytes: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) groups: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) slowed: Waits,
    pub(crate) stopped: Waits,
}

/// How often threads waited, and how long.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    count: AtomicU64,
    nanos_total: AtomicU64,
    nanos_max: AtomicU64,
}

impl Waits {
    pub(crate) fn add(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Relaxed);
        self.nanos_total.fetch_add(nanos, Relaxed);
        self.nanos_max.fetch_max(nanos, Relaxed);
    }

    fn stats(&self) -> WaitStats {
        WaitStats {
            count: self.count.load(Relaxed),
            nanos_total: self.nanos_total.load(Relaxed),
            nanos_max: self.nanos_max.load(Relaxed),
        }
    }
}

/// Waits of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitStats {
    /// The number of waits.
    pub count: u64,
    /// The sum of their durations.
    pub nanos_total: u64,
    /// The longest duration.
    pub nanos_max: u64,
}

/// What an open database did since it was opened, and what it holds. Figures are bytes, unless the
/// field says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys and values that were written.
    pub user_bytes: u64,
    /// Written to logs.
    pub log_bytes: u64,
    /// Written to tables that were made from memory tables.
    pub flushed_bytes: u64,
    /// Written to tables of deeper levels, when tables went down.
    pub moved_bytes: u64,
    /// Written to tables when tables of a guard were merged in place.
    pub merged_bytes: u64,
    /// Read from tables that became other tables.
    pub compaction_read_bytes: u64,
    /// The number of flushes: each makes tables from one generation of memory tables.
    pub flushes: u64,
    /// The number of compactions.
    pub compactions: u64,
    /// The number of groups: writes that were written together.
    pub groups: u64,
    /// The number of syncs of logs.
    pub syncs: u64,
    /// Groups that were slowed down, because level 0 had many tables.
    pub slowed: WaitStats,
    /// Groups that waited for a flush or for level 0.
    pub stopped: WaitStats,
    /// The memory budget by which the database plans.
    pub memory_budget: u64,
    /// Memory tables.
    pub memory_bytes: u64,
    /// Blocks in the cache.
    pub cache_bytes: u64,
    /// Indexes and filters of tables.
    pub table_bytes: u64,
    /// The number of tables that are kept open.
    pub open_files: u64,
    /// Gets of blocks that the cache had.
    pub cache_hits: u64,
    /// Gets of blocks that it did not have.
    pub cache_misses: u64,
    /// Memory tables that wait to be flushed, and tables of level 0 if a compaction of them is due.
    pub debt_bytes: u64,
    /// The number of tables in each level.
    pub tables: Vec<u64>,
    /// Bytes of each level's tables.
    pub level_bytes: Vec<u64>,
    /// For each level the greatest number of sorted runs in one of its guards; for level 0 the
    /// number of its tables. The sum is the greatest number of tables that a seek looks at, beside
    /// memory tables.
    pub runs: Vec<u64>,
    /// The number of committed guards in each level; level 0 has none.
    pub guards: Vec<u64>,
    /// The number of keys that will become guards, over all levels.
    pub chosen_guards: u64,
    /// The number of tables that compactions leave as they are until the next opening, because a
    /// table of their guard is damaged.
    pub set_aside: u64,
    /// The number of snapshots and running scans.
    pub readers: u64,
}

impl Stats {
    /// Bytes that were written to the disk: logs and tables. The manifest is not counted.
    pub fn written_bytes(&self) -> u64 {
        self.log_bytes + self.flushed_bytes + self.moved_bytes + self.merged_bytes
    }

    /// Bytes written to the disk for each byte of keys and values written. `None` if nothing was
    /// written.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.user_bytes > 0).then(|| self.written_bytes() as f64 / self.user_bytes as f64)
    }
}

impl Figures {
    /// The counters. Figures that are looked up elsewhere are zero.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            user_bytes: self.user_bytes.load(Relaxed),
            log_bytes: self.log_bytes.load(Relaxed),
            flushed_bytes: self.flushed_bytes.load(Relaxed),
            moved_bytes: self.moved_bytes.load(Relaxed),
            merged_bytes: self.merged_bytes.load(Relaxed),
            compaction_read_bytes: self.compaction_read_bytes.load(Relaxed),
            flushes: self.flushes.load(Relaxed),
            compactions: self.compactions.load(Relaxed),
            groups: self.groups.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
            slowed: self.slowed.stats(),
            stopped: self.stopped.stats(),
            ..Stats::default()
        }
    }
}
