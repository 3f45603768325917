//! The tables that a state names: each table once, with its place and the chunks that name it.

use super::load::LockedDirectory;
use crate::error::Result;
use crate::files::{container_name, container_number, in_container};
use crate::manifest::ChunkId;
use crate::manifest::edit::{ChunkRecord, Part, Place};
use crate::manifest::state::ManifestState;
use crate::sync::Arc;
use crate::tables::table_path;
use evendb_storage::table;
use evendb_storage::vfs::File;
use evendb_storage::{Error as StorageError, TableId};
use std::collections::BTreeMap;
use std::ops::Range;

/// A table and the chunks that name it.
pub(super) struct NamedTable<'s> {
    pub(super) part: &'s Part,
    pub(super) chunks: Vec<&'s ChunkRecord>,
}

/// All tables in the best order for reading: tables in the container by offset, then tables in
/// files. The second part lists contradictions: tables for which two chunks have different records.
pub(super) fn named(state: &ManifestState) -> (Vec<NamedTable<'_>>, Vec<(ChunkId, TableId)>) {
    let mut known: BTreeMap<TableId, NamedTable<'_>> = BTreeMap::new();
    let mut contradictions = Vec::new();
    for chunk in state.chunks.values() {
        for part in &chunk.parts {
            let named = known.entry(part.table).or_insert_with(|| NamedTable {
                part,
                chunks: Vec::new(),
            });
            if named.part.place != part.place || named.part.meta != part.meta {
                contradictions.push((chunk.id, part.table));
            }
            named.chunks.push(chunk);
        }
    }
    let mut tables: Vec<_> = known.into_values().collect();
    tables.sort_by_key(|named| match named.part.place {
        Place::Extent { offset } => (0, offset),
        Place::File => (1, named.part.table.0),
    });
    (tables, contradictions)
}

/// The name of the file that holds a part.
pub(super) fn file_name(part: &Part) -> String {
    match part.place {
        Place::File => table_file_name(part.table),
        Place::Extent { offset } => container_name(in_container(offset).0),
    }
}

pub(super) fn table_file_name(id: TableId) -> String {
    format!("{:016x}.sst", id.0)
}

/// The offset at which a part begins in its file.
pub(super) fn start(part: &Part) -> u64 {
    match part.place {
        Place::File => 0,
        Place::Extent { offset } => in_container(offset).1,
    }
}

/// The place of a part in its file.
pub(super) fn place(part: &Part) -> Range<u64> {
    let start = start(part);
    start..start.saturating_add(part.meta.len)
}

/// The files of all containers that can be opened, by number.
pub(super) type Containers = BTreeMap<u64, Arc<dyn File>>;

/// Opens the file of a part; `Err` says what is wrong with it.
pub(super) fn open(
    directory: &LockedDirectory,
    containers: &Containers,
    part: &Part,
) -> std::result::Result<Arc<dyn File>, String> {
    match part.place {
        Place::Extent { offset } => {
            let number = in_container(offset).0;
            let file = containers.get(&number).cloned();
            file.ok_or_else(|| format!("{} cannot be opened", container_name(number)))
        }
        Place::File => {
            let path = table_path(&directory.dir, part.table);
            let opened = directory.vfs.open(&path, false);
            opened.map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => "the SSTable is missing".to_owned(),
                _ => format!("cannot be opened: {error}"),
            })
        }
    }
}

/// Refuses a table that needs a feature which this build lacks: otherwise all of it would be
/// reported as damage.
pub(super) fn refuse_lacking(file: &dyn File, offset: u64, len: u64, id: TableId) -> Result<()> {
    match table::lacks_for(file, offset, len, id) {
        Some(lacks) => Err(StorageError::unsupported(file.path(), lacks).into()),
        None => Ok(()),
    }
}

/// The containers that are there.
pub(super) fn containers(directory: &LockedDirectory) -> Result<Containers> {
    let mut containers = Containers::new();
    for name in &directory.names {
        let Some(number) = container_number(name) else {
            continue;
        };
        let path = directory.dir.join(name);
        match directory.vfs.open(&path, false) {
            Ok(file) => drop(containers.insert(number, file)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(StorageError::io(&path, "open the chunks' logs", error).into());
            }
        }
    }
    Ok(containers)
}
