//! surrealkv: a log-structured merge tree in Rust, with optimistic transactions and commits that
//! are futures.
//!
//! Settings: uncompressed, unversioned, no value log, block cache a third of the memory, a memtable
//! of a sixteenth of the memory (16 to 100 MiB; its own account leaves out the values, so two to
//! three of them can take a multiple of that), the rest are the defaults. Each put is a transaction
//! of its own, awaited by the thread that puts; a runtime of two threads runs the store's tasks. A
//! put that met another of the same key is tried again: for a plain put, such a conflict means
//! nothing. Paying the debt is writing the memtable out and waiting until the process rests.
//!
//! | level | setting |
//! |---|---|
//! | sync | `Durability::Immediate`: a commit waits for a sync of the log |
//! | process | `Durability::Eventual`, its default: the log is written, not synced |
//! | relaxed | the same: it has nothing weaker |

use std::path::Path;

use evendb_lab::opener::Durability;
use evendb_lab::store::{BatchWrite, Figure, Store, StoreResult};
use surrealkv::{
    CompactRangeOptions, Error, LSMIterator, Mode, ReadOptions, Transaction, Tree, TreeBuilder,
};
use tokio::runtime::{Builder, Runtime};

use crate::failed;
use crate::rest::wait_for_rest;

/// A surrealkv tree and the runtime that it lives in.
pub struct SurrealStore {
    tree: Tree,
    durability: Durability,
    // After the tree, since it runs the tree's tasks.
    runtime: Runtime,
}

impl SurrealStore {
    /// Opens or makes a tree in this directory, for `memory_bytes` bytes of memory in all.
    ///
    /// # Errors
    /// surrealkv's own, or that no runtime could be started.
    pub fn open(path: &Path, memory_bytes: u64, durability: Durability) -> StoreResult<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(failed("open"))?;
        let memtable_bytes = (memory_bytes / 16).clamp(16 << 20, 100 << 20);
        let entered = runtime.enter();
        let tree = TreeBuilder::new()
            .with_path(path.to_owned())
            .without_compression()
            .with_block_cache_capacity(memory_bytes / 3)
            .with_max_memtable_size(usize::try_from(memtable_bytes).unwrap_or(usize::MAX))
            .build()
            .map_err(failed("open"))?;
        drop(entered);
        Ok(Self {
            tree,
            durability,
            runtime,
        })
    }

    fn write(
        &self,
        operation: &'static str,
        body: impl Fn(&mut Transaction) -> surrealkv::Result<()>,
    ) -> StoreResult<()> {
        loop {
            let attempt = || {
                let mut transaction = self.tree.begin_with_mode(Mode::WriteOnly)?;
                transaction.set_durability(match self.durability {
                    Durability::Sync => surrealkv::Durability::Immediate,
                    Durability::Process | Durability::Relaxed => surrealkv::Durability::Eventual,
                });
                body(&mut transaction)?;
                self.runtime.block_on(transaction.commit())
            };
            match attempt() {
                Err(Error::TransactionWriteConflict) => std::thread::yield_now(),
                outcome => return outcome.map_err(failed(operation)),
            }
        }
    }
}

impl Store for SurrealStore {
    fn name(&self) -> String {
        match self.durability {
            Durability::Sync => "surrealkv (sync)".to_owned(),
            Durability::Process | Durability::Relaxed => "surrealkv".to_owned(),
        }
    }

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        let found = self
            .tree
            .begin_with_mode(Mode::ReadOnly)
            .and_then(|transaction| transaction.get(key))
            .map_err(failed("get"))?;
        Ok(found.map(|value| check(&value)).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.write("put", |transaction| transaction.set(key, value))
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.write("delete", |transaction| transaction.delete(key))
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        let mut whole = || -> surrealkv::Result<usize> {
            let transaction = self.tree.begin_with_mode(Mode::ReadOnly)?;
            let mut options = ReadOptions::new();
            options.set_iterate_lower_bound(Some(from.to_vec()));
            let mut records = transaction.range_with_options(&options)?;
            let mut lent = 0;
            let mut valid = limit > 0 && records.seek_first()?;
            while valid {
                lent += 1;
                let value = records.value()?;
                valid = each(records.key().user_key(), &value) && lent < limit && records.next()?;
            }
            Ok(lent)
        };
        whole().map_err(failed("scan"))
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> StoreResult<()> {
        self.write("batch", |transaction| {
            for write in writes {
                match write {
                    BatchWrite::Put(key, value) => transaction.set(*key, *value)?,
                    BatchWrite::Delete(key) => transaction.delete(*key)?,
                }
            }
            Ok(())
        })
    }

    fn stats(&self) -> Vec<Figure> {
        Vec::new()
    }

    fn settle_debt(&self) -> StoreResult<()> {
        // To level 0 means: written out, and nothing else.
        let options = CompactRangeOptions {
            target_level: Some(0),
            rewrite_bottommost: false,
            ..CompactRangeOptions::default()
        };
        let _entered = self.runtime.enter();
        self.tree
            .compact_range(None, None, &options)
            .map_err(failed("settle_debt"))?;
        wait_for_rest(String::new);
        Ok(())
    }

    fn close(self: Box<Self>) -> StoreResult<()> {
        self.runtime
            .block_on(self.tree.close())
            .map_err(failed("close"))
    }
}
