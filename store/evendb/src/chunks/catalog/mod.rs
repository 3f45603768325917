//! The keyspaces of an open database, and the engine's state of each.
//!
//! Thread safety: any thread. The catalog's mutex is taken before a chunk's. Not here: the
//! public handle ([`crate::Keyspace`]).

mod names;

use self::names::Names;
use crate::chunk::Chunk;
use crate::chunk::index::Index;
use crate::chunk::share::Share;
use crate::error::{Error, ErrorKind, Result};
use crate::expiry::ExpiryClock;
use crate::fork;
use crate::manifest::KeyspaceId;
use crate::manifest::state::Properties;
use crate::merge_operator::Operator;
use crate::options::{CompactionFilter, KeyspaceOptions};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::reclaim::ArcCell;
use crate::sync::{Arc, Mutex, MutexGuard};
use crate::value_files::Needed;
use evendb_storage::{Kind, Time, Version};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

/// The name of the keyspace that always exists.
pub(crate) const DEFAULT_KEYSPACE: &str = "default";

type Keyspaces = BTreeMap<String, Arc<KeyspaceState>>;

/// All keyspaces, by name.
pub(crate) struct Catalog {
    keyspaces: Mutex<Keyspaces>,
    /// The number of renamings; it is raised under the mutex.
    renamings: AtomicU64,
}

impl Catalog {
    pub(crate) fn new(keyspaces: Keyspaces) -> Catalog {
        Catalog {
            keyspaces: Mutex::new(keyspaces),
            renamings: AtomicU64::new(0),
        }
    }

    /// Locks the catalog. Calls that create, rename or drop a keyspace hold the lock over the edit.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Keyspaces> {
        self.keyspaces.lock()
    }

    /// The number of renamings up to now. While it stays the same, what was learnt of names under
    /// the lock still holds.
    pub(crate) fn renamings(&self) -> u64 {
        self.renamings.load(Ordering::Acquire)
    }

    /// Counts a renaming. The caller holds the lock, and has not changed a name yet.
    pub(crate) fn note_renaming(&self) {
        self.renamings.fetch_add(1, Ordering::Release);
    }

    /// Every existing keyspace.
    pub(crate) fn keyspaces(&self) -> Vec<Arc<KeyspaceState>> {
        self.lock().values().cloned().collect()
    }

    /// Every chunk of every keyspace, at this moment.
    pub(crate) fn chunks(&self) -> Vec<(Arc<KeyspaceState>, Arc<Chunk>)> {
        let mut chunks = Vec::new();
        for keyspace in self.keyspaces() {
            let index = keyspace.index.load_full();
            let each = index.iter().map(|(_, chunk)| chunk.clone());
            chunks.extend(each.map(|chunk| (keyspace.clone(), chunk)));
        }
        chunks
    }

    /// The keyspace of the chunk, unless it was dropped.
    pub(crate) fn keyspace_of(&self, chunk: &Chunk) -> Option<Arc<KeyspaceState>> {
        let keyspaces = self.lock();
        let mut all = keyspaces.values();
        all.find(|keyspace| keyspace.id == chunk.keyspace).cloned()
    }
}

/// The largest length of a scan that counts, in records; longer scans count as this length.
const SCAN_NOTED_MAX: u64 = 4096;

/// One step towards a scan's length: up by an eighth, down by a twelfth. So the value comes to rest
/// where six of ten scans are shorter. A few very long scans count no more than others, unlike in a
/// mean.
fn usual_length(old: u32, new: u32) -> u32 {
    match old {
        0 => new,
        _ if new > old => (old + old / 8 + 1).min(new),
        _ => (old - old / 12).max(new),
    }
}

