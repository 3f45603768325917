//! Splitting and joining images; all pages are shared except the one that is cut.

use super::super::separators::shortest_separator;
use super::build::EntryBuffer;
use super::directory::DirectoryBuilder;
use super::{Image, PageArc};
use std::ops::Range;

impl Image {
    /// Two images: of the keys below `key`, and of the keys from `key` on.
    pub(crate) fn split_at(&self, key: &[u8]) -> (Image, Image) {
        let directory = &self.directory;
        let pages = directory.pages();
        let index = directory.find(key);
        let mut left = DirectoryBuilder::with_capacity(index + 1);
        let mut right = DirectoryBuilder::with_capacity(pages.len() - index.min(pages.len()));
        if let Some(page) = pages.get(index) {
            let cut = page.lower_bound(key);
            left.share(directory, 0..index);
            if let Some(part) = part_of(page, 0..cut) {
                left.push(part, directory.separator(index));
            }
            if let Some(part) = part_of(page, cut..page.count()) {
                right.push(part, key);
            }
            right.share(directory, index + 1..pages.len());
        }
        let image = |builder: DirectoryBuilder| Image {
            directory: builder.finish(directory.ledger()),
            page_bytes: self.page_bytes,
        };
        (image(left), image(right))
    }

    /// One image made of two; every key of `left` is below every key of `right`.
    pub(crate) fn concat(left: &Image, right: &Image) -> Image {
        let (lower, upper) = (left.directory.pages(), right.directory.pages());
        let mut out = DirectoryBuilder::with_capacity(lower.len() + upper.len());
        out.share(&left.directory, 0..lower.len());
        if let (Some(before), Some(first)) = (lower.last(), upper.first()) {
            let last_key = before.key(before.head(before.count() - 1));
            let separator = shortest_separator(last_key, first.key(0));
            out.push(first.clone(), separator);
            out.share(&right.directory, 1..upper.len());
        } else {
            out.share(&right.directory, 0..upper.len());
        }
        Image {
            directory: out.finish(left.directory.ledger()),
            page_bytes: left.page_bytes,
        }
    }

    /// A key near the middle of the data: see [`key_near`](Self::key_near).
    pub(crate) fn middle_key(&self) -> Option<Vec<u8>> {
        self.key_near(self.page_bytes_sum() / 2)
    }

    /// Bytes of all pages.
    pub(crate) fn page_bytes_sum(&self) -> usize {
        // The directory has the lengths of pages, so no page is touched.
        let pages = self.directory.pages().iter();
        pages.map(|page| page.bytes().len()).sum()
    }

    /// A key with about `target` bytes of pages before it: some keys are below it, some at or
    /// above. `None` if there are fewer than two keys. It need not be a key of the image: the
    /// shortest possible one is taken.
    pub(crate) fn key_near(&self, target: usize) -> Option<Vec<u8>> {
        let pages = self.directory.pages();
        let half = target.min(self.page_bytes_sum().saturating_sub(1));
        let mut before = 0;
        let index = pages.iter().position(|page| {
            before += page.bytes().len();
            before > half
        })?;
        let page = &pages[index];
        // The share of the records is the share of the page.
        let (len, records) = (page.bytes().len(), page.start(0));
        let share = (half + len - before) as f64 / len as f64;
        let target = records + (share * (len - records) as f64) as usize;
        let mut above = 0;
        while above < page.count() && page.start(above) < target {
            above = page.after(above);
        }
        if above == page.count() && index + 1 == pages.len() {
            // There is no next page to begin at, so the cut is before this page's last key.
            above = page.head(page.count() - 1);
        }
        if above == page.count() {
            return Some(self.directory.separator(index + 1).to_vec());
        }
        if above == 0 && index > 0 {
            return Some(self.directory.separator(index).to_vec());
        }
        if above == 0 {
            above = page.after(0);
        }
        if above == page.count() {
            let more = index + 1 < pages.len();
            return more.then(|| self.directory.separator(index + 1).to_vec());
        }
        let below = page.key(page.head(above - 1));
        Some(shortest_separator(below, page.key(above)).to_vec())
    }
}

/// Records `range` of `page`, which must not cut the records of a key; `None` if empty.
fn part_of(page: &PageArc, range: Range<usize>) -> Option<PageArc> {
    if range.is_empty() {
        return None;
    }
    if range == (0..page.count()) {
        return Some(page.clone());
    }
    let mut buffer = EntryBuffer::new(page.ledger());
    buffer.push_run(page, range);
    Some(buffer.into_page())
}
