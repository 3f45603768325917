//! The directory of a delta of several pages: which page a key belongs to.
//!
//! ```text
//! prefix  shared by all lows except the first page's (which is empty)
//! heads   | - | 8 bytes of low 1 behind the prefix | of low 2 | ...   ascending
//! pages   | page 0 | page 1 | page 2 | ...
//! ```
//!
//! Invariants
//! * Prefix and heads never change. A page pointer is replaced only by the pointer of a larger page
//!   with the same low key and at least the same records. So a directory that was replaced
//!   meanwhile still covers all keys.
//! * A directory owns no pages.
//!
//! Thread safety: one writer; readers under a pin.

use super::page::PageRef;
use crate::key_heads::{Head, common_prefix, count_before};
use crate::record::allocated_bytes;
use crate::sync::atomic::{AtomicPtr, Ordering};

pub(super) struct Directory {
    prefix: Box<[u8]>,
    heads: Box<[u64]>,
    pages: Box<[AtomicPtr<super::page::Page>]>,
}

impl Directory {
    /// A directory of two pages, which share the keys of one old page.
    pub(super) fn of_two(first: PageRef<'_>, second: PageRef<'_>) -> Directory {
        Directory {
            prefix: second.low().into(),
            heads: Box::new([0, 0]),
            pages: Box::new([
                AtomicPtr::new(first.as_ptr()),
                AtomicPtr::new(second.as_ptr()),
            ]),
        }
    }

    /// A directory of two pages or more, in the order of their keys.
    pub(super) fn of_pages(pages: &[PageRef<'_>]) -> Directory {
        let lows = || pages.iter().skip(1).map(|page| page.low());
        let (first, last) = (lows().next(), lows().next_back());
        let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
        // Keys that lie between two keys have what these share in front.
        let prefix = &first[..common_prefix(first, last)];
        let heads = lows().map(|low| Head::of(&low[prefix.len()..]));
        let pointers = pages.iter().map(|page| AtomicPtr::new(page.as_ptr()));
        Directory {
            prefix: prefix.into(),
            heads: std::iter::once(0).chain(heads).collect(),
            pages: pointers.collect(),
        }
    }

    /// This directory with page `at` replaced by `left` (of the same low key) and `right`.
    pub(super) fn with_split(&self, at: usize, left: PageRef<'_>, right: PageRef<'_>) -> Directory {
        let prefix = &self.prefix[..common_prefix(&self.prefix, right.low())];
        let mut pages: Vec<_> = (0..self.len()).map(|page| self.page(page)).collect();
        pages[at] = left;
        pages.insert(at + 1, right);
        let heads = if prefix.len() == self.prefix.len() {
            let mut heads = Vec::with_capacity(pages.len());
            heads.extend_from_slice(&self.heads[..=at]);
            heads.push(Head::of(&right.low()[prefix.len()..]));
            heads.extend_from_slice(&self.heads[at + 1..]);
            heads
        } else {
            // Rare: the prefix only gets shorter.
            let others = pages[1..].iter().map(|page| &page.low()[prefix.len()..]);
            std::iter::once(0).chain(others.map(Head::of)).collect()
        };
        Directory {
            prefix: prefix.into(),
            heads: heads.into(),
            pages: pages
                .iter()
                .map(|page| AtomicPtr::new(page.as_ptr()))
                .collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// A page. The caller is pinned or is the writer, as long as it uses the page.
    #[expect(unsafe_code, reason = "a page out of a published pointer")]
    #[inline]
    pub(super) fn page<'g>(&self, at: usize) -> PageRef<'g> {
        // Pairs with the Release of `replace_page` and of the directory's publication.
        let page = self.pages[at].load(Ordering::Acquire);
        // SAFETY: by the contract above; pages are freed a grace period after they left.
        unsafe { PageRef::at(page) }.expect("a directory holds no null")
    }

    /// Replaces a page by a larger one.
    pub(super) fn replace_page(&self, at: usize, page: PageRef<'_>) {
        self.pages[at].store(page.as_ptr(), Ordering::Release);
    }

    /// The page whose range holds the key: the last page whose low key is not above it.
    pub(super) fn locate(&self, key: &[u8]) -> usize {
        // The first page has no lower bound.
        let heads = &self.heads[1..];
        count_before(&self.prefix, heads, key, |at| {
            self.page(at + 1).low() <= key
        })
    }

    /// The bytes that the allocator holds for the directory.
    pub(super) fn memory_bytes(&self) -> usize {
        allocated_bytes(size_of::<Directory>())
            + allocated_bytes(self.prefix.len())
            + 2 * allocated_bytes(self.len() * 8)
    }
}
