//! Layout changes: the outcome of a rebalance, split or merge becomes the truth.
//!
//! New files are written and synced before; their names are synced with the edit. Then the manifest
//! edit is queued (the queue is the order of edits) and the view or root is published, under the
//! latches of the chunks concerned and with no checkpoint's run under way on them. The edit is
//! durable with the next manifest sync. The tables that it drops are deleted after that, when no
//! view names them any more (I13).
//!
//! Why no run may be under way: if the edit came after the edit of checkpoint n and did not name
//! run n, which the view does not have yet, run n would be lost. There is one exception
//! ([`Beside`]): a chunk's tables may be replaced beside a run that goes to the log and that no
//! edit names yet. The run's edit comes later, and its ordinal is above those of the old tables.
//!
//! Thread safety: the holder of the chunks' tokens, under their latches. Not here: what new chunks
//! take over from old ones (`successors`), and the new tables.

mod successors;

use crate::catalog::KeyspaceState;
use crate::chunk::check::assert_covers;
use crate::chunk::covers::Stretch;
use crate::chunk::{Chunk, ChunkWriter, Frozen, KeyRange, RunStage, View};
use crate::engine::JobContext;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::engine::flow::Flow;
use crate::error::Result;
use crate::funk::{Funk, Run};
use crate::manifest::ChunkId;
use crate::manifest::edit::{Change, ChunkRecord, Part};
use crate::plant::planted;
use crate::sync::{Arc, MutexGuard};
use crate::tables::TableHandle;
use crate::version::clock::checkpoint_of;
use evendb_storage::Version;
use successors::{Old, rewritten_funk, shared_funk};
pub(crate) use successors::{inherit, joined_covers, part_of_munk};

/// A chunk that replaces others, or the same chunk with new tables.
pub(crate) struct NewChunk {
    pub(crate) low: Vec<u8>,
    /// Tables of the new base, which the manifest does not name yet.
    pub(crate) base: Vec<Part>,
}

/// What happens to the munks of the chunks that a layout change replaces.
pub(crate) enum Munks {
    /// Cut or join them.
    Keep,
    /// Drop them; the deltas kept for them are in the funk.
    Drop,
}

/// A chunk's manifest record.
pub(crate) fn chunk_record(
    id: ChunkId,
    keyspace: &KeyspaceState,
    range: &KeyRange,
    view: &View,
) -> ChunkRecord {
    let funk = &view.funk;
    let covers = view.covers.as_ref();
    ChunkRecord {
        id,
        keyspace: keyspace.id,
        low: range.low.to_vec(),
        parts: funk.parts(),
        covers: covers.map_or(Vec::new(), |covers| covers.durable_records(range)),
        guards: funk.guard_set(),
    }
}

/// Which runs of a checkpoint may be under way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// No run.
    NoRun,
    /// Runs that go to the log and are not named yet.
    RunsForLog,
}

/// Latches `chunks` (ascending) once no other run is under way on any of them. It is an error if
/// the database fails or closes meanwhile, or if the keyspace is dropped.
pub(crate) fn latch_beside<'c>(
    context: &JobContext<'_>,
    beside: Beside,
    keyspace: &KeyspaceState,
    chunks: &'c [Arc<Chunk>],
) -> Result<Vec<MutexGuard<'c, ChunkWriter>>> {
    let &JobContext { core, flow, .. } = context;
    let allowed = |writer: &MutexGuard<'_, ChunkWriter>| match writer.run {
        RunStage::None => true,
        RunStage::ForLog => beside == Beside::RunsForLog,
        RunStage::ForBase | RunStage::Named => false,
    };
    loop {
        core.health.check_healthy()?;
        let guards: Vec<_> = chunks.iter().map(|chunk| chunk.latch.lock()).collect();
        // Checked under the latches: a drop takes each latch once after it has set its mark.
        if keyspace.is_dropped() {
            return Err(keyspace.dropped_error());
        }
        assert!(
            guards.iter().all(|writer| !writer.retired),
            "a token's holder retires"
        );
        if guards.iter().all(allowed) || planted!(core.options, LayoutUnderRun) {
            return Ok(guards);
        }
        drop(guards);
        let mut wait = flow.run_mutex.lock();
        // A missed signal costs only a moment: the wait is bounded.
        flow.run_cleared
            .wait_for(&mut wait, std::time::Duration::from_millis(20));
    }
}

