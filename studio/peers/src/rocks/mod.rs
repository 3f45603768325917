//! RocksDB: with defaults, tuned, and tuned with universal compaction.
//!
//! | | defaults | tuned, universal |
//! |---|---|---|
//! | write-ahead log | on | on |
//! | compression | none | none |
//! | block cache | its default (32 MiB) | a third of the memory |
//! | filters | none | 10 bits per key |
//! | write buffers | 2 of 64 MiB | 3 of a sixteenth of the memory, 16 to 64 MiB |
//! | background jobs | 2 | 2 |
//! | level sizes | dynamic | dynamic |
//! | writes | plain | pipelined |
//!
//! Universal compaction, with its own defaults, merges runs of similar size instead of levels:
//! fewer bytes written, more runs to look into, and up to twice the space.
//!
//! | level | setting |
//! |---|---|
//! | sync | `WriteOptions::sync` |
//! | process | its default: the log is written, not synced |
//! | relaxed | `manual_wal_flush`: the log is written when its buffer is full |
//!
//! With transactions it is another kind of database with the same settings: see [`transactions`].
//! Opened for a purpose of the lab it has further settings: see [`purposes`].
//!
//! The rest of the memory is the page cache's in both. Paying the debt is a flush and waiting for
//! compactions to end.

use std::path::{Path, PathBuf};

use evendb_lab::opener::{Durability, Purpose};
use evendb_lab::purposes::{CountingStore, ExpiringStore, IngestingStore};
use evendb_lab::store::{BatchWrite, Figure, Store, StoreError, StoreResult};
use evendb_lab::transactions::TransactionalStore;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBAccess, DBCompactionStyle, DBCompressionType, DBPinnableSlice,
    DBRawIteratorWithThreadMode, Error, Options, WaitForCompactOptions, WriteBatchWithTransaction,
    WriteOptions,
};

use crate::failed;

pub mod purposes;
pub mod transactions;

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tuning {
    /// Defaults, uncompressed.
    Default,
    /// See the module.
    Tuned,
    /// Tuned, with universal compaction.
    Universal,
}

/// A kind of database of RocksDB. All kinds have the same calls, and no type in common.
#[allow(
    clippy::missing_errors_doc,
    reason = "each returns RocksDB's own error, and says nothing else"
)]
pub trait Kind: DBAccess + Send + Sync + Sized {
    /// The word that distinguishes it in reports. None for the plain kind.
    const WORD: Option<&'static str>;

    /// Opens or makes a database.
    fn open(options: &Options, path: &Path) -> Result<Self, Error>;

    /// A key's value.
    fn get(&self, key: &[u8]) -> Result<Option<DBPinnableSlice<'_>>, Error>;

