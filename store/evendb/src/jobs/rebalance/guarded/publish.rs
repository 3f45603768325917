//! The outcome of a compaction becomes the truth: an edit of the manifest, and a new view with a
//! new tree and without the runs that went down.
//!
//! Invariants: the edit is queued and the view published under the chunk's latch, while no edit
//! names a run of the chunk that its view does not have ([`layout::latch_beside`]). A table that
//! moves keeps its handle. The tables that are gone are removed when the edit is durable and the
//! last view with them is gone (I13).
//!
//! Thread safety: the holder of the chunk's token. Not here: new tables (`compaction`), the tree.

use super::compaction::Compacted;
use crate::catalog::KeyspaceState;
use crate::chunk::{Chunk, View};
use crate::engine::JobContext;
use crate::error::{Error, Result};
use crate::files::CURRENT;
use crate::funk::Funk;
use crate::guards::plan::Plan;
use crate::guards::tree::{Fragment, Tree, TreeEdit};
use crate::manifest::Level;
use crate::manifest::edit::{Change, Part, Role};
use crate::plant::planted;
use crate::rebalance::layout::{Beside, enqueue_edit, latch_beside};
use crate::sync::Arc;
use evendb_storage::{Error as StorageError, TableId};
use std::collections::HashSet;

/// Replaces the tables of `plan` by the new ones.
pub(super) fn publish(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
    plan: &Plan,
    compacted: &Compacted,
) -> Result<()> {
    let &JobContext { core, disk, .. } = context;
    let chunks = std::slice::from_ref(chunk);
    let guards = latch_beside(context, Beside::RunsForLog, keyspace, chunks)?;
    let mut view: View = (*chunk.view.load_full()).clone();
    let old = view.funk.clone();
    let Some(tree) = &old.tree else {
        return Ok(());
    };
    let new = compacted.parts.iter();
    let new = new.map(|part| disk.tables.acquire(part)).collect();
    let mut edit = plan.edit(tree, new);
    let mut next = Tree::clone(tree);
    // This tree was planned by the code above, so a contradiction is a fault of the program.
    next.apply(&edit).map_err(|what| {
        let fault = StorageError::corruption(&disk.dir.join(CURRENT), 0, what);
        core.health.latch(Error::from(fault))
    })?;
    if planted!(core.options, ChainsOldestFirst) {
        next.turn_chains();
    }
    let gone: HashSet<TableId> = plan.tables().map(Fragment::id).collect();
    let all_go = plan.from == Level(0) && planted!(core.options, RunsLeaveWithOthers);
    let runs = old.runs.iter();
    let runs = runs.filter(|run| !all_go && !gone.contains(&run.table.part.table));
    let funk = Funk::guarded(Arc::new(next), runs.cloned().collect(), old.run_end);
    view.funk = Arc::new(funk);
    if compacted.filtered {
        view.row_tag = core.row_tags.fresh();
    }
    let dropped = plan.runs.iter().flatten();
    let dropped = dropped.map(|fragment| fragment.table.clone()).collect();
    if planted!(core.options, MovedForgotten) {
        edit.added.retain(|(_, own)| !gone.contains(&own.id()));
    }
    let change = change(chunk, plan, &edit);
    enqueue_edit(disk, vec![change], !compacted.parts.is_empty(), dropped);
    chunk.publish(view);
    drop(guards);
    Ok(())
}

/// The edit that says which tables are gone, have come or have moved.
fn change(chunk: &Chunk, plan: &Plan, edit: &TreeEdit) -> Change {
    let part = |(level, fragment): &(Level, Fragment)| Part {
        role: Role::Fragment {
            level: *level,
            age: fragment.age,
        },
        ..fragment.table.part.clone()
    };
    Change::EditFragments {
        id: chunk.id,
        gone: plan.tables().map(Fragment::id).collect(),
        parts: edit.added.iter().map(part).collect(),
        guards: edit.guards.clone(),
    }
}
