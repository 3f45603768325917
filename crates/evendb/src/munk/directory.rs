//! The directory of a munk: which page may hold a key.
//!
//! Separators are the shortest keys that lie between neighbouring pages. The prefix that all of
//! them share is cut off (keys of a chunk have most of their first bytes in common), and the next
//! eight bytes of each are kept as integers side by side: a search touches a few lines of them.
//! Only separators whose eight bytes are equal are compared in full, and those lie side by side
//! too, so no page is touched before the right one.

use super::page::{Page, PageArc, Totals};
use crate::memory::{Charge, Ledger, Use, allocated_bytes};
use std::ops::Range;

/// See the module.
#[derive(Clone)]
pub(super) struct Directory {
    pages: Box<[PageArc]>,
    /// `heads[i]` belongs to page `i + 1`: the first page has no lower bound.
    heads: Box<[u64]>,
    separators: Box<[u8]>,
    /// Where the separator of page `i` ends; the first one is empty.
    ends: Box<[usize]>,
    prefix_len: usize,
    totals: Totals,
    /// The directory's own memory; pages are charged by themselves.
    charge: Charge,
}

/// Eight bytes as an integer that compares like them; zeros stand for what is missing.
#[inline]
fn head_of(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk::<8>() {
        return u64::from_le_bytes(*first).swap_bytes();
    }
    let mut head = 0;
    for (index, &byte) in bytes.iter().enumerate() {
        head |= u64::from(byte) << (56 - 8 * index);
    }
    head
}

fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    left.iter()
        .zip(right)
        .take_while(|(left, right)| left == right)
        .count()
}

/// The shortest key `> left` and `<= right`; `left < right`.
pub(super) fn shortest_separator<'a>(left: &[u8], right: &'a [u8]) -> &'a [u8] {
    debug_assert!(left < right);
    &right[..common_prefix(left, right) + 1]
}

impl Directory {
    #[inline]
    pub(super) fn pages(&self) -> &[PageArc] {
        &self.pages
    }

    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Memory held by the pages and the directory itself.
    pub(super) fn memory_bytes(&self) -> usize {
        self.totals.memory_bytes + self.charge.bytes()
    }

    fn own_bytes(&self) -> usize {
        allocated_bytes(size_of_val(&*self.pages))
            + allocated_bytes(size_of_val(&*self.heads))
            + allocated_bytes(self.separators.len())
            + allocated_bytes(size_of_val(&*self.ends))
            + allocated_bytes(size_of::<Directory>() + 32)
    }

    pub(super) fn ledger(&self) -> Ledger {
        self.charge.ledger()
    }

    /// The lower bound of page `index`; empty for the first one.
    #[inline]
    pub(super) fn separator(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.separators[start..self.ends[index]]
    }

    /// The page whose range holds `key`; 0 if there are no pages.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> usize {
        if self.heads.is_empty() {
            return 0;
        }
        let prefix = &self.separators[..self.prefix_len];
        if !key.starts_with(prefix) {
            return if key < prefix { 0 } else { self.heads.len() };
        }
        let head = head_of(&key[self.prefix_len..]);
        let mut low = self.heads.partition_point(|&other| other < head);
        // Before `low` all separators are below the key; where heads are equal the rest decides.
        if self.heads.get(low) == Some(&head) {
            let mut high = low + self.heads[low..].partition_point(|&other| other <= head);
            while low < high {
                let middle = low + (high - low) / 2;
                if self.separator(middle + 1) <= key {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
        }
        low
    }
}

/// Collects the pages of a munk in order.
#[derive(Default)]
pub(super) struct DirectoryBuilder {
    pages: Vec<PageArc>,
    separators: Vec<u8>,
    ends: Vec<usize>,
    totals: Totals,
}

impl DirectoryBuilder {
    pub(super) fn with_capacity(pages: usize) -> DirectoryBuilder {
        DirectoryBuilder {
            pages: Vec::with_capacity(pages),
            separators: Vec::new(),
            ends: Vec::with_capacity(pages),
            totals: Totals::default(),
        }
    }

    /// Appends a page whose keys are `>= separator`.
    pub(super) fn push(&mut self, page: PageArc, separator: &[u8]) {
        debug_assert!(page.count() > 0);
        self.count(&page);
        self.push_counted(page, separator);
    }

    fn push_counted(&mut self, page: PageArc, separator: &[u8]) {
        // The first page takes whatever lies below it.
        if !self.pages.is_empty() {
            self.separators.extend_from_slice(separator);
        }
        self.ends.push(self.separators.len());
        self.pages.push(page);
    }

    fn count(&mut self, page: &Page) {
        let totals = page.totals();
        self.totals.entries += totals.entries;
        self.totals.deletes += totals.deletes;
        self.totals.data_bytes += totals.data_bytes;
        self.totals.memory_bytes += totals.memory_bytes;
    }

    /// Appends pages `range` of `other` as they are.
    pub(super) fn share(&mut self, other: &Directory, range: Range<usize>) {
        // Two passes: the loads of the first overlap, so that the atomic increments of the second,
        // which cannot, find their lines in the cache.
        for page in &other.pages[range.clone()] {
            self.count(page);
        }
        for index in range {
            self.push_counted(other.pages[index].clone(), other.separator(index));
        }
    }

    pub(super) fn finish(self, ledger: Ledger) -> Directory {
        let mut directory = Directory {
            pages: self.pages.into_boxed_slice(),
            heads: Box::default(),
            separators: self.separators.into_boxed_slice(),
            ends: self.ends.into_boxed_slice(),
            prefix_len: 0,
            totals: self.totals,
            charge: Charge::new(ledger, Use::Munks, 0),
        };
        let last = directory.pages.len().saturating_sub(1);
        if last > 0 {
            // In order, so what the first and the last share all share.
            let prefix_len = common_prefix(directory.separator(1), directory.separator(last));
            directory.prefix_len = prefix_len;
            directory.heads = (1..=last)
                .map(|index| head_of(&directory.separator(index)[prefix_len..]))
                .collect();
        }
        directory.charge.set(directory.own_bytes());
        directory
    }
}
