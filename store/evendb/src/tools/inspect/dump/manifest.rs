//! `dump`: the manifest, edit by edit, and what its changes say of parts and range deletions.
//!
//! Thread safety: none, one thread dumps. Not here: the forms of edits ([`edit`]).

use super::super::{DumpItem, tables};
use super::{Dumper, not_found};
use crate::error::Result;
use crate::files::CURRENT;
use crate::manifest::edit::{self, Change, CoverRecord, Part, Role};
use crate::manifest::writer::manifest_path;
use evendb_base::inspect::{FramesPart, dump_frames, with_meta};
use evendb_storage::Error as StorageError;
use std::ops::ControlFlow;

impl Dumper<'_> {
    pub(super) fn manifest(&mut self) -> Result<ControlFlow<()>> {
        let id = self.loaded.manifest;
        let id = id.ok_or_else(|| {
            let path = self.directory.dir.join(CURRENT);
            StorageError::corruption(&path, 0, "no manifest can be read")
        })?;
        let path = manifest_path(&self.directory.dir, id);
        let (file, _) = self.directory.open_file(&path).map_err(not_found)?;
        let flow = dump_frames(&*file, id, 0, &mut |part| match part {
            FramesPart::Item(item) => self.output.give(item),
            FramesPart::Frame((offset, len), payload) => self.edit(offset, len, payload),
        })?;
        Ok(flow)
    }

    fn edit(&mut self, offset: u64, len: u64, payload: &[u8]) -> ControlFlow<()> {
        let count = edit::changes(payload).try_fold(0, |count, change| change.map(|_| count + 1));
        let Some(count) = count else {
            let what = "the edit cannot be decoded";
            return self.output.give(DumpItem::damage(0, offset, len, what));
        };
        let edit = DumpItem::new("edit", 0).at(offset, len);
        self.output.give(edit.number("changes", count))?;
        let mut changes = edit::changes(payload).flatten();
        changes.try_for_each(|change| self.change(&change))
    }

    fn change(&mut self, change: &Change) -> ControlFlow<()> {
        self.output.give_counted(change_item(change))?;
        let (parts, covers) = match change {
            Change::SetChunk(chunk) => (&chunk.parts[..], &chunk.covers[..]),
            Change::AddParts { parts, .. } => (&parts[..], &[][..]),
            Change::AddCovers { covers, .. } => (&[][..], &covers[..]),
            _ => return ControlFlow::Continue(()),
        };
        parts.iter().try_for_each(|part| self.part(part, 2))?;
        covers.iter().try_for_each(|cover| self.cover(cover, 2))
    }

    pub(super) fn cover(&mut self, cover: &CoverRecord, depth: usize) -> ControlFlow<()> {
        let item = DumpItem::new("range-deletion", depth);
        let item = self.output.with_version(item, "version", cover.version);
        let item = item.bytes("low", &cover.low);
        self.output.give(match &cover.high {
            Some(high) => item.bytes("high", high),
            None => item.text("high", "end of the chunk"),
        })
    }

    pub(super) fn part(&mut self, part: &Part, depth: usize) -> ControlFlow<()> {
        let item = DumpItem::new("part", depth)
            .text("table", format!("{:016x}", part.table.0))
            .text("file", tables::file_name(part))
            .number("offset", tables::start(part));
        let item = match part.role {
            Role::Base => item.text("role", "base"),
            Role::Run { ordinal } => item.text("role", "run").number("ordinal", ordinal.into()),
            Role::Fragment { level, age } => item
                .text("role", "fragment")
                .number("level", level.0.into())
                .number("age", age.0),
        };
        let item = item
            .number("epoch", part.epoch)
            .number("checkpoint", part.checkpoint);
        let item = with_meta(&self.output, item, &part.meta);
        self.output.give(item)
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
        Change::RenameKeyspace { id, name } => {
            let item = item("rename-keyspace").number("id", id.0.into());
            item.text("name", name)
        }
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
        Change::EditFragments { id, gone, .. } => {
            let gone = gone.iter().map(|table| format!("{:016x}", table.0));
            let item = item("edit-fragments").number("chunk", id.0);
            item.text("gone", gone.collect::<Vec<_>>().join(" "))
        }
        Change::Container { number } => item("container").number("number", *number),
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
