//! `dump`: the bytes of one part of a database, item by item in their order.
//!
//! Bytes that do not verify are an item too, with the reason. What lies behind them is still shown,
//! if it can be found. The caller prints the items: each can be shown as a line of text.

use super::load::{Directory, Loaded};
use super::{DumpItem, DumpOptions, InspectOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::files::FileName;
use crate::log::record::{LogRecord, decode_begin, decode_group};
use crate::manifest::change::{self, Change};
use crate::manifest::current;
use crate::manifest::state::Keyspace;
use crate::tree::{Guard, Tree};
use crate::types::{Age, KeyspaceId, Level};
use evendb_base::inspect::{DumpOutput, DumpWords, FramesPart, dump_frames, dump_table, with_meta};
use evendb_storage::table::TableMeta;
use evendb_storage::{Error as StorageError, TableId, Version};
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
    /// The sum of the edits: keyspaces, levels, guards, tables.
    Trees,
    /// A table, block by block: the name of a file, or its number.
    Table(String),
    /// The logs that are needed, oldest first.
    Logs,
}

/// Gives `each` the items of a part of the closed database in `path`, until `each` says stop or the
/// limit is reached.
///
/// # Errors
/// `NotFound` if there is no database or no such table; `Locked`, `Unsupported`, `Io`; `Corruption`
/// if the part needs a manifest and no manifest can be read.
pub fn dump(
    path: impl AsRef<Path>,
    what: &Dump,
    options: &DumpOptions,
    inspect: InspectOptions<'_>,
    each: &mut dyn FnMut(DumpItem) -> ControlFlow<()>,
) -> Result<()> {
    let directory = Directory::open(&inspect, path.as_ref())?;
    let loaded = Loaded::read(&directory)?;
    let mut dumper = Dumper {
        directory: &directory,
        loaded: &loaded,
        output: DumpOutput::new(WORDS, options, each),
    };
    // It is no failure if `each` says stop.
    let _ = match what {
        Dump::Current => dumper.current(),
        Dump::Manifest => dumper.manifest()?,
        Dump::Trees => dumper.trees(),
        Dump::Table(name) => dumper.table_named(name)?,
        Dump::Logs => dumper.logs()?,
    };
    Ok(())
}

struct Dumper<'d> {
    directory: &'d Directory,
    loaded: &'d Loaded,
    output: DumpOutput<'d>,
}

const WORDS: DumpWords = DumpWords {
    version: |item, name, version| item.number(name, version.0),
    // This engine writes no value apart.
    value_file: |number| number.to_string(),
};

fn not_found(message: String) -> Error {
    Error::new(ErrorKind::NotFound, message)
}

