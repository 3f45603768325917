//! Tables whose records are all hidden by range deletions go without being read.
//!
//! ```text
//!   chunk            [ a . . . . . . . . . . . . . . . . . . z ]
//!   range deletion         [--------- version 9 ----------)
//!   tables             [4]   [ 7 ]  [ 8 ]  [ 12 ]  [ 5     ]    least and greatest key,
//!                            goes   goes   newer   reaches out  greatest version
//! ```
//! A range deletion is spent if it is in the manifest and every reader sees it. A table goes if
//! each of its keys in the chunk is in a spent range deletion that is newer than all of the table's
//! records. A spent range deletion leaves, stretch by stretch, where no table is left that may have
//! records for it to hide. Hidden records of other tables go when these tables are rewritten, which
//! the picker decides by [`hidden`], an estimate.
//!
//! Why nothing comes back: see [`layout::leave_covers`]. A run that a checkpoint publishes
//! meanwhile has no record that spent range deletions hide: they belong to a completed checkpoint,
//! and this one is not completed.
//!
//! Thread safety: any; acting on it needs the chunk's token.

use crate::catalog::KeyspaceState;
use crate::chunk::covers::{Covers, Stretch};
use crate::chunk::{Chunk, View};
use crate::engine::JobContext;
use crate::error::Result;
use crate::manifest::edit::{Place, Role};
use crate::rebalance::layout::{self, Spent};
use crate::rebalance::munks;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::tables::TableHandle;
use crate::version::clock::{Clock, checkpoint_of, last_version_of};
use evendb_storage::table::TableMeta;
use evendb_storage::{TableId, Version};
use std::collections::HashSet;

/// A chunk with more spent pieces than this gets no estimate: it is rewritten.
pub(crate) const PIECES_MAX: usize = 256;

/// The tables that may go unread, and the deletions' limit.
struct Plan {
    limit: Version,
    tables: HashSet<TableId>,
    /// The tables that are left, in no order, each with the last checkpoint whose range deletions
    /// hide nothing of it.
    left: Vec<(Arc<TableMeta>, u64)>,
}

impl Plan {
    /// Whether a table is left that may have records for the stretch's range deletions to hide.
    fn is_needed(&self, stretch: &Stretch<'_>) -> bool {
        let newest = stretch.newest_up_to(self.limit).map_or(0, checkpoint_of);
        let mut left = self.left.iter().filter(|(_, cleared)| *cleared < newest);
        left.any(|(meta, _)| meta.overlaps(stretch.low, stretch.high))
    }
}

/// The last checkpoint whose range deletions hide nothing of a table: a compaction of guards, which
/// makes files, has left out what they hide. The role is the one with which the table became known
/// in this life: a new table has the role of a base.
pub(crate) fn cleared_to(table: &TableHandle) -> u64 {
    match (table.part.place, table.part.role) {
        (Place::File, Role::Base | Role::Fragment { .. }) => table.part.checkpoint,
        _ => 0,
    }
}

/// The version up to which the chunk's range deletions are spent, if any is.
pub(crate) fn spent_limit(clock: &Clock, view: &View) -> Option<(Arc<Covers>, Version)> {
    let covers = view.covers.as_ref()?;
    let horizon = clock.horizon();
    // Tables of guards note a checkpoint (`cleared_to`). If only some range deletions of that
    // checkpoint were spent, a table would never be clear of them, and would be written for ever.
    let limit = match view.funk.is_guarded() {
        true => covers.spent_checkpoints(&horizon),
        false => covers.spent_limit(&horizon),
    };
    (covers.oldest() <= limit).then(|| (covers.clone(), limit))
}

/// With `since`, an earlier view, only range deletions count that the manifest had then. Later runs
/// have no record for these to hide.
fn plan(clock: &Clock, chunk: &Chunk, view: &View, since: Option<&View>) -> Option<Plan> {
    let (covers, mut limit) = spent_limit(clock, view)?;
    let mut later = HashSet::new();
    if let Some(since) = since {
        limit = limit.min(spent_limit(clock, since)?.1);
        let runs = view.funk.runs.iter();
        let runs = runs.filter(|run| run.ordinal >= since.funk.run_end);
        later.extend(runs.map(|run| run.table.part.table));
    }
    let mut plan = Plan {
        limit,
        tables: HashSet::new(),
        left: Vec::new(),
    };
    for table in view.funk.tables() {
        match is_spent(chunk, &covers, limit, &table.part.meta) {
            true => drop(plan.tables.insert(table.part.table)),
            false if later.contains(&table.part.table) => {}
            false => plan.left.push((table.part.meta.clone(), cleared_to(table))),
        }
    }
    let mut stretches = covers.stretches();
    let any_leaves =
        stretches.any(|stretch| stretch.newest_up_to(limit).is_some() && !plan.is_needed(&stretch));
    (!plan.tables.is_empty() || any_leaves).then_some(plan)
}

