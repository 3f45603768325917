//! Reading an image in order: [`ImageCursor`] over distinct keys in both directions,
//! [`ImageEntries`] over all versions forward.

use super::directory::Directory;
use super::{MunkHit, MunkInput, Page, PageArc};
use evendb_storage::{EntryRef, Version};
use std::ops::Range;

/// A cursor over distinct keys, in both directions.
#[derive(Clone)]
pub(crate) struct ImageCursor<'m> {
    directory: &'m Directory,
    page_index: usize,
    /// The page it is on; `None` if it is on no key.
    page: Option<&'m PageArc>,
    /// The newest record of the current key, among `count` records of the page.
    head: usize,
    count: usize,
    /// The start of that record, its key, and its end.
    start: usize,
    key: Range<usize>,
    end: usize,
}

impl<'m> ImageCursor<'m> {
    pub(super) fn new(directory: &'m Directory) -> ImageCursor<'m> {
        ImageCursor {
            directory,
            page_index: 0,
            page: None,
            head: 0,
            count: 0,
            start: 0,
            key: 0..0,
            end: 0,
        }
    }

    /// To the first key `>= key`.
    pub(crate) fn seek(&mut self, key: &[u8]) {
        let index = self.directory.find(key);
        let Some(page) = self.directory.pages().get(index) else {
            self.page = None;
            return;
        };
        let head = page.lower_bound(key);
        if head < page.count() {
            self.stand(index, head);
        } else {
            self.enter_first(index + 1);
        }
    }

    /// To the last key `< key`.
    pub(crate) fn seek_before(&mut self, key: &[u8]) {
        let index = self.directory.find(key);
        let Some(page) = self.directory.pages().get(index) else {
            self.page = None;
            return;
        };
        match page.lower_bound(key) {
            0 => self.enter_last(index),
            after => self.stand(index, page.head(after - 1)),
        }
    }

    /// To the first key.
    pub(crate) fn seek_first(&mut self) {
        self.enter_first(0);
    }

    /// To the last key.
    pub(crate) fn seek_last(&mut self) {
        self.enter_last(self.directory.pages().len());
    }

    /// To the next key; on no key after the last. Does nothing on no key.
    #[inline]
    pub(crate) fn next(&mut self) {
        self.next_within_page();
    }

    /// Like [`next`](Self::next); returns whether the new key is on the same page.
    #[inline]
    pub(crate) fn next_within_page(&mut self) -> bool {
        let Some(page) = self.page else {
            return false;
        };
        // A record's end is the next one's start: the position need not be looked up again.
        let (mut head, mut start) = (self.head + 1, self.end);
        while head < self.count && page.bytes()[start] & super::page::OLDER != 0 {
            start = page.end(head);
            head += 1;
        }
        if head == self.count {
            self.enter_first(self.page_index + 1);
            return false;
        }
        self.stand_at(page, head, start);
        true
    }

    /// To the first key of the next page; on no key after the last page. Does nothing on no key.
    pub(crate) fn next_page(&mut self) {
        if self.page.is_some() {
            self.enter_first(self.page_index + 1);
        }
    }

    /// A key above all keys of the current page and not above the keys of the next page, if there
    /// is a next page. Nothing of the page is read for it.
    #[inline]
    pub(crate) fn end_of_page(&self) -> Option<&'m [u8]> {
        self.directory.upper(self.page_index)
    }

    /// Fetches the front of the page that is `pages` further ahead.
    #[inline]
    pub(crate) fn fetch_page(&self, pages: usize) {
        if let Some(page) = self.directory.pages().get(self.page_index + pages) {
            page.fetch_front();
        }
    }

    /// The index of the current record in its page, and the number of records from it on.
    #[inline]
    pub(crate) fn rest_of_page(&self) -> (usize, usize) {
        (self.head, self.count - self.head)
    }

    /// To the previous key; on no key before the first. Does nothing on no key.
    #[inline]
    pub(crate) fn prev(&mut self) {
        let Some(page) = self.page else { return };
        if self.head == 0 {
            self.enter_last(self.page_index);
        } else {
            let head = page.head(self.head - 1);
            self.stand_at(page, head, page.start(head));
        }
    }

    /// Whether it is on a key.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.page.is_some()
    }

    /// The key it is on. Panics if not valid.
    #[inline]
    pub(crate) fn key(&self) -> &'m [u8] {
        &self.page().bytes()[self.key.clone()]
    }

    /// The newest record of the key with a version `<= at`. Panics if not valid.
    #[inline]
    pub(crate) fn newest_at(&self, at: Version) -> Option<MunkHit<'m>> {
        let page = self.page();
        let record = page.record_within(self.start, self.end);
        if record.version.is_seen_at(at) {
            return Some(MunkHit::new(page, &record));
        }
        if !page.is_older(self.head + 1) {
            return None;
        }
        page.newest_at(self.head + 1, at)
            .map(|record| MunkHit::new(page, &record))
    }

    /// The page it is on. Panics if not valid.
    #[inline]
    pub(crate) fn page(&self) -> &'m PageArc {
        self.page.expect("a cursor is read only where it is valid")
    }

    /// The place of the key within the page's bytes.
    #[inline]
    pub(crate) fn key_range(&self) -> Range<usize> {
        self.key.clone()
    }

    fn enter_first(&mut self, index: usize) {
        if index < self.directory.pages().len() {
            self.stand(index, 0);
        } else {
            self.page = None;
        }
    }

    /// To the last key of the page before `index`.
    fn enter_last(&mut self, index: usize) {
        match index.checked_sub(1) {
            Some(before) if before < self.directory.pages().len() => {
                let page = &self.directory.pages()[before];
                self.stand(before, page.head(page.count() - 1));
            }
            _ => self.page = None,
        }
    }

    fn stand(&mut self, index: usize, head: usize) {
        let page = &self.directory.pages()[index];
        self.page_index = index;
        self.page = Some(page);
        self.count = page.count();
        self.stand_at(page, head, page.start(head));
    }

    #[inline]
    fn stand_at(&mut self, page: &Page, head: usize, start: usize) {
        self.head = head;
        self.start = start;
        self.end = page.end(head);
        self.key = page.record_within(start, self.end).key;
    }
}

/// All records, all versions, forward.
#[derive(Clone)]
pub(crate) struct ImageEntries<'m> {
    cursor: ImageCursor<'m>,
    /// The current record: the cursor's newest one or one of the older ones after it.
    index: usize,
}

impl<'m> ImageEntries<'m> {
    pub(super) fn new(directory: &'m Directory, key: Option<&[u8]>) -> ImageEntries<'m> {
        let mut cursor = ImageCursor::new(directory);
        match key {
            Some(key) => cursor.seek(key),
            None => cursor.seek_first(),
        }
        let index = cursor.head;
        ImageEntries { cursor, index }
    }

    /// The current record, for as long as the image lives.
    pub(crate) fn entry(&self) -> Option<EntryRef<'m>> {
        let page = self.cursor.page?;
        let record = page.record(self.index);
        Some(EntryRef {
            key: self.cursor.key(),
            version: record.version,
            kind: record.kind,
            value: &page.bytes()[record.value],
        })
    }
}

impl MunkInput for ImageEntries<'_> {
    fn current(&self) -> Option<EntryRef<'_>> {
        self.entry()
    }

    fn advance(&mut self) {
        let Some(page) = self.cursor.page else { return };
        self.index += 1;
        if !page.is_older(self.index) {
            self.cursor.next();
            self.index = self.cursor.head;
        }
    }
}
