//! Counters of an open database, and [`Stats`], which shows them.
//!
//! Atomics that pair with nothing: each is a figure of its own.

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

/// How often somebody waited, and how long.
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
    /// How many.
    pub count: u64,
    /// All of them together.
    pub nanos_total: u64,
    /// The longest.
    pub nanos_max: u64,
}

/// What an open database did since it was opened, and what it holds. In bytes, if nothing else is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys and values that were written.
    pub user_bytes: u64,
    /// Written to logs.
    pub log_bytes: u64,
    /// Written to tables of level 0.
    pub flushed_bytes: u64,
    /// Written to tables of deeper levels, when tables went down.
    pub moved_bytes: u64,
    /// Written to tables when those of a guard were merged where they were.
    pub merged_bytes: u64,
    /// Of tables that became others.
    pub compaction_read_bytes: u64,
    /// Memory tables' generations that were flushed.
    pub flushes: u64,
    /// Compactions.
    pub compactions: u64,
    /// Groups of writes that were written together.
    pub groups: u64,
    /// Syncs of logs.
    pub syncs: u64,
    /// Groups that were slowed down, because level 0 had many tables.
    pub slowed: WaitStats,
    /// Groups that waited for a flush or for level 0.
    pub stopped: WaitStats,
    /// What the database plans with.
    pub memory_budget: u64,
    /// Memory tables.
    pub memory_bytes: u64,
    /// Blocks in the cache.
    pub cache_bytes: u64,
    /// Indexes and filters of tables.
    pub table_bytes: u64,
    /// Tables that are kept open.
    pub open_files: u64,
    /// Gets of blocks that the cache had.
    pub cache_hits: u64,
    /// Gets of blocks that it did not have.
    pub cache_misses: u64,
    /// Memory tables that wait to be flushed, and tables of level 0 of which a compaction is due.
    pub debt_bytes: u64,
    /// Tables of each level.
    pub tables: Vec<u64>,
    /// Bytes of each level's tables.
    pub level_bytes: Vec<u64>,
    /// The most sorted runs that a guard of each level has, of level 0 its tables: all levels together, so many a seek looks at
    /// beside memory tables, at most.
    pub runs: Vec<u64>,
    /// Guards of each level, committed ones; level 0 has none.
    pub guards: Vec<u64>,
    /// Keys that are to become guards, of all levels together.
    pub chosen_guards: u64,
    /// Tables that compactions leave as they are until the next opening, because one of their guard is damaged.
    pub set_aside: u64,
    /// Snapshots and scans under way.
    pub readers: u64,
}

impl Stats {
    /// Bytes that were written to the disk: logs and tables. The manifest is not counted.
    pub fn written_bytes(&self) -> u64 {
        self.log_bytes + self.flushed_bytes + self.moved_bytes + self.merged_bytes
    }

    /// Bytes written to the disk for each byte of keys and values that were written. `None` if none was.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.user_bytes > 0).then(|| self.written_bytes() as f64 / self.user_bytes as f64)
    }
}

impl Figures {
    /// The counters. What is looked up elsewhere is zero.
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
