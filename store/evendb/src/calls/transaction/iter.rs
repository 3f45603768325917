//! The records that a transaction sees in a key range: the records of its moment, and over them its
//! own writes.
//!
//! ```text
//!   moment        a   c       f          each end looks one item ahead;
//!   own writes      b   c(x)     g       of equal keys the own write decides
//!   seen          a b         f  g       x: a delete
//!
//!   front_from >>>> front ........ back <<<< back_from      the rest lies between front and back;
//!      passed by the front        passed by the back        what an end has passed since it was
//!                                                           sought counts as read
//! ```
//! Everything that an iterator has seen is a read of the transaction. Its whole range counts as
//! read when it is made. When it is dropped, only what its ends have passed still counts: up to the
//! last record that each gave, and the whole rest if an end found no more. If an iterator is never
//! dropped, the whole range counts. A seek reads nothing.
//!
//! Thread safety: belongs to the transaction's thread. Not here: whether the reads have changed.

use super::ReadList;
use super::writes::{Writes, Written};
use crate::catalog::KeyspaceState;
use crate::error::{Error, Result};
use crate::range_set::RangeSet;
use crate::read::cursor::{Cursor, Iter, Keys, successor};
use crate::recording::scan::ScanRecord;
use crate::sync::Arc;
use crate::value::Value;
use crate::write::reads::{Read, ReadSpan};
use evendb_storage::Time;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::iter::FusedIterator;
use std::ops::Bound;
use std::time::Instant;

/// The records of the moment that are merged with own writes: whole records or their keys alone.
pub(super) trait Records: DoubleEndedIterator<Item = Result<Self::Record>> {
    type Record;

    fn key(record: &Self::Record) -> &[u8];
    fn of_own(key: &[u8], value: Value) -> Self::Record;
    fn cursor(&mut self) -> &mut Cursor;
}

impl Records for Iter {
    type Record = (Value, Value);

    fn key(record: &Self::Record) -> &[u8] {
        &record.0
    }

    fn of_own(key: &[u8], value: Value) -> Self::Record {
        (Value::of_bytes(Arc::from(key)), value)
    }

    fn cursor(&mut self) -> &mut Cursor {
        self.cursor_mut()
    }
}

impl Records for Keys {
    type Record = Value;

    fn key(record: &Self::Record) -> &[u8] {
        record
    }

    fn of_own(key: &[u8], _value: Value) -> Self::Record {
        Value::of_bytes(Arc::from(key))
    }

    fn cursor(&mut self) -> &mut Cursor {
        self.cursor_mut()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

/// A place before a key, or the end of the keyspace.
type Place = Option<Box<[u8]>>;

fn is_before(a: &Place, b: &Place) -> bool {
    match (a, b) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(a), Some(b)) => a < b,
    }
}

/// The writes of a transaction to a keyspace by key, and the ranges that it deleted before them.
/// The time is the one by which the transaction reads, and decides which writes have expired.
pub(super) type Own<'t> = (Option<&'t Writes>, Option<&'t RangeSet>, Time);

/// See the module.
struct Seen<'t, R: Records> {
    moment: R,
    /// For each end: whether the moment's end was used, and the record that it gave and that is
    /// still to be given.
    used: [bool; 2],
    ahead: [Option<R::Record>; 2],
    own: Own<'t>,
    low: Box<[u8]>,
    high: Place,
    /// The rest lies from `front` to below `back`.
    front: Place,
    back: Place,
    /// The place where each end began, or the last sought place.
    front_from: Place,
    back_from: Place,
    /// The spans that were passed before the last seeks.
    passed: Vec<ReadSpan>,
    /// The number of items that may still be given.
    left: u64,
    /// The error that ended it. It is told again after a seek, so that nobody takes the end of the
    /// items for the end of the records.
    error: Option<Error>,
    /// The error was told, and no seek has followed.
    has_told: bool,
    reads: &'t RefCell<ReadList>,
    /// Its index in that list.
    read: usize,
    keyspace: Arc<KeyspaceState>,
    /// The part of a trace that this scan makes, if one is recorded.
    record: Option<Box<ScanRecord>>,
}

impl<'t, R: Records> Seen<'t, R> {
    fn new(
        keyspace: &Arc<KeyspaceState>,
        (low, high): (Vec<u8>, Option<Vec<u8>>),
        moment: R,
        own: Own<'t>,
        reads: &'t RefCell<ReadList>,
    ) -> Self {
        let (low, high) = (low.into_boxed_slice(), high.map(Vec::into_boxed_slice));
        let mut list = reads.borrow_mut();
        let read = list.len();
        list.push(Read {
            keyspace: keyspace.clone(),
            span: ReadSpan::Range(low.clone(), high.clone()),
            empties: false,
        });
        drop(list);
        Seen {
            moment,
            used: [false; 2],
            ahead: [None, None],
            own,
            front: Some(low.clone()),
            back: high.clone(),
            front_from: Some(low.clone()),
            back_from: high.clone(),
            low,
            high,
            passed: Vec::new(),
            left: u64::MAX,
            error: None,
            has_told: false,
            reads,
            read,
            keyspace: keyspace.clone(),
            record: None,
        }
    }

