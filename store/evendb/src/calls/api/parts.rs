//! Gets of a part of a value.

use crate::api::db::Db;
use crate::api::keyspace::Keyspace;
use crate::api::snapshot::{Snapshot, older};
use crate::error::Result;
use crate::expiry::ReadPoint;
use crate::read::part::get_part_at;
use crate::value::Value;
use evendb_trace::Kind as Asked;
use std::ops::Range;

impl Keyspace {
    /// The bytes of the value of `key` at the offsets `part`, the end exclusive. Both ends are cut
    /// to the value's length, and an inverted part is empty: what lies behind the value's end is
    /// missing from the answer, and a part wholly behind it gives `Some` of no bytes. `None` means
    /// that the key has no value, as in [`get`](Self::get).
    ///
    /// It costs what `get` costs, except memory and copies: a value has one checksum, so all of it
    /// is read from the disk and verified. Of a value that lies apart
    /// ([`values_apart_from`](crate::KeyspaceOptions::values_apart_from)) only the part takes
    /// memory, whatever the value's length; of one that lies apart and is encrypted, the whole
    /// value does for the time of the call. A short part does not keep a long value in memory.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// db.put("report", "head and body")?;
    /// assert_eq!(db.get_part("report", 0..4)?.unwrap(), "head");
    /// assert_eq!(db.get_part("report", 9..100)?.unwrap(), "body");
    /// assert_eq!(db.get_part("report", 50..100)?.unwrap(), "");
    /// assert!(db.get_part("missing", 0..4)?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    #[doc(alias = "get_range")]
    pub fn get_part(&self, key: impl AsRef<[u8]>, part: Range<u64>) -> Result<Option<Value>> {
        let key = key.as_ref();
        let began = self.recording().begin(key);
        let engine = &self.handle.engine;
        let newest = ReadPoint::newest(&engine.core.clock.expiry);
        let found = get_part_at(engine, &self.state, key, newest, &part);
        if let Some(began) = began {
            let call = self.call(Asked::Get, key);
            self.recording().got(began, call, &found);
        }
        found
    }
}

impl Snapshot {
    /// A part of the value of `key` at this moment. See [`Keyspace::get_part`].
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn get_part(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        part: Range<u64>,
    ) -> Result<Option<Value>> {
        let key = key.as_ref();
        let began = self.recording().begin(key);
        let (engine, point) = (self.moment.engine(), self.moment.point());
        let own = self.check_own(keyspace);
        let found = own.and_then(|()| get_part_at(engine, &keyspace.state, key, point, &part));
        if let Some(began) = began {
            let call = older(keyspace, Asked::Get, key);
            self.recording().got(began, call, &found);
        }
        found
    }
}

impl Db {
    /// See [`Keyspace::get_part`].
    ///
    /// # Errors
    /// The same errors.
    pub fn get_part(&self, key: impl AsRef<[u8]>, part: Range<u64>) -> Result<Option<Value>> {
        self.default_keyspace().get_part(key, part)
    }
}
