//! Reading a munk in order, span by span: [`MunkCursor`] over distinct keys in both directions,
//! [`MunkEntries`] over all versions forward.

use super::image::{ImageCursor, ImageEntries};
use super::{Munk, MunkHit, MunkInput, PageArc};
use evendb_storage::{EntryRef, Version};
use std::ops::Range;

/// A cursor over distinct keys, in both directions. After the last key before an absent span it is
/// on no key.
#[derive(Clone)]
pub(crate) struct MunkCursor<'m> {
    munk: &'m Munk,
    span: usize,
    /// On a key, if there is one.
    inner: Option<ImageCursor<'m>>,
}

impl<'m> MunkCursor<'m> {
    pub(super) fn new(munk: &'m Munk) -> MunkCursor<'m> {
        MunkCursor {
            munk,
            span: 0,
            inner: None,
        }
    }

    /// To the first key `>= key`.
    pub(crate) fn seek(&mut self, key: &[u8]) {
        self.forward(self.munk.separators.find(key), |cursor| cursor.seek(key));
    }

    /// To the last key `< key`.
    pub(crate) fn seek_before(&mut self, key: &[u8]) {
        let span = self.munk.span_below(Some(key));
        self.backward(span, |cursor| cursor.seek_before(key));
    }

    /// To the first key.
    pub(crate) fn seek_first(&mut self) {
        self.forward(0, ImageCursor::seek_first);
    }

    /// To the last key.
    pub(crate) fn seek_last(&mut self) {
        self.backward(self.munk.spans.len() - 1, ImageCursor::seek_last);
    }

    /// To the next key; on no key after the last. Does nothing on no key. Returns whether the new
    /// key is on the same page.
    #[inline]
    pub(crate) fn next_within_page(&mut self) -> bool {
        let Some(inner) = &mut self.inner else {
            return false;
        };
        let same = inner.next_within_page();
        if !inner.valid() {
            self.forward(self.span + 1, ImageCursor::seek_first);
        }
        same
    }

    /// To the first key of the next page; on no key after the last page. Does nothing on no key.
    pub(crate) fn next_page(&mut self) {
        let Some(inner) = &mut self.inner else { return };
        inner.next_page();
        if !inner.valid() {
            self.forward(self.span + 1, ImageCursor::seek_first);
        }
    }

    /// A key above all keys of the current page and not above the keys of the next page; `None` in
    /// the last page of the munk. Nothing of the page is read for it. Panics if not valid.
    #[inline]
    pub(crate) fn end_of_page(&self) -> Option<&'m [u8]> {
        let end = self.inner().end_of_page();
        end.or_else(|| self.munk.separators.upper(self.span))
    }

    /// Fetches the front of the page that is `pages` further ahead, if it is of the same span.
    /// Panics if not valid.
    #[inline]
    pub(crate) fn fetch_page(&self, pages: usize) {
        self.inner().fetch_page(pages);
    }

    /// The index of the current record in its page, and the number of records from it on. Panics if
    /// not valid.
    #[inline]
    pub(crate) fn rest_of_page(&self) -> (usize, usize) {
        self.inner().rest_of_page()
    }

    /// To the previous key; on no key before the first. Does nothing on no key.
    #[inline]
    pub(crate) fn prev(&mut self) {
        let Some(inner) = &mut self.inner else { return };
        inner.prev();
        if !inner.valid() {
            match self.span.checked_sub(1) {
                Some(before) => self.backward(before, ImageCursor::seek_last),
                None => self.inner = None,
            }
        }
    }

    /// Like [`Munk::has_others`].
    #[inline]
    pub(crate) fn has_others(&self) -> bool {
        self.munk.has_others()
    }

    /// Whether it is on a key.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.inner.is_some()
    }

    /// The key it is on. Panics if not valid.
    #[inline]
    pub(crate) fn key(&self) -> &'m [u8] {
        self.inner().key()
    }

    /// The newest record of the key with a version `<= at`. Panics if not valid.
    #[inline]
    pub(crate) fn newest_at(&self, at: Version) -> Option<MunkHit<'m>> {
        self.inner().newest_at(at)
    }

    /// The page it is on. Panics if not valid.
    #[inline]
    pub(crate) fn page(&self) -> &'m PageArc {
        self.inner().page()
    }

    /// The place of the key within the page's bytes.
    #[inline]
    pub(crate) fn key_range(&self) -> Range<usize> {
        self.inner().key_range()
    }

    #[inline]
    fn inner(&self) -> &ImageCursor<'m> {
        self.inner
            .as_ref()
            .expect("a cursor is read only where it is valid")
    }

    /// To the position where `seek` finds a key in `span`, or to the first key of the spans after
    /// it.
    fn forward(&mut self, span: usize, seek: impl FnOnce(&mut ImageCursor<'m>)) {
        self.inner = None;
        let mut seek = Some(seek);
        for (span, own) in self.munk.spans.iter().enumerate().skip(span) {
            let Some(image) = own.image() else { return };
            let mut cursor = image.cursor();
            match seek.take() {
                Some(seek) => seek(&mut cursor),
                None => cursor.seek_first(),
            }
            if cursor.valid() {
                self.span = span;
                self.inner = Some(cursor);
                return;
            }
        }
    }

    /// To the position where `seek` finds a key in `span`, or to the last key of the spans before
    /// it.
    fn backward(&mut self, span: usize, seek: impl FnOnce(&mut ImageCursor<'m>)) {
        self.inner = None;
        let mut seek = Some(seek);
        for (span, own) in self.munk.spans[..=span].iter().enumerate().rev() {
            let Some(image) = own.image() else { return };
            let mut cursor = image.cursor();
            match seek.take() {
                Some(seek) => seek(&mut cursor),
                None => cursor.seek_last(),
            }
            if cursor.valid() {
                self.span = span;
                self.inner = Some(cursor);
                return;
            }
        }
    }
}

/// All records, all versions, forward, of the spans that are present.
#[derive(Clone)]
pub(crate) struct MunkEntries<'m> {
    munk: &'m Munk,
    span: usize,
    /// On a record, if there is one.
    inner: Option<ImageEntries<'m>>,
}

impl<'m> MunkEntries<'m> {
    pub(super) fn new(munk: &'m Munk) -> MunkEntries<'m> {
        let mut entries = MunkEntries {
            munk,
            span: 0,
            inner: None,
        };
        entries.enter(0);
        entries
    }

    /// To the first record of `span` or of a later one.
    fn enter(&mut self, span: usize) {
        self.inner = None;
        for (span, own) in self.munk.spans.iter().enumerate().skip(span) {
            let entries = own.image().map(|image| image.entries_from(None));
            if let Some(entries) = entries.filter(|entries| entries.entry().is_some()) {
                self.span = span;
                self.inner = Some(entries);
                return;
            }
        }
    }
}

impl MunkInput for MunkEntries<'_> {
    fn current(&self) -> Option<EntryRef<'_>> {
        self.inner.as_ref()?.entry()
    }

    fn advance(&mut self) {
        let Some(inner) = &mut self.inner else { return };
        inner.advance();
        if inner.entry().is_none() {
            self.enter(self.span + 1);
        }
    }
}