    fn limit(&mut self, items: u64) {
        self.left = self.left.min(items);
        self.moment.cursor().expect(items);
        if let Some(record) = &mut self.record {
            record.limit = Some(items);
        }
    }

    /// The next record of an end. If a trace is recorded, it takes the time and the outcome.
    fn step(&mut self, end: End) -> Option<Result<R::Record>> {
        if self.record.is_none() {
            return self.step_on(end);
        }
        let began = Instant::now();
        let given = self.step_on(end);
        if let Some(record) = &mut self.record {
            let is_back = end == End::Back;
            record.gathered(is_back, began.elapsed());
            record.asked(is_back, matches!(given, Some(Ok(_))));
        }
        given
    }

    fn step_on(&mut self, end: End) -> Option<Result<R::Record>> {
        if self.left == 0 {
            return None;
        }
        if let Some(error) = &self.error {
            let again = !std::mem::replace(&mut self.has_told, true);
            return again.then(|| Err(error.clone()));
        }
        while is_before(&self.front, &self.back) {
            let own = self.next_own(end);
            if let Err(error) = self.look_ahead(end) {
                return Some(Err(self.fail(error)));
            }
            let first = match (&self.ahead[end as usize], own) {
                (None, None) => {
                    // Nothing is left, so the whole rest is passed.
                    match end {
                        End::Front => self.front.clone_from(&self.back),
                        End::Back => self.back.clone_from(&self.front),
                    }
                    return None;
                }
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(record), Some((own, _))) => match end {
                    End::Front => R::key(record).cmp(own),
                    End::Back => own.cmp(R::key(record)),
                },
            };
            let record = match first {
                Ordering::Greater => None,
                Ordering::Less | Ordering::Equal => self.ahead[end as usize].take(),
            };
            let given = match (own.filter(|_| first != Ordering::Less), record) {
                (Some((key, written)), _) => {
                    self.pass(end, key);
                    match self.value_of_own(key, written) {
                        Ok(value) => value.map(|value| R::of_own(key, value)),
                        Err(error) => return Some(Err(self.fail(error))),
                    }
                }
                (None, record) => {
                    let key = R::key(record.as_ref()?);
                    self.pass(end, key);
                    let is_deleted = self.own.1.is_some_and(|deleted| deleted.contains(key));
                    record.filter(|_| !is_deleted)
                }
            };
            if let Some(given) = given {
                self.left -= 1;
                return Some(Ok(given));
            }
        }
        None
    }

    fn fail(&mut self, error: Error) -> Error {
        self.error = Some(error.clone());
        self.has_told = true;
        error
    }

    /// The value that an own write gives its key; operands count over the value that the moment has
    /// there.
    fn value_of_own(&mut self, key: &[u8], written: &Written) -> Result<Option<Value>> {
        let is_deleted = self.own.1.is_some_and(|deleted| deleted.contains(key));
        let below = || match is_deleted {
            true => Ok(None),
            false => self.moment.cursor().get(key),
        };
        written.seen(&self.keyspace, key, self.own.2, below)
    }

    /// The next own write at an end, among the writes that are left.
    fn next_own(&self, end: End) -> Option<(&'t [u8], &'t Written)> {
        let writes = self.own.0?;
        let front = Bound::Included(self.front.as_deref()?);
        let back = self.back.as_deref();
        let back = back.map_or(Bound::Unbounded, Bound::Excluded);
        let mut left = writes.range::<[u8], _>((front, back));
        let next = match end {
            End::Front => left.next(),
            End::Back => left.next_back(),
        };
        next.map(|(key, written)| (&**key, written))
    }

    /// Fetches the moment's next record at an end, if there is one: the last of all may be at the
    /// other end.
    fn look_ahead(&mut self, end: End) -> Result<()> {
        let (own, other) = match end {
            End::Front => (0, 1),
            End::Back => (1, 0),
        };
        if self.ahead[own].is_none() {
            self.used[own] = true;
            let next = match end {
                End::Front => self.moment.next(),
                End::Back => self.moment.next_back(),
            };
            self.ahead[own] = match next {
                Some(record) => Some(record?),
                None => self.ahead[other].take(),
            };
        }
        Ok(())
    }

    fn pass(&mut self, end: End, key: &[u8]) {
        match end {
            End::Front => self.front = Some(successor(key).into()),
            End::Back => self.back = Some(key.into()),
        }
    }

    fn seek(&mut self, key: &[u8]) {
        self.has_told = false;
        if let Some(record) = &mut self.record {
            record.sought(false, key.max(&self.low));
        }
        self.note_passed(End::Front);
        self.front = Some(key.max(&self.low).into());
        self.front_from.clone_from(&self.front);
        self.ahead[0] = None;
        match self.used[1] {
            true => self.begin_anew(),
            false => self.moment.cursor().seek(key),
        }
    }

    fn seek_back(&mut self, key: &[u8]) {
        self.has_told = false;
        let to = Some(successor(key).into_boxed_slice());
        if let (Some(record), Some(to)) = (&mut self.record, &to) {
            record.sought(true, to);
        }
        self.note_passed(End::Back);
        self.back = match is_before(&self.high, &to) {
            true => self.high.clone(),
            false => to,
        };
        self.back_from.clone_from(&self.back);
        self.ahead[1] = None;
        match self.used[0] {
            true => self.begin_anew(),
            false => {
                self.used[1] = true;
                self.moment.cursor().seek_back(key);
            }
        }
    }

    /// Reads the moment again between the ends. An end may have passed records that the other end,
    /// or a record ahead, had; no seek of the moment's own ends would bring these back.
    fn begin_anew(&mut self) {
        self.ahead = [None, None];
        self.used = [false; 2];
        let place = |place: &Place| place.as_deref().map(<[u8]>::to_vec);
        let (front, back) = (place(&self.front), place(&self.back));
        // If only the end of the keyspace is left, a seek brings the front back.
        let front = front.or(place(&self.high)).unwrap_or_default();
        self.moment.cursor().begin_anew(front, back);
    }

    /// Notes the span that an end has passed since it was last sought.
    fn note_passed(&mut self, end: End) {
        let (from, to) = match end {
            End::Front => (&self.front_from, &self.front),
            End::Back => (&self.back, &self.back_from),
        };
        if let Some(low) = from.as_ref().filter(|_| is_before(from, to)) {
            self.passed.push(ReadSpan::Range(low.clone(), to.clone()));
        }
    }
}

