//! The records that a transaction sees in a key range: those of its moment, and over them its own writes.
//!
//! ```text
//!   moment        a   c       f          each end of a source is looked at one item ahead;
//!   own writes      b   c(x)     g       of equal keys the own write decides
//!   seen          a b         f  g       x: a delete
//! ```
//! What an iterator has seen is a read of the transaction. Its whole range counts as read when it is made; when it is
//! dropped, the part in the middle that neither end has reached no longer does. One that is never dropped leaves the
//! whole.
//!
//! Thread safety: of the transaction's thread. Not here: whether what was read has changed.

use super::ReadList;
use super::writes::Written;
use crate::catalog::KeyspaceState;
use crate::error::Result;
use crate::range_set::RangeSet;
use crate::read::cursor::Iter;
use crate::sync::Arc;
use crate::value::Value;
use crate::write::reads::{Read, ReadSpan};
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::btree_map;
use std::iter::FusedIterator;

/// A source that is looked at one item ahead at both ends.
struct Ends<I: Iterator> {
    source: I,
    front: Option<I::Item>,
    back: Option<I::Item>,
}

impl<I: DoubleEndedIterator> Ends<I> {
    fn new(source: I) -> Self {
        Ends {
            source,
            front: None,
            back: None,
        }
    }

    /// The next item at an end: the last one of all may be at the other.
    fn peek(&mut self, end: End) -> Option<&I::Item> {
        match end {
            End::Front => {
                if self.front.is_none() {
                    self.front = self.source.next().or_else(|| self.back.take());
                }
                self.front.as_ref()
            }
            End::Back => {
                if self.back.is_none() {
                    self.back = self.source.next_back().or_else(|| self.front.take());
                }
                self.back.as_ref()
            }
        }
    }

    fn take(&mut self, end: End) -> Option<I::Item> {
        match end {
            End::Front => self.front.take(),
            End::Back => self.back.take(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

/// The own writes of a range.
type Own<'t> = btree_map::Range<'t, Box<[u8]>, Written>;

/// An iterator over a key range as a transaction sees it, from both ends: the moment at which the transaction began, and
/// its own writes over that.
///
/// Made by [`Transaction::range`](crate::Transaction::range) and its like. What it gives counts as read by the
/// transaction, and so does that nothing lies between.
pub struct TransactionIter<'t> {
    moment: Ends<Iter>,
    own: Option<Ends<Own<'t>>>,
    /// What of the moment the transaction has deleted.
    deleted: Option<&'t RangeSet>,
    low: Box<[u8]>,
    high: Option<Box<[u8]>>,
    /// The last keys given or passed over.
    front_at: Option<Box<[u8]>>,
    back_at: Option<Box<[u8]>>,
    /// An end found nothing more, so all of the range was seen.
    all_seen: bool,
    failed: bool,
    reads: &'t RefCell<ReadList>,
    /// Its place in there.
    read: usize,
    keyspace: Arc<KeyspaceState>,
}

impl<'t> TransactionIter<'t> {
    pub(super) fn new(
        keyspace: &Arc<KeyspaceState>,
        (low, high): (Vec<u8>, Option<Vec<u8>>),
        moment: Iter,
        (own, deleted): (Option<Own<'t>>, Option<&'t RangeSet>),
        reads: &'t RefCell<ReadList>,
    ) -> Self {
        let (low, high) = (low.into_boxed_slice(), high.map(Vec::into_boxed_slice));
        let mut list = reads.borrow_mut();
        let read = list.len();
        list.push(Read {
            keyspace: keyspace.clone(),
            span: ReadSpan::Range(low.clone(), high.clone()),
        });
        drop(list);
        TransactionIter {
            moment: Ends::new(moment),
            own: own.map(Ends::new),
            deleted,
            low,
            high,
            front_at: None,
            back_at: None,
            all_seen: false,
            failed: false,
            reads,
            read,
            keyspace: keyspace.clone(),
        }
    }

    fn step(&mut self, end: End) -> Option<Result<(Value, Value)>> {
        if self.failed {
            return None;
        }
        loop {
            let own = self.own.as_mut().and_then(|own| own.peek(end)).copied();
            let first = match (self.moment.peek(end), own) {
                (None, None) => {
                    self.all_seen = true;
                    return None;
                }
                (Some(Err(_)), _) => {
                    self.failed = true;
                    return self.moment.take(end);
                }
                (Some(Ok(_)), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(Ok((key, _))), Some((own, _))) => match end {
                    End::Front => (**key).cmp(own),
                    End::Back => (**own).cmp(key),
                },
            };
            if first != Ordering::Less {
                self.own.as_mut().and_then(|own| own.take(end));
            }
            let item = match first {
                Ordering::Greater => None,
                Ordering::Less | Ordering::Equal => self.moment.take(end),
            };
            let given = match own.filter(|_| first != Ordering::Less) {
                Some((key, written)) => {
                    self.reach(end, key);
                    let value = written.as_ref();
                    value.map(|value| {
                        let key = Value::of_bytes(Arc::from(&**key));
                        Ok((key, Value::of_bytes(value.clone())))
                    })
                }
                None => {
                    let mut is_deleted = false;
                    if let Some(Ok((key, _))) = &item {
                        self.reach(end, key);
                        is_deleted = self.deleted.is_some_and(|deleted| deleted.contains(key));
                    }
                    item.filter(|_| !is_deleted)
                }
            };
            if given.is_some() {
                return given;
            }
        }
    }

    fn reach(&mut self, end: End, key: &[u8]) {
        let at = match end {
            End::Front => &mut self.front_at,
            End::Back => &mut self.back_at,
        };
        *at = Some(key.into());
    }
}

impl Drop for TransactionIter<'_> {
    fn drop(&mut self) {
        if self.all_seen {
            return;
        }
        let front = self.front_at.as_deref();
        let front = front.map(|key| ReadSpan::through(&self.low, key));
        let back = self.back_at.take();
        let back = back.map(|key| ReadSpan::Range(key, self.high.take()));
        let mut list = self.reads.borrow_mut();
        let mut seen = [front, back].into_iter().flatten();
        // Nothing at all: a range that is empty.
        let nothing = || ReadSpan::Range(self.low.clone(), Some(self.low.clone()));
        list[self.read].span = seen.next().unwrap_or_else(nothing);
        if let Some(span) = seen.next() {
            let keyspace = self.keyspace.clone();
            list.push(Read { keyspace, span });
        }
    }
}

impl Iterator for TransactionIter<'_> {
    type Item = Result<(Value, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(End::Front)
    }
}

impl DoubleEndedIterator for TransactionIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(End::Back)
    }
}

// Both sources stay at their end, and so does what failed.
impl FusedIterator for TransactionIter<'_> {}

impl std::fmt::Debug for TransactionIter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TransactionIter")
    }
}
