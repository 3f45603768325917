//! RocksDB's two kinds of transactions. Commits are serializable in both.
//!
//! Optimistic: `OptimisticTransactionDB`, with a snapshot from the begin. Reads are `GetForUpdate`,
//! so that the commit looks at them again. A transaction is aborted if a key that it read or wrote
//! has changed since the snapshot: `Busy` at the commit, or `TryAgain` if the memtables no longer
//! tell.
//!
//! Pessimistic: `TransactionDB`, without a snapshot. Reads are `GetForUpdate`, so that they are
//! locked, in the order drawn. A transaction is aborted by the detection of deadlocks (`Busy`),
//! which is on, or after waiting the default second for a lock (`TimedOut`).
//!
//! Both are tried again at once. Everything else is at its default: the optimistic kind validates
//! in parallel, the pessimistic kind writes at the commit and has 16 stripes of locks. The writes
//! of a commit go the way of other writes. All locks are exclusive.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use evendb_lab::store::{BatchWrite, StoreError, StoreResult};
use evendb_lab::transactions::{READS, TransactionalStore, Work};
use rocksdb::properties::{COMPACTION_PENDING, NUM_RUNNING_COMPACTIONS, NUM_RUNNING_FLUSHES};
use rocksdb::{
    DBPinnableSlice, DBRawIteratorWithThreadMode, Error, ErrorKind, MultiThreaded,
    OptimisticTransactionDB, OptimisticTransactionOptions, Options, Transaction, TransactionDB,
    TransactionDBOptions, TransactionOptions, WriteOptions,
};

use super::{Kind, RocksStore, calls_of_a_kind, flush_and_wait};

/// The kind whose transactions look at their reads again at the commit.
pub type Optimistic = OptimisticTransactionDB;

/// The kind whose transactions lock what they read. The type for several threads is used, since
/// only that type tells its properties. It is the same database, and has one family of columns.
pub type Pessimistic = TransactionDB<MultiThreaded>;

impl Kind for Optimistic {
    const WORD: Option<&'static str> = Some("optimistic");

    calls_of_a_kind!();

    fn open(options: &Options, path: &Path) -> Result<Self, Error> {
        OptimisticTransactionDB::open(options, path)
    }

    fn settle(&self) -> Result<(), Error> {
        self.wait_for_compact(&flush_and_wait())
    }

    fn stop(&self) {
        self.cancel_all_background_work(true);
    }

    fn transactions(store: &RocksStore<Self>) -> Option<&dyn TransactionalStore> {
        Some(store)
    }
}

impl Kind for Pessimistic {
    const WORD: Option<&'static str> = Some("pessimistic");

    calls_of_a_kind!();

    fn open(options: &Options, path: &Path) -> Result<Self, Error> {
        TransactionDB::open(options, &TransactionDBOptions::default(), path)
    }

    /// This kind has no call that waits for compactions.
    fn settle(&self) -> Result<(), Error> {
        self.flush()?;
        let unfinished = [
            COMPACTION_PENDING,
            NUM_RUNNING_COMPACTIONS,
            NUM_RUNNING_FLUSHES,
        ];
        loop {
            let mut busy = 0;
            for property in unfinished {
                busy += self.property_int_value(property)?.unwrap_or(0);
            }
            if busy == 0 {
                return Ok(());
            }
            sleep(Duration::from_millis(1));
        }
    }

    /// This kind has no such call; dropping it does the same.
    fn stop(&self) {}

    fn transactions(store: &RocksStore<Self>) -> Option<&dyn TransactionalStore> {
        Some(store)
    }
}

impl TransactionalStore for RocksStore<Optimistic> {
    fn run(&self, work: &mut Work) -> StoreResult<u64> {
        let mut options = OptimisticTransactionOptions::new();
        options.set_snapshot(true);
        until_committed(work, || {
            self.database.transaction_opt(&self.write, &options)
        })
    }
}

impl TransactionalStore for RocksStore<Pessimistic> {
    fn run(&self, work: &mut Work) -> StoreResult<u64> {
        let mut options = TransactionOptions::new();
        options.set_deadlock_detect(true);
        until_committed(work, || {
            self.database.transaction_opt(&self.write, &options)
        })
    }
}

/// Why an attempt ended.
enum Ended {
    Rocks(Error),
    Wrong(StoreError),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Rocks(error)
    }
}

fn until_committed<'a, D: 'a>(
    work: &mut Work,
    begin: impl Fn() -> Transaction<'a, D>,
) -> StoreResult<u64> {
    use ErrorKind::{Busy, TimedOut, TryAgain};
    let mut aborts = 0;
    loop {
        match attempt(work, begin()) {
            Ok(()) => return Ok(aborts),
            Err(Ended::Rocks(error)) if matches!(error.kind(), Busy | TimedOut | TryAgain) => {
                aborts += 1;
            }
            Err(Ended::Rocks(error)) => return Err(StoreError::new("transaction", error)),
            Err(Ended::Wrong(error)) => return Err(error),
        }
    }
}

/// How keys are locked.
const EXCLUSIVE: bool = true;

fn attempt<D>(work: &mut Work, transaction: Transaction<'_, D>) -> Result<(), Ended> {
    for position in 0..READS {
        let value = transaction.get_pinned_for_update(work.key(position), EXCLUSIVE)?;
        work.take(position, value.as_deref())
            .map_err(Ended::Wrong)?;
    }
    for (key, value) in work.writes() {
        transaction.put(key, value)?;
    }
    Ok(transaction.commit()?)
}
