//! Building pages: [`EntryBuffer`] gathers encoded records, [`ImageBuilder`] cuts them into pages.

use super::super::separators::shortest_separator;
use super::Image;
use super::directory::DirectoryBuilder;
use super::page::{OLDER, Page, PageArc, PageRecords, VERSIONED, flags_of, kind_of, tag_of};
use crate::memory::Ledger;
use evendb_storage::{EntryRef, Kind, Version, key_hash::RamHash};
use std::ops::Range;

/// A scratch above this size is given back once a page is made.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// Records encoded as in a page but not yet cut into pages.
#[derive(Default)]
pub(super) struct EntryBuffer {
    tags: Vec<u8>,
    starts: Vec<usize>,
    records: Vec<u8>,
    scratch: Vec<u8>,
    /// The ledger to which the pages are charged.
    ledger: Ledger,
}

impl EntryBuffer {
    pub(super) fn new(ledger: Ledger) -> EntryBuffer {
        EntryBuffer {
            ledger,
            ..EntryBuffer::default()
        }
    }

    pub(super) fn ledger(&self) -> Ledger {
        self.ledger
    }

    pub(super) fn len(&self) -> usize {
        self.tags.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// Length of a page of all records.
    pub(super) fn page_length(&self) -> usize {
        Page::length(self.len(), self.records.len())
    }

    /// Length of a page of all records and one more.
    fn page_length_with(&self, entry: &EntryRef<'_>) -> usize {
        let more = 11 + entry.key.len() + entry.value.len();
        Page::length(self.len() + 1, self.records.len() + more)
    }

    /// Appends a record; `older` if the record before has the same key.
    pub(super) fn push(&mut self, entry: &EntryRef<'_>, tag: u8, older: bool) {
        let key = if older { &[][..] } else { entry.key };
        let key_len = u16::try_from(key.len()).expect("keys have at most 65,535 bytes");
        let mut flags = if older { OLDER } else { 0 };
        flags |= flags_of(entry.kind);
        if entry.version != Version::ZERO {
            flags |= VERSIONED;
        }
        self.tags.push(tag);
        self.starts.push(self.records.len());
        self.records.push(flags);
        self.records.extend_from_slice(&key_len.to_le_bytes());
        if entry.version != Version::ZERO {
            self.records
                .extend_from_slice(&entry.version.0.to_le_bytes());
        }
        self.records.extend_from_slice(key);
        self.records.extend_from_slice(entry.value);
    }

    /// Appends records `range` of `page` without changes.
    pub(super) fn push_run(&mut self, page: &Page, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let first = page.start(range.start);
        let base = self.records.len();
        self.records
            .extend_from_slice(&page.bytes()[first..page.end(range.end - 1)]);
        for index in range {
            self.tags.push(page.tag(index));
            self.starts.push(base + page.start(index) - first);
        }
    }

    fn start(&self, index: usize) -> usize {
        self.starts
            .get(index)
            .copied()
            .unwrap_or(self.records.len())
    }

    fn is_older(&self, index: usize) -> bool {
        index < self.len() && self.records[self.starts[index]] & OLDER != 0
    }

    /// The key of record `index`, found at the newest version before it.
    fn key(&self, mut index: usize) -> &[u8] {
        while self.is_older(index) {
            index -= 1;
        }
        let start = self.starts[index];
        let record = &self.records[start..];
        let key_len = usize::from(u16::from_le_bytes([record[1], record[2]]));
        let key_start = head_bytes(record[0]);
        &record[key_start..key_start + key_len]
    }

    /// A key above the keys of all records and not above `next`, which follows them.
    pub(super) fn separator_before(&self, next: &[u8]) -> Vec<u8> {
        shortest_separator(self.key(self.len() - 1), next).to_vec()
    }

    /// A page of records `range`.
    fn page(&mut self, range: Range<usize>) -> PageArc {
        let (mut deletes, mut others, mut data_bytes) = (0, false, 0);
        for index in range.clone() {
            let start = self.starts[index];
            let flags = self.records[start];
            let kind = kind_of(flags);
            deletes += usize::from(kind.is_tombstone());
            others |= kind == Kind::Merge;
            data_bytes += self.start(index + 1) - start - head_bytes(flags);
        }
        let bytes = self.start(range.start)..self.start(range.end);
        let records = PageRecords {
            tags: &self.tags[range.clone()],
            starts: &self.starts[range],
            bytes: &self.records[bytes],
            deletes,
            others,
            data_bytes,
        };
        let page = Page::build(&records, self.ledger, &mut self.scratch);
        if self.scratch.capacity() > SCRATCH_BYTES_MAX {
            self.scratch = Vec::new();
        }
        page
    }

    /// One page of all records.
    pub(super) fn into_page(mut self) -> PageArc {
        self.page(0..self.len())
    }

    fn clear(&mut self) {
        self.tags.clear();
        self.starts.clear();
        if self.records.capacity() > SCRATCH_BYTES_MAX {
            self.records = Vec::new();
        }
        self.records.clear();
    }

    /// Cuts all records into even pages of at most `page_bytes` bytes, as few as possible, and
    /// hands them to `out`; `separator` is the lower bound of the first.
    pub(super) fn flush(
        &mut self,
        page_bytes: usize,
        separator: &[u8],
        out: &mut DirectoryBuilder,
    ) {
        let part_bytes = self
            .records
            .len()
            .div_ceil(self.page_length().div_ceil(page_bytes).max(1));
        let (mut from, mut next) = (0, 0);
        while next < self.len() {
            let begin = next;
            next += 1;
            while self.is_older(next) {
                next += 1;
            }
            let so_far = self.start(begin) - self.start(from);
            let with = self.start(next) - self.start(from);
            // Even parts: cut at the boundary that is nearer to the size of a part.
            let uneven = so_far + (with - so_far) / 2 >= part_bytes;
            if begin > from && (uneven || Page::length(next - from, with) > page_bytes) {
                self.flush_part(from..begin, separator, out);
                from = begin;
            }
        }
        if from < self.len() {
            self.flush_part(from..self.len(), separator, out);
        }
        self.clear();
    }

    fn flush_part(&mut self, range: Range<usize>, first: &[u8], out: &mut DirectoryBuilder) {
        let page = self.page(range.clone());
        if range.start == 0 {
            out.push(page, first);
        } else {
            let separator = shortest_separator(self.key(range.start - 1), self.key(range.start));
            out.push(page, separator);
        }
    }
}

/// Bytes of a record before its key.
fn head_bytes(flags: u8) -> usize {
    if flags & VERSIONED != 0 { 11 } else { 3 }
}

/// Makes an image of records in order (key ascending, version descending).
pub(crate) struct ImageBuilder {
    page_bytes: usize,
    buffer: EntryBuffer,
    /// Key of the last record, if there is one.
    last: Option<Vec<u8>>,
    last_tag: u8,
    /// Lower bound of the records in the buffer.
    separator: Vec<u8>,
    out: DirectoryBuilder,
}

impl ImageBuilder {
    pub(crate) fn new(page_bytes: usize, ledger: Ledger) -> ImageBuilder {
        ImageBuilder {
            page_bytes: page_bytes.max(1),
            buffer: EntryBuffer::new(ledger),
            last: None,
            last_tag: 0,
            separator: Vec::new(),
            out: DirectoryBuilder::default(),
        }
    }

