//! Cursors over a key range, as one snapshot sees it, from both ends.
//!
//! ```text
//! low [ front.buffer | .......... | back.buffer ] high
//!        taken ^ ->                  <- ^ taken
//! ```
//!
//! An end ([`End`]) keeps a key and a bounded buffer, no view and no root: a refill looks the key
//! up in the current root, so splits, merges and evictions in between do not matter. The scan of
//! the tables goes on without a seek only if the key leads to the same funk as before, and if the
//! scan has all tables that are needed now. The ends meet by comparing keys. A seek moves one end,
//! and the other one stays where it is.
//!
//! A cursor's error is sticky: every later call returns it again, at either end. An iterator
//! ([`crate::read::iter`]) gives it once and then ends, so that code that collects or counts comes
//! to an end.
//!
//! Thread safety: one thread at a time has a cursor. Not here: how an end is refilled
//! ([`crate::read::refill`]).

pub(crate) mod end;
pub(crate) mod fill;
pub(crate) mod iter;

use crate::catalog::KeyspaceState;
use crate::error::{Error, Result};
use crate::fork;
pub(crate) use crate::op::prefix_end;
use crate::read::buffer::Buffer;
use crate::read::end::{End, RECORDS_MAX, RECORDS_MIN};
use crate::read::get::get_at;
use crate::read::iter::KeyCursor;
pub(crate) use crate::read::iter::{Iter, Keys};
use crate::read::moment::Moment;
use crate::read::tables::Direction;
use crate::recording::scan::ScanRecord;
use crate::sync::Arc;
use crate::value::Value;
pub(crate) use evendb_base::key_range::limits;
use evendb_storage::Apart;
pub(crate) use evendb_storage::codec::successor;
use std::time::Instant;

/// The first refill takes as many records as a scan usually takes; this is the number while the
/// usual one is unknown. Each further refill takes the rest of that number, or half of all that
/// came before.
const FIRST_RECORDS: usize = 32;
/// A cursor that lends the bytes of one record at a time, from either end of its range.
///
/// It sees the moment at which it was made, however long it lives; old versions that it needs are
/// kept until it is dropped. No reference is counted per record, so it is the fastest way to
/// scan.
///
/// A cursor that failed stays where it is: both ends return the same error from then on. A loop
/// over it leaves at an error, as `?` does; one that goes on after errors would never end.
/// ([`Iter`] gives an error once, and ends.)
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb::Db::open(dir.path()).unwrap();
/// db.put("a", "1").unwrap();
/// let mut cursor = db.cursor::<&str>(..);
/// while let Some((key, value)) = cursor.next().unwrap() {
///     assert_eq!((key, value), (&b"a"[..], &b"1"[..]));
/// }
/// ```
pub struct Cursor {
    pub(crate) moment: Option<Arc<Moment>>,
    pub(crate) keyspace: Arc<KeyspaceState>,
    pub(crate) low: Vec<u8>,
    pub(crate) high: Option<Vec<u8>>,
    pub(crate) front: End,
    pub(crate) back: End,
    /// The caller gave a hint of the records it wants, so this cursor says nothing about other
    /// scans.
    hinted: bool,
    error: Option<Error>,
    /// The value of the record last given, if it lies apart.
    in_place: Option<Value>,
    /// The part of a trace that this scan makes, if one is recorded.
    record: Option<Box<ScanRecord>>,
    /// Whether the step under way may read files; and whether it would have had to.
    pub(crate) may_read: bool,
    pub(crate) would_read: bool,
}

