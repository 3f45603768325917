//! Splitting and joining munks; pages are shared but for the one that is cut.

use super::build::EntryBuffer;
use super::directory::{DirectoryBuilder, shortest_separator};
use super::{Munk, PageArc};
use std::ops::Range;

impl Munk {
    /// The parts below and from `key` on.
    pub(crate) fn split_at(&self, key: &[u8]) -> (Munk, Munk) {
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
        let munk = |builder: DirectoryBuilder| Munk {
            directory: builder.finish(directory.ledger()),
            page_bytes: self.page_bytes,
        };
        (munk(left), munk(right))
    }

    /// One munk of two; every key of `left` is below every key of `right`.
    pub(crate) fn concat(left: &Munk, right: &Munk) -> Munk {
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
        Munk {
            directory: out.finish(left.directory.ledger()),
            page_bytes: left.page_bytes,
        }
    }

    /// A key near the middle of the data: some keys are below it, some at or above. `None` if
    /// there are fewer than two keys. It need not be a key of the munk: the shortest is taken.
    pub(crate) fn middle_key(&self) -> Option<Vec<u8>> {
        let pages = self.directory.pages();
        // The lengths of pages are in the directory: finding the page touches none.
        let half = pages.iter().map(|page| page.bytes().len()).sum::<usize>() / 2;
        let mut before = 0;
        let index = pages.iter().position(|page| {
            before += page.bytes().len();
            before > half
        })?;
        let page = &pages[index];
        // As far into the records as into the page.
        let (len, records) = (page.bytes().len(), page.start(0));
        let share = (half + len - before) as f64 / len as f64;
        let target = records + (share * (len - records) as f64) as usize;
        let mut above = 0;
        while above < page.count() && page.start(above) < target {
            above = page.after(above);
        }
        if above == page.count() && index + 1 == pages.len() {
            // No next page to begin at: cut before this page's last key.
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

/// Records `range` of `page`, none of whose keys it may cut; `None` if empty.
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
