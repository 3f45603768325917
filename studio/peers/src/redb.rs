//! redb: a copy-on-write B+ tree in Rust.
//!
//! Settings: defaults, one table, its cache half of the memory (pages that are not cached are read
//! through the page cache), each put its own write transaction, each get and scan its own read
//! transaction.
//!
//! | level | setting |
//! |---|---|
//! | sync | `Durability::Immediate`, its default: a commit syncs |
//! | process | the same: it has no level between this and the next |
//! | relaxed | `Durability::None`: durable with the next immediate commit, which settling makes |

use std::path::Path;

use evendb_lab::opener::Durability;
use evendb_lab::store::{BatchWrite, Figure, Store, StoreResult};
use redb::{Database, ReadableDatabase, TableDefinition, WriteTransaction};

use crate::failed;

const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

/// A redb database with one table.
pub struct RedbStore {
    database: Database,
    durability: Durability,
}

impl RedbStore {
    /// Opens or makes a database in this directory, for `memory_bytes` bytes of memory in all.
    ///
    /// # Errors
    /// redb's own.
    pub fn open(path: &Path, memory_bytes: u64, durability: Durability) -> StoreResult<Self> {
        let mut builder = Database::builder();
        builder.set_cache_size(usize::try_from(memory_bytes / 2).unwrap_or(usize::MAX));
        let database = builder
            .create(path.join("records.redb"))
            .map_err(failed("open"))?;
        let store = Self {
            database,
            durability,
        };
        // The table exists from now on, for reads too.
        store.write("open", |_| Ok(()))?;
        Ok(store)
    }

    fn begin(&self) -> Result<WriteTransaction, redb::Error> {
        let mut transaction = self.database.begin_write()?;
        if self.durability == Durability::Relaxed {
            transaction.set_durability(redb::Durability::None)?;
        }
        Ok(transaction)
    }

    fn write(
        &self,
        operation: &'static str,
        body: impl FnOnce(&mut redb::Table<'_, &[u8], &[u8]>) -> Result<(), redb::Error>,
    ) -> StoreResult<()> {
        let whole = || -> Result<(), redb::Error> {
            let transaction = self.begin()?;
            body(&mut transaction.open_table(RECORDS)?)?;
            Ok(transaction.commit()?)
        };
        whole().map_err(failed(operation))
    }

    fn sync(&self, operation: &'static str) -> StoreResult<()> {
        let whole = || -> Result<(), redb::Error> { Ok(self.database.begin_write()?.commit()?) };
        whole().map_err(failed(operation))
    }
}

impl Store for RedbStore {
    fn name(&self) -> String {
        format!("redb ({})", self.durability.name())
    }

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        let mut whole = || -> Result<bool, redb::Error> {
            let table = self.database.begin_read()?.open_table(RECORDS)?;
            Ok(table.get(key)?.map(|value| check(value.value())).is_some())
        };
        whole().map_err(failed("get"))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.write("put", |table| {
            table.insert(key, value)?;
            Ok(())
        })
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.write("delete", |table| {
            table.remove(key)?;
            Ok(())
        })
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        let mut whole = || -> Result<usize, redb::Error> {
            let table = self.database.begin_read()?.open_table(RECORDS)?;
            let mut lent = 0;
            for record in table.range(from..)?.take(limit) {
                let (key, value) = record?;
                lent += 1;
                if !each(key.value(), value.value()) {
                    break;
                }
            }
            Ok(lent)
        };
        whole().map_err(failed("scan"))
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> StoreResult<()> {
        self.write("batch", |table| {
            for write in writes {
                match *write {
                    BatchWrite::Put(key, value) => drop(table.insert(key, value)?),
                    BatchWrite::Delete(key) => drop(table.remove(key)?),
                }
            }
            Ok(())
        })
    }

    fn stats(&self) -> Vec<Figure> {
        Vec::new()
    }

    fn settle_debt(&self) -> StoreResult<()> {
        self.sync("settle_debt")
    }

    fn close(self: Box<Self>) -> StoreResult<()> {
        self.sync("close")
    }
}
