//! Absorb: a new image from an old one and newer records, page by page.
//!
//! Only pages that newer records fall into are rebuilt. A page that outgrew its size is cut into
//! even parts; a page that became small is joined with the next one if that is rebuilt as well. In
//! a rebuilt page every key loses the versions that no reader can reach (I14).

use super::build::EntryBuffer;
use super::directory::DirectoryBuilder;
use super::page::{OLDER, PUT, tag_of};
use super::{Image, MunkInput, Page};
use crate::folding::{self, Folding, OwnedRecord};
use crate::memory::Ledger;
use crate::version::horizon::Horizon;
use crate::visibility::{Dropping, Fate, KeyVersions};
use evendb_storage::{EntryRef, Kind, Version, key_hash::RamHash};
use std::ops::Range;

impl Image {
    /// This image overlaid by `newer`, whose records are newer than the image's records of their
    /// keys (of two equal versions the one in `newer` wins).
    ///
    /// A version is dropped if `horizon` allows that beneath the next newer version that is kept.
    /// With `drop_tombstones` a tombstone is dropped, too, if no older record of its key is kept
    /// and every reader reads at or above it: the image is the whole truth of its chunk below the
    /// deltas.
    ///
    /// `folding` folds operands with the records that they lie on.
    pub(crate) fn absorb(
        &self,
        newer: &mut dyn MunkInput,
        horizon: &Horizon,
        drop_tombstones: bool,
        folding: Folding<'_>,
    ) -> Image {
        let directory = &self.directory;
        let pages = directory.pages();
        let mut out = DirectoryBuilder::with_capacity(pages.len() + pages.len() / 8 + 1);
        let ledger = directory.ledger();
        let bottom = drop_tombstones;
        let dropping = Dropping {
            horizon,
            bottom,
            // No version becomes zero.
            zero_below: Version::ZERO,
        };
        let mut merge = PageMerge::new(dropping, folding, ledger);
        let mut separator = Vec::new();
        let mut next = 0;
        while let Some(entry) = newer.current() {
            let index = directory.find(entry.key);
            debug_assert!(index >= next || pages.is_empty(), "records out of order");
            if index > next {
                merge.buffer.flush(self.page_bytes, &separator, &mut out);
                out.share(directory, next..index);
            }
            if merge.buffer.is_empty() {
                separator.clear();
                if index < pages.len() {
                    separator.extend_from_slice(directory.separator(index));
                }
            }
            let upper = (index + 1 < pages.len()).then(|| directory.separator(index + 1));
            let page = pages.get(index).map(|page| &**page);
            let mut target = Target {
                page_bytes: self.page_bytes,
                separator: &mut separator,
                out: &mut out,
            };
            merge.merge_page(page, upper, newer, &mut target);
            if merge.buffer.page_length() >= self.page_bytes / 2 {
                merge.buffer.flush(self.page_bytes, &separator, &mut out);
            }
            next = index + 1;
        }
        merge.buffer.flush(self.page_bytes, &separator, &mut out);
        out.share(directory, next.min(pages.len())..pages.len());
        let image = Image {
            directory: out.finish(ledger),
            page_bytes: self.page_bytes,
        };
        debug_assert_eq!(
            self.entries() + merge.taken,
            image.entries() + merge.dropped,
            "an absorb lost or made records"
        );
        image
    }
}

/// The buffer is cut into pages early when it has this many pages: newer records that all fall
/// behind the last page would otherwise be in RAM twice.
const BUFFERED_PAGES_MAX: usize = 32;

/// The destination of full buffers.
struct Target<'a> {
    page_bytes: usize,
    /// Lower bound of the records in the buffer.
    separator: &'a mut Vec<u8>,
    out: &'a mut DirectoryBuilder,
}

/// Merges pages with newer records into a buffer.
struct PageMerge<'h> {
    dropping: Dropping<'h>,
    folding: Folding<'h>,
    buffer: EntryBuffer,
    key: Vec<u8>,
    /// The number of newer records that were taken, and the number of records of both sources that
    /// were dropped.
    taken: usize,
    dropped: usize,
}

/// The versions of one key, newest first, on their way into the buffer.
struct KeyMerge {
    begin: usize,
    versions: KeyVersions,
    tag: u8,
    /// `operands`: the versions from the first one that lists operands on. `before`: the state
    /// before that one.
    operands: Vec<OwnedRecord>,
    before: KeyVersions,
}

