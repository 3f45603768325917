//! An edit is made durable, and its trees are shown.
//!
//! Both under the manifest's lock, so that trees are shown in the order of the edits. A failure latches the database, because it is
//! not known then whether the edit is durable; but for want of room, after which the edit is not made and its new tables go.

use crate::compaction::rewrite::Stopped;
use crate::engine::Engine;
use crate::error::Error;
use crate::keyspace::KeyspaceState;
use crate::manifest::state::{Edit, State};
use crate::types::FileNumber;
use evendb_base::sync::Arc;
use evendb_storage::ErrorKind;

/// Makes the edit that `make` says, and shows the trees of these keyspaces, without the memory tables of the generation
/// `flushed`. Nothing is done if `make` says nothing.
pub(super) fn commit(
    engine: &Engine,
    keyspaces: &[Arc<KeyspaceState>],
    flushed: Option<FileNumber>,
    make: impl FnOnce(&State) -> Option<Edit>,
) -> Result<(), Stopped> {
    {
        let mut manifest = engine.manifest.lock();
        let Some(edit) = make(manifest.state()) else {
            return Ok(());
        };
        match manifest.commit(edit) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NoSpace => return Err(error.into()),
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

/// Looks how many tables of level 0 there are.
pub(crate) fn update_level0(engine: &Engine) {
    let keyspaces = engine.keyspaces();
    let tables = keyspaces
        .iter()
        .map(|keyspace| keyspace.view.load_full().tree.level0().len());
    engine.work.set_level0(tables.max().unwrap_or(0));
}
