//! [`Cursor`]: a key range as one moment sees it, from both ends.
//!
//! ```text
//!   low [ front -> ....................... <- back ] high
//! ```
//! The two ends are independent ([`super::end`]), and each is made when it is first moved. They
//! meet by comparing keys: each goes no further than the place of the other one. A seek moves one
//! end, and the other one stays where it is.
//!
//! An error is sticky: every later call returns it again, at either end.

use super::end::{Direction, End};
use super::iter::KeyCursor;
use super::moment::Moment;
use crate::error::{Error, Result};
use crate::keyspace::{KeyspaceState, View};
use crate::value::Value;
use evendb_base::sync::Arc;
use evendb_storage::codec::successor;

/// A cursor that lends the bytes of one record at a time, from either end of its range.
///
/// It sees the moment at which it was made, as long as it lives. Old versions that it needs are
/// kept until it is dropped.
///
/// A cursor that failed stays where it is: from then on both ends return the same error. A loop
/// over it must leave at an error, as `?` does.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb_flsm::Db::open(dir.path()).unwrap();
/// db.put("a", "1").unwrap();
/// let mut cursor = db.cursor::<&str>(..);
/// while let Some((key, value)) = cursor.next().unwrap() {
///     assert_eq!((key, value), (&b"a"[..], &b"1"[..]));
/// }
/// ```
pub struct Cursor {
    /// The sources of its records, unless the cursor could not be made.
    source: Option<(Arc<Moment>, Arc<View>)>,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    front: Side,
    back: Side,
    error: Option<Error>,
}

/// One end, and its place.
#[derive(Default)]
struct Side {
    end: Option<End>,
    /// The end has to seek before its next move: it was not moved yet, or it is not at this place.
    must_seek: bool,
    /// Nothing is left on this side, as long as no seek comes.
    is_exhausted: bool,
    /// The bound for the other side. Front: keys below it are taken or passed. Back: keys from it
    /// on are taken or passed; `None` means no limit.
    bound: Option<Vec<u8>>,
    /// Front: the key `bound` itself is taken, too.
    is_taken: bool,
}

impl Cursor {
    pub(crate) fn new(
        moment: Result<Arc<Moment>>,
        keyspace: &KeyspaceState,
        low: Vec<u8>,
        high: Option<Vec<u8>>,
    ) -> Cursor {
        let source = moment.and_then(|moment| {
            keyspace.check_there_at(moment.at())?;
            Ok((moment, keyspace.view.load_full()))
        });
        let (source, error) = match source {
            Ok(source) => (Some(source), None),
            Err(error) => (None, Some(error)),
        };
        let side = |bound| Side {
            must_seek: true,
            bound,
            ..Side::default()
        };
        Cursor {
            source,
            front: side(Some(low.clone())),
            back: side(high.clone()),
            low,
            high,
            error,
        }
    }

