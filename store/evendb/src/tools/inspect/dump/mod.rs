//! `dump`: what the bytes of one part of a database say, item by item in their order.
//!
//! Bytes that do not verify are an item too, with the reason; items behind them are still shown
//! where they can be found. The caller prints the items.

mod logs;
mod manifest;

use super::load::{self, Loaded, LockedDirectory};
use super::{DumpItem, DumpOptions, InspectOptions, chunk_name, tables};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::ChunkId;
use crate::manifest::current::{CURRENT_LEN, read_current};
use crate::manifest::edit::{ChunkRecord, Part};
use crate::manifest::writer;
use crate::tables::table_path;
use crate::value_files;
use evendb_base::inspect::{DumpOutput, DumpWords, dump_table};
use evendb_storage::{Error as StorageError, TableId};
use std::ops::ControlFlow;
use std::path::Path;

/// What to dump.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Dump {
    /// The file `CURRENT`.
    Current,
    /// The manifest in force, edit by edit.
    Manifest,
    /// What the manifest says of the chunk of this id.
    Chunk(u64),
    /// A table, block by block: given by the name of its file, or by the id of a table that the
    /// manifest names, in hexadecimal digits.
    Table(String),
    /// The runs of the log of the chunk of this id.
    Log(u64),
    /// The commit log, from the replay position on.
    CommitLog,
    /// The changes that are kept beyond the commit log, file by file.
    KeptChanges,
}

/// Gives `each` the items of a part of the closed database in `path`, until `each` stops or the
/// limit is reached.
///
/// # Errors
/// `NotFound` if there is no database, or if it has no such chunk or table; `Locked`, `Io`.
pub fn dump(
    path: impl AsRef<Path>,
    what: &Dump,
    options: &DumpOptions,
    inspect: InspectOptions<'_>,
    each: &mut dyn FnMut(DumpItem) -> ControlFlow<()>,
) -> Result<()> {
    let directory = load::lock(&inspect, path.as_ref())?;
    let loaded = Loaded::read(&directory);
    let mut dumper = Dumper {
        directory: &directory,
        loaded: &loaded,
        output: DumpOutput::new(WORDS, options, each),
    };
    // A stop by `each` is no failure.
    let _ = match what {
        Dump::Current => dumper.current(),
        Dump::Manifest => dumper.manifest()?,
        Dump::Chunk(id) => dumper.chunk(*id)?,
        Dump::Table(name) => dumper.table_named(name)?,
        Dump::Log(id) => dumper.log(*id)?,
        Dump::CommitLog => dumper.commit_log()?,
        Dump::KeptChanges => dumper.kept_changes()?,
    };
    Ok(())
}

struct Dumper<'d> {
    directory: &'d LockedDirectory,
    loaded: &'d Loaded,
    output: DumpOutput<'d>,
}

fn not_found(message: String) -> Error {
    Error::new(ErrorKind::NotFound, message)
}

/// A version is the number of a checkpoint, and the number of a write before it.
const WORDS: DumpWords = DumpWords {
    version: |item, name, version| {
        let (checkpoint, write) = (version.0 >> 24, version.0 & 0xff_ffff);
        item.text(name, format!("{checkpoint}.{write}"))
    },
    value_file: value_files::file_name,
};

impl Dumper<'_> {
    fn current(&mut self) -> ControlFlow<()> {
        let item = DumpItem::new("current", 0);
        match read_current(&*self.directory.vfs, &self.directory.dir) {
            Ok(current) => self.output.give(
                item.at(0, CURRENT_LEN as u64)
                    .text("manifest", writer::manifest_name(current.id))
                    .number("verified-up-to", current.verified)
                    .number("closed", current.closed.into()),
            ),
            Err(error) => self.output.give(DumpItem::damage(
                0,
                0,
                CURRENT_LEN as u64,
                error.to_string(),
            )),
        }
    }

    fn chunk_record(&self, id: u64) -> Result<ChunkRecord> {
        let chunk = self.loaded.state.chunks.get(&ChunkId(id)).cloned();
        chunk.ok_or_else(|| not_found(format!("there is no chunk {id}")))
    }

    fn chunk(&mut self, id: u64) -> Result<ControlFlow<()>> {
        let chunk = self.chunk_record(id)?;
        let item = self.chunk_item(&chunk);
        if self.output.give(item).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let mut parts = chunk.parts.iter();
        let flow = parts.try_for_each(|part| self.part(part, 1));
        let mut covers = chunk.covers.iter();
        Ok(match flow {
            ControlFlow::Continue(()) => covers.try_for_each(|cover| self.cover(cover, 1)),
            ended => ended,
        })
    }

    fn chunk_item(&self, chunk: &ChunkRecord) -> DumpItem {
        let name = chunk_name(&self.loaded.state, chunk);
        let item = DumpItem::new("chunk", 0)
            .number("id", name.id)
            .text("keyspace", name.keyspace)
            .bytes("low", &name.low);
        match &name.high {
            Some(high) => item.bytes("high", high),
            None => item.text("high", "end"),
        }
        .number("parts", chunk.parts.len() as u64)
        .number("range-deletions", chunk.covers.len() as u64)
    }

    fn log(&mut self, id: u64) -> Result<ControlFlow<()>> {
        let chunk = self.chunk_record(id)?;
        let item = self.chunk_item(&chunk);
        let containers = tables::containers(self.directory)?;
        let mut runs: Vec<&Part> = chunk.parts.iter().collect();
        runs.retain(|part| part.role.is_run());
        runs.sort_by_key(|part| part.role.order());
        let mut flow = self.output.give(item);
        for part in runs {
            if flow.is_break() {
                break;
            }
            flow = self.part(part, 1);
            if flow.is_continue() {
                flow = match tables::open(self.directory, &containers, part) {
                    Ok(file) => {
                        dump_table(&mut self.output, &*file, tables::place(part), part.table)
                    }
                    Err(what) => {
                        let (start, len) = (tables::start(part), part.meta.len);
                        self.output.give(DumpItem::damage(2, start, len, what))
                    }
                };
            }
        }
        Ok(flow)
    }

    fn table_named(&mut self, name: &str) -> Result<ControlFlow<()>> {
        let no_table = || not_found(format!("there is no table {name}"));
        let stem = Path::new(name).file_name().and_then(|name| name.to_str());
        let stem = stem.ok_or_else(no_table)?;
        let digits = stem.strip_suffix(".sst").unwrap_or(stem);
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        let id = TableId(u64::from_str_radix(digits, 16).map_err(|_| no_table())?);
        let mut parts = self
            .loaded
            .state
            .chunks
            .values()
            .flat_map(|chunk| &chunk.parts);
        let known = parts.find(|part| part.table == id).cloned();
        if let Some(part) = known {
            let containers = tables::containers(self.directory)?;
            let file = tables::open(self.directory, &containers, &part);
            let file = file.map_err(not_found)?;
            if self.part(&part, 0).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let place = tables::place(&part);
            return Ok(dump_table(&mut self.output, &*file, place, id));
        }
        let path = table_path(&self.directory.dir, id);
        if !self.directory.has(&tables::table_file_name(id)) {
            return Err(no_table());
        }
        let file = self.directory.vfs.open(&path, false);
        let file = file.map_err(StorageError::at(&path, "open an SSTable"))?;
        let len = file.len();
        let len = len.map_err(StorageError::at(&path, "look at an SSTable"))?;
        Ok(dump_table(&mut self.output, &*file, 0..len, id))
    }
}
