//! Keyspaces: ordered maps side by side in one database, each with its own chunks.

use crate::api::snapshot::Snapshot;
use crate::api::transaction::transact;
use crate::catalog::KeyspaceState;
use crate::compact::{self, CompactionSummary, KeySpan};
use crate::engine::handle::Handle;
use crate::error::Result;
use crate::op::{Op, check_limits, memory_bytes};
use crate::options::Durability;
use crate::payload::OP_HEADER_BYTES;
use crate::read::cursor::{Cursor, Iter, Keys, limits, prefix_end};
use crate::read::get;
use crate::read::moment::Moment;
use crate::rebalance::covered_tables;
use crate::record::RecordRef;
use crate::sync::Arc;
use crate::value::Value;
use crate::{fork, log_room, write};
use evendb_storage::codec::hash_key;
use evendb_storage::{Kind, Version};
use std::ops::RangeBounds;

/// A handle to a keyspace (what others call a column family): an ordered map of its own that
/// shares batches, snapshots, memory and files with the others.
///
/// Cheap to clone; it keeps the database open. After [`Db::drop_keyspace`](crate::Db::drop_keyspace)
/// every call is refused with `KeyspaceDropped`.
#[doc(alias = "column family")]
#[derive(Clone)]
pub struct Keyspace {
    pub(crate) handle: Arc<Handle>,
    pub(crate) state: Arc<KeyspaceState>,
}

/// Records a range deletion removes in one batch.
const DELETE_BATCH_RECORDS: usize = 1024;

