//! Makes an edit durable, and shows its trees.
//!
//! Both are done under the manifest's lock, so that trees are shown in the order of the edits. A
//! failure latches the database, because it is then not known whether the edit is durable. Lack of
//! room or of a descriptor is no such failure: the edit is not made then, and its new tables are
//! removed.

use crate::compaction::rewrite::Stopped;
use crate::engine::Engine;
use crate::error::Error;
use crate::keyspace::KeyspaceState;
use crate::manifest::state::{Edit, State};
use crate::plant::planted;
use crate::types::FileNumber;
use evendb_base::sync::Arc;

/// Makes the edit that `make` returns, and shows the trees of these keyspaces. The memory tables of
/// the generation `flushed` leave the views. If `make` returns no edit, nothing is done.
pub(super) fn commit(
    engine: &Engine,
    keyspaces: &[Arc<KeyspaceState>],
    flushed: Option<FileNumber>,
    make: impl FnOnce(&State) -> Option<Edit>,
) -> Result<(), Stopped> {
    let mut late = None;
    {
        let mut manifest = engine.manifest.lock();
        let Some(edit) = make(manifest.state()) else {
            return Ok(());
        };
        if engine.check_claim().is_err() {
            return Err(Stopped::Cancelled);
        }
        match manifest.commit(edit) {
            Ok(()) => {}
            Err(error) if error.kind().is_for_want() => return Err(error.into()),
            Err(error) => {
                engine.latch(&Error::from(error));
                return Err(Stopped::Cancelled);
            }
        }
        for keyspace in keyspaces {
            // A dropped keyspace stays as it is, for readers of an earlier moment.
            let Some(known) = manifest.state().keyspaces().get(&keyspace.id) else {
                continue;
            };
            let tree = known.tree.clone();
            if planted!(engine.options, MemoryLeavesFirst) {
                let stays = |(generation, _): &(_, _)| flushed != Some(*generation);
                keyspace.change(|view| view.memories.retain(stays));
            }
            keyspace.change(|view| {
                view.tree = tree;
                view.memories
                    .retain(|(generation, _)| flushed != Some(*generation));
            });
        }
        match planted!(engine.options, LevelToldLate) {
            true => late = Some(manifest.state().level0_tables_max()),
            false => engine.note_tables(manifest.state()),
        }
    }
    if let Some(tables) = late {
        // Compactions go first if one is due already, so that schedules with few preemptions meet
        // the planted fault.
        if tables > 1 {
            evendb_base::sync::thread::yield_now();
        }
        engine.work.set_level0(tables);
    }
    Ok(())
}