    /// The next record in key order: key and value, valid until the cursor moves again.
    ///
    /// # Errors
    /// `Io` or `Corruption` if a table cannot be read, `Closed` after the database was closed. If
    /// the cursor could not be made, the first call already returns the reason: `KeyspaceDropped`,
    /// or `InvalidArgument` for a keyspace of another database than the snapshot's. Errors are
    /// sticky.
    #[expect(
        clippy::should_implement_trait,
        reason = "a lending iterator cannot be an Iterator"
    )]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(Direction::Forward)
    }

    /// The next record from the end of the range, in reverse key order.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_back(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(Direction::Backward)
    }

    /// Moves the front of the remaining range. [`next`](Self::next) then returns the first record
    /// whose key is `key` or above, up to the place of the back. The front may also move back.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        let to = key.as_ref().max(&self.low).to_vec();
        self.front.move_to(to);
        self.back.is_exhausted = false;
    }

    /// Moves the back of the remaining range. [`next_back`](Self::next_back) then returns the last
    /// record whose key is `key` or below. See [`seek`](Self::seek).
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) {
        let end = successor(key.as_ref());
        let to = match &self.high {
            Some(high) if *high < end => high.clone(),
            _ => end,
        };
        self.back.move_to(to);
        self.front.is_exhausted = false;
    }

    /// The same cursor, which returns only keys.
    #[must_use = "the cursor of keys is returned"]
    pub fn keys_only(self) -> KeyCursor {
        KeyCursor::new(self)
    }

    fn step(&mut self, direction: Direction) -> Result<Option<(&[u8], &[u8])>> {
        match self.advance(direction)? {
            true => Ok(Some(self.current(direction))),
            false => Ok(None),
        }
    }

    /// The record to which an end has moved.
    pub(super) fn current(&self, direction: Direction) -> (&[u8], &[u8]) {
        let side = match direction {
            Direction::Forward => &self.front,
            Direction::Backward => &self.back,
        };
        let end = side.end.as_ref().expect("an end that was advanced");
        end.current()
    }

    /// The current record, as handles.
    pub(super) fn current_values(&self, direction: Direction) -> (Value, Value) {
        let (key, value) = self.current(direction);
        (Value::copied(key), Value::copied(value))
    }

    /// Moves an end to the next record. Returns whether there is one.
    pub(super) fn advance(&mut self, direction: Direction) -> Result<bool> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let moved = self
            .try_advance(direction)
            .map_err(|error| match &self.source {
                Some((moment, _)) => moment.engine().health.of_read(error),
                None => error,
            });
        if let Err(error) = &moved {
            self.error = Some(error.clone());
        }
        moved
    }

    fn try_advance(&mut self, direction: Direction) -> Result<bool> {
        let Some((moment, view)) = &self.source else {
            return Ok(false);
        };
        moment.engine().health.check_readable()?;
        let (side, other) = match direction {
            Direction::Forward => (&mut self.front, &self.back),
            Direction::Backward => (&mut self.back, &self.front),
        };
        if side.is_exhausted || side.has_met(other, direction) {
            return Ok(false);
        }
        let bound = match direction {
            Direction::Forward => self.high.as_deref(),
            Direction::Backward => Some(&*self.low).filter(|low| !low.is_empty()),
        };
        let end = side.end.get_or_insert_with(|| {
            End::new(moment.engine(), view.clone(), moment.at(), direction, bound)
        });
        if std::mem::take(&mut side.must_seek) {
            match (&side.bound, side.is_taken) {
                (Some(taken), true) => end.seek(moment.engine(), Some(&successor(taken)))?,
                (bound, _) => end.seek(moment.engine(), bound.as_deref())?,
            }
        }
        let is_there = end.advance()? && other.leaves(end.current().0, direction);
        match is_there {
            true => side.pass(direction),
            false => {
                side.is_exhausted = true;
                // A seek of the other side may leave more records.
                side.must_seek = true;
            }
        }
        Ok(is_there)
    }
}

impl Side {
    fn move_to(&mut self, to: Vec<u8>) {
        self.bound = Some(to);
        self.is_taken = false;
        self.must_seek = true;
        self.is_exhausted = false;
    }

    /// Notes that the end is on a record, which is returned to the caller.
    fn pass(&mut self, direction: Direction) {
        let Some(end) = &self.end else { return };
        let bound = self.bound.get_or_insert_default();
        bound.clear();
        bound.extend_from_slice(end.current().0);
        self.is_taken = direction == Direction::Forward;
    }

    /// Whether nothing is left between this side, which moves in `direction`, and the other one.
    fn has_met(&self, other: &Side, direction: Direction) -> bool {
        let (front, back) = match direction {
            Direction::Forward => (self, other),
            Direction::Backward => (other, self),
        };
        match (&front.bound, &back.bound) {
            (Some(front), Some(back)) => front >= back,
            _ => false,
        }
    }

    /// Whether this side has not passed the key yet. The other side moves towards it in
    /// `direction`.
    fn leaves(&self, key: &[u8], direction: Direction) -> bool {
        let bound = self.bound.as_deref();
        bound.is_none_or(|bound| match direction {
            Direction::Forward => key < bound,
            Direction::Backward => key > bound || (key == bound && !self.is_taken),
        })
    }
}
