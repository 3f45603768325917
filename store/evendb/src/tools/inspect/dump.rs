//! `dump`: what the bytes of one part of a database say, item by item in their order.
//!
//! Bytes that do not verify are an item too, with the reason; items behind them are still shown
//! where they can be found. The caller prints the items.

use super::load::{Loaded, LockedDirectory, io};
use super::{DumpItem, DumpOptions, InspectOptions, chunk_name, tables};
use crate::commit_log::{self, Surveyed};
use crate::error::{Error, ErrorKind, Result};
use crate::files::{COMMIT_LOG, CURRENT};
use crate::funk::tables::table_path;
use crate::kept_changes::{self, KeptItem};
use crate::manifest::ChunkId;
use crate::manifest::edit::{self, Change, ChunkRecord, CoverRecord, Part, Role};
use crate::manifest::epochs::segments;
use crate::manifest::writer::{self, CURRENT_LEN, manifest_path};
use crate::op::OpKind;
use crate::payload::{self, Decoded, DecodedOp};
use crate::value_extents;
use crate::value_files;
use evendb_storage::framed_log::{self, FrameCodec, header_id_in, survey_frames};
use evendb_storage::table::{self, BlockFacts, TableDamage, TableFacts, TableMeta, TableVisitor};
use evendb_storage::vfs::File;
use evendb_storage::{Apart, EntryRef, Error as StorageError, Kind, TableId, Version, operands};
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

