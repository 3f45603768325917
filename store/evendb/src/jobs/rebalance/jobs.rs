//! One look at a chunk: decides from its figures what it needs, and does it.
//!
//! ```text
//! chunk, view, limits --own_figures--> ChunkStats --picker, pure-----> Decision --maintain--+
//!   None  Absorb  RebalanceFunk  Split  Merge          again, until the decision is None <---+
//! ```
//!
//! Invariant: every change of a chunk is made under its token, and a merge has both tokens. Thread
//! safety: any. Not here: how records are rewritten ([`rewrite`]) and published ([`layout`]), and
//! what a full disk needs (`making_room`).

use super::layout::{Munks, NewChunk};
use crate::catalog::KeyspaceState;
use crate::checkpoint::joining::stretch_bytes_min;
use crate::chunk::{Chunk, View};
use crate::engine::JobContext;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::full_disk::Need;
use crate::funk::{Funk, Run};
use crate::manifest::edit::Place;
use crate::munk::Munk;
use crate::picker::{ChunkStats, Decision, PickerLimits, pick};
use crate::plant::planted;
use crate::rebalance::covered_tables::{self, Hidden};
use crate::rebalance::{expired_tables, guarded, layout, munks, rewrite};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::tables::TableHandle;
use crate::trace;
use crate::version::clock::checkpoint_of;
use evendb_storage::codec::hash_key;

/// The number of edits that may wait for upkeep to make them durable.
const QUEUED_EDITS_MAX: usize = 64;

/// A log of at most one part in this number of its base is by itself no reason to rewrite the base.
const LOG_PART_SMALL: u64 = 32;

/// A chunk whose base got nothing for this many checkpoints counts as no longer growing.
const GROWS_CHECKPOINTS: u64 = 16;

/// Makes queued edits durable. A full disk is no error: the edits stay queued.
pub(crate) fn flush_manifest(context: &JobContext<'_>) -> Result<()> {
    let &JobContext { core, disk, .. } = context;
    let flush = || Ok(disk.manifest().flush(Vec::new())?);
    let flushed = disk.full_disk.with(Need::Jobs, flush);
    let flushed = match flushed {
        Err(error) if error.kind() == ErrorKind::NoSpace => {
            disk.manifest().flush_into_reserve().map_err(Error::from)
        }
        flushed => flushed,
    };
    match flushed {
        Ok(bytes) => core.metrics.bytes_manifest.add(bytes),
        Err(error) if error.kind() == ErrorKind::NoSpace => {}
        Err(error) => return Err(core.health.latch(error)),
    }
    // The files that the edits dropped may be removed.
    context.work.stir();
    Ok(())
}

/// Looks at a chunk until it needs nothing more, and returns whether anything was done. After an
/// error of kind `NoSpace` it is tried again later; any other error has marked the chunk as
/// damaged, or latched the database.
pub(crate) fn maintain(context: &JobContext<'_>, chunk: &Arc<Chunk>) -> Result<bool> {
    let &JobContext { core, memory, .. } = context;
    let Some(keyspace) = context.catalog.keyspace_of(chunk) else {
        return Ok(false);
    };
    let Some(_token) = chunk.try_token() else {
        return Ok(false);
    };
    let mut worked = false;
    // A chunk that is split is not looked at again: the new chunks are queued.
    for _ in 0..4 {
        if chunk.latch.lock().retired || core.health.failure().is_some() {
            break;
        }
        if chunk.damaged.load(Ordering::Relaxed) {
            // Nothing is done that reads the chunk's tables; but the deltas kept for its munk are
            // released.
            worked |= munks::absorb(core, chunk);
            break;
        }
        if chunk.view.load_full().funk.is_guarded() {
            return guarded::maintain(context, &keyspace, chunk);
        }
        worked |= covered_tables::drop_covered(context, &keyspace, chunk)?;
        worked |= expired_tables::drop_expired(context, &keyspace, chunk)?;
        worked |= munks::mend_spent(core, chunk);
        let view = chunk.view.load_full();
        match decide(context, &keyspace, chunk, &view) {
            Decision::None => break,
            Decision::Absorb => worked |= munks::absorb_or_evict(core, memory, chunk),
            Decision::RebalanceFunk => {
                munks::absorb(core, chunk);
                ask_ahead(context, chunk);
                let new_chunks = rewrite::rewrite(context, &keyspace, std::slice::from_ref(chunk))?;
                finish_layout(context, &new_chunks)?;
                worked = true;
            }
            Decision::Split => {
                munks::absorb(core, chunk);
                let new_chunks = split(context, &keyspace, chunk)?;
                if let [whole] = &new_chunks[..] {
                    // Old versions of one key may be the larger part of the chunk's bytes: the
                    // split is not tried again before the chunk grows.
                    let bytes = live_bytes(chunk, &whole.view.load_full());
                    whole.whole_at_bytes.store(bytes, Ordering::Relaxed);
                }
                finish_layout(context, &new_chunks)?;
                worked = true;
            }
            Decision::Merge => {
                let merged = merge_with_next(context, &keyspace, chunk)?;
                worked |= merged;
                if !merged {
                    break;
                }
            }
        }
    }
    Ok(worked)
}

