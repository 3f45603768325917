//! The tables of a plan become new ones: a merge of its runs, cut at the guards of the level to
//! which they go.
//!
//! Range deletions that are in the manifest are applied. Other than in a rewrite of a chunk
//! ([`crate::rebalance::rewrite`]) they stay afterwards, because they may hide records of other
//! tables. So a record that none of them hides keeps its version, unless it is older than all of
//! them: with version zero it would fall below them. A new table notes the checkpoint up to which
//! range deletions hide nothing of it (`Part::checkpoint`); by that the chunk knows when a range
//! deletion may leave ([`crate::rebalance::covered_tables`]).
//!
//! Records are counted in and out; a difference latches the database, and nothing is published.
//! After any error no new table is left.
//!
//! Thread safety: the holder of the chunk's token. No pin is held. Not here: what the chunk is made
//! of afterwards (`publish`).

use crate::catalog::KeyspaceState;
use crate::chunk::View;
use crate::chunk::covers::Covers;
use crate::engine::JobContext;
use crate::error::Result;
use crate::guards::plan::Plan;
use crate::guards::plan::older::Older;
use crate::guards::tree::{Fragment, Guard, Tree};
use crate::manifest::Level;
use crate::manifest::edit::Part;
use crate::merge::chain::Chain;
use crate::merge::{Merge, Source};
use crate::pace;
use crate::plant::planted;
use crate::rebalance::pieces::Pieces;
use crate::rebalance::rewrite::{
    Cuts, Making, filtering, making_options, remove_tables, write_pieces,
};
use crate::rebalance::value_moves::Moves;
use crate::sync::Arc;
use crate::tables::part_path;
use crate::value_files::Needed;
use crate::version::clock::checkpoint_of;
use crate::version::horizon::Horizon;
use crate::visibility::Dropping;
use evendb_storage::Version;
use std::cell::Cell;
use std::collections::BTreeSet;

/// Bytes that one read of an input fetches.
const READ_BYTES: usize = 256 << 10;

/// The new tables of a plan. They are synced, and nothing names them yet.
pub(super) struct Compacted {
    pub(super) parts: Vec<Part>,
    /// Whether a compaction filter has changed something, or values were moved: cached rows are
    /// outdated then.
    pub(super) filtered: bool,
    /// The files that values were moved to.
    pub(super) _moved_to: Vec<Needed>,
}

/// What is compacted.
pub(super) struct Compacting<'a> {
    /// The last completed checkpoint, read before the view.
    pub(super) completed: u64,
    pub(super) view: &'a View,
    /// The view's tree.
    pub(super) tree: &'a Tree,
    /// A plan that was made from the view.
    pub(super) plan: &'a Plan,
}

/// Merges the runs of a plan into new tables.
pub(super) fn compact(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    from: &Compacting<'_>,
) -> Result<Compacted> {
    let &JobContext { core, disk, .. } = context;
    let &Compacting {
        view, tree, plan, ..
    } = from;
    let horizon = core.clock.horizon();
    let covers = view.covers.as_ref();
    let bottom = is_bottom(tree, plan) || planted!(core.options, BottomAssumed);
    let stay = covers.filter(|_| !planted!(core.options, ZeroesUnderCovers));
    let dropping = Dropping {
        horizon: &horizon,
        bottom,
        zero_below: stay.map_or(Version::MAX, |covers| covers.oldest()),
    };
    let filtered = Cell::new(false);
    // A filter that removes a record must not bring back an older one.
    let filter = keyspace.filter.lock().clone().filter(|_| bottom);
    let filter = filter.map(|filter| filtering(core, filter, &filtered));
    let operator = core.choices.operator(keyspace.id);
    let covering = Covers::covering_now(covers);
    let merge = Merge::filtering(sources(plan)?, dropping, covering, operator, filter)?;
    let merge = merge.yielding_by(pace::yielder(&core.admission));
    let table_bytes_max = core.options.advanced.guards.table_bytes_max;
    let cuts = Cuts::at(Pieces::of(table_bytes_max), plan.cuts(tree));
    let making = Making {
        past_cache: false,
        options: making_options(core, keyspace),
    };
    let stay = covers.filter(|_| !planted!(core.options, ClearedAlways));
    let cleared = cleared_to(from.completed, stay, &horizon);
    let mut moves = Moves::new(core, disk);
    let mut parts = Vec::new();
    let count = write_pieces(&mut moves, merge, cuts, making, &mut parts)
        .inspect_err(|_| remove_tables(context, &parts))?;
    let named = || {
        format!(
            "a compaction of {} lost or made records",
            files(context, plan)
        )
    };
    count.check(named).map_err(|error| {
        // The tables first: after the latch nothing is removed any more.
        remove_tables(context, &parts);
        core.health.latch(error)
    })?;
    let moved_to = moves
        .finish()
        .inspect_err(|_| remove_tables(context, &parts))?;
    for part in &mut parts {
        part.checkpoint = cleared;
    }
    Ok(Compacted {
        parts,
        filtered: filtered.get() || !moved_to.is_empty(),
        _moved_to: moved_to,
    })
}