/// The engine's state of a keyspace.
pub(crate) struct KeyspaceState {
    pub(crate) id: KeyspaceId,
    names: Names,
    /// The root: it covers the whole key space, and names for each key the chunk that takes its
    /// puts.
    pub(crate) index: ArcCell<Index<Chunk>>,
    /// Serializes replacements of the root; held over memory only.
    pub(crate) root_lock: Mutex<()>,
    /// The properties in the manifest; replaced under the catalog mutex, once the edit is durable.
    pub(crate) properties: Mutex<Properties>,
    /// The merge operator, once it is known: given by the program, or known by its name.
    pub(crate) merge_operator: OnceLock<Operator>,
    /// The time to live of puts without an expiry of their own, in milliseconds; 0: none. Relaxed:
    /// puts that run while it changes may follow the old or the new value.
    ttl_millis: AtomicU64,
    /// The length in bytes from which values go apart; 0: the database's value. Relaxed, as above.
    values_apart_from: AtomicU32,
    /// The value files that records of a dropped keyspace may name although no table names them.
    pub(crate) kept_value_files: Mutex<Vec<Needed>>,
    /// The keyspace has a merge operator, at least by name. It is set before the first operand can
    /// be put, and never cleared. Relaxed: a thread that must know of an operand learns it from the
    /// latch of the operand's chunk.
    has_operator: AtomicBool,
    /// The application's filter for records that are rewritten.
    pub(crate) filter: Mutex<Option<Arc<dyn CompactionFilter>>>,
    /// No write begins any more, unless the edit that drops the keyspace cannot be written.
    dropped: AtomicBool,
    /// The last version that may be read here: the version of a snapshot taken before the drop;
    /// before a drop, the greatest version.
    readable_until: AtomicU64,
    /// The length of scans that six of ten do not exceed, in sixteenths of a record; 0 while no
    /// scan has ended.
    scan_length: AtomicU32,
    /// The share of one-record scans that found the key with which they began.
    first_keys: Share,
    /// The mean over its chunks.
    pub(crate) new_share: Share,
    /// The share of the looks at a growing chunk that found a stream.
    pub(crate) stream_share: Share,
}

impl KeyspaceState {
    pub(crate) fn new(
        id: KeyspaceId,
        name: String,
        properties: Properties,
        index: Index<Chunk>,
    ) -> KeyspaceState {
        let options = KeyspaceOptions::of_properties(&properties).unwrap_or_default();
        let named = options
            .merge_operator
            .as_ref()
            .and_then(|named| named.operator.clone());
        let state = KeyspaceState {
            merge_operator: named.map_or_else(OnceLock::new, OnceLock::from),
            id,
            names: Names::new(name),
            index: ArcCell::new(Arc::new(index)),
            root_lock: Mutex::new(()),
            ttl_millis: AtomicU64::new(0),
            values_apart_from: AtomicU32::new(0),
            kept_value_files: Mutex::default(),
            has_operator: AtomicBool::new(false),
            filter: Mutex::new(None),
            properties: Mutex::new(properties),
            dropped: AtomicBool::new(false),
            readable_until: AtomicU64::new(u64::MAX),
            scan_length: AtomicU32::new(0),
            first_keys: Share::unknown(),
            new_share: Share::unknown(),
            stream_share: Share::unknown(),
        };
        state.follow(&options);
        state
    }

    /// The name that it has now.
    pub(crate) fn name(&self) -> &str {
        self.names.current()
    }

    /// Notes another name, once the edit is durable. The caller holds the catalog's mutex.
    pub(crate) fn rename(&self, name: &str) {
        self.names.rename(name);
    }

    /// Takes over the keyspace's own options.
    pub(crate) fn follow(&self, options: &KeyspaceOptions) {
        let millis = options.ttl_millis.unwrap_or(0);
        self.ttl_millis.store(millis, Ordering::Relaxed);
        let from = options.values_apart_from.unwrap_or(0);
        self.values_apart_from.store(from, Ordering::Relaxed);
        if options.merge_operator.is_some() {
            self.has_operator.store(true, Ordering::Relaxed);
        }
    }