impl Cursor {
    pub(crate) fn new(
        moment: Result<Arc<Moment>>,
        keyspace: Arc<KeyspaceState>,
        low: Vec<u8>,
        high: Option<Vec<u8>>,
    ) -> Cursor {
        let checked = moment.and_then(|moment| {
            keyspace.check_readable_at(moment.version())?;
            Ok(moment)
        });
        let (moment, error) = match checked {
            Ok(moment) => {
                moment.engine().core.metrics.scans.add(1);
                (Some(moment), None)
            }
            Err(error) => (None, Some(error)),
        };
        let empty = high.as_ref().is_some_and(|high| *high <= low);
        let records = match keyspace.usual_scan() {
            Some(1) => 1,
            usual => usual
                .unwrap_or(FIRST_RECORDS)
                .clamp(RECORDS_MIN, RECORDS_MAX),
        };
        let mut cursor = Cursor {
            moment,
            keyspace,
            front: End::new(Some(low.clone()), records),
            back: End::new(high.clone(), records),
            low,
            high,
            hinted: false,
            error,
            in_place: None,
            record: None,
            may_read: true,
            would_read: false,
        };
        cursor.front.exhausted = empty;
        cursor.back.exhausted = empty;
        cursor
    }

    /// The same cursor, with `record` for a trace.
    #[inline]
    pub(crate) fn recorded(mut self, record: Option<Box<ScanRecord>>) -> Cursor {
        self.record = record;
        self
    }

    /// The moment that the cursor sees, unless the cursor could not be made.
    pub(crate) fn moment(&self) -> Option<Arc<Moment>> {
        self.moment.clone()
    }

