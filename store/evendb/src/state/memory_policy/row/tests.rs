//! Both policies: the newest value or none, books that balance, hit rates, and fills beside
//! updates.

use super::rows::{Row, RowSlot};
use super::s3_fifo::SMALL;
use super::shard::Queues;
use super::*;
use crate::sync::Arc;
use crate::sync::atomic::AtomicBool;
use evendb_storage::key_hash::RamHash;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

const POLICIES: [RowPolicy; 2] = [RowPolicy::S3Fifo, RowPolicy::ThreeTables];

fn hash(key: &[u8]) -> RamHash {
    RamHash::of_bits(xxhash_rust::xxh3::xxh3_64(key))
}

impl Shard {
    fn check(&self) {
        let rows: Vec<_> = self
            .rows
            .slots
            .iter()
            .filter(|slot| slot.row.is_some())
            .collect();
        assert_eq!(rows.len(), self.rows.places.len());
        let bytes = |slot: &&RowSlot| slot.row.as_ref().map_or(0, Row::bytes);
        assert_eq!(rows.iter().map(bytes).sum::<usize>(), self.rows.bytes);
        assert!(self.memory() <= self.bytes_max);
        let counted = |queue: u8| {
            let of_queue = rows.iter().filter(|slot| slot.queue == queue);
            of_queue.map(bytes).sum::<usize>()
        };
        let all = self.rows.slots.iter();
        let queued: usize = all.map(|slot| usize::from(slot.queued)).sum();
        let queued = queued - self.free_queued();
        match &self.queues {
            Queues::S3Fifo(fifo) => {
                assert_eq!(queued, fifo.small.len() + fifo.main.len());
                assert_eq!(counted(SMALL), fifo.small_bytes);
            }
            Queues::ThreeTables(three) => {
                assert_eq!(queued, three.tables.iter().map(Vec::len).sum::<usize>());
                assert_eq!(counted(three.head), three.head_bytes);
            }
        }
    }

    fn free_queued(&self) -> usize {
        let queued = |&at: &u32| usize::from(self.rows.slots[at as usize].queued);
        self.rows.free.iter().map(queued).sum()
    }
}

/// Remaining rows keep their values wherever they are copied, and are found in the same order of
/// eviction.
#[test]
#[cfg_attr(
    any(miri, feature = "general-allocator"),
    ignore = "the general allocator has no slabs"
)]
fn rows_that_move_together_stay_as_they_are() {
    // A size that no other test uses.
    let value = |number: u32| vec![number as u8; 2900];
    for policy in POLICIES {
        let cache = RowCache::with_shards(64 << 20, policy, 4);
        let key = |number: u32| number.to_le_bytes();
        for number in 0..4000 {
            assert!(cache.insert_if(0, &key(number), hash(&key(number)), &value(number), || true));
        }
        let kept: Vec<u32> = (0..4000).filter(|number| number % 5 == 0).collect();
        let held = cache.get(0, &key(kept[7]), hash(&key(kept[7]))).unwrap();
        for number in (0..4000).filter(|number| number % 5 != 0) {
            cache.update_if_present(0, &key(number), hash(&key(number)), None);
        }
        let bytes = cache.bytes();
        let mut at = Compaction::default();
        let mut passes = |rows_max: usize| {
            loop {
                if let Some(moved) = cache.compact(&mut at, rows_max) {
                    return moved;
                }
            }
        };
        assert!(passes(100) > 600);
        assert!(passes(1) < 100, "once is enough");
        assert_eq!((cache.bytes(), cache.len()), (bytes, kept.len()));
        for number in kept {
            let row = cache.get(0, &key(number), hash(&key(number)));
            assert_eq!(row.unwrap(), value(number));
        }
        assert_eq!(held, value(35), "what readers hold stays");
        cache
            .shards
            .iter()
            .for_each(|lane| lane.shard.lock().check());
        cache.set_capacity(0);
        assert_eq!(cache.len(), 0);
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
        assert!(cache.shards[0].shard.lock().rows.slots.len() < 500);
    }
}

/// The share of gets that hit, Zipf 0.99 over 100,000 keys with room for `share` of them. With
/// `scans`, every tenth access is of a key that never comes again.
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

/// L6 with threads: a writer moves a key's value on (state first, then the row, as a checkpoint
/// does), and readers fill from what they read before. No get that starts after a state was passed
/// on finds an older row.
#[test]
fn rows_are_never_stale() {
    const ROUNDS: u64 = 20_000;
    for policy in POLICIES {
        // Tiny, so that rows are evicted and filled again all the time.
        let cache = Arc::new(RowCache::with_shards(4096, policy, 2));
        let funk: Arc<Vec<AtomicU64>> = Arc::new((0..8).map(|_| AtomicU64::new(0)).collect());
        let passed_on: Arc<Vec<AtomicU64>> = Arc::new((0..8).map(|_| AtomicU64::new(0)).collect());
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
