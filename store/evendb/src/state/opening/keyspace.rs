//! A new keyspace: one chunk, which covers all keys and has no records.

use crate::catalog::KeyspaceState;
use crate::chunk::index::Index;
use crate::chunk::{ChargedDelta, Chunk, KeyRange, View};
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::error::Result;
use crate::funk::Funk;
use crate::manifest::edit::{Change, ChunkRecord};
use crate::manifest::state::Properties;
use crate::manifest::{ChunkId, GuardSet, KeyspaceId};
use crate::options::{KeyspaceOptions, Layout};
use crate::sync::Arc;
use crate::version::clock::checkpoint_of;
use evendb_storage::{Error as StorageError, Version, random};
use std::path::Path;

/// A keyspace with one chunk that covers all keys, and the edit that makes it known.
pub(crate) fn new_keyspace(
    core: &Core,
    disk: &Disk,
    name: &str,
    options: &KeyspaceOptions,
) -> Result<(Arc<KeyspaceState>, Vec<Change>)> {
    let id = KeyspaceId(disk.manifest().with_state(|state| state.next_keyspace));
    let guards = new_guards(&disk.dir, options)?;
    let (state, chunk_id) = empty_keyspace(core, disk, name, id, guards.as_ref());
    let mut properties = state.properties.lock();
    let chosen = options.to_properties();
    properties.extend(chosen.filter_map(|(name, value)| Some((name, value?))));
    drop(properties);
    let record = empty_chunk(id, chunk_id, guards);
    Ok((state, keyspace_changes(name, record, options)))
}

/// The guards of a new keyspace with these options: none yet, or `None` if it lies in chunks.
pub(super) fn new_guards(dir: &Path, options: &KeyspaceOptions) -> Result<Option<GuardSet>> {
    if options.layout != Some(Layout::Guards) {
        return Ok(None);
    }
    let seed = random::number();
    Ok(Some(GuardSet {
        seed: seed.map_err(|source| StorageError::io(dir, "get random numbers", source))?,
        keys: Vec::new(),
    }))
}

/// The manifest record of a keyspace's only chunk, without records.
pub(super) fn empty_chunk(
    keyspace: KeyspaceId,
    id: ChunkId,
    guards: Option<GuardSet>,
) -> ChunkRecord {
    ChunkRecord {
        id,
        keyspace,
        low: Vec::new(),
        parts: Vec::new(),
        covers: Vec::new(),
        guards,
    }
}

/// The edit that makes a keyspace known, with its only chunk.
pub(super) fn keyspace_changes(
    name: &str,
    chunk: ChunkRecord,
    options: &KeyspaceOptions,
) -> Vec<Change> {
    let id = chunk.keyspace;
    let name = name.to_owned();
    let mut changes = vec![Change::CreateKeyspace { id, name }, Change::SetChunk(chunk)];
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
    guards: Option<&GuardSet>,
) -> (Arc<KeyspaceState>, ChunkId) {
    let chunk_id = ChunkId(disk.new_id());
    let view = View {
        active: ChargedDelta::new(checkpoint_of(core.clock.now()), &core.admission),
        frozen: Vec::new(),
        munk: None,
        funk: Arc::new(Funk::empty(guards)),
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
