//! Estimates of how much a range holds.

use crate::api::db::Db;
use crate::api::keyspace::Keyspace;
use crate::error::Result;
use crate::read::cursor::{limits, prefix_end};
use crate::read::size;
use evendb_base::RangeSize;
use evendb_storage::Version;
use std::ops::RangeBounds;

impl Keyspace {
    /// Estimates how many records and bytes the range holds now, without reading them: it looks at
    /// figures of tables, and at block indexes where the range ends. To know the exact number,
    /// count [`keys`](Self::keys).
    ///
    /// The error, at each end of the range: up to a block (4 KiB of data, or one record that is
    /// longer) for the sorted tables of a chunk, and another block for each run of the log. Records
    /// in a log or in memory may overwrite others; they count as new ones or not by what the last
    /// rewrite of their chunk found. In the worst case all of them are counted wrongly; they are
    /// usually 35 % of a chunk. Old versions that a snapshot keeps are counted, too. After
    /// [`compact`](Self::compact) only the error at the ends is left.
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
    /// `Io` or `Corruption` if the block index of a table at an end of the range cannot be read,
    /// `Closed`, `KeyspaceDropped`.
    pub fn approximate_size<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<RangeSize> {
        let (low, high) = limits(&range);
        self.approximate_size_between(&low, high.as_deref())
    }

    /// Estimates how much lies under the keys that begin with `prefix`. See
    /// [`approximate_size`](Self::approximate_size).
    ///
    /// # Errors
    /// The same errors.
    pub fn approximate_size_of_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<RangeSize> {
        let prefix = prefix.as_ref();
        self.approximate_size_between(prefix, prefix_end(prefix).as_deref())
    }

    /// Estimates how many records the range holds now, without reading them: the records of
    /// [`approximate_size`](Self::approximate_size), with the same error. No block of data is read.
    /// After [`compact`](Self::compact), without later writes, the number for all of a keyspace is
    /// exact, and for a part of it each end of the range is off by at most a block of records.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// for number in 0..1000 {
    ///     db.put(format!("user/{number:04}"), [0; 92])?;
    /// }
    /// assert_eq!(db.approximate_len::<&str>(..)?, 1000);
    /// assert!((200..300).contains(&db.approximate_len("user/0250".."user/0500")?));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`approximate_size`](Self::approximate_size).
    pub fn approximate_len<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        Ok(self.approximate_size(range)?.records)
    }

    /// Estimates how many keys begin with `prefix`. See [`approximate_len`](Self::approximate_len).
    ///
    /// # Errors
    /// The same errors.
    pub fn approximate_len_of_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<u64> {
        Ok(self.approximate_size_of_prefix(prefix)?.records)
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
    /// The same errors.
    pub fn approximate_size<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<RangeSize> {
        self.default_keyspace().approximate_size(range)
    }

    /// See [`Keyspace::approximate_len`].
    ///
    /// # Errors
    /// The same errors.
    pub fn approximate_len<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.default_keyspace().approximate_len(range)
    }
}