impl Dumper<'_> {
    fn current(&mut self) -> ControlFlow<()> {
        let len = current::LEN as u64;
        match current::read(self.directory.vfs(), self.directory.path()) {
            Ok(current) => self.output.give(
                DumpItem::new("current", 0)
                    .at(0, len)
                    .text("manifest", FileName::Manifest(current.manifest).name())
                    .number("verified-up-to", current.verified),
            ),
            Err(error) => self
                .output
                .give(DumpItem::damage(0, 0, len, error.to_string())),
        }
    }

    fn manifest(&mut self) -> Result<ControlFlow<()>> {
        let number = self.loaded.manifest.ok_or_else(|| {
            let path = FileName::Current.path(self.directory.path());
            StorageError::corruption(&path, 0, "no manifest can be read")
        })?;
        let file = FileName::Manifest(number);
        let (opened, _) = self.directory.open_file(file).map_err(not_found)?;
        let flow = dump_frames(&*opened, number.0, 0, &mut |part| match part {
            FramesPart::Item(item) => self.output.give(item),
            FramesPart::Frame(at, payload) => self.edit(at, payload),
        })?;
        Ok(flow)
    }

    fn edit(&mut self, (offset, len): (u64, u64), payload: &[u8]) -> ControlFlow<()> {
        let count = change::changes(payload).try_fold(0, |count, change| change.map(|_| count + 1));
        match count {
            Err(refused) => {
                let what = format!("the edit cannot be decoded: {refused:?}");
                self.output.give(DumpItem::damage(0, offset, len, what))
            }
            Ok(count) => {
                let edit = DumpItem::new("edit", 0).at(offset, len);
                self.output.give(edit.number("changes", count))?;
                let mut changes = change::changes(payload).flatten();
                changes.try_for_each(|change| self.change(&change))
            }
        }
    }

    fn change(&mut self, change: &Change) -> ControlFlow<()> {
        let item = |what: &str| DumpItem::new("change", 1).text("what", what);
        let of =
            |what: &str, keyspace: &KeyspaceId| item(what).number("keyspace", keyspace.0.into());
        self.output.give_counted(match change {
            Change::Format { engine, version } => item("format")
                .text("engine", engine)
                .number("version", *version),
            Change::CreateKeyspace { id, name } => of("create-keyspace", id).text("name", name),
            Change::DropKeyspace { id } => of("drop-keyspace", id),
            Change::NextFile(number) => item("next-file").number("number", number.0),
            Change::NextKeyspace(id) => item("next-keyspace").number("id", id.0.into()),
            Change::LastVersion(version) => item("last-version").number("version", version.0),
            Change::LogNumber(number) => item("logs-needed-from").number("number", number.0),
            // Not the number: dumps are shown to others.
            Change::GuardSecret(_) => item("guard-secret"),
            Change::AddTable(table) => {
                let item = of("add-table", &table.keyspace).number("level", table.level.0.into());
                self.placed(item, table.number, table.age, &table.meta)
            }
            Change::RemoveTable { keyspace, number } => {
                of("remove-table", keyspace).text("table", FileName::Table(*number).name())
            }
            Change::MoveTable {
                keyspace,
                number,
                to,
                age,
            } => of("move-table", keyspace)
                .text("table", FileName::Table(*number).name())
                .number("level", to.0.into())
                .number("age", age.0),
            Change::SetGuard {
                keyspace,
                from: Some(level),
                key,
            } => of("set-guard", keyspace)
                .number("from-level", level.0.into())
                .bytes("key", key),
            Change::SetGuard { keyspace, key, .. } => {
                of("remove-guard", keyspace).bytes("key", key)
            }
        })
    }

    fn trees(&mut self) -> ControlFlow<()> {
        let loaded = self.loaded;
        let state = &loaded.state;
        self.output.give(
            DumpItem::new("state", 0)
                .number("next-file", state.next_file.0)
                .number("next-keyspace", state.next_keyspace.0.into())
                .number("last-version", state.last_version.0)
                .number("logs-needed-from", state.log_number.0),
        )?;
        let mut keyspaces = state.keyspaces().iter();
        keyspaces.try_for_each(|(id, keyspace)| self.keyspace(*id, keyspace))
    }

    fn keyspace(&mut self, id: KeyspaceId, keyspace: &Keyspace) -> ControlFlow<()> {
        let tree = &keyspace.tree;
        self.output.give(
            DumpItem::new("keyspace", 0)
                .number("id", id.0.into())
                .text("name", &keyspace.name)
                .number("tables", tree.tables().count() as u64),
        )?;
        for table in tree.level0() {
            let item = DumpItem::new("table", 1).number("level", 0);
            self.output
                .give_counted(self.placed(item, table.number, table.age, &table.meta))?;
        }
        Tree::guarded_levels().try_for_each(|level| self.level(tree, level))
    }

    fn level(&mut self, tree: &Tree, level: Level) -> ControlFlow<()> {
        let guards = tree.guards(level);
        let in_use = guards.all().iter().any(|guard| !guard.tables.is_empty());
        if !in_use && guards.all().len() == 1 && guards.chosen().is_empty() {
            return ControlFlow::Continue(());
        }
        self.output.give(
            DumpItem::new("level", 1)
                .number("level", level.0.into())
                .number("guards", guards.all().len() as u64)
                .number("chosen", guards.chosen().len() as u64),
        )?;
        guards
            .all()
            .iter()
            .try_for_each(|guard| self.guard(guard))?;
        guards.chosen().iter().try_for_each(|key| {
            self.output
                .give(DumpItem::new("chosen", 2).bytes("key", key))
        })
    }

    fn guard(&mut self, guard: &Guard) -> ControlFlow<()> {
        self.output.give(
            DumpItem::new("guard", 2)
                .bytes("low", &guard.low)
                .number("runs", guard.runs().count() as u64),
        )?;
        guard.tables.iter().try_for_each(|table| {
            let item = DumpItem::new("table", 3);
            self.output
                .give_counted(self.placed(item, table.number, table.age, &table.meta))
        })
    }

    /// A table by the name of its file or by its number.
    fn table_named(&mut self, name: &str) -> Result<ControlFlow<()>> {
        let number = match FileName::parse(name) {
            Some(FileName::Table(number)) => Some(number),
            _ => name.parse().ok().map(TableId),
        };
        let file = number.map(FileName::Table);
        let Some((number, file)) = number
            .zip(file)
            .filter(|(_, file)| self.directory.has(*file))
        else {
            return Err(not_found(format!("there is no table {name}")));
        };
        let path = file.path(self.directory.path());
        let opened = self.directory.vfs().open(&path, false);
        let opened = opened.map_err(|source| StorageError::open(&path, "open a table", source))?;
        let len = opened.len();
        let len = len.map_err(StorageError::at(&path, "read the length of a table"))?;
        let item = DumpItem::new("file", 0)
            .at(0, len)
            .text("name", file.name());
        if self.output.give(item).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        Ok(dump_table(&mut self.output, &*opened, 0..len, number))
    }

    fn logs(&mut self) -> Result<ControlFlow<()>> {
        let (directory, needed) = (self.directory, self.loaded.state.log_number);
        let logs = directory.files.iter().filter_map(|file| match file {
            FileName::Log(number) if *number >= needed => Some(*number),
            _ => None,
        });
        for number in logs {
            let file = FileName::Log(number);
            let opened = directory.open_file(file);
            let flow = self.output.give(match &opened {
                Ok((_, len)) => {
                    let item = DumpItem::new("file", 0).at(0, *len);
                    item.text("name", file.name())
                }
                Err(what) => DumpItem::damage(0, 0, 0, format!("{}: {what}", file.name())),
            });
            let mut is_first = true;
            let flow = match (flow, opened) {
                (ControlFlow::Continue(()), Ok((opened, _))) => {
                    dump_frames(&*opened, number.0, 1, &mut |part| match part {
                        FramesPart::Item(item) => self.output.give(item),
                        FramesPart::Frame(at, payload) => match std::mem::take(&mut is_first) {
                            true => self.begin(at, payload),
                            false => self.group(at, payload),
                        },
                    })?
                }
                (flow, _) => flow,
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The first frame of a log.
    fn begin(&mut self, (offset, len): (u64, u64), payload: &[u8]) -> ControlFlow<()> {
        // If the log's first frame is damaged, the first frame that verifies is a group.
        let Ok(previous) = decode_begin(payload) else {
            return self.group((offset, len), payload);
        };
        let item = DumpItem::new("begin", 1).at(offset, len);
        self.output.give(match previous {
            None => item,
            Some(previous) => item
                .text("log-before", FileName::Log(previous.number).name())
                .number("its-end", previous.end)
                .number("durable-up-to", previous.durable),
        })
    }

    fn group(&mut self, (offset, len): (u64, u64), payload: &[u8]) -> ControlFlow<()> {
        let Ok(group) = decode_group(payload) else {
            let what = "the group makes no sense";
            return self.output.give(DumpItem::damage(1, offset, len, what));
        };
        self.output.give(
            DumpItem::new("group", 1)
                .at(offset, len)
                .number("first-version", group.first.0)
                .number("durable-up-to", group.durable)
                .number("records", group.records.left().into()),
        )?;
        let mut version = group.first;
        for record in group.records {
            match record {
                Ok(record) => self.record_of_log(version, &record)?,
                Err(_) => {
                    let what = "a record makes no sense, and those behind it";
                    return self.output.give(DumpItem::damage(2, offset, len, what));
                }
            }
            version = Version(version.0.wrapping_add(1));
        }
        ControlFlow::Continue(())
    }

    fn record_of_log(&mut self, version: Version, record: &LogRecord<'_>) -> ControlFlow<()> {
        let item = DumpItem::new("record", 2)
            .text("kind", record.kind.name())
            .number("version", version.0);
        let item = match self.loaded.state.keyspaces().get(&record.keyspace) {
            Some(keyspace) => item.text("keyspace", &keyspace.name),
            None => item.number("keyspace-id", record.keyspace.0.into()),
        };
        let item = item.bytes("key", record.key);
        let item = self.output.with_value(item, record.kind, record.value);
        self.output.give_counted(item)
    }

    /// A table with its age and limits.
    fn placed(&self, item: DumpItem, number: TableId, age: Age, meta: &TableMeta) -> DumpItem {
        let item = item.text("table", FileName::Table(number).name());
        with_meta(&self.output, item.number("age", age.0), meta)
    }
}
