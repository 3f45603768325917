//! Keyspaces: ordered maps side by side in one database.

use crate::api::snapshot::Snapshot;
use crate::engine::handle::Handle;
use crate::error::Result;
use crate::keyspace::KeyspaceState;
use crate::log::record::GroupBody;
use crate::read::cursor::Cursor;
use crate::read::get::get;
use crate::read::iter::{Iter, Keys};
use crate::read::moment::Moment;
use crate::read::size::approximate_size;
use crate::value::Value;
use crate::write::limits::check_record;
use crate::write::{Request, write};
use evendb_base::RangeSize;
use evendb_base::key_range::limits;
use evendb_base::sync::Arc;
use evendb_keys::prefix_end;
use evendb_storage::Kind;
use std::ops::RangeBounds;

/// A handle to a keyspace (others call it a column family): an ordered map of its own that shares
/// batches, snapshots, memory and logs with the other keyspaces.
///
/// It is cheap to clone, and it keeps the database open. After
/// [`Db::drop_keyspace`](crate::Db::drop_keyspace) every call is refused with `KeyspaceDropped`.
#[doc(alias = "column family")]
#[derive(Clone)]
pub struct Keyspace {
    pub(crate) handle: Arc<Handle>,
    pub(crate) state: Arc<KeyspaceState>,
}

impl Keyspace {
    pub(crate) fn new(handle: &Arc<Handle>, state: Arc<KeyspaceState>) -> Keyspace {
        Keyspace {
            handle: handle.clone(),
            state,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Its number, which reopenings do not change. A keyspace that is dropped and made again under
    /// the same name gets another number.
    pub fn id(&self) -> u32 {
        self.state.id.0
    }

    /// Sets the value of `key`.
    ///
    /// A key has at most 65,535 bytes. A value has at most 4 GiB - 9 bytes, and key and value
    /// together have at most a quarter of the memory budget less 64 bytes. On return the put
    /// survives what the database's [`Durability`](crate::Durability) says. It waits when flushes
    /// or compactions cannot keep up.
    ///
    /// # Errors
    /// `KeyTooLarge`, `ValueTooLarge`, `NoSpace` (nothing took effect), `Latched`, `Closed`,
    /// `KeyspaceDropped`, `Io`.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Removes `key`, whether or not it is there.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(Kind::Delete, key.as_ref(), &[])
    }

    fn write(&self, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        let engine = &self.handle.engine;
        check_record(&engine.options, key, value)?;
        let id = self.state.id;
        write(
            engine,
            &Request {
                keyspaces: std::slice::from_ref(&self.state),
                user_bytes: (key.len() + value.len()) as u64,
                has_puts: kind == Kind::Put,
                durability: engine.options.durability,
                append: &|group: &mut GroupBody| group.put(id, kind, key, value),
            },
        )
    }

    /// The value of `key`, if it has one.
    ///
    /// # Errors
    /// `Io`, `Corruption`, `Closed`, `KeyspaceDropped`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let engine = &self.handle.engine;
        engine.health.check_readable()?;
        self.state.check_there()?;
        get(engine, &self.state, key.as_ref(), None)
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The values of several keys, in the order of the keys, all of one moment.
    ///
    /// # Errors
    /// As [`get`](Self::get). An error of one key is the error of the whole call.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        Snapshot::new(&self.handle)?.multi_get(self, keys)
    }

    /// The records whose keys lie in a range, as they are now.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        Iter::new(self.cursor(range))
    }

    /// The records whose keys begin with `prefix`, as they are now.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        let prefix = prefix.as_ref();
        Iter::new(self.cursor_between(prefix.to_vec(), prefix_end(prefix)))
    }

    /// All records, as they are now.
    ///
    /// An iterator passes over deleted records until compactions have dropped them. So a queue
    /// whose reader takes the first record of an iterator and deletes it gets slower with each
    /// record. Begin the next iterator behind the key that was taken last ([`range`](Self::range)).
    pub fn iter(&self) -> Iter {
        Iter::new(self.cursor_between(Vec::new(), None))
    }

    /// The keys of a range, as they are now.
    pub fn keys<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Keys {
        Keys::new(self.cursor(range))
    }

    /// A cursor over a range, as it is now.
    pub fn cursor<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Cursor {
        let (low, high) = limits(&range);
        self.cursor_between(low, high)
    }

    /// About how many records and bytes a range holds. It reads no records of tables. Records that
    /// were overwritten or deleted since the last compaction may be counted, and each end of the
    /// range is off by less than a block of each table.
    ///
    /// ```
    /// # fn main() -> evendb_flsm::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb_flsm::Db::open(dir.path())?;
    /// db.put("user/1", "Ada")?;
    /// let size = db.default_keyspace().approximate_size("user/".."user0")?;
    /// assert_eq!((size.records, size.bytes), (1, 9));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn approximate_size<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<RangeSize> {
        let health = &self.handle.engine.health;
        health.check_readable()?;
        self.state.check_there()?;
        let (low, high) = limits(&range);
        let size = approximate_size(&self.state.view.load_full(), &low, high.as_deref());
        size.map_err(|error| health.of_read(error))
    }

    fn cursor_between(&self, low: Vec<u8>, high: Option<Vec<u8>>) -> Cursor {
        Cursor::new(Moment::now(&self.handle), &self.state, low, high)
    }
}
