//! `dump`: what the bytes of one part of a database say, item by item in their order.
//!
//! Bytes that do not verify are an item too, with the reason; items behind them are still shown
//! where they can be found. The caller prints the items.

mod logs;
mod manifest;

use super::load::{Loaded, LockedDirectory, io};
use super::{DumpItem, DumpOptions, InspectOptions, chunk_name, tables};
use crate::error::{Error, ErrorKind, Result};
use crate::funk::tables::table_path;
use crate::manifest::ChunkId;
use crate::manifest::edit::{ChunkRecord, Part, Role};
use crate::manifest::writer::{self, CURRENT_LEN};
use crate::value_files;
use evendb_storage::table::{self, BlockFacts, TableDamage, TableFacts, TableMeta, TableVisitor};
use evendb_storage::vfs::File;
use evendb_storage::{Apart, EntryRef, Kind, TableId, Version, operands};
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
    let directory = LockedDirectory::open(&inspect, path.as_ref())?;
    let loaded = Loaded::read(&directory);
    let mut dumper = Dumper {
        directory: &directory,
        loaded: &loaded,
        keys_only: options.keys_only,
        left: options.limit.unwrap_or(u64::MAX),
        each,
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
    keys_only: bool,
    left: u64,
    each: &'d mut dyn FnMut(DumpItem) -> ControlFlow<()>,
}

fn not_found(message: String) -> Error {
    Error::new(ErrorKind::NotFound, message)
}

fn shown_version(version: Version) -> String {
    format!("{}.{}", version.0 >> 24, version.0 & 0xff_ffff)
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Put => "put",
        Kind::Delete => "delete",
        Kind::Merge => "merge",
        Kind::PutUntil => "put-until",
        Kind::PutApart => "put-apart",
        Kind::PutUntilApart => "put-until-apart",
        Kind::SingleDelete => "single-delete",
    }
}

