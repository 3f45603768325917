//! Rewriting chunks: their bases and logs are merged into new SSTables. One chunk in and one out is
//! a rebalance; one in and several out is a split; two neighbours in is a merge of chunks that have
//! become small.
//!
//! Puts and checkpoints continue meanwhile: runs written during the merge stay in the log. If a
//! munk has taken in everything durable, it is the source, and nothing is read.
//!
//! A failure at any point before the layout change deletes the new files and leaves everything as
//! it was. Records are counted in and out (`merge/count/mod.rs`): a difference latches the database,
//! and nothing is published. A read error aborts.

use crate::catalog::KeyspaceState;
use crate::checkpoint::joining::stretch_bytes_min;
use crate::chunk::covers::Covers;
use crate::chunk::{Chunk, KeyRange, View};
use crate::engine::JobContext;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::engine::flow::Flow;
use crate::error::{Error, ErrorKind, Result};
use crate::files::CONTAINER;
use crate::funk::tables::{TableHandle, table_path};
use crate::manifest::edit::{Part, Place, Role};
use crate::memory::{Charge, Use};
use crate::merge::count::Count;
use crate::merge::{Filtering, Merge, MunkSource, Source, TableSource};
use crate::options::{CompactionFilter, FilterDecision};
use crate::pace::{self, Rest};
use crate::plant::planted;
use crate::rebalance::growth::{Growth, Stream};
use crate::rebalance::layout;
use crate::rebalance::layout::{Beside, Munks, NewBase, NewChunk, Rewritten};
use crate::rebalance::munks::{self, is_mostly_written};
use crate::rebalance::pieces::Pieces;
use crate::rebalance::value_moves::Moves;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::trace;
use crate::value_files::Needed;
use crate::version::clock::checkpoint_of;
use crate::visibility::Dropping;
use evendb_storage::table::{TableMeta, TableOptions, TableSink, TableWriter};
use evendb_storage::vfs::{Appender, BLOCK_BYTES, File};
use evendb_storage::{Apart, EntryRef, TableId, Version};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The least and the most bytes that are gathered for one write to a table's file. Not more: a
/// device may take at most 254 parts in a request, so a MiB of memory that is not contiguous needs
/// two requests.
const WRITE_BYTES_MIN: u64 = 128 << 10;
const WRITE_BYTES_MAX: u64 = 640 << 10;

/// A log that has half the bytes of its base is looked through for streams if its share of new
/// records is at least [`MOSTLY_NEW`], and if at least the share [`STREAMS_MIN`] of the keyspace's
/// looks find one. A chunk that has outgrown its limit is looked through in any case, so streams
/// are found again.
const MOSTLY_NEW: f32 = 0.8;
const STREAMS_MIN: f32 = 0.1;

/// A new SSTable's file.
struct FileSink<'c> {
    core: &'c Core,
    out: Appender,
    /// The memory charge of the buffer.
    charge: Charge,
}

impl FileSink<'_> {
    fn new(core: &Core, file: Arc<dyn File>, past_cache: bool) -> FileSink<'_> {
        // A smaller write where memory is short and chunks are small.
        let piece = (core.options.chunk_bytes_max() / 16).clamp(WRITE_BYTES_MIN, WRITE_BYTES_MAX);
        let piece = (piece as usize).next_multiple_of(BLOCK_BYTES);
        let out = Appender::new(file, piece, past_cache);
        FileSink {
            charge: Charge::new(core.ledger(), Use::Buffers, out.capacity()),
            core,
            out,
        }
    }
}

impl TableSink for FileSink<'_> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.out.buffer()
    }

    fn pass_on(&mut self, is_last: bool) -> evendb_storage::Result<()> {
        if !self.out.is_full() && !is_last {
            return Ok(());
        }
        self.charge.set(self.out.capacity());
        self.out.set_depth(pace::writes_ahead(self.core));
        let written = match is_last {
            true => self.out.finish(),
            false => self.out.pass_on(),
        };
        written.map_err(|source| {
            evendb_storage::Error::io(self.out.file().path(), "write an SSTable", source)
        })
    }
}

