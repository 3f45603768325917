//! A cursor over the distinct keys of a delta, in both directions.
//!
//! It keeps the directory (or the single page) of the moment when it was made, so it sees every
//! record that was linked before. The pages themselves may grow meanwhile; whether it sees later
//! records is left open. That is enough for a reader at a version below which all puts are visible:
//! later records have higher versions. A page's slots are put in order when the cursor enters the
//! page.
//!
//! Thread safety: one thread, under one pin.

use super::directory::Directory;
use super::page::{PageRef, Sorted};
use super::{Delta, chain};
use crate::record::Record;
use crate::sync::reclaim::Guard;
use evendb_storage::{Kind, Version};

/// An estimate looks at the records of at most this number of pages, and of one more page.
const PAGES_LOOKED_AT: usize = 16;

/// An estimate of a delta's records in a key range: the newest record of each key, pending ones
/// included.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(crate) struct DeltaShare {
    pub(crate) puts: f64,
    pub(crate) deletes: f64,
    /// Bytes of the puts' keys and values.
    pub(crate) put_bytes: f64,
}

impl DeltaShare {
    fn add(&mut self, record: &Record) {
        match record.kind() {
            Kind::Put | Kind::PutUntil | Kind::PutApart | Kind::PutUntilApart | Kind::Merge => {
                self.puts += 1.0;
                self.put_bytes += record.data_bytes() as f64;
            }
            Kind::Delete | Kind::SingleDelete => self.deletes += 1.0,
        }
    }

    /// The share of `keys` keys, estimated from this one of `looked_at` keys.
    fn scaled(self, keys: usize, looked_at: usize) -> DeltaShare {
        let factor = keys as f64 / looked_at.max(1) as f64;
        DeltaShare {
            puts: self.puts * factor,
            deletes: self.deletes * factor,
            put_bytes: self.put_bytes * factor,
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Steps of all cursors of this thread.
    pub(crate) static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

enum Pages<'g> {
    None,
    Single(PageRef<'g>),
    Many(&'g Directory),
}

/// See the head of this module. Valid after a seek that found a key, until `next` or `prev` leaves
/// the last key.
pub(crate) struct DeltaCursor<'g> {
    guard: &'g Guard,
    pages: Pages<'g>,
    page_at: usize,
    /// The entered page, with its slots in order of keys.
    page: Option<PageRef<'g>>,
    sorted: Sorted<'g>,
    /// Place in the page's slots; behind them if the cursor is not valid.
    at: usize,
}

impl<'g> DeltaCursor<'g> {
    pub(super) fn new(delta: &'g Delta, guard: &'g Guard) -> Self {
        // For the order of the loads, and its reason, see `Delta::locate`.
        let pages = match delta.single(guard) {
            Some(page) => Pages::Single(page),
            None => match delta.directory(guard) {
                Some(directory) => Pages::Many(directory),
                None => Pages::None,
            },
        };
        DeltaCursor {
            guard,
            pages,
            page_at: 0,
            page: None,
            sorted: Sorted::empty(),
            at: 0,
        }
    }

    fn pages_len(&self) -> usize {
        match self.pages {
            Pages::None => 0,
            Pages::Single(_) => 1,
            Pages::Many(directory) => directory.len(),
        }
    }

    /// Enters a page and orders its slots; false if there is no such page.
    fn enter(&mut self, page_at: usize) -> bool {
        let page = match self.pages {
            Pages::Single(page) if page_at == 0 => page,
            Pages::Many(directory) if page_at < directory.len() => directory.page(page_at),
            _ => return false,
        };
        self.sorted = page.sorted(self.guard);
        self.page_at = page_at;
        self.page = Some(page);
        true
    }

    fn enter_for(&mut self, key: &[u8]) -> bool {
        let page_at = match self.pages {
            Pages::Many(directory) => directory.locate(key),
            _ => 0,
        };
        self.enter(page_at)
    }

    fn key_at(&self, at: usize) -> &'g [u8] {
        self.record_at(at).expect("a page was entered").key()
    }

    fn record_at(&self, at: usize) -> Option<&'g Record> {
        let slot = self.sorted.slots().get(at)?;
        Some(self.page?.head(usize::from(*slot)))
    }

    /// How many keys of the entered page are below `key`.
    fn count_below(&self, key: &[u8]) -> usize {
        self.page
            .map_or(0, |page| self.sorted.count_below(page, key))
    }

    /// How many keys the entered page has.
    fn len(&self) -> usize {
        self.sorted.slots().len()
    }

    fn invalidate(&mut self) {
        self.at = self.len();
    }

    /// Moves to the first key of the page `page_at` or of a later page.
    fn first_from(&mut self, page_at: usize) {
        // No page is empty.
        if self.enter(page_at) {
            self.at = 0;
        } else {
            self.invalidate();
        }
    }

    /// Moves to the last key before page `page_at`.
    fn last_before(&mut self, page_at: usize) {
        match page_at.checked_sub(1) {
            Some(page_at) if self.enter(page_at) => self.at = self.len() - 1,
            _ => self.invalidate(),
        }
    }

    /// Moves to the first key at or above `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) {
        if self.enter_for(key) {
            self.at = self.count_below(key);
            if self.at == self.len() {
                self.first_from(self.page_at + 1);
            }
        }
    }

