//! Compaction that is asked for: [`Keyspace::compact_range`], [`Db::compact`].

use crate::api::db::Db;
use crate::api::keyspace::Keyspace;
use crate::error::Result;
use crate::tree::Tree;
use crate::worker;
use evendb_base::key_range::limits;
use std::ops::RangeBounds;

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionSummary {
    /// Jobs that it took.
    pub jobs: u64,
    /// Bytes of tables before. What was in memory alone is not counted.
    pub bytes_before: u64,
    /// Bytes of tables after.
    pub bytes_after: u64,
}

impl Keyspace {
    /// Writes all of a range to the last level, one run a guard, and leaves out what nobody can read any more; waits for it.
    ///
    /// Scans then look at one table at a time, and the database is as small as it can be. Guards at the ends are taken whole. It is never
    /// needed, and writes all of the range again, once for each level that it is in.
    ///
    /// ```
    /// # fn main() -> evendb_flsm::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb_flsm::Db::open(dir.path())?;
    /// db.put("key", "value")?;
    /// db.delete("key")?;
    /// let done = db.default_keyspace().compact_range::<&str>(..)?;
    /// assert_eq!(done.bytes_after, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NoSpace` (nothing is lost), `Latched`, `Closed`, `ReadOnly`, `KeyspaceDropped`, `Io`, `Corruption`.
    pub fn compact_range<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<CompactionSummary> {
        let engine = &self.handle.engine;
        engine.health.check_writable()?;
        let bytes = || table_bytes(&self.state.view.load_full().tree);
        let bytes_before = bytes();
        let (low, high) = limits(&range);
        let jobs = worker::sweep(engine, &self.state, low, high)?;
        Ok(CompactionSummary {
            jobs,
            bytes_before,
            bytes_after: bytes(),
        })
    }
}

impl Db {
    /// Compacts all keyspaces, as [`Keyspace::compact_range`].
    ///
    /// # Errors
    /// As there.
    pub fn compact(&self) -> Result<CompactionSummary> {
        // There may be no keyspace to be asked: in a forked child.
        self.check_writable()?;
        let mut all = CompactionSummary::default();
        for name in self.keyspace_names() {
            let done = self.keyspace(&name)?.compact_range::<&[u8]>(..)?;
            all.jobs += done.jobs;
            all.bytes_before += done.bytes_before;
            all.bytes_after += done.bytes_after;
        }
        Ok(all)
    }
}

fn table_bytes(tree: &Tree) -> u64 {
    tree.tables().map(|(_, table)| table.meta.len).sum()
}