impl<'h> PageMerge<'h> {
    fn new(dropping: Dropping<'h>, folding: Folding<'h>, ledger: Ledger) -> PageMerge<'h> {
        PageMerge {
            dropping,
            folding,
            buffer: EntryBuffer::new(ledger),
            key: Vec::new(),
            taken: 0,
            dropped: 0,
        }
    }

    /// Appends the records of `page`, and the records of `newer` below `upper`.
    fn merge_page(
        &mut self,
        page: Option<&Page>,
        upper: Option<&[u8]>,
        newer: &mut dyn MunkInput,
        target: &mut Target<'_>,
    ) {
        let mut old = 0;
        while let Some(entry) = newer.current() {
            if upper.is_some_and(|upper| entry.key >= upper) {
                break;
            }
            if self.buffer.page_length() > BUFFERED_PAGES_MAX * target.page_bytes {
                let own = page
                    .filter(|page| old < page.count())
                    .map(|page| page.key(old));
                let next = own.map_or(entry.key, |own| own.min(entry.key));
                let separator = self.buffer.separator_before(next);
                self.buffer
                    .flush(target.page_bytes, target.separator, target.out);
                *target.separator = separator;
            }
            if let Some(page) = page {
                let stop = page.lower_bound(entry.key);
                self.copy(page, old..stop);
                old = stop;
            }
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            let mut key_merge = self.begin_key(tag_of(RamHash::of(entry.key)));
            while let Some(entry) = newer.current().filter(|entry| entry.key == self.key) {
                self.offer(&mut key_merge, &entry);
                self.taken += 1;
                newer.advance();
            }
            if let Some(page) = page
                && old < page.count()
                && page.key(old) == self.key
            {
                let after = page.after(old);
                self.offer_all(&mut key_merge, page, old..after);
                old = after;
            }
            self.end_key(key_merge);
        }
        if let Some(page) = page {
            self.copy(page, old..page.count());
        }
    }

    /// Appends keys that have nothing newer. Keys with one version and a value, which are nearly
    /// all keys, are copied in runs.
    fn copy(&mut self, page: &Page, range: Range<usize>) {
        let (mut run, mut index) = (range.start, range.start);
        while index < range.end {
            let plain = page.flags(index) & (PUT | OLDER) == PUT && !page.is_older(index + 1);
            if plain {
                index += 1;
                continue;
            }
            self.buffer.push_run(page, run..index);
            let after = page.after(index);
            let mut key_merge = self.begin_key(page.tag(index));
            self.key.clear();
            self.key.extend_from_slice(page.key(index));
            self.offer_all(&mut key_merge, page, index..after);
            self.end_key(key_merge);
            index = after;
            run = after;
        }
        self.buffer.push_run(page, run..range.end);
    }

    fn begin_key(&self, tag: u8) -> KeyMerge {
        KeyMerge {
            begin: self.buffer.len(),
            versions: KeyVersions::default(),
            tag,
            operands: Vec::new(),
            before: KeyVersions::default(),
        }
    }

    fn offer_all(&mut self, key_merge: &mut KeyMerge, page: &Page, range: Range<usize>) {
        for index in range {
            let record = page.record(index);
            let entry = EntryRef {
                // Only the first kept record stores its key.
                key: &[],
                version: record.version,
                kind: record.kind,
                value: &page.bytes()[record.value],
            };
            self.offer(key_merge, &entry);
        }
    }

    /// Takes the next version of the key, if it is kept.
    fn offer(&mut self, key_merge: &mut KeyMerge, entry: &EntryRef<'_>) {
        if !key_merge.operands.is_empty() {
            key_merge.operands.push(OwnedRecord::of(entry));
            return;
        }
        let versions = &mut key_merge.versions;
        let entry = &self.dropping.as_all_read(*entry);
        let before = *versions;
        if versions.fate(entry.version, entry.kind, self.dropping) != Fate::Kept {
            self.dropped += 1;
            return;
        }
        if entry.kind == Kind::Merge {
            key_merge.operands.push(OwnedRecord::of(entry));
            key_merge.before = before;
            return;
        }
        self.push(key_merge, entry);
    }

    fn push(&mut self, key_merge: &KeyMerge, entry: &EntryRef<'_>) {
        let entry = EntryRef {
            key: &self.key,
            version: entry.version,
            kind: entry.kind,
            value: entry.value,
        };
        let older = self.buffer.len() > key_merge.begin;
        self.buffer.push(&entry, key_merge.tag, older);
    }

    /// Called when all versions of the key were offered.
    #[inline]
    fn end_key(&mut self, key_merge: KeyMerge) {
        if !key_merge.operands.is_empty() {
            self.fold(key_merge);
        }
    }

    #[cold]
    fn fold(&mut self, mut key_merge: KeyMerge) {
        let records = std::mem::take(&mut key_merge.operands);
        let taken = records.len();
        let cover_above = |version| (self.folding.cover_above)(&self.key, version);
        let kept = folding::rewritten(
            &self.key,
            records,
            key_merge.before,
            self.dropping,
            &cover_above,
            self.folding.operator,
        );
        self.dropped += taken - kept.len();
        for record in &kept {
            let entry = EntryRef {
                key: &[],
                version: record.version,
                kind: record.kind,
                value: &record.value,
            };
            self.push(&key_merge, &entry);
        }
    }
}
