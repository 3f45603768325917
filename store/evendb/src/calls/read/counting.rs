//! The reports of reads to the memory policy, and what they ask workers for: the loading of spans,
//! and merges of logs that scans read.
//!
//! Thread safety: any thread. The only lock is the queue's, taken only where a job is asked for.
//! Not here: what is counted, and what follows from it ([`crate::memory_policy`]); loading
//! ([`crate::rebalance::spans`]).

use super::get::Lookup;
use super::tables::Direction;
use crate::chunk::{Chunk, Heat, View};
use crate::engine::Engine;
use crate::engine::work::Work;
use crate::guards::tree::looks::Level0;
use crate::munk::Munk;
use crate::rebalance::guarded;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;

/// The cost of a scan's read of one run, as bytes of a merge that the disk reads and writes in one
/// piece.
const RUN_READ_BYTES: u64 = 32 << 10;
/// The cost of a merge beside its bytes (a job, a part of a sync, an edit of the manifest), in
/// bytes.
const MERGE_BYTES_LEAST: u64 = 512 << 10;

/// One seek in this number is counted.
const SEEKS_PER_COUNT: u32 = 16;

/// Counts a get that was answered from disk, and asks for the key's span if it is worth having.
pub(super) fn miss(engine: &Engine, chunk: &Arc<Chunk>, view: &View, lookup: &Lookup<'_>) {
    if view.funk.is_guarded() {
        Heat::count(&chunk.heat.gets_outside);
        return;
    }
    if engine
        .memory
        .note_miss(chunk, view, lookup.key, lookup.hash)
    {
        ask(&engine.work, chunk);
    }
}

/// Counts a refill of a scan; once, if it is tried again after a load.
pub(super) fn refill(chunk: &Chunk, is_first_try: bool) {
    if is_first_try {
        Heat::count(&chunk.heat.scans);
    }
}

/// Counts the refill of a scan that begins at `from`, in a span that is absent. Returns the span if
/// it is worth loading now, and then counts that the load reads all runs of the chunk.
pub(super) fn wanted_by_scan(
    engine: &Engine,
    chunk: &Arc<Chunk>,
    view: &View,
    direction: Direction,
    from: Option<&[u8]>,
) -> Option<(Arc<Munk>, usize)> {
    let munk = view.munk.as_ref()?;
    let span = match direction {
        Direction::Forward => munk.span_from(from),
        Direction::Backward => munk.span_below(from),
    };
    if !engine.memory.note_absent(view, munk, span) {
        return None;
    }
    runs_read(engine, chunk, view, view.funk.runs.len());
    Some((munk.clone(), span))
}

/// Counts the refill of a scan from disk. If the chunk has no munk, it asks for one without spans,
/// in which reads of spans are counted.
pub(super) fn refill_miss(engine: &Engine, chunk: &Arc<Chunk>, view: &View) {
    if !view.funk.is_guarded() && engine.memory.should_count(chunk, view) {
        ask(&engine.work, chunk);
    }
}

/// Counts the reads of runs from disk (`reads`) by a scan of the chunk. Once the reads since the
/// last merge of the log cost what a merge costs, a merge is asked for. So scans pay at most twice
/// what they would pay if the number of coming scans were known.
pub(super) fn runs_read(engine: &Engine, chunk: &Arc<Chunk>, view: &View, reads: usize) {
    if view.funk.is_guarded() || reads < 2 || !view.funk.has_sorted_runs(2) {
        return;
    }
    // Relaxed: a lost count does no harm.
    let before = chunk.runs_scanned.load(Ordering::Relaxed);
    let read = before.saturating_add(reads as u32 - 1);
    chunk.runs_scanned.store(read, Ordering::Relaxed);
    let merge_bytes = MERGE_BYTES_LEAST + view.funk.log_bytes();
    if u64::from(read) * RUN_READ_BYTES >= merge_bytes
        && engine.core.health.check_writable().is_ok()
    {
        chunk.runs_scanned.store(0, Ordering::Relaxed);
        // If another job has the chunk when the merge's turn comes, later scans ask again.
        if !chunk.log_merge_wanted.swap(true, Ordering::Relaxed) {
            engine.work.push_merge(chunk, true);
        }
    }
}

/// Counts a seek of a scan in a chunk with guards, where the scan begins at `from`. Once the seeks
/// have paid for a compaction, the chunk is looked at. One seek in some is counted, for all of
/// them.
pub(super) fn seek(engine: &Engine, chunk: &Arc<Chunk>, view: &View, from: Option<&[u8]>) {
    let scans = chunk.heat.scans.load(Ordering::Relaxed);
    let Some(tree) = &view.funk.tree else {
        return;
    };
    if !scans.is_multiple_of(SEEKS_PER_COUNT) {
        return;
    }
    let level0 = Level0 {
        runs: view.funk.sorted_runs(),
        bytes: view.funk.log_bytes(),
    };
    let look_bytes = guarded::limits(&engine.core, chunk.keyspace).look_bytes;
    if tree.note_seek(from, SEEKS_PER_COUNT.into(), level0, look_bytes)
        && engine.core.health.check_writable().is_ok()
    {
        engine.work.push_maintenance(chunk);
    }
}

/// Queues the loading of the chunk's spans, once.
fn ask(work: &Work, chunk: &Arc<Chunk>) {
    // Relaxed: one load more or less does no harm. The flag is loaded before it is swapped, so that
    // its cache line stays shared while many readers ask.
    if !chunk.load_wanted.load(Ordering::Relaxed)
        && !chunk.load_wanted.swap(true, Ordering::Relaxed)
        && !work.push_load(chunk)
    {
        chunk.load_wanted.store(false, Ordering::Relaxed);
    }
}
