//! LMDB: a copy-on-write B+ tree in a memory map.
//!
//! Settings: a map far larger than the data, one unnamed database, each put its own transaction,
//! each get and scan too. Without `WRITEMAP`: a stray write of the process could damage the data.
//! Paying the debt is a sync of the file.
//!
//! | level | setting |
//! |---|---|
//! | sync | its default: a commit syncs the pages, then the meta page |
//! | process | `NOSYNC`: commits reach the page cache only, as EvenDB's default put does |
//! | relaxed | the same: it has nothing weaker |

#![expect(
    unsafe_code,
    reason = "opening a map is unsafe: nobody else may change the file"
)]

use std::ops::Bound;
use std::path::Path;

use evendb_lab::opener::Durability;
use evendb_lab::store::{BatchWrite, Figure, Store, StoreResult};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};

use crate::failed;

/// Bytes of address space, not of memory.
const MAP_BYTES: usize = 256 << 30;

/// The single database of an environment.
pub(crate) type Records = Database<'static, Bytes, Bytes>;

/// Opens or makes an environment and its unnamed database.
pub(crate) fn open(path: &Path, durability: Durability) -> heed::Result<(Env, Records)> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES).max_readers(1024);
    // Its documents advise this for data beyond RAM that is read at random. In RAM it makes no
    // difference.
    let flags = EnvFlags::NO_READ_AHEAD
        | match durability {
            Durability::Sync => EnvFlags::empty(),
            Durability::Process | Durability::Relaxed => EnvFlags::NO_SYNC,
        };
    // SAFETY: a directory of this run alone, so nobody changes the file under the map; NO_SYNC
    // risks the data after a crash of the machine, and it is set only if that is wanted.
    let env = unsafe { options.flags(flags).open(path)? };
    let transaction = env.write_txn()?;
    let records = env.create_databases_and_commit(transaction, |opener, transaction| {
        let records = opener.create_database::<Bytes, Bytes>(transaction, None)?;
        heed::Result::Ok(CommitOrAbort::<_, ()>::Commit(records))
    })?;
    Ok((env.clone(), records.unwrap_commit()))
}

/// An LMDB environment with one database.
pub struct LmdbStore {
    env: Env,
    records: Records,
    durability: Durability,
}

impl LmdbStore {
    /// Opens or makes an environment in this directory, which must be there.
    ///
    /// # Errors
    /// LMDB's own.
    pub fn open(path: &Path, durability: Durability) -> StoreResult<Self> {
        let (env, records) = open(path, durability).map_err(failed("open"))?;
        Ok(Self {
            env,
            records,
            durability,
        })
    }

    fn write(
        &self,
        operation: &'static str,
        body: impl FnOnce(&mut heed::RwTxn<'_>) -> heed::Result<()>,
    ) -> StoreResult<()> {
        let whole = || {
            let mut transaction = self.env.write_txn()?;
            body(&mut transaction)?;
            transaction.commit()
        };
        whole().map_err(failed(operation))
    }
}

impl Store for LmdbStore {
    fn name(&self) -> String {
        match self.durability {
            Durability::Sync => "lmdb (sync)".to_owned(),
            Durability::Process | Durability::Relaxed => "lmdb (nosync)".to_owned(),
        }
    }

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        let transaction = self.env.read_txn().map_err(failed("get"))?;
        let found = self.records.get(&transaction, key).map_err(failed("get"))?;
        Ok(found.map(check).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.write("put", |transaction| {
            self.records.put(transaction, key, value)
        })
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.write("delete", |transaction| {
            self.records.delete(transaction, key).map(drop)
        })
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        let transaction = self.env.read_txn().map_err(failed("scan"))?;
        // It has no empty key, and refuses one as a bound too.
        let from = if from.is_empty() {
            Bound::Unbounded
        } else {
            Bound::Included(from)
        };
        let range = (from, Bound::Unbounded);
        let records = self
            .records
            .range(&transaction, &range)
            .map_err(failed("scan"))?;
        let mut lent = 0;
        for record in records.take(limit) {
            let (key, value) = record.map_err(failed("scan"))?;
            lent += 1;
            if !each(key, value) {
                break;
            }
        }
        Ok(lent)
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> StoreResult<()> {
        self.write("batch", |transaction| {
            for write in writes {
                match write {
                    BatchWrite::Put(key, value) => self.records.put(transaction, key, value)?,
                    BatchWrite::Delete(key) => self.records.delete(transaction, key).map(drop)?,
                }
            }
            Ok(())
        })
    }

    fn stats(&self) -> Vec<Figure> {
        Vec::new()
    }

    fn settle_debt(&self) -> StoreResult<()> {
        self.env.force_sync().map_err(failed("settle_debt"))
    }

    fn close(self: Box<Self>) -> StoreResult<()> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}