/// Removes the range deletions up to version `limit` from a view, in the stretches for which `goes`
/// returns true. The records that they hide are gone from the tables. These records must not come
/// back out of RAM, so the images of these keys leave too, unless the munk was mended
/// (`munks::mend`). A durable delta that may have some of these records cannot be separated from
/// the images beside it, so with such a delta the whole munk leaves. Other deltas have no such
/// record: the records of an incomplete checkpoint are newer than those of a complete one.
pub(crate) fn leave_covers(
    core: &Core,
    view: &mut View,
    limit: Version,
    goes: &dyn Fn(&Stretch<'_>) -> bool,
) {
    let Some(covers) = view.covers.clone() else {
        return;
    };
    let is_gone = |stretch: &Stretch<'_>| stretch.newest_up_to(limit).is_some() && goes(stretch);
    let gone: Vec<Stretch<'_>> = covers.stretches().filter(is_gone).collect();
    if gone.is_empty() {
        return;
    }
    view.covers = covers.without(limit, goes, core.ledger()).map(Arc::new);
    let Some(munk) = view.munk.take() else { return };
    let may_have_some = |frozen: &Frozen| frozen.delta.checkpoint() <= checkpoint_of(limit);
    let mut durable = view.frozen.iter().filter(|frozen| frozen.durable);
    if !durable.any(may_have_some) {
        let is_hidden = |span: usize| {
            let (low, high) = munk.limits(span);
            let behind = gone.partition_point(|gone| gone.high.is_some_and(|end| *end <= *low));
            let next = gone.get(behind);
            next.is_some_and(|gone| high.is_none_or(|high| *gone.low < *high))
        };
        view.munk = Some(match munk.mended_to() >= limit {
            true => munk,
            false => Arc::new(munk.without(is_hidden)),
        });
    }
    view.keep_deltas_for_spans_alone();
}

/// What a rewrite made of the base and the log of a chunk that stays one.
pub(crate) struct NewBase {
    pub(crate) base: Vec<Part>,
    /// Runs at or above this ordinal stay.
    pub(crate) kept_from: u32,
    /// The range deletions up to this version hide nothing of `base`, and leave.
    pub(crate) spent: Version,
}

/// A rebalance: `chunk`'s base and log become the new ones.
pub(crate) fn replace_tables(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
    new: NewBase,
) -> Result<()> {
    let &JobContext { core, disk, .. } = context;
    let NewBase {
        base,
        kept_from,
        spent,
    } = new;
    let chunks = std::slice::from_ref(chunk);
    let guards = latch_beside(context, Beside::RunsForLog, keyspace, chunks)?;
    let mut view: View = (*chunk.view.load_full()).clone();
    let old = view.funk.clone();
    let runs: Vec<Run> = old
        .runs
        .iter()
        .filter(|run| run.ordinal >= kept_from)
        .cloned()
        .collect();
    let base = base.iter().map(|part| disk.tables.acquire(part)).collect();
    // This chunk names the kept runs before and after.
    view.funk = Arc::new(Funk::new(base, runs, old.run_end));
    leave_covers(core, &mut view, spent, &|_| true);
    let record = chunk_record(chunk.id, keyspace, &chunk.range, &view);
    let dropped: Vec<_> = old
        .base
        .iter()
        .chain(
            old.runs
                .iter()
                .filter(|run| run.ordinal < kept_from)
                .map(|run| &run.table),
        )
        .cloned()
        .collect();
    enqueue_edit(disk, vec![Change::SetChunk(record)], true, dropped);
    chunk.publish(view);
    drop(guards);
    Ok(())
}

/// The tables and range deletions that are not needed any more.
pub(crate) struct Spent<'a> {
    /// Tables whose records no reader needs.
    pub(crate) table: &'a dyn Fn(&TableHandle) -> bool,
    /// Range deletions up to this version, in stretches where no table is left that they could hide
    /// records of.
    pub(crate) limit: Version,
    pub(crate) stretch: &'a dyn Fn(&Stretch<'_>) -> bool,
}

/// Drops spent tables and range deletions of the chunk unread. The caller holds the token.
pub(crate) fn drop_spent(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
    spent: &Spent<'_>,
) -> Result<()> {
    let &JobContext { core, disk, .. } = context;
    let chunks = std::slice::from_ref(chunk);
    let guards = latch_beside(context, Beside::NoRun, keyspace, chunks)?;
    let mut view: View = (*chunk.view.load_full()).clone();
    let old = view.funk.clone();
    let gone = |table: &TableHandle| (spent.table)(table);
    let dropped: Vec<_> = old.tables().filter(|table| gone(table)).cloned().collect();
    if !dropped.is_empty() {
        let runs = old.runs.iter().filter(|run| !gone(&run.table)).cloned();
        view.funk = Arc::new(match &old.tree {
            Some(tree) => {
                let tree = tree.without(&gone).expect("they are its tables");
                Funk::guarded(Arc::new(tree), runs.collect(), old.run_end)
            }
            None => {
                let base = old.base.iter().filter(|table| !gone(table)).cloned();
                Funk::new(base.collect(), runs.collect(), old.run_end)
            }
        });
    }
    leave_covers(core, &mut view, spent.limit, spent.stretch);
    let record = chunk_record(chunk.id, keyspace, &chunk.range, &view);
    enqueue_edit(disk, vec![Change::SetChunk(record)], false, dropped);
    chunk.publish(view);
    drop(guards);
    Ok(())
}

/// The result of a rewrite, for the chunks that are replaced.
pub(crate) struct Rewritten<'a> {
    /// For each replaced chunk: the new tables have everything of its base and of its runs below
    /// this ordinal.
    pub(crate) below: &'a [u32],
    /// The range deletions up to this version hide nothing of the new tables, and leave.
    pub(crate) spent: Version,
    /// Whether a compaction filter has changed something: older rows do not count then.
    pub(crate) filtered: bool,
}

