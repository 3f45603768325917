//! Merging the newest runs of a chunk's log into one.
//!
//! ```text
//! runs, oldest first   | 40 | 16 | 1 1 1 1 1 1 1 1 |  -->  | 40 | 24 |
//! ```
//!
//! Where there is far more data than memory, a checkpoint finds a record or two for each of
//! thousands of chunks. Every run costs a handle and an entry in the manifest's state, and every
//! scan of its chunk reads it. To rewrite the whole chunk for a few records would cost a hundred
//! times their bytes. So runs are merged among themselves: the newest ones, and each older run that
//! is no larger than all later runs together. So a record is rewritten only a few times until the
//! log is at its limit. A merge that scans ask for takes the whole log.
//!
//! A merge also takes runs that lie in a sealed container that is being emptied
//! ([`crate::tables::segments`]), and all newer ones, however few they are.
//!
//! A merged run takes the greatest ordinal of the runs that it replaces, so everything newer stays
//! newer. It keeps all their records that a reader may need: tombstones (I15), and versions (I14).
//! Several chunks share one sync of the container; then each chunk gets a layout change of its own,
//! before which nothing names the new runs.

use crate::catalog::KeyspaceState;
use crate::checkpoint::table::{BuiltTable, NewTable, TableShape, build_table};
use crate::chunk::covers::Covers;
use crate::chunk::{Chunk, Token, View};
use crate::engine::JobContext;
use crate::engine::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::funk::Run;
use crate::manifest::edit::{Change, Place, Role};
use crate::memory_policy::RUNS_USUAL;
use crate::merge::count::Count;
use crate::merge::{Merge, Source, TableSource};
use crate::pace;
use crate::plant::planted;
use crate::rebalance::layout;
use crate::rebalance::layout::{Beside, chunk_record};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::tables::container::RunWriter;
use crate::visibility::Dropping;
use evendb_storage::Version;

/// Bytes that share one sync; later merges take effect later.
const MERGED_BYTES_MAX: u64 = 32 << 20;

/// The number of chunks whose runs the disk reads ahead of their turn.
const CHUNKS_AHEAD: usize = 16;

/// Up to this number of bytes are merged, whatever else the chunk has.
const LITTLE_BYTES: u64 = 64 << 10;

/// A chunk whose merged run is written but not yet named by anything.
struct Merged<'c> {
    chunk: &'c Arc<Chunk>,
    keyspace: Arc<KeyspaceState>,
    /// Ordinals of the replaced runs: first and last.
    first: u32,
    last: u32,
    /// `None` if no record of the runs lies in the chunk.
    table: Option<NewTable>,
    _token: Token<'c>,
}

/// Index of the first run to merge with all newer ones, if there are `runs_min` of them. `sizes`
/// has the oldest run first.
fn first_to_merge(sizes: &[u64], runs_min: usize, bytes_max: u64) -> Option<usize> {
    let (mut first, mut sum) = (sizes.len(), 0);
    while let Some(&size) = first.checked_sub(1).and_then(|at| sizes.get(at)) {
        // The newest `runs_min` runs are taken whatever their sizes.
        let few = sizes.len() - first < runs_min;
        if (!few && size > sum) || sum + size > bytes_max {
            break;
        }
        sum += size;
        first -= 1;
    }
    (sizes.len() - first >= runs_min).then_some(first)
}

/// The index of the first run that lies in a sealed container that is being emptied.
fn first_to_move(context: &JobContext<'_>, view: &View) -> Option<usize> {
    let segments = context.disk.container.segments();
    let mut runs = view.funk.runs.iter();
    runs.position(|run| segments.is_in_thin(run.table.part.place))
}

/// Whether a merge of the chunk's runs would empty a sealed container of some of them.
pub(crate) fn empties_container(context: &JobContext<'_>, view: &View) -> bool {
    !view.funk.is_guarded() && first_to_move(context, view).is_some()
}

/// The first run to merge with all newer ones.
fn log_merge_of(context: &JobContext<'_>, chunk: &Chunk, view: &View) -> Option<usize> {
    let due = due_merge_of(context, chunk, view);
    match view.funk.is_guarded() {
        true => due,
        false => [due, first_to_move(context, view)]
            .into_iter()
            .flatten()
            .min(),
    }
}

