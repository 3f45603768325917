//! `dump`: the manifest, edit by edit, and what its changes say of parts and range deletions.
//!
//! Thread safety: none, one thread dumps. Not here: the forms of edits ([`edit`]).

use super::super::{DumpItem, tables};
use super::{Dumper, not_found, shown_version, with_meta};
use crate::error::Result;
use crate::files::CURRENT;
use crate::manifest::edit::{self, Change, CoverRecord, Part, Role};
use crate::manifest::writer::manifest_path;
use evendb_storage::Error as StorageError;
use evendb_storage::framed_log::{self, FrameCodec, header_id_in, survey_frames};
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

    pub(super) fn cover(&mut self, cover: &CoverRecord, depth: usize) -> ControlFlow<()> {
        let item = DumpItem::new("range-deletion", depth)
            .text("version", shown_version(cover.version))
            .bytes("low", &cover.low);
        self.give(match &cover.high {
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
        };
        let item = item
            .number("epoch", part.epoch)
            .number("checkpoint", part.checkpoint);
        self.give(with_meta(item, &part.meta))
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
