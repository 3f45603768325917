//! Any store of the lab, with a trace of its operations.
//!
//! The trait's calls are recorded as EvenDB records its public ones (`evendb-trace`): each with its
//! key, result, time and thread; a batch by its parts. A transaction is recorded when it is done,
//! with the operations of its last attempt. The sample is by key, as everywhere. Of a store that
//! has several keyspaces in one ([`crate::stores::keyspaces`]), operations are recorded with the
//! keyspace and the key in it, and a scan ends where its keyspace does. Thread safety: as the
//! store's. Not here: the file and the buffers.

use std::sync::Arc;

use evendb_trace::{Began, Call, Failure, Kind, Outcome, RecorderHandle, Summary, value_hash};

use crate::purposes::{
    AppendingStore, BothEndsStore, COUNTER_BYTES, CountingStore, ExpiringStore, IngestingStore,
    RangeEnd, SortedRecords, given,
};
use crate::readable::{bytes, grouped};
use crate::store::{BatchWrite, Store, StoreResult};
use crate::stores::keyspaces;
use crate::transactions::{READS, TransactionalStore, Work};

/// The outcome of a trace, in one line.
#[must_use]
pub fn told(summary: &Summary) -> String {
    format!(
        "trace: {} operations in {}; {} left out",
        grouped(summary.recorded),
        bytes(summary.file_bytes),
        grouped(summary.dropped_full + summary.dropped_behind)
    )
}

/// A store that records calls while the handle is on.
pub struct TracedStore {
    inner: Box<dyn Store>,
    slot: Arc<RecorderHandle>,
    /// Keys have the number of their keyspace before them.
    has_keyspaces: bool,
}

impl TracedStore {
    /// Records the operations of `inner` by `slot`.
    #[must_use]
    pub fn new(inner: Box<dyn Store>, slot: Arc<RecorderHandle>) -> Self {
        Self {
            inner,
            slot,
            has_keyspaces: false,
        }
    }

    /// The same for a store that has several keyspaces in one.
    #[must_use]
    pub fn of_keyspaces(inner: Box<dyn Store>, slot: Arc<RecorderHandle>) -> Self {
        Self {
            has_keyspaces: true,
            ..Self::new(inner, slot)
        }
    }

    /// The number of the keyspace, and the key in it.
    fn split<'k>(&self, key: &'k [u8]) -> (u32, &'k [u8]) {
        match self.has_keyspaces {
            true => keyspaces::split(key),
            false => (0, key),
        }
    }

    /// Begins a call of this key, if it is in the sample.
    fn begin(&self, key: &[u8]) -> Option<Began> {
        self.slot.begin(self.split(key).1)
    }

    fn call<'k>(&self, kind: Kind, key: &'k [u8]) -> Call<'k> {
        let (keyspace, key) = self.split(key);
        Call::new(kind, keyspace, key)
    }

    /// The end of a range, in the keyspace of its beginning. The end of the keyspace is no key.
    fn end_key<'k>(&self, call: &Call<'_>, end: &'k [u8]) -> Option<&'k [u8]> {
        let (keyspace, end) = self.split(end);
        (keyspace == call.keyspace).then_some(end)
    }

    /// Whether a key is of the keyspace of a call.
    fn is_of(&self, call: &Call<'_>, key: &[u8]) -> bool {
        self.split(key).0 == call.keyspace
    }

    fn record<T>(
        &self,
        began: Option<Began>,
        result: &StoreResult<T>,
        call: impl FnOnce() -> Call<'static>,
    ) {
        if let Some(began) = began {
            let mut call = call();
            call.outcome = outcome(result);
            self.slot.end(began, &call);
        }
    }

    fn write(
        &self,
        (kind, key, value): (Kind, &[u8], Option<&[u8]>),
        write: impl FnOnce() -> StoreResult<()>,
    ) -> StoreResult<()> {
        let began = self.begin(key);
        let written = write();
        if let Some(began) = began {
            let mut call = self.call(kind, key);
            call.value_len = value.map(|value| value.len() as u64);
            call.value = value;
            call.outcome = outcome(&written);
            self.slot.end(began, &call);
        }
        written
    }

    /// Asks for a record by `ask`, lends it to `lend`, and records what was found.
    fn look(
        &self,
        (began, mut call): (Began, Call<'_>),
        lend: &mut dyn FnMut(&[u8]),
        ask: impl FnOnce(&mut dyn FnMut(&[u8])) -> StoreResult<bool>,
    ) -> StoreResult<bool> {
        let wants_hash = began.wants_hash();
        let (mut len, mut hash) = (None, None);
        let found = ask(&mut |value| {
            len = Some(value.len() as u64);
            hash = wants_hash.then(|| value_hash(value));
            lend(value);
        });
        call.outcome = match &found {
            Ok(true) => Outcome::Present { len, hash },
            Ok(false) => Outcome::Absent,
            Err(_) => outcome(&found),
        };
        self.slot.end(began, &call);
        found
    }

    fn batch_call<'w>(&self, write: &BatchWrite<'w>) -> Call<'w> {
        match *write {
            BatchWrite::Put(key, value) => {
                let mut call = self.call(Kind::Put, key);
                call.value_len = Some(value.len() as u64);
                call.value = Some(value);
                call
            }
            BatchWrite::Delete(key) => self.call(Kind::Delete, key),
        }
    }

    /// Records a scan that lent this number of records.
    fn scanned(
        &self,
        began: Option<Began>,
        mut call: Call<'_>,
        limit: usize,
        lent: StoreResult<usize>,
    ) -> StoreResult<usize> {
        if let Some(began) = began {
            call.limit = Some(limit as u64);
            call.count = lent.as_ref().ok().map(|lent| *lent as u64);
            call.outcome = outcome(&lent);
            self.slot.end(began, &call);
        }
        lent
    }

    /// Records the parts of a batch or transaction. The keys of its parts are chosen one by one.
    /// Returns their group, or 0 if there are no parts.
    fn parts<'k>(&self, began: Began, calls: impl Iterator<Item = Call<'k>>) -> u64 {
        let mut group = 0;
        for mut call in calls {
            if self.slot.takes(call.key) {
                if group == 0 {
                    group = self.slot.new_group();
                }
                call.group = group;
                self.slot.part(began, &call);
            }
        }
        group
    }
}

