//! [`EntryCursor`]: a position among sorted records, in both directions. Memory tables, tables,
//! guards and merges of them all have one.
//!
//! * `merge` - several cursors as one.
//! * `chain` - sources that lie one behind the other, opened when the cursor gets there.
//! * `level` - the cursors of runs, guards and levels of a tree, made from `merge` and `chain`.

mod chain;
pub(crate) mod level;
mod merge;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use merge::MergeCursor;

use evendb_storage::table::{TableCursor, Target};
use evendb_storage::{EntryRef, Result};

/// A position among records in the order of tables: keys ascending, versions of a key descending.
/// It is on no record at first, and after an error.
pub(crate) trait EntryCursor: Send {
    /// Whether it is on a record.
    fn valid(&self) -> bool;
    /// Prepares a seek, which has to be the next move: finds the first block that the seek will
    /// read, and enters it in `reads`. The cursor is on no record until then. Without this call a
    /// seek finds the same record.
    fn aim(&mut self, target: Target<'_>, reads: &mut Reads) -> Result<()> {
        let _ = (target, reads);
        Ok(())
    }
    /// Seeks.
    fn seek_to(&mut self, target: Target<'_>) -> Result<()> {
        match target {
            Target::From(key) => self.seek(key),
            Target::Before(key) => self.seek_before(key),
            Target::First => self.seek_first(),
            Target::Last => self.seek_last(),
        }
    }
    /// To the first record with key `>= key`.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// To the last record with key `< key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;
    /// To the first record.
    fn seek_first(&mut self) -> Result<()>;
    /// To the last record.
    fn seek_last(&mut self) -> Result<()>;
    /// Moves to the next record. A cursor that is on no record stays there.
    fn next(&mut self) -> Result<()>;
    /// Moves to the previous record. A cursor that is on no record stays there.
    fn prev(&mut self) -> Result<()>;
    /// The record that the cursor is on. Panics if it is on none.
    fn entry(&self) -> EntryRef<'_>;
}

/// The blocks that a seek will read, in the order in which it reads them. The system is told about
/// all of them except the first, so that it reads them side by side. The seek asks for the first
/// one at once.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    has_first: bool,
}

impl Reads {
    /// Enters another block. Returns whether the system is to be told about it.
    fn enter(&mut self) -> bool {
        std::mem::replace(&mut self.has_first, true)
    }
}

impl EntryCursor for TableCursor {
    fn valid(&self) -> bool {
        TableCursor::valid(self)
    }
    fn aim(&mut self, target: Target<'_>, reads: &mut Reads) -> Result<()> {
        if TableCursor::aim(self, target) && reads.enter() {
            self.will_need_aimed();
        }
        Ok(())
    }
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        TableCursor::seek(self, key)
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        TableCursor::seek_before(self, key)
    }
    fn seek_first(&mut self) -> Result<()> {
        TableCursor::seek_first(self)
    }
    fn seek_last(&mut self) -> Result<()> {
        TableCursor::seek_last(self)
    }
    fn next(&mut self) -> Result<()> {
        TableCursor::next(self)
    }
    fn prev(&mut self) -> Result<()> {
        TableCursor::prev(self)
    }
    fn entry(&self) -> EntryRef<'_> {
        TableCursor::entry(self)
    }
}
