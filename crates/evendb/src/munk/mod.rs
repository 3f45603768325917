//! The munk: the image of a chunk's records in RAM, up to some completed checkpoint.
//!
//! ```text
//!   Munk -> Directory   heads      [ u64 | u64 | ... ]   8 bytes of each separator, contiguous
//!                       separators [ bytes ... ]         full separators, for ties only
//!                       pages      [ Arc | Arc | ... ] -> Page, about 8 KiB, one allocation
//! ```
//!
//! Immutable: puts go to deltas, and [`Munk::absorb`] makes a new munk that shares all pages but
//! those it had to rebuild. A get costs a search of the directory (a few KiB that stay in the
//! cache) and about two dependent cache misses: the page's tags, which have the record's position
//! beside them, and the record.
//!
//! Invariants:
//! * Records are in order (key ascending, version descending); no page is empty; all versions of
//!   a key are in one page.
//! * `separator[i - 1] <= separator[i]`; every key of page `i` is `>= separator[i]` and
//!   `< separator[i + 1]`. The first separator stands for minus infinity.
//! * Pages are no larger than their content, so a half-full page wastes no memory.
//!
//! Thread safety: immutable, so `Send + Sync`; whoever holds an `PageArc` keeps its bytes.
//!
//! Not here: when to load, absorb or evict; deltas; the memory budget (it is told
//! [`Munk::bytes`]). Memory shared by two munks is counted in both.

mod absorb;
mod build;
mod cursor;
mod directory;
mod page;
mod reshape;

#[cfg(test)]
mod tests;

pub(crate) use build::MunkBuilder;
pub(crate) use cursor::{MunkCursor, MunkEntries};
pub(crate) use page::{Page, PageArc};

use crate::visibility::Candidate;
use directory::Directory;
use evendb_storage::{EntryRef, Kind, Version};
use std::{fmt, ops::Range};

/// Target size of a page: 8 KiB keep the tags of a page within a few cache lines and make
/// rebuilding one a matter of microseconds.
pub(crate) const PAGE_BYTES: usize = 8 * 1024;

/// Records in order (key ascending, version descending); `current` is `None` at the end.
/// A source is in RAM: no errors.
pub(crate) trait MunkInput {
    /// The record it is on.
    fn current(&self) -> Option<EntryRef<'_>>;
    /// To the next record.
    fn advance(&mut self);
}

/// A record found: its value is `page.bytes()[value]`.
#[derive(Clone)]
pub(crate) struct MunkHit<'a> {
    pub(crate) page: &'a PageArc,
    #[cfg(test)]
    pub(crate) version: Version,
    pub(crate) kind: Kind,
    pub(crate) value: Range<usize>,
}

#[cfg(any(test, feature = "bench-parts"))]
impl<'a> MunkHit<'a> {
    /// The value's bytes.
    pub(crate) fn value_bytes(&self) -> &'a [u8] {
        &self.page.bytes()[self.value.clone()]
    }
}

/// See the module. A clone shares all pages.
#[derive(Clone)]
pub(crate) struct Munk {
    directory: Directory,
    page_bytes: usize,
}

impl Munk {
    /// The newest record of `key` (whose hash is `hash`) with a version `<= at`; a tombstone is a
    /// hit of [`Kind::Delete`].
    pub(crate) fn get(&self, key: &[u8], hash: u64, at: Version) -> Option<MunkHit<'_>> {
        let page = self.directory.pages().get(self.directory.find(key))?;
        let head = page.find(key, page::tag_of(hash))?;
        page.newest_at(head, at)
            .map(|record| MunkHit::new(page, &record))
    }

    /// Memory held, directory and allocation headers included.
    pub(crate) fn bytes(&self) -> usize {
        self.directory.memory_bytes()
    }

    /// Bytes of keys and values; a key counts once however many versions it has.
    pub(crate) fn data_bytes(&self) -> usize {
        self.directory.totals().data_bytes
    }

    /// Records, all versions and tombstones counted.
    pub(crate) fn entries(&self) -> usize {
        self.directory.totals().entries
    }

    /// Tombstones among the records.
    pub(crate) fn deletes(&self) -> usize {
        self.directory.totals().deletes
    }

    /// An unpositioned cursor over distinct keys.
    pub(crate) fn cursor(&self) -> MunkCursor<'_> {
        MunkCursor::new(&self.directory)
    }

    /// All records, all versions, from the first key `>= key` (or from the start) on.
    pub(crate) fn entries_from(&self, key: Option<&[u8]>) -> MunkEntries<'_> {
        MunkEntries::new(&self.directory, key)
    }
}

impl<'a> MunkHit<'a> {
    fn new(page: &'a PageArc, record: &page::RecordLayout) -> MunkHit<'a> {
        MunkHit {
            page,
            #[cfg(test)]
            version: record.version,
            kind: record.kind,
            value: record.value.clone(),
        }
    }
}

impl Candidate for MunkHit<'_> {
    #[inline]
    fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Debug for Munk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Munk")
            .field("pages", &self.directory.pages().len())
            .field("entries", &self.entries())
            .field("bytes", &self.bytes())
            .finish()
    }
}
