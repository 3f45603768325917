//! Range deletions in a write.
//!
//! ```text
//!   chunks      [ A      | B      | C      ]        all latched, as for the write's records
//!   deletion          [-----------)                 one record, listed in the views of A, B and C
//! ```
//! The caller pays for the chunks that the range overlaps, and for nothing that they hold: each
//! gets a new view.
//!
//! **Room.** Range deletions take memory until rewrites have applied them, which takes a
//! checkpoint. Once undurable range deletions take a quarter of the memory that deltas may have, a
//! checkpoint is asked for; at half, writes wait for it. Durable ones count as metadata, and much
//! metadata slows writes (`memory_policy/shares.rs`). When all range deletions together take a
//! quarter of the budget, each new one waits some milliseconds.
//!
//! **Version.** A range deletion hides records of smaller versions, so every earlier record of its
//! chunks must have a smaller version ([`tie`]). [`ChunkWriter::changed_at`] tells: if a record has
//! the announced version already, the write withdraws, moves the global version by one, as a
//! snapshot does, and announces again. The chunks are latched, so nothing comes between. Later
//! records have the same version or a greater one, and are not hidden.
//!
//! **Atomicity.** A range deletion that overlaps several chunks is pending until all of them have
//! it, as the records of a batch are.
//!
//! Thread safety: the caller holds the latches. Not here: the log, and the order of the steps
//! ([`super`]).

use super::latched::{Latched, Mark, Target, Targets};
use crate::chunk::View;
use crate::chunk::covers::{Covers, PIECE_BYTES, high_of};
use crate::chunk::row_tag::RowTag;
use crate::engine::Engine;
use crate::manifest::KeyspaceId;
use crate::op::Op;
use crate::plant::planted;
use crate::sync::{Arc, reclaim, thread};
use crate::version::clock::checkpoint_of;
use crate::worker;
use evendb_storage::Version;
use std::time::Duration;

/// The number of range deletions between two collections. Each leaves some ten KiB of views and
/// lists that nobody reads any more; they should not wait for the next round of upkeep.
const RANGES_PER_COLLECTION: u64 = 64;

/// The largest number of waits for rewrites, of a millisecond each.
const WAITS_MAX: u32 = 10;

/// Waits, holding nothing, while undurable range deletions take too much memory: a checkpoint makes
/// them part of the manifest, and then rewrites apply them. If the checkpoint fails, the write
/// finds that out itself. When all range deletions together take much, the call waits for rewrites,
/// too, but not for long: a snapshot may need all of them.
pub(super) fn wait_for_room(engine: &Engine) {
    let written = engine.core.metrics.range_deletes.get();
    if written.is_multiple_of(RANGES_PER_COLLECTION) {
        reclaim::collect();
    }
    if engine.core.admission.covers_are_full() {
        let number = checkpoint_of(engine.core.clock.now());
        let _ = worker::wait_for_checkpoint(engine, number);
    }
    let mut waits = 0;
    while waits < WAITS_MAX && !engine.core.manual() && are_many(engine) {
        thread::sleep(Duration::from_millis(1));
        waits += 1;
    }
}

/// Whether all range deletions together take much.
fn are_many(engine: &Engine) -> bool {
    let most = engine.core.options.memory_budget / 4;
    let stats = engine.space.stats.lock();
    stats.range_tombstones * PIECE_BYTES as u64 > most
}

/// Whether [`wait_for_room`] would wait.
pub(super) fn would_wait(engine: &Engine) -> bool {
    engine.core.admission.covers_are_full() || are_many(engine)
}

/// Adds the chunks that the range deletions overlap.
pub(super) fn add_targets(targets: &mut Targets, ranges: &[Op<'_>]) {
    let pin = reclaim::pin();
    for (place, op) in ranges.iter().enumerate() {
        let index = op.keyspace.index.load(&pin);
        let record = &op.record;
        for chunk in index.get().overlapping(record.key(), high_of(record)) {
            targets.push(Target {
                chunk: chunk.clone(),
                ops: 0..0,
                ranges: place..place + 1,
            });
        }
    }
}

impl Target {
    /// Whether one of the range deletions covers all keys of the chunk.
    fn is_emptied(&self, ranges: &[Op<'_>]) -> bool {
        let own = &self.chunk.range;
        let has_all = |op: &Op<'_>| {
            let ends_behind = match (high_of(&op.record), &own.high) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(high), Some(own)) => *high >= **own,
            };
            *op.record.key() <= *own.low && ends_behind
        };
        ranges[self.ranges.clone()].iter().any(has_all)
    }
}

/// Whether a chunk that a range deletion overlaps has a record of `version`.
#[inline]
pub(super) fn tie(latched: &Latched<'_>, version: Version) -> bool {
    let mut covered = latched
        .all()
        .filter(|(target, _)| !target.ranges.is_empty());
    covered.any(|(_, writer)| writer.changed_at >= version)
}

/// Publishes views that contain the range deletions.
pub(super) fn link(
    engine: &Engine,
    ranges: &mut [Op<'_>],
    mark: Mark<'_>,
    latched: &mut Latched<'_>,
) {
    for Op { record, .. } in ranges.iter_mut() {
        mark.put_into(record);
    }
    let core = &engine.core;
    // Taken after the announcement: no later reader has a version below the write's.
    let horizon = core.clock.horizon();
    // Rows are filed under the tag alone, so each keyspace gets a tag of its own. Targets are in
    // the order of keyspaces.
    let mut last: Option<(KeyspaceId, RowTag)> = None;
    for (target, writer) in latched.all_mut() {
        if target.ranges.is_empty() {
            continue;
        }
        writer.changed_at = mark.version;
        let chunk = &target.chunk;
        let mut view: View = (*chunk.view.load_full()).clone();
        for Op { record, .. } in &ranges[target.ranges.clone()] {
            let old = view.covers.as_deref();
            let covers = Covers::with(old, &chunk.range, record, &horizon, core.ledger());
            core.admission.cover_added(PIECE_BYTES as u64);
            view.covers = Some(Arc::new(covers));
        }
        if target.is_emptied(ranges) {
            let tables = view.funk.tables().map(|table| table.part.meta.data_bytes);
            core.metrics.bytes_covered.add(tables.sum());
        }
        if !planted!(core.options, RowTagKept) {
            let same = last.filter(|(keyspace, _)| *keyspace == chunk.keyspace);
            view.row_tag = same.map_or_else(|| core.row_tags.fresh(), |(_, tag)| tag);
            last = Some((chunk.keyspace, view.row_tag));
        }
        chunk.publish(view);
    }
}
