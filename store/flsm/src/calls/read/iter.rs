//! Iterators over a cursor: [`Iter`], whose items are pairs of handles, and [`Keys`], whose items
//! are keys.
//!
//! Both end after an error, which is their last item, and after the number of items that
//! [`Iter::limit`] allows. An iterator belongs to one thread at a time.

use super::cursor::Cursor;
use super::end::Direction;
use crate::error::Result;
use crate::value::Value;
use std::iter::FusedIterator;

/// An iterator over a key range, as one moment sees it, from both ends.
///
/// An error is the last item. After it both ends return `None`, whichever end met it. After a seek
/// the error comes once more.
///
/// Until it is dropped, an iterator or a cursor keeps what it reads: the files of its tables, and
/// the memory tables of the moment when it was made. After their flush the memory budget does not
/// count these memory tables. A [`Snapshot`](crate::Snapshot) keeps neither; it keeps old versions.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb_flsm::Db::open(dir.path()).unwrap();
/// db.put("a", "1").unwrap();
/// db.put("b", "2").unwrap();
/// let keys: Vec<_> = db.iter().rev().map(|item| item.unwrap().0.to_vec()).collect();
/// assert_eq!(keys, [b"b", b"a"]);
/// ```
pub struct Iter(Limited);

/// An iterator over the keys of a range, as one moment sees it, from both ends. An error is the
/// last item, as for [`Iter`].
///
/// ```
/// # fn main() -> evendb_flsm::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb_flsm::Db::open(dir.path())?;
/// db.put("a", "a long value")?;
/// db.put("b", "another one")?;
/// let keys = db.keys::<&str>(..).collect::<evendb_flsm::Result<Vec<_>>>()?;
/// assert_eq!(keys, ["a", "b"]);
/// # Ok(())
/// # }
/// ```
pub struct Keys(Limited);

/// A cursor, and the number of items that may still come.
struct Limited {
    cursor: Cursor,
    left: u64,
    failed: bool,
}

impl Limited {
    fn new(cursor: Cursor) -> Limited {
        Limited {
            cursor,
            left: u64::MAX,
            failed: false,
        }
    }

    /// The cursor, for a seek. An earlier error is returned once more, so that the caller does not
    /// take the end after it for the end of the records.
    fn seeking(&mut self) -> &mut Cursor {
        self.failed = false;
        &mut self.cursor
    }

    fn step<T>(
        &mut self,
        direction: Direction,
        take: impl FnOnce(&Cursor, Direction) -> T,
    ) -> Option<Result<T>> {
        if self.failed || self.left == 0 {
            return None;
        }
        match self.cursor.advance(direction) {
            Ok(true) => {
                self.left -= 1;
                Some(Ok(take(&self.cursor, direction)))
            }
            Ok(false) => None,
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

fn key(cursor: &Cursor, direction: Direction) -> Value {
    Value::copied(cursor.current(direction).0)
}

impl Iter {
    pub(crate) fn new(cursor: Cursor) -> Iter {
        Iter(Limited::new(cursor))
    }

    /// Ends after `items` more items, counted over both ends.
    #[must_use = "the iterator with the limit is returned"]
    pub fn limit(mut self, items: u64) -> Iter {
        self.0.left = self.0.left.min(items);
        self
    }

    /// Moves the front, as [`Cursor::seek`]. After an error the error comes once more. At the limit
    /// no item comes.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        self.0.seeking().seek(key);
    }

    /// Moves the back, as [`Cursor::seek_back`]. After an error the error comes once more. At the
    /// limit no item comes.
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) {
        self.0.seeking().seek_back(key);
    }
}

impl Iterator for Iter {
    type Item = Result<(Value, Value)>;
    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(Direction::Forward, Cursor::current_values)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.step(Direction::Backward, Cursor::current_values)
    }
}

// An end that returned `None` returns nothing else until a seek.
impl FusedIterator for Iter {}

impl Keys {
    pub(crate) fn new(cursor: Cursor) -> Keys {
        Keys(Limited::new(cursor))
    }

    /// Ends after `items` items, as [`Iter::limit`].
    #[must_use = "the iterator with the limit is returned"]
    pub fn limit(mut self, items: u64) -> Keys {
        self.0.left = self.0.left.min(items);
        self
    }

    /// Moves the front, as [`Cursor::seek`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        self.0.seeking().seek(key);
    }

    /// Moves the back, as [`Cursor::seek_back`].
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) {
        self.0.seeking().seek_back(key);
    }
}

impl Iterator for Keys {
    type Item = Result<Value>;
    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(Direction::Forward, key)
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.step(Direction::Backward, key)
    }
}

// As `Iter`.
impl FusedIterator for Keys {}

/// A cursor that lends keys: [`Cursor::keys_only`]. It has the errors of a [`Cursor`].
pub struct KeyCursor(Cursor);

impl KeyCursor {
    pub(super) fn new(cursor: Cursor) -> KeyCursor {
        KeyCursor(cursor)
    }

    /// The next key, valid until the cursor moves again.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    #[expect(
        clippy::should_implement_trait,
        reason = "a lending iterator cannot be an Iterator"
    )]
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        self.step(Direction::Forward)
    }

    /// The next key from the end of the range, in reverse key order.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    pub fn next_back(&mut self) -> Result<Option<&[u8]>> {
        self.step(Direction::Backward)
    }

    fn step(&mut self, direction: Direction) -> Result<Option<&[u8]>> {
        Ok(match self.0.advance(direction)? {
            true => Some(self.0.current(direction).0),
            false => None,
        })
    }

    /// Moves the front, as [`Cursor::seek`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        self.0.seek(key);
    }

    /// Moves the back, as [`Cursor::seek_back`].
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) {
        self.0.seek_back(key);
    }
}
