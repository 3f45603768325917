//! Snapshots: one registered moment of the whole database.

use crate::api::keyspace::Keyspace;
use crate::error::Result;
use crate::read::cursor::{Cursor, Iter, Keys, limits, prefix_end};
use crate::read::get;
use crate::read::moment::Moment;
use crate::sync::Arc;
use crate::value::Value;
use std::ops::RangeBounds;

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
        get::get_at(
            &self.moment.engine().core,
            &self.moment.engine().caches,
            &self.moment.engine().work,
            &keyspace.state,
            key.as_ref(),
            self.moment.point(),
        )
    }

    /// Whether `key` had a value at this moment.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains_key(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        self.check_own(keyspace)?;
        let engine = self.moment.engine();
        get::contains(engine, &keyspace.state, key.as_ref(), self.moment.point())
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
        self.moment.engine().core.health.check_readable()?;
        keyspace.state.check_readable_at(self.moment.version())?;
        keys.iter().map(|key| self.get(keyspace, key)).collect()
    }

    /// The values of keys of several keyspaces, in their order.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    #[doc(alias = "multi_get_cf")]
    pub fn multi_get_across<K: AsRef<[u8]>>(
        &self,
        keys: &[(&Keyspace, K)],
    ) -> Result<Vec<Option<Value>>> {
        self.moment.engine().core.health.check_readable()?;
        let each = keys.iter();
        each.map(|(keyspace, key)| self.get(keyspace, key))
            .collect()
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

    /// The keys of a range, without their values: see [`Keys`]. Errors as of [`range`](Self::range).
    pub fn keys<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, range: impl RangeBounds<K>) -> Keys {
        Keys::new(self.cursor(keyspace, range))
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
        let of = &keyspace.handle.engine;
        self.moment
            .handle
            .check_own(of, keyspace.name(), "snapshot")
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({:?})", self.moment.version())
    }
}
