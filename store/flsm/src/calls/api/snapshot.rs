//! [`Snapshot`]: the database as it was at one moment.

use crate::api::keyspace::Keyspace;
use crate::engine::handle::Handle;
use crate::error::{Error, ErrorKind, Result};
use crate::read::cursor::Cursor;
use crate::read::get::get;
use crate::read::iter::{Iter, Keys};
use crate::read::moment::Moment;
use crate::value::Value;
use evendb_base::key_range::limits;
use evendb_base::sync::Arc;
use evendb_keys::prefix_end;
use std::ops::RangeBounds;

/// The database as it was when the snapshot was taken, over all keyspaces. Old versions are kept
/// until the last clone of the snapshot and all of its iterators are dropped.
///
/// ```
/// # fn main() -> evendb_flsm::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb_flsm::Db::open(dir.path())?;
/// db.put("k", "old")?;
/// let snapshot = db.snapshot()?;
/// db.put("k", "new")?;
/// assert_eq!(snapshot.get(db.default_keyspace(), "k")?.unwrap(), "old");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot {
    moment: Arc<Moment>,
}

impl Snapshot {
    pub(crate) fn new(handle: &Arc<Handle>) -> Result<Snapshot> {
        let moment = Moment::now(handle)?;
        Ok(Snapshot { moment })
    }

    /// The value that `key` had.
    ///
    /// # Errors
    /// `Io`, `Corruption`, `Closed`; `KeyspaceDropped` if the keyspace was dropped before the
    /// snapshot was taken; `InvalidArgument` for a keyspace of another database.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let moment = self.moment_for(keyspace)?;
        let engine = moment.engine();
        engine.health.check_readable()?;
        keyspace.state.check_there_at(moment.at())?;
        get(engine, &keyspace.state, key.as_ref(), Some(moment.at()))
    }

    /// Whether `key` had a value.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains_key(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(keyspace, key)?.is_some())
    }

    /// The values that several keys had, in the order of the keys.
    ///
    /// # Errors
    /// As [`get`](Self::get). An error of one key is the error of the whole call.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        self.moment.engine().health.check_readable()?;
        keys.iter().map(|key| self.get(keyspace, key)).collect()
    }

    /// The records whose keys lie in a range.
    pub fn range<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, range: impl RangeBounds<K>) -> Iter {
        Iter::new(self.cursor(keyspace, range))
    }

    /// The records whose keys begin with `prefix`.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Iter {
        let prefix = prefix.as_ref();
        Iter::new(self.cursor_between(keyspace, prefix.to_vec(), prefix_end(prefix)))
    }

    /// All records.
    pub fn iter(&self, keyspace: &Keyspace) -> Iter {
        Iter::new(self.cursor_between(keyspace, Vec::new(), None))
    }

    /// The keys of a range.
    pub fn keys<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, range: impl RangeBounds<K>) -> Keys {
        Keys::new(self.cursor(keyspace, range))
    }

    /// A cursor over a range.
    pub fn cursor<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Cursor {
        let (low, high) = limits(&range);
        self.cursor_between(keyspace, low, high)
    }

    fn cursor_between(&self, keyspace: &Keyspace, low: Vec<u8>, high: Option<Vec<u8>>) -> Cursor {
        Cursor::new(self.moment_for(keyspace), &keyspace.state, low, high)
    }

    fn moment_for(&self, keyspace: &Keyspace) -> Result<Arc<Moment>> {
        match self.moment.is_of(&keyspace.handle) {
            true => Ok(self.moment.clone()),
            false => {
                let message = "the keyspace is of another database than the snapshot";
                Err(Error::new(ErrorKind::InvalidArgument, message))
            }
        }
    }
}
