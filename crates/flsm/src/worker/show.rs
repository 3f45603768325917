//! An edit is made durable, and its trees are shown.
//!
//! Both under the manifest's lock, so that trees are shown in the order of the edits. A failure latches the database, because it is
//! not known then whether the edit is durable; but for want of room or of a descriptor, after which the edit is not made and its new tables go.

use crate::compaction::rewrite::Stopped;
use crate::engine::Engine;
use crate::error::Error;
use crate::keyspace::KeyspaceState;
use crate::manifest::state::{Edit, State};
use crate::plant::planted;
use crate::types::FileNumber;
use evendb_base::sync::Arc;

/// Makes the edit that `make` says, and shows the trees of these keyspaces, without the memory tables of the generation
/// `flushed`. Nothing is done if `make` says nothing.
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
            // One that was dropped stays as it is, for those who read it at a moment before.
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
            true => late = Some(level0_tables(manifest.state())),
            false => note_tables(engine, manifest.state()),
        }
    }
    if let Some(tables) = late {
        // Compactions go first where one is due already, so that schedules with few preemptions meet the planted fault.
        if tables > 1 {
            evendb_base::sync::thread::yield_now();
        }
        engine.work.set_level0(tables);
    }
    Ok(())
}

/// Tells how many tables of level 0 there are, and how long all are. To be called under the lock under which that changes: if an
/// older number were told last, writers would wait for a compaction that is over.
pub(crate) fn note_tables(engine: &Engine, state: &State) {
    engine.work.set_level0(level0_tables(state));
    let tables = state.keyspaces().values();
    let tables = tables.flat_map(|keyspace| keyspace.tree.tables());
    engine
        .full_disk
        .note_tables(tables.map(|(_, table)| table.meta.len));
}

/// Of the keyspace that has the most.
fn level0_tables(state: &State) -> usize {
    let keyspaces = state.keyspaces().values();
    let tables = keyspaces.map(|keyspace| keyspace.tree.level0().len());
    tables.max().unwrap_or(0)
}
