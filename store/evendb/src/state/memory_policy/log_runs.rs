//! How many runs a chunk's log may have, and how many tables its base: each costs memory, whether
//! it is read or not.
//!
//! Thread safety: any thread; figures of about this moment. Not here: which of the runs are merged
//! ([`crate::rebalance::log_merge`]).

use super::MemoryPolicy;
use crate::chunk::{Chunk, Heat, View};
use crate::memory::Use;
use crate::sync::atomic::{AtomicU32, Ordering};

/// The number of runs from which on the runs of a log are merged: in chunks that are scanned, in
/// other chunks, and in chunks with a whole munk, whose log is not read. While metadata is large it
/// is smaller.
const RUNS_MERGE_SCANNED: u32 = 4;
const RUNS_MERGE: u32 = 12;
const RUNS_MERGE_MUNK: u32 = 32;
/// A log with this number of runs, or with [`RUNS_MOST_TIMES`] times the runs from which on they
/// are merged, gets no other run: the next checkpoint merges its runs first.
const RUNS_MOST: usize = 48;
const RUNS_MOST_TIMES: usize = 4;

/// The number of a base's tables up to which runs may join it: at most, and at least.
const BASE_TABLES_MAX: u32 = 512;
const BASE_TABLES_MIN: u32 = 128;

/// The number of tables that a chunk has in any case.
pub(crate) const RUNS_USUAL: usize = 8;

/// The numbers of runs at which a chunk's log is made shorter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogRuns {
    /// From this number on the newest runs are merged into one. Each run costs a handle, a part in
    /// the manifest's state and an entry in the registry.
    pub(crate) merged_from: usize,
    /// A log with this number gets no other run before its runs are merged.
    pub(crate) most: usize,
}

/// The readers of a chunk's log, as far as counts tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LogReaders {
    /// None: the chunk has a whole munk.
    None,
    /// Gets, which the log's index leads to one run; or scans that may come later.
    Gets,
    /// Scans, which read all runs.
    Scans,
}

/// The readers of the log of the chunk, which has this view.
fn log_readers(chunk: &Chunk, view: &View) -> LogReaders {
    if view.whole_munk().is_some() {
        return LogReaders::None;
    }
    let heat = &chunk.heat;
    // Accesses that the policy has counted, and those since its last round.
    let count = |sum, new: &AtomicU32| Heat::load(sum) + new.load(Ordering::Relaxed) as f32;
    match count(&heat.scan_heat, &heat.scans) > count(&heat.write_heat, &heat.puts) {
        true => LogReaders::Scans,
        false => LogReaders::Gets,
    }
}

impl MemoryPolicy {
    /// The runs that the log of the chunk, which has this view, may have now.
    pub(crate) fn log_runs(&self, chunk: &Chunk, view: &View) -> LogRuns {
        let most = match log_readers(chunk, view) {
            LogReaders::None => RUNS_MERGE_MUNK,
            LogReaders::Gets => RUNS_MERGE,
            LogReaders::Scans => RUNS_MERGE_SCANNED,
        };
        // Small chunks are cheap to rewrite, so their logs are short.
        let most = (self.chunk_bytes_max / 256).clamp(4, u64::from(most)) as u32;
        let merged_from = self.by_metadata(most, 4) as usize;
        LogRuns {
            merged_from,
            most: RUNS_MOST.min(RUNS_MOST_TIMES * merged_from),
        }
    }

    /// The number of tables in a chunk's base from which on runs no longer join it: its next
    /// rewrite merges them into one.
    pub(crate) fn base_tables_max(&self) -> usize {
        self.by_metadata(BASE_TABLES_MAX, BASE_TABLES_MIN) as usize
    }

    /// `most` while metadata is below a tenth of the budget, `least` above a fifth, evenly in
    /// between.
    fn by_metadata(&self, most: u32, least: u32) -> u32 {
        let tenth = (self.limits.usual_budget() / 10).max(1);
        let above = self.ledger.bytes(Use::Metadata).saturating_sub(tenth);
        most - (u64::from(most - least) * above.min(tenth) / tenth) as u32
    }
}