/// Where calls wait for reorganisation, this makes the disk read the tables of `chunk`, which is
/// about to be rewritten, and then the tables of the next chunk in the queue, while `chunk` is
/// merged. So the next rewrite finds its tables in the system's cache. At most one chunk for each
/// worker is read ahead.
fn ask_ahead(context: &JobContext<'_>, chunk: &Arc<Chunk>) {
    let &JobContext { core, work, .. } = context;
    let Some(next) = work.next_to_ask(core.options.workers, core.admission.is_behind()) else {
        return;
    };
    let ask = |chunk: &Chunk, view: &View| {
        // A munk takes in the durable deltas first; then only the records that it lacks are read.
        let in_ram = |munk: &Arc<Munk>| munk.absent_share() < 0.25;
        if !view.munk.as_ref().is_some_and(in_ram) {
            rewrite::ask_for_tables(chunk, view);
        }
    };
    ask(chunk, &chunk.view.load_full());
    let view = next.view.load_full();
    let fits = rewrite::data_bytes(&view) <= 2 * core.options.chunk_bytes_max();
    if fits
        && let Some(keyspace) = context.catalog.keyspace_of(&next)
        && debt_of(context, &keyspace, &next, &view) > 0
    {
        ask(&next, &view);
    }
}

/// After a layout change: new chunks are looked at. The edit becomes durable with the next flush,
/// by upkeep or a checkpoint, which saves one sync for each job; only a long queue is flushed here.
pub(crate) fn finish_layout(context: &JobContext<'_>, chunks: &[Arc<Chunk>]) -> Result<()> {
    if context.disk.manifest().queued() >= QUEUED_EDITS_MAX {
        flush_manifest(context)?;
    }
    for chunk in chunks {
        context.work.push_maintenance(chunk);
    }
    Ok(())
}

/// Cuts a chunk in two or more. It shares the chunk's tables if that costs nothing later.
fn split(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
) -> Result<Vec<Arc<Chunk>>> {
    let view = chunk.view.load_full();
    // Data that arrived in order lies in disjoint tables: the cuts go between them, and nothing is
    // written.
    if let Some(lows) = cuts_between_tables(context.core, chunk, &view) {
        return split_sharing(context, keyspace, chunk, lows);
    }
    // The first phase of the paper's split: a munk is cut in RAM, and the halves share the tables
    // until their next rebalance, which comes before they split again. A chunk that grows in one
    // place is cut around that place instead.
    if let Some(munk) = view.whole_munk()
        && rewrite::growth(context.core, chunk, &view)?
            .streams(stretch_bytes_min(context.core.options.chunk_bytes_max()))
            .is_empty()
        && let Some(middle) = munk.middle_key()
        && chunk.range.contains(&middle)
        && *middle > *chunk.range.low
    {
        return split_sharing(
            context,
            keyspace,
            chunk,
            vec![chunk.range.low.to_vec(), middle],
        );
    }
    rewrite::rewrite(context, keyspace, std::slice::from_ref(chunk))
}

/// Low keys that group the base's tables into chunks of up to eight tenths of the chunk limit. No
/// cut goes through a table, nor through a run of a log that is not small.
fn cuts_between_tables(core: &Core, chunk: &Chunk, view: &View) -> Option<Vec<Vec<u8>>> {
    let group_max = core.options.chunk_bytes_max() * 8 / 10;
    let whole = |key: &[u8]| {
        let cuts = |run: &Run| {
            let meta = &run.table.part.meta;
            *meta.min_key < *key && *key <= *meta.max_key
        };
        let runs = &view.funk.runs;
        chunk.range.contains(key) && (log_is_small(view) || !runs.iter().any(cuts))
    };
    let mut lows = vec![chunk.range.low.to_vec()];
    let mut group = 0;
    for table in &view.funk.base {
        let meta = &table.part.meta;
        if group > 0 && group + meta.data_bytes > group_max && whole(&meta.min_key) {
            lows.push(meta.min_key.clone());
            group = 0;
        }
        group += meta.data_bytes;
    }
    (lows.len() > 1).then_some(lows)
}

