//! The row cache: single rows of chunks without a munk, for hot keys whose neighbours are cold.
//!
//! ```text
//! shard (a lock each)     places: key hash -> slot     slots [row, row, free, ...]
//!   small FIFO  [new rows, a tenth of the room]  --read again--> main FIFO
//!   ghosts      [hashes of rows that left small] --filled again--> main FIFO
//!   main FIFO   [rows]  --read since the last turn--> once more round
//! ```
//!
//! **Room** is changed while all goes on ([`RowCache::set_capacity`]). Memory is rows and ghosts;
//! what was set last is kept after every insertion and every replacement.
//!
//! Eviction is S3-FIFO, written after its description; the paper's queue of three hash tables can
//! be chosen instead ([`RowPolicy::ThreeTables`]). A test compares the hit rates of the two, 0.72 to
//! 0.62 with room for 5 % of the rows: rows read once do not push hot ones out of S3-FIFO.
//!
//! Never stale (I8): a fill inserts only while the caller's check holds, and the check runs under
//! the shard's lock; a checkpoint replaces or removes the rows of its keys under the same lock.
//! So a check that saw the state before the checkpoint comes before the replacement. [L6]
//!
//! Thread safety: `get` and `insert_if` never wait (a busy shard is a miss, or no fill);
//! `update_if_present` and `set_capacity` wait, and belong to workers. Shard locks are leaves;
//! the check given to `insert_if` must not take one.
//!
//! Two keys of one hash exclude each other: the second is not inserted. The cache knows nothing
//! of versions: scans and snapshots pass it over.

use super::ghost::Ghosts;
use crate::options::RowPolicy;
use crate::record::RecordRef;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::value::Value;
use evendb_storage::Kind;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// Shards of a cache, a power of two.
const SHARDS: usize = 16;
/// Memory of a row beside its record: slot, place, queue entries.
const ROW_OVERHEAD_BYTES: usize = 72;
/// A row above this share of its shard is not cached.
const ROW_SHARE_MAX: usize = 8;
/// Share of the room for rows that were not read again yet.
const SMALL_SHARE: usize = 10;
/// Reads of a row that are remembered.
const READS_MAX: u8 = 3;
/// Rows of the main queue that one eviction looks at before it takes the next one, read or not:
/// bounds the time that a lock is held.
const EVICT_STEPS_MAX: usize = 64;
/// Rows, about, that go at once under one lock when the cache is made smaller: gets that find the
/// lock taken are misses.
const SHRINK_ROWS: usize = 32;

/// What a cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowCounts {
    /// Memory of rows and ghosts.
    pub(crate) bytes: u64,
    /// What it may take.
    pub(crate) bytes_max: u64,
    /// Rows.
    pub(crate) rows: u64,
}

/// Rows by keyspace and key; see the head of this file.
pub(crate) struct RowCache {
    shards: Box<[Lane]>,
}

/// One shard with its lock; a line of its own, lest neighbours share one.
#[repr(align(128))]
struct Lane {
    shard: Mutex<Shard>,
    /// Look-ups that found the lock taken. Relaxed: a counter.
    busy: AtomicU64,
}

impl RowCache {
    /// A cache of at most `bytes_max` bytes that evicts by `policy`.
    pub(crate) fn with_policy(bytes_max: usize, policy: RowPolicy) -> Self {
        RowCache::with_shards(bytes_max, policy, SHARDS)
    }

    fn with_shards(bytes_max: usize, policy: RowPolicy, shards: usize) -> Self {
        let lane = |_| Lane {
            shard: Mutex::new(Shard::new(bytes_max / shards, policy)),
            busy: AtomicU64::new(0),
        };
        RowCache {
            shards: (0..shards).map(lane).collect(),
        }
    }

