//! Transactions in a trace: begin, reads and writes, and commit or abort, all in one group.
//!
//! The begin is recorded with the first recorded part: a transaction with no part in the sample is
//! not in the trace. Its reads are marked as reads of an older moment. A savepoint is a call
//! `savepoint`, and a return to it a call `rollback_to`; the count of both is the savepoint's
//! number.
//!
//! A read is recorded when it is done. A write is recorded when its outcome is known, with the time
//! of its call: it is done if the commit succeeds, failed like the commit, or rolled back.
//! Savepoints and returns to them stay in order with the writes. All of these are kept in memory
//! until the end, up to [`KEPT_BYTES_MAX`]; above that they are recorded at once, and the outcome
//! of the writes is unknown.
//!
//! A transaction is in the trace in which it began, and in no later one.

use super::scan::{ScanOf, ScanRecord};
use super::{Recording, outcome};
use crate::error::Result;
use crate::fork;
use evendb_trace::{Began, Call, Failure, Kind, Operation, Outcome, RecorderHandle};
use std::cell::Cell;
use std::sync::Arc;

/// The number of bytes that one transaction keeps for its end.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// The record of one transaction: see the module. A drop before the commit records an abort.
pub(crate) struct TransactionRecord {
    slot: Arc<RecorderHandle>,
    began: Began,
    /// 0 while no part is recorded.
    group: Cell<u64>,
    /// The first savepoint in the trace: earlier savepoints were made before the first recorded
    /// part.
    first_savepoint: Option<u64>,
    /// Writes, savepoints and returns to savepoints, in their order.
    kept: Vec<Kept>,
    kept_bytes: usize,
    is_committed: bool,
}

/// A part that is recorded at the end.
struct Kept {
    began: Began,
    latency_nanos: u64,
    operation: Operation,
}

impl Kept {
    /// Whether it is a write that has succeeded so far.
    fn is_write(&self) -> bool {
        let kind = self.operation.kind;
        let writes = kind.is_point_write() || kind == Kind::DeleteRange;
        writes && self.operation.outcome == Outcome::Done
    }
}

impl Recording {
    /// Begins to note the steps of a transaction, if a trace is on.
    #[inline]
    pub(crate) fn transaction(&self) -> Option<TransactionRecord> {
        let began = self.begin_always()?;
        Some(TransactionRecord {
            slot: self.slot.clone(),
            began,
            group: Cell::new(0),
            first_savepoint: None,
            kept: Vec::new(),
            kept_bytes: 0,
            is_committed: false,
        })
    }
}

impl TransactionRecord {
    /// Begins a part, if its key is taken.
    pub(crate) fn begin(&self, key: &[u8]) -> Option<Began> {
        let began = self.in_own_trace(|slot| slot.begin(key))?;
        self.group();
        Some(began)
    }

    /// Begins a part without a key.
    fn now(&self) -> Option<Began> {
        self.in_own_trace(RecorderHandle::begin_always)
    }

    /// Begins a part, if the trace in which the transaction began is still recorded.
    fn in_own_trace(&self, begin: impl FnOnce(&RecorderHandle) -> Option<Began>) -> Option<Began> {
        match fork::is_child() {
            true => None,
            false => begin(&self.slot).filter(|began| began.is_of_trace_of(&self.began)),
        }
    }

    /// The transaction's group; the first call records the begin.
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