/// Whether every key of the table within the chunk is in a spent range deletion newer than all of
/// the table's records.
fn is_spent(chunk: &Chunk, covers: &Covers, limit: Version, meta: &TableMeta) -> bool {
    let low: &[u8] = (&*meta.min_key).max(&*chunk.range.low);
    let mut next = Some(covers.stretch(low));
    while let Some(stretch) = next {
        if *stretch.low > *meta.max_key {
            break;
        }
        let newest = stretch.newest_up_to(limit);
        if newest.is_none_or(|newest| newest <= meta.max_version) {
            return false;
        }
        next = covers.stretch_behind(&stretch);
    }
    true
}

/// Whether anything of the chunk may go unread.
pub(crate) fn has_spent(clock: &Clock, chunk: &Chunk, view: &View) -> bool {
    plan(clock, chunk, view, None).is_some()
}

/// Drops the tables and range deletions that may go unread, and returns whether there were any. The
/// caller holds the token.
pub(crate) fn drop_covered(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
) -> Result<bool> {
    drop_covered_since(context, keyspace, chunk, None)
}

/// Like [`drop_covered`]; with an earlier view, for the range deletions that the manifest had then.
/// So they leave although checkpoints have brought runs since.
pub(crate) fn drop_covered_since(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
    since: Option<&View>,
) -> Result<bool> {
    let core = context.core;
    let Some(plan) = plan(&core.clock, chunk, &chunk.view.load_full(), since) else {
        return Ok(false);
    };
    // Otherwise the munk's records of these keys would leave.
    munks::mend(core, chunk, plan.limit);
    let spent = Spent {
        table: &|table| plan.tables.contains(&table.part.table),
        limit: plan.limit,
        stretch: &|stretch| !plan.is_needed(stretch),
    };
    layout::drop_spent(context, keyspace, chunk, &spent)?;
    if plan.left.is_empty() {
        // The growth of the chunk is gone: it may be merged with its neighbours.
        chunk.joined_at.store(0, Ordering::Relaxed);
    }
    core.metrics
        .tables_dropped_unread
        .add(plan.tables.len() as u64);
    Ok(true)
}

/// The bytes and range deletions that a rewrite would remove because of range deletions.
#[derive(Clone, Copy, Default)]
pub(crate) struct Hidden {
    /// An estimate of the hidden bytes of keys and values, by block indexes.
    pub(crate) bytes: u64,
    /// Pieces of spent range deletions.
    pub(crate) pieces: u32,
}

/// The hidden part of tables that spent range deletions only overlap.
pub(crate) fn hidden(clock: &Clock, view: &View) -> Hidden {
    match spent_limit(clock, view) {
        Some((covers, limit)) => hidden_by(view, &covers, limit),
        None => Hidden::default(),
    }
}

/// The hidden bytes if no reader needed any of them.
pub(crate) fn hidden_if_unread(view: &View) -> u64 {
    let covers = view.covers.as_ref();
    covers.map_or(0, |covers| {
        let limit = last_version_of(covers.durable_to());
        hidden_by(view, covers, limit).bytes
    })
}

fn hidden_by(view: &View, covers: &Covers, limit: Version) -> Hidden {
    let spent = || {
        let stretches = covers.stretches();
        stretches.filter_map(|stretch| Some((stretch.newest_up_to(limit)?, stretch)))
    };
    // Pieces that a snapshot still needs do not count: no rewrite would remove them.
    let pieces = spent().count();
    let mut hidden = Hidden {
        bytes: 0,
        pieces: pieces as u32,
    };
    if pieces > PIECES_MAX {
        return hidden;
    }
    for (newest, stretch) in spent() {
        for table in view.funk.tables() {
            let is_left_out = table.is_damaged();
            if is_left_out || cleared_to(table) >= checkpoint_of(newest) {
                continue;
            }
            let meta = &table.part.meta;
            // A table that cannot be opened is none to sweep.
            let share = table.share_between(stretch.low, stretch.high);
            let share = share.unwrap_or(0.0);
            // If a run is newer in part, nearly all of it is newer.
            let share = if newest > meta.max_version {
                share
            } else {
                share / 4.0
            };
            hidden.bytes += (meta.data_bytes as f64 * share) as u64;
        }
    }
    hidden
}
