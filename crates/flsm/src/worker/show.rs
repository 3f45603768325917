//! An edit is made durable, and its trees are shown.
//!
//! Both under the manifest's lock, so that trees are shown in the order of the edits. A failure latches the database: it is
//! not known then whether the edit is durable.

use crate::compaction::rewrite::Stopped;
use crate::engine::Engine;
use crate::error::Error;
use crate::keyspace::KeyspaceState;
use crate::manifest::state::Edit;
use crate::tree::TreeEdit;
use crate::types::FileNumber;
use evendb_base::sync::Arc;

/// Makes an edit, and shows the trees of these keyspaces, without the memory tables of the generation `flushed`.
pub(super) fn commit(
    engine: &Engine,
    mut edit: Edit,
    keyspaces: &[Arc<KeyspaceState>],
    flushed: Option<FileNumber>,
) -> Result<(), Stopped> {
    {
        let mut manifest = engine.manifest.lock();
        let known = manifest.state().keyspaces();
        // A keyspace may have been dropped since.
        edit.trees.retain(|(id, change)| {
            let is_there = known.contains_key(id);
            if !is_there {
                discard(change);
            }
            is_there
        });
        if let Err(error) = manifest.commit(edit) {
            let error = Error::from(error);
            engine.latch(&error);
            return Err(Stopped::Cancelled);
        }
        for keyspace in keyspaces {
            // One that was dropped stays as it is, for those who read it at a moment before.
            let Some(known) = manifest.state().keyspaces().get(&keyspace.id) else {
                continue;
            };
            let tree = known.tree.clone();
            keyspace.change(|view| {
                view.tree = tree;
                view.memories
                    .retain(|(generation, _)| flushed != Some(*generation));
            });
        }
    }
    update_level0(engine);
    Ok(())
}

/// The files of new tables that no edit will name go.
pub(super) fn discard(edit: &TreeEdit) {
    for (_, table) in &edit.added {
        table.retire();
    }
}

/// Looks how many tables of level 0 there are.
pub(crate) fn update_level0(engine: &Engine) {
    let keyspaces = engine.keyspaces();
    let tables = keyspaces
        .iter()
        .map(|keyspace| keyspace.view.load_full().tree.level0().len());
    engine.work.set_level0(tables.max().unwrap_or(0));
}
