//! RocksDB, as it comes, tuned, and tuned with universal compaction.
//!
//! | | as it comes | tuned, universal |
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
//! Universal compaction, with its own defaults, merges runs of like size instead of levels: fewer
//! bytes written, more runs to look into, and up to twice the room.
//!
//! | level | setting |
//! |---|---|
//! | sync | `WriteOptions::sync` |
//! | process | its default: the log is written, not synced |
//! | relaxed | `manual_wal_flush`: the log is written when its buffer is full |
//!
//! The rest of the memory is the page cache's in both. Paying the debt is a flush and waiting for
//! compactions to end.

use std::path::Path;

use evendb_lab::opener::Durability;
use evendb_lab::store::{BatchWrite, Figure, Store, StoreResult};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompactionStyle, DBCompressionType, Options,
    WaitForCompactOptions, WriteBatch, WriteOptions,
};

use crate::failed;

/// Which settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tuning {
    /// As it comes, uncompressed.
    Default,
    /// See the module.
    Tuned,
    /// Tuned, with universal compaction.
    Universal,
}

/// A RocksDB database.
pub struct RocksStore {
    database: DB,
    tuning: Tuning,
    durability: Durability,
    write: WriteOptions,
}

impl RocksStore {
    /// Opens or makes one in this directory, for `memory_bytes` bytes of memory in all.
    ///
    /// # Errors
    /// RocksDB's own.
    pub fn open(
        path: &Path,
        tuning: Tuning,
        memory_bytes: u64,
        durability: Durability,
    ) -> StoreResult<Self> {
        let mut options = Options::default();
        options.set_manual_wal_flush(durability == Durability::Relaxed);
        options.create_if_missing(true);
        options.set_compression_type(DBCompressionType::None);
        if tuning != Tuning::Default {
            let memory_bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
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
        if tuning == Tuning::Universal {
            options.set_compaction_style(DBCompactionStyle::Universal);
        }
        let database = DB::open(&options, path).map_err(failed("open"))?;
        let mut write = WriteOptions::default();
        write.set_sync(durability == Durability::Sync);
        Ok(Self {
            database,
            tuning,
            durability,
            write,
        })
    }
}

impl Store for RocksStore {
    fn name(&self) -> String {
        let tuning = match self.tuning {
            Tuning::Default => "default",
            Tuning::Tuned => "tuned",
            Tuning::Universal => "universal",
        };
        match self.durability {
            Durability::Process => format!("rocksdb ({tuning})"),
            other => format!("rocksdb ({tuning}, {})", other.name()),
        }
    }

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        let found = self.database.get_pinned(key).map_err(failed("get"))?;
        Ok(found.map(|value| check(&value)).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.database
            .put_opt(key, value, &self.write)
            .map_err(failed("put"))
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.database
            .delete_opt(key, &self.write)
            .map_err(failed("delete"))
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        let mut records = self.database.raw_iterator();
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
        let mut batch = WriteBatch::default();
        for write in writes {
            match write {
                BatchWrite::Put(key, value) => batch.put(key, value),
                BatchWrite::Delete(key) => batch.delete(key),
            }
        }
        self.database
            .write_opt(batch, &self.write)
            .map_err(failed("batch"))
    }

    fn stats(&self) -> Vec<Figure> {
        Vec::new()
    }

    fn settle_debt(&self) -> StoreResult<()> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        self.database
            .wait_for_compact(&options)
            .map_err(failed("settle_debt"))
    }

    fn close(self: Box<Self>) -> StoreResult<()> {
        self.database.cancel_all_background_work(true);
        Ok(())
    }
}
