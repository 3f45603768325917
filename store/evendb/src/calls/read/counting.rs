//! The reports of reads to the caches: the use of spans, and the spans that are worth loading.
//!
//! In a hot span one get in [`HITS_PER_COUNT`] is counted, with that weight: a sum that all readers
//! share is a cache line that they fight for. A read from disk is always counted, and asks for the
//! span if the policy wants it.
//!
//! Thread safety: any thread. The only lock is the queue's, taken only where a load is asked for.
//! Not here: what follows from the counts ([`crate::cache::spans`] decides,
//! [`crate::rebalance::spans`] loads).

use super::get::Lookup;
use super::tables::Direction;
use crate::chunk::{Chunk, Heat, View};
use crate::engine::Engine;
use crate::engine::caches::Caches;
use crate::engine::work::Work;
use crate::munk::Munk;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;

/// One get in this many gets from RAM is counted; a power of two.
const HITS_PER_COUNT: u32 = 16;
/// One refill in this many refills from RAM is counted; a power of two.
const REFILLS_PER_COUNT: u32 = 4;
/// The largest number of disk reads that are counted for a scan of a span.
const SCAN_READS_MAX: usize = 16;
/// The cost of a scan's read of one run, as bytes of a merge that the disk reads and writes in one
/// piece.
const RUN_READ_BYTES: u64 = 32 << 10;
/// The cost of a merge beside its bytes (a job, a part of a sync, an edit of the manifest), in
/// bytes.
const MERGE_BYTES_LEAST: u64 = 512 << 10;

/// Counts a get that the view's munk answered.
#[inline]
pub(super) fn hit(caches: &Caches, chunk: &Chunk, view: &View, lookup: &Lookup<'_>) {
    let count = Heat::count(&chunk.heat.gets);
    let sampled = count.is_multiple_of(HITS_PER_COUNT);
    // Relaxed: a hint. Where there is room for all spans, the counts decide nothing.
    if (sampled || !caches.all_fit.load(Ordering::Relaxed))
        && let Some(munk) = &view.munk
    {
        let heat = munk.heat_of(lookup.key);
        let reads = match heat.is_cool(1.0) {
            true => 1.0,
            false if sampled => HITS_PER_COUNT as f32,
            false => return,
        };
        heat.touch(reads, Some(lookup.hash.bits() as u8), caches.spans.tick());
    }
}

/// Counts a get that was answered from disk, and asks for the key's span if it is worth having.
pub(super) fn miss(engine: &Engine, chunk: &Arc<Chunk>, view: &View, lookup: &Lookup<'_>) {
    Heat::count(&chunk.heat.gets_outside);
    let caches = &engine.caches;
    if !engine.core.options.advanced.munks {
        return;
    }
    let Some(munk) = &view.munk else {
        return ask_for_list(engine, chunk);
    };
    let (heat, tick) = (munk.heat_of(lookup.key), caches.spans.tick());
    heat.touch(1.0, Some(lookup.hash.bits() as u8), tick);
    let row_bytes = caches.row_bytes_mean.load(Ordering::Relaxed) as usize;
    let bytes = munk.span_bytes();
    let worth = caches.spans.worth(heat.worth(tick), bytes, row_bytes);
    if caches.spans.wants(worth, bytes as u64) {
        ask(&engine.work, chunk);
    }
}

/// Counts a refill that a scan got from RAM. `ends` gives the first and last key of the refill, and
/// is called only where it is counted.
pub(super) fn refill_hit<'b>(
    caches: &Caches,
    chunk: &Chunk,
    view: &View,
    ends: impl FnOnce() -> Option<(&'b [u8], &'b [u8])>,
) {
    // Relaxed: a hint.
    let count = chunk.heat.scans.load(Ordering::Relaxed);
    if count.is_multiple_of(REFILLS_PER_COUNT)
        && let Some(munk) = &view.munk
        && let Some(ends) = ends()
    {
        let reads = REFILLS_PER_COUNT as f32 * scan_reads(view);
        munk.count_scan(ends.0, ends.1, reads, caches.spans.tick());
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
    let spans = &engine.caches.spans;
    let munk = view.munk.as_ref()?;
    let span = match direction {
        Direction::Forward => munk.span_from(from),
        Direction::Backward => munk.span_below(from),
    };
    let worth = munk.count_span(span, scan_reads(view), spans.tick());
    if !spans.wants(worth, munk.span_bytes() as u64) {
        return None;
    }
    runs_read(engine, chunk, view, view.funk.runs.len());
    Some((munk.clone(), span))
}

/// Counts the refill of a scan from disk. If the chunk has no munk, it asks for one without spans,
/// in which reads of spans are counted.
pub(super) fn refill_miss(engine: &Engine, chunk: &Arc<Chunk>, view: &View) {
    if view.munk.is_none() && engine.core.options.advanced.munks {
        ask_for_list(engine, chunk);
    }
}

/// Counts the reads of runs from disk (`reads`) by a scan of the chunk. Once the reads since the
/// last merge of the log cost what a merge costs, a merge is asked for. So scans pay at most twice
/// what they would pay if the number of coming scans were known.
pub(super) fn runs_read(engine: &Engine, chunk: &Arc<Chunk>, view: &View, reads: usize) {
    if reads < 2 || !view.funk.has_sorted_runs(2) {
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

/// Asks for a munk without any span, if the chunk is read enough for one.
fn ask_for_list(engine: &Engine, chunk: &Arc<Chunk>) {
    let least = engine.caches.list_heat_min.load(Ordering::Relaxed);
    if chunk.heat.reads() >= f32::from_bits(least) {
        ask(&engine.work, chunk);
    }
}

/// The number of disk reads in a scan of a span: one for each run, and one for the base.
fn scan_reads(view: &View) -> f32 {
    (1 + view.funk.runs.len()).min(SCAN_READS_MAX) as f32
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