/// The first run to merge. If scans want a merge, it takes the whole log, because each run that is
/// left costs each scan a read. Otherwise it takes the newest runs, if the log has too many.
fn due_merge_of(context: &JobContext<'_>, chunk: &Chunk, view: &View) -> Option<usize> {
    let scans_want = chunk.log_merge_wanted.load(Ordering::Relaxed);
    let limits = context.memory.log_runs(chunk, view);
    let many = limits.merged_from;
    // The runs of a chunk with guards go down the tree.
    if view.funk.is_guarded() || !view.funk.has_sorted_runs(if scans_want { 2 } else { many }) {
        return None;
    }
    let runs = view.funk.runs.iter();
    let sizes: Vec<u64> = runs.map(|run| run.table.part_len()).collect();
    let is_longest = view.funk.has_sorted_runs(limits.most);
    let bytes_max = match is_longest {
        true => u64::MAX,
        false => context.core.options.chunk_bytes_max() / 2,
    };
    let runs_min = if scans_want { sizes.len() } else { many / 2 };
    let first = first_to_merge(&sizes, runs_min, bytes_max)
        .or_else(|| first_to_merge(&sizes, many / 2, bytes_max))?;
    // If these runs are the larger part of the chunk, and no scan waits, the merge waits for a
    // rewrite, which costs only a little more.
    let merged: u64 = sizes[first..].iter().sum();
    let all = view.funk.base_bytes() + view.funk.log_bytes();
    let waits = !scans_want && merged > LITTLE_BYTES && merged * 2 > all && !is_longest;
    (!waits).then_some(first)
}

/// Bytes of metadata that a merge of the chunk's runs would free, if one is due.
pub(crate) fn mergeable_bytes(context: &JobContext<'_>, chunk: &Chunk, view: &View) -> u64 {
    let runs = &view.funk.runs;
    if runs.len() <= RUNS_USUAL || due_merge_of(context, chunk, view).is_none() {
        return 0;
    }
    let excess = runs[RUNS_USUAL..].iter();
    excess.map(|run| run.table.charged_bytes() as u64).sum()
}

/// Merges the runs of dirty chunks whose logs have the most runs that a log may have, before a
/// checkpoint adds one to each. Workers keep logs shorter than this. If puts are faster than the
/// workers, puts wait for this merge.
pub(crate) fn merge_longest(context: &JobContext<'_>) -> Result<()> {
    let mut longest = context.flow.dirty_chunks();
    longest.retain(|chunk| {
        let view = chunk.view.load_full();
        let limits = context.memory.log_runs(chunk, &view);
        view.funk.has_sorted_runs(limits.most)
    });
    merge_logs(context, &longest)
}

/// Merges the logs among `chunks` that have too many runs. If there is no room on the disk, or a
/// table cannot be read, chunks stay as they are; a failed sync latches.
pub(crate) fn merge_logs(context: &JobContext<'_>, chunks: &[Arc<Chunk>]) -> Result<()> {
    let health = &context.core.health;
    let mut left = chunks;
    // On a full disk a merge would temporarily take room that deletes count on.
    while !left.is_empty()
        && !context.disk.full_disk.is_owed()
        && health.failure().is_none()
        && !health.is_closed()
    {
        left = &left[merge_some(context, left)?..];
    }
    let wanted = chunks.iter().map(|chunk| &chunk.log_merge_wanted);
    wanted.for_each(|wanted| wanted.store(false, Ordering::Relaxed));
    Ok(())
}

/// Merges the logs of the first chunks of `chunks`, until there is enough for one sync, or a fork
/// waits; returns the number of chunks that it has looked at.
fn merge_some(context: &JobContext<'_>, chunks: &[Arc<Chunk>]) -> Result<usize> {
    let &JobContext { core, disk, .. } = context;
    let (mut merged, mut written, mut done) = (Vec::new(), 0, 0);
    let _not_sealed = disk.container.writing_for_long();
    let mut writer = disk.container.run_writer();
    let first = chunks.iter().take(CHUNKS_AHEAD);
    first.for_each(|chunk| ask_for_runs(context, chunk));
    while let Some(chunk) = chunks.get(done)
        && written < MERGED_BYTES_MAX
        && !(done > 0 && disk.container.is_awaited())
    {
        if let Some(later) = chunks.get(done + CHUNKS_AHEAD) {
            ask_for_runs(context, later);
        }
        if let Some(one) = write_merged_run(context, chunk, &mut writer) {
            written += one.table.as_ref().map_or(0, |new| new.part.meta.len);
            merged.push(one);
        }
        done += 1;
    }
    if merged.is_empty() {
        return Ok(done);
    }
    // After a failed sync it is not known which bytes of the file are on the disk: writing stops
    // for good.
    let synced = disk.container.sync();
    synced.map_err(|error| core.health.latch(error.into()))?;
    for one in merged {
        publish_merged_run(context, one)?;
    }
    Ok(done)
}

