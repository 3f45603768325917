//! How much of the memory budget each use may have, and what gives way when a use has too much.
//!
//! ```text
//! fixed at opening  ring, deltas, reserve                                 MemoryLimits
//!                   the part of deltas and ring that puts do not use      MemoryLimits::lent
//!                   is lent to the caches
//! as counted        metadata, buffers           whatever they take now
//! up to a share     open tables, log searches   a third of what is left   indexes, tend_memory
//!                                               (an eighth of all at least)
//! the rest          munks and rows together                               cache_bytes
//!
//! gives way         searches: a filter for an index, then none            shrink_searches
//!                   metadata: fewer runs in a log                         log_runs_merge
//!                   metadata: then slower puts                            slow_for_metadata
//!                   buffers:  cursors read less at a time                 buffers_are_short
//!                   pages that users' values keep: values are copied      note_kept_pages
//! ```
//!
//! Invariants: nothing here takes memory away from a call that has it; each share is a target that
//! the next rounds come down to. The caches get the memory that all others leave, so memory that is
//! charged to the others is never given to munks and rows too.
//!
//! Thread safety: any thread may ask, and gets figures of about this moment. [`tend_memory`] is
//! called by upkeep, or by the put that does its work. Not here: what is charged
//! ([`crate::memory`]), which munks and rows go ([`crate::cache`]), which tables are closed
//! ([`crate::funk::tables`]).

use crate::catalog::Catalog;
use crate::chunk::{Chunk, Heat, View};
use crate::commit_log::CommitLog;
use crate::engine::Engine;
use crate::engine::caches::Caches;
use crate::engine::core::Core;
use crate::engine::log::Log;
use crate::engine::space::Space;
use crate::memory::{CHUNK_BYTES, TABLE_BYTES, Use, slab};
use crate::options::Options;
use crate::sync::atomic::{AtomicU32, Ordering};

/// Parts of the budget that do not depend on what the database holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemoryLimits {
    budget: u64,
    ring: u64,
    deltas: u64,
    reserve: u64,
}

impl MemoryLimits {
    /// The limits for these options, with a mapped commit log of `ring` bytes (0: there is none).
    pub(crate) fn of(options: &Options, ring: u64) -> MemoryLimits {
        let budget = options.memory_budget;
        MemoryLimits {
            budget,
            ring,
            deltas: options.delta_bytes_max(),
            // A sixteenth. For small budgets it is an eighth, but at most 24 MiB: threads,
            // libraries and the heap's holes take some memory anyway.
            reserve: (budget / 16).max((24 << 20).min(budget / 8)),
        }
    }

    /// The bytes that are left after ring, deltas, reserve and `others`.
    fn left(&self, others: u64) -> u64 {
        let fixed = self.ring + self.deltas + self.reserve;
        self.budget.saturating_sub(fixed + others)
    }

    /// The bytes that the caches may have of the memory of deltas and ring, after what puts used
    /// lately.
    fn lent(&self, lately: &UsedLately) -> u64 {
        // The ring gets memory back from the system, not from holes that spans leave: so more of
        // the ring's memory stays free.
        let ring = self.ring - self.ring / AHEAD_PART;
        lendable(self.deltas, lately.deltas) + lendable(ring, lately.ring)
    }

    /// The bytes that open tables and log searches may take together, besides these bytes of
    /// metadata. A cold get without its block index reads twice, so they come before rows and
    /// munks, up to a third.
    fn indexes(&self, metadata: u64) -> u64 {
        (self.left(metadata) / 3).max(self.budget / 8)
    }
}

/// The memory that puts have used lately.
struct UsedLately {
    /// The most bytes of deltas.
    deltas: u64,
    /// Bytes of the ring since its memory was last given back.
    ring: u64,
}

/// The bytes that the caches may have of `all` bytes of a kind, when puts used `used` of them
/// lately: all others, except a part that puts may take at once. Puts never wait for lent memory.
/// While they take it, spans are evicted, which needs no I/O; until that is done, the reserve
/// covers it.
fn lendable(all: u64, used: u64) -> u64 {
    let needed = used + used / 2 + all / AHEAD_PART;
    all.saturating_sub(needed)
}

/// One part in this number of the puts' memory is free for them at any time.
const AHEAD_PART: u64 = 8;

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

fn limits(core: &Core, log: &Log) -> MemoryLimits {
    let is_mapped = log.commit_log.as_ref().is_some_and(|log| log.is_mapped());
    MemoryLimits::of(&core.options, if is_mapped { log.ring_bytes } else { 0 })
}

/// The bytes that munks and rows may take together now: the budget without everything that is
/// charged for other uses, and without the reserve. Memory of munks that is not reclaimed yet, or
/// that users keep, counts as the munks'.
pub(crate) fn cache_bytes(core: &Core, log: &Log) -> u64 {
    let ledger = core.ledger();
    let others = [Use::Metadata, Use::Buffers, Use::Tables, Use::Searches];
    let others: u64 = others.iter().map(|&of| ledger.bytes(of)).sum();
    let limits = limits(core, log);
    // Large batches may take the deltas above their limit.
    let deltas_above = core.admission.delta_used().saturating_sub(limits.deltas);
    limits.left(others + deltas_above) + limits.lent(&used_lately(core, log))
}

