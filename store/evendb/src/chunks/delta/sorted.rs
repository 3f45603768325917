//! Linking many records of ascending keys at once.
//!
//! ```text
//! records      a b c d e f g h i ... in order
//! directory    | page 0 | page 1 | page 2 |      a page takes the records up to the next low key:
//!                  |        `- no new key, or room for them: it stays
//!                  `- too many: full pages of all its records in order
//! ```
//! One by one, each new page would cost a copy of the directory, and all these copies would stay
//! until the pin of the write ends: a batch of millions of records would copy, and hold, the square
//! of its pages. Here the directory is replaced once.
//!
//! The argument is that of a split (see [`super`]): a page that is replaced is copied first, and
//! never written again; readers that found it, or the old directory, read a moment after they
//! began. Records of keys that the delta has already are linked into their page before it is
//! copied, so the copy has them. The records appear one after the other, like single inserts: a
//! batch is seen at once by its stamp alone.
//!
//! Thread safety: only the holder of the chunk's latch calls.

use super::Delta;
use super::directory::Directory;
use super::page::{PageRef, SLOTS_MAX, SLOTS_MIN};
use crate::record::{Record, RecordRef};
use crate::sync::atomic::Ordering;
use crate::sync::reclaim::{self, Guard};
use std::iter::Peekable;

impl Delta {
    /// Links records of ascending keys, each key once, by the rules of [`insert`](Self::insert).
    pub(crate) fn insert_sorted(&self, records: impl Iterator<Item = RecordRef>) {
        let guard = &reclaim::pin();
        let mut records = records.peekable();
        // So that there is a page.
        let Some(first) = records.next() else { return };
        self.insert(first);
        let old = self.pages(guard);
        let mut pages = Vec::with_capacity(old.len());
        let mut replaced = Vec::new();
        for (at, &page) in old.iter().enumerate() {
            let behind = old.get(at + 1).map(|next| next.low());
            let new = self.take_new(page, behind, &mut records, guard);
            if page.len() + new.len() <= page.capacity() {
                new.into_iter().for_each(|record| page.append(record));
                pages.push(page);
                continue;
            }
            for page in in_full_pages(page, &new) {
                self.add(&self.bytes, page.memory_bytes());
                pages.push(page);
            }
            self.subtract(&self.bytes, page.memory_bytes());
            replaced.push(page);
        }
        match &pages[..] {
            _ if replaced.is_empty() => return,
            [one] => self.single.store(one.as_ptr(), Ordering::Release),
            pages => self.publish(Directory::of_pages(pages), guard),
        }
        for page in replaced {
            // SAFETY: unreachable from the delta since the new directory, or page, is published.
            unsafe { page.free_later(guard) };
        }
    }

    /// All pages in the order of their keys.
    fn pages<'g>(&self, guard: &'g Guard) -> Vec<PageRef<'g>> {
        if let Some(page) = self.single(guard) {
            return vec![page];
        }
        let directory = self.directory(guard);
        directory.map_or_else(Vec::new, |directory| {
            (0..directory.len()).map(|at| directory.page(at)).collect()
        })
    }

    /// Takes the records below `behind`. Those of keys that the page has are linked; the others are
    /// returned, counted already.
    fn take_new(
        &self,
        page: PageRef<'_>,
        behind: Option<&[u8]>,
        records: &mut Peekable<impl Iterator<Item = RecordRef>>,
        guard: &Guard,
    ) -> Vec<*mut Record> {
        let mut new = Vec::new();
        let belongs = |record: &RecordRef| behind.is_none_or(|behind| record.key() < behind);
        while let Some(record) = records.next_if(belongs) {
            self.add(&self.bytes, record.memory_bytes());
            self.add(&self.data_bytes, record.data_bytes());
            match page.find(record.key(), record.hash()) {
                Some(slot) => self.link(&page.heads()[slot], record, guard),
                None => {
                    self.add(&self.keys, 1);
                    new.push(record.into_raw());
                }
            }
        }
        new
    }
}

/// The records of a page and `new` ones, which ascend, in pages that are full but for the last one.
fn in_full_pages<'g>(page: PageRef<'g>, new: &[*mut Record]) -> Vec<PageRef<'g>> {
    let sorted = page.sorted_once();
    let known = sorted.slots().iter();
    let mut known = known
        .map(|&slot| page.heads()[usize::from(slot)].load(Ordering::Relaxed))
        .peekable();
    // SAFETY: the page's records are linked, and the new ones are counted for the delta; only this
    // thread, the writer, unlinks records.
    let key_of = |record: *mut Record| unsafe { (*record).key() };
    let mut heads: Vec<*mut Record> = Vec::with_capacity(page.len() + new.len());
    for &record in new {
        while let Some(lower) = known.next_if(|&known| key_of(known) < key_of(record)) {
            heads.push(lower);
        }
        heads.push(record);
    }
    heads.extend(known);
    let parts = heads.chunks(SLOTS_MAX).enumerate();
    parts
        .map(|(at, part)| {
            let low = match at {
                0 => page.low(),
                _ => key_of(part[0]),
            };
            let capacity = part.len().next_power_of_two().clamp(SLOTS_MIN, SLOTS_MAX);
            PageRef::create(capacity, low, part.iter().copied())
        })
        .collect()
}
