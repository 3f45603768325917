//! Spans of munks: loading them from the funk, evicting them, and making room.
//!
//! ```text
//! miss --> the policy: worth it? --> Job::Load of the chunk --> load_wanted
//!                                         room: evict the least dense of a sample
//!                                         merge base and runs of the spans wanted
//! ```
//!
//! * Load: `loading` is set under the latch, so that deltas which become durable meanwhile are
//!   kept. Without them the images, built from an older view, would miss their records.
//! * Evict: images leave, and with the last one the deltas kept for them; both are in the funk, so
//!   no I/O is needed.
//!
//! Only the holder of a chunk's token changes its munk. So spans that were chosen from a munk fit
//! the munk that is there when the images are ready.
//!
//! Thread safety: any thread that has the chunk's token, or tries for it. Not here: which spans
//! come and go, and how much room there is ([`crate::memory_policy`]); absorbing
//! ([`crate::rebalance::munks`]).

use crate::chunk::covers::Covers;
use crate::chunk::{Chunk, KeyRange, View};
use crate::engine::JobContext;
use crate::engine::core::Core;
use crate::error::Result;
use crate::merge::Merge;
use crate::merge::count::Count;
use crate::munk::{Loaded, Munk, Sizes, SpanImages};
use crate::plant::planted;
use crate::rebalance::munks;
use crate::rebalance::rewrite::{funk_sources, sources_within};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::trace;
use crate::visibility::Dropping;
use evendb_storage::Version;
use std::ops::Range;

/// Spans of one job: a longer list waits for the next job, so that other jobs come in between.
const SPANS_MAX: usize = 64;
/// Rounds of evicting before a load gives up.
const EVICT_ROUNDS_MAX: usize = 4 * SPANS_MAX;

/// Loads the whole chunk. The caller holds the token.
#[cfg(test)]
pub(crate) fn load_munk(core: &Core, chunk: &Arc<Chunk>) -> Result<()> {
    load_spans(core, chunk, &|munk| munk.wanted(0, |_| true))
}

/// Loads the absent spans of the chunk's munk that `choose` chooses, in any order. If there is no
/// munk, it makes one without any span. The caller holds the token.
pub(crate) fn load_spans(
    core: &Core,
    chunk: &Arc<Chunk>,
    choose: &dyn Fn(&Munk) -> Vec<usize>,
) -> Result<()> {
    absorb_operands(core, chunk);
    let view = {
        let mut writer = chunk.latch.lock();
        let view = chunk.view.load_full();
        if writer.retired || view.whole_munk().is_some() {
            return Ok(());
        }
        writer.loading = true;
        view
    };
    chunk.assert_view(&view, "to be loaded");
    let job = trace::job!("load", chunk = chunk.id.0);
    let built = with_spans(core, chunk, &view, choose);
    let mut writer = chunk.latch.lock();
    writer.loading = false;
    let mut new_view: View = (*chunk.view.load_full()).clone();
    debug_assert!(
        same_munk(&view, &new_view),
        "another than the token's holder changed the munk"
    );
    let damaged = match built {
        Ok((munk, loaded)) => {
            core.metrics.munk_loads.add(u64::from(loaded > 0));
            new_view.munk = Some(munk);
            None
        }
        Err(error) => Some(error),
    };
    new_view.keep_deltas_for_spans_alone();
    chunk.publish(new_view);
    drop(writer);
    trace::event!(
        DEBUG,
        "spans loaded",
        chunk = chunk.id.0,
        duration_micros = job.micros()
    );
    match damaged {
        None => Ok(()),
        Some(error) => {
            chunk.note_damage(&error);
            Err(error)
        }
    }
}

/// Records from the funk include the operands of durable deltas: no munk may take these in a second
/// time. The chunk may have another munk afterwards.
fn absorb_operands(core: &Core, chunk: &Arc<Chunk>) {
    if core.choices.merge_operator(chunk.keyspace).is_some() {
        munks::absorb(core, chunk);
    }
}

/// Chooses spans of this munk; of another munk, whose spans may differ, it chooses none.
fn only_of(munk: &Arc<Munk>, spans: Vec<usize>) -> impl Fn(&Munk) -> Vec<usize> {
    move |now| match std::ptr::eq(&raw const **munk, now) {
        true => spans.clone(),
        false => Vec::new(),
    }
}

fn same_munk(old: &View, new: &View) -> bool {
    match (&old.munk, &new.munk) {
        (Some(old), Some(new)) => Arc::ptr_eq(old, new),
        (None, None) => true,
        _ => false,
    }
}