impl Dumper<'_> {
    fn give(&mut self, item: DumpItem) -> ControlFlow<()> {
        (self.each)(item)
    }

    /// An item that counts towards the limit.
    fn give_counted(&mut self, item: DumpItem) -> ControlFlow<()> {
        if self.left == 0 {
            return ControlFlow::Break(());
        }
        self.left -= 1;
        self.give(item)
    }

    fn current(&mut self) -> ControlFlow<()> {
        let item = DumpItem::new("current", 0);
        match writer::read_current(&*self.directory.vfs, &self.directory.dir) {
            Ok(current) => self.give(
                item.at(0, CURRENT_LEN as u64)
                    .text("manifest", writer::manifest_name(current.id))
                    .number("verified-up-to", current.verified)
                    .number("closed", current.closed.into()),
            ),
            Err(error) => self.give(DumpItem::damage(
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
        if self.give(item).is_break() {
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
        let container = tables::container(self.directory)?;
        let mut runs: Vec<&Part> = chunk.parts.iter().collect();
        runs.retain(|part| part.role != Role::Base);
        runs.sort_by_key(|part| match part.role {
            Role::Base => 0,
            Role::Run { ordinal } => ordinal,
        });
        let mut flow = self.give(item);
        for part in runs {
            if flow.is_break() {
                break;
            }
            flow = self.part(part, 1);
            if flow.is_continue() {
                flow = match tables::open(self.directory, container.as_ref(), part) {
                    Ok(file) => self.table(&*file, tables::start(part), part.meta.len, part.table),
                    Err(what) => self.give(DumpItem::damage(
                        2,
                        tables::start(part),
                        part.meta.len,
                        what,
                    )),
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
            let container = tables::container(self.directory)?;
            let file = tables::open(self.directory, container.as_ref(), &part);
            let file = file.map_err(not_found)?;
            if self.part(&part, 0).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            return Ok(self.table(&*file, tables::start(&part), part.meta.len, id));
        }
        let path = table_path(&self.directory.dir, id);
        if !self.directory.has(&tables::table_file_name(id)) {
            return Err(no_table());
        }
        let file = self.directory.vfs.open(&path, false);
        let file = file.map_err(io(&path, "open an SSTable"))?;
        let len = file.len().map_err(io(&path, "look at an SSTable"))?;
        Ok(self.table(&*file, 0, len, id))
    }

    fn table(&mut self, file: &dyn File, start: u64, len: u64, id: TableId) -> ControlFlow<()> {
        let mut visitor = TableDump {
            dumper: self,
            start,
            flow: ControlFlow::Continue(()),
        };
        table::examine(file, start, len, id, &mut visitor);
        visitor.flow
    }

    fn with_value(&self, item: DumpItem, kind: Kind, value: &[u8]) -> DumpItem {
        let item = match kind.expires(value) {
            Some(time) => item.number("until-millis", time.0),
            None => item,
        };
        match (self.keys_only, kind) {
            (true, _) | (_, Kind::Delete | Kind::SingleDelete) => item,
            (false, Kind::Put | Kind::PutUntil) => {
                item.bytes("value", &value[kind.prefix_bytes()..])
            }
            (false, Kind::PutApart | Kind::PutUntilApart) => match Apart::of(kind, value) {
                Some(apart) => item
                    .text("value-file", value_files::file_name(apart.file))
                    .number("offset", apart.offset)
                    .number("length", apart.len.into()),
                None => item,
            },
            (false, Kind::Merge) => {
                let known = operands(value).flatten();
                known.fold(item, |item, operand| item.bytes("operand", operand))
            }
        }
    }
}

fn with_meta(item: DumpItem, meta: &TableMeta) -> DumpItem {
    let mut item = item
        .number("bytes", meta.len)
        .number("records", meta.entries)
        .number("deletes", meta.deletes);
    if meta.expiring > 0 {
        item = item
            .number("expiring", meta.expiring)
            .number("last-until-millis", meta.last_expiry.0);
    }
    item.number("data-bytes", meta.data_bytes)
        .text("max-version", shown_version(meta.max_version))
        .bytes("min-key", &meta.min_key)
        .bytes("max-key", &meta.max_key)
        .text("checksum", format!("{:08x}", meta.checksum))
}

struct TableDump<'t, 'd> {
    dumper: &'t mut Dumper<'d>,
    start: u64,
    flow: ControlFlow<()>,
}

impl TableDump<'_, '_> {
    fn give(&mut self, item: DumpItem) -> ControlFlow<()> {
        if self.flow.is_continue() {
            self.flow = self.dumper.give(item);
        }
        self.flow
    }
}

impl TableVisitor for TableDump<'_, '_> {
    fn facts(&mut self, facts: &TableFacts) {
        if let Some([data, dictionary, filter, index, properties]) = facts.lens {
            let before_footer = data + dictionary + filter + index + properties;
            let item = DumpItem::new("footer", 1)
                .at(
                    self.start.saturating_add(before_footer),
                    table::FOOTER_LEN as u64,
                )
                .number("data-bytes", data)
                .number("dictionary-bytes", dictionary)
                .number("filter-bytes", filter)
                .number("index-bytes", index)
                .number("properties-bytes", properties);
            let _ = self.give(item);
        }
        if let (Some(meta), Some((blocks, codec))) = (&facts.meta, facts.blocks) {
            let item = DumpItem::new("properties", 1).number("blocks", blocks);
            let item = item.text("codec", codec.name());
            let _ = self.give(with_meta(item, meta));
        }
    }

    fn block(&mut self, facts: &BlockFacts<'_>) -> ControlFlow<()> {
        let place = &facts.place;
        let item = DumpItem::new("block", 1)
            .at(
                self.start.saturating_add(place.start),
                place.end - place.start,
            )
            .number("ordinal", facts.ordinal as u64)
            .text("codec", facts.codec.name())
            .number("payload-bytes", facts.payload_bytes as u64)
            .number("restarts", facts.restarts as u64);
        let item = match facts.separator {
            Some(separator) => item.bytes("separator", separator),
            None => item,
        };
        if self.dumper.left == 0 {
            self.flow = ControlFlow::Break(());
        }
        self.give(item)
    }

    fn entry(&mut self, _ordinal: usize, entry: EntryRef<'_>) -> ControlFlow<()> {
        let item = DumpItem::new("record", 2)
            .text("kind", kind_name(entry.kind))
            .text("version", shown_version(entry.version))
            .bytes("key", entry.key);
        let item = self.dumper.with_value(item, entry.kind, entry.value);
        if self.flow.is_continue() {
            self.flow = self.dumper.give_counted(item);
        }
        self.flow
    }

    fn damage(&mut self, found: TableDamage) {
        let place = found.place;
        let what = format!("{}: {}", found.part, found.what);
        let item = DumpItem::damage(
            1,
            self.start.saturating_add(place.start),
            place.end - place.start,
            what,
        );
        let _ = self.give(item);
    }
}