impl Keyspace {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Sets the value of `key`.
    ///
    /// Key: at most 65,535 bytes. Value: at most 4 GiB - 1; and with its key a quarter of the memory budget
    /// less 64 bytes. On return the put survives what the database's [`Durability`] says. Waits, a little at first,
    /// when reorganisation cannot keep up; never for a scan.
    ///
    /// # Errors
    /// `KeyTooLarge`, `ValueTooLarge`, `NoSpace` (nothing took effect), `Latched`, `ReadOnly`,
    /// `Closed`, `KeyspaceDropped`, `Io`.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(key.as_ref(), value.as_ref(), Kind::Put)
    }

    /// Removes `key`, if it is there.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(key.as_ref(), &[], Kind::Delete)
    }

    fn write(&self, key: &[u8], value: &[u8], kind: Kind) -> Result<()> {
        // Before the record takes memory, which takes a lock.
        fork::check()?;
        check_limits(key, value)?;
        write::check_value_size(&self.handle.engine.core, key.len(), value.len())?;
        let record = RecordRef::new(key, value, kind, hash_key(key));
        let mut ops = [Op {
            keyspace: &self.state,
            record,
        }];
        write::write(&self.handle.engine, &mut ops, Durability::Relaxed)
    }

    /// Sets the value of `key` to `new` (removes it, for `None`) if it is `expected` (not there, for `None`). `Ok(Err(value))`
    /// says that it is another one, and nothing was written.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// assert!(db.compare_and_swap("leader", None, Some("a"))?.is_ok());
    /// let taken = db.compare_and_swap("leader", None, Some("b"))?;
    /// assert_eq!(taken.unwrap_err().unwrap(), "a");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`put`](Self::put) and [`get`](Self::get).
    pub fn compare_and_swap<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<V>,
        new: Option<V>,
    ) -> Result<std::result::Result<(), Option<Value>>> {
        let key = key.as_ref();
        let (expected, new) = (expected.as_ref(), new.as_ref().map(AsRef::as_ref));
        transact(&self.handle, |transaction| {
            let found = transaction.get(self, key)?;
            if found.as_deref() != expected.map(AsRef::as_ref) {
                return Ok(Err(found));
            }
            transaction.set(self, key, new)?;
            Ok(Ok(()))
        })
    }

    /// Sets the value of `key` to what `update` makes of the one that it has (`None`: it is not there, or is to be
    /// removed), with no other write between. Returns the value before. `update` runs again where another write came
    /// between.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// let add_one = |value: Option<&[u8]>| {
    ///     let count = value.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    ///     Some((count + 1).to_le_bytes())
    /// };
    /// assert!(db.fetch_update("visits", add_one)?.is_none());
    /// assert_eq!(db.fetch_update("visits", add_one)?.unwrap(), 1u64.to_le_bytes());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`put`](Self::put) and [`get`](Self::get), and `Conflict` after 64 attempts.
    pub fn fetch_update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        mut update: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Value>> {
        let key = key.as_ref();
        transact(&self.handle, |transaction| {
            let found = transaction.get(self, key)?;
            let new = update(found.as_deref());
            transaction.set(self, key, new.as_ref().map(AsRef::as_ref))?;
            Ok(found)
        })
    }

    /// The value of `key`. Wait-free until it must read from disk.
    ///
    /// # Errors
    /// `Io` or `Corruption` if a table cannot be read, `Closed`, `KeyspaceDropped`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        get::get(
            &self.handle.engine.core,
            &self.handle.engine.caches,
            &self.handle.engine.work,
            &self.state,
            key.as_ref(),
        )
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The values of `keys`, in their order, all of one moment.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        if let [key] = keys {
            return Ok(vec![self.get(key)?]);
        }
        Snapshot {
            moment: Moment::now(&self.handle)?,
        }
        .multi_get(self, keys)
    }

    /// The records of a key range, as of now. An inverted range is empty. What [`get`](Self::get)
    /// would return as an error is the first item.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        Iter::new(self.cursor(range))
    }

    /// The records whose keys begin with `prefix`, as of now.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        let low = prefix.as_ref().to_vec();
        let high = prefix_end(&low);
        Iter::new(self.cursor_between(low, high))
    }

    /// All records, as of now.
    pub fn iter(&self) -> Iter {
        self.range::<&[u8]>(..)
    }

    /// The keys of a range, as of now, without their values: see [`Keys`].
    pub fn keys<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Keys {
        Keys::new(self.cursor(range))
    }

    /// A lending cursor over a key range, as of now: the fastest way to scan.
    pub fn cursor<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Cursor {
        let (low, high) = limits(&range);
        self.cursor_between(low, high)
    }

    fn cursor_between(&self, low: Vec<u8>, high: Option<Vec<u8>>) -> Cursor {
        Cursor::new(Moment::now(&self.handle), self.state.clone(), low, high)
    }

    /// Removes the keys of a range, in batches: each batch is atomic, the whole is not. Keys put
    /// into the range meanwhile may stay. Returns how many keys were removed.
    ///
    /// # Errors
    /// As [`put`](Self::put) and [`get`](Self::get); batches already committed stay.
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        let (low, high) = limits(&range);
        self.delete_between(low, high)
    }

    /// Removes the keys that begin with `prefix`, as [`delete_range`](Self::delete_range) does.
    ///
    /// # Errors
    /// As [`delete_range`](Self::delete_range).
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<u64> {
        let low = prefix.as_ref().to_vec();
        let high = prefix_end(&low);
        self.delete_between(low, high)
    }

    /// Makes the keyspace as small as it can be: runs a checkpoint and all reorganisation that is
    /// owed, by the whole database, and then rewrites each chunk that has a log, tombstones, several
    /// tables, or versions that nobody can read any more. Reads and writes go on meanwhile; what
    /// they add is not waited for. What snapshots still see stays.
    ///
    /// Reorganisation by itself leaves garbage up to its limits, because rewriting sooner costs more
    /// than it gains. This is for when no more writes are to be expected: after a bulk load or a
    /// large deletion, before a copy. It reads nearly everything, and needs room on the disk for a
    /// chunk at a time.
    ///
    /// # Errors
    /// As [`put`](Self::put), and `Corruption` if a chunk cannot be read; the others have been
    /// compacted then.
    pub fn compact(&self) -> Result<CompactionSummary> {
        self.compact_range::<&[u8]>(..)
    }

    /// As [`compact`](Self::compact), for the chunks that hold keys of the range. The chunks at its ends
    /// are compacted whole.
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_range<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<CompactionSummary> {
        let (low, high) = limits(&range);
        self.compact_between(low, high)
    }

    /// As [`compact`](Self::compact), for the chunks that hold keys that begin with `prefix`.
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<CompactionSummary> {
        let low = prefix.as_ref().to_vec();
        let high = prefix_end(&low);
        self.compact_between(low, high)
    }

    fn compact_between(&self, low: Vec<u8>, high: Option<Vec<u8>>) -> Result<CompactionSummary> {
        self.handle.engine.core.health.check_writable()?;
        self.state.check_readable_at(Version::MAX)?;
        let span = KeySpan {
            keyspace: self.state.clone(),
            low,
            high,
        };
        compact::compact(&self.handle.engine, &[span])
    }

    fn delete_between(&self, low: Vec<u8>, high: Option<Vec<u8>>) -> Result<u64> {
        let engine = &self.handle.engine;
        engine.core.health.check_writable()?;
        self.state.check_readable_at(Version::MAX)?;
        let bytes_max = engine.core.options.memory_budget / 16;
        // A batch that fits the commit log needs no file of its own, for which a full disk has no
        // room.
        let logged_max = log_room::log_payload_max(&engine.log);
        // Before the cursor: what these tables hold is older than what it sees.
        let tables = covered_tables::tables_inside(&self.state, &low, high.as_deref());
        let mut cursor = Some(self.cursor_between(low.clone(), high.clone()));
        let mut next_low = low.clone();
        let mut removed = 0;
        let mut left_over = None;
        loop {
            let mut records = Vec::new();
            let (mut bytes, mut logged) = (0, 0);
            let reading =
                cursor.get_or_insert_with(|| self.cursor_between(next_low.clone(), high.clone()));
            while records.len() < DELETE_BATCH_RECORDS && bytes < bytes_max {
                let record = match left_over.take() {
                    Some(record) => record,
                    None => match reading.next()? {
                        Some((key, _)) => RecordRef::new(key, &[], Kind::Delete, hash_key(key)),
                        None => break,
                    },
                };
                logged += (OP_HEADER_BYTES + record.key().len()) as u64;
                if logged > logged_max && !records.is_empty() {
                    left_over = Some(record);
                    break;
                }
                bytes += memory_bytes(&record);
                records.push(record);
            }
            let Some(last) = left_over.as_ref().or(records.last()) else {
                drop(cursor);
                covered_tables::mark(&engine.core, &self.state, &low, high.as_deref(), &tables);
                return Ok(removed);
            };
            // On a full disk what was deleted so far must be able to go: not while the cursor sees it.
            if engine.disk.full_disk.is_owed() {
                next_low = [last.key(), &[0]].concat();
                cursor = None;
            }
            removed += records.len() as u64;
            let mut ops: Vec<Op<'_>> = records
                .into_iter()
                .map(|record| Op {
                    keyspace: &self.state,
                    record,
                })
                .collect();
            write::write(engine, &mut ops, Durability::Relaxed)?;
        }
    }
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyspace({:?})", self.state.name)
    }
}