fn used_lately(core: &Core, log: &Log) -> UsedLately {
    let ring = log.commit_log.as_ref();
    UsedLately {
        deltas: core.admission.delta_peak(),
        ring: ring.map_or(0, CommitLog::bytes_used_lately),
    }
}

/// `most` while metadata is below a tenth of the budget, `least` above a fifth, evenly in between.
fn by_metadata(core: &Core, most: u32, least: u32) -> u32 {
    let tenth = (core.options.memory_budget / 10).max(1);
    let above = core.ledger().bytes(Use::Metadata).saturating_sub(tenth);
    most - (u64::from(most - least) * above.min(tenth) / tenth) as u32
}

/// The number of tables in a chunk's base from which on runs no longer join it: its next rewrite
/// merges them into one.
pub(crate) fn base_tables_max(core: &Core) -> usize {
    by_metadata(core, BASE_TABLES_MAX, BASE_TABLES_MIN) as usize
}

/// The number of runs of a chunk's log from which on the newest are merged into one. Each run costs
/// a handle, a part in the manifest's state and an entry in the registry, whether it is read or
/// not.
pub(crate) fn log_runs_merge(core: &Core, chunk: &Chunk, view: &View) -> usize {
    let most = match log_readers(chunk, view) {
        LogReaders::None => RUNS_MERGE_MUNK,
        LogReaders::Gets => RUNS_MERGE,
        LogReaders::Scans => RUNS_MERGE_SCANNED,
    };
    // Small chunks are cheap to rewrite, so their logs are short.
    let most = (core.options.chunk_bytes_max() / 256).clamp(4, u64::from(most)) as u32;
    by_metadata(core, most, 4) as usize
}

/// The most runs that a chunk's log may have when a checkpoint adds one.
/// `merged_from` is what [`log_runs_merge`] says of the log.
pub(crate) fn log_runs_most(merged_from: usize) -> usize {
    RUNS_MOST.min(RUNS_MOST_TIMES * merged_from)
}

/// Whether buffers take enough memory that cursors should read less at a time.
pub(crate) fn buffers_are_short(core: &Core) -> bool {
    core.ledger().bytes(Use::Buffers) > core.options.memory_budget / 32
}

/// Notes that the munks' memory has `bytes` that they no longer use. Above a share the reason is
/// users' values: they get copies then, which keep no page, until it is less.
pub(crate) fn note_kept_pages(core: &Core, caches: &Caches, bytes: u64) {
    let many = bytes > core.options.memory_budget / 16;
    caches.copies_values.store(many, Ordering::Relaxed);
}

/// Bytes of slabs that are resident without use, beyond those that [`tend_memory`] leaves.
pub(crate) fn holes_bytes(core: &Core, log: &Log) -> u64 {
    slab::slack_bytes().saturating_sub(slack_left(core, log))
}

/// The part of these holes that comes back only with whole slabs.
pub(crate) fn small_holes_bytes(core: &Core, log: &Log) -> u64 {
    slab::small_holes_bytes().saturating_sub(slack_left(core, log))
}

/// The bytes that slabs may hold without use: what deltas may take again at any time, and a part of
/// the reserve.
fn slack_left(core: &Core, log: &Log) -> u64 {
    delta_room(core, log) + limits(core, log).reserve / 2
}

fn delta_room(core: &Core, log: &Log) -> u64 {
    let limits = limits(core, log);
    let lent = lendable(limits.deltas, core.admission.delta_peak());
    let taken = core.admission.delta_used() + lent;
    limits.deltas.saturating_sub(taken)
}

/// Keeps open tables and log searches within their share, and gives back unused memory of slabs and
/// the ring. Called by upkeep.
pub(crate) fn tend_memory(engine: &Engine) {
    engine.core.admission.let_delta_peak_sink();
    // A model has no time.
    if !cfg!(evendb_shuttle)
        && let Some(ring) = &engine.log.commit_log
    {
        ring.give_memory_back(std::time::Instant::now());
    }
    slab::trim(slack_left(&engine.core, &engine.log));
    let ledger = engine.core.ledger();
    let indexes = limits(&engine.core, &engine.log).indexes(ledger.bytes(Use::Metadata));
    let searches = ledger.bytes(Use::Searches);
    let searches_max = indexes / 4;
    engine
        .disk
        .tables
        .set_bytes_max(indexes - searches.min(searches_max));
    ledger.set_searches_short(searches > searches_max);
    if searches > searches_max {
        shrink_searches(&engine.caches, &engine.catalog, searches - searches_max);
    }
    slow_for_metadata(&engine.core, &engine.space);
}

