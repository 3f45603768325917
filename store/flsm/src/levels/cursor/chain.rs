//! [`Chain`]: sources whose keys lie one behind the other. Each is opened when the cursor gets
//! there.
//!
//! At most one link is open: the one that the cursor is in. Empty links are passed over unopened.

use super::{EntryCursor, Reads};
use evendb_storage::table::Target;
use evendb_storage::{EntryRef, Result};

/// The sources of a [`Chain`]: all keys of one are below all keys of the next.
pub(crate) trait Links: Send {
    /// How many there are.
    fn count(&self) -> usize;
    /// The first source that may have a key `>= key`; [`Links::count`] if none has. The sources
    /// behind it have no key below `key`.
    fn find(&self, key: &[u8]) -> usize;
    /// The last source that may have a key `< key`, if there is one. The sources behind it have no
    /// such key.
    fn find_below(&self, key: &[u8]) -> Option<usize>;
    /// Whether all keys of source `at` are outside of what the reader wants, and so are all keys of
    /// the links behind it, in the direction in which the reader comes. Then the source need not be
    /// opened.
    fn is_outside(&self, _at: usize) -> bool {
        false
    }
    /// A cursor over source `at`, on no record yet. `None` if the source has no records.
    fn open(&self, at: usize) -> Result<Option<Box<dyn EntryCursor>>>;
}

/// See the module.
pub(crate) struct Chain<L> {
    links: L,
    /// The number of the open link.
    at: usize,
    open: Option<Box<dyn EntryCursor>>,
}

impl<L: Links> Chain<L> {
    /// A chain that is on no record and has no link open.
    pub(crate) fn new(links: L) -> Chain<L> {
        Chain {
            links,
            at: 0,
            open: None,
        }
    }

    /// Opens link `at`, unless it is open; `None` if it has no records.
    fn link(&mut self, at: usize) -> Result<Option<&mut dyn EntryCursor>> {
        if self.open.is_none() || self.at != at {
            self.open = None;
            self.open = self.links.open(at)?;
            self.at = at;
        }
        Ok(match &mut self.open {
            Some(cursor) => Some(&mut **cursor),
            None => None,
        })
    }

    /// Moves within link `at`. Returns whether the cursor is then on a record.
    fn enter(
        &mut self,
        at: usize,
        seek: impl FnOnce(&mut dyn EntryCursor) -> Result<()>,
    ) -> Result<bool> {
        let Some(cursor) = self.link(at)? else {
            return Ok(false);
        };
        seek(cursor)?;
        Ok(cursor.valid())
    }

    /// Moves to the first record of the links from `at` on.
    fn first_from(&mut self, mut at: usize) -> Result<()> {
        while at < self.links.count() && !self.links.is_outside(at) {
            if self.enter(at, |cursor| cursor.seek_first())? {
                return Ok(());
            }
            at += 1;
        }
        self.open = None;
        Ok(())
    }

    /// Moves to the last record of the links before `end`.
    fn last_before(&mut self, mut end: usize) -> Result<()> {
        while end > 0 {
            end -= 1;
            if self.links.is_outside(end) {
                break;
            }
            if self.enter(end, |cursor| cursor.seek_last())? {
                return Ok(());
            }
        }
        self.open = None;
        Ok(())
    }

    /// Leaves the cursor on no record after an error.
    fn or_none(&mut self, moved: Result<()>) -> Result<()> {
        if moved.is_err() {
            self.open = None;
        }
        moved
    }

    /// The link in which a seek begins.
    fn find(&self, target: Target<'_>) -> Option<usize> {
        let count = self.links.count();
        match target {
            Target::From(key) => Some(self.links.find(key)).filter(|&at| at < count),
            Target::Before(key) => self.links.find_below(key),
            Target::First => (count > 0).then_some(0),
            Target::Last => count.checked_sub(1),
        }
    }

    fn try_aim(&mut self, target: Target<'_>, reads: &mut Reads) -> Result<()> {
        let Some(at) = self.find(target) else {
            self.open = None;
            return Ok(());
        };
        match self.link(at)? {
            Some(cursor) => cursor.aim(target, reads),
            None => Ok(()),
        }
    }

    fn try_seek(&mut self, key: &[u8]) -> Result<()> {
        let at = self.links.find(key);
        if at < self.links.count() && self.enter(at, |cursor| cursor.seek(key))? {
            return Ok(());
        }
        self.first_from(at.saturating_add(1))
    }

    fn try_seek_before(&mut self, key: &[u8]) -> Result<()> {
        let at = self.links.find_below(key);
        if let Some(at) = at
            && self.enter(at, |cursor| cursor.seek_before(key))?
        {
            return Ok(());
        }
        self.last_before(at.unwrap_or(0))
    }

    fn try_next(&mut self) -> Result<()> {
        if let Some(cursor) = self.open.as_mut().filter(|cursor| cursor.valid()) {
            cursor.next()?;
            if !cursor.valid() {
                return self.first_from(self.at + 1);
            }
        }
        Ok(())
    }

    fn try_prev(&mut self) -> Result<()> {
        if let Some(cursor) = self.open.as_mut().filter(|cursor| cursor.valid()) {
            cursor.prev()?;
            if !cursor.valid() {
                return self.last_before(self.at);
            }
        }
        Ok(())
    }
}

impl<L: Links> EntryCursor for Chain<L> {
    fn valid(&self) -> bool {
        self.open.as_ref().is_some_and(|cursor| cursor.valid())
    }
    fn aim(&mut self, target: Target<'_>, reads: &mut Reads) -> Result<()> {
        let aimed = self.try_aim(target, reads);
        self.or_none(aimed)
    }
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let moved = self.try_seek(key);
        self.or_none(moved)
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let moved = self.try_seek_before(key);
        self.or_none(moved)
    }
    fn seek_first(&mut self) -> Result<()> {
        let moved = self.first_from(0);
        self.or_none(moved)
    }
    fn seek_last(&mut self) -> Result<()> {
        let moved = self.last_before(self.links.count());
        self.or_none(moved)
    }
    fn next(&mut self) -> Result<()> {
        let moved = self.try_next();
        self.or_none(moved)
    }
    fn prev(&mut self) -> Result<()> {
        let moved = self.try_prev();
        self.or_none(moved)
    }
    fn entry(&self) -> EntryRef<'_> {
        let cursor = self.open.as_ref();
        cursor
            .expect("entry of a cursor that is on no record")
            .entry()
    }
}
