//! Finding a version at which a write may happen, and announcing it.
//!
//! Until a version fits, the write withdraws and announces again: it belongs to the same checkpoint
//! as the active deltas of its chunks, no range deletion or single delete shares it with an earlier
//! record ([`super::range_deletions`], [`super::single_deletes`]), and merges can be folded at it
//! ([`super::merges`]).
//!
//! Thread safety: the caller holds the latches. Not here: the global version itself
//! ([`crate::version::clock`]).

use super::latched::Latched;
use super::reads::Reads;
use super::{has, merges, range_deletions, single_deletes};
use crate::chunk::{Chunk, ChunkWriter};
use crate::engine::Engine;
use crate::error::Result;
use crate::op::Op;
use crate::plant::planted;
use crate::sync::Arc;
use crate::version::clock::{Announcement, checkpoint_of};
use evendb_storage::{Kind, Version};

/// Announces a write at a version that belongs to the same checkpoint as the active deltas of its
/// chunks. The caller holds the latches of these chunks.
#[inline]
pub(super) fn announce<'e>(
    engine: &'e Engine,
    ops: &mut [Op<'_>],
    singles: bool,
    reads: Option<Reads<'_>>,
    latched: &mut Latched<'_>,
) -> Result<Announcement<'e>> {
    let merges = has(ops, Kind::Merge);
    loop {
        // Under the latches, before a chunk is queued: a drop takes each latch once after it has
        // set its mark, and only then empties the queue. So no chunk of a dropped keyspace enters
        // the queue after that, and no checkpoint names one that the manifest no longer has.
        if !planted!(engine.core.options, QueuesDropped) {
            refuse_dropped(ops)?;
        }
        for (chunk, writer) in latched.written() {
            chunk.assert_writer(writer);
            make_dirty(engine, chunk, writer);
        }
        let announcement = engine.core.clock.announce();
        engine.core.health.check_writable()?;
        // Checked again: the drop waits for the writes that were announced before its mark.
        refuse_dropped(ops)?;
        // Otherwise a transaction that read what was dropped could commit after one that saw the
        // drop.
        let mut read = reads.iter().flat_map(|reads| reads.all);
        if let Some(read) = read.find(|read| read.keyspace.is_dropped()) {
            return Err(read.keyspace.dropped_error());
        }
        let version = announcement.version();
        let checkpoint = checkpoint_of(version);
        let shares = planted!(engine.core.options, RangeSharesVersion);
        let tied = range_deletions::tie(latched, version) && !shares
            || single_deletes::tie(ops, singles, latched, version)
                && !planted!(engine.core.options, SingleSharesVersion);
        if tied {
            drop(announcement);
            engine.core.clock.advance();
            continue;
        }
        let is_current =
            |(_, writer): (_, &mut ChunkWriter)| writer.active.checkpoint() == checkpoint;
        if latched.written().all(is_current) || planted!(engine.core.options, NoFreeze) {
            if !merges
                || planted!(engine.core.options, OperandReplaces)
                || prepare_merges(ops, version, latched)
            {
                return Ok(announcement);
            }
            drop(announcement);
            engine.core.clock.advance();
            continue;
        }
        // A checkpoint began: the old active deltas are complete. Freezing them under an
        // announcement would hold the checkpoint up, so withdraw first.
        drop(announcement);
        for (chunk, writer) in latched.written() {
            if writer.active.checkpoint() < checkpoint {
                let freeze = || chunk.freeze(writer, checkpoint, &engine.core.admission);
                engine.core.metrics.pauses.freeze.time(freeze);
            }
        }
    }
}

/// Folds merges with the records that they meet. Returns false if one merge cannot have this
/// version.
#[cold]
fn prepare_merges(ops: &mut [Op<'_>], version: Version, latched: &Latched<'_>) -> bool {
    latched.all().all(|(target, writer)| {
        let own = &mut ops[target.ops.clone()];
        let own = (own, !target.ranges.is_empty());
        merges::prepare(&target.chunk, writer, own, version)
    })
}

fn refuse_dropped(ops: &[Op<'_>]) -> Result<()> {
    match ops.iter().find(|op| op.keyspace.is_dropped()) {
        Some(op) => Err(op.keyspace.dropped_error()),
        None => Ok(()),
    }
}

/// Queues the chunk for the checkpoint that will flush its active delta.
fn make_dirty(engine: &Engine, chunk: &Arc<Chunk>, writer: &mut ChunkWriter) {
    let Engine {
        core, flow, work, ..
    } = engine;
    let now = checkpoint_of(core.clock.now());
    if writer.active.is_empty() && writer.active.checkpoint() < now {
        chunk.freeze(writer, now, &core.admission);
    }
    if !writer.queued {
        flow.dirty
            .lock()
            .push((Arc::downgrade(chunk), writer.active.checkpoint()));
        writer.queued = true;
        // From now on a checkpoint is due.
        work.stir();
    }
}
