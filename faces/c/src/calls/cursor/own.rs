//! Cursors over what a transaction sees: its moment, and over it its own writes.
//!
//! The engine's iterator borrows its transaction. Here a program may write between two steps. So a
//! cursor keeps what remains of its range, and takes some records at a time by an iterator of that
//! call. A write of the transaction makes the cursor forget what it has gathered: it always shows
//! the transaction's writes as they are when it steps.
//!
//! Records that were gathered count as read, also if no step has given them yet.

use super::{End, Lent, Seen};
use crate::border::{Result, Slot};
use crate::calls::transaction::Open;
use evendb::Keyspace;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// Records that the first gathering takes; each further one takes twice as many, up to a limit.
const FIRST: usize = 8;
const MOST: usize = 256;

pub(super) struct Walk {
    transaction: Arc<Slot<Open>>,
    keyspace: Keyspace,
    keys_only: bool,
    /// The cursor's whole range.
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    /// What remains of it: from `from` to below `to`.
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    /// Records at the end that stepped last, in the order of its steps; they lie in what remains.
    gathered: VecDeque<Seen>,
    gathered_at: End,
    /// The transaction's count of changes at that time.
    changes: u64,
    next: usize,
    given: Option<Seen>,
}

impl Walk {
    pub(super) fn new(
        transaction: Arc<Slot<Open>>,
        keyspace: Keyspace,
        (low, high): (Vec<u8>, Option<Vec<u8>>),
        keys_only: bool,
    ) -> Walk {
        Walk {
            transaction,
            keyspace,
            keys_only,
            from: low.clone(),
            to: high.clone(),
            low,
            high,
            gathered: VecDeque::new(),
            gathered_at: End::Front,
            changes: 0,
            next: FIRST,
            given: None,
        }
    }

    /// Gathers this number of records first.
    pub(super) fn expect(&mut self, records: u64) {
        let records = usize::try_from(records).unwrap_or(MOST);
        self.next = records.clamp(1, MOST);
    }

    pub(super) fn seek(&mut self, end: End, key: &[u8]) {
        self.gathered.clear();
        match end {
            End::Front => self.from = key.max(&self.low).to_vec(),
            End::Back => {
                let behind = successor(key);
                self.to = match &self.high {
                    Some(high) if *high < behind => Some(high.clone()),
                    _ => Some(behind),
                };
            }
        }
    }

    pub(super) fn step(&mut self, end: End) -> Result<Lent<'_>> {
        if end != self.gathered_at {
            self.gathered.clear();
            self.gathered_at = end;
        }
        let transaction = self.transaction.clone();
        // Also what is gathered is given only while the transaction lives.
        transaction.enter(|open| {
            if open.changes != self.changes {
                self.gathered.clear();
                self.changes = open.changes;
            }
            match self.gathered.is_empty() {
                // What came before a failure is not given: the next step gathers again.
                true => self
                    .gather(open, end)
                    .inspect_err(|_| self.gathered.clear()),
                false => Ok(()),
            }
        })?;
        let Some(seen) = self.gathered.pop_front() else {
            return Ok(None);
        };
        match end {
            End::Front => self.from = successor(&seen.0),
            End::Back => self.to = Some(seen.0.to_vec()),
        }
        let (key, value) = self.given.insert(seen);
        Ok(Some((key, value.as_deref().unwrap_or_default())))
    }

    fn gather(&mut self, open: &Open, end: End) -> Result<()> {
        let to = self.to.as_deref();
        if to.is_some_and(|to| to <= &*self.from) {
            return Ok(());
        }
        let range = (
            Bound::Included(&*self.from),
            to.map_or(Bound::Unbounded, Bound::Excluded),
        );
        let count = self.next;
        self.next = (count * 2).min(MOST);
        let transaction = &open.transaction;
        if self.keys_only {
            let mut keys = transaction.keys::<&[u8]>(&self.keyspace, range)?;
            keys = keys.limit(count as u64);
            while let Some(key) = step_at(&mut keys, end) {
                self.gathered.push_back((key?, None));
            }
        } else {
            let mut records = transaction.range::<&[u8]>(&self.keyspace, range)?;
            records = records.limit(count as u64);
            while let Some(record) = step_at(&mut records, end) {
                let (key, value) = record?;
                self.gathered.push_back((key, Some(value)));
            }
        }
        Ok(())
    }
}

fn step_at<I: DoubleEndedIterator>(items: &mut I, end: End) -> Option<I::Item> {
    match end {
        End::Front => items.next(),
        End::Back => items.next_back(),
    }
}

/// The least key above `key`.
fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