    /// Moves to the last key below `key`.
    pub(crate) fn seek_before(&mut self, key: &[u8]) {
        if self.enter_for(key) {
            match self.count_below(key).checked_sub(1) {
                Some(at) => self.at = at,
                None => self.last_before(self.page_at),
            }
        }
    }

    pub(crate) fn seek_first(&mut self) {
        self.first_from(0);
    }

    pub(crate) fn seek_last(&mut self) {
        self.last_before(self.pages_len());
    }

    /// Prefetches the current key into the processor's cache, if there is one.
    #[inline]
    pub(crate) fn fetch(&self) {
        if let Some(record) = self.record_at(self.at) {
            record.fetch_key();
        }
    }

    /// Moves to the next key. The cursor must be valid.
    pub(crate) fn next(&mut self) {
        debug_assert!(self.valid());
        #[cfg(test)]
        STEPS.set(STEPS.get() + 1);
        self.at += 1;
        if self.at >= self.len() {
            self.first_from(self.page_at + 1);
        }
    }

    /// Moves to the previous key. The cursor must be valid.
    pub(crate) fn prev(&mut self) {
        debug_assert!(self.valid());
        #[cfg(test)]
        STEPS.set(STEPS.get() + 1);
        match self.at.checked_sub(1) {
            Some(at) => self.at = at,
            None => self.last_before(self.page_at),
        }
    }

    pub(crate) fn valid(&self) -> bool {
        self.at < self.len()
    }

    /// The key. The cursor must be valid.
    pub(crate) fn key(&self) -> &'g [u8] {
        self.key_at(self.at)
    }

    /// Estimates the records of the keys from `low` to below `high`, or to the end. It looks at the
    /// records of some pages, and assumes that the other pages are like these.
    pub(crate) fn estimate(&mut self, low: &[u8], high: Option<&[u8]>) -> DeltaShare {
        let Some((first, skipped)) = self.place_of(Some(low)) else {
            return DeltaShare::default();
        };
        let Some((last, end)) = self.place_of(high) else {
            return DeltaShare::default();
        };
        let (mut keys, mut looked_at) = (0, 0);
        let mut share = DeltaShare::default();
        let step = (last.saturating_sub(first) + 1).div_ceil(PAGES_LOOKED_AT);
        for page_at in first..=last {
            let from = if page_at == first { skipped } else { 0 };
            if page_at == last || (page_at - first).is_multiple_of(step) {
                self.enter(page_at);
                let to = if page_at == last { end } else { self.len() };
                let records = (from..to).filter_map(|at| self.record_at(at));
                records.for_each(|record| share.add(record));
                keys += to.saturating_sub(from);
                looked_at += to.saturating_sub(from);
            } else {
                keys += self.page_len(page_at).saturating_sub(from);
            }
        }
        share.scaled(keys, looked_at)
    }

    /// The page of a key, and the number of its keys below `key`. With `None` it is the place
    /// behind the last key. Returns `None` in an empty delta.
    fn place_of(&mut self, key: Option<&[u8]>) -> Option<(usize, usize)> {
        let Some(key) = key else {
            let last = self.pages_len().checked_sub(1)?;
            return Some((last, self.page_len(last)));
        };
        self.enter_for(key)
            .then(|| (self.page_at, self.count_below(key)))
    }

    fn page_len(&self, page_at: usize) -> usize {
        match self.pages {
            Pages::Single(page) => page.len(),
            Pages::Many(directory) => directory.page(page_at).len(),
            Pages::None => 0,
        }
    }

    /// The newest committed record of the key with a version up to `at`.
    pub(crate) fn newest_at(&self, at: Version) -> Option<&'g Record> {
        self.versions()
            .find(|record| record.version().is_seen_at(at))
    }

    /// The committed records of the key, newest first.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &'g Record> + use<'g> {
        self.record_at(self.at)
            .into_iter()
            .flat_map(chain)
            .filter(|record| record.is_committed())
    }
}
