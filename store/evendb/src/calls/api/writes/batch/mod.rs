//! Batches: several writes, seen and recovered whole or not at all.

mod commit;

pub use super::added::BatchWrite;
use super::added::{Added, InOrder, RangeWrite, Write};
use crate::api::keyspace::Keyspace;
use crate::catalog::KeyspaceState;
use crate::engine::handle::Handle;
use crate::error::{Error, Result};
use crate::expiry::{ExpiryClock, expiry_at};
use crate::key_heads::Head;
use crate::manifest::KeyspaceId;
use crate::op::{COUNTED_BYTES, check_limits, range_limits};
use crate::options::Durability;
use crate::range_set::RangeSet;
use crate::read::cursor::{limits, prefix_end};
use crate::read::merges;
use crate::record::RecordRef;
use crate::sync::Arc;
use crate::{fork, write};
pub(crate) use commit::BatchRecord;
use evendb_storage::key_hash::RamHash;
use evendb_storage::{EXPIRY_BYTES, Kind, Time, push_operand};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::time::{Duration, SystemTime};

/// Writes to any keys of any keyspaces that take effect together, at [`commit`](Self::commit).
///
/// Gets, scans, snapshots and recovery see all of them or none. Of several writes to one key the
/// last counts; a merge counts with the value that it merges into. A batch may count at most 64
/// times the memory budget: for each key that it writes, the bytes of the key, of the last value,
/// and 64 bytes. That is about its size in memory: a header of 32 bytes with key and value, rounded
/// up, and 11 to 24 bytes in the index. Until the batch is written, each record takes 40 bytes
/// more, and, if the commit log takes it, its bytes once more.
///
/// Up to a quarter of the budget a batch keeps within the budget. A larger one is let in alone: it
/// takes memory beyond the budget until the checkpoint that follows, and other puts wait for that.
/// See `docs/transactions.md`.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb::Db::open(dir.path()).unwrap();
/// let edges = db.keyspace("edges").unwrap();
/// let mut batch = db.batch();
/// batch.put(db.default_keyspace(), "node/1", "a").put(&edges, "1->2", "");
/// batch.commit().unwrap();
/// assert!(edges.contains_key("1->2").unwrap());
/// ```
#[must_use = "a batch does nothing until it is committed"]
pub struct Batch {
    handle: Arc<Handle>,
    /// The keyspaces that are written to besides the default one, each once.
    others: SmallVec<[Arc<KeyspaceState>; 1]>,
    /// The numbers of the keyspaces after the first [`INLINE`].
    numbers: BTreeMap<KeyspaceId, u32>,
    writes: SmallVec<[Write; INLINE]>,
    /// The counted bytes of all writes, each counted for itself.
    counted_bytes: u64,
    ranges: Vec<RangeWrite>,
    durability: Durability,
    error: Option<Error>,
    /// The deleted ranges by keyspace, once the writes are in the order of a write.
    ready: Option<Vec<(u32, RangeSet)>>,
}

/// The number of writes that need no memory of the heap: the smallest batches should not cost more
/// than single puts.
const INLINE: usize = 8;

impl Batch {
    pub(crate) fn new(handle: Arc<Handle>) -> Batch {
        Batch {
            handle,
            others: SmallVec::new(),
            numbers: BTreeMap::new(),
            writes: SmallVec::new(),
            counted_bytes: 0,
            ranges: Vec::new(),
            durability: Durability::Relaxed,
            error: None,
            ready: None,
        }
    }

