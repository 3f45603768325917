//! Compaction that is asked for: [`Keyspace::compact_range`], [`Db::compact`].

use crate::api::db::Db;
use crate::api::keyspace::Keyspace;
use crate::engine::Engine;
use crate::error::{ErrorKind, Result};
use crate::keyspace::KeyspaceState;
use crate::plant::planted;
use crate::tree::Tree;
use crate::worker;
use evendb_base::key_range::limits;
use evendb_base::sync::Arc;
use std::ops::RangeBounds;

/// How often a compaction is begun that finds no room on the disk.
const PASSES_MAX: usize = 4;

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
        let (low, high) = limits(&range);
        compact(&self.handle.engine, &self.state, low, high)
    }
}

impl Db {
    /// Compacts all keyspaces, as [`Keyspace::compact_range`]. One that is dropped meanwhile is passed over.
    ///
    /// # Errors
    /// As there, but for `KeyspaceDropped`.
    pub fn compact(&self) -> Result<CompactionSummary> {
        let engine = self.engine();
        let _inside = engine.health.enter()?;
        let mut all = CompactionSummary::default();
        for keyspace in engine.keyspaces() {
            let done = match compact(engine, &keyspace, Vec::new(), None) {
                Err(error) if error.kind() == ErrorKind::KeyspaceDropped => continue,
                done => done?,
            };
            all.jobs += done.jobs;
            all.bytes_before += done.bytes_before;
            all.bytes_after += done.bytes_after;
        }
        Ok(all)
    }
}

fn compact(
    engine: &Engine,
    keyspace: &Arc<KeyspaceState>,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
) -> Result<CompactionSummary> {
    let enters = !planted!(engine.options, CompactsOutside);
    let _inside = enters.then(|| engine.health.enter()).transpose()?;
    let bytes = || table_bytes(&keyspace.view.load_full().tree);
    let bytes_before = bytes();
    let mut swept = worker::sweep(engine, keyspace, low.clone(), high.clone());
    // On a full disk jobs of the background may have had the room: what they leave is there when they have ended.
    for _ in 1..PASSES_MAX {
        if !swept
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::NoSpace)
        {
            break;
        }
        let _ = engine.work.wait_for_jobs(&engine.health);
        engine.full_disk.tend();
        swept = worker::sweep(engine, keyspace, low.clone(), high.clone());
    }
    let jobs = swept?;
    Ok(CompactionSummary {
        jobs,
        bytes_before,
        bytes_after: bytes(),
    })
}

fn table_bytes(tree: &Tree) -> u64 {
    tree.tables().map(|(_, table)| table.meta.len).sum()
}
