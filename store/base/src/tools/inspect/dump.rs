//! Items for the caller of a dump, up to a limit; and the frames of a log as items.

use super::item::{DumpItem, DumpOptions};
use evendb_storage::framed_log::{FrameCodec, HEADER_BYTES, Surveyed, header_id_in, survey_frames};
use evendb_storage::vfs::File;
use evendb_storage::{Apart, Kind, Result, Version, operands};
use std::ops::ControlFlow;

/// How the engine says what records have.
#[derive(Clone, Copy)]
pub struct DumpWords {
    /// Adds the field of this name, with a version.
    pub version: fn(DumpItem, &'static str, Version) -> DumpItem,
    /// The name of the value file of this number.
    pub value_file: fn(u64) -> String,
}

/// Gives items to the caller, and ends with the limit of its options.
pub struct DumpOutput<'d> {
    words: DumpWords,
    keys_only: bool,
    /// The number of counted items that may still come.
    left: u64,
    each: &'d mut dyn FnMut(DumpItem) -> ControlFlow<()>,
}

impl<'d> DumpOutput<'d> {
    /// An output to `each`.
    pub fn new(
        words: DumpWords,
        options: &DumpOptions,
        each: &'d mut dyn FnMut(DumpItem) -> ControlFlow<()>,
    ) -> DumpOutput<'d> {
        DumpOutput {
            words,
            keys_only: options.keys_only,
            left: options.limit.unwrap_or(u64::MAX),
            each,
        }
    }

    /// Gives an item.
    pub fn give(&mut self, item: DumpItem) -> ControlFlow<()> {
        (self.each)(item)
    }

    /// Gives an item that counts towards the limit.
    pub fn give_counted(&mut self, item: DumpItem) -> ControlFlow<()> {
        if self.is_full() {
            return ControlFlow::Break(());
        }
        self.left -= 1;
        self.give(item)
    }

    /// Whether no counted item may come.
    pub fn is_full(&self) -> bool {
        self.left == 0
    }

    /// The item with a version.
    pub fn with_version(&self, item: DumpItem, name: &'static str, version: Version) -> DumpItem {
        (self.words.version)(item, name, version)
    }

    /// The item with the value of a record of this kind, unless values are left out.
    pub fn with_value(&self, item: DumpItem, kind: Kind, value: &[u8]) -> DumpItem {
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
                    .text("value-file", (self.words.value_file)(apart.file))
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

/// A part of a framed log that is dumped.
pub enum FramesPart<'a> {
    /// What is no frame, as an item.
    Item(DumpItem),
    /// A frame: its offset and bytes in the file, and its payload.
    Frame((u64, u64), &'a [u8]),
}

/// Gives `each` the parts of log `id` in `file` until it stops: the header, the frames, and the
/// bytes between them. Items have this depth.
pub fn dump_frames(
    file: &dyn File,
    id: u64,
    depth: usize,
    each: &mut dyn FnMut(FramesPart<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    let header = match header_id_in(file) {
        Ok(id) => DumpItem::new("header", depth)
            .at(0, HEADER_BYTES)
            .number("log-id", id),
        Err(what) => DumpItem::damage(depth, 0, HEADER_BYTES, what),
    };
    let mut flow = each(FramesPart::Item(header));
    survey_frames(file, &FrameCodec::new(file, id), &mut |found| {
        if flow.is_break() {
            return;
        }
        flow = each(match found {
            Surveyed::Frame {
                offset,
                len,
                payload,
            } => FramesPart::Frame((offset, len), payload),
            Surveyed::Hole {
                offset,
                used: 0,
                len,
            } => FramesPart::Item(DumpItem::new("room", depth).at(offset, len)),
            Surveyed::Hole { offset, used, .. } => {
                let what = "no frame verifies here";
                FramesPart::Item(DumpItem::damage(depth, offset, used, what))
            }
        });
    })?;
    Ok(flow)
}
