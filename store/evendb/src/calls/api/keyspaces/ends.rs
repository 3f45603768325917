//! The first and the last record of a keyspace: looked at, and taken out.

use crate::api::db::Db;
use crate::api::keyspace::Keyspace;
use crate::api::snapshot::Snapshot;
use crate::api::transaction::transact_unrecorded;
use crate::error::Result;
use crate::read::cursor::{limits, prefix_end};
use crate::transaction::RangeEnd;
use crate::value::Value;
use evendb_trace::Kind as Asked;
use std::ops::RangeBounds;

impl Keyspace {
    /// The record with the least key at the time of the call. For the least key of a range or
    /// prefix, take the first item of [`range`](Self::range) or [`prefix`](Self::prefix) with a
    /// [limit](crate::Iter::limit) of 1.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn first(&self) -> Result<Option<(Value, Value)>> {
        RangeEnd::First.of(self.iter())
    }

    /// The record with the greatest key at the time of the call. For a range or prefix see
    /// [`first`](Self::first).
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn last(&self) -> Result<Option<(Value, Value)>> {
        RangeEnd::Last.of(self.iter())
    }

    /// Removes the record with the least key, and returns it: `None` if there is no record. If
    /// several threads pop at once, each gets another record. Nothing is put or removed in between:
    /// the record is the first of all at the moment of its removal.
    ///
    /// On return the removal survives what the database's [`Durability`](crate::Durability) says. A
    /// crash in the call may leave the record removed and given to nobody. Where that matters, use
    /// [`Db::transact`], which can put a note of it in the same step.
    ///
    /// Pops of one range take turns, so with [`Durability::Sync`](crate::Durability::Sync) each
    /// waits for the disk by itself.
    ///
    /// A pop begins behind what earlier pops have left empty, so it takes equally long however many
    /// pops there were. Records that were removed in another way ([`delete`](Self::delete)) are
    /// passed over until they have been reorganised away.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// let queue = db.keyspace("queue")?;
    /// queue.put("1", "first job")?;
    /// queue.put("2", "second job")?;
    /// let (key, job) = queue.pop_first()?.unwrap();
    /// assert!(key == "1" && job == "first job");
    /// assert_eq!(queue.pop_last()?.unwrap().1, "second job");
    /// assert!(queue.pop_first()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`put`](Self::put) and [`get`](Self::get); `Conflict` after 64 attempts, if
    /// before each of them another write changed the first record; `LockTimeout` if a transaction
    /// has the least key of the range locked all that time
    /// ([`Transaction::get_for_update`](crate::Transaction::get_for_update)). Nothing was removed
    /// then.
    pub fn pop_first(&self) -> Result<Option<(Value, Value)>> {
        self.pop((Vec::new(), None), RangeEnd::First)
    }

    /// Removes the record with the greatest key, and returns it. See
    /// [`pop_first`](Self::pop_first).
    ///
    /// # Errors
    /// The same errors.
    pub fn pop_last(&self) -> Result<Option<(Value, Value)>> {
        self.pop((Vec::new(), None), RangeEnd::Last)
    }

    /// Removes the first record of a key range, and returns it. See [`pop_first`](Self::pop_first).
    ///
    /// # Errors
    /// The same errors.
    pub fn pop_first_range<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<Option<(Value, Value)>> {
        self.pop(limits(&range), RangeEnd::First)
    }

    /// Removes the last record of a key range, and returns it. See [`pop_first`](Self::pop_first).
    ///
    /// # Errors
    /// The same errors.
    pub fn pop_last_range<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<Option<(Value, Value)>> {
        self.pop(limits(&range), RangeEnd::Last)
    }

    /// Removes the first record whose key begins with `prefix`, and returns it. See
    /// [`pop_first`](Self::pop_first).
    ///
    /// # Errors
    /// The same errors.
    pub fn pop_first_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Option<(Value, Value)>> {
        let low = prefix.as_ref().to_vec();
        let high = prefix_end(&low);
        self.pop((low, high), RangeEnd::First)
    }

    /// Removes the last record whose key begins with `prefix`, and returns it. See
    /// [`pop_first`](Self::pop_first).
    ///
    /// # Errors
    /// The same errors.
    pub fn pop_last_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Option<(Value, Value)>> {
        let low = prefix.as_ref().to_vec();
        let high = prefix_end(&low);
        self.pop((low, high), RangeEnd::Last)
    }

    fn pop(
        &self,
        (low, high): (Vec<u8>, Option<Vec<u8>>),
        end: RangeEnd,
    ) -> Result<Option<(Value, Value)>> {
        let began = self.recording().begin(&low);
        let popped = self.pop_record((&low, high.as_deref()), end);
        if let Some(began) = began {
            let mut call = self.call(Asked::Pop, &low);
            call.end_key = high.as_deref();
            call.reverse = end == RangeEnd::Last;
            let value = popped.clone().map(|popped| popped.map(|(_, value)| value));
            self.recording().got(began, call, &value);
        }
        popped
    }

    fn pop_record(
        &self,
        range: (&[u8], Option<&[u8]>),
        end: RangeEnd,
    ) -> Result<Option<(Value, Value)>> {
        self.handle.engine.core.health.check_writable()?;
        transact_unrecorded(&self.handle, |transaction| {
            transaction.pop(self, range, end)
        })
    }
}

impl Db {
    /// See [`Keyspace::first`].
    ///
    /// # Errors
    /// The same errors.
    pub fn first(&self) -> Result<Option<(Value, Value)>> {
        self.default_keyspace().first()
    }

    /// See [`Keyspace::last`].
    ///
    /// # Errors
    /// The same errors.
    pub fn last(&self) -> Result<Option<(Value, Value)>> {
        self.default_keyspace().last()
    }

    /// See [`Keyspace::pop_first`].
    ///
    /// # Errors
    /// The same errors.
    pub fn pop_first(&self) -> Result<Option<(Value, Value)>> {
        self.default_keyspace().pop_first()
    }

    /// See [`Keyspace::pop_last`].
    ///
    /// # Errors
    /// The same errors.
    pub fn pop_last(&self) -> Result<Option<(Value, Value)>> {
        self.default_keyspace().pop_last()
    }
}

impl Snapshot {
    /// The record with the least key at this moment.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn first(&self, keyspace: &Keyspace) -> Result<Option<(Value, Value)>> {
        RangeEnd::First.of(self.iter(keyspace))
    }

    /// The record with the greatest key at this moment.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn last(&self, keyspace: &Keyspace) -> Result<Option<(Value, Value)>> {
        RangeEnd::Last.of(self.iter(keyspace))
    }
}