    /// Adds a put. [`commit`](Self::commit) then fails if a key or value is over the limits, if the
    /// keyspace is not of the batch's database (or is of an earlier opening of it), or if the
    /// keyspace's merge operator could not read the value.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        let expires = keyspace.state.expiry_of_put(self.expiry());
        self.put_until(keyspace, key.as_ref(), value.as_ref(), expires)
    }

    /// Adds a put of a value that stays for `ttl` from now on: see [`Keyspace::put_with_ttl`].
    pub fn put_with_ttl(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> &mut Self {
        let expires = self.expiry().expiry_after(ttl);
        self.put_until(keyspace, key.as_ref(), value.as_ref(), Some(expires))
    }

    /// Adds a put of a value that stays until a time of day: see [`Keyspace::put_with_ttl`].
    pub fn put_expiring_at(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        at: SystemTime,
    ) -> &mut Self {
        self.put_until(keyspace, key.as_ref(), value.as_ref(), Some(expiry_at(at)))
    }

    fn expiry(&self) -> &ExpiryClock {
        &self.handle.engine.core.clock.expiry
    }

    fn put_until(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        expires: Option<Time>,
    ) -> &mut Self {
        if let Err(error) = merges::check_value(&keyspace.state, key, value) {
            return self.refused(error);
        }
        let prefix_bytes = expires.map_or(0, |_| EXPIRY_BYTES);
        self.add(keyspace, key, (value, prefix_bytes), |hash| {
            RecordRef::put(key, value, expires, hash)
        })
    }

    /// The commit returns the first error.
    fn refused(&mut self, error: Error) -> &mut Self {
        self.error = self.error.take().or(Some(error));
        self
    }

    /// Adds a delete.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> &mut Self {
        self.add_delete(keyspace, key.as_ref(), Kind::Delete)
    }

    /// Adds a delete of a key that was put once: see [`Keyspace::single_delete`]. If a put of the
    /// same key follows in the same batch, [`commit`](Self::commit) fails with `InvalidArgument`:
    /// only the put would be left of the two, and the next single delete would remove that put
    /// alone.
    pub fn single_delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> &mut Self {
        let kind = keyspace.state.kind_of_single_delete();
        self.add_delete(keyspace, key.as_ref(), kind)
    }

    fn add_delete(&mut self, keyspace: &Keyspace, key: &[u8], kind: Kind) -> &mut Self {
        self.add(keyspace, key, (&[], 0), |hash| {
            RecordRef::new(key, &[], kind, hash)
        })
    }

    /// Adds a merge like [`Keyspace::merge`]. Over a put or delete of the batch itself the operand
    /// is folded at the commit, which fails with `MergeFailed` if the operator fails. The folded
    /// value expires with that put.
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> &mut Self {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        if let Err(error) = merges::check_operand(&keyspace.state, key, operand) {
            return self.refused(error);
        }
        let mut value = Vec::with_capacity(operand.len() + 2);
        push_operand(&mut value, operand);
        self.add(keyspace, key, (&value, 0), |hash| {
            RecordRef::new(key, &value, Kind::Merge, hash)
        })
    }

    /// Adds the deletion of all keys of a range, as one record: the keys that were there before,
    /// and the keys that the batch has put so far.
    pub fn delete_range<K: AsRef<[u8]>>(
        &mut self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> &mut Self {
        let (low, high) = limits(&range);
        self.add_range(keyspace, &low, high.as_deref())
    }

    /// Adds the deletion of all keys that begin with `prefix`, as
    /// [`delete_range`](Self::delete_range).
    pub fn delete_prefix(&mut self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> &mut Self {
        let low = prefix.as_ref();
        self.add_range(keyspace, low, prefix_end(low).as_deref())
    }

    fn add_range(&mut self, keyspace: &Keyspace, low: &[u8], high: Option<&[u8]>) -> &mut Self {
        let checked = fork::check().and_then(|()| self.check_own(keyspace));
        match checked {
            Ok(()) => {
                if let Some((low, high)) = range_limits(low, high) {
                    let keyspace = self.number_of(&keyspace.state);
                    let bytes = low.len() + high.as_ref().map_or(0, Vec::len);
                    self.counted_bytes += bytes as u64 + COUNTED_BYTES;
                    self.ranges.push(RangeWrite {
                        keyspace,
                        low,
                        high,
                        after: self.writes.len(),
                    });
                }
            }
            Err(error) => self.error = self.error.take().or(Some(error)),
        }
        self
    }

    fn check_own(&self, keyspace: &Keyspace) -> Result<()> {
        let engine = &keyspace.handle.engine;
        self.handle.check_own(engine, keyspace.name(), "batch")
    }

    fn add(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        (value, prefix_bytes): (&[u8], usize),
        record: impl FnOnce(RamHash) -> RecordRef,
    ) -> &mut Self {
        let value_len = value.len() + prefix_bytes;
        // Checked before the record takes memory, which takes a lock.
        let checked = fork::check()
            .and_then(|()| self.check_own(keyspace))
            .and_then(|()| check_limits(key, value))
            .and_then(|()| write::check_value_size(&self.handle.engine.core, key.len(), value_len));
        match checked {
            Ok(()) => {
                let keyspace = self.number_of(&keyspace.state);
                self.counted_bytes += (key.len() + value_len) as u64 + COUNTED_BYTES;
                self.writes.push(Write {
                    key_head: Head::of(key),
                    keyspace,
                    record: record(RamHash::of(key)),
                });
            }
            Err(error) => self.error = self.error.take().or(Some(error)),
        }
        self
    }

    fn number_of(&mut self, keyspace: &Arc<KeyspaceState>) -> u32 {
        if Arc::ptr_eq(keyspace, self.handle.default_keyspace()) {
            return 0;
        }
        let is_it = |number: u32| {
            let place = (number as usize).checked_sub(1);
            let other = place.and_then(|place| self.others.get(place));
            other.is_some_and(|other| Arc::ptr_eq(other, keyspace))
        };
        let last = self.writes.last().map_or(0, |write| write.keyspace);
        if is_it(last) {
            return last;
        }
        let mut first = 1..=self.others.len().min(INLINE) as u32;
        let known = first.find(|&number| is_it(number));
        let known = known.or_else(|| self.numbers.get(&keyspace.id).copied());
        known.unwrap_or_else(|| {
            self.others.push(keyspace.clone());
            let number = self.others.len() as u32;
            if self.others.len() > INLINE {
                self.numbers.insert(keyspace.id, number);
            }
            number
        })
    }

    /// Raises the durability of this batch above the database's; it is never lowered.
    ///
    /// In a database at [`Durability::Relaxed`] a raised batch waits for a checkpoint. If the
    /// checkpoint fails, for example for want of room, [`commit`](Self::commit) returns the error
    /// although the batch is visible: it is then as durable as an ordinary one.
    pub fn durability(&mut self, durability: Durability) -> &mut Self {
        self.durability = durability;
        self
    }

    /// Writes added so far; a range deletion counts as one.
    pub fn len(&self) -> usize {
        self.writes.len() + self.ranges.len()
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the batch will do to `key`: the last of its writes to the key, `None` if there is none.
    /// It says nothing about what the database has.
    ///
    /// It looks through the writes one by one. To read many keys of uncommitted writes, use a
    /// [`Transaction`](crate::Transaction).
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Option<BatchWrite<'_>> {
        let key = key.as_ref();
        let head = u64::of(key);
        let is_of = |number| Arc::ptr_eq(self.keyspace_of(number), &keyspace.state);
        let is_it = |write: &Write| {
            write.key_head == head && *write.record.key() == *key && is_of(write.keyspace)
        };
        let last = self.writes.iter().rposition(is_it);
        let is_later = |range: &&RangeWrite| last.is_none_or(|last| range.after > last);
        let deletes = |range: &RangeWrite| {
            let high = range.high.as_deref();
            is_of(range.keyspace) && *range.low <= *key && high.is_none_or(|high| key < high)
        };
        match self.ranges.iter().rev().take_while(is_later).any(deletes) {
            true => Some(BatchWrite::Delete),
            false => Some(self.writes[last?].as_batch_write()),
        }
    }

    /// All writes in the order in which they were added; their number is [`len`](Self::len). An
    /// item has the keyspace's name, the key (of a range deletion the first key), and what is done
    /// to it. Writes that a later write of the same key replaces are among them.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use evendb::BatchWrite;
    /// let db = evendb::Db::open(dir.path())?;
    /// let keyspace = db.default_keyspace();
    /// let mut batch = db.batch();
    /// batch.put(keyspace, "a", "1").delete(keyspace, "b");
    /// assert_eq!(batch.get(keyspace, "a"), Some(BatchWrite::Put(b"1")));
    /// let keys: Vec<_> = batch.iter().map(|(_, key, _)| key).collect();
    /// assert_eq!(keys, [b"a", b"b"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &[u8], BatchWrite<'_>)> {
        self.in_order().map(|added| {
            let (number, key, what) = match added {
                Added::Write(write) => (write.keyspace, write.record.key(), write.as_batch_write()),
                Added::Range(range) => {
                    let what = BatchWrite::DeleteRange(range.high.as_deref());
                    (range.keyspace, &*range.low, what)
                }
            };
            (self.keyspace_of(number).name(), key, what)
        })
    }

    fn in_order(&self) -> InOrder<'_> {
        InOrder {
            writes: &self.writes,
            ranges: &self.ranges,
            first: 0,
        }
    }

    /// Bytes that the batch counts towards its limit: key, value and 64 bytes for each write. If a
    /// key is written several times, only its last write counts in the end, so this may say more
    /// than [`commit`](Self::commit) does.
    pub fn counted_bytes(&self) -> u64 {
        self.counted_bytes
    }

    /// Bytes that a batch of several keys may count: 64 times the memory budget.
    pub fn counted_bytes_max(&self) -> u64 {
        write::batch_bytes_max(&self.handle.engine.core)
    }

    /// Takes all writes out, and also an error that would have made [`commit`](Self::commit) fail.
    /// The durability stays, and the memory for the same number of writes stays allocated.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// let mut batch = db.batch();
    /// batch.put(db.default_keyspace(), "a", "1");
    /// assert_eq!(batch.counted_bytes(), 1 + 1 + 64);
    /// batch.clear();
    /// assert!(batch.is_empty() && batch.counted_bytes() == 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn clear(&mut self) {
        if fork::is_child() {
            return;
        }
        self.writes.clear();
        self.ranges.clear();
        self.others.clear();
        self.numbers.clear();
        self.counted_bytes = 0;
        self.error = None;
    }

    pub(crate) fn shared_handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    fn keyspace_of(&self, number: u32) -> &Arc<KeyspaceState> {
        keyspace(&self.handle, &self.others, number)
    }
}

/// The keyspace with a number as in [`Write`].
#[inline]
fn keyspace<'a>(
    handle: &'a Handle,
    others: &'a [Arc<KeyspaceState>],
    number: u32,
) -> &'a Arc<KeyspaceState> {
    match number {
        0 => handle.default_keyspace(),
        number => &others[number as usize - 1],
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Batch({} writes)", self.len())
    }
}
