//! fjall's two kinds of transactions. Commits are serializable in both.
//!
//! Optimistic: `OptimisticTxDatabase`. Reads are `get` of the snapshot at the begin, and are noted.
//! A transaction is aborted if a key that it read has been written since by another one (`Conflict`
//! at the commit), and is tried again at once.
//!
//! Single writer: `SingleWriterTxDatabase`. Reads are `get` of the snapshot at the begin. No
//! transaction is aborted: there is one at a time, and the others wait before they begin.
//!
//! Commits are written to the journal as other writes of the level are; at level sync each has
//! `SyncData` as its durability. Writes outside of transactions bypass both, so nothing else writes
//! while transactions run.

use std::path::Path;

use evendb_lab::opener::Durability;
use evendb_lab::store::{Store, StoreError, StoreResult};
use evendb_lab::transactions::{READS, TransactionalStore, Work};
use fjall::{
    KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, PersistMode, Readable,
    SingleWriterTxDatabase, SingleWriterTxKeyspace, UserValue,
};

use super::FjallStore;
use crate::failed;

/// The kind of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transactions {
    /// Reads are looked at again at the commit.
    Optimistic,
    /// One transaction at a time.
    SingleWriter,
}

/// A fjall database with transactions. All other calls bypass them.
pub struct TransactionalFjallStore {
    plain: FjallStore,
    form: Form,
}

enum Form {
    Optimistic(OptimisticTxDatabase, OptimisticTxKeyspace),
    SingleWriter(SingleWriterTxDatabase, SingleWriterTxKeyspace),
}

impl TransactionalFjallStore {
    /// Opens or makes a database in this directory, for `memory_bytes` bytes of memory in all.
    ///
    /// # Errors
    /// fjall's own.
    pub fn open(
        path: &Path,
        transactions: Transactions,
        memory_bytes: u64,
        durability: Durability,
    ) -> StoreResult<Self> {
        let cache_bytes = memory_bytes / 4;
        let relaxed = durability == Durability::Relaxed;
        let form = match transactions {
            Transactions::Optimistic => optimistic(path, cache_bytes, relaxed),
            Transactions::SingleWriter => single_writer(path, cache_bytes, relaxed),
        };
        let form = form.map_err(failed("open"))?;
        let (database, records) = match &form {
            Form::Optimistic(database, records) => (database.inner(), records.inner()),
            Form::SingleWriter(database, records) => (database.inner(), records.inner()),
        };
        let plain = FjallStore::new(database.clone(), records.clone(), durability);
        Ok(Self { plain, form })
    }

    /// The durability of a commit, if it differs from the level's default.
    fn sync(&self) -> Option<PersistMode> {
        (self.plain.durability == Durability::Sync).then_some(PersistMode::SyncData)
    }
}

fn keyspace_options(relaxed: bool) -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().manual_journal_persist(relaxed)
}

fn optimistic(path: &Path, cache_bytes: u64, relaxed: bool) -> fjall::Result<Form> {
    let database = OptimisticTxDatabase::builder(path)
        .cache_size(cache_bytes)
        .manual_journal_persist(relaxed)
        .open()?;
    let records = database.keyspace("records", || keyspace_options(relaxed))?;
    Ok(Form::Optimistic(database, records))
}

fn single_writer(path: &Path, cache_bytes: u64, relaxed: bool) -> fjall::Result<Form> {
    let database = SingleWriterTxDatabase::builder(path)
        .cache_size(cache_bytes)
        .manual_journal_persist(relaxed)
        .open()?;
    let records = database.keyspace("records", || keyspace_options(relaxed))?;
    Ok(Form::SingleWriter(database, records))
}

/// Gives all values that `get` finds to the work.
fn read(
    work: &mut Work,
    mut get: impl FnMut(&[u8]) -> fjall::Result<Option<UserValue>>,
) -> StoreResult<()> {
    for position in 0..READS {
        let value = get(&work.key(position)).map_err(failed("transaction"))?;
        work.take(position, value.as_deref())?;
    }
    Ok(())
}

impl TransactionalStore for TransactionalFjallStore {
    fn run(&self, work: &mut Work) -> StoreResult<u64> {
        let failed = |error| StoreError::new("transaction", error);
        match &self.form {
            Form::Optimistic(database, records) => {
                let mut aborts = 0;
                loop {
                    let mut transaction = database.write_tx().map_err(failed)?;
                    if let Some(mode) = self.sync() {
                        transaction = transaction.durability(Some(mode));
                    }
                    read(work, |key| transaction.get(records, key))?;
                    for (key, value) in work.writes() {
                        transaction.insert(records, key, value);
                    }
                    match transaction.commit().map_err(failed)? {
                        Ok(()) => return Ok(aborts),
                        Err(fjall::Conflict) => aborts += 1,
                    }
                }
            }
            Form::SingleWriter(database, records) => {
                let mut transaction = database.write_tx();
                if let Some(mode) = self.sync() {
                    transaction = transaction.durability(Some(mode));
                }
                read(work, |key| transaction.get(records, key))?;
                for (key, value) in work.writes() {
                    transaction.insert(records, key, value);
                }
                transaction.commit().map_err(failed)?;
                Ok(0)
            }
        }
    }
}

impl Store for TransactionalFjallStore {
    fn name(&self) -> String {
        let kind = match self.form {
            Form::Optimistic(..) => "optimistic",
            Form::SingleWriter(..) => "single writer",
        };
        format!("{}, {kind}", self.plain.name())
    }

    evendb_lab::passed_on!(plain: get, put, delete, scan, batch, stats, settle_debt, close);

    fn transactions(&self) -> Option<&dyn TransactionalStore> {
        Some(self)
    }
}
