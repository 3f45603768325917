//! Transactions of a store, all of one kind: each reads some records and counts some of them up by
//! one.
//!
//! ```text
//!   Work: four records, drawn before --> TransactionalStore::run --> how often it was begun again
//!            |  key(0..4), take(value)      again until it is committed
//!            |  writes(): the first two,
//!            v    each counter up by one
//!   values: the record's, and its generation is the counter
//! ```
//! So at the end the counters of all records add up to the number of committed writes
//! ([`counters`]). If a store lets two transactions change the same value at once, the sum is
//! lower: updates were lost.
//!
//! Duties of an adapter: the transactions that it commits are serializable, reads included. Each is
//! tried again until it is committed, and each attempt that was not committed is counted. The head
//! of each adapter says which calls that takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dataset::{Dataset, KEY_BYTES, key_of, record_of};
use crate::driver::Worker;
use crate::random::Random;
use crate::recorder::{OperationKind, Recorder, RunError};
use crate::store::{Store, StoreError, StoreResult};
use crate::value::{Thoroughness, Values, generation_of};

/// Records that a transaction reads.
pub const READS: usize = 4;
/// It writes this number of these records: the first ones.
pub const WRITES: usize = 2;

/// A store with transactions.
pub trait TransactionalStore {
    /// Carries `work` out in transactions, one after the other, until one is committed. Returns how
    /// many were not.
    ///
    /// # Errors
    /// The store's own, except errors that say that the transaction met another one; a wrong value.
    fn run(&self, work: &mut Work) -> StoreResult<u64>;
}

/// The work of one transaction. An attempt reads all records in their order, and then writes.
#[derive(Debug)]
pub struct Work {
    values: Values,
    records: [u64; READS],
    new: [Vec<u8>; WRITES],
}

impl Work {
    /// Work on a data set's records. They are the first ones, until others are set.
    #[must_use]
    pub fn new(values: Values) -> Self {
        Self {
            values,
            records: std::array::from_fn(|index| index as u64),
            new: std::array::from_fn(|_| Vec::new()),
        }
    }

    /// Sets the records, all different.
    pub fn set(&mut self, records: [u64; READS]) {
        self.records = records;
    }

    /// The key that is read at this position, below [`READS`].
    #[must_use]
    pub fn key(&self, position: usize) -> [u8; KEY_BYTES] {
        key_of(self.records[position])
    }

    /// Takes the value that was read at this position.
    ///
    /// # Errors
    /// There is no value, or it is not one of this record.
    pub fn take(&mut self, position: usize, value: Option<&[u8]>) -> StoreResult<()> {
        let record = self.records[position];
        let wrong = |what: String| StoreError::new("transaction", what);
        let value = value.ok_or_else(|| wrong(format!("record {record} is missing")))?;
        self.values
            .check(record, value, Thoroughness::Spots)
            .map_err(|fault| wrong(format!("record {record}: {fault}")))?;
        if let Some(new) = self.new.get_mut(position) {
            self.values.fill(record, generation_of(value) + 1, new);
        }
        Ok(())
    }

    /// Keys and values for the puts, after everything was read.
    pub fn writes(&self) -> impl Iterator<Item = ([u8; KEY_BYTES], &[u8])> {
        let key = |(position, value)| (self.key(position), Vec::as_slice(value));
        self.new.iter().enumerate().map(key)
    }
}

/// The records that transactions are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Contention {
    /// All records, each as likely as another
    Low,
    /// A hundred records that lie apart
    High,
}

/// Records of [`Contention::High`].
const HOT: u64 = 100;

impl Contention {
    /// The word in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Contention::Low => "low",
            Contention::High => "high",
        }
    }

    /// Draws different records out of `records`, which is at least [`READS`].
    #[must_use]
    pub fn draw(self, records: u64, random: &mut Random) -> [u64; READS] {
        let candidates = match self {
            Contention::Low => records,
            Contention::High => records.min(HOT),
        };
        let apart = records / candidates;
        let mut drawn = [u64::MAX; READS];
        for position in 0..READS {
            while drawn[position] == u64::MAX || drawn[..position].contains(&drawn[position]) {
                drawn[position] = random.below(candidates) * apart;
            }
        }
        drawn
    }
}