/// How tables are written.
#[derive(Clone, Copy)]
struct Making {
    /// See [`goes_past_cache`].
    past_cache: bool,
    options: TableOptions,
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
    let &JobContext {
        core, disk, flow, ..
    } = context;
    let job = trace::job!(
        "rewrite",
        chunk = chunks[0].id.0,
        keyspace = &*keyspace.name
    );
    let views = begin_rewrite(core, flow, keyspace, chunks)?;
    let _rebalancing = Rebalancing(chunks);
    let ordinals: Vec<u32> = views.iter().map(|view| view.funk.run_end).collect();
    let written = write_tables(core, disk, keyspace, chunks, &views);
    let Written {
        parts,
        streams,
        spent,
        filtered,
        _moved_to,
    } = written.inspect_err(|error| {
        if matches!(error.kind(), ErrorKind::Corruption) {
            chunks.iter().for_each(|chunk| chunk.note_damage(error));
        }
    })?;
    let written_bytes: u64 = parts.iter().map(|part| part.meta.len).sum();
    for chunk in chunks {
        munks::mend(core, chunk, spent);
    }
    if let [chunk] = chunks
        && parts.len() <= 1
    {
        let new = NewBase {
            base: parts.clone(),
            kept_from: ordinals[0],
            spent,
        };
        layout::replace_tables(core, disk, flow, keyspace, chunk, new)
            .inspect_err(|_| remove_tables(core, disk, &parts))?;
        if filtered {
            forget_unfiltered(core, chunk);
        }
        note_base(chunk, &views);
        note_new_share(keyspace, chunk, &views[0], &parts, chunks);
        core.metrics.rebalances.add(1);
        trace::event!(
            DEBUG,
            "rebalanced",
            chunk = chunk.id.0,
            bytes = written_bytes,
            duration_micros = job.micros()
        );
        return Ok(chunks.to_vec());
    }
    let new = new_chunks(&chunks[0].range.low, &parts);
    let below = &ordinals[..];
    // The records that the filter has changed leave RAM.
    let munks = if filtered { Munks::Drop } else { Munks::Keep };
    let rewritten = Some(Rewritten {
        below,
        spent,
        filtered,
    });
    let replaced = layout::replace_chunks(context, keyspace, chunks, new, rewritten, munks)
        .inspect_err(|_| remove_tables(core, disk, &parts))?;
    for new in &replaced {
        note_base(new, &views);
        if streams.iter().any(|stream| *stream.low == *new.range.low) {
            let now = checkpoint_of(core.clock.now());
            new.joined_at.store(now, Ordering::Relaxed);
        }
    }
    if let ([chunk], [view]) = (chunks, &views[..]) {
        note_new_share(keyspace, chunk, view, &parts, &replaced);
    }
    core.metrics.rebalances.add(1);
    count_replaced(core, chunks, &replaced, written_bytes, &job);
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
    core: &Core,
    flow: &Flow,
    keyspace: &KeyspaceState,
    chunks: &[Arc<Chunk>],
) -> Result<Vec<Arc<View>>> {
    let mut guards = layout::latch_beside(Beside::RunsForLog, core, flow, keyspace, chunks)?;
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

fn remove_tables(core: &Core, disk: &Disk, parts: &[Part]) {
    if core.health.failure().is_none() {
        for part in parts {
            let _ = disk.vfs.remove(&table_path(&disk.dir, part.table));
        }
    }
}

/// Where the chunk grows, and how much it holds. Reads everything, unless all of it is in RAM.
pub(crate) fn growth(core: &Core, chunk: &Chunk, view: &View) -> Result<Growth> {
    let horizon = core.clock.horizon();
    let dropping = Dropping {
        horizon: &horizon,
        // In a merge that includes the base, versions become zero.
        bottom: false,
        zero_below: Version::ZERO,
    };
    let covering = Covers::covering_now(view.covers.as_ref());
    let merge = Merge::under(sources_of(chunk, view)?, dropping, covering)?;
    let mut merge = merge.yielding_by(pace::yielder(core));
    let mut growth = Growth::since(chunk.based_at.load(Ordering::Relaxed));
    let mut last_key: Option<Vec<u8>> = None;
    let mut rest = Rest::new(core);
    while let Some(entry) = merge.current() {
        let bytes = (entry.key.len() + entry.value.len()) as u64;
        if last_key.as_deref() == Some(entry.key) {
            growth.add_older(bytes);
        } else {
            if !entry.kind.is_tombstone() {
                growth.add(entry.key, bytes, checkpoint_of(entry.version));
            }
            let last = last_key.get_or_insert_default();
            last.clear();
            last.extend_from_slice(entry.key);
        }
        merge.advance()?;
        rest.take_sometimes(core, pace::reorganisation_rest(core));
    }
    Ok(growth)
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
fn write_tables(
    core: &Core,
    disk: &Disk,
    keyspace: &KeyspaceState,
    chunks: &[Arc<Chunk>],
    views: &[Arc<View>],
) -> Result<Written> {
    let covers = layout::joined_covers(core, chunks, views);
    let horizon = core.clock.horizon();
    let spent = covers.as_ref().map(|covers| covers.spent_limit(&horizon));
    let spent = spent.unwrap_or(Version::ZERO);
    let stays = covers
        .as_ref()
        .and_then(|covers| covers.oldest_above(spent));
    let mut parts = Vec::new();
    let mut streams = Vec::new();
    // The tables hold only tombstones that hide nothing: there is no need to read them.
    if horizon.snapshots.is_empty() && views.iter().all(|view| tombstones_only(view)) {
        return Ok(Written {
            parts,
            streams,
            spent,
            filtered: false,
            _moved_to: Vec::new(),
        });
    }
    let pieces = pieces_for(core, keyspace, chunks, views, &mut streams)?;
    let ends = |stream: &Stream| [Some(stream.low.clone()), stream.end.clone()];
    let mut cuts: Vec<Vec<u8>> = streams.iter().flat_map(ends).flatten().collect();
    cuts.reverse();
    // Sources of two chunks have disjoint keys, so their order does not matter.
    let mut sources = Vec::new();
    for (chunk, view) in chunks.iter().zip(views) {
        sources.extend(sources_of(chunk, view)?);
    }
    let dropping = Dropping {
        horizon: &horizon,
        bottom: true,
        zero_below: stays.unwrap_or(Version::MAX),
    };
    let filtered = Cell::new(false);
    let filter = keyspace.filter.lock().clone();
    let filter = filter.map(|filter| filtering(core, filter, &filtered));
    let covering = Covers::covering_now(covers.as_ref());
    let operator = core.choices.operator(keyspace.id);
    let mut moves = Moves::new(core, disk);
    let result = Merge::filtering(sources, dropping, covering, operator, filter)
        .map(|merge| merge.yielding_by(pace::yielder(core)))
        .and_then(|mut merge| {
            let mut count = Count::default();
            count.begin(&merge);
            let making = Making {
                past_cache: goes_past_cache(chunks, views),
                options: making_options(core, keyspace),
            };
            write_pieces(&mut moves, &mut merge, pieces, cuts, making, &mut parts)?;
            count.add(&merge, parts.iter().map(|part| &*part.meta));
            Ok(count)
        });
    let count = result.inspect_err(|_| remove_tables(core, disk, &parts))?;
    count
        .check(|| rewrite_and_files(disk, chunks, views))
        .map_err(|error| {
            // The tables first: after the latch nothing is removed any more.
            remove_tables(core, disk, &parts);
            core.health.latch(error)
        })?;
    let moved_to = moves
        .finish()
        .inspect_err(|_| remove_tables(core, disk, &parts))?;
    Ok(Written {
        parts,
        streams,
        spent,
        filtered: filtered.get() || !moved_to.is_empty(),
        _moved_to: moved_to,
    })
}

fn making_options(core: &Core, keyspace: &KeyspaceState) -> TableOptions {
    match planted!(core.options, KeyspaceOptionsForgotten) {
        true => core.options.table_options(),
        false => core.table_options(keyspace.id),
    }
}

/// The filter as a merge calls it. After a panic every record is kept: the filter's decisions are
/// not known any more.
fn filtering<'f>(
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

/// How the rewrite cuts its tables. If only a look at the whole log tells how much of it overwrites
/// the base, this takes that look, unless other rewrites have answered the question. The look also
/// finds the `streams`.
fn pieces_for(
    core: &Core,
    keyspace: &KeyspaceState,
    chunks: &[Arc<Chunk>],
    views: &[Arc<View>],
    streams: &mut Vec<Stream>,
) -> Result<Pieces> {
    let bytes_max = core.options.chunk_bytes_max();
    let total: u64 = views.iter().map(|view| data_bytes(view)).sum();
    let ([chunk], [view]) = (chunks, views) else {
        return Ok(match total <= bytes_max {
            true => Pieces::one(),
            false => Pieces::several(bytes_max),
        });
    };
    let known = chunk.new_share.get().or_else(|| keyspace.new_share.get());
    let (base, log) = base_and_log_bytes(view);
    let may_grow = log * 2 > base
        && known.is_some_and(|share| share >= MOSTLY_NEW)
        && keyspace.stream_share.get().unwrap_or(1.0) >= STREAMS_MIN;
    if !may_grow {
        let new = (log as f64 * f64::from(known.unwrap_or(1.0))) as u64;
        if total <= bytes_max {
            return Ok(Pieces::one());
        }
        if view.whole_munk().is_none() && base + new <= bytes_max {
            return Ok(Pieces::one_if_it_fits(bytes_max));
        }
    }
    let growth = growth(core, chunk, view)?;
    let fits = growth.live_bytes() <= bytes_max;
    if may_grow || !fits {
        *streams = growth.streams(stretch_bytes_min(bytes_max));
        let found = !streams.is_empty();
        keyspace
            .stream_share
            .move_towards(f32::from(u8::from(found)));
    }
    Ok(match fits && streams.is_empty() {
        true => Pieces::one(),
        false => Pieces::several(bytes_max),
    })
}

/// Bytes of keys and values in the tables of the base, and in those of the log.
pub(crate) fn base_and_log_bytes(view: &View) -> (u64, u64) {
    let bytes = |table: &Arc<TableHandle>| table.part.meta.data_bytes;
    let base = view.funk.base.iter().map(bytes).sum();
    let runs = view.funk.runs.iter().map(|run| &run.table);
    (base, runs.map(bytes).sum())
}

/// Notes for the next rewrites which share of the log of `view` was new, now that all of it is in
/// `parts`. A chunk that shares tables with others has no such figure.
fn note_new_share(
    keyspace: &KeyspaceState,
    old: &Chunk,
    view: &View,
    parts: &[Part],
    new: &[Arc<Chunk>],
) {
    let (base, log) = base_and_log_bytes(view);
    let written: u64 = parts.iter().map(|part| part.meta.data_bytes).sum();
    let mut tables = view.funk.tables();
    if log == 0 || tables.any(|table| !crate::rebalance::jobs::inside(old, table)) {
        return;
    }
    let share = (written.saturating_sub(base) as f64 / log as f64).min(1.0) as f32;
    for chunk in new {
        chunk.new_share.set(share);
    }
    keyspace.new_share.move_towards(share);
}

/// Names a rewrite for an error: its chunks and the tables that it read.
fn rewrite_and_files(disk: &Disk, chunks: &[Arc<Chunk>], views: &[Arc<View>]) -> String {
    let ids: Vec<String> = chunks.iter().map(|chunk| chunk.id.0.to_string()).collect();
    let tables = views.iter().flat_map(|view| view.funk.tables());
    let file = |part: &Part| match part.place {
        Place::File => table_path(&disk.dir, part.table),
        Place::Extent { .. } => disk.dir.join(CONTAINER),
    };
    let files: BTreeSet<String> = tables
        .map(|table| file(&table.part).display().to_string())
        .collect();
    let files: Vec<String> = files.into_iter().collect();
    let (ids, files) = (ids.join(" and "), files.join(", "));
    format!("a rewrite of chunk {ids} ({files}) lost or made records")
}

fn write_pieces(
    moves: &mut Moves<'_>,
    merge: &mut Merge<'_>,
    mut pieces: Pieces,
    mut cuts: Vec<Vec<u8>>,
    making: Making,
    parts: &mut Vec<Part>,
) -> Result<()> {
    let (core, disk) = (moves.core, moves.disk);
    while let Some(entry) = merge.current() {
        while cuts.pop_if(|cut| **cut <= *entry.key).is_some() {}
        let id = disk.new_table_id();
        let path = table_path(&disk.dir, id);
        let end = cuts.last().map(|cut| &**cut);
        let written = write_table(moves, merge, id, &mut pieces, end, making);
        match written {
            Ok(part) => parts.push(part),
            Err(error) => {
                if core.health.failure().is_none() {
                    let _ = disk.vfs.remove(&path);
                }
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Writes a table of keys below `end`, of the size that `pieces` allows.
fn write_table(
    moves: &mut Moves<'_>,
    merge: &mut Merge<'_>,
    id: TableId,
    pieces: &mut Pieces,
    end: Option<&[u8]>,
    making: Making,
) -> Result<Part> {
    let (core, disk) = (moves.core, moves.disk);
    let path = table_path(&disk.dir, id);
    let io = |what| {
        let path = path.clone();
        move |source| Error::from(evendb_storage::Error::io(&path, what, source))
    };
    let file = disk.vfs.create(&path).map_err(io("create an SSTable"))?;
    let sink = FileSink::new(core, file.clone(), making.past_cache);
    let mut writer = TableWriter::new(sink, id, making.options).sealed(disk.vfs.secrets());
    let mut last_key: Option<Vec<u8>> = None;
    let mut live_bytes = 0;
    let mut rest = Rest::new(core);
    while let Some(entry) = merge.current() {
        let new_key = last_key.as_deref() != Some(entry.key);
        if new_key {
            // A record too large for the rest gets a table of its own.
            let size = (entry.key.len() + entry.value.len()) as u64;
            let mut is_full = || {
                let taken = || merge.fates_so_far().taken();
                pieces.is_full(writer.bytes_estimate() + size)
                    && pieces.ends(live_bytes, taken(), merge.held().most)
            };
            let behind = || end.is_some_and(|end| *entry.key >= *end);
            if last_key.is_some() && (behind() || is_full()) {
                break;
            }
            let last = last_key.get_or_insert_default();
            last.clear();
            last.extend_from_slice(entry.key);
        }
        if !(planted!(core.options, RewriteLosesRecord) && entry.key.ends_with(b"7")) {
            let moved = moves.moved(&entry)?;
            let value = moved.as_deref().unwrap_or(entry.value);
            writer.add(EntryRef { value, ..entry })?;
        }
        live_bytes += (entry.key.len() + entry.value.len()) as u64;
        merge.advance()?;
        rest.take_sometimes(core, pace::reorganisation_rest(core));
    }
    let (_, meta) = writer.finish()?;
    core.metrics.bytes_sstable.add(meta.len);
    // After a failed sync it is not known which bytes of the file are on the disk: writing stops
    // for good.
    file.sync_data()
        .map_err(io("sync an SSTable"))
        .map_err(|error| core.health.latch(error))?;
    Ok(Part {
        table: id,
        place: Place::File,
        role: Role::Base,
        epoch: disk.epoch,
        checkpoint: 0,
        meta: Arc::new(meta),
    })
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

/// Whether no table has any value.
fn tombstones_only(view: &View) -> bool {
    let dead = |meta: &TableMeta| meta.deletes == meta.entries;
    view.whole_munk().is_none() && view.funk.tables().all(|table| dead(&table.part.meta))
}

/// Bytes of keys and values in the chunk's tables, as far as their figures tell.
pub(crate) fn data_bytes(view: &View) -> u64 {
    match view.whole_munk() {
        Some(munk) => munk.data_bytes() as u64,
        None => view
            .funk
            .tables()
            .map(|table| table.part.meta.data_bytes)
            .sum(),
    }
}

/// The durable content of a chunk within its range, newest source first: the part that its munk has
/// from there, the other part from the funk.
pub(crate) fn sources_of<'v>(chunk: &Chunk, view: &'v View) -> Result<Vec<Box<dyn Source + 'v>>> {
    let absorbed = !view.frozen.iter().any(|frozen| frozen.durable);
    let Some(munk) = view.munk.as_ref().filter(|_| absorbed) else {
        return funk_sources(chunk, view);
    };
    let absent = munk.absent_segments();
    if absent.len() > ABSENT_SEGMENTS_MAX || !munk.holds_any() {
        return funk_sources(chunk, view);
    }
    // No key is in two of these.
    let mut sources: Vec<Box<dyn Source + 'v>> = vec![Box::new(MunkSource::new(munk))];
    for (segment, share) in absent {
        let range = KeyRange {
            low: segment.low.map_or(chunk.range.low.clone(), Box::from),
            high: segment
                .high
                .map(Box::from)
                .or_else(|| chunk.range.high.clone()),
        };
        sources.extend(sources_within(view, &range, share)?);
    }
    Ok(sources)
}

/// If a munk has more gaps than this, a job reads everything from the funk: each gap would be
/// sought in each table.
const ABSENT_SEGMENTS_MAX: usize = 12;

/// The durable content of a chunk within its range, from its funk alone, newest source first.
pub(crate) fn funk_sources<'v>(chunk: &Chunk, view: &'v View) -> Result<Vec<Box<dyn Source + 'v>>> {
    // 256 KiB for a few sources; the buffers of many sources take 4 MiB together.
    let sources = view.funk.runs.len() + view.funk.base.len();
    let readahead_bytes = ((4 << 20) / sources.max(1)).clamp(16 << 10, 256 << 10);
    ask_for_tables(chunk, view);
    let runs = view.funk.runs.iter().rev().map(|run| &run.table);
    let mut sources: Vec<Box<dyn Source + 'v>> = Vec::new();
    for table in runs.chain(&view.funk.base) {
        let range = &chunk.range;
        let opened = table.open()?;
        let source = TableSource::new(opened, &range.low, range.high.as_deref(), readahead_bytes)?;
        sources.push(Box::new(source));
    }
    Ok(sources)
}

/// The durable content of a part of a chunk, from its funk alone. The part has about this `share`
/// of the chunk's records, and the disk is asked for only that share.
pub(crate) fn sources_within<'v>(
    view: &'v View,
    range: &KeyRange,
    share: f64,
) -> Result<Vec<Box<dyn Source + 'v>>> {
    let runs = view.funk.runs.iter().rev().map(|run| &run.table);
    let tables = runs.chain(&view.funk.base).filter_map(|table| {
        let meta = &table.part.meta;
        let bytes = (4 << 10) + (meta.data_bytes as f64 * share) as usize;
        range
            .overlaps(meta)
            .then_some((table, bytes.min(256 << 10)))
    });
    // All reads are under way before the first one is awaited.
    let several = tables.clone().nth(1).is_some();
    tables
        .clone()
        .filter(|_| several)
        .for_each(|(table, _)| table.will_open());
    for (table, bytes) in tables.clone().filter(|_| several) {
        let table = table.open()?;
        table.will_need_from(Some(&range.low), table.blocks_in(bytes));
    }
    let mut sources: Vec<Box<dyn Source + 'v>> = Vec::new();
    for (table, bytes) in tables {
        let high = range.high.as_deref();
        let source = TableSource::new(table.open()?, &range.low, high, bytes)?;
        sources.push(Box::new(source));
    }
    Ok(sources)
}

/// Makes the disk read all tables of the chunk at once, before any of them is awaited: opening a
/// table reads its index, and the merge begins with a block of each table.
pub(crate) fn ask_for_tables(chunk: &Chunk, view: &View) {
    for table in view.funk.tables() {
        if crate::rebalance::jobs::inside(chunk, table) {
            table.will_need();
        }
    }
}
