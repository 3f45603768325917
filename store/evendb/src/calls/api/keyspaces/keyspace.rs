//! Keyspaces: ordered maps side by side in one database, each with its own chunks.

use crate::api::snapshot::Snapshot;
use crate::api::transaction::transact;
use crate::catalog::KeyspaceState;
use crate::chunk::covers::range_record;
use crate::engine::handle::Handle;
use crate::error::Result;
use crate::expiry::{ExpiryClock, ReadPoint, expiry_at};
use crate::op::{Op, check_limits, range_limits};
use crate::options::Durability;
use crate::read::cursor::{Cursor, Iter, Keys, limits, prefix_end};
use crate::read::get;
use crate::read::merges;
use crate::read::moment::Moment;
use crate::record::RecordRef;
use crate::recording::Recording;
use crate::recording::scan::ScanOf;
use crate::sync::Arc;
use crate::value::Value;
use crate::{fork, write};
use evendb_storage::key_hash::RamHash;
use evendb_storage::{EXPIRY_BYTES, Kind, Time, Version, push_operand};
use evendb_trace::{Began, Call, Kind as Asked};
use std::ops::RangeBounds;
use std::time::{Duration, SystemTime};

/// A handle to a keyspace (other stores call it a column family): an ordered map of its own that
/// shares batches, snapshots, memory and files with the others.
///
/// Cheap to clone; it keeps the database open. After
/// [`Db::drop_keyspace`](crate::Db::drop_keyspace) every call is refused with `KeyspaceDropped`.
#[doc(alias = "column family")]
#[derive(Clone)]
pub struct Keyspace {
    pub(crate) handle: Arc<Handle>,
    pub(crate) state: Arc<KeyspaceState>,
}

impl Keyspace {
    /// Its name.
    pub fn name(&self) -> &str {
        self.state.name()
    }

    /// Its number, as in [`Write::keyspace_id`](crate::Write) of a change. It stays the same over
    /// reopenings. A keyspace that is dropped and made again under the same name gets another
    /// number.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// let before = db.keyspace("edges")?.id();
    /// db.drop_keyspace("edges")?;
    /// assert_ne!(db.keyspace("edges")?.id(), before);
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(&self) -> u32 {
        self.state.id.0
    }

