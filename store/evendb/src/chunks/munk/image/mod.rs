//! The image of a span: its records in RAM, up to a completed checkpoint.
//!
//! ```text
//!   Image -> Directory   separators  of pages, with their heads side by side
//!                        pages       [ Arc | Arc | ... ] -> Page, about 8 KiB, one allocation
//! ```
//!
//! Immutable: puts go to deltas, and [`Image::absorb`] makes a new image that shares all pages
//! except the rebuilt ones. A get costs a search of the directory and about two dependent cache
//! misses: the page's tags, which have the record's position beside them, and the record.
//!
//! Invariants:
//! * Records are in order (key ascending, version descending); no page is empty; all versions of
//!   a key are in one page.
//! * `separator[i - 1] <= separator[i]`; every key of page `i` is `>= separator[i]` and
//!   `< separator[i + 1]`. The first separator stands for minus infinity.
//! * Pages are no larger than their content, so a half-full page wastes no memory.
//!
//! Thread safety: immutable, so `Send + Sync`; a `PageArc` keeps its bytes alive.
//!
//! Not here: to which span it belongs; the memory budget (it is told [`Image::bytes`]). Memory
//! shared by two images is counted in both.

mod absorb;
mod build;
mod cursor;
mod directory;
mod mend;
mod page;
mod reshape;

#[cfg(test)]
pub(super) mod tests;

pub(crate) use build::ImageBuilder;
pub(crate) use cursor::{ImageCursor, ImageEntries};
pub(crate) use mend::Mended;
pub(crate) use page::{Page, PageArc};

use crate::visibility::Candidate;
use directory::Directory;
use evendb_storage::key_hash::RamHash;
use evendb_storage::{EntryRef, Kind, Version};
use std::{fmt, ops::Range};

/// Target size of a page in bytes: with 8 KiB the tags of a page lie within a few cache lines, and
/// a page is rebuilt in microseconds.
pub(crate) const PAGE_BYTES: usize = 8 * 1024;

/// Records in order (key ascending, version descending); `current` is `None` at the end. A source
/// is in RAM, so there are no errors.
pub(crate) trait MunkInput {
    /// The current record.
    fn current(&self) -> Option<EntryRef<'_>>;
    /// Moves to the next record.
    fn advance(&mut self);
}

/// A found record: its value, as it is stored, is `page.bytes()[value]`.
#[derive(Clone)]
pub(crate) struct MunkHit<'a> {
    pub(crate) page: &'a PageArc,
    pub(crate) version: Version,
    pub(crate) kind: Kind,
    pub(crate) value: Range<usize>,
}

#[cfg(test)]
impl<'a> MunkHit<'a> {
    /// The value's bytes.
    pub(crate) fn value_bytes(&self) -> &'a [u8] {
        &self.page.bytes()[self.value.clone()]
    }
}

/// See the module. A clone shares all pages.
#[derive(Clone)]
pub(crate) struct Image {
    directory: Directory,
    page_bytes: usize,
}

impl Image {
    /// The newest record of `key` (whose hash is `hash`) with a version `<= at`; a tombstone is a
    /// hit of [`Kind::Delete`].
    pub(crate) fn get(&self, key: &[u8], hash: RamHash, at: Version) -> Option<MunkHit<'_>> {
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

    /// Whether some record lists operands.
    pub(crate) fn has_others(&self) -> bool {
        self.directory.totals().others
    }

    /// Tombstones among the records.
    pub(crate) fn deletes(&self) -> usize {
        self.directory.totals().deletes
    }

    /// An unpositioned cursor over distinct keys.
    pub(crate) fn cursor(&self) -> ImageCursor<'_> {
        ImageCursor::new(&self.directory)
    }

    /// All records, all versions, from the first key `>= key` (or from the start) on.
    pub(crate) fn entries_from(&self, key: Option<&[u8]>) -> ImageEntries<'_> {
        ImageEntries::new(&self.directory, key)
    }
}

impl<'a> MunkHit<'a> {
    /// The value as the caller put it, within the page's bytes.
    #[inline]
    pub(crate) fn shown(&self) -> Range<usize> {
        self.value.start + self.kind.prefix_bytes()..self.value.end
    }

    fn new(page: &'a PageArc, record: &page::RecordLayout) -> MunkHit<'a> {
        MunkHit {
            page,
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

    #[inline]
    fn version(&self) -> Version {
        self.version
    }

    #[inline]
    fn stored_value(&self) -> &[u8] {
        &self.page.bytes()[self.value.clone()]
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("pages", &self.directory.pages().len())
            .field("entries", &self.entries())
            .field("bytes", &self.bytes())
            .finish()
    }
}
