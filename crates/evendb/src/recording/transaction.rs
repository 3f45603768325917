//! What a transaction is in a trace: its beginning, what it reads and writes, its commit or abort, all of one group.
//!
//! The beginning is recorded when the first part is, so that a transaction of which the sample takes nothing is not in the trace.
//! Reads are of an older moment. A write is recorded when it is called; it counts from the commit on. A savepoint is a call `savepoint`,
//! a return to it one `rollback_to`; the count of both is the savepoint's number. So who reads the trace knows what was taken back.

use super::scan::{ScanOf, ScanRecord};
use super::{Recording, outcome};
use crate::error::Result;
use crate::fork;
use evendb_trace::{Began, Call, Kind, Outcome, RecorderHandle};
use std::cell::Cell;
use std::sync::Arc;

/// See the module. Dropped before it is committed, it records an abort.
pub(crate) struct TransactionRecord {
    slot: Arc<RecorderHandle>,
    began: Began,
    /// 0 as long as nothing of it is recorded.
    group: Cell<u64>,
    /// The first savepoint that is in the trace: those before it were made when nothing of the transaction was.
    first_savepoint: Option<u64>,
    is_committed: bool,
}

impl Recording {
    /// Begins to note what a transaction does, if a trace is on.
    #[inline]
    pub(crate) fn transaction(&self) -> Option<TransactionRecord> {
        let began = self.begin_always()?;
        Some(TransactionRecord {
            slot: self.slot.clone(),
            began,
            group: Cell::new(0),
            first_savepoint: None,
            is_committed: false,
        })
    }
}

impl TransactionRecord {
    /// Begins a part, if its key is taken.
    pub(crate) fn begin(&self, key: &[u8]) -> Option<Began> {
        if fork::is_child() {
            return None;
        }
        let began = self.slot.begin(key)?;
        self.group();
        Some(began)
    }

    /// Its group, from now on in the trace.
    fn group(&self) -> u64 {
        if self.group.get() == 0 {
            let group = self.slot.new_group();
            self.group.set(group);
            let mut call = Call::new(Kind::Begin, 0, &[]);
            call.group = group;
            self.slot.part(self.began, &call);
        }
        self.group.get()
    }

    /// A description of a part that has begun.
    pub(crate) fn call<'k>(&self, kind: Kind, keyspace: u32, key: &'k [u8]) -> Call<'k> {
        let mut call = Call::new(kind, keyspace, key);
        call.group = self.group.get();
        call.older_moment = kind.is_point_read();
        call
    }

    /// Begins to note what an iterator does.
    pub(crate) fn scan(
        &self,
        recording: &Recording,
        keyspace: u32,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Option<Box<ScanRecord>> {
        if fork::is_child() || !self.slot.is_on() {
            return None;
        }
        let of = ScanOf {
            keyspace,
            group: self.group(),
            older_moment: true,
        };
        recording.scan(of, low, high)
    }

    /// A savepoint was made, of this number within the transaction, from 1 on.
    pub(crate) fn savepoint(&mut self, number: u64) {
        if self.group.get() != 0
            && !fork::is_child()
            && let Some(began) = self.slot.begin_always()
        {
            self.first_savepoint.get_or_insert(number);
            self.savepoint_call(began, b"savepoint", number, Outcome::Done);
        }
    }

    /// It was rolled back to a savepoint, if anything of it is in the trace. The number is 0 there if nothing was when it was made.
    pub(crate) fn rolled_back_to(&self, savepoint: u64, result: &Result<()>) {
        let in_trace = self.first_savepoint.is_some_and(|first| first <= savepoint);
        let number = if in_trace { savepoint } else { 0 };
        if self.group.get() != 0
            && !fork::is_child()
            && let Some(began) = self.slot.begin_always()
        {
            self.savepoint_call(began, b"rollback_to", number, outcome(result));
        }
    }

    fn savepoint_call(&self, began: Began, name: &[u8], number: u64, outcome: Outcome) {
        let mut call = Call::new(Kind::Other, 0, name);
        call.group = self.group.get();
        call.count = Some(number);
        call.outcome = outcome;
        self.slot.end(began, &call);
    }

    /// When the commit begins.
    pub(crate) fn begin_commit(&self) -> Option<Began> {
        match self.group.get() {
            0 => None,
            _ if fork::is_child() => None,
            _ => self.slot.begin_always(),
        }
    }

    /// It was committed, or the commit was refused; `count` keys and ranges it wrote.
    pub(crate) fn committed(mut self, began: Option<Began>, count: usize, result: &Result<()>) {
        self.is_committed = true;
        let Some(began) = began else {
            return;
        };
        let mut call = Call::new(Kind::Commit, 0, &[]);
        call.group = self.group.get();
        call.count = Some(count as u64);
        call.outcome = outcome(result);
        self.slot.end(began, &call);
    }
}

impl Drop for TransactionRecord {
    fn drop(&mut self) {
        if self.is_committed || self.group.get() == 0 || fork::is_child() {
            return;
        }
        if let Some(began) = self.slot.begin_always() {
            let mut call = Call::new(Kind::Abort, 0, &[]);
            call.group = self.group.get();
            call.outcome = Outcome::Done;
            self.slot.end(began, &call);
        }
    }
}