    /// The next record in key order: key and value, valid until the cursor moves again.
    ///
    /// # Errors
    /// Of kind `Io` or `Corruption` if a table cannot be read, and `Closed` after the database was
    /// closed. If the cursor could not be made, the first call returns the reason
    /// (`KeyspaceDropped`, or `InvalidArgument` for a keyspace of another database than the
    /// snapshot's). Sticky: later calls, of [`next_back`](Self::next_back) too, return the same
    /// error.
    #[expect(
        clippy::should_implement_trait,
        reason = "a lending iterator cannot be an Iterator"
    )]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Ok(if self.advance(Direction::Forward)? {
            Some(self.current(Direction::Forward))
        } else {
            None
        })
    }

    /// The next record from the end of the range, in reverse key order.
    ///
    /// # Errors
    /// The errors of [`next`](Self::next).
    pub fn next_back(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Ok(if self.advance(Direction::Backward)? {
            Some(self.current(Direction::Backward))
        } else {
            None
        })
    }

    /// Moves the front of the remaining range: [`next`](Self::next) then gives the first record of
    /// the cursor's range whose key is `key` or above, ahead or behind.
    ///
    /// The remaining range lies between the cursor's two ends. Each seek moves one end, to anywhere
    /// in the cursor's range, and leaves the other one where it is: [`next_back`](Self::next_back)
    /// then goes down to `key`, and `next` goes up to the last record that the other end gave. If
    /// the ends have crossed, nothing remains, until a seek moves one back. A record is given a
    /// second time only where a seek went back over it. The moment stays that of the cursor.
    ///
    /// A seek reads nothing. A seek to a key that is already gathered takes a look into the buffer;
    /// otherwise the next call gathers again, like the first call of a new cursor.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// for key in ["a", "c", "e", "g"] {
    ///     db.put(key, "")?;
    /// }
    /// let mut cursor = db.cursor::<&str>(..);
    /// cursor.seek("d");
    /// assert_eq!(cursor.next()?.unwrap().0, b"e");
    /// cursor.seek("a");
    /// assert_eq!(cursor.next()?.unwrap().0, b"a");
    /// cursor.seek_back("f");
    /// assert_eq!(cursor.next_back()?.unwrap().0, b"e");
    /// assert_eq!(cursor.next_back()?.unwrap().0, b"c");
    /// // `a` was given by the other end.
    /// assert!(cursor.next_back()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        let to = key.as_ref().max(&self.low).to_vec();
        self.move_end(Direction::Forward, to);
    }

    /// Moves the back of the remaining range: [`next_back`](Self::next_back) then gives the last
    /// record of the cursor's range whose key is `key` or below. See [`seek`](Self::seek).
    #[doc(alias = "seek_for_prev")]
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) {
        let end = successor(key.as_ref());
        let to = match &self.high {
            Some(high) if *high < end => high.clone(),
            _ => end,
        };
        self.move_end(Direction::Backward, to);
    }

    /// Says that about `records` records are wanted of each end, until it is sought again: that
    /// number is gathered first. It is a hint: the cursor goes on behind them. Without it the first
    /// refill gathers about what scans of this keyspace took so far: one record if scans usually
    /// took one, otherwise 16 to 512 records.
    #[must_use = "the cursor with the hint is returned"]
    pub fn limit_hint(mut self, records: u64) -> Cursor {
        self.expect(records);
        self
    }

    /// See [`limit_hint`](Self::limit_hint).
    pub(crate) fn expect(&mut self, records: u64) {
        let records = usize::try_from(records).unwrap_or(usize::MAX).max(1);
        self.hinted = true;
        if let Some(record) = &mut self.record {
            record.limit = Some(records as u64);
        }
        self.front.expect(records);
        self.back.expect(records);
    }

    /// Becomes a new cursor over its range, at the same moment and with the same hints; what
    /// remains of it lies from `front` to below `back`.
    pub(crate) fn begin_anew(&mut self, front: Vec<u8>, back: Option<Vec<u8>>) {
        let Some(moment) = self.moment.clone().filter(|_| !fork::is_child()) else {
            // Every call fails anyway.
            return;
        };
        let (low, high) = (self.low.clone(), self.high.clone());
        let mut anew = Cursor::new(Ok(moment), self.keyspace.clone(), low, high);
        if self.front.keys_only {
            anew = anew.keys_only().into_cursor();
        }
        if self.hinted {
            anew.expect(self.front.usual() as u64);
        }
        anew.move_end(Direction::Forward, front);
        if let Some(back) = back {
            anew.move_end(Direction::Backward, back);
        }
        *self = anew;
    }

    /// The same cursor without values: see [`KeyCursor`].
    #[must_use = "the cursor of keys is returned"]
    pub fn keys_only(mut self) -> KeyCursor {
        if let Some(record) = &mut self.record {
            record.keys_only = true;
        }
        self.front.keys_only = true;
        self.back.keys_only = true;
        KeyCursor::new(self)
    }

    /// Seeks an end of the range to `to`: the front's keys are then `to` and above, the back's keys
    /// are below `to`.
    fn move_end(&mut self, direction: Direction, to: Vec<u8>) {
        let Some(moment) = self.moment.as_ref().filter(|_| !fork::is_child()) else {
            // Every call fails anyway.
            return;
        };
        let metrics = &moment.engine().core.metrics;
        let (end, nothing) = match direction {
            Direction::Forward => {
                let behind = self.high.as_ref().is_some_and(|high| *high <= to);
                (&mut self.front, behind)
            }
            Direction::Backward => (&mut self.back, to <= self.low),
        };
        let before = end.given();
        if let Some(record) = &mut self.record {
            record.sought(direction == Direction::Backward, &to);
        }
        let in_buffer = match nothing {
            true => {
                end.seek_nothing(direction, to, metrics);
                false
            }
            false => end.seek(direction, to, metrics),
        };
        // For the usual length of scans, what follows a seek is another scan.
        if !in_buffer && before > 0 && !self.hinted {
            self.keyspace.note_scan(before);
        }
    }

    /// The value of a key at the cursor's moment, wherever the cursor is.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let Some(moment) = &self.moment else {
            return Ok(None);
        };
        get_at(moment.engine(), &self.keyspace, key, moment.point())
    }

    /// The record that this end has given last.
    #[inline]
    fn current(&self, direction: Direction) -> (&[u8], &[u8]) {
        let buffer = self.buffer(direction);
        match &self.in_place {
            None => buffer.current(),
            Some(value) => (buffer.current_key(), value),
        }
    }

    /// Like [`current`](Self::current), as handles.
    #[inline]
    pub(crate) fn current_values(&self, direction: Direction) -> (Value, Value) {
        let buffer = self.buffer(direction);
        match &self.in_place {
            None => buffer.current_values(),
            Some(value) => (buffer.current_key_value(), value.clone()),
        }
    }

    /// Reads the value of the record that an end is about to give, if it lies apart. Returns false
    /// if the key has no value after all, which only operands over a value can cause.
    #[cold]
    fn read_apart(&mut self, direction: Direction, place: Option<Apart>) -> Result<bool> {
        let Some(moment) = &self.moment else {
            return Ok(false);
        };
        let engine = moment.engine();
        if let Some(place) = place
            && let Some(bytes) = engine.core.value_files.read(&place)?
        {
            self.in_place = Some(Value::of_bytes(bytes));
            return Ok(true);
        }
        let key = self.buffer(direction).current_key().to_vec();
        self.in_place = self.get(&key)?;
        Ok(self.in_place.is_some())
    }

    /// The buffer of an end.
    #[inline]
    pub(crate) fn buffer(&self, direction: Direction) -> &Buffer {
        match direction {
            Direction::Forward => &self.front.buffer,
            Direction::Backward => &self.back.buffer,
        }
    }

    #[inline]
    pub(crate) fn advance(&mut self, direction: Direction) -> Result<bool> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        fork::check()?;
        let given = self
            .try_advance(direction)
            .inspect_err(|error| self.error = Some(error.clone()));
        if let Some(record) = &mut self.record {
            record.asked(direction == Direction::Backward, matches!(given, Ok(true)));
        }
        given
    }

    /// Like [`advance`](Self::advance), if that reads no file: `None` if it would have to, and then
    /// the cursor is where it was.
    pub(crate) fn advance_in_ram(&mut self, direction: Direction) -> Result<Option<bool>> {
        self.may_read = false;
        let moved = self.advance(direction);
        self.may_read = true;
        match std::mem::take(&mut self.would_read) {
            true => Ok(None),
            false => moved.map(Some),
        }
    }

    /// Whether the next step of an end finds a record without a look at the keyspace.
    pub(crate) fn has_gathered(&mut self, direction: Direction) -> bool {
        let end = match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        };
        end.buffer.look_ahead().is_some()
    }

    fn try_advance(&mut self, direction: Direction) -> Result<bool> {
        loop {
            let (end, other, opposite) = match direction {
                Direction::Forward => (&mut self.front, &self.back, Direction::Backward),
                Direction::Backward => (&mut self.back, &self.front, Direction::Forward),
            };
            if let Some(key) = end.buffer.look_ahead() {
                let met = other.has_passed(opposite, key);
                if !met && !self.may_read && end.buffer.ahead_is_apart() {
                    self.would_read = true;
                    return Ok(false);
                }
                if met || !end.buffer.take() {
                    return Ok(false);
                }
                let (keys_only, buffer) = (end.keys_only, &end.buffer);
                let place = match keys_only {
                    false => buffer.current_apart(),
                    true => buffer.current_is_asked().then_some(None),
                };
                match place {
                    None => {
                        self.in_place = None;
                        return Ok(true);
                    }
                    Some(place) => {
                        if self.read_apart(direction, place)? {
                            return Ok(true);
                        }
                        continue;
                    }
                }
            }
            if end.exhausted {
                return Ok(false);
            }
            self.gather(direction)?;
            if self.would_read {
                return Ok(false);
            }
        }
    }
}

impl Cursor {
    /// Refills an end, and takes the time if a trace is recorded.
    fn gather(&mut self, direction: Direction) -> Result<()> {
        if self.record.is_none() {
            return self.refill(direction);
        }
        let began = Instant::now();
        let refilled = self.refill(direction);
        if let Some(record) = &mut self.record {
            record.gathered(direction == Direction::Backward, began.elapsed());
        }
        refilled
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        if fork::is_child() {
            // In a forked child, tables and blocks are leaked: locks that guard them may be held
            // for ever.
            for end in [&mut self.front, &mut self.back] {
                std::mem::forget(std::mem::replace(end, End::new(None, 0)));
            }
            return;
        }
        if let Some(record) = &mut self.record {
            record.dropped(self.error.as_ref());
        }
        if let Some(moment) = &self.moment {
            if !self.hinted {
                self.keyspace
                    .note_scan(self.front.given() + self.back.given());
            }
            let metrics = &moment.engine().core.metrics;
            self.front.count_given(metrics);
            self.back.count_given(metrics);
        }
        for end in [&mut self.front, &mut self.back] {
            if !end.buffer.is_new() {
                std::mem::take(&mut end.buffer).done();
            }
        }
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cursor")
    }
}
