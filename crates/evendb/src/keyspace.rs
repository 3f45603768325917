//! Keyspaces: ordered maps side by side in one database, each with its own chunks.

use crate::chunk::Chunk;
use crate::chunk::index::Index;
use crate::chunk::record::RecordRef;
use crate::db::Handle;
use crate::error::{Error, ErrorKind, Result};
use crate::fork;
use crate::manifest::KeyspaceId;
use crate::manifest::state::Properties;
use crate::options::Durability;
use crate::read::cursor::{Cursor, Iter, limits, prefix_end};
use crate::read::snapshot::{Moment, Snapshot};
use crate::rebalance::compact::{Compaction, Span};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::epoch::ArcCell;
use crate::sync::{Arc, Mutex};
use crate::value::Value;
use crate::write::payload::OP_HEADER_BYTES;
use crate::write::{Op, check_limits, memory_bytes};
use evendb_storage::codec::hash_key;
use evendb_storage::{Kind, Version};
use std::ops::RangeBounds;

/// Longer scans count as this long.
const SCAN_NOTED_MAX: u64 = 4096;

/// A step towards a scan's length: up by an eighth, down by a twelfth, so that it comes to rest
/// where six of ten are shorter. A few very long ones do not count for more than others, as they
/// would in a mean.
fn usual_length(old: u32, new: u32) -> u32 {
    match old {
        0 => new,
        _ if new > old => (old + old / 8 + 1).min(new),
        _ => (old - old / 12).max(new),
    }
}

/// What the engine keeps of a keyspace.
pub(crate) struct KeyspaceState {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    /// The root: covers the whole key space, names for each key the chunk that takes its puts.
    pub(crate) index: ArcCell<Index<Chunk>>,
    /// Serializes replacements of the root; memory only.
    pub(crate) root_lock: Mutex<()>,
    /// As the manifest has them; replaced under the catalog mutex, once the edit is durable.
    pub(crate) properties: Mutex<Properties>,
    /// No write begins any more, unless the edit that drops it cannot be written.
    dropped: AtomicBool,
    /// The last version that may be read here: that of a snapshot taken before the keyspace was
    /// dropped, and the greatest there is before that.
    readable_until: AtomicU64,
    /// Sixteenths of records that six scans of ten do not exceed; 0 while none has ended.
    scan_length: AtomicU32,
}

impl KeyspaceState {
    pub(crate) fn new(
        id: KeyspaceId,
        name: String,
        properties: Properties,
        index: Index<Chunk>,
    ) -> KeyspaceState {
        KeyspaceState {
            id,
            name,
            index: ArcCell::new(Arc::new(index)),
            root_lock: Mutex::new(()),
            properties: Mutex::new(properties),
            dropped: AtomicBool::new(false),
            readable_until: AtomicU64::new(u64::MAX),
            scan_length: AtomicU32::new(0),
        }
    }

    /// How many records a scan takes as a rule, if any has ended.
    pub(crate) fn usual_scan(&self) -> Option<usize> {
        let length = self.scan_length.load(Ordering::Relaxed);
        (length > 0).then(|| (length as usize).div_ceil(16))
    }

    /// A scan ended that took so many records.
    pub(crate) fn note_scan(&self, records: u64) {
        let records = records.min(SCAN_NOTED_MAX) as u32 * 16;
        let old = self.scan_length.load(Ordering::Relaxed);
        // Relaxed, and a lost one does no harm.
        self.scan_length
            .store(usual_length(old, records), Ordering::Relaxed);
    }

    pub(crate) fn is_dropped(&self) -> bool {
        // Pairs with the Release of `set_dropped`.
        self.dropped.load(Ordering::Acquire)
    }

    /// Marks it, or takes the mark back where the edit could not be written.
    pub(crate) fn set_dropped(&self, dropped: bool) {
        self.dropped.store(dropped, Ordering::Release);
    }

    /// Its removal is durable: from here on only snapshots of a version below `now` may read it. No
    /// sooner, because a removal that fails has not happened for anybody.
    pub(crate) fn end_reading(&self, now: Version) {
        self.readable_until.store(now.0 - 1, Ordering::Release);
    }