/// A change, without the parts and range deletions that are items of their own.
fn change_item(change: &Change) -> DumpItem {
    let item = |what: &str| DumpItem::new("change", 1).text("what", what);
    match change {
        Change::Format { ring_bytes } => item("format").number("commit-log-bytes", *ring_bytes),
        Change::Epoch(epoch) => {
            let item = item("epoch")
                .number("epoch", epoch.epoch)
                .text("seed", format!("{:016x}", epoch.seed))
                .number("start", epoch.start.0)
                .number("previous-closed-at", epoch.previous_closed_at.0)
                .number("completed-before", epoch.completed_before);
            match epoch.boot {
                Some(boot) => item.text("boot", boot.map(|byte| format!("{byte:02x}")).concat()),
                None => item,
            }
        }
        Change::CreateKeyspace { id, name } => {
            let item = item("create-keyspace").number("id", id.0.into());
            item.text("name", name)
        }
        Change::DropKeyspace { id } => item("drop-keyspace").number("id", id.0.into()),
        Change::SetProperty {
            keyspace,
            name,
            value,
        } => {
            let what = match value {
                Some(_) => "set-property",
                None => "remove-property",
            };
            let item = item(what).number("keyspace", keyspace.0.into());
            let item = item.text("name", name);
            match value {
                Some(value) => item.bytes("value", value),
                None => item,
            }
        }
        Change::SetChunk(chunk) => item("set-chunk")
            .number("id", chunk.id.0)
            .number("keyspace", chunk.keyspace.0.into())
            .bytes("low", &chunk.low),
        Change::RemoveChunk { id } => item("remove-chunk").number("id", id.0),
        Change::AddParts { id, .. } => item("add-parts").number("chunk", id.0),
        Change::AddCovers { id, .. } => item("add-range-deletions").number("chunk", id.0),
        Change::Checkpoint {
            number,
            replay_from,
        } => {
            let item = item("checkpoint").number("number", *number);
            item.number("replay-from", replay_from.0)
        }
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

    fn manifest(&mut self) -> Result<ControlFlow<()>> {
        let id = self.loaded.manifest;
        let id = id.ok_or_else(|| {
            let path = self.directory.dir.join(CURRENT);
            StorageError::corruption(&path, 0, "no manifest can be read")
        })?;
        let path = manifest_path(&self.directory.dir, id);
        let (file, _) = self.directory.open_file(&path).map_err(not_found)?;
        let header = match header_id_in(&*file) {
            Ok(id) => DumpItem::new("header", 0)
                .at(0, framed_log::HEADER_BYTES)
                .number("log-id", id),
            Err(what) => DumpItem::damage(0, 0, framed_log::HEADER_BYTES, what),
        };
        let mut flow = self.give(header);
        let codec = FrameCodec::of(self.directory.vfs.secrets(), &path, id);
        survey_frames(&*file, &codec, &mut |found| {
            if flow.is_continue() {
                flow = self.manifest_stretch(found);
            }
        })?;
        Ok(flow)
    }

    fn manifest_stretch(&mut self, found: framed_log::Surveyed<'_>) -> ControlFlow<()> {
        match found {
            framed_log::Surveyed::Hole {
                used: 0,
                offset,
                len,
            } => self.give(DumpItem::new("room", 0).at(offset, len)),
            framed_log::Surveyed::Hole { offset, used, .. } => {
                self.give(DumpItem::damage(0, offset, used, "no edit verifies here"))
            }
            framed_log::Surveyed::Frame {
                offset,
                len,
                payload,
            } => {
                let count =
                    edit::changes(payload).try_fold(0, |count, change| change.map(|_| count + 1));
                let Some(count) = count else {
                    let what = "the edit cannot be decoded";
                    return self.give(DumpItem::damage(0, offset, len, what));
                };
                let edit = DumpItem::new("edit", 0).at(offset, len);
                self.give(edit.number("changes", count))?;
                let mut changes = edit::changes(payload).flatten();
                changes.try_for_each(|change| self.change(&change))
            }
        }
    }

    fn change(&mut self, change: &Change) -> ControlFlow<()> {
        self.give_counted(change_item(change))?;
        let (parts, covers) = match change {
            Change::SetChunk(chunk) => (&chunk.parts[..], &chunk.covers[..]),
            Change::AddParts { parts, .. } => (&parts[..], &[][..]),
            Change::AddCovers { covers, .. } => (&[][..], &covers[..]),
            _ => return ControlFlow::Continue(()),
        };
        parts.iter().try_for_each(|part| self.part(part, 2))?;
        covers.iter().try_for_each(|cover| self.cover(cover, 2))
    }

    fn cover(&mut self, cover: &CoverRecord, depth: usize) -> ControlFlow<()> {
        let item = DumpItem::new("range-deletion", depth)
            .text("version", shown_version(cover.version))
            .bytes("low", &cover.low);
        self.give(match &cover.high {
            Some(high) => item.bytes("high", high),
            None => item.text("high", "end of the chunk"),
        })
    }

    fn part(&mut self, part: &Part, depth: usize) -> ControlFlow<()> {
        let item = DumpItem::new("part", depth)
            .text("table", format!("{:016x}", part.table.0))
            .text("file", tables::file_name(part))
            .number("offset", tables::start(part));
        let item = match part.role {
            Role::Base => item.text("role", "base"),
            Role::Run { ordinal } => item.text("role", "run").number("ordinal", ordinal.into()),
        };
        let item = item
            .number("epoch", part.epoch)
            .number("checkpoint", part.checkpoint);
        self.give(with_meta(item, &part.meta))
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

    fn commit_log(&mut self) -> Result<ControlFlow<()>> {
        let state = &self.loaded.state;
        if state.ring_bytes == 0 && self.loaded.edits_lost {
            // Only the manifest knows where the log begins and how its records are sealed.
            return Ok(self.give(DumpItem::damage(0, 0, 0, "the manifest cannot be read")));
        }
        if state.ring_bytes == 0 {
            let item = DumpItem::new("commit-log", 0).text("what", "there is none");
            return Ok(self.give(item));
        }
        let head = DumpItem::new("commit-log", 0)
            .number("capacity", state.ring_bytes)
            .number("replay-from", state.replay_from.0)
            .number("last-checkpoint", state.completed);
        if self.give(head).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let path = self.directory.dir.join(COMMIT_LOG);
        let file = self.directory.vfs.open(&path, false);
        let file =
            file.map_err(|source| StorageError::open(&path, "open the commit log", source))?;
        let mut flow = ControlFlow::Continue(());
        let lives = segments(state);
        let how = self.loaded.survey(self.directory, &lives);
        let capacity = how.capacity;
        let outcome = commit_log::survey(&*file, &how, &mut |found| {
            if flow.is_continue() {
                flow = self.log_stretch(found, capacity);
            }
            Ok(())
        });
        if let Err(error) = outcome {
            flow = self.give(DumpItem::damage(0, 0, capacity, error.to_string()));
        }
        Ok(flow)
    }

    fn log_stretch(&mut self, found: Surveyed<'_>, capacity: u64) -> ControlFlow<()> {
        match found {
            Surveyed::Filler { lsn, end } => self.give(
                DumpItem::new("filler", 0)
                    .at(lsn.0 % capacity, end.0.saturating_sub(lsn.0))
                    .number("lsn", lsn.0),
            ),
            Surveyed::Hole { lsn, end, .. } => {
                let what = "nothing verifies here, but the log goes on behind";
                let item = DumpItem::damage(0, lsn.0 % capacity, end.0.saturating_sub(lsn.0), what);
                self.give(item.number("lsn", lsn.0))
            }
            Surveyed::End { lsn, torn, .. } => {
                let what = match torn {
                    Some(_) => "the log ends at a record that does not verify",
                    None => "the log ends",
                };
                let item = DumpItem::new("end", 0).at(lsn.0 % capacity, 0);
                self.give(item.text("what", what).number("lsn", lsn.0))
            }
            Surveyed::Record {
                record,
                epoch,
                beyond,
            } => {
                let item = DumpItem::new("log-record", 0)
                    .at(record.lsn.0 % capacity, record.end.0 - record.lsn.0)
                    .number("lsn", record.lsn.0)
                    .number("epoch", epoch)
                    .text("version", shown_version(record.version))
                    .number("tail", record.tail.0)
                    .number("durable", record.durable.0);
                let item = match beyond {
                    true => item.text("note", "behind a hole: opening does not read it"),
                    false => item,
                };
                match payload::decode(record.payload) {
                    None => self.give_counted(item.text("note", "makes no sense")),
                    Some(Decoded::Extent(name)) => self.give_counted(
                        item.text("value-extent", value_extents::file_name(name.id))
                            .number("value-extent-bytes", name.len)
                            .number("value-extent-synced-first", name.is_synced.into())
                            .text("checksum", format!("{:08x}", name.checksum)),
                    ),
                    Some(Decoded::Inline(ops)) => {
                        self.give_counted(item.number("operations", ops.len() as u64))?;
                        ops.iter().try_for_each(|op| self.operation(op))
                    }
                }
            }
        }
    }

    fn kept_changes(&mut self) -> Result<ControlFlow<()>> {
        let directory = self.directory;
        let of = |name: &String| Some((kept_changes::file_id(name)?, name.clone()));
        let mut files: Vec<(u64, String)> = directory.names.iter().filter_map(of).collect();
        files.sort();
        if files.is_empty() {
            let item = DumpItem::new("kept-changes", 0).text("what", "there are none");
            return Ok(self.give(item));
        }
        for (id, name) in files {
            let path = directory.dir.join(&name);
            let codec = FrameCodec::of(directory.vfs.secrets(), &path, id);
            let (file, len) = directory.open_file(&path).map_err(not_found)?;
            let mut flow = self.give(DumpItem::new("kept-changes", 0).text("file", name));
            survey_frames(&*file, &codec, &mut |found| {
                if flow.is_continue() {
                    flow = self.kept_stretch(found, len);
                }
            })?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn kept_stretch(&mut self, found: framed_log::Surveyed<'_>, file_len: u64) -> ControlFlow<()> {
        let (offset, len, payload) = match found {
            // A crash leaves bytes behind the last change; they are no change.
            framed_log::Surveyed::Hole { offset, len, .. } if offset + len >= file_len => {
                return self.give(DumpItem::new("room", 1).at(offset, len));
            }
            framed_log::Surveyed::Hole { offset, len, .. } => {
                return self.give(DumpItem::damage(
                    1,
                    offset,
                    len,
                    "no kept change verifies here",
                ));
            }
            framed_log::Surveyed::Frame {
                offset,
                len,
                payload,
            } => (offset, len, payload),
        };
        let frame = match kept_changes::item_of(payload) {
            Some(KeptItem::First(lsn, previous)) => {
                let item = DumpItem::new("begin", 1).at(offset, len);
                let item = item.number("lsn", lsn.0);
                return self.give(item.number("file-before", previous));
            }
            Some(KeptItem::Record(frame)) => frame,
            None => {
                return self.give(DumpItem::damage(
                    1,
                    offset,
                    len,
                    "the kept change makes no sense",
                ));
            }
        };
        let item = DumpItem::new("kept-change", 1)
            .at(offset, len)
            .number("lsn", frame.lsn.0)
            .number("epoch", frame.epoch)
            .text("version", shown_version(frame.version));
        if frame.operations.is_empty() {
            return self.give_counted(item.text("note", "the rest of a lap of the commit log"));
        }
        match payload::decode_ops(&frame.operations) {
            None => self.give(DumpItem::damage(
                1,
                offset,
                len,
                "the kept change makes no sense",
            )),
            Some(ops) => {
                self.give_counted(item.number("operations", ops.len() as u64))?;
                ops.iter().try_for_each(|op| self.operation(op))
            }
        }
    }

    fn operation(&mut self, op: &DecodedOp<'_>) -> ControlFlow<()> {
        let kind = match op.kind {
            OpKind::One(kind) => kind_name(kind),
            OpKind::RangeDelete => "delete-range",
        };
        let item = DumpItem::new("operation", 1).text("kind", kind);
        let item = match self.loaded.state.keyspaces.get(&op.keyspace) {
            Some(name) => item.text("keyspace", name),
            None => item.number("keyspace-id", op.keyspace.0.into()),
        };
        let item = match op.kind {
            OpKind::RangeDelete if op.value.is_empty() => {
                item.bytes("low", op.key).text("high", "end")
            }
            OpKind::RangeDelete => item.bytes("low", op.key).bytes("high", op.value),
            OpKind::One(kind) => self.with_value(item.bytes("key", op.key), kind, op.value),
        };
        self.give(item)
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