    /// The value of `key`, if it is here and the shard is not busy. Never waits.
    pub(crate) fn get(&self, keyspace: u32, key: &[u8], hash: u64) -> Option<Value> {
        let (lane, place) = self.lane(keyspace, hash);
        let Some(mut shard) = lane.shard.try_lock() else {
            lane.busy.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let value = shard.read(place, keyspace, key);
        match value {
            Some(_) => shard.hits += 1,
            None => shard.misses += 1,
        }
        value
    }

    /// Adds a row if there is none for the key and `still_valid()`, which is asked under the
    /// shard's lock, holds. Never waits. Whether the row was added.
    pub(crate) fn insert_if(
        &self,
        keyspace: u32,
        key: &[u8],
        hash: u64,
        value: &[u8],
        still_valid: impl FnOnce() -> bool,
    ) -> bool {
        let (lane, place) = self.lane(keyspace, hash);
        let Some(mut shard) = lane.shard.try_lock() else {
            return false;
        };
        if shard.places.contains_key(&place)
            || row_bytes(key, value) > shard.row_bytes_max()
            || !still_valid()
        {
            return false;
        }
        shard.insert(place, keyspace, RecordRef::new(key, value, Kind::Put, hash));
        shard.evict();
        true
    }

    /// Replaces the row of `key`, if there is one, by `value`, or removes it for `None`. Waits
    /// for the shard; no reader finds the old value afterwards.
    pub(crate) fn update_if_present(
        &self,
        keyspace: u32,
        key: &[u8],
        hash: u64,
        value: Option<&[u8]>,
    ) {
        let (lane, place) = self.lane(keyspace, hash);
        let mut shard = lane.shard.lock();
        if shard.slot(place, keyspace, key).is_none() {
            return;
        }
        match value {
            Some(value) if row_bytes(key, value) <= shard.row_bytes_max() => {
                shard.replace(place, RecordRef::new(key, value, Kind::Put, hash));
                shard.evict();
            }
            _ => shard.remove(place),
        }
    }

    /// Changes the room. A smaller one is reached when this returns, a few rows at a time: the
    /// locks are given up on the way, and what is asked of an insertion meanwhile is no more than
    /// its own room.
    pub(crate) fn set_capacity(&self, bytes_max: usize) {
        let wanted = bytes_max / self.shards.len();
        for lane in &self.shards {
            loop {
                let mut shard = lane.shard.lock();
                let step = SHRINK_ROWS * shard.bytes / shard.places.len().max(1);
                let lower = shard
                    .memory()
                    .min(shard.bytes_max)
                    .saturating_sub(step.max(1));
                shard.bytes_max = wanted.max(lower);
                shard.evict();
                if shard.bytes_max == wanted {
                    break;
                }
            }
        }
    }

    /// Memory of all rows and ghosts.
    pub(crate) fn bytes(&self) -> usize {
        self.sum(|shard| shard.memory() as u64) as usize
    }

    /// What the split is decided by.
    pub(crate) fn counts(&self) -> RowCounts {
        let mut counts = RowCounts::default();
        for lane in &self.shards {
            let shard = lane.shard.lock();
            counts.bytes += shard.memory() as u64;
            counts.bytes_max += shard.bytes_max as u64;
            counts.rows += shard.places.len() as u64;
        }
        counts
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.sum(|shard| shard.places.len() as u64) as usize
    }

    /// Look-ups that found a row.
    #[cfg(all(test, not(evendb_loom)))]
    pub(crate) fn hits(&self) -> u64 {
        self.sum(|shard| shard.hits)
    }

    /// Look-ups that found none, or a busy shard.
    #[cfg(all(test, not(evendb_loom)))]
    pub(crate) fn misses(&self) -> u64 {
        let busy = self
            .shards
            .iter()
            .map(|lane| lane.busy.load(Ordering::Relaxed));
        self.sum(|shard| shard.misses) + busy.sum::<u64>()
    }

    fn sum(&self, count: impl Fn(&Shard) -> u64) -> u64 {
        self.shards
            .iter()
            .map(|lane| count(&lane.shard.lock()))
            .sum()
    }

    /// The shard of a key and its place there: keyspaces have the same keys at different places.
    fn lane(&self, keyspace: u32, hash: u64) -> (&Lane, u64) {
        let place = hash ^ u64::from(keyspace).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The map takes its bits from both ends; the shard takes its own from between.
        (
            &self.shards[(place >> 40) as usize & (self.shards.len() - 1)],
            place,
        )
    }
}

impl std::fmt::Debug for RowCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RowCache")
    }
}

fn row_bytes(key: &[u8], value: &[u8]) -> usize {
    RecordRef::memory_bytes_of(key.len() + value.len()) + ROW_OVERHEAD_BYTES
}

/// Keys of the map are hashes already.
#[derive(Default)]
struct Unhashed(u64);

