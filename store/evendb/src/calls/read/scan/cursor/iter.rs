//! Iterators over a cursor: [`Iter`], whose items are pairs of handles, and [`Keys`], of keys
//! alone.
//!
//! Both end after an error, which is their last item, and after the number of items that
//! [`Iter::limit`] allows. Thread safety: one thread at a time has an iterator.

use crate::error::Result;
use crate::read::cursor::Cursor;
use crate::read::tables::Direction;
use crate::value::Value;
use std::iter::FusedIterator;

/// An iterator over a key range, as one moment sees it, from both ends.
///
/// Items are handles that share the store's memory; they may be kept.
///
/// An error is the last item: after it both ends return `None`, whichever end met it, so that
/// `count`, `collect` and the like end. What was given before the error is right; the records
/// between the two ends were not read. To go on behind a damaged block, begin a new range there.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb::Db::open(dir.path()).unwrap();
/// db.put("a", "1").unwrap();
/// db.put("b", "2").unwrap();
/// let keys: Vec<_> = db.iter().rev().map(|item| item.unwrap().0.to_vec()).collect();
/// assert_eq!(keys, [b"b", b"a"]);
/// ```
pub struct Iter(Limited);

impl Iter {
    pub(crate) fn new(cursor: Cursor) -> Iter {
        Iter(Limited::new(cursor))
    }

    pub(crate) fn cursor_mut(&mut self) -> &mut Cursor {
        &mut self.0.cursor
    }

    /// Ends after `items` further items; the items of both ends count. If few are wanted, this
    /// costs less than leaving the iterator early, because no more is read ahead.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// for key in ["a", "b", "c"] {
    ///     db.put(key, "")?;
    /// }
    /// let last_two: Vec<_> = db.iter().limit(2).rev().map(|item| item.unwrap().0).collect();
    /// assert_eq!(last_two, ["c", "b"]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the iterator with the limit is returned"]
    pub fn limit(mut self, items: u64) -> Iter {
        self.0 = self.0.limit(items);
        self
    }

    /// Moves the front, as [`Cursor::seek`] does. After an error the error comes once more; at the
    /// limit still nothing comes.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        self.0.seeking().seek(key);
    }

    /// Moves the back, as [`Cursor::seek_back`] does. After an error the error comes once more; at
    /// the limit still nothing comes.
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) {
        self.0.seeking().seek_back(key);
    }

    fn step(&mut self, direction: Direction) -> Option<Result<(Value, Value)>> {
        self.0.step(direction, Cursor::current_values)
    }
}

impl Iterator for Iter {
    type Item = Result<(Value, Value)>;
    fn next(&mut self) -> Option<Self::Item> {
        self.step(Direction::Forward)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Direction::Backward)
    }
}

// Without a further seek, an end that returned `None` is exhausted, or has met the other end, which
// does not move back; or an error was given, after which both ends return `None`.
impl FusedIterator for Iter {}

/// An iterator over the keys of a range, as one moment sees it, from both ends.
/// [`Keyspace::keys`](crate::Keyspace::keys) and similar methods make it.
///
/// Values are not copied, kept or returned, and values in RAM are not touched. On disk, values lie
/// beside their keys in the same blocks: there it costs the same reads as [`Iter`].
///
/// An error is the last item, as with [`Iter`].
///
/// ```
/// # fn main() -> evendb::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb::Db::open(dir.path())?;
/// db.put("a", "a long value")?;
/// db.put("b", "another one")?;
/// let keys = db.keys::<&str>(..).collect::<evendb::Result<Vec<_>>>()?;
/// assert_eq!(keys, ["a", "b"]);
/// # Ok(())
/// # }
/// ```
pub struct Keys(Limited);

impl Keys {
    pub(crate) fn new(cursor: Cursor) -> Keys {
        Keys(Limited::new(cursor.keys_only().0))
    }

    pub(crate) fn cursor_mut(&mut self) -> &mut Cursor {
        &mut self.0.cursor
    }

    /// Ends after `items` items, as [`Iter::limit`] says.
    #[must_use = "the iterator with the limit is returned"]
    pub fn limit(mut self, items: u64) -> Keys {
        self.0 = self.0.limit(items);
        self
    }

    /// Moves the front, as [`Cursor::seek`] does.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        self.0.seeking().seek(key);
    }

    /// Moves the back, as [`Cursor::seek_back`] does.
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) {
        self.0.seeking().seek_back(key);
    }

    fn step(&mut self, direction: Direction) -> Option<Result<Value>> {
        let key = |cursor: &Cursor, direction| cursor.buffer(direction).current_key_value();
        self.0.step(direction, key)
    }
}

impl Iterator for Keys {
    type Item = Result<Value>;
    fn next(&mut self) -> Option<Self::Item> {
        self.step(Direction::Forward)
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Direction::Backward)
    }
}

// For the same reasons as `Iter`.
impl FusedIterator for Keys {}

/// A cursor that lends keys and leaves values alone: [`Cursor::keys_only`]. For values the text of
/// [`Keys`] holds here, and for errors that of [`Cursor`].
pub struct KeyCursor(Cursor);

impl KeyCursor {
    pub(crate) fn new(cursor: Cursor) -> KeyCursor {
        KeyCursor(cursor)
    }

    pub(crate) fn into_cursor(self) -> Cursor {
        self.0
    }

    /// The next key, valid until the cursor moves again.
    ///
    /// # Errors
    /// The errors of [`Cursor::next`].
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
    /// The errors of [`Cursor::next`].
    pub fn next_back(&mut self) -> Result<Option<&[u8]>> {
        self.step(Direction::Backward)
    }

    fn step(&mut self, direction: Direction) -> Result<Option<&[u8]>> {
        Ok(match self.0.advance(direction)? {
            true => Some(self.0.buffer(direction).current_key()),
            false => None,
        })
    }

    /// Moves the front, as [`Cursor::seek`] does.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        self.0.seek(key);
    }

    /// Moves the back, as [`Cursor::seek_back`] does.
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) {
        self.0.seek_back(key);
    }

    /// Says how many keys are wanted, as [`Cursor::limit_hint`] does.
    #[must_use = "the cursor with the hint is returned"]
    pub fn limit_hint(self, records: u64) -> KeyCursor {
        KeyCursor(self.0.limit_hint(records))
    }
}

/// A cursor that gives a limited number of items, and none after an error until it is sought.
struct Limited {
    cursor: Cursor,
    left: u64,
    /// Its last item was an error.
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

    fn limit(self, items: u64) -> Limited {
        Limited {
            left: self.left.min(items),
            cursor: self.cursor.limit_hint(items),
            ..self
        }
    }

    /// The cursor, which is about to be sought. An earlier error is told again, so that nobody
    /// takes the end of the items for the end of the records.
    fn seeking(&mut self) -> &mut Cursor {
        self.failed = false;
        &mut self.cursor
    }

    /// The next item at an end; `item` makes it of the cursor's current record.
    fn step<T>(
        &mut self,
        direction: Direction,
        item: impl FnOnce(&Cursor, Direction) -> T,
    ) -> Option<Result<T>> {
        if self.failed || self.left == 0 {
            return None;
        }
        match self.cursor.advance(direction) {
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
            Ok(false) => None,
            Ok(true) => {
                self.left -= 1;
                Some(Ok(item(&self.cursor, direction)))
            }
        }
    }
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Iter")
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

impl std::fmt::Debug for KeyCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyCursor")
    }
}
