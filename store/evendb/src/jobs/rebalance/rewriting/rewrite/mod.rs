//! Rewriting chunks: their bases and logs are merged into new SSTables. One chunk in and one out is
//! a rebalance; one in and several out is a split; two neighbours in is a merge of chunks that have
//! become small.
//!
//! Puts and checkpoints continue meanwhile: runs written during the merge stay in the log. If a
//! munk has taken in everything durable, it is the source, and nothing is read.
//!
//! A failure at any point before the layout change deletes the new files and leaves everything as
//! it was. Records are counted in and out (`merge/count/mod.rs`): a difference latches the
//! database, and nothing is published. A read error aborts.
//!
//! Thread safety: the holder of the chunks' tokens; latches are held only at the begin and at the
//! layout change. Not here: what is read (`sources`), where tables end (`cutting`), their files
//! (`tables`), and the layout change ([`layout`]).

mod cutting;
pub(crate) mod sources;
mod tables;

use crate::catalog::KeyspaceState;
use crate::chunk::covers::Covers;
use crate::chunk::{Chunk, View};
use crate::engine::JobContext;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::error::{ErrorKind, Result};
use crate::manifest::edit::Part;
use crate::memory_policy::is_mostly_written;
use crate::merge::{Filtering, Merge};
use crate::options::{CompactionFilter, FilterDecision};
use crate::pace;
use crate::rebalance::growth::Stream;
use crate::rebalance::layout::{self, Beside, Munks, NewBase, NewChunk, Rewritten};
use crate::rebalance::value_moves::Moves;
use crate::rebalance::{guarded, munks};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::tables::part_path;
use crate::trace;
use crate::value_files::Needed;
use crate::version::clock::checkpoint_of;
use crate::visibility::Dropping;
pub(crate) use cutting::growth;
use cutting::{note_new_share, pieces_for};
use evendb_storage::{Apart, Version};
use sources::tombstones_only;
pub(crate) use sources::{ask_for_tables, data_bytes, funk_sources, sources_of, sources_within};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
pub(crate) use tables::{Cuts, Making, making_options, remove_tables, write_pieces};

/// What is rewritten.
#[derive(Clone, Copy)]
struct Old<'a> {
    keyspace: &'a KeyspaceState,
    /// One chunk, or two neighbours in order.
    chunks: &'a [Arc<Chunk>],
    /// Their views when the rewrite began.
    views: &'a [Arc<View>],
}

/// Clears the mark that keeps runs from joining the base while it is rewritten.
struct Rebalancing<'a>(&'a [Arc<Chunk>]);

impl Drop for Rebalancing<'_> {
    fn drop(&mut self) {
        for chunk in self.0 {
            chunk.latch.lock().rebalancing = false;
        }
    }
}

/// Rewrites `chunks` (one, or two neighbours in order; the caller holds their tokens) into the
/// number of chunks that their size requires. Returns the chunks that are there afterwards.
pub(crate) fn rewrite(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunks: &[Arc<Chunk>],
) -> Result<Vec<Arc<Chunk>>> {
    let core = context.core;
    if let [chunk] = chunks
        && chunk.view.load_full().funk.is_guarded()
    {
        guarded::compact(context, keyspace, chunk, (&[], None))?;
        return Ok(chunks.to_vec());
    }
    let job = trace::job!(
        "rewrite",
        chunk = chunks[0].id.0,
        keyspace = keyspace.name()
    );
    let views = begin_rewrite(context, keyspace, chunks)?;
    let _rebalancing = Rebalancing(chunks);
    let old = Old {
        keyspace,
        chunks,
        views: &views,
    };
    let written = write_tables(context, old).inspect_err(|error| {
        if matches!(error.kind(), ErrorKind::Corruption) {
            chunks.iter().for_each(|chunk| chunk.note_damage(error));
        }
    })?;
    let bytes: u64 = written.parts.iter().map(|part| part.meta.len).sum();
    for chunk in chunks {
        munks::mend(core, chunk, written.spent);
    }
    if let [chunk] = chunks
        && written.parts.len() <= 1
    {
        take_new_base(context, old, chunk, &written)?;
        core.metrics.rebalances.add(1);
        trace::event!(
            DEBUG,
            "rebalanced",
            chunk = chunk.id.0,
            bytes = bytes,
            duration_micros = job.micros()
        );
        return Ok(chunks.to_vec());
    }
    let replaced = take_new_chunks(context, old, &written)?;
    core.metrics.rebalances.add(1);
    count_replaced(core, chunks, &replaced, bytes, &job);
    Ok(replaced)
}