    /// Sets a key.
    fn put(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<(), Error>;

    /// Removes a key.
    fn delete(&self, key: &[u8], options: &WriteOptions) -> Result<(), Error>;

    /// Removes the keys from `low` to below `high`, if the kind has such a call.
    fn delete_range(
        &self,
        _low: &[u8],
        _high: &[u8],
        _options: &WriteOptions,
    ) -> Option<Result<(), Error>> {
        None
    }

    /// Applies a batch.
    fn write(&self, writes: &[BatchWrite<'_>], options: &WriteOptions) -> Result<(), Error>;

    /// All records.
    fn records(&self) -> DBRawIteratorWithThreadMode<'_, Self>;

    /// Flushes, and waits until no compaction is due.
    fn settle(&self) -> Result<(), Error>;

    /// Ends background work.
    fn stop(&self);

    /// The transactions of a store of this kind.
    fn transactions(store: &RocksStore<Self>) -> Option<&dyn TransactionalStore>;

    /// The store, if it is of the plain kind: only this kind is opened for purposes.
    fn plain(_store: &RocksStore<Self>) -> Option<&RocksStore<DB>> {
        None
    }
}

/// The calls that look the same for every kind.
macro_rules! calls_of_a_kind {
    () => {
        fn get(&self, key: &[u8]) -> Result<Option<DBPinnableSlice<'_>>, Error> {
            self.get_pinned(key)
        }

        fn put(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<(), Error> {
            self.put_opt(key, value, options)
        }

        fn delete(&self, key: &[u8], options: &WriteOptions) -> Result<(), Error> {
            self.delete_opt(key, options)
        }

        fn write(&self, writes: &[BatchWrite<'_>], options: &WriteOptions) -> Result<(), Error> {
            self.write_opt($crate::rocks::gathered(writes), options)
        }

        fn records(&self) -> DBRawIteratorWithThreadMode<'_, Self> {
            self.raw_iterator()
        }
    };
}
use calls_of_a_kind;

fn gathered<const WITH_TRANSACTIONS: bool>(
    writes: &[BatchWrite<'_>],
) -> WriteBatchWithTransaction<WITH_TRANSACTIONS> {
    let mut batch = WriteBatchWithTransaction::default();
    for write in writes {
        match write {
            BatchWrite::Put(key, value) => batch.put(key, value),
            BatchWrite::Delete(key) => batch.delete(key),
        }
    }
    batch
}

/// How nearly all kinds wait for work that is due.
fn flush_and_wait() -> WaitForCompactOptions {
    let mut options = WaitForCompactOptions::default();
    options.set_flush(true);
    options
}

impl Kind for DB {
    const WORD: Option<&'static str> = None;

    calls_of_a_kind!();

    fn open(options: &Options, path: &Path) -> Result<Self, Error> {
        DB::open(options, path)
    }

    fn delete_range(
        &self,
        low: &[u8],
        high: &[u8],
        options: &WriteOptions,
    ) -> Option<Result<(), Error>> {
        let mut batch = WriteBatchWithTransaction::<false>::default();
        batch.delete_range(low, high);
        Some(self.write_opt(batch, options))
    }

    fn settle(&self) -> Result<(), Error> {
        self.wait_for_compact(&flush_and_wait())
    }

    fn stop(&self) {
        self.cancel_all_background_work(true);
    }

    fn transactions(_: &RocksStore<Self>) -> Option<&dyn TransactionalStore> {
        None
    }

    fn plain(store: &RocksStore<Self>) -> Option<&RocksStore<DB>> {
        Some(store)
    }
}

/// How a database is opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// Its directory.
    pub path: &'a Path,
    /// The settings.
    pub tuning: Tuning,
    /// Bytes of memory in all.
    pub memory_bytes: u64,
    /// Bytes of a write buffer, if they differ from the settings. Levels and tables keep their
    /// ratio to it as in RocksDB's defaults.
    pub write_buffer_bytes: Option<u64>,
    /// What a write survives.
    pub durability: Durability,
}

impl Opening<'_> {
    /// Adds the settings of the module's table to `options`.
    fn set(&self, options: &mut Options) {
        options.set_manual_wal_flush(self.durability == Durability::Relaxed);
        options.create_if_missing(true);
        options.set_compression_type(DBCompressionType::None);
        if self.tuning != Tuning::Default {
            let memory_bytes = usize::try_from(self.memory_bytes).unwrap_or(usize::MAX);
            let mut tables = BlockBasedOptions::default();
            tables.set_block_cache(&Cache::new_lru_cache(memory_bytes / 3));
            tables.set_bloom_filter(10.0, false);
            options.set_block_based_table_factory(&tables);
            options.set_write_buffer_size((memory_bytes / 16).clamp(16 << 20, 64 << 20));
            options.set_max_write_buffer_number(3);
            options.set_max_background_jobs(2);
            options.set_level_compaction_dynamic_level_bytes(true);
            options.set_enable_pipelined_write(true);
        }
        if self.tuning == Tuning::Universal {
            options.set_compaction_style(DBCompactionStyle::Universal);
        }
        if let Some(bytes) = self.write_buffer_bytes {
            options.set_write_buffer_size(usize::try_from(bytes).unwrap_or(usize::MAX));
            options.set_max_bytes_for_level_base(bytes.saturating_mul(4));
            options.set_target_file_size_base(bytes);
        }
    }
}

/// A RocksDB database.
pub struct RocksStore<K = DB> {
    database: K,
    tuning: Tuning,
    durability: Durability,
    write: WriteOptions,
    path: PathBuf,
    memory_bytes: u64,
    /// The purpose for which it was opened.
    purpose: Option<Purpose>,
}

impl<K: Kind> RocksStore<K> {
    /// Opens or makes a database.
    ///
    /// # Errors
    /// RocksDB's own.
    pub fn open(opening: &Opening<'_>) -> StoreResult<Self> {
        let mut options = Options::default();
        opening.set(&mut options);
        let database = K::open(&options, opening.path).map_err(failed("open"))?;
        Ok(Self::new(database, opening, None))
    }

    fn new(database: K, opening: &Opening<'_>, purpose: Option<Purpose>) -> Self {
        let mut write = WriteOptions::default();
        write.set_sync(opening.durability == Durability::Sync);
        Self {
            database,
            tuning: opening.tuning,
            durability: opening.durability,
            write,
            path: opening.path.to_owned(),
            memory_bytes: opening.memory_bytes,
            purpose,
        }
    }
}

impl<K: Kind> Store for RocksStore<K> {
    fn name(&self) -> String {
        let tuning = match self.tuning {
            Tuning::Default => "default",
            Tuning::Tuned => "tuned",
            Tuning::Universal => "universal",
        };
        let level = match self.durability {
            Durability::Process => None,
            other => Some(other.name()),
        };
        let apart = matches!(self.purpose, Some(Purpose::ValuesApart(_)));
        let blobs = apart.then_some("blob files");
        let words: Vec<_> = [Some(tuning), K::WORD, blobs, level]
            .into_iter()
            .flatten()
            .collect();
        format!("rocksdb ({})", words.join(", "))
    }

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        let found = self.database.get(key).map_err(failed("get"))?;
        Ok(found.map(|value| check(&value)).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.database
            .put(key, value, &self.write)
            .map_err(failed("put"))
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.database
            .delete(key, &self.write)
            .map_err(failed("delete"))
    }

    fn delete_range(&self, low: &[u8], high: &[u8]) -> StoreResult<()> {
        match self.database.delete_range(low, high, &self.write) {
            Some(done) => done.map_err(failed("delete_range")),
            None => {
                let message = format!("{} has no range deletions", self.name());
                Err(StoreError::new("delete_range", message))
            }
        }
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        let mut records = self.database.records();
        records.seek(from);
        let mut lent = 0;
        while lent < limit {
            let Some((key, value)) = records.item() else {
                break;
            };
            lent += 1;
            if !each(key, value) {
                break;
            }
            records.next();
        }
        records.status().map_err(failed("scan"))?;
        Ok(lent)
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> StoreResult<()> {
        self.database
            .write(writes, &self.write)
            .map_err(failed("batch"))
    }

    fn transactions(&self) -> Option<&dyn TransactionalStore> {
        K::transactions(self)
    }

    fn counters(&self) -> Option<&dyn CountingStore> {
        K::plain(self).and_then(purposes::counters)
    }

    fn sorted_ingest(&self) -> Option<&dyn IngestingStore> {
        K::plain(self).and_then(purposes::sorted_ingest)
    }

    fn expiring(&self) -> Option<&dyn ExpiringStore> {
        K::plain(self).and_then(purposes::expiring)
    }

    fn stats(&self) -> Vec<Figure> {
        Vec::new()
    }

    fn settle_debt(&self) -> StoreResult<()> {
        self.database.settle().map_err(failed("settle_debt"))
    }

    fn close(self: Box<Self>) -> StoreResult<()> {
        self.database.stop();
        Ok(())
    }
}