    /// Whether a reader at version `at` may look: [`Version::MAX`] for whoever wants the newest.
    #[inline]
    pub(crate) fn check_readable_at(&self, at: Version) -> Result<()> {
        // Pairs with the Release of `end_reading`: who knows that the keyspace was dropped sees it.
        if at.0 > self.readable_until.load(Ordering::Acquire) {
            return Err(self.dropped_error());
        }
        Ok(())
    }

    /// The refusal of calls after [`crate::Db::drop_keyspace`].
    #[cold]
    pub(crate) fn dropped_error(&self) -> Error {
        let message = format!(
            "the keyspace {:?} was dropped; a keyspace of that name made since is another one: ask \
             the database for it",
            self.name
        );
        Error::new(ErrorKind::KeyspaceDropped, message)
    }
}

impl Drop for KeyspaceState {
    fn drop(&mut self) {
        if fork::is_child() {
            // What hangs on it would be taken from lists that others may have locked.
            std::mem::forget(self.index.load_full());
        }
    }
}

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
        self.handle
            .engine
            .check_value_size(key.len(), value.len())?;
        let record = RecordRef::new(key, value, kind, hash_key(key));
        let mut ops = [Op {
            keyspace: &self.state,
            record,
        }];
        self.handle.engine.write(&mut ops, Durability::Relaxed)
    }

    /// The value of `key`. Wait-free until it must read from disk.
    ///
    /// # Errors
    /// `Io` or `Corruption` if a table cannot be read, `Closed`, `KeyspaceDropped`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.handle.engine.get(&self.state, key.as_ref())
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
    pub fn compact(&self) -> Result<Compaction> {
        self.compact_range::<&[u8]>(..)
    }

    /// The same, of the chunks that hold keys of the range (and of their neighbours in the chunks at
    /// its ends).
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Compaction> {
        let (low, high) = limits(&range);
        self.compact_between(low, high)
    }

    /// The same, of the chunks that hold keys that begin with `prefix`.
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Compaction> {
        let low = prefix.as_ref().to_vec();
        let high = prefix_end(&low);
        self.compact_between(low, high)
    }

    fn compact_between(&self, low: Vec<u8>, high: Option<Vec<u8>>) -> Result<Compaction> {
        self.handle.engine.check_writable()?;
        self.state.check_readable_at(Version::MAX)?;
        let span = Span {
            keyspace: self.state.clone(),
            low,
            high,
        };
        self.handle.engine.compact(&[span])
    }

    fn delete_between(&self, low: Vec<u8>, high: Option<Vec<u8>>) -> Result<u64> {
        let engine = &self.handle.engine;
        engine.check_writable()?;
        self.state.check_readable_at(Version::MAX)?;
        let bytes_max = engine.options.memory_budget / 16;
        // A batch that fits the commit log needs no file of its own, for which a full disk has no
        // room.
        let logged_max = engine.log_payload_max();
        // Before the cursor: what these tables hold is older than what it sees.
        let tables = engine.tables_inside(&self.state, &low, high.as_deref());
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
                engine.cover(&self.state, &low, high.as_deref(), &tables);
                return Ok(removed);
            };
            // On a full disk what was deleted so far must be able to go: not while the cursor sees it.
            if engine.ballast.is_owed() {
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
            engine.write(&mut ops, Durability::Relaxed)?;
        }
    }
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyspace({:?})", self.state.name)
    }
}

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests {
    use super::usual_length;

    /// Lengths in turn, until it has come to rest.
    fn rests_at(length: impl Fn(u32) -> u32) -> u32 {
        let scans = (0..4000u32).map(|scan| length(scan.wrapping_mul(2_654_435_761) >> 8));
        scans.fold(0, |old, new| usual_length(old, 16 * new)) / 16
    }

    #[test]
    fn the_usual_scan_is_what_most_are_and_few_long_ones_do_not_matter() {
        assert_eq!(rests_at(|_| 50), 50);
        let uniform = rests_at(|random| 1 + random % 100);
        assert!((40..=85).contains(&uniform), "{uniform}");
        let with_long_ones = rests_at(|random| match random % 10 {
            0 => 4096,
            _ => 10,
        });
        assert!(with_long_ones <= 14, "{with_long_ones}");
        assert_eq!(usual_length(0, 0), 0);
        assert_eq!(usual_length(16, 0), 15);
    }
}
