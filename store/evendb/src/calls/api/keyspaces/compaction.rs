//! Compaction of a keyspace on demand, and the filter that decides about its records when they are
//! rewritten.

use crate::api::keyspace::Keyspace;
use crate::compact::{self, CompactionSummary, KeySpan};
use crate::error::Result;
use crate::options::CompactionFilter;
use crate::plant::planted;
use crate::read::cursor::{limits, prefix_end};
use crate::sync::Arc;
use evendb_storage::Version;
use std::ops::RangeBounds;

impl Keyspace {
    /// Makes the keyspace as small as it can be: runs a checkpoint and all reorganisation that is
    /// owed, by the whole database, and then rewrites each chunk that has a log, tombstones,
    /// several tables, or versions that nobody can read any more. Reads and writes go on meanwhile;
    /// records that they add are not waited for. Records that snapshots still see stay.
    ///
    /// Reorganisation by itself leaves garbage up to its limits, because rewriting sooner costs
    /// more than it gains. This call is for times when no more writes are expected: after a bulk
    /// load or a large deletion, or before a copy. It reads nearly everything, and needs room on
    /// the disk for a chunk at a time.
    ///
    /// # Errors
    /// The errors of [`put`](Self::put), and `Corruption` if a chunk cannot be read; the other
    /// chunks have been compacted then.
    pub fn compact(&self) -> Result<CompactionSummary> {
        self.compact_range::<&[u8]>(..)
    }

    /// Like [`compact`](Self::compact), for the chunks that hold keys of the range. The chunks at
    /// its ends are compacted whole.
    ///
    /// # Errors
    /// The errors of [`compact`](Self::compact).
    pub fn compact_range<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<CompactionSummary> {
        let (low, high) = limits(&range);
        self.compact_between(low, high)
    }

    /// Like [`compact`](Self::compact), for the chunks that hold keys that begin with `prefix`.
    ///
    /// # Errors
    /// The errors of [`compact`](Self::compact).
    pub fn compact_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<CompactionSummary> {
        let low = prefix.as_ref().to_vec();
        let high = prefix_end(&low);
        self.compact_between(low, high)
    }

    /// From now on `filter` decides about each record when its chunk is rewritten; with `None` all
    /// records stay. The filter is not remembered: set it again after opening.
    ///
    /// Only rewrites call it: when a chunk's log has grown, when a chunk is split or merged, and in
    /// [`compact`](Self::compact), which rewrites every chunk while there is a filter. It is not
    /// promised when that happens to a record; until then reads see it as it was put. The filter is
    /// asked about the newest value of a key, and not about one that a registered snapshot sees. A
    /// snapshot, iterator or transaction that begins while a chunk is being rewritten may see a
    /// record there first as it was and then as the filter left it. The decision of a filter is no
    /// write: the [change feed](crate::Db::changes_since) does not tell it, and no transaction
    /// conflicts with it.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use evendb::{CompactionFilter, FilterDecision};
    /// struct NoTemporary;
    /// impl CompactionFilter for NoTemporary {
    ///     fn filter(&self, key: &[u8], _value: &[u8]) -> FilterDecision {
    ///         match key.starts_with(b"tmp/") {
    ///             true => FilterDecision::Drop,
    ///             false => FilterDecision::Keep,
    ///         }
    ///     }
    /// }
    /// let db = evendb::Db::open(dir.path())?;
    /// let keyspace = db.default_keyspace();
    /// db.put("tmp/1", "")?;
    /// db.put("kept", "")?;
    /// keyspace.set_compaction_filter(Some(std::sync::Arc::new(NoTemporary)))?;
    /// db.compact()?;
    /// assert_eq!(db.iter().count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Closed`, `KeyspaceDropped`.
    pub fn set_compaction_filter(&self, filter: Option<Arc<dyn CompactionFilter>>) -> Result<()> {
        self.recording().other("set_compaction_filter", || {
            self.handle.engine.core.health.check_readable()?;
            self.state.check_readable_at(Version::MAX)?;
            *self.state.filter.lock() = filter;
            Ok(())
        })
    }

    fn compact_between(&self, low: Vec<u8>, high: Option<Vec<u8>>) -> Result<CompactionSummary> {
        let compact = || self.compact_span(low, high);
        self.recording().other("compact", compact)
    }

    fn compact_span(&self, low: Vec<u8>, high: Option<Vec<u8>>) -> Result<CompactionSummary> {
        let core = &self.handle.engine.core;
        let enters = !planted!(core.options, CompactsOutside);
        let _inside = enters.then(|| core.health.enter_writable()).transpose()?;
        self.state.check_readable_at(Version::MAX)?;
        let span = KeySpan {
            keyspace: self.state.clone(),
            low,
            high,
        };
        compact::compact(&self.handle.engine, &[span])
    }
}
