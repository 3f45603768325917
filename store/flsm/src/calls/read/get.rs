//! Gets: the value of one key, now or at a registered moment.
//!
//! The view is taken first and the published version afterwards ([`crate::clock`] says why). Memory
//! tables and filters are searched under the pin. The pin is given up before a table is read,
//! because reading may wait for the disk.

use super::looks::note_seek;
use crate::engine::Engine;
use crate::error::Result;
use crate::keyspace::{KeyspaceState, View};
use crate::plant::planted;
use crate::tree::Tree;
use crate::value::Value;
use evendb_base::sync::reclaim::{self, Guard};
use evendb_storage::key_hash::FilterHash;
use evendb_storage::table::{Found, InBlock, Table};
use evendb_storage::{Kind, Version};

/// The record of a key.
pub(crate) enum Seen {
    Value(Value),
    /// It was deleted, or never there.
    Nothing,
}

impl Seen {
    pub(crate) fn value(self) -> Option<Value> {
        match self {
            Seen::Value(value) => Some(value),
            Seen::Nothing => None,
        }
    }
}

/// The value of `key`, at a registered moment or now.
pub(crate) fn get(
    engine: &Engine,
    keyspace: &KeyspaceState,
    key: &[u8],
    at: Option<Version>,
) -> Result<Option<Value>> {
    let pin = reclaim::pin();
    let view = keyspace.view.load(&pin);
    let at = at.unwrap_or_else(|| engine.clock.published());
    if let Some(seen) = in_memory(view.get(), key, at) {
        return Ok(seen.value());
    }
    let tree = view.tree.clone();
    in_tree(engine, &tree, key, at, pin).map_err(|error| engine.health.of_read(error))
}

fn in_memory(view: &View, key: &[u8], at: Version) -> Option<Seen> {
    let mut memories = view.memories.iter();
    let found = memories.find_map(|(_, table)| table.get(key, at))?;
    Some(match found.kind.is_tombstone() {
        true => Seen::Nothing,
        false => Seen::Value(Value::copied(found.value)),
    })
}

fn in_tree(
    engine: &Engine,
    tree: &Tree,
    key: &[u8],
    at: Version,
    pin: Guard,
) -> Result<Option<Value>> {
    let hash = FilterHash::of(key);
    let mut pin = Some(pin);
    let mut in_vain = false;
    let mut found = None;
    for table in tree.tables_for(key) {
        if table.is_ruled_out(hash, pin.get_or_insert_with(reclaim::pin)) {
            continue;
        }
        pin = None;
        let table = table.open()?;
        let is_asked = match planted!(engine.options, OtherFilter) {
            true => first_table(tree)?.may_contain(hash),
            false => table.may_contain(hash),
        };
        if !is_asked {
            continue;
        }
        found = in_table(engine, &table, key, at)?;
        if found.is_some() && !planted!(engine.options, GoesOnToOlder) {
            break;
        }
        in_vain = true;
    }
    if in_vain {
        note_seek(engine, tree, Some(key));
    }
    Ok(found.and_then(|found| match found.kind {
        Kind::Put => Some(Value::in_block(found.block, found.value)),
        _ => None,
    }))
}

/// The first table of a tree that has tables, for a planted fault.
fn first_table(tree: &Tree) -> Result<std::sync::Arc<Table>> {
    let (_, first) = tree.tables().next().expect("a table was asked for");
    Ok(first.open()?)
}

fn in_table(engine: &Engine, table: &Table, key: &[u8], at: Version) -> Result<Option<Found>> {
    let Some(mut ordinal) = table.block_for(key) else {
        return Ok(None);
    };
    loop {
        let block = engine.cache.block(table, ordinal)?;
        match table.find_in_block(ordinal, block, key, at)? {
            InBlock::Found(found) => return Ok(Some(found)),
            InBlock::Next => ordinal += 1,
            InBlock::Absent => return Ok(None),
        }
    }
}