    /// The kind of a single delete here. A keyspace with merges uses a plain delete: a value with
    /// folded operands may lie beside the value that was put, and a single delete removes only one
    /// of them.
    ///
    /// It is asked again under the chunk's latch (`write/single_deletes.rs`), because the keyspace
    /// may get its operator meanwhile.
    pub(crate) fn kind_of_single_delete(&self) -> Kind {
        match self.has_operator.load(Ordering::Relaxed) {
            true => Kind::Delete,
            false => Kind::SingleDelete,
        }
    }

    /// The length in bytes from which the keyspace's values go apart, if it has its own.
    #[inline]
    pub(crate) fn values_apart_from(&self) -> Option<u32> {
        match self.values_apart_from.load(Ordering::Relaxed) {
            0 => None,
            bytes => Some(bytes),
        }
    }

    /// The expiry of a put that gives none itself.
    #[inline]
    pub(crate) fn expiry_of_put(&self, clock: &ExpiryClock) -> Option<Time> {
        match self.ttl_millis.load(Ordering::Relaxed) {
            0 => None,
            millis => Some(clock.expiry_after(Duration::from_millis(millis))),
        }
    }

    /// The usual number of records of a scan, if a scan has ended.
    pub(crate) fn usual_scan(&self) -> Option<usize> {
        let length = self.scan_length.load(Ordering::Relaxed);
        (length > 0).then(|| (length as usize).div_ceil(16))
    }

    /// Notes a scan that ended after this number of records.
    pub(crate) fn note_scan(&self, records: u64) {
        let records = records.min(SCAN_NOTED_MAX) as u32 * 16;
        let old = self.scan_length.load(Ordering::Relaxed);
        // Relaxed; a lost note does no harm.
        self.scan_length
            .store(usual_length(old, records), Ordering::Relaxed);
    }

    /// Whether more than half of the one-record scans find the key with which they begin.
    pub(crate) fn finds_first_keys(&self) -> bool {
        self.first_keys.get().is_none_or(|share| share > 0.5)
    }

    /// Notes whether a one-record scan found the key with which it began.
    pub(crate) fn note_first_key(&self, found: bool) {
        self.first_keys.move_towards(f32::from(u8::from(found)));
    }

    pub(crate) fn is_dropped(&self) -> bool {
        // Pairs with the Release of `set_dropped`.
        self.dropped.load(Ordering::Acquire)
    }

    /// Marks the keyspace as dropped, or clears the mark if the edit could not be written.
    pub(crate) fn set_dropped(&self, dropped: bool) {
        self.dropped.store(dropped, Ordering::Release);
    }

    /// Its removal is durable: from here on only snapshots of a version below `now` may read it.
    /// This must not come sooner, because a removal that fails has no effect for any reader.
    pub(crate) fn end_reading(&self, now: Version) {
        self.readable_until.store(now.0 - 1, Ordering::Release);
    }

    /// Whether a reader at version `at` may read; a reader of the newest state passes
    /// [`Version::MAX`].
    #[inline]
    pub(crate) fn check_readable_at(&self, at: Version) -> Result<()> {
        // Pairs with the Release of `end_reading`: a thread that knows of the drop sees it.
        if at.0 > self.readable_until.load(Ordering::Acquire) {
            return Err(self.dropped_error());
        }
        Ok(())
    }

    /// The error for calls after [`crate::Db::drop_keyspace`].
    #[cold]
    pub(crate) fn dropped_error(&self) -> Error {
        let message = format!(
            "the keyspace {:?} was dropped; a keyspace of that name made since is another one: ask \
             the database for it",
            self.name()
        );
        Error::new(ErrorKind::KeyspaceDropped, message)
    }
}

impl Drop for KeyspaceState {
    fn drop(&mut self) {
        if fork::is_child() {
            // A drop would take its parts from lists that other threads may have locked.
            std::mem::forget(self.index.load_full());
        }
    }
}

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests {
    use super::usual_length;

    /// The value at which these lengths, one after the other, come to rest.
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
