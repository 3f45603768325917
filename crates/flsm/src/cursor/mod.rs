//! [`EntryCursor`]: a position among sorted records, in both directions. What memory tables, tables, guards and merges
//! of them have in common.
//!
//! * `merge` - several cursors as one.
//! * `chain` - sources that lie one behind the other, opened when the cursor gets there.
//! * `level` - the cursors of runs, guards and levels of a tree, made of these two.

mod chain;
pub(crate) mod level;
mod merge;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use merge::MergeCursor;

use evendb_storage::table::{TableCursor, Target};
use evendb_storage::{EntryRef, Result};

/// A position among records in the order of tables: keys ascending, versions of a key descending. On no record at first, and after an
/// error.
pub(crate) trait EntryCursor: Send {
    /// Whether it is on a record.
    fn valid(&self) -> bool;
    /// Prepares a seek, which has to be the next move: finds out what it reads first, and enters it in `reads`. On no record until then.
    /// Not to be called for its effect: a seek finds the same without it.
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
    /// To the next record. Stays on none if it is.
    fn next(&mut self) -> Result<()>;
    /// To the record before. Stays on none if it is.
    fn prev(&mut self) -> Result<()>;
    /// The record it is on. Panics if on none.
    fn entry(&self) -> EntryRef<'_>;
}

/// The blocks that a seek will read, in the order in which it reads them. The system is told of all but the first, which is asked for at
/// once, so that it reads them side by side.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    has_first: bool,
}

impl Reads {
    /// Another one. Whether the system is to be told.
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
