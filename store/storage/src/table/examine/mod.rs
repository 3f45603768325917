//! Looks at a table part by part, whatever state it is in: for verify, dump and repair.
//!
//! [`examine`] verifies footer, properties, index, filter and every data block separately, and
//! reports to a [`TableVisitor`] what it finds, in the order of the bytes. Damage is reported and
//! not returned: the bytes behind it are still looked at. If the footer or the index is broken,
//! blocks are found by their own checksums: they lie end to end, and a block ends where the running
//! checksum equals the next four bytes.
//!
//! The other modules of `table` decode. Nothing panics. Its memory is one window, the index and the
//! filter. A failed read is damage too: a bad sector must not hide the rest.

mod pass;
mod source;
mod tail;

use super::footer::{FOOTER_BYTES, Footer, Properties};
use super::packing::NEEDS_ZSTD;
use super::zstd;
use super::{Codec, TableMeta};
use crate::vfs::File;
use crate::{EntryRef, TableId};
use pass::Pass;
use source::Source;
use std::ops::{ControlFlow, Range};
use tail::Tail;

/// A part of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TablePart {
    /// The last 56 bytes.
    Footer,
    /// Numbers and limits.
    Properties,
    /// The block index.
    Index,
    /// The filter.
    Filter,
    /// The dictionary with which the blocks were packed.
    Dictionary,
    /// The data block of this ordinal.
    Block(usize),
    /// All of it.
    Whole,
}

impl std::fmt::Display for TablePart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TablePart::Footer => f.write_str("footer"),
            TablePart::Properties => f.write_str("properties"),
            TablePart::Index => f.write_str("index"),
            TablePart::Filter => f.write_str("filter"),
            TablePart::Dictionary => f.write_str("dictionary"),
            TablePart::Block(ordinal) => write!(f, "block {ordinal}"),
            TablePart::Whole => f.write_str("table"),
        }
    }
}

/// A stretch of a table that does not verify.
#[derive(Clone, Debug)]
pub struct TableDamage {
    /// The part that these bytes should have been.
    pub part: TablePart,
    /// The stretch, from the table's start.
    pub place: Range<u64>,
    /// What is wrong.
    pub what: String,
    /// Records with keys at or above this one may be lost; `None`: from the least key on.
    pub keys_from: Option<Vec<u8>>,
    /// Records with keys at or below this one may be lost; `None`: up to the greatest key.
    pub keys_to: Option<Vec<u8>>,
    /// Whether records are lost, and not only a way to find them.
    pub loses_records: bool,
    /// The bytes that follow may have older versions of a lost key.
    pub continues: bool,
}

/// A data block that verified.
#[derive(Clone, Debug)]
pub struct BlockFacts<'a> {
    /// Its number.
    pub ordinal: usize,
    /// The stretch, from the table's start, with the trailer.
    pub place: Range<u64>,
    /// How it is stored.
    pub codec: Codec,
    /// Bytes after decompression.
    pub payload_bytes: usize,
    /// Its restart points.
    pub restarts: usize,
    /// The index's separator; `None` if there is no index.
    pub separator: Option<&'a [u8]>,
}

/// What the end of a table says.
#[derive(Clone, Debug, Default)]
pub struct TableFacts {
    /// Stored lengths of data, dictionary, filter, index and properties, if the footer verifies.
    pub lens: Option<[u64; 5]>,
    /// Numbers, limits and checksum as the manifest should have them, if everything that they need
    /// verifies.
    pub meta: Option<TableMeta>,
    /// The number of data blocks, and the codec that was asked for, if the properties verify.
    pub blocks: Option<(u64, Codec)>,
}

/// Gets the findings of [`examine`].
pub trait TableVisitor {
    /// Called once, after the parts behind the data have been read.
    fn facts(&mut self, _facts: &TableFacts) {}
    /// Called for a block, before its records.
    fn block(&mut self, _facts: &BlockFacts<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    /// Called for a record of block `ordinal`.
    fn entry(&mut self, _ordinal: usize, _entry: EntryRef<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    /// Called for a stretch that does not verify.
    fn damage(&mut self, damage: TableDamage);
}

/// The amounts that were read.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// The number of data blocks that verified.
    pub blocks: u64,
    /// The number of records in these blocks.
    pub records: u64,
    /// Whether anything did not verify.
    pub damaged: bool,
}

/// Identity and length of the table with this footer, if it verifies. For a table that was found
/// without knowing what it is.
pub fn identify_footer(bytes: &[u8]) -> Option<(TableId, u64)> {
    Footer::identify(bytes.try_into().ok()?)
}

/// The feature that this build lacks to read the table `id` at `[offset, offset + len)` of `file`,
/// if it can be told. Such a table does not open. [`examine`] counts the records of its compressed
/// blocks as lost, and calls it sound if it has no compressed blocks.
pub fn lacks_for(file: &dyn File, offset: u64, len: u64, id: TableId) -> Option<&'static str> {
    let mut bytes = [0; FOOTER_BYTES];
    let at = offset.checked_add(len)?.checked_sub(FOOTER_BYTES as u64)?;
    if zstd::IS_THERE || crate::vfs::read_exact_at(file, &mut bytes, at).is_err() {
        return None;
    }
    let footer = Footer::decode(&bytes, id, len).ok()?;
    footer.is_zstd.then_some(NEEDS_ZSTD.0)
}

/// Bytes of a footer, for [`identify_footer`]; its last 8 are [`FOOTER_MAGIC`].
pub const FOOTER_LEN: usize = FOOTER_BYTES;

/// The end of every footer.
pub const FOOTER_MAGIC: [u8; 8] = super::footer::MAGIC.to_le_bytes();

/// Reads the table `id` at `[offset, offset + len)` of `file`, and reports everything about it to
/// `visitor`.
pub fn examine(
    file: &dyn File,
    offset: u64,
    len: u64,
    id: TableId,
    visitor: &mut dyn TableVisitor,
) -> Examined {
    let mut source = Source {
        file,
        offset,
        len,
        window: Vec::new(),
        start: 0,
        cipher: None,
    };
    let mut teller = Teller {
        visitor,
        damaged: false,
    };
    let tail = Tail::read(&mut source, id, &mut teller);
    teller.visitor.facts(&tail.facts);
    let mut pass = Pass {
        id,
        tail: &tail,
        teller,
        seen: Properties::default(),
        last: None,
        done: Examined::default(),
    };
    let stopped = pass.run(&mut source).is_break();
    if !stopped {
        pass.sum_up(len);
    }
    Examined {
        damaged: pass.teller.damaged,
        ..pass.done
    }
}

/// The visitor, and whether damage was reported to it.
struct Teller<'v> {
    visitor: &'v mut dyn TableVisitor,
    damaged: bool,
}

impl Teller<'_> {
    fn damage(&mut self, damage: TableDamage) {
        self.damaged = true;
        self.visitor.damage(damage);
    }

    /// Damage of a part that leads to data but holds none.
    fn part(&mut self, part: TablePart, place: Range<u64>, what: impl Into<String>) {
        self.damage(TableDamage {
            part,
            place,
            what: what.into(),
            keys_from: None,
            keys_to: None,
            loses_records: false,
            continues: false,
        });
    }
}

#[cfg(test)]
mod tests;
