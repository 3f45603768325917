//! fjall: a log-structured merge tree in Rust.
//!
//! Settings: defaults, uncompressed, its cache a quarter of the memory. Paying the debt is writing
//! the memtable out and waiting until flushes and compactions rest.
//!
//! It has no merges: a counter is read, and written with the addition, under one of [`LOCKS`] locks
//! of the adapter's. A hash of the key chooses the lock, so that no addition is lost.
//!
//! With transactions it is another kind of database over the same keyspace: see [`transactions`].
//!
//! | level | setting |
//! |---|---|
//! | sync | each write followed by `persist(SyncData)`; a batch has that as its durability |
//! | process | its default: the journal is written, not synced |
//! | relaxed | `manual_journal_persist`: the journal is written when its buffer is full |

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use evendb_lab::opener::Durability;
use evendb_lab::purposes::{CountingStore, counter_of};
use evendb_lab::store::{BatchWrite, Figure, Store, StoreError, StoreResult};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use parking_lot::Mutex;

use crate::failed;

pub mod transactions;

/// The number of locks for additions to counters.
const LOCKS: usize = 1024;

/// A fjall database with one keyspace.
pub struct FjallStore {
    database: Database,
    records: Keyspace,
    durability: Durability,
    locks: Box<[Mutex<()>]>,
}

impl FjallStore {
    /// Opens or makes a database in this directory, for `memory_bytes` bytes of memory in all.
    ///
    /// # Errors
    /// fjall's own.
    pub fn open(path: &Path, memory_bytes: u64, durability: Durability) -> StoreResult<Self> {
        let database = Database::builder(path)
            .cache_size(memory_bytes / 4)
            .open()
            .map_err(failed("open"))?;
        let options = || {
            let relaxed = durability == Durability::Relaxed;
            KeyspaceCreateOptions::default().manual_journal_persist(relaxed)
        };
        let records = database
            .keyspace("records", options)
            .map_err(failed("open"))?;
        Ok(Self::new(database, records, durability))
    }

    fn new(database: Database, records: Keyspace, durability: Durability) -> Self {
        Self {
            database,
            records,
            durability,
            locks: (0..LOCKS).map(|_| Mutex::new(())).collect(),
        }
    }

    /// What a write does before it returns, in addition to writing.
    fn persist(&self, operation: &'static str) -> StoreResult<()> {
        if self.durability != Durability::Sync {
            return Ok(());
        }
        self.database
            .persist(PersistMode::SyncData)
            .map_err(failed(operation))
    }
}

impl Store for FjallStore {
    fn name(&self) -> String {
        match self.durability {
            Durability::Process => "fjall".to_owned(),
            other => format!("fjall ({})", other.name()),
        }
    }

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        let found = self.records.get(key).map_err(failed("get"))?;
        Ok(found.map(|value| check(&value)).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.records.insert(key, value).map_err(failed("put"))?;
        self.persist("put")
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.records.remove(key).map_err(failed("delete"))?;
        self.persist("delete")
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        let mut lent = 0;
        for record in self.records.range(from..).take(limit) {
            let (key, value) = record.into_inner().map_err(failed("scan"))?;
            lent += 1;
            if !each(&key, &value) {
                break;
            }
        }
        Ok(lent)
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> StoreResult<()> {
        let mut batch = self.database.batch();
        if self.durability == Durability::Sync {
            batch = batch.durability(Some(PersistMode::SyncData));
        }
        for write in writes {
            match *write {
                BatchWrite::Put(key, value) => batch.insert(&self.records, key, value),
                BatchWrite::Delete(key) => batch.remove(&self.records, key),
            }
        }
        batch.commit().map_err(failed("batch"))
    }

    fn counters(&self) -> Option<&dyn CountingStore> {
        Some(self)
    }

    fn stats(&self) -> Vec<Figure> {
        Vec::new()
    }

    fn settle_debt(&self) -> StoreResult<()> {
        self.records
            .rotate_memtable_and_wait()
            .map_err(failed("settle_debt"))?;
        // A compaction is queued a moment after its cause: wait for a longer rest.
        let mut rested = 0;
        while rested < 10 {
            let busy = self.database.outstanding_flushes() + self.database.active_compactions();
            rested = if busy == 0 { rested + 1 } else { 0 };
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> StoreResult<()> {
        self.database
            .persist(PersistMode::Buffer)
            .map_err(failed("close"))
    }
}

impl CountingStore for FjallStore {
    fn add(&self, key: &[u8], addend: u64) -> StoreResult<()> {
        let hash = key.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let _held = self.locks[hash as usize % LOCKS].lock();
        let before = match self.records.get(key).map_err(failed("add"))? {
            None => 0,
            Some(value) => counter_of(&value)
                .ok_or_else(|| StoreError::new("add", "a counter is not 8 bytes long"))?,
        };
        self.put(key, &before.wrapping_add(addend).to_le_bytes())
    }

    fn adds_by(&self) -> &'static str {
        "get, put"
    }
}