fn split_sharing(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
    lows: Vec<Vec<u8>>,
) -> Result<Vec<Arc<Chunk>>> {
    let new = lows
        .into_iter()
        .map(|low| NewChunk {
            low,
            base: Vec::new(),
        })
        .collect();
    let old = std::slice::from_ref(chunk);
    let job = trace::job!("split", chunk = chunk.id.0, keyspace = keyspace.name());
    let new_chunks = layout::replace_chunks(context, keyspace, old, new, None, Munks::Keep)?;
    context.core.metrics.splits.add(1);
    // Nothing is written: the new chunks share the tables.
    trace::event!(
        DEBUG,
        "split",
        chunk = chunk.id.0,
        chunks_after = new_chunks.len(),
        bytes = 0_u64,
        duration_micros = job.micros()
    );
    Ok(new_chunks)
}

/// Merges the chunk with its right neighbour, if no other job has that neighbour.
fn merge_with_next(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
) -> Result<bool> {
    let root = keyspace.index.load_full();
    let Some((_, next)) = root.next(&chunk.range.low) else {
        return Ok(false);
    };
    let next = next.clone();
    let Some(_token) = next.try_token() else {
        return Ok(false);
    };
    if next.latch.lock().retired || next.damaged.load(Ordering::Relaxed) {
        return Ok(false);
    }
    munks::absorb(context.core, chunk);
    munks::absorb(context.core, &next);
    let merged = rewrite::rewrite(context, keyspace, &[chunk.clone(), next.clone()])?;
    finish_layout(context, &merged)?;
    Ok(true)
}

fn decide(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Chunk,
    view: &View,
) -> Decision {
    let (stats, mut limits) = figures(context, keyspace, chunk, view);
    let live = stats.live_bytes_estimate;
    let whole_at = chunk.whole_at_bytes.load(Ordering::Relaxed);
    if live > limits.chunk_bytes_max && (live <= whole_at * 5 / 4 || !splittable(chunk, view)) {
        // One key, however large, stays one chunk. So does a chunk that could not be split and has
        // grown by less than a quarter since.
        limits.chunk_bytes_max = u64::MAX;
    }
    pick(&stats, &limits)
}

/// Bytes that reorganising the chunk now would write.
pub(crate) fn debt_of(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Chunk,
    view: &View,
) -> u64 {
    if view.funk.is_guarded() {
        return guarded::debt(context.core, keyspace.id, view);
    }
    match decide(context, keyspace, chunk, view) {
        Decision::None | Decision::Absorb => 0,
        _ => super::rewrite::data_bytes(view),
    }
}

fn figures(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Chunk,
    view: &View,
) -> (ChunkStats, PickerLimits) {
    let root = keyspace.index.load_full();
    let neighbour = |found: Option<(&[u8], &Arc<Chunk>)>| {
        found.map(|(_, chunk)| super::rewrite::data_bytes(&chunk.view.load_full()))
    };
    let stats = ChunkStats {
        // A chunk is merged with its right neighbour only, so that each pair is looked at once.
        next_bytes: neighbour(
            root.next(&chunk.range.low)
                .filter(|(_, next)| !grows(context, chunk) && !grows(context, next)),
        ),
        ..own_figures(context, chunk, view)
    };
    (stats, picker_limits(context))
}

/// Whether data arrives in order at the chunk's end. If the chunk were merged with its neighbour,
/// that data would be rewritten with the neighbour's.
fn grows(context: &JobContext<'_>, chunk: &Chunk) -> bool {
    let joined_at = chunk.joined_at.load(Ordering::Relaxed);
    joined_at > 0 && joined_at + GROWS_CHECKPOINTS >= checkpoint_of(context.core.clock.now())
}

/// Whether a file of values that is being emptied has some of these tables.
fn has_values_to_move(core: &Core, funk: &Funk) -> bool {
    core.value_files.is_any_to_be_emptied()
        && funk.tables().any(|table| {
            let named = &table.part.meta.value_files;
            core.value_files.is_one_to_be_emptied(named)
        })
}