/// The outcome of a rewrite of a chunk that stays one.
fn take_new_base(
    context: &JobContext<'_>,
    old: Old<'_>,
    chunk: &Arc<Chunk>,
    written: &Written,
) -> Result<()> {
    let parts = &written.parts;
    let new = NewBase {
        base: parts.clone(),
        kept_from: old.views[0].funk.run_end,
        spent: written.spent,
    };
    layout::replace_tables(context, old.keyspace, chunk, new)
        .inspect_err(|_| remove_tables(context, parts))?;
    if written.filtered {
        forget_unfiltered(context.core, chunk);
    }
    note_base(chunk, old.views);
    note_new_share(old, parts, old.chunks);
    Ok(())
}

/// The outcome of a split or a merge. Returns the chunks that have taken over.
fn take_new_chunks(
    context: &JobContext<'_>,
    old: Old<'_>,
    written: &Written,
) -> Result<Vec<Arc<Chunk>>> {
    let Old {
        keyspace,
        chunks,
        views,
    } = old;
    let parts = &written.parts;
    let new = new_chunks(&chunks[0].range.low, parts);
    let below: Vec<u32> = views.iter().map(|view| view.funk.run_end).collect();
    // The records that the filter has changed leave RAM.
    let munks = match written.filtered {
        true => Munks::Drop,
        false => Munks::Keep,
    };
    let rewritten = Some(Rewritten {
        below: &below,
        spent: written.spent,
        filtered: written.filtered,
    });
    let replaced = layout::replace_chunks(context, keyspace, chunks, new, rewritten, munks)
        .inspect_err(|_| remove_tables(context, parts))?;
    for new in &replaced {
        note_base(new, views);
        let mut streams = written.streams.iter();
        if streams.any(|stream| *stream.low == *new.range.low) {
            let now = checkpoint_of(context.core.clock.now());
            new.joined_at.store(now, Ordering::Relaxed);
        }
    }
    note_new_share(old, parts, &replaced);
    Ok(replaced)
}

/// A chunk for each table, the first from `low` on; one without tables if there are none.
fn new_chunks(low: &[u8], parts: &[Part]) -> Vec<NewChunk> {
    let mut new: Vec<NewChunk> = parts
        .iter()
        .map(|part| NewChunk {
            low: part.meta.min_key.clone(),
            base: vec![part.clone()],
        })
        .collect();
    match new.first_mut() {
        Some(first) => first.low = low.to_vec(),
        None => new.push(NewChunk {
            low: low.to_vec(),
            base: Vec::new(),
        }),
    }
    new
}

/// Counts a split or a merge, and reports it.
fn count_replaced(
    core: &Core,
    old: &[Arc<Chunk>],
    new: &[Arc<Chunk>],
    bytes: u64,
    job: &trace::JobSpan,
) {
    let (chunk, chunks_after) = (old[0].id.0, new.len());
    let duration_micros = job.micros();
    if old.len() == 1 {
        core.metrics.splits.add(1);
        trace::event!(
            DEBUG,
            "split",
            chunk = chunk,
            chunks_after = chunks_after,
            bytes = bytes,
            duration_micros = duration_micros
        );
    } else {
        core.metrics.merges.add(1);
        trace::event!(
            DEBUG,
            "merged",
            chunk = chunk,
            chunks_after = chunks_after,
            bytes = bytes,
            duration_micros = duration_micros
        );
    }
}