fn outcome<T>(result: &StoreResult<T>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(_) => Outcome::Failed(Failure::Other),
    }
}

impl Store for TracedStore {
    crate::passed_on!(inner: name, stats);

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        let Some(began) = self.begin(key) else {
            return self.inner.get(key, check);
        };
        let call = self.call(Kind::Get, key);
        self.look((began, call), check, |lent| self.inner.get(key, lent))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.write((Kind::Put, key, Some(value)), || self.inner.put(key, value))
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.write((Kind::Delete, key, None), || self.inner.delete(key))
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        let (began, call) = (self.begin(from), self.call(Kind::Scan, from));
        let mut own = 0;
        let lent = self.inner.scan(from, limit, &mut |key, value| {
            let is_own = self.is_of(&call, key);
            own += usize::from(is_own);
            is_own && each(key, value)
        });
        self.scanned(began, call, limit, lent.map(|_| own))
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> StoreResult<()> {
        let Some(began) = self.slot.begin_always() else {
            return self.inner.batch(writes);
        };
        let group = self.parts(began, writes.iter().map(|write| self.batch_call(write)));
        let written = self.inner.batch(writes);
        if group != 0 {
            self.record(Some(began), &written, || {
                let mut call = Call::new(Kind::BatchCommit, 0, &[]);
                call.group = group;
                call.count = Some(writes.len() as u64);
                call
            });
        }
        written
    }

    fn delete_range(&self, low: &[u8], high: &[u8]) -> StoreResult<()> {
        let began = self.begin(low);
        let deleted = self.inner.delete_range(low, high);
        if let Some(began) = began {
            let mut call = self.call(Kind::DeleteRange, low);
            call.end_key = self.end_key(&call, high);
            call.outcome = outcome(&deleted);
            self.slot.end(began, &call);
        }
        deleted
    }

    fn transactions(&self) -> Option<&dyn TransactionalStore> {
        self.inner.transactions().map(|_| self as _)
    }

    fn counters(&self) -> Option<&dyn CountingStore> {
        self.inner.counters().map(|_| self as _)
    }

    fn sorted_ingest(&self) -> Option<&dyn IngestingStore> {
        self.inner.sorted_ingest().map(|_| self as _)
    }

    fn expiring(&self) -> Option<&dyn ExpiringStore> {
        self.inner.expiring().map(|_| self as _)
    }

    fn appending(&self) -> Option<&dyn AppendingStore> {
        self.inner.appending().map(|_| self as _)
    }

    fn both_ends(&self) -> Option<&dyn BothEndsStore> {
        self.inner.both_ends().map(|_| self as _)
    }

    fn settle_debt(&self) -> StoreResult<()> {
        let began = self.slot.begin_always();
        let settled = self.inner.settle_debt();
        self.record(began, &settled, || {
            Call::new(Kind::Other, 0, b"settle_debt")
        });
        settled
    }