/// Makes the disk read the runs that a merge of the chunk's log would read now.
fn ask_for_runs(context: &JobContext<'_>, chunk: &Chunk) {
    let view = chunk.view.load_full();
    if let Some(first) = log_merge_of(context, chunk, &view) {
        let runs = view.funk.runs[first..].iter();
        runs.for_each(|run| run.table.will_need());
    }
}

fn write_merged_run<'c>(
    context: &JobContext<'_>,
    chunk: &'c Arc<Chunk>,
    writer: &mut RunWriter,
) -> Option<Merged<'c>> {
    let keyspace = context.catalog.keyspace_of(chunk)?;
    let token = chunk.try_token()?;
    if chunk.latch.lock().retired || chunk.damaged.load(Ordering::Relaxed) {
        return None;
    }
    let view = chunk.view.load_full();
    chunk.assert_view(&view, "whose runs are to be merged");
    let first = log_merge_of(context, chunk, &view)?;
    let runs = &view.funk.runs[first..];
    let covers = view.covers.as_ref();
    let table = match write_run_of(context, chunk, runs, covers, writer) {
        Ok(table) => table,
        Err(error) => {
            // After a lack of room or a failed read the merge is tried another time. Any other
            // failed write has latched.
            if error.kind() == ErrorKind::Corruption {
                chunk.note_damage(&error);
            }
            return None;
        }
    };
    Some(Merged {
        chunk,
        keyspace,
        first: runs.first()?.ordinal,
        last: runs.last()?.ordinal,
        table,
        _token: token,
    })
}

/// Merges `runs` into a new one, written but not synced. `None` if none of their records lies in
/// the chunk.
fn write_run_of(
    context: &JobContext<'_>,
    chunk: &Chunk,
    runs: &[Run],
    covers: Option<&Arc<Covers>>,
    writer: &mut RunWriter,
) -> Result<Option<NewTable>> {
    let &JobContext { core, disk, .. } = context;
    let mut bytes = Vec::new();
    let Some(built) = build_merged(context, chunk, runs, covers, &mut bytes)? else {
        return Ok(None);
    };
    let len = built.meta.len;
    let offset = disk.container.allocate(len)?;
    if let Err(error) = writer.write(&bytes, offset) {
        disk.container.free(offset, len);
        // Nothing names the new run yet, so a full disk does not latch, as with a checkpoint's
        // runs.
        return Err(match error.kind() {
            evendb_storage::ErrorKind::NoSpace => error.into(),
            _ => core.health.latch(error.into()),
        });
    }
    core.metrics.bytes_log.add(len);
    let newest = runs.last().expect("there are runs to merge");
    let role = Role::Run {
        ordinal: newest.ordinal,
    };
    let checkpoints = runs.iter().map(|run| run.table.part.checkpoint);
    let checkpoint = checkpoints.max().unwrap_or(0);
    Ok(Some(built.placed(disk, offset, role, checkpoint)))
}

/// Builds the table of the merged runs in `bytes`.
fn build_merged(
    context: &JobContext<'_>,
    chunk: &Chunk,
    runs: &[Run],
    covers: Option<&Arc<Covers>>,
    bytes: &mut Vec<u8>,
) -> Result<Option<BuiltTable>> {
    let &JobContext { core, disk, .. } = context;
    let horizon = core.clock.horizon();
    let range = &chunk.range;
    let mut sources: Vec<Box<dyn Source>> = Vec::with_capacity(runs.len());
    for run in runs.iter().rev() {
        let table = run.table.open()?;
        let source = TableSource::new(table, &range.low, range.high.as_deref(), 16)?;
        sources.push(Box::new(source));
    }
    let dropping = Dropping {
        horizon: &horizon,
        bottom: planted!(core.options, RunsMergedAsBottom),
        zero_below: Version::ZERO,
    };
    let covering = Covers::covering_now(covers);
    let operator = core.choices.operator(chunk.keyspace);
    let merge = Merge::folding(sources, dropping, covering, operator)?;
    let mut merge = merge.yielding_by(pace::yielder(&core.admission));
    if merge.current().is_none() {
        return Ok(None);
    }
    let mut count = Count::default();
    count.begin(&merge);
    let metas = || runs.iter().map(|run| &run.table.part.meta);
    let records = metas().map(|meta| meta.entries).sum();
    let data = metas().map(|meta| meta.data_bytes).sum();
    let shape = TableShape {
        bytes_max: u64::MAX,
        ends: &|_, _| false,
        run: Some((records, data)),
        look: &|_, _| {},
    };
    let built = build_table(core, disk, chunk.keyspace, &mut merge, bytes, &shape)?;
    count.add(&merge, std::iter::once(&built.meta));
    // Nothing names the table, and it has no room yet.
    count
        .check(|| merge_and_file(disk, chunk, runs))
        .map_err(|error| core.health.latch(error))?;
    Ok(Some(built))
}

