//! Snapshots: one registered moment of the whole database.

use crate::api::keyspace::Keyspace;
use crate::error::Result;
use crate::expiry::time_of_day;
use crate::read::cursor::{Cursor, Iter, Keys, limits, prefix_end};
use crate::read::get;
use crate::read::moment::Moment;
use crate::recording::Recording;
use crate::recording::scan::ScanOf;
use crate::sync::Arc;
use crate::value::Value;
use evendb_trace::{Call, Kind as Asked};
use std::ops::RangeBounds;
use std::time::SystemTime;

/// One moment of the whole database, all keyspaces together.
///
/// Cheap to make and to clone. While it lives, the versions it sees are kept: a snapshot that is
/// held for long costs the space of everything that is overwritten meanwhile.
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
    /// `KeyspaceDropped` if the keyspace was dropped before the snapshot was taken,
    /// `InvalidArgument` if it is not of the snapshot's database, or of an earlier opening of it.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = key.as_ref();
        let began = self.recording().begin(key);
        let found = self.look_up(keyspace, key);
        if let Some(began) = began {
            let call = older(keyspace, Asked::Get, key);
            self.recording().got(began, call, &found);
        }
        found
    }

    fn look_up(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Value>> {
        self.check_own(keyspace)?;
        let (engine, point) = (self.moment.engine(), self.moment.point());
        get::get_at(engine, &keyspace.state, key, point)
    }

    pub(super) fn recording(&self) -> &Recording {
        &self.moment.engine().core.recording
    }

    /// Whether `key` had a value at this moment.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn contains_key(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        self.check_own(keyspace)?;
        let key = key.as_ref();
        let began = self.recording().begin(key);
        let engine = self.moment.engine();
        let found = get::contains(engine, &keyspace.state, key, self.moment.point());
        if let Some(began) = began {
            let call = older(keyspace, Asked::Contains, key);
            self.recording().asked(began, call, &found);
        }
        found
    }

    /// The time at which the value of `key` expires. `None` if it stays, if there is none, or if it
    /// is a value of merge operands.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use std::time::{Duration, SystemTime};
    /// let db = evendb::Db::open(dir.path())?;
    /// let keyspace = db.default_keyspace();
    /// keyspace.put_with_ttl("session", "ada", Duration::from_secs(1800))?;
    /// db.put("user", "ada")?;
    /// let snapshot = db.snapshot()?;
    /// assert!(snapshot.expires(keyspace, "session")?.unwrap() > SystemTime::now());
    /// assert_eq!(snapshot.expires(keyspace, "user")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn expires(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<SystemTime>> {
        let key = key.as_ref();
        if self.look_up(keyspace, key)?.is_none() {
            return Ok(None);
        }
        let (engine, point) = (self.moment.engine(), self.moment.point());
        let expires = get::expiry_of(engine, &keyspace.state, key, point)?;
        Ok(expires.map(time_of_day))
    }

    /// The values of `keys`, in their order.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        let began = self.recording().begin_always();
        let found = self.get_each(keyspace, keys);
        if let Some(began) = began {
            let each = keys.iter().map(|key| (keyspace.id(), key.as_ref()));
            self.recording().got_all(began, each, true, &found);
        }
        found
    }

    /// Like [`multi_get`](Self::multi_get), in no trace.
    pub(super) fn get_each<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        self.check_own(keyspace)?;
        self.moment.engine().core.health.check_readable()?;
        keyspace.state.check_readable_at(self.moment.version())?;
        let each = keys.iter();
        each.map(|key| self.look_up(keyspace, key.as_ref()))
            .collect()
    }

    /// The values of keys of several keyspaces, in their order.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    #[doc(alias = "multi_get_cf")]
    pub fn multi_get_across<K: AsRef<[u8]>>(
        &self,
        keys: &[(&Keyspace, K)],
    ) -> Result<Vec<Option<Value>>> {
        self.get_across(keys, true)
    }

    /// Like [`multi_get_across`](Self::multi_get_across); says whether the moment is older than the
    /// call.
    pub(super) fn get_across<K: AsRef<[u8]>>(
        &self,
        keys: &[(&Keyspace, K)],
        older_moment: bool,
    ) -> Result<Vec<Option<Value>>> {
        let began = self.recording().begin_always();
        let look_up_all = || {
            self.moment.engine().core.health.check_readable()?;
            let each = keys.iter();
            each.map(|(keyspace, key)| self.look_up(keyspace, key.as_ref()))
                .collect()
        };
        let found = look_up_all();
        if let Some(began) = began {
            let each = keys.iter();
            let each = each.map(|(keyspace, key)| (keyspace.id(), key.as_ref()));
            self.recording().got_all(began, each, older_moment, &found);
        }
        found
    }

    /// The records of a key range. An error that [`get`](Self::get) would return is the first item.
    pub fn range<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, range: impl RangeBounds<K>) -> Iter {
        Iter::new(self.cursor(keyspace, range))
    }

    /// The records whose keys begin with `prefix`; with the errors of [`range`](Self::range).
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Iter {
        let low = prefix.as_ref().to_vec();
        let high = prefix_end(&low);
        Iter::new(self.cursor_between(keyspace, low, high))
    }

    /// All records; with the errors of [`range`](Self::range).
    pub fn iter(&self, keyspace: &Keyspace) -> Iter {
        self.range::<&[u8]>(keyspace, ..)
    }

    /// The keys of a range, without their values: see [`Keys`]. It has the errors of
    /// [`range`](Self::range).
    pub fn keys<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, range: impl RangeBounds<K>) -> Keys {
        Keys::new(self.cursor(keyspace, range))
    }

    /// A lending cursor over a key range; its calls return the errors of [`get`](Self::get).
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
        let of = ScanOf {
            keyspace: keyspace.id(),
            group: 0,
            older_moment: true,
        };
        let record = self.recording().scan(of, &low, high.as_deref());
        Cursor::new(moment, keyspace.state.clone(), low, high).recorded(record)
    }

    #[inline]
    pub(super) fn check_own(&self, keyspace: &Keyspace) -> Result<()> {
        let of = &keyspace.handle.engine;
        self.moment
            .handle
            .check_own(of, keyspace.name(), "snapshot")
    }
}

/// A call at an older moment, for a trace.
pub(super) fn older<'k>(keyspace: &Keyspace, asked: Asked, key: &'k [u8]) -> Call<'k> {
    let mut call = keyspace.call(asked, key);
    call.older_moment = true;
    call
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({:?})", self.moment.version())
    }
}