/// Whether a container that is being emptied has tables that only a rewrite moves. Runs of a chunk
/// without guards are merged.
fn has_tables_to_move(disk: &Disk, funk: &Funk) -> bool {
    let segments = disk.container.segments();
    let is_one = |table: &Arc<TableHandle>| segments.is_in_thin(table.part.place);
    match funk.is_guarded() {
        true => funk.tables().any(is_one),
        false => funk.below_log().any(is_one),
    }
}

/// A chunk's figures without those of its neighbours.
pub(crate) fn own_figures(context: &JobContext<'_>, chunk: &Chunk, view: &View) -> ChunkStats {
    let core = context.core;
    let funk = &view.funk;
    let small_log = log_is_small(view);
    let shared = |table: &Arc<TableHandle>| !inside(chunk, table);
    let hidden = match &view.covers {
        Some(_) => covered_tables::hidden(&core.clock, view),
        None => Hidden::default(),
    };
    ChunkStats {
        is_guarded: funk.is_guarded(),
        files_to_empty: has_values_to_move(core, funk) || has_tables_to_move(context.disk, funk),
        log_value_bytes: match planted!(core.options, OverwrittenNotLooked) {
            true => 0,
            false => values_apart(&mut funk.runs.iter().map(|run| &run.table)),
        },
        base_value_bytes: values_apart(&mut funk.below_log()),
        covers: view
            .covers
            .as_ref()
            .map_or(0, |covers| covers.count() as u32),
        hidden_bytes: hidden.bytes,
        hidden_pieces: hidden.pieces,
        data_bytes: base_data_bytes(chunk, view) + funk.log_bytes(),
        // The runs of a chunk with guards are compacted by their number.
        log_bytes: if funk.is_guarded() {
            0
        } else {
            funk.log_bytes()
        },
        live_bytes_estimate: live_bytes(chunk, view),
        munk_is_whole: view.whole_munk().is_some(),
        update_rate: context.space.update_rate(chunk),
        first_limit_part: first_limit_part(chunk, funk),
        shares_tables: funk.base.iter().any(shared)
            || (!small_log && funk.runs.iter().any(|run| shared(&run.table))),
        appended_in_order: funk.base.len() > 1 && small_log,
        records: records(view),
        // A snapshot keeps tombstones: while there is one, a rewrite cannot remove them.
        tombstones: match core.clock.snapshot_count() {
            0 => funk.tables().map(|table| table.part.meta.deletes).sum(),
            _ => 0,
        },
        frozen_deltas: match view.munk {
            Some(_) => view.frozen.iter().filter(|frozen| frozen.durable).count() as u32,
            None => 0,
        },
        next_bytes: None,
    }
}

/// Bytes of separately stored values that tables name.
fn values_apart(tables: &mut dyn Iterator<Item = &Arc<TableHandle>>) -> u64 {
    let named = |table: &Arc<TableHandle>| {
        let files = table.part.meta.value_files.iter();
        files.map(|&(_, bytes)| bytes).sum::<u64>()
    };
    tables.map(named).sum()
}

/// The share of its log's limit at which a chunk is rewritten for the first time. `None` if it was
/// rewritten before, or has no base. Where chunks were loaded in order, their logs grow from
/// nothing at the same time. If all logs reached their limits at once, workers would idle until
/// then, and puts would wait for all of them afterwards. The limit falls with the square of the
/// bytes that all logs hold together (rebalance/space.rs): limit = share * c / bytes^2. So a chunk
/// is rewritten when these bytes reach the cube root of share * c. The share is the cube of an even
/// spread, so the first chunks are rewritten at half of the space for logs, and the last ones a
/// little above all of it.
fn first_limit_part(chunk: &Chunk, funk: &Funk) -> Option<f32> {
    // Of a base's tables, only those that joined it lie in the container; a rewrite makes files. So
    // this is known after an opening too, and an aged database has no chunk to rewrite early.
    let joined = |table: &Arc<TableHandle>| table.part.place != Place::File;
    let loaded = !funk.base.is_empty() && funk.base.iter().all(joined);
    loaded.then(|| {
        let spread = (hash_key(&chunk.id.0.to_le_bytes()) >> 40) as f32 / (1 << 24) as f32;
        (0.5 + 0.9 * spread).powi(3) / 2.0
    })
}

