//! A new keyspace: one chunk, which covers all keys and has no records.

use crate::catalog::KeyspaceState;
use crate::chunk::index::Index;
use crate::chunk::{ChargedDelta, Chunk, KeyRange, View};
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::funk::Funk;
use crate::manifest::edit::{Change, ChunkRecord};
use crate::manifest::state::Properties;
use crate::manifest::{ChunkId, KeyspaceId};
use crate::options::KeyspaceOptions;
use crate::sync::Arc;
use crate::version::clock::checkpoint_of;
use evendb_storage::Version;

/// A keyspace with one chunk that covers all keys, and the edit that makes it known.
pub(crate) fn new_keyspace(
    core: &Core,
    disk: &Disk,
    name: &str,
    options: &KeyspaceOptions,
) -> (Arc<KeyspaceState>, Vec<Change>) {
    let id = KeyspaceId(disk.manifest().with_state(|state| state.next_keyspace));
    let (state, chunk_id) = empty_keyspace(core, disk, name, id);
    let mut properties = state.properties.lock();
    let chosen = options.to_properties();
    properties.extend(chosen.filter_map(|(name, value)| Some((name, value?))));
    drop(properties);
    (state, keyspace_changes(id, name, chunk_id, options))
}

/// The edit that makes a keyspace known, with one chunk.
pub(super) fn keyspace_changes(
    id: KeyspaceId,
    name: &str,
    chunk: ChunkId,
    options: &KeyspaceOptions,
) -> Vec<Change> {
    let record = ChunkRecord {
        id: chunk,
        keyspace: id,
        low: Vec::new(),
        parts: Vec::new(),
        covers: Vec::new(),
    };
    let name = name.to_owned();
    let mut changes = vec![
        Change::CreateKeyspace { id, name },
        Change::SetChunk(record),
    ];
    let chosen = options.to_properties().filter(|(_, value)| value.is_some());
    changes.extend(chosen.map(|(name, value)| Change::SetProperty {
        keyspace: id,
        name,
        value,
    }));
    changes
}

/// A keyspace with one empty chunk, and that chunk's id; in memory only.
pub(crate) fn empty_keyspace(
    core: &Core,
    disk: &Disk,
    name: &str,
    id: KeyspaceId,
) -> (Arc<KeyspaceState>, ChunkId) {
    let chunk_id = ChunkId(disk.new_id());
    let view = View {
        active: ChargedDelta::new(checkpoint_of(core.clock.now()), &core.admission),
        frozen: Vec::new(),
        munk: None,
        funk: Arc::new(Funk::new(Vec::new(), Vec::new(), 0)),
        covers: None,
        row_tag: core.row_tags.fresh(),
    };
    let range = KeyRange {
        low: Box::default(),
        high: None,
    };
    let ledger = core.ledger();
    let chunk = Chunk::new(chunk_id, id, range, view, Version::ZERO, ledger);
    let index = Index::new(vec![(Box::default(), Arc::new(chunk))]);
    let state = Arc::new(KeyspaceState::new(
        id,
        name.to_owned(),
        Properties::new(),
        index,
    ));
    (state, chunk_id)
}
