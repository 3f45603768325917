//! How much a range holds, about.

use crate::api::db::Db;
use crate::api::keyspace::Keyspace;
use crate::error::Result;
use crate::read::cursor::{limits, prefix_end};
use crate::read::size;
use evendb_base::RangeSize;
use evendb_storage::Version;
use std::ops::RangeBounds;

impl Keyspace {
    /// About how many records and bytes the range holds now, without reading them: it looks at figures of tables, and
    /// at block indexes where the range ends. To know the exact number, count [`keys`](Self::keys).
    ///
    /// How far it is off: at each end of the range by up to a block (4 KiB of data, or one record where that is longer)
    /// for the sorted tables of a chunk, and another for each run of the log. Records that are in a log or in memory may
    /// overwrite others, and then count as new ones or not by what was found at the last rewrite of their chunk: up to
    /// all of them are wrong, which are 35 % of a chunk as a rule. Old versions that a snapshot keeps count too. After
    /// [`compact`](Self::compact) nothing is wrong but the ends.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// for number in 0..1000 {
    ///     db.put(format!("user/{number:04}"), [0; 92])?;
    /// }
    /// let all = db.default_keyspace().approximate_size::<&str>(..)?;
    /// assert_eq!((all.records, all.bytes), (1000, 1000 * 101));
    /// let some = db.default_keyspace().approximate_size("user/0250".."user/0500")?;
    /// assert!((200..300).contains(&some.records));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Io` or `Corruption` if the block index of a table at an end of the range cannot be read, `Closed`,
    /// `KeyspaceDropped`.
    #[doc(alias = "approximate_len")]
    pub fn approximate_size<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<RangeSize> {
        let (low, high) = limits(&range);
        self.approximate_size_between(&low, high.as_deref())
    }

    /// About how much lies under the keys that begin with `prefix`. See [`approximate_size`](Self::approximate_size).
    ///
    /// # Errors
    /// As there.
    pub fn approximate_size_of_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<RangeSize> {
        let prefix = prefix.as_ref();
        self.approximate_size_between(prefix, prefix_end(prefix).as_deref())
    }

    fn approximate_size_between(&self, low: &[u8], high: Option<&[u8]>) -> Result<RangeSize> {
        self.recording().other("approximate_size", || {
            let _inside = self.handle.engine.core.health.enter()?;
            self.state.check_readable_at(Version::MAX)?;
            size::approximate_size(&self.state, low, high)
        })
    }
}

impl Db {
    /// See [`Keyspace::approximate_size`].
    ///
    /// # Errors
    /// As there.
    pub fn approximate_size<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<RangeSize> {
        self.default_keyspace().approximate_size(range)
    }
}
