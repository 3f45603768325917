//! Compactions that the user asks for: [`Keyspace::compact_range`], [`Db::compact`].

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

/// A compaction that finds no room on the disk is tried at most this many times.
const PASSES_MAX: usize = 16;

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionSummary {
    /// The number of its jobs.
    pub jobs: u64,
    /// Bytes of tables before it. Records that are only in memory are not counted.
    pub bytes_before: u64,
    /// Bytes of tables after it.
    pub bytes_after: u64,
}

impl Keyspace {
    /// Writes all of a range to the last level, with one run in each guard, and leaves out what
    /// nobody can read any more. Returns when that is done.
    ///
    /// Scans then look at one table at a time, and the database is as small as it can be. Guards at
    /// both ends of the range are rewritten whole. This is never needed, and it writes the whole
    /// range again, once for each level that the range is in.
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
    /// `NoSpace` (nothing is lost), `Latched`, `Closed`, `ReadOnly`, `KeyspaceDropped`, `Io`,
    /// `Corruption`.
    pub fn compact_range<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<CompactionSummary> {
        let (low, high) = limits(&range);
        compact(&self.handle.engine, &self.state, low, high)
    }
}

impl Db {
    /// Compacts all keyspaces, as [`Keyspace::compact_range`] does. A keyspace that is dropped
    /// meanwhile is passed over.
    ///
    /// # Errors
    /// As [`Keyspace::compact_range`], except `KeyspaceDropped`.
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
    // On a full disk the background's jobs may hold the room. They give it back when they end.
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
