//! The directory of an image: which page may hold a key.

use super::super::separators::{Separators, SeparatorsBuilder};
use super::page::{Page, PageArc, Totals};
use crate::memory::{Charge, Ledger, Use, allocated_bytes};
use std::ops::Range;

/// See the module.
#[derive(Clone)]
pub(super) struct Directory {
    pages: Box<[PageArc]>,
    separators: Separators,
    totals: Totals,
    /// The directory's own memory; pages are charged by themselves.
    charge: Charge,
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
            + self.separators.memory_bytes()
            + allocated_bytes(size_of::<Directory>() + 32)
    }

    pub(super) fn ledger(&self) -> Ledger {
        self.charge.ledger()
    }

    /// The lower bound of page `index`; empty for the first one.
    #[inline]
    pub(super) fn separator(&self, index: usize) -> &[u8] {
        self.separators.get(index)
    }

    /// The end of page `index`: the lower bound of the next page, if there is one.
    #[inline]
    pub(super) fn upper(&self, index: usize) -> Option<&[u8]> {
        self.separators.upper(index)
    }

    /// The page whose range holds `key`; 0 if there are no pages.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> usize {
        self.separators.find(key)
    }
}

/// Collects the pages of an image in order.
#[derive(Default)]
pub(super) struct DirectoryBuilder {
    pages: Vec<PageArc>,
    separators: SeparatorsBuilder,
    totals: Totals,
}

impl DirectoryBuilder {
    pub(super) fn with_capacity(pages: usize) -> DirectoryBuilder {
        DirectoryBuilder {
            pages: Vec::with_capacity(pages),
            separators: SeparatorsBuilder::with_capacity(pages),
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
        self.separators.push(separator);
        self.pages.push(page);
    }

    fn count(&mut self, page: &Page) {
        let totals = page.totals();
        self.totals.entries += totals.entries;
        self.totals.deletes += totals.deletes;
        self.totals.others |= totals.others;
        self.totals.data_bytes += totals.data_bytes;
        self.totals.memory_bytes += totals.memory_bytes;
    }

    /// Appends pages `range` of `other` without changes.
    pub(super) fn share(&mut self, other: &Directory, range: Range<usize>) {
        // Two passes: the loads of the first pass overlap. The atomic increments of the second pass
        // cannot overlap, but find their lines in the cache.
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
            separators: self.separators.finish(),
            totals: self.totals,
            charge: Charge::new(ledger, Use::Munks, 0),
        };
        directory.charge.set(directory.own_bytes());
        directory
    }

    #[cfg(test)]
    /// Memory of the pages so far.
    pub(super) fn page_bytes(&self) -> usize {
        self.totals.memory_bytes
    }
}