/// Whether writing a guard of the last level again would leave fewer records: old versions that
/// nobody sees any more, deletes, or records that range deletions hide. The guard is read.
pub(super) fn would_shrink(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    view: &View,
    guard: &Guard,
) -> Result<bool> {
    let core = context.core;
    let horizon = core.clock.horizon();
    let dropping = Dropping {
        horizon: &horizon,
        bottom: true,
        zero_below: Version::ZERO,
    };
    let covering = Covers::covering_now(view.covers.as_ref());
    let operator = core.choices.operator(keyspace.id);
    let sources = sources(&Plan::rewriting(Level::LAST, guard))?;
    let mut merge = Merge::folding(sources, dropping, covering, operator)?;
    let mut records = 0u64;
    while merge.current().is_some() {
        records += 1;
        merge.advance()?;
    }
    let fragments = guard.fragments.iter();
    Ok(records < fragments.map(|own| own.meta().entries).sum())
}

/// Whether no table that the plan leaves alone may have older records of its keys.
fn is_bottom(tree: &Tree, plan: &Plan) -> bool {
    let older = Older::than(tree, plan);
    plan.limits()
        .is_none_or(|(min, max)| !older.meets(min, max))
}

/// The last checkpoint whose range deletions hide nothing of a table that is written now.
/// `completed` is the last completed checkpoint, whose range deletions the view has. The view may
/// be ahead of it, while a checkpoint publishes its runs.
fn cleared_to(completed: u64, covers: Option<&Arc<Covers>>, horizon: &Horizon) -> u64 {
    let Some(covers) = covers else {
        return completed;
    };
    let completed = completed.max(covers.durable_to());
    let stays = covers.oldest_above(covers.spent_limit(horizon));
    // Range deletions that come later are newer than all records.
    stays.map_or(completed, |oldest| {
        completed.min(checkpoint_of(oldest).saturating_sub(1))
    })
}

/// The runs of the plan as sources, newest first.
fn sources(plan: &Plan) -> Result<Vec<Box<dyn Source>>> {
    let fragments = plan.runs.iter().flatten();
    fragments.for_each(|fragment| fragment.table.will_need());
    let runs = plan.runs.iter();
    runs.map(|run| {
        let chain: Box<dyn Source> = Box::new(Chain::new(
            run.iter().map(|fragment| &fragment.table),
            READ_BYTES,
        )?);
        Ok(chain)
    })
    .collect()
}

/// Names the tables of a plan for an error.
fn files(context: &JobContext<'_>, plan: &Plan) -> String {
    let dir = &context.disk.dir;
    let file = |fragment: &Fragment| part_path(dir, &fragment.table.part);
    let files = plan.runs.iter().flatten().map(file);
    let files: BTreeSet<String> = files.map(|file| file.display().to_string()).collect();
    files.into_iter().collect::<Vec<_>>().join(", ")
}