/// The views to merge, taken while no run is under way that may join a base; from here to the end
/// of the rewrite no run joins one.
fn begin_rewrite(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunks: &[Arc<Chunk>],
) -> Result<Vec<Arc<View>>> {
    let mut guards = layout::latch_beside(context, Beside::RunsForLog, keyspace, chunks)?;
    for writer in &mut guards {
        writer.rebalancing = true;
    }
    let view_of = |chunk: &Arc<Chunk>| {
        let view = chunk.view.load_full();
        chunk.assert_view(&view, "to be rewritten");
        view
    };
    Ok(chunks.iter().map(view_of).collect())
}

/// The result of a rewrite.
struct Written {
    parts: Vec<Part>,
    /// The streams around which the tables were cut.
    streams: Vec<Stream>,
    /// The range deletions up to this version hide nothing any more: they leave with the same
    /// layout change.
    spent: Version,
    /// Whether a compaction filter has changed something, or values were moved: RAM has outdated
    /// records then.
    filtered: bool,
    /// The files that values were moved to.
    _moved_to: Vec<Needed>,
}

/// Merges and writes. The tables are synced here, their names with the edit; after an error no
/// table is left.
///
/// Range deletions are applied that were in the manifest at the beginning. A record that one of
/// them hides is left out if no reader reads below that deletion. Range deletions below which
/// nobody reads any more hide nothing afterwards. All others hide the written records as before. So
/// a record that they do not hide must not get version zero: versions stay from the version of the
/// least of these deletions on. (A record could have version zero if all readers may see it. It is
/// newer only than range deletions that all readers see, and those go. So this costs nothing.)
fn write_tables(context: &JobContext<'_>, old: Old<'_>) -> Result<Written> {
    let &JobContext { core, disk, .. } = context;
    let covers = layout::joined_covers(core, old.chunks, old.views);
    let horizon = core.clock.horizon();
    let spent = covers.as_ref().map(|covers| covers.spent_limit(&horizon));
    let spent = spent.unwrap_or(Version::ZERO);
    let stays = covers
        .as_ref()
        .and_then(|covers| covers.oldest_above(spent));
    let mut written = Written {
        parts: Vec::new(),
        streams: Vec::new(),
        spent,
        filtered: false,
        _moved_to: Vec::new(),
    };
    // The tables hold only tombstones that hide nothing: there is no need to read them.
    if horizon.snapshots.is_empty() && old.views.iter().all(|view| tombstones_only(view)) {
        return Ok(written);
    }
    let pieces = pieces_for(core, old, &mut written.streams)?;
    let dropping = Dropping {
        horizon: &horizon,
        bottom: true,
        zero_below: stays.unwrap_or(Version::MAX),
    };
    let filtered = Cell::new(false);
    let merge = merge_of(core, old, dropping, covers.as_ref(), &filtered)?;
    let mut moves = Moves::new(core, disk);
    let cuts = Cuts::new(pieces, &written.streams);
    let making = Making {
        past_cache: goes_past_cache(old.chunks, old.views),
        options: making_options(core, old.keyspace),
    };
    let parts = &mut written.parts;
    let count = write_pieces(&mut moves, merge, cuts, making, parts)
        .inspect_err(|_| remove_tables(context, parts))?;
    count
        .check(|| rewrite_and_files(disk, old))
        .map_err(|error| {
            // The tables first: after the latch nothing is removed any more.
            remove_tables(context, parts);
            core.health.latch(error)
        })?;
    written._moved_to = moves
        .finish()
        .inspect_err(|_| remove_tables(context, parts))?;
    written.filtered = filtered.get() || !written._moved_to.is_empty();
    Ok(written)
}

/// The merge of everything durable of the old chunks, through the keyspace's filter. `filtered`
/// tells whether the filter has changed something.
fn merge_of<'m>(
    core: &'m Core,
    old: Old<'m>,
    dropping: Dropping<'m>,
    covers: Option<&Arc<Covers>>,
    filtered: &'m Cell<bool>,
) -> Result<Merge<'m>> {
    // Sources of two chunks have disjoint keys, so their order does not matter.
    let mut sources = Vec::new();
    for (chunk, view) in old.chunks.iter().zip(old.views) {
        sources.extend(sources_of(chunk, view)?);
    }
    let filter = old.keyspace.filter.lock().clone();
    let filter = filter.map(|filter| filtering(core, filter, filtered));
    let covering = Covers::covering_now(covers);
    let operator = core.choices.operator(old.keyspace.id);
    let merge = Merge::filtering(sources, dropping, covering, operator, filter)?;
    Ok(merge.yielding_by(pace::yielder(&core.admission)))
}