    /// The description of a part that has begun.
    pub(crate) fn call<'k>(&self, kind: Kind, keyspace: u32, key: &'k [u8]) -> Call<'k> {
        let mut call = Call::new(kind, keyspace, key);
        call.group = self.group.get();
        call.older_moment = kind.is_point_read();
        call
    }

    /// Begins to note the steps of an iterator.
    pub(crate) fn scan(
        &self,
        recording: &Recording,
        keyspace: u32,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Option<Box<ScanRecord>> {
        let _still_recorded = self.now()?;
        let of = ScanOf {
            keyspace,
            group: self.group(),
            older_moment: true,
        };
        recording.scan(of, low, high)
    }

    /// Notes a write that ends now with this result.
    pub(crate) fn wrote(&mut self, began: Began, mut call: Call<'_>, result: &Result<()>) {
        call.outcome = outcome(result);
        self.keep(began, call);
    }

    fn keep(&mut self, began: Began, mut call: Call<'_>) {
        call.value = call.value.filter(|_| began.wants_value());
        let Some(latency_nanos) = self.slot.nanos_since(began) else {
            return;
        };
        let operation = Operation::of_call(&call);
        let own = operation.key.len() + operation.end_key.as_ref().map_or(0, Vec::len);
        let value = operation.value.as_ref().map_or(0, Vec::len);
        self.kept_bytes += size_of::<Kept>() + own + value;
        self.kept.push(Kept {
            began,
            latency_nanos,
            operation,
        });
        if self.kept_bytes > KEPT_BYTES_MAX {
            self.record_kept(Outcome::Unknown);
        }
    }

    /// Records the kept parts. Writes that were not rolled back get this outcome.
    fn record_kept(&mut self, outcome: Outcome) {
        for kept in &mut self.kept {
            if kept.is_write() {
                kept.operation.outcome = outcome;
            }
            let latency = Some(kept.latency_nanos);
            let call = kept.operation.as_call();
            self.slot.end_after(kept.began, latency, &call);
        }
        self.kept.clear();
        self.kept_bytes = 0;
    }

    /// Notes a savepoint. Savepoints of a transaction are numbered from 1 on.
    pub(crate) fn savepoint(&mut self, number: u64) {
        if self.group.get() != 0
            && let Some(began) = self.now()
        {
            self.first_savepoint.get_or_insert(number);
            self.savepoint_call(began, b"savepoint", number, Outcome::Done);
        }
    }

    /// Notes a return to a savepoint, if a part of the transaction is in the trace. The number is 0
    /// there if the savepoint was made before the first recorded part.
    pub(crate) fn rolled_back_to(&mut self, savepoint: u64, result: &Result<()>) {
        let in_trace = self.first_savepoint.is_some_and(|first| first <= savepoint);
        let number = if in_trace { savepoint } else { 0 };
        if self.group.get() != 0
            && let Some(began) = self.now()
        {
            if result.is_ok() {
                self.take_back(number);
            }
            self.savepoint_call(began, b"rollback_to", number, outcome(result));
        }
    }

    /// Marks the writes since a savepoint as rolled back. It marks all writes if the number is 0,
    /// or if the savepoint is no longer kept.
    fn take_back(&mut self, number: u64) {
        let is_it = |kept: &Kept| {
            let is_savepoint = kept.operation.key == b"savepoint";
            let is_other = kept.operation.kind == Kind::Other;
            is_other && is_savepoint && kept.operation.count == Some(number)
        };
        let from = self.kept.iter().rposition(is_it).unwrap_or(0);
        for kept in self.kept[from..].iter_mut().filter(|kept| kept.is_write()) {
            kept.operation.outcome = Outcome::Failed(Failure::RolledBack);
        }
    }

    fn savepoint_call(&mut self, began: Began, name: &[u8], number: u64, outcome: Outcome) {
        let mut call = Call::new(Kind::Other, 0, name);
        call.group = self.group.get();
        call.count = Some(number);
        call.outcome = outcome;
        self.keep(began, call);
    }

    /// Begins the commit.
    pub(crate) fn begin_commit(&self) -> Option<Began> {
        match self.group.get() {
            0 => None,
            _ => self.now(),
        }
    }

    /// Records the commit with its result; it wrote `count` keys and ranges.
    pub(crate) fn committed(mut self, began: Option<Began>, count: usize, result: &Result<()>) {
        self.is_committed = true;
        let Some(began) = began else {
            return;
        };
        let outcome = outcome(result);
        self.record_kept(outcome);
        let mut call = Call::new(Kind::Commit, 0, &[]);
        call.group = self.group.get();
        call.count = Some(count as u64);
        call.outcome = outcome;
        self.slot.end(began, &call);
    }
}

impl Drop for TransactionRecord {
    fn drop(&mut self) {
        if self.is_committed || self.group.get() == 0 {
            return;
        }
        if let Some(began) = self.now() {
            self.record_kept(Outcome::Failed(Failure::RolledBack));
            let mut call = Call::new(Kind::Abort, 0, &[]);
            call.group = self.group.get();
            call.outcome = Outcome::Done;
            self.slot.end(began, &call);
        }
    }
}