    /// Sets the value of `key`.
    ///
    /// Key: at most 65,535 bytes. Value: at most 4 GiB - 9 bytes; key and value together at most a
    /// quarter of the memory budget less 64 bytes. On return the put survives what the database's
    /// [`Durability`] says. It waits, a little at first, when reorganisation cannot keep up; it
    /// never waits for a scan.
    ///
    /// # Errors
    /// `KeyTooLarge`, `ValueTooLarge`, `NoSpace` (nothing took effect), `Latched`, `ReadOnly`,
    /// `Closed`, `KeyspaceDropped`, `Io`; `InvalidArgument` for a value that the keyspace's merge
    /// operator could not read.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let expires = self.state.expiry_of_put(self.expiry());
        self.put_asked(key.as_ref(), value.as_ref(), expires)
    }

    /// Sets the value of `key`, for `ttl` from now on. After that the key has no value, as if it
    /// were deleted; its earlier value does not come back. It takes 8 bytes more than a value that
    /// stays.
    ///
    /// Time goes by [`Advanced::wall_clock`](crate::Advanced::wall_clock), in milliseconds, rounded
    /// up. Gets hide the record at once; snapshots, iterators and transactions judge by one time,
    /// the one at which they were made. The room comes back when the record is reorganised, or when
    /// everything near it has expired.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use std::time::Duration;
    /// let db = evendb::Db::open(dir.path())?;
    /// db.default_keyspace().put_with_ttl("session", "ada", Duration::from_secs(1800))?;
    /// assert_eq!(db.get("session")?.unwrap(), "ada");
    /// db.default_keyspace().put_with_ttl("session", "ada", Duration::ZERO)?;
    /// assert!(db.get("session")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn put_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let expires = self.expiry().expiry_after(ttl);
        self.put_asked(key.as_ref(), value.as_ref(), Some(expires))
    }

    /// Sets the value of `key` until a time of day. See [`put_with_ttl`](Self::put_with_ttl).
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn put_expiring_at(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        at: SystemTime,
    ) -> Result<()> {
        self.put_asked(key.as_ref(), value.as_ref(), Some(expiry_at(at)))
    }

    fn expiry(&self) -> &ExpiryClock {
        &self.handle.engine.core.clock.expiry
    }

    fn put_asked(&self, key: &[u8], value: &[u8], expires: Option<Time>) -> Result<()> {
        let began = self.recording().begin(key);
        let done = merges::check_value(&self.state, key, value)
            .and_then(|()| self.put_until(key, value, expires));
        if let Some(began) = began {
            let mut call = self.call(Asked::Put, key);
            call.value_len = Some(value.len() as u64);
            call.value = Some(value);
            call.ttl_millis = expires.map(|expires| self.expiry().millis_until(expires));
            self.recording().wrote(began, call, &done);
        }
        done
    }

    /// Puts a value that expires at a time, or does not expire, whatever time to live the keyspace
    /// has. The merge operator is not asked: records that are saved from a damaged database stay as
    /// they were.
    pub(crate) fn put_until(&self, key: &[u8], value: &[u8], expires: Option<Time>) -> Result<()> {
        self.check_write(key, value, expires.map_or(0, |_| EXPIRY_BYTES))?;
        self.write(RecordRef::put(key, value, expires, RamHash::of(key)))
    }

    #[inline]
    pub(crate) fn recording(&self) -> &Recording {
        &self.handle.engine.core.recording
    }

    /// A call on one of its keys, for a trace.
    pub(crate) fn call<'k>(&self, asked: Asked, key: &'k [u8]) -> Call<'k> {
        Call::new(asked, self.state.id.0, key)
    }

    fn recorded_write(&self, began: Option<Began>, asked: Asked, key: &[u8], done: &Result<()>) {
        if let Some(began) = began {
            self.recording().wrote(began, self.call(asked, key), done);
        }
    }

    /// Removes `key`, if it is there.
    ///
    /// A delete writes a record of its own, which iterators pass over until it has been reorganised
    /// away. To take the first record again and again, as a queue does, use
    /// [`pop_first`](Self::pop_first).
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        let began = self.recording().begin(key);
        let done = self.delete_as(key, Kind::Delete);
        self.recorded_write(began, Asked::Delete, key, &done);
        done
    }

    /// Removes `key`, which must have been put exactly once, and not merged, since its last single
    /// delete, or ever. Such a removal disappears together with its put where the two first meet,
    /// often before either is written to a table, while a tombstone of [`delete`](Self::delete) has
    /// to go down to the oldest table.
    ///
    /// If a key was put twice in a row, or is removed by `delete` at other times, an older value
    /// may come back after some time, or not. Nothing else goes wrong. In a keyspace with a merge
    /// operator this is [`delete`](Self::delete).
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        let began = self.recording().begin(key);
        let done = self.delete_as(key, self.state.kind_of_single_delete());
        self.recorded_write(began, Asked::SingleDelete, key, &done);
        done
    }

    /// Merges `operand` into the value of `key`, by the keyspace's merge operator
    /// ([`KeyspaceOptions::merge_operator`](crate::KeyspaceOptions::merge_operator)). It reads
    /// nothing: the operand is kept beside the value, and folded with it later. Its cost and
    /// its durability are those of a put. Operands do not expire: once the value beneath has
    /// expired, they count as operands over no value.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use evendb::{Db, KeyspaceOptions, Merges};
    /// let db = Db::open(dir.path())?;
    /// let hits = db.keyspace_with("hits", &KeyspaceOptions::new().merge_operator(Merges::AddU64))?;
    /// hits.merge("page/1", 1u64.to_le_bytes())?;
    /// hits.merge("page/1", 1u64.to_le_bytes())?;
    /// assert_eq!(hits.get("page/1")?.unwrap(), 2u64.to_le_bytes());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if the keyspace has no operator, or for an operand that the operator could
    /// not read ([`MergeOperator::check_operand`](crate::MergeOperator::check_operand));
    /// `MergeFailed` if the operator was not given; and the errors of [`put`](Self::put). If the
    /// operator later fails over an operand that it has not refused, that is an error of reads, not
    /// of this call.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        let began = self.recording().begin(key);
        let done = self.merge_one(key, operand);
        if let Some(began) = began {
            let mut call = self.call(Asked::Merge, key);
            call.value_len = Some(operand.len() as u64);
            call.value = Some(operand);
            self.recording().wrote(began, call, &done);
        }
        done
    }

    fn merge_one(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        merges::check_operand(&self.state, key, operand)?;
        let mut value = Vec::with_capacity(operand.len() + 2);
        push_operand(&mut value, operand);
        self.merge_listed(key, &value)
    }

    /// Merges operands in the list form of a record, whether or not the operator is known.
    pub(crate) fn merge_listed(&self, key: &[u8], operands: &[u8]) -> Result<()> {
        self.check_write(key, operands, 0)?;
        self.write(RecordRef::new(key, operands, Kind::Merge, RamHash::of(key)))
    }

    fn delete_as(&self, key: &[u8], kind: Kind) -> Result<()> {
        self.check_write(key, &[], 0)?;
        self.write(RecordRef::new(key, &[], kind, RamHash::of(key)))
    }

    /// Checked before the record takes memory, which takes a lock.
    fn check_write(&self, key: &[u8], value: &[u8], prefix_bytes: usize) -> Result<()> {
        fork::check()?;
        check_limits(key, value)?;
        let value_len = value.len() + prefix_bytes;
        write::check_value_size(&self.handle.engine.core, key.len(), value_len)
    }

    fn write(&self, record: RecordRef) -> Result<()> {
        let mut ops = [Op::one(&self.state, record)];
        write::write(&self.handle.engine, &mut ops, Durability::Relaxed)
    }

    /// Sets the value of `key` to `new` if the current value is `expected`. As `new`, `None`
    /// removes the key; as `expected`, `None` means that the key is not there. `Ok(Err(value))`
    /// returns another current value, and nothing was written.
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
    /// The errors of [`put`](Self::put) and [`get`](Self::get).
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

    /// Sets the value of `key` to the one that `update` makes of the current one, with no other
    /// write between. `None` stands for a missing key, before and after. Returns the value before.
    /// If another write came between, `update` runs again.
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
    /// The errors of [`put`](Self::put) and [`get`](Self::get), and `Conflict` after 64 attempts.
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
        let key = key.as_ref();
        let began = self.recording().begin(key);
        let engine = &self.handle.engine;
        let found = get::get(engine, &self.state, key);
        if let Some(began) = began {
            self.recording()
                .got(began, self.call(Asked::Get, key), &found);
        }
        found
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        fork::check()?;
        let key = key.as_ref();
        let began = self.recording().begin(key);
        let engine = &self.handle.engine;
        let newest = ReadPoint::newest(&engine.core.clock.expiry);
        let found = get::contains(engine, &self.state, key, newest);
        if let Some(began) = began {
            self.recording()
                .asked(began, self.call(Asked::Contains, key), &found);
        }
        found
    }

    /// The values of `keys`, in their order, all of one moment.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        if let [key] = keys {
            return Ok(vec![self.get(key)?]);
        }
        let began = self.recording().begin_always();
        let found = self.now().and_then(|now| now.get_each(self, keys));
        if let Some(began) = began {
            let each = keys.iter().map(|key| (self.id(), key.as_ref()));
            self.recording().got_all(began, each, false, &found);
        }
        found
    }

    fn now(&self) -> Result<Snapshot> {
        let moment = Moment::now(&self.handle)?;
        Ok(Snapshot { moment })
    }

    /// The records of a key range at the time of the call. An inverted range is empty. An error
    /// that [`get`](Self::get) would return is the first item.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        Iter::new(self.cursor(range))
    }

    /// The records whose keys begin with `prefix`, at the time of the call.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        let low = prefix.as_ref().to_vec();
        let high = prefix_end(&low);
        Iter::new(self.cursor_between(low, high))
    }

    /// All records at the time of the call.
    ///
    /// An iterator passes over deleted records until they have been reorganised away. So a queue
    /// whose reader takes the first record of an iterator and deletes it gets slower with each
    /// record taken. Take from a queue by [`pop_first`](Self::pop_first), which begins behind what
    /// earlier pops have left empty, or delete the records that were read by
    /// [`delete_range`](Self::delete_range), many at a time.
    pub fn iter(&self) -> Iter {
        self.range::<&[u8]>(..)
    }

    /// The keys of a range at the time of the call, without their values: see [`Keys`].
    pub fn keys<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Keys {
        Keys::new(self.cursor(range))
    }

    /// A lending cursor over a key range at the time of the call: the fastest way to scan.
    pub fn cursor<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Cursor {
        let (low, high) = limits(&range);
        self.cursor_between(low, high)
    }

    fn cursor_between(&self, low: Vec<u8>, high: Option<Vec<u8>>) -> Cursor {
        let of = ScanOf {
            keyspace: self.id(),
            group: 0,
            older_moment: false,
        };
        let record = self.recording().scan(of, &low, high.as_deref());
        Cursor::new(Moment::now(&self.handle), self.state.clone(), low, high).recorded(record)
    }

    /// Removes all keys of a range, as one record. It is atomic, at the cost of a put for each
    /// chunk that the range overlaps, however many keys it holds. Gets, scans and later snapshots
    /// see it at once. Later puts into the range stay. Nothing is read; the room comes back soon
    /// after, unless a snapshot still sees the keys.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// db.put("log/1", "old")?;
    /// db.put("log/2", "new")?;
    /// db.delete_range("log/".."log/2")?;
    /// assert_eq!(db.iter().count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let (low, high) = limits(&range);
        self.delete_between(&low, high.as_deref())
    }

    /// Removes the keys that begin with `prefix`, as [`delete_range`](Self::delete_range) does.
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let low = prefix.as_ref();
        self.delete_between(low, prefix_end(low).as_deref())
    }

    fn delete_between(&self, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        let began = self.recording().begin(low);
        let done = self.delete_span(low, high);
        if let Some(began) = began {
            let mut call = self.call(Asked::DeleteRange, low);
            call.end_key = high;
            self.recording().wrote(began, call, &done);
        }
        done
    }

    fn delete_span(&self, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        fork::check()?;
        let engine = &self.handle.engine;
        let Some((low, high)) = range_limits(low, high) else {
            // There is nothing to do, but errors that a put would return are returned all the same.
            engine.core.health.check_writable()?;
            return self.state.check_readable_at(Version::MAX);
        };
        write::check_value_size(&engine.core, low.len(), high.as_ref().map_or(0, Vec::len))?;
        let record = range_record(&low, high.as_deref());
        let mut ops = [Op::range(&self.state, record)];
        write::write(engine, &mut ops, Durability::Relaxed)
    }
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyspace({:?})", self.state.name())
    }
}