    /// Appends a record; it must follow the last one in order.
    pub(crate) fn add(&mut self, entry: EntryRef<'_>) {
        let older = self.last.as_deref() == Some(entry.key);
        if !older {
            self.begin_key(&entry);
        }
        self.buffer.push(&entry, self.last_tag, older);
    }

    fn begin_key(&mut self, entry: &EntryRef<'_>) {
        let full = self.buffer.page_length_with(entry) > self.page_bytes;
        let last = self.last.get_or_insert_default();
        if !self.buffer.is_empty() {
            debug_assert!(last.as_slice() < entry.key, "records out of order");
            if full {
                let page = self.buffer.page(0..self.buffer.len());
                self.out.push(page, &self.separator);
                self.buffer.clear();
                self.separator.clear();
                self.separator
                    .extend_from_slice(shortest_separator(last, entry.key));
            }
        }
        last.clear();
        last.extend_from_slice(entry.key);
        self.last_tag = tag_of(RamHash::of(entry.key));
    }

    #[cfg(test)]
    /// If the complete pages have at least `bytes` bytes, an image of them, and the lower bound of
    /// the rest, which becomes an image of its own.
    pub(crate) fn take_complete(&mut self, bytes: usize) -> Option<(Image, &[u8])> {
        if self.out.page_bytes() < bytes {
            return None;
        }
        let complete = std::mem::take(&mut self.out);
        Some((self.image_of(complete), &self.separator))
    }

    fn image_of(&self, pages: DirectoryBuilder) -> Image {
        Image {
            directory: pages.finish(self.buffer.ledger()),
            page_bytes: self.page_bytes,
        }
    }

    pub(crate) fn finish(mut self) -> Image {
        if !self.buffer.is_empty() {
            let page = self.buffer.page(0..self.buffer.len());
            self.out.push(page, &self.separator);
        }
        let pages = std::mem::take(&mut self.out);
        self.image_of(pages)
    }
}