pub(crate) fn picker_limits(context: &JobContext<'_>) -> PickerLimits {
    let options = &context.core.options;
    let chunk_bytes_max = options.chunk_bytes_max();
    let (cold, munk) = options
        .advanced
        .log_bytes_limits
        .unwrap_or((chunk_bytes_max * 35 / 100, chunk_bytes_max * 2));
    PickerLimits {
        chunk_bytes_max,
        rebalance_bytes: chunk_bytes_max * 7 / 10,
        log_bytes_max_cold: cold,
        log_bytes_max_munk: munk,
        frozen_deltas_max: 1,
        square_root: match options.advanced.log_bytes_limits {
            Some(_) => None,
            None => context.space.log_budget(),
        },
        merge_bytes: chunk_bytes_max * 2 / 5,
        overwritten_values_min: options.advanced.value_file_bytes / 4,
    }
}

/// Whether a rewrite of the chunk surely takes less room on the disk than it gives back. Room that
/// it frees within the container does not count: the container keeps it.
pub(crate) fn will_shrink(view: &View) -> bool {
    // A job of guards takes a part of the chunk, and gives the tables back that it took.
    if view.funk.is_guarded() {
        return true;
    }
    let files = view
        .funk
        .tables()
        .filter(|table| table.part.place == Place::File);
    output_bytes(view) * 4 / 3 <= files.map(|table| table.part_len()).sum()
}

/// About how many bytes a rewrite of the chunk writes.
pub(crate) fn output_bytes(view: &View) -> u64 {
    let metas = || view.funk.tables().map(|table| &table.part.meta);
    match view.whole_munk() {
        Some(munk) => munk.data_bytes() as u64,
        None => {
            // Each tombstone is assumed to remove one record and itself.
            let entries: u64 = metas().map(|meta| meta.entries).sum();
            let deletes: u64 = metas().map(|meta| meta.deletes).sum();
            let bytes: u64 = metas().map(|meta| meta.data_bytes).sum();
            let left = bytes / entries.max(1) * entries.saturating_sub(2 * deletes);
            left.saturating_sub(covered_tables::hidden_if_unread(view))
        }
    }
}

/// Whether the log is tiny beside the base: a few late records of data that arrives in order.
fn log_is_small(view: &View) -> bool {
    view.funk.log_bytes() * LOG_PART_SMALL <= view.funk.base_bytes()
}

/// Whether a table lies within the chunk. After a split it may reach into a neighbour.
pub(super) fn inside(chunk: &Chunk, table: &TableHandle) -> bool {
    let meta = &table.part.meta;
    chunk.range.contains(&meta.min_key) && chunk.range.contains(&meta.max_key)
}

/// Bytes of the base's keys and values within the chunk. A table shared with a neighbour counts
/// half.
fn base_data_bytes(chunk: &Chunk, view: &View) -> u64 {
    let own = |table: &Arc<TableHandle>| {
        table.part.meta.data_bytes / if inside(chunk, table) { 1 } else { 2 }
    };
    view.funk.below_log().map(own).sum()
}

/// Bytes of keys and values that a rewrite would leave. Only a munk knows whether the log's records
/// are new keys or overwrite old ones; without a munk they count as overwriting.
pub(super) fn live_bytes(chunk: &Chunk, view: &View) -> u64 {
    match view.whole_munk() {
        Some(munk) => munk.data_bytes() as u64,
        // Much of what lies in guards may still be in its first runs.
        None if view.funk.is_guarded() => rewrite::data_bytes(view),
        None => base_data_bytes(chunk, view),
    }
}

/// The number of records below the log, or of the log if there is nothing below it.
fn records(view: &View) -> u64 {
    let entries = |table: &Arc<TableHandle>| table.part.meta.entries;
    match view.funk.below_log().map(entries).sum() {
        0 => view.funk.tables().map(entries).sum(),
        below => below,
    }
}

/// Whether the chunk holds at least two different keys on disk.
fn splittable(chunk: &Chunk, view: &View) -> bool {
    if let Some(munk) = view.whole_munk() {
        return munk
            .middle_key()
            .is_some_and(|key| chunk.range.contains(&key) && *key > *chunk.range.low);
    }
    let metas = || view.funk.tables().map(|table| &table.part.meta);
    let least = metas().map(|meta| &meta.min_key[..]).min();
    let greatest = metas().map(|meta| &meta.max_key[..]).max();
    least.map(|key| key.max(&chunk.range.low)) < greatest
}