impl<R: Records> Drop for Seen<'_, R> {
    fn drop(&mut self) {
        if let Some(record) = &mut self.record {
            record.dropped(self.error.as_ref());
        }
        self.note_passed(End::Front);
        self.note_passed(End::Back);
        let mut list = self.reads.borrow_mut();
        let mut passed = self.passed.drain(..);
        // No key at all: an empty range.
        let nothing = || ReadSpan::Range(self.low.clone(), Some(self.low.clone()));
        list[self.read].span = passed.next().unwrap_or_else(nothing);
        let keyspace = &self.keyspace;
        list.extend(passed.map(|span| Read {
            keyspace: keyspace.clone(),
            span,
            empties: false,
        }));
    }
}

/// An iterator over a key range as a transaction sees it, from both ends: the moment at which the
/// transaction began, and its own writes over that.
///
/// [`Transaction::range`](crate::Transaction::range) and similar methods make it. The records that
/// it gives count as read by the transaction, and so does the absence of keys between them. The
/// parts that a seek leaves out were not read. The keyspace counts as read in any case: if it is
/// dropped, the transaction cannot commit any more.
pub struct TransactionIter<'t>(Seen<'t, Iter>);

/// An iterator over the keys of a range as a transaction sees it, without their values: see
/// [`Keys`], and [`TransactionIter`] for what counts as read.
///
/// [`Transaction::keys`](crate::Transaction::keys) makes it.
pub struct TransactionKeys<'t>(Seen<'t, Keys>);

/// The two iterators differ only in their items.
macro_rules! seen_iterator {
    ($name:ident, $records:ident, $item:ty) => {
        impl<'t> $name<'t> {
            pub(super) fn new(
                keyspace: &Arc<KeyspaceState>,
                range: (Vec<u8>, Option<Vec<u8>>),
                moment: $records,
                own: Own<'t>,
                reads: &'t RefCell<ReadList>,
            ) -> Self {
                $name(Seen::new(keyspace, range, moment, own, reads))
            }

            /// The same iterator, with `record` for a trace.
            pub(crate) fn recorded(mut self, record: Option<Box<ScanRecord>>) -> Self {
                self.0.record = record;
                self
            }

            /// Ends after `items` further items; the items of both ends count: see [`Iter::limit`].
            /// Records behind the last one were not read.
            #[must_use = "the iterator with the limit is returned"]
            pub fn limit(mut self, items: u64) -> Self {
                self.0.limit(items);
                self
            }

            /// Moves the front, as [`Cursor::seek`](crate::Cursor::seek) does. After an error the
            /// error comes once more; at the limit still nothing comes.
            pub fn seek(&mut self, key: impl AsRef<[u8]>) {
                self.0.seek(key.as_ref());
            }

            /// Moves the back, as [`Cursor::seek_back`](crate::Cursor::seek_back) does. After an
            /// error the error comes once more; at the limit still nothing comes.
            pub fn seek_back(&mut self, key: impl AsRef<[u8]>) {
                self.0.seek_back(key.as_ref());
            }
        }

        impl Iterator for $name<'_> {
            type Item = Result<$item>;

            fn next(&mut self) -> Option<Self::Item> {
                self.0.step(End::Front)
            }
        }

        impl DoubleEndedIterator for $name<'_> {
            fn next_back(&mut self) -> Option<Self::Item> {
                self.0.step(End::Back)
            }
        }

        // Without a further seek, ends that have met, a failure and the limit stay so.
        impl FusedIterator for $name<'_> {}

        impl std::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    };
}

seen_iterator!(TransactionIter, Iter, (Value, Value));
seen_iterator!(TransactionKeys, Keys, Value);