/// One thread that runs transactions, and adds attempts that were not committed to `aborts`.
pub struct TransactionWorker {
    /// What a transaction does.
    pub work: Work,
    /// The number of records.
    pub records: u64,
    /// The records that are drawn.
    pub contention: Contention,
    /// Draws them.
    pub random: Random,
    /// The aborts of all threads.
    pub aborts: Arc<AtomicU64>,
}

impl Worker for TransactionWorker {
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        let transactions = transactions_of(store)?;
        self.work
            .set(self.contention.draw(self.records, &mut self.random));
        let run = || transactions.run(&mut self.work);
        let aborts = recorder.time(OperationKind::Transaction, run)?;
        self.aborts.fetch_add(aborts, Ordering::Relaxed);
        let record_bytes = (KEY_BYTES + self.work.values.value_bytes()) as u64;
        recorder.user_bytes_read += READS as u64 * record_bytes;
        recorder.user_bytes_written += WRITES as u64 * record_bytes;
        Ok(true)
    }
}

/// The transactions of a store.
///
/// # Errors
/// It has none.
pub fn transactions_of(store: &dyn Store) -> StoreResult<&dyn TransactionalStore> {
    let none = || StoreError::new("transaction", format!("{} has none", store.name()));
    store.transactions().ok_or_else(none)
}

/// The sum of the counters of all records. Each record is read.
///
/// # Errors
/// The store's own; a record is missing, or has a value that is not its own.
pub fn counters(store: &dyn Store, dataset: &Dataset) -> Result<u64, RunError> {
    let (mut expected, mut sum, mut wrong) = (0, 0, None);
    store.scan(&key_of(0), usize::MAX, &mut |key, value| {
        let record = record_of(key);
        let fault = dataset.values.check(expected, value, Thoroughness::Whole);
        if record != Some(expected) {
            wrong = Some(format!("record {expected} is followed by {record:?}"));
        } else if let Err(fault) = fault {
            wrong = Some(format!("record {expected}: {fault}"));
        } else {
            sum += generation_of(value);
        }
        expected += 1;
        wrong.is_none()
    })?;
    if wrong.is_none() && expected != dataset.records {
        wrong = Some(format!("{expected} of {} records", dataset.records));
    }
    wrong.map_or(Ok(sum), |what| Err(RunError::Wrong(what)))
}

/// Checks that the counters of all records add up to what this number of committed transactions
/// makes.
///
/// # Errors
/// They do not; as [`counters`].
pub fn check_counters(store: &dyn Store, dataset: &Dataset, commits: u64) -> Result<(), RunError> {
    let (found, expected) = (counters(store, dataset)?, commits * WRITES as u64);
    if found == expected {
        return Ok(());
    }
    let sums = format!("{commits} transactions counted up to {expected}, and {found} is there");
    Err(RunError::Wrong(format!("{sums}: updates were lost")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_records_differ_and_stay_in_their_range() {
        let mut random = Random::new(1, 0);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..2000 {
            for contention in [Contention::Low, Contention::High] {
                for records in [4, 5, 1000] {
                    let drawn = contention.draw(records, &mut random);
                    let different: std::collections::HashSet<_> = drawn.into_iter().collect();
                    assert_eq!(different.len(), READS, "{drawn:?}");
                    assert!(drawn.iter().all(|&record| record < records));
                }
            }
            seen.extend(Contention::High.draw(1000, &mut random));
        }
        assert_eq!(seen.len() as u64, HOT);
        assert!(seen.iter().all(|record| record % 10 == 0));
    }

    #[test]
    fn work_counts_up_and_refuses_other_values() {
        let values = Values::new(40, 1);
        let mut work = Work::new(values.clone());
        work.set([7, 8, 9, 10]);
        let mut value = Vec::new();
        for (position, record) in [7, 8, 9, 10].into_iter().enumerate() {
            values.fill(record, 5, &mut value);
            work.take(position, Some(&value)).unwrap();
        }
        let written: Vec<_> = work.writes().collect();
        assert_eq!(written.len(), WRITES);
        for ((key, value), record) in written.into_iter().zip([7, 8]) {
            assert_eq!((key, generation_of(value)), (key_of(record), 6));
        }
        let missing = work.take(3, None).unwrap_err().to_string();
        assert!(missing.contains("record 10 is missing"), "{missing}");
        assert!(work.take(0, Some(&value)).is_err(), "another record's");
    }
}
