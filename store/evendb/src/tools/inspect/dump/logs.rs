//! `dump`: the commit log, and the changes that are kept beyond it.
//!
//! Thread safety: none, one thread dumps. Not here: where records end ([`commit_log::survey`]).

use super::super::DumpItem;
use super::{Dumper, not_found};
use crate::commit_log::{self, Surveyed};
use crate::error::Result;
use crate::files::COMMIT_LOG;
use crate::kept_changes::{self, KeptItem};
use crate::manifest::epochs::segments;
use crate::op::OpKind;
use crate::payload::{self, Decoded, DecodedOp};
use crate::value_extents;
use evendb_storage::Error as StorageError;
use evendb_storage::framed_log::{self, FrameCodec, survey_frames};
use std::ops::ControlFlow;

impl Dumper<'_> {
    pub(super) fn commit_log(&mut self) -> Result<ControlFlow<()>> {
        let state = &self.loaded.state;
        if state.ring_bytes == 0 && self.loaded.edits_lost {
            // Only the manifest knows where the log begins and how its records are sealed.
            return Ok(self
                .output
                .give(DumpItem::damage(0, 0, 0, "the manifest cannot be read")));
        }
        if state.ring_bytes == 0 {
            let item = DumpItem::new("commit-log", 0).text("what", "there is none");
            return Ok(self.output.give(item));
        }
        let head = DumpItem::new("commit-log", 0)
            .number("capacity", state.ring_bytes)
            .number("replay-from", state.replay_from.0)
            .number("last-checkpoint", state.completed);
        if self.output.give(head).is_break() {
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
            flow = self
                .output
                .give(DumpItem::damage(0, 0, capacity, error.to_string()));
        }
        Ok(flow)
    }

    fn log_stretch(&mut self, found: Surveyed<'_>, capacity: u64) -> ControlFlow<()> {
        match found {
            Surveyed::Filler { lsn, end } => self.output.give(
                DumpItem::new("filler", 0)
                    .at(lsn.0 % capacity, end.0.saturating_sub(lsn.0))
                    .number("lsn", lsn.0),
            ),
            Surveyed::Hole { lsn, end, .. } => {
                let what = "nothing verifies here, but the log goes on behind";
                let item = DumpItem::damage(0, lsn.0 % capacity, end.0.saturating_sub(lsn.0), what);
                self.output.give(item.number("lsn", lsn.0))
            }
            Surveyed::End { lsn, torn, .. } => {
                let what = match torn {
                    Some(_) => "the log ends at a record that does not verify",
                    None => "the log ends",
                };
                let item = DumpItem::new("end", 0).at(lsn.0 % capacity, 0);
                self.output
                    .give(item.text("what", what).number("lsn", lsn.0))
            }
            Surveyed::Record {
                record,
                epoch,
                beyond,
            } => {
                let item = DumpItem::new("log-record", 0)
                    .at(record.lsn.0 % capacity, record.end.0 - record.lsn.0)
                    .number("lsn", record.lsn.0)
                    .number("epoch", epoch);
                let item = self.output.with_version(item, "version", record.version);
                let item = item
                    .number("tail", record.tail.0)
                    .number("durable", record.durable.0);
                let item = match beyond {
                    true => item.text("note", "behind a hole: opening does not read it"),
                    false => item,
                };
                match payload::decode(record.payload) {
                    None => self
                        .output
                        .give_counted(item.text("note", "makes no sense")),
                    Some(Decoded::Extent(name)) => self.output.give_counted(
                        item.text("value-extent", value_extents::file_name(name.id))
                            .number("value-extent-bytes", name.len)
                            .number("value-extent-synced-first", name.is_synced.into())
                            .text("checksum", format!("{:08x}", name.checksum)),
                    ),
                    Some(Decoded::Inline(ops)) => {
                        self.output
                            .give_counted(item.number("operations", ops.len() as u64))?;
                        ops.iter().try_for_each(|op| self.operation(op))
                    }
                }
            }
        }
    }

    pub(super) fn kept_changes(&mut self) -> Result<ControlFlow<()>> {
        let directory = self.directory;
        let of = |name: &String| Some((kept_changes::file_id(name)?, name.clone()));
        let mut files: Vec<(u64, String)> = directory.names.iter().filter_map(of).collect();
        files.sort();
        if files.is_empty() {
            let item = DumpItem::new("kept-changes", 0).text("what", "there are none");
            return Ok(self.output.give(item));
        }
        for (id, name) in files {
            let path = directory.dir.join(&name);
            let codec = FrameCodec::of(directory.vfs.secrets(), &path, id);
            let (file, len) = directory.open_file(&path).map_err(not_found)?;
            let mut flow = self
                .output
                .give(DumpItem::new("kept-changes", 0).text("file", name));
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
                return self.output.give(DumpItem::new("room", 1).at(offset, len));
            }
            framed_log::Surveyed::Hole { offset, len, .. } => {
                return self.output.give(DumpItem::damage(
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
                return self.output.give(item.number("file-before", previous));
            }
            Some(KeptItem::Record(frame)) => frame,
            None => {
                return self.output.give(DumpItem::damage(
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
            .number("epoch", frame.epoch);
        let item = self.output.with_version(item, "version", frame.version);
        if frame.operations.is_empty() {
            return self
                .output
                .give_counted(item.text("note", "the rest of a lap of the commit log"));
        }
        match payload::decode_ops(&frame.operations) {
            None => self.output.give(DumpItem::damage(
                1,
                offset,
                len,
                "the kept change makes no sense",
            )),
            Some(ops) => {
                self.output
                    .give_counted(item.number("operations", ops.len() as u64))?;
                ops.iter().try_for_each(|op| self.operation(op))
            }
        }
    }

    fn operation(&mut self, op: &DecodedOp<'_>) -> ControlFlow<()> {
        let kind = match op.kind {
            OpKind::One(kind) => kind.name(),
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
            OpKind::One(kind) => {
                let item = item.bytes("key", op.key);
                self.output.with_value(item, kind, op.value)
            }
        };
        self.output.give(item)
    }
}