/// The filter as a merge calls it. After a panic every record is kept: the filter's decisions are
/// not known any more.
pub(crate) fn filtering<'f>(
    core: &'f Core,
    filter: Arc<dyn CompactionFilter>,
    filtered: &'f Cell<bool>,
) -> Filtering<'f> {
    let mut has_panicked = false;
    Box::new(move |key, kind, stored| {
        let value = &stored[kind.prefix_bytes()..];
        if has_panicked {
            return FilterDecision::Keep;
        }
        // A value that cannot be read stays, for its readers to find out.
        let apart = match Apart::of(kind, stored).map(|place| core.value_files.read(&place)) {
            None => None,
            Some(Ok(Some(apart))) => Some(apart),
            Some(Ok(None) | Err(_)) => return FilterDecision::Keep,
        };
        let value = apart.as_deref().unwrap_or(value);
        let decision = catch_unwind(AssertUnwindSafe(|| filter.filter(key, value)));
        let decision = decision.unwrap_or_else(|_| {
            core.metrics.compaction_filter_panics.add(1);
            has_panicked = true;
            FilterDecision::Keep
        });
        filtered.set(filtered.get() || decision != FilterDecision::Keep);
        decision
    })
}

/// Removes from RAM the records that the filter has changed in the tables. Until then reads answer
/// with the old records. The caller holds the token.
fn forget_unfiltered(core: &Core, chunk: &Arc<Chunk>) {
    let munk = chunk.view.load_full().munk.clone();
    // Hot spans stay known, and are loaded again.
    let empty = munk.map(|munk| Arc::new(munk.without(|_| true)));
    let _writer = chunk.latch.lock();
    let mut view: View = (*chunk.view.load_full()).clone();
    view.munk = empty;
    view.keep_deltas_for_spans_alone();
    view.row_tag = core.row_tags.fresh();
    chunk.publish(view);
}

/// Whether tables are written past the system's cache, which costs less. That pays where they are
/// hardly read from there: all of the chunk is in RAM, or it is mostly written.
pub(crate) fn goes_past_cache(chunks: &[Arc<Chunk>], views: &[Arc<View>]) -> bool {
    let mut all = chunks.iter().zip(views);
    all.all(|(chunk, view)| view.whole_munk().is_some() || is_mostly_written(chunk))
}

/// Names a rewrite for an error: its chunks and the tables that it read.
fn rewrite_and_files(disk: &Disk, old: Old<'_>) -> String {
    let ids: Vec<String> = old
        .chunks
        .iter()
        .map(|chunk| chunk.id.0.to_string())
        .collect();
    let tables = old.views.iter().flat_map(|view| view.funk.tables());
    let file = |part: &Part| part_path(&disk.dir, part);
    let files: BTreeSet<String> = tables
        .map(|table| file(&table.part).display().to_string())
        .collect();
    let files: Vec<String> = files.into_iter().collect();
    let (ids, files) = (ids.join(" and "), files.join(", "));
    format!("a rewrite of chunk {ids} ({files}) lost or made records")
}

/// Notes that the chunk's base holds everything of the funks of `views`. Whether the chunk grows
/// must be found out again.
fn note_base(chunk: &Chunk, views: &[Arc<View>]) {
    let runs = views.iter().flat_map(|view| &view.funk.runs);
    let checkpoints = runs.map(|run| run.table.part.checkpoint);
    let based_at = checkpoints.max().unwrap_or(0);
    chunk.based_at.fetch_max(based_at, Ordering::Relaxed);
    chunk.joined_at.store(0, Ordering::Relaxed);
}