/// The view's munk with the spans that `choose` chooses, and the number of these spans.
fn with_spans(
    core: &Core,
    chunk: &Chunk,
    view: &View,
    choose: &dyn Fn(&Munk) -> Vec<usize>,
) -> Result<(Arc<Munk>, usize)> {
    let munk = match &view.munk {
        Some(munk) => munk.clone(),
        None => Arc::new(absent_munk(core, chunk, view)?),
    };
    let mut chosen = choose(&munk);
    chosen.sort_unstable();
    chosen.dedup();
    chosen.retain(|&index| !munk.has_span(index));
    if chosen.is_empty() {
        return Ok((munk, 0));
    }
    let mut loaded = Vec::new();
    for spans in neighbours(&chosen) {
        loaded.push(images_of(core, chunk, view, &munk, spans)?);
    }
    Ok((Arc::new(munk.with(loaded)), chosen.len()))
}

/// Ascending indexes, as ranges.
fn neighbours(indexes: &[usize]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for &index in indexes {
        match ranges.last_mut() {
            Some(last) if last.end == index => last.end += 1,
            _ => ranges.push(index..index + 1),
        }
    }
    ranges
}

/// A munk without any span, cut where blocks of the base begin, or blocks of the largest run if
/// there is no base.
fn absent_munk(core: &Core, chunk: &Chunk, view: &View) -> Result<Munk> {
    let sizes = Sizes::of_chunk(core.options.chunk_bytes_max());
    let span_bytes = sizes.span_bytes as u64;
    let largest_run = || {
        let runs = view.funk.runs.iter().map(|run| &run.table);
        runs.max_by_key(|table| table.part.meta.data_bytes)
    };
    let tables: Vec<_> = match view.funk.base.is_empty() {
        true => largest_run().into_iter().collect(),
        false => view.funk.base.iter().collect(),
    };
    let mut lows: Vec<Vec<u8>> = Vec::new();
    // Bytes since the last cut.
    let mut bytes = 0;
    for table in tables {
        let meta = &table.part.meta;
        if bytes >= span_bytes {
            lows.push(meta.min_key.to_vec());
            bytes = 0;
        }
        // Nearly every table is one piece of a stream: small tables are not opened.
        if meta.data_bytes >= 2 * span_bytes {
            lows.extend(table.open()?.cuts(span_bytes));
            bytes = 0;
        }
        bytes += meta.data_bytes;
    }
    lows.retain(|low| **low > *chunk.range.low && chunk.range.contains(low));
    debug_assert!(lows.is_sorted_by(|a, b| a < b), "cuts out of order");
    Ok(Munk::absent(&lows, sizes, core.ledger()))
}

/// Builds images of neighbouring spans from the funk.
fn images_of(
    core: &Core,
    chunk: &Chunk,
    view: &View,
    munk: &Munk,
    spans: Range<usize>,
) -> Result<Loaded> {
    let horizon = core.clock.horizon();
    let dropping = Dropping {
        horizon: &horizon,
        bottom: true,
        zero_below: view
            .covers
            .as_ref()
            .map_or(Version::MAX, |covers| covers.oldest()),
    };
    let sources = match spans.len() == munk.span_count() {
        true => funk_sources(chunk, view)?,
        false => {
            let low = munk.limits(spans.start).0;
            let high = munk.limits(spans.end - 1).1;
            let range = KeyRange {
                low: Box::from(low.max(&chunk.range.low)),
                high: high.map(Box::from).or_else(|| chunk.range.high.clone()),
            };
            sources_within(view, &range, spans.len() as f64 / munk.span_count() as f64)?
        }
    };
    // It neither yields nor rests: it is short, and spares the readers of these spans more time
    // than it takes.
    let covering = Covers::covering_now(view.covers.as_ref());
    let operator = core.choices.operator(chunk.keyspace);
    let mut merge = Merge::folding(sources, dropping, covering, operator)?;
    let mut count = Count::default();
    count.begin(&merge);
    let mut images = SpanImages::new(munk, spans);
    while let Some(entry) = merge.current() {
        images.add(entry);
        merge.advance()?;
    }
    let loaded = images.finish();
    count.add_images(&merge, &loaded);
    let job = || format!("loading chunk {} into RAM lost or made records", chunk.id.0);
    count.check(job).map_err(|error| core.health.latch(error))?;
    Ok(loaded)
}

