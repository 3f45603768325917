//! Ingests of sorted records: [`Keyspace::ingest`] for all at once, and [`Ingest`] for one after
//! the other.

use crate::api::db::Db;
use crate::api::keyspace::Keyspace;
use crate::error::Result;
use crate::expiry::expiry_at;
use crate::ingest::{IngestSummary, IngestWriter};
use evendb_storage::Time;
use evendb_trace::Kind as Asked;
use std::time::SystemTime;

impl Keyspace {
    /// Ingests records in ascending order of their keys, each key once. The result is as if one
    /// batch put them all, whatever their size. They are written once, as sorted tables; neither
    /// the commit log nor memory has to hold them.
    ///
    /// Nothing is visible before the call returns without an error, and then everything is: to
    /// gets, to scans and to snapshots taken later. The records are newer than all earlier puts of
    /// their keys; earlier range deletions do not hide them. Reads and writes go on meanwhile. At
    /// the end, puts between the least and the greatest key of each table wait for a checkpoint. On
    /// return the records survive power loss, at each level of durability, and so does everything
    /// that was put before the call. An ingest of no records does nothing.
    ///
    /// Where the range has no older data, the tables are never written again. Where it has, they
    /// are merged with the older data soon, as all puts are.
    ///
    /// [`Changes`](crate::Changes) do not have the records: they are read from the commit log. The
    /// records do not expire, not even in a keyspace with a time to live, except records of
    /// [`Ingest::put_expiring_at`].
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// let words = (0..1000u32).map(|number| (number.to_be_bytes(), format!("word {number}")));
    /// let summary = db.default_keyspace().ingest(words)?;
    /// assert_eq!(summary.records, 1000);
    /// assert_eq!(db.get(7u32.to_be_bytes())?.unwrap(), "word 7");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Unsorted` with the key and the one before it, and the errors of [`put`](Self::put). Nothing
    /// was ingested then.
    #[doc(alias = "bulk load")]
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (K, V)>,
    ) -> Result<IngestSummary> {
        let mut ingest = self.begin_ingest()?;
        for (key, value) in sorted {
            ingest.put(key, value)?;
        }
        ingest.finish()
    }

    /// Begins an ingest whose records come one by one, for example from a file that may turn out to
    /// be damaged. See
    /// [`ingest`](Self::ingest).
    ///
    /// # Errors
    /// `Latched`, `ReadOnly`, `Closed`, `KeyspaceDropped`.
    pub fn begin_ingest(&self) -> Result<Ingest> {
        self.recording().other("begin_ingest", || {
            Ok(Ingest {
                writer: IngestWriter::new(&self.handle, &self.state)?,
                keyspace: self.clone(),
            })
        })
    }
}

impl Db {
    /// [`Keyspace::ingest`] into the default keyspace.
    ///
    /// # Errors
    /// The same errors.
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (K, V)>,
    ) -> Result<IngestSummary> {
        self.default_keyspace().ingest(sorted)
    }
}

/// An ingest that has begun ([`Keyspace::begin_ingest`]). Nothing of it is visible before
/// [`finish`](Self::finish); dropped before that, it leaves nothing.
pub struct Ingest {
    writer: IngestWriter,
    keyspace: Keyspace,
}

impl Ingest {
    /// Takes the next record, whose key must be greater than all before. After an error nothing is
    /// left of the ingest.
    ///
    /// # Errors
    /// The errors of [`Keyspace::ingest`].
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_until(key.as_ref(), value.as_ref(), None)
    }

    /// Takes the next record, which stays until a time of day: see [`Keyspace::put_with_ttl`].
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn put_expiring_at(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        at: SystemTime,
    ) -> Result<()> {
        let expires = Some(expiry_at(at));
        self.put_until(key.as_ref(), value.as_ref(), expires)
    }

    /// Takes the next record, as it is stored.
    pub(crate) fn put_until(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires: Option<Time>,
    ) -> Result<()> {
        let recording = self.keyspace.recording();
        let began = recording.begin(key);
        let put = self.writer.put(key, value, expires);
        if let Some(began) = began {
            let mut call = self.keyspace.call(Asked::Ingest, key);
            call.value_len = Some(value.len() as u64);
            call.value = Some(value);
            recording.wrote(began, call, &put);
        }
        put
    }

    /// Shows all records at once, durably.
    ///
    /// # Errors
    /// The errors of [`Keyspace::ingest`].
    pub fn finish(self) -> Result<IngestSummary> {
        let (keyspace, writer) = (self.keyspace, self.writer);
        let finish = || writer.finish();
        keyspace.recording().other("finish_ingest", finish)
    }
}

impl std::fmt::Debug for Ingest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ingest").finish_non_exhaustive()
    }
}