/// Names a merge of runs, for an error.
fn merge_and_file(disk: &Disk, chunk: &Chunk, runs: &[Run]) -> String {
    let (first, last) = (runs[0].ordinal, runs[runs.len() - 1].ordinal);
    let file = disk.container.file().path().display().to_string();
    let chunk = chunk.id.0;
    format!("a merge of runs {first} to {last} of chunk {chunk} ({file}) lost or made records")
}

/// Publishes the merged run in the place of the runs that it replaces.
fn publish_merged_run(context: &JobContext<'_>, merged: Merged<'_>) -> Result<()> {
    let &JobContext { core, disk, .. } = context;
    let chunk = merged.chunk;
    let chunks = std::slice::from_ref(chunk);
    let latched = layout::latch_beside(context, Beside::NoRun, &merged.keyspace, chunks);
    let guards = match latched {
        Ok(guards) => guards,
        Err(error) => return drop_merged_run(context, merged, error),
    };
    let mut view: View = (*chunk.view.load_full()).clone();
    let old = view.funk.clone();
    let is_merged = |run: &Run| (merged.first..=merged.last).contains(&run.ordinal);
    let mut runs: Vec<Run> = old
        .runs
        .iter()
        .filter(|run| !is_merged(run))
        .cloned()
        .collect();
    if let Some(NewTable { part, .. }) = &merged.table {
        let at = runs.partition_point(|run| run.ordinal < merged.last);
        let table = disk.tables.acquire(part);
        let ordinal = merged.last;
        runs.insert(at, Run { ordinal, table });
    }
    let dropped = old.runs.iter().filter(|run| is_merged(run));
    let dropped = dropped.map(|run| run.table.clone()).collect();
    let funk = old.with_log(runs, old.run_end);
    let keys = merged.table.as_ref().map_or(&[][..], |new| &new.keys);
    // No run is under way, so no other thread adds to the index now.
    if let Some(search) = old.search.get()
        && let Some(search) = search.with_merged(merged.first, merged.last, keys)
    {
        funk.search.set(Arc::new(search));
    }
    view.funk = Arc::new(funk);
    let record = chunk_record(chunk.id, &merged.keyspace, &chunk.range, &view);
    layout::enqueue_edit(disk, vec![Change::SetChunk(record)], false, dropped);
    chunk.publish(view);
    drop(guards);
    core.metrics.log_merges.add(1);
    Ok(())
}

fn drop_merged_run(context: &JobContext<'_>, merged: Merged<'_>, error: Error) -> Result<()> {
    if let Some(NewTable { part, .. }) = &merged.table
        && let Place::Extent { offset } = part.place
        && context.core.health.failure().is_none()
    {
        context.disk.container.free(offset, part.meta.len);
    }
    match error.kind() {
        ErrorKind::KeyspaceDropped => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_rewritten_a_few_times_only() {
        let (mut sizes, mut rewritten, runs) = (Vec::new(), 0, 1024);
        for _ in 0..runs {
            sizes.push(1);
            if sizes.len() >= 16
                && let Some(first) = first_to_merge(&sizes, 8, u64::MAX)
            {
                let merged: u64 = sizes.drain(first..).sum();
                rewritten += merged;
                sizes.push(merged);
            }
            assert!(sizes.len() <= 16 + 12, "{sizes:?}");
        }
        assert!(rewritten <= 8 * runs, "{rewritten} of {runs}");
    }

    #[test]
    fn large_runs_are_left_alone() {
        let sizes = [100, 50, 1, 1, 1, 1, 1, 1, 1, 1];
        assert_eq!(first_to_merge(&sizes, 8, 1000), Some(2));
        assert_eq!(first_to_merge(&[100; 20], 8, 500), None);
        assert_eq!(first_to_merge(&[1; 4], 8, 500), None);
    }
}