/// Slows puts for metadata: each run of a log costs memory until it is merged away. If puts make
/// runs faster than workers merge them, and nothing else could give way, puts give way. Metadata
/// that no merge would free (long keys of many chunks) slows no put, since it would do so for ever.
fn slow_for_metadata(core: &Core, space: &Space) {
    let budget = core.options.memory_budget;
    let usual = space.chunks() * (CHUNK_BYTES + RUNS_USUAL * TABLE_BYTES) as u64;
    let metadata = core.ledger().bytes(Use::Metadata);
    let above = metadata.saturating_sub(usual.max(budget / 5));
    let above = above.min(space.mergeable_bytes.load(Ordering::Relaxed));
    core.admission.set_metadata(above, budget / 8);
}

/// Whether log searches are far enough below their share for a filter to become an index again.
pub(crate) fn searches_have_room(core: &Core, log: &Log) -> bool {
    let ledger = core.ledger();
    let max = limits(core, log).indexes(ledger.bytes(Use::Metadata)) / 4;
    ledger.bytes(Use::Searches) < max / 4 * 3
}

/// Makes log searches smaller, first those that nobody has used since the last time.
fn shrink_searches(caches: &Caches, catalog: &Catalog, mut excess: u64) {
    for harder in [false, true] {
        for (_, chunk) in catalog.chunks() {
            let funk = chunk.view.load_full().funk.clone();
            let saved = funk.shrink_search(&caches.search_settings, harder);
            excess = excess.saturating_sub(saved as u64);
            if excess == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::Db;
    use crate::sync::Arc;
    use evendb_storage::vfs::SimVfs;

    fn small(budget: u64) -> Db {
        let options = Options::new().vfs(Arc::new(SimVfs::new(1))).workers(0);
        options.memory_budget(budget).open("/db").unwrap()
    }

    fn key(number: u32, len: usize) -> Vec<u8> {
        let mut key = number.wrapping_mul(2_654_435_761).to_le_bytes().to_vec();
        key.resize(len, b'k');
        key
    }

    /// Once, puts were slow for ever if the keys of many chunks took a fifth of the memory: no job
    /// reduces those.
    #[test]
    fn puts_are_not_slowed_by_metadata_that_no_job_makes_less() {
        let db = small(4 << 20);
        let engine = db.engine();
        for number in 0..400 {
            db.put(key(number, 20_000), [1; 100]).unwrap();
        }
        db.settle_debt().unwrap();
        tend_memory(engine);
        let metadata = engine.core.ledger().bytes(Use::Metadata);
        let budget = engine.core.options.memory_budget;
        assert!(metadata > budget / 5 + budget / 8, "{metadata} bytes");
        // If there were runs to merge, puts would be slowed, until the next look finds none.
        engine
            .space
            .mergeable_bytes
            .store(1 << 20, Ordering::Relaxed);
        tend_memory(engine);
        assert!(engine.core.admission.metadata_nanos() > 0.0);
        let (catalog, space) = (&engine.catalog, &engine.space);
        crate::rebalance::space::space_round(&engine.jobs(), catalog, space, &engine.idle, true);
        tend_memory(engine);
        assert_eq!(engine.core.admission.metadata_nanos(), 0.0);
        let before = engine.core.admission.pace.stats().count;
        for number in 0..100_u32 {
            db.put(number.to_le_bytes(), [2; 100]).unwrap();
        }
        assert_eq!(engine.core.admission.pace.stats().count, before);
    }

    /// The table in the documentation of `Options::memory_budget`.
    #[test]
    fn defaults_scale_with_the_budget() {
        let mib = |bytes: u64| bytes >> 20;
        for (budget, chunk, ring, deltas, reserve, indexes) in [
            (64, 4, 8, 8, 8, 13),
            (256, 4, 32, 32, 24, 56),
            (1024, 10, 128, 128, 64, 234),
            (8192, 10, 256, 1024, 512, 2133),
            (65536, 10, 256, 8192, 4096, 17664),
        ] {
            let options = Options::new().memory_budget(budget << 20);
            let limits = MemoryLimits::of(&options, options.ring_bytes());
            assert_eq!(mib(options.chunk_bytes_max()), chunk);
            assert_eq!(mib(limits.ring), ring);
            assert_eq!(mib(limits.deltas), deltas);
            assert_eq!(mib(limits.reserve), reserve);
            assert_eq!(mib(limits.indexes(0)), indexes);
            // Puts have an eighth at once, and a quarter of the ring. When they have used six
            // tenths, nothing is lent.
            let lent = |deltas, ring| limits.lent(&UsedLately { deltas, ring });
            let parts = (limits.deltas, limits.ring);
            assert_eq!(lent(0, parts.1), parts.0 / 8 * 7);
            assert_eq!(lent(parts.0, 0), parts.1 / 64 * 49);
            assert_eq!(lent(0, 0), parts.0 / 8 * 7 + parts.1 / 64 * 49);
            assert_eq!(lent(parts.0 / 10 * 6, parts.1 / 10 * 6), 0);
            // Everything except the reserve fits beside the most that the indexes take.
            assert!(limits.left(limits.indexes(0)) >= limits.indexes(0));
        }
    }
}