/// A split or merge: `old` chunks (adjacent, ascending, tokens held) are replaced by `new` ones
/// over the same span. With `rewritten` the new chunks' bases hold everything of the old ones'
/// bases and of their runs below those ordinals. Without it the new chunks share the old ones'
/// tables and are rebalanced later.
pub(crate) fn replace_chunks(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    old: &[Arc<Chunk>],
    new: Vec<NewChunk>,
    rewritten: Option<Rewritten<'_>>,
    munks: Munks,
) -> Result<Vec<Arc<Chunk>>> {
    let &JobContext {
        core, disk, flow, ..
    } = context;
    let mut guards = latch_beside(context, Beside::NoRun, keyspace, old)?;
    let before = Old::freeze(core, old, &mut guards, rewritten.as_ref());
    let munks = before.munks(munks);
    let removed = old.iter().map(|chunk| Change::RemoveChunk { id: chunk.id });
    let mut changes: Vec<Change> = removed.collect();
    let mut chunks: Vec<Arc<Chunk>> = Vec::new();
    for (range, base) in before.ranges(new) {
        let id = ChunkId(disk.new_id());
        let (funk, spent) = match &rewritten {
            Some(Rewritten { below, spent, .. }) => {
                let funk = rewritten_funk(disk, &range, &before.views, below, &base);
                (funk, Some(*spent))
            }
            None => (shared_funk(disk, &range, &before.views), None),
        };
        let view = before.view(core, &range, funk, &munks, spent);
        changes.push(Change::SetChunk(chunk_record(id, keyspace, &range, &view)));
        let changed_at = before.changed_at;
        let chunk = Chunk::new(id, keyspace.id, range, view, changed_at, core.ledger());
        chunk.latch.lock().single_at = before.single_at;
        chunks.push(Arc::new(chunk));
    }
    let tables = before.views.iter().flat_map(|view| view.funk.tables());
    let dropped = tables.cloned().collect();
    enqueue_edit(disk, changes, rewritten.is_some(), dropped);
    // Queued after the edit that makes these chunks, so a checkpoint's edit of them comes later. A
    // checkpoint that found an old chunk queued waits for its latch, and finds the new ones then.
    queue_undurable(flow, &chunks);
    context.work.stir();
    publish_chunks(keyspace, old, &chunks);
    for (chunk, writer) in old.iter().zip(&mut guards) {
        writer.retired = true;
        inherit(chunk, &chunks);
    }
    Ok(chunks)
}

/// Queues new chunks for the checkpoints of their deltas and range deletions that are not durable.
/// A checkpoint under way takes only its own deltas. Younger deltas belong to the next one, which
/// must find the chunk queued too.
fn queue_undurable(flow: &Flow, chunks: &[Arc<Chunk>]) {
    let mut dirty = flow.dirty.lock();
    for chunk in chunks {
        let view = chunk.view.load_full();
        let undurable = view.frozen.iter().filter(|frozen| !frozen.durable);
        let named = |frozen: &Frozen| (Arc::downgrade(chunk), frozen.delta.checkpoint());
        dirty.extend(undurable.map(named));
        let covers = view.covers.as_ref();
        let checkpoints = covers.map_or(Vec::new(), |covers| covers.undurable_checkpoints());
        dirty.extend(
            checkpoints
                .into_iter()
                .map(|own| (Arc::downgrade(chunk), own)),
        );
    }
}

/// From here on the index leads to `new` in the place of `old`.
fn publish_chunks(keyspace: &KeyspaceState, old: &[Arc<Chunk>], new: &[Arc<Chunk>]) {
    publish_groups(keyspace, &[(old, new)]);
}

/// Does what [`publish_chunks`] does, for several groups of neighbours, all at one moment.
pub(crate) fn publish_groups<C: AsRef<[Arc<Chunk>]>>(keyspace: &KeyspaceState, groups: &[(C, C)]) {
    let _root = keyspace.root_lock.lock();
    let mut root = keyspace.index.load_full();
    for (old, new) in groups {
        let new = new.as_ref().iter();
        let published = new.map(|chunk| (chunk.range.low.clone(), chunk.clone()));
        let old = old.as_ref().iter();
        let old_lows: Vec<&[u8]> = old.map(|chunk| &*chunk.range.low).collect();
        root = Arc::new(root.replace(&old_lows, published.collect()));
    }
    assert_covers(&root, "published");
    keyspace.index.replace(root);
}

/// Queues an edit; the tables that it drops are released once it is durable.
pub(crate) fn enqueue_edit(
    disk: &Disk,
    changes: Vec<Change>,
    new_files: bool,
    dropped: Vec<Arc<TableHandle>>,
) {
    let registry = disk.tables.registry();
    let release = Box::new(move || registry.release(dropped));
    disk.manifest().enqueue(changes, new_files, Some(release));
}