/// Loads the chunk's spans that the policy wants, as far as there is room or room can be made.
pub(crate) fn load_wanted(context: &JobContext<'_>, chunk: &Arc<Chunk>) -> Result<()> {
    let &JobContext {
        core, memory, work, ..
    } = context;
    let Some(_token) = chunk.try_token() else {
        // Another job may hold the token for long: the next miss asks again.
        chunk.load_wanted.store(false, Ordering::Relaxed);
        return Ok(());
    };
    chunk.load_wanted.store(false, Ordering::Relaxed);
    if chunk.damaged.load(Ordering::Relaxed) {
        return Ok(());
    }
    // Done now, so that nothing is left to be absorbed when the spans are chosen, unless a
    // checkpoint comes in between.
    absorb_operands(core, chunk);
    let Some(munk) = chunk.view.load_full().munk.clone() else {
        return load_spans(core, chunk, &|_| Vec::new());
    };
    let (wanted, more) = memory.wanted_spans(&munk, SPANS_MAX);
    if wanted.is_empty() {
        return Ok(());
    }
    let bytes = (wanted.len() * munk.span_bytes()) as u64;
    if take_room(context, bytes, chunk) {
        load_spans(core, chunk, &only_of(&munk, wanted))?;
        if more {
            work.push_load(chunk);
        }
    }
    Ok(())
}

/// Loads one span that a scan is about to read, on the scan's thread: so it is read only once. Does
/// nothing if another job has the chunk, or if there is no room.
pub(crate) fn load_for_scan(
    context: &JobContext<'_>,
    chunk: &Arc<Chunk>,
    (munk, span): &(Arc<Munk>, usize),
) -> Result<()> {
    let Some(_token) = chunk.try_token() else {
        return Ok(());
    };
    let now = chunk.view.load_full().munk.clone();
    let damaged = chunk.damaged.load(Ordering::Relaxed);
    if damaged || now.is_none_or(|now| !Arc::ptr_eq(&now, munk)) {
        return Ok(());
    }
    if take_room(context, munk.span_bytes() as u64, chunk) {
        load_spans(context.core, chunk, &only_of(munk, vec![*span]))?;
    }
    Ok(())
}

/// Evicts the spans for which `which` returns true. The caller holds the token.
pub(crate) fn evict_spans(core: &Core, chunk: &Chunk, which: impl Fn(usize) -> bool) {
    let Some(munk) = chunk.view.load_full().munk.clone() else {
        return;
    };
    let smaller = munk.without(which);
    let writer = chunk.latch.lock();
    if writer.retired {
        return;
    }
    let mut view: View = (*chunk.view.load_full()).clone();
    view.munk = Some(Arc::new(smaller));
    view.keep_deltas_for_spans_alone();
    if planted!(core.options, DeltasLeaveWithSpans) {
        view.frozen.retain(|frozen| !frozen.durable);
    }
    chunk.publish(view);
    drop(writer);
    core.metrics.munk_evictions.add(1);
}

/// Takes room for `bytes` of spans that are about to be loaded, and returns whether there is room.
/// `keep` is the chunk whose token the caller has.
fn take_room(context: &JobContext<'_>, bytes: u64, keep: &Arc<Chunk>) -> bool {
    let taken = make_room(context, bytes, Some(keep));
    if taken {
        context.memory.note_taken(bytes);
    }
    taken
}

/// Makes room for `bytes` of spans, and returns whether there is room; evicted spans may not be
/// reclaimed yet. `keep` is the chunk whose token the caller has.
pub(super) fn make_room(context: &JobContext<'_>, bytes: u64, keep: Option<&Arc<Chunk>>) -> bool {
    let memory = context.memory;
    let lacks = memory.look_for_room(bytes);
    if lacks == 0 {
        return true;
    }
    // If nearly everything fits, the small part that does not fit would only take turns.
    if keep.is_some() && memory.all_fit() {
        return false;
    }
    let mut gone = 0;
    for _ in 0..EVICT_ROUNDS_MAX {
        if gone >= lacks {
            break;
        }
        gone += evict_one(context, keep);
    }
    memory.note_evicted(gone);
    context.disk.collect_memory(&context.core.health);
    gone >= lacks
}

/// Evicts the least dense of some spans, and returns its bytes.
fn evict_one(context: &JobContext<'_>, keep: Option<&Arc<Chunk>>) -> u64 {
    let Some(least) = context.memory.least_dense() else {
        return 0;
    };
    let chunk = &least.chunk;
    if keep.is_some_and(|keep| Arc::ptr_eq(keep, chunk)) {
        return 0;
    }
    let Some(_token) = chunk.try_token() else {
        return 0;
    };
    // Another job may have changed the munk since this look.
    let munk = chunk.view.load_full().munk.clone();
    if !munk.is_some_and(|munk| munk.has_span(least.span)) {
        return 0;
    }
    evict_spans(context.core, chunk, |index| index == least.span);
    context.memory.note_least(&least);
    least.bytes as u64
}