    fn close(self: Box<Self>) -> StoreResult<()> {
        self.inner.close()
    }
}

impl TransactionalStore for TracedStore {
    fn run(&self, work: &mut Work) -> StoreResult<u64> {
        let inner = given(self, self.inner.transactions(), "transaction")?;
        let Some(began) = self.slot.begin_always() else {
            return inner.run(work);
        };
        let done = inner.run(work);
        let reads: Vec<_> = (0..READS).map(|position| work.key(position)).collect();
        let writes: Vec<_> = work.writes().collect();
        let begin = std::iter::once(Call::new(Kind::Begin, 0, &[]));
        let gets = reads.iter().map(|key| {
            let mut call = self.call(Kind::Get, key);
            call.older_moment = true;
            call
        });
        let puts = writes.iter().map(|(key, value)| {
            let put = BatchWrite::Put(key, value);
            self.batch_call(&put)
        });
        let parts = || gets.clone().chain(puts.clone());
        if parts().any(|call| self.slot.takes(call.key)) {
            let group = self.slot.new_group();
            for mut call in begin.chain(parts().filter(|call| self.slot.takes(call.key))) {
                call.group = group;
                self.slot.part(began, &call);
            }
            self.record(Some(began), &done, || {
                let mut call = Call::new(Kind::Commit, 0, &[]);
                call.group = group;
                call.count = Some(writes.len() as u64);
                call
            });
        }
        done
    }
}

impl CountingStore for TracedStore {
    fn add(&self, key: &[u8], addend: u64) -> StoreResult<()> {
        let inner = given(self, self.inner.counters(), "add")?;
        let operand: [u8; COUNTER_BYTES] = addend.to_le_bytes();
        self.write((Kind::Merge, key, Some(&operand)), || {
            inner.add(key, addend)
        })
    }

    fn adds_by(&self) -> &'static str {
        self.inner.counters().map_or("", CountingStore::adds_by)
    }
}

impl AppendingStore for TracedStore {
    fn append(&self, key: &[u8], operand: &[u8]) -> StoreResult<()> {
        let inner = given(self, self.inner.appending(), "append")?;
        self.write((Kind::Merge, key, Some(operand)), || {
            inner.append(key, operand)
        })
    }
}

impl BothEndsStore for TracedStore {
    fn scan_back(
        &self,
        range: (&[u8], Option<&[u8]>),
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        let inner = given(self, self.inner.both_ends(), "scan_back")?;
        // A scan is in the sample by the key at which it begins.
        let began = self.begin(range.1.unwrap_or(range.0));
        let mut call = self.call(Kind::Scan, range.0);
        call.end_key = range.1.and_then(|end| self.end_key(&call, end));
        let mut own = 0;
        let lent = inner.scan_back(range, limit, &mut |key, value| {
            let is_own = self.is_of(&call, key);
            own += usize::from(is_own);
            is_own && each(key, value)
        });
        let lent = lent.map(|_| own);
        call.reverse = true;
        self.scanned(began, call, limit, lent)
    }

    fn pop(
        &self,
        range: (&[u8], Option<&[u8]>),
        end: RangeEnd,
        taken: &mut dyn FnMut(&[u8]),
    ) -> StoreResult<bool> {
        let inner = given(self, self.inner.both_ends(), "pop")?;
        let Some(began) = self.begin(range.0) else {
            return inner.pop(range, end, taken);
        };
        let mut call = self.call(Kind::Pop, range.0);
        call.end_key = range.1.and_then(|end| self.end_key(&call, end));
        call.reverse = end == RangeEnd::Last;
        self.look((began, call), taken, |lent| inner.pop(range, end, lent))
    }
}

impl IngestingStore for TracedStore {
    fn ingest(&self, records: &mut SortedRecords<'_>) -> StoreResult<()> {
        let inner = given(self, self.inner.sorted_ingest(), "ingest")?;
        inner.ingest(&mut |key, value| {
            let is_there = records(key, value);
            if is_there && let Some(began) = self.slot.begin(key) {
                let mut call = self.call(Kind::Ingest, key);
                call.value_len = Some(value.len() as u64);
                call.value = Some(value);
                self.slot.part(began, &call);
            }
            is_there
        })
    }
}

impl ExpiringStore for TracedStore {
    fn put_expiring(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        let inner = given(self, self.inner.expiring(), "put_expiring")?;
        let put = || inner.put_expiring(key, value);
        self.write((Kind::Put, key, Some(value)), put)
    }

    fn hides_expired(&self) -> bool {
        let expiring = self.inner.expiring();
        expiring.is_some_and(ExpiringStore::hides_expired)
    }
}