impl Hasher for Unhashed {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only words are hashed");
    }

    fn write_u64(&mut self, place: u64) {
        self.0 = place;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Build = BuildHasherDefault<Unhashed>;

/// What a lock guards. A slot is in `places` while its row lives; its number stays in a queue
/// until it is its turn there, and only then is the slot free for another row.
struct Shard {
    places: HashMap<u64, u32, Build>,
    slots: Vec<RowSlot>,
    free: Vec<u32>,
    queues: Queues,
    bytes: usize,
    bytes_max: usize,
    hits: u64,
    misses: u64,
}

struct RowSlot {
    place: u64,
    keyspace: u32,
    reads: u8,
    /// The queue that counts its bytes: small or not; for three tables, table number.
    queue: u8,
    /// Queue entries that hold this slot's number.
    queued: u8,
    /// Empty when the row is gone.
    row: Option<Row>,
}

/// In one allocation, in the slabs where munks' pages and deltas' records lie too: what rows leave,
/// munks can take, and the other way round.
struct Row(RecordRef);

impl Row {
    fn bytes(&self) -> usize {
        self.0.memory_bytes() + ROW_OVERHEAD_BYTES
    }
}

enum Queues {
    S3Fifo {
        small: VecDeque<u32>,
        small_bytes: usize,
        main: VecDeque<u32>,
        /// Rows that left the small queue unread, about as many as there are rows.
        ghosts: Ghosts,
    },
    /// Tables by number modulo 3; `head` is the first.
    ThreeTables {
        tables: [Vec<u32>; 3],
        head: u8,
        head_bytes: usize,
    },
}

const SMALL: u8 = 0;
const MAIN: u8 = 1;

impl Shard {
    fn new(bytes_max: usize, policy: RowPolicy) -> Shard {
        let queues = match policy {
            RowPolicy::S3Fifo => Queues::S3Fifo {
                small: VecDeque::new(),
                small_bytes: 0,
                main: VecDeque::new(),
                ghosts: Ghosts::default(),
            },
            RowPolicy::ThreeTables => Queues::ThreeTables {
                tables: Default::default(),
                head: 0,
                head_bytes: 0,
            },
        };
        Shard {
            places: HashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            queues,
            bytes: 0,
            bytes_max,
            hits: 0,
            misses: 0,
        }
    }

    fn row_bytes_max(&self) -> usize {
        self.bytes_max / ROW_SHARE_MAX
    }

    /// Rows and ghosts.
    fn memory(&self) -> usize {
        let ghosts = match &self.queues {
            Queues::S3Fifo { ghosts, .. } => ghosts.bytes(),
            Queues::ThreeTables { .. } => 0,
        };
        self.bytes + ghosts
    }

    /// The slot of a key, if its row is here.
    fn slot(&self, place: u64, keyspace: u32, key: &[u8]) -> Option<u32> {
        let &at = self.places.get(&place)?;
        let slot = &self.slots[at as usize];
        let row = slot.row.as_ref()?;
        (slot.keyspace == keyspace && *row.0.key() == *key).then_some(at)
    }

    fn read(&mut self, place: u64, keyspace: u32, key: &[u8]) -> Option<Value> {
        let at = self.slot(place, keyspace, key)?;
        let slot = &mut self.slots[at as usize];
        slot.reads = (slot.reads + 1).min(READS_MAX);
        let row = slot.row.as_ref()?;
        let value = Value::of_record(row.0.clone());
        if let Queues::ThreeTables {
            tables,
            head,
            head_bytes,
        } = &mut self.queues
            && slot.queue != *head
        {
            *head_bytes += row.bytes();
            slot.queue = *head;
            slot.queued += 1;
            tables[usize::from(*head)].push(at);
            self.evict();
        }
        Some(value)
    }

    fn insert(&mut self, place: u64, keyspace: u32, record: RecordRef) {
        let row = Row(record);
        let bytes = row.bytes();
        let at = self.free.pop().unwrap_or(self.slots.len() as u32);
        let queue = match &mut self.queues {
            Queues::S3Fifo {
                small,
                small_bytes,
                main,
                ghosts,
            } => {
                let rows = self.places.len() as u64;
                if ghosts.take(place).is_some_and(|age| age <= rows) {
                    main.push_back(at);
                    MAIN
                } else {
                    small.push_back(at);
                    *small_bytes += bytes;
                    SMALL
                }
            }
            Queues::ThreeTables {
                tables,
                head,
                head_bytes,
            } => {
                tables[usize::from(*head)].push(at);
                *head_bytes += bytes;
                *head
            }
        };
        let slot = RowSlot {
            place,
            keyspace,
            reads: 0,
            queue,
            queued: 1,
            row: Some(row),
        };
        match self.slots.get_mut(at as usize) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        self.bytes += bytes;
        self.places.insert(place, at);
    }

    /// Replaces the value of a row that is here.
    fn replace(&mut self, place: u64, record: RecordRef) {
        let Some(&at) = self.places.get(&place) else {
            return;
        };
        let slot = &mut self.slots[at as usize];
        let Some(row) = &mut slot.row else { return };
        let (old, queue) = (row.bytes(), slot.queue);
        row.0 = record;
        let new = row.bytes();
        self.bytes = self.bytes + new - old;
        if let Some(bytes) = self.queue_bytes(queue) {
            *bytes = *bytes + new - old;
        }
    }

    /// Removes a row that is here; its number stays queued.
    fn remove(&mut self, place: u64) {
        let Some(at) = self.places.remove(&place) else {
            return;
        };
        let slot = &mut self.slots[at as usize];
        let (bytes, queue) = (slot.row.take().map_or(0, |row| row.bytes()), slot.queue);
        self.bytes -= bytes;
        if let Some(counted) = self.queue_bytes(queue) {
            *counted -= bytes;
        }
    }

    /// The count of bytes of a queue, if that queue has one.
    fn queue_bytes(&mut self, queue: u8) -> Option<&mut usize> {
        match &mut self.queues {
            Queues::S3Fifo { small_bytes, .. } => (queue == SMALL).then_some(small_bytes),
            Queues::ThreeTables {
                head, head_bytes, ..
            } => (queue == *head).then_some(head_bytes),
        }
    }

    /// A slot's number left a queue; the slot is free when that was the last.
    fn unqueue(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        slot.queued -= 1;
        if slot.queued == 0 {
            self.free.push(at);
        }
    }

    /// Evicts until rows and ghosts fit.
    fn evict(&mut self) {
        if matches!(self.queues, Queues::ThreeTables { .. }) {
            return self.rotate_tables();
        }
        while self.memory() > self.bytes_max || !self.queues_are_short() {
            if self.places.is_empty() && self.memory() > self.bytes_max {
                self.forget();
            }
            if self.queues_are_empty() {
                return;
            }
            self.evict_one();
        }
    }

    fn queues_are_empty(&self) -> bool {
        match &self.queues {
            Queues::S3Fifo { small, main, .. } => small.is_empty() && main.is_empty(),
            Queues::ThreeTables { tables, .. } => tables.iter().all(Vec::is_empty),
        }
    }

    /// Drops all ghosts: there is no room for as much as a row.
    fn forget(&mut self) {
        if let Queues::S3Fifo { ghosts, .. } = &mut self.queues {
            ghosts.clear();
        }
    }

    /// Whether numbers of removed rows are few: else removing and filling the same keys, which
    /// keeps the bytes low, would let the queues grow without end.
    fn queues_are_short(&self) -> bool {
        self.slots.len() - self.free.len() <= 2 * self.places.len() + 64
    }

    /// Takes one number off the small queue if that is above its share, else off the main one.
    fn evict_one(&mut self) {
        let Queues::S3Fifo {
            small,
            small_bytes,
            main,
            ghosts,
        } = &mut self.queues
        else {
            return;
        };
        let removed_small = small
            .front()
            .is_some_and(|&at| self.slots[at as usize].row.is_none());
        let take_small = *small_bytes > self.bytes_max / SMALL_SHARE || main.is_empty();
        if take_small || removed_small {
            let Some(at) = small.pop_front() else { return };
            let slot = &mut self.slots[at as usize];
            let Some(row) = &slot.row else {
                return self.unqueue(at);
            };
            ghosts.step();
            if slot.reads > 0 {
                slot.reads = 0;
                slot.queue = MAIN;
                *small_bytes -= row.bytes();
                main.push_back(at);
            } else {
                let place = slot.place;
                ghosts.push(place, self.places.len());
                self.remove(place);
                self.unqueue(at);
            }
            return;
        }
        for step in 0..EVICT_STEPS_MAX {
            let Some(at) = main.pop_front() else { return };
            let slot = &mut self.slots[at as usize];
            if slot.row.is_some() && slot.reads > 0 && step + 1 < EVICT_STEPS_MAX {
                slot.reads -= 1;
                main.push_back(at);
                continue;
            }
            let place = slot.place;
            if slot.row.is_some() {
                self.remove(place);
            }
            return self.unqueue(at);
        }
    }

    /// Starts a new first table, and drops the last, while the first is above its third.
    fn rotate_tables(&mut self) {
        loop {
            let Queues::ThreeTables {
                tables,
                head,
                head_bytes,
            } = &mut self.queues
            else {
                return;
            };
            // A table of removed rows only must not grow without end either.
            let long = tables[usize::from(*head)].len() > 2 * self.places.len() + 64;
            if *head_bytes <= self.bytes_max / 3 && self.bytes <= self.bytes_max && !long {
                return;
            }
            *head = (*head + 1) % 3;
            *head_bytes = 0;
            let last = *head;
            for at in std::mem::take(&mut tables[usize::from(last)]) {
                let slot = &self.slots[at as usize];
                let place = slot.place;
                // Rows that were read since are in a later table too, and stay.
                if slot.queue == last && slot.row.is_some() {
                    // Not by the head's count: the new first table is empty.
                    self.slots[at as usize].queue = u8::MAX;
                    self.remove(place);
                }
                self.unqueue(at);
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
    use super::*;
    use crate::sync::Arc;
    use crate::sync::atomic::AtomicBool;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use std::collections::BTreeMap;

    const POLICIES: [RowPolicy; 2] = [RowPolicy::S3Fifo, RowPolicy::ThreeTables];

    fn hash(key: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64(key)
    }

    impl Shard {
        fn check(&self) {
            let rows: Vec<_> = self
                .slots
                .iter()
                .filter(|slot| slot.row.is_some())
                .collect();
            assert_eq!(rows.len(), self.places.len());
            let bytes = |slot: &&RowSlot| slot.row.as_ref().map_or(0, Row::bytes);
            assert_eq!(rows.iter().map(bytes).sum::<usize>(), self.bytes);
            assert!(self.memory() <= self.bytes_max);
            let counted = |queue: u8| {
                let of_queue = rows.iter().filter(|slot| slot.queue == queue);
                of_queue.map(bytes).sum::<usize>()
            };
            let queued: usize = self.slots.iter().map(|slot| usize::from(slot.queued)).sum();
            match &self.queues {
                Queues::S3Fifo {
                    small,
                    small_bytes,
                    main,
                    ..
                } => {
                    assert_eq!(queued - self.free_queued(), small.len() + main.len());
                    assert_eq!(counted(SMALL), *small_bytes);
                }
                Queues::ThreeTables {
                    tables,
                    head,
                    head_bytes,
                } => {
                    assert_eq!(
                        queued - self.free_queued(),
                        tables.iter().map(Vec::len).sum::<usize>()
                    );
                    assert_eq!(counted(*head), *head_bytes);
                }
            }
        }

        fn free_queued(&self) -> usize {
            let queued = |&at: &u32| usize::from(self.slots[at as usize].queued);
            self.free.iter().map(queued).sum()
        }
    }

    proptest! {
        /// A row, if present, has the newest value; and the shard's books balance.
        #[test]
        fn agrees_with_a_map(
            policy in prop::sample::select(POLICIES.to_vec()),
            steps in prop::collection::vec((0u8..12, 0u32..2, 0u8..30, 0usize..200), 1..400),
        ) {
            let cache = RowCache::with_shards(4000, policy, 1);
            let mut model: BTreeMap<(u32, u8), Vec<u8>> = BTreeMap::new();
            for (step, keyspace, key, len) in steps {
                let name = [b'k', key % 20];
                // Some keys share a hash.
                let hashed = hash(&[key % 20 % 15]);
                let id = (keyspace, key % 20);
                match step {
                    0..5 => if let Some(value) = cache.get(keyspace, &name, hashed) {
                        prop_assert_eq!(Some(&value[..]), model.get(&id).map(|value| &value[..]));
                    },
                    5..9 => {
                        let value = model.entry(id).or_insert_with(|| vec![key; len]).clone();
                        if cache.insert_if(keyspace, &name, hashed, &value, || true) {
                            prop_assert!(cache.bytes() <= 4000);
                        }
                        let refused = cache.insert_if(keyspace, &name, hashed, b"other", || false);
                        prop_assert!(!refused);
                    }
                    9 => {
                        model.insert(id, vec![!key; len]);
                        cache.update_if_present(keyspace, &name, hashed, Some(&vec![!key; len]));
                    }
                    10 => {
                        model.remove(&id);
                        cache.update_if_present(keyspace, &name, hashed, None);
                        prop_assert!(cache.get(keyspace, &name, hashed).is_none());
                    }
                    _ => {
                        let room = if len < 20 { len } else { 1500 };
                        cache.set_capacity(room);
                        prop_assert!(cache.bytes() <= room);
                        prop_assert_eq!(cache.counts().bytes_max, room as u64);
                        cache.set_capacity(4000);
                    }
                }
                cache.shards[0].shard.lock().check();
            }
        }
    }

    #[test]
    fn a_row_is_found_until_it_is_removed() {
        for policy in POLICIES {
            let cache = RowCache::with_policy(1 << 20, policy);
            assert!(cache.insert_if(1, b"a", hash(b"a"), b"1", || true));
            assert!(
                !cache.insert_if(1, b"a", hash(b"a"), b"2", || true),
                "present"
            );
            assert_eq!(cache.get(1, b"a", hash(b"a")).as_deref(), Some(&b"1"[..]));
            assert_eq!(cache.get(2, b"a", hash(b"a")), None, "another keyspace");
            cache.update_if_present(1, b"a", hash(b"a"), Some(b"3"));
            assert_eq!(cache.get(1, b"a", hash(b"a")).as_deref(), Some(&b"3"[..]));
            cache.update_if_present(1, b"a", hash(b"a"), Some(&vec![0; 1 << 20]));
            assert_eq!(cache.get(1, b"a", hash(b"a")), None, "too large to keep");
            cache.update_if_present(1, b"b", hash(b"b"), Some(b"4"));
            assert_eq!((cache.len(), cache.bytes()), (0, 0));
            assert_eq!((cache.hits(), cache.misses()), (2, 2));
        }
    }

    #[test]
    fn a_busy_shard_is_a_miss() {
        let cache = RowCache::with_shards(10_000, RowPolicy::S3Fifo, 1);
        assert!(cache.insert_if(0, b"a", hash(b"a"), b"1", || true));
        let held = cache.shards[0].shard.lock();
        assert_eq!(cache.get(0, b"a", hash(b"a")), None);
        assert!(!cache.insert_if(0, b"b", hash(b"b"), b"1", || true));
        drop(held);
        assert_eq!((cache.len(), cache.misses()), (1, 1));
    }

    #[test]
    fn removing_and_filling_does_not_grow_the_queues() {
        for policy in POLICIES {
            let cache = RowCache::with_shards(1 << 20, policy, 1);
            for round in 0..20_000u32 {
                let key = (round % 3).to_le_bytes();
                cache.insert_if(0, &key, hash(&key), b"v", || true);
                cache.get(0, &key, hash(&key));
                cache.update_if_present(0, &key, hash(&key), None);
            }
            assert!(cache.shards[0].shard.lock().slots.len() < 500);
        }
    }

    /// Share of gets that hit, Zipf 0.99 over 100,000 keys with room for `share` of them; every
    /// tenth access, if `scans`, is of a key that never comes again.
    fn hit_rate(policy: RowPolicy, share: f64, scans: bool) -> f64 {
        const KEYS: usize = 100_000;
        let mut sums = Vec::with_capacity(KEYS);
        let mut sum = 0.0;
        for rank in 1..=KEYS {
            sum += (rank as f64).powf(-0.99);
            sums.push(sum);
        }
        let mut random = rand::rngs::StdRng::seed_from_u64(1);
        let room = (KEYS as f64 * share) as usize * row_bytes(&[0; 8], &[0; 100]);
        let cache = RowCache::with_policy(room, policy);
        let mut at_half = (0, 0);
        for access in 0..600_000u64 {
            if access == 300_000 {
                at_half = (cache.hits(), cache.misses());
            }
            let rank = if scans && access % 10 == 0 {
                access + KEYS as u64
            } else {
                let at = random.random_range(0.0..sum);
                sums.partition_point(|&below| below < at) as u64
            };
            let key = rank.to_le_bytes();
            if cache.get(0, &key, hash(&key)).is_none() {
                cache.insert_if(0, &key, hash(&key), &[0; 100], || true);
            }
        }
        let (hits, misses) = (cache.hits() - at_half.0, cache.misses() - at_half.1);
        hits as f64 / (hits + misses) as f64
    }

    #[test]
    fn hit_rates_on_zipf() {
        for (share, scans) in [(0.01, false), (0.05, false), (0.2, false), (0.05, true)] {
            let s3_fifo = hit_rate(RowPolicy::S3Fifo, share, scans);
            let three_tables = hit_rate(RowPolicy::ThreeTables, share, scans);
            println!("{share} {scans}: S3-FIFO {s3_fifo:.3}, three tables {three_tables:.3}");
            assert!(s3_fifo > three_tables + 0.01);
        }
    }

    /// L6 with threads: while a writer moves a key's value on (state first, then the row, as a
    /// checkpoint does) and readers fill from what they read before, no get that starts after a
    /// state was passed on finds an older row.
    #[test]
    fn rows_are_never_stale() {
        const ROUNDS: u64 = 20_000;
        for policy in POLICIES {
            // Tiny, so that rows are evicted and filled again all the time.
            let cache = Arc::new(RowCache::with_shards(4096, policy, 2));
            let funk: Arc<Vec<AtomicU64>> = Arc::new((0..8).map(|_| AtomicU64::new(0)).collect());
            let passed_on: Arc<Vec<AtomicU64>> =
                Arc::new((0..8).map(|_| AtomicU64::new(0)).collect());
            let done = Arc::new(AtomicBool::new(false));
            let readers = (0..3u64).map(|seed| {
                let (cache, funk, passed_on, done) = (
                    Arc::clone(&cache),
                    Arc::clone(&funk),
                    Arc::clone(&passed_on),
                    Arc::clone(&done),
                );
                crate::sync::thread::spawn(move || {
                    let mut found = 0u64;
                    let mut at = seed;
                    while !done.load(Ordering::Acquire) {
                        at = at
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(seed + 1);
                        let slot = (at >> 33) as usize % 8;
                        let key = [slot as u8];
                        let least = passed_on[slot].load(Ordering::Acquire);
                        if let Some(row) = cache.get(0, &key, hash(&key)) {
                            let row = u64::from_le_bytes(row[..8].try_into().expect("eight bytes"));
                            assert!(row >= least, "row {row} is older than {least}");
                            found += 1;
                            continue;
                        }
                        let read = funk[slot].load(Ordering::Acquire);
                        let value = [read.to_le_bytes(); 8].concat();
                        cache.insert_if(0, &key, hash(&key), &value, || {
                            funk[slot].load(Ordering::Acquire) == read
                        });
                    }
                    found
                })
            });
            let readers: Vec<_> = readers.collect();
            for round in 1..=ROUNDS {
                let slot = (round % 8) as usize;
                let key = [slot as u8];
                funk[slot].store(round, Ordering::Release);
                let value = [round.to_le_bytes(); 8].concat();
                let value = (round % 5 > 0).then_some(&value[..]);
                cache.update_if_present(0, &key, hash(&key), value);
                passed_on[slot].store(round, Ordering::Release);
            }
            done.store(true, Ordering::Release);
            for reader in readers {
                reader.join().expect("reader");
            }
        }
    }
}

/// L6: fill x checkpoint.
#[cfg(all(test, evendb_loom))]
mod loom_tests {
    use super::*;
    use crate::sync::{Arc, thread};

    /// The funk moves from 1 to 2, then the row is updated; a fill that read 1 or 2 runs beside.
    /// Afterwards the row, if there is one, is 2.
    #[test]
    fn loom_l6_a_fill_leaves_no_stale_row() {
        loom::model(|| {
            let cache = Arc::new(RowCache::with_shards(10_000, RowPolicy::S3Fifo, 1));
            let funk = Arc::new(AtomicU64::new(1));
            let fill = {
                let (cache, funk) = (Arc::clone(&cache), Arc::clone(&funk));
                thread::spawn(move || {
                    let read = funk.load(Ordering::Acquire);
                    cache.insert_if(0, b"k", 7, &[read as u8], || {
                        funk.load(Ordering::Acquire) == read
                    });
                })
            };
            funk.store(2, Ordering::Release);
            cache.update_if_present(0, b"k", 7, Some(&[2]));
            let row = cache.get(0, b"k", 7);
            assert!(
                row.is_none_or(|row| *row == [2]),
                "stale before the fill ended"
            );
            fill.join().expect("fill");
            let row = cache.get(0, b"k", 7);
            assert!(row.is_none_or(|row| *row == [2]), "stale");
        });
    }
}
