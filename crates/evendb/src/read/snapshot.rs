//! Snapshots: one registered moment of the whole database.

use super::cursor::{Cursor, Iter, limits, prefix_end};
use crate::db::Handle;
use crate::engine::Engine;
use crate::error::Result;
use crate::fork;
use crate::keyspace::Keyspace;
use crate::sync::Arc;
use crate::value::Value;
use evendb_storage::Version;
use std::ops::RangeBounds;

/// A registered version; versions that it needs are kept until it is dropped.
pub(crate) struct Moment {
    handle: Arc<Handle>,
    version: Version,
}

impl Moment {
    pub(crate) fn now(handle: &Arc<Handle>) -> Result<Arc<Moment>> {
        handle.engine.check_readable()?;
        let version = handle.engine.clock.register();
        Ok(Arc::new(Moment {
            handle: handle.clone(),
            version,
        }))
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.handle.engine
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        // In a child nobody waits for it, and who held the registry may not be here.
        if !fork::is_child() {
            let engine = &self.handle.engine;
            engine.clock.unregister(self.version);
            // An idle database may have waited for it, to rewrite what it saw.
            engine.work.stir_gently();
        }
    }
}

/// One moment of the whole database, all keyspaces together.
///
/// Cheap to make and to clone. While it lives, the versions it sees are kept: a snapshot held for
/// long costs the space of what is overwritten meanwhile.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb::Db::open(dir.path()).unwrap();
/// let keyspace = db.default_keyspace();
/// db.put("k", "old").unwrap();
/// let snapshot = db.snapshot().unwrap();
/// db.put("k", "new").unwrap();
/// assert_eq!(snapshot.get(keyspace, "k").unwrap().unwrap(), "old");
/// ```
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) moment: Arc<Moment>,
}

impl Snapshot {
    /// The value of `key` at this moment.
    ///
    /// # Errors
    /// Of kind `Io` or `Corruption` if a table cannot be read, `Closed` after a close,
    /// `KeyspaceDropped` if the keyspace was dropped before the snapshot was taken, `InvalidArgument`
    /// if it is not of the snapshot's database, or of an earlier opening of it.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.check_own(keyspace)?;
        self.moment
            .engine()
            .get_at(&keyspace.state, key.as_ref(), self.moment.version())
    }

    /// Whether `key` had a value at this moment.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains_key(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(keyspace, key)?.is_some())
    }

    /// The values of `keys`, in their order.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        self.check_own(keyspace)?;
        self.moment.engine().check_readable()?;
        keyspace.state.check_readable_at(self.moment.version())?;
        keys.iter().map(|key| self.get(keyspace, key)).collect()
    }

    /// The records of a key range. What [`get`](Self::get) would return as an error is the first item.
    pub fn range<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, range: impl RangeBounds<K>) -> Iter {
        Iter::new(self.cursor(keyspace, range))
    }

    /// The records whose keys begin with `prefix`; errors as of [`range`](Self::range).
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Iter {
        let low = prefix.as_ref().to_vec();
        let high = prefix_end(&low);
        Iter::new(self.cursor_between(keyspace, low, high))
    }

    /// All records; errors as of [`range`](Self::range).
    pub fn iter(&self, keyspace: &Keyspace) -> Iter {
        self.range::<&[u8]>(keyspace, ..)
    }

    /// A lending cursor over a key range; its calls return what [`get`](Self::get) would as an error.
    pub fn cursor<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Cursor {
        let (low, high) = limits(&range);
        self.cursor_between(keyspace, low, high)
    }

    fn cursor_between(&self, keyspace: &Keyspace, low: Vec<u8>, high: Option<Vec<u8>>) -> Cursor {
        let moment = self.check_own(keyspace).map(|()| self.moment.clone());
        Cursor::new(moment, keyspace.state.clone(), low, high)
    }

    #[inline]
    fn check_own(&self, keyspace: &Keyspace) -> Result<()> {
        self.moment.handle.check_own(keyspace, "snapshot")
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({:?})", self.moment.version())
    }
}
