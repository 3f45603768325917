//! Random operations against an ordered map, with reopens, snapshots, batches, both directions and
//! tiny limits, so that splits, rebalances and merges happen all the time. `EVENDB_MODEL_SEEDS`
//! sets the number of seeds (default 16).

#[path = "../../storage/tests/knobs/mod.rs"]
mod knobs;
#[path = "common/layout.rs"]
mod layout;
mod merging;

use evendb::vfs::SimVfs;
use evendb::{Compression, Db, Durability, Keyspace, LogSearch, Options, Snapshot};
use knobs::{count_from_env, flag_from_env};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A time about a hundred years from now.
fn far() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(5_000_000_000)
}

/// Tiny limits; the other options differ from seed to seed, and must not matter.
fn options(vfs: &SimVfs, seed: u64, durability: Durability, workers: usize) -> Options {
    let mut random = StdRng::seed_from_u64(seed ^ 0x0971);
    let search = match random.random_range(0..3) {
        0 if random.random_bool(0.2) => LogSearch::bloom(),
        0 => LogSearch::Bloom {
            split_factor: random.random_range(1..17),
        },
        _ => LogSearch::Index,
    };
    let compression = match random.random_range(0..3) {
        0 => Compression::Lz4,
        _ => Compression::None,
    };
    layout::tiny_guards(layout::options())
        .compression(compression)
        .advanced(|advanced| {
            advanced
                .log_search(search)
                .filter_bits_per_key(random.random_range(0..2) * 10)
                .munks(random.random_range(0..4) != 0)
                .row_cache(random.random_range(0..4) != 0)
                .commit_log_mapped(random.random_bool(0.5))
                .commit_log_bytes(64 << 10)
                .chunk_bytes(*[512, 2048, 8192].choose(&mut random).expect("not empty"))
                .block_bytes(*[64, 256, 4096].choose(&mut random).expect("not empty"))
                .values_apart_from(
                    *[None, Some(20), Some(100)]
                        .choose(&mut random)
                        .expect("not empty"),
                )
                .value_file_bytes(4096)
                .value_file_live_percent(60)
        })
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(1 << 20)
        .durability(durability)
        .workers(workers)
}

fn key(random: &mut StdRng) -> Vec<u8> {
    let n: u32 = random.random_range(0..400);
    match random.random_range(0..10) {
        0 => format!("p{n:04}/suffix").into_bytes(),
        1 if n == 0 => Vec::new(),
        _ => format!("k{n:04}").into_bytes(),
    }
}

fn value(random: &mut StdRng) -> Vec<u8> {
    let len = match random.random_range(0..40) {
        0 => 0,
        1 => random.random_range(1000..12_000),
        _ => random.random_range(1..120),
    };
    let byte = random.random_range(0..=255);
    vec![byte; len]
}

fn same(actual: Vec<(Vec<u8>, Vec<u8>)>, expected: &[(&Vec<u8>, &Vec<u8>)], what: &str) {
    let actual: Vec<_> = actual.iter().map(|(key, value)| (key, value)).collect();
    for (a, b) in actual.iter().zip(expected) {
        assert!(
            a == b,
            "{what}: {:?} of {} bytes instead of {:?} of {} bytes",
            a.0.escape_ascii().to_string(),
            a.1.len(),
            b.0.escape_ascii().to_string(),
            b.1.len()
        );
    }
    assert_eq!(actual.len(), expected.len(), "{what}: number of records");
}

fn pairs(iter: evendb::Iter) -> Vec<(Vec<u8>, Vec<u8>)> {
    iter.map(|item| item.expect("no error"))
        .map(|(k, v)| (k.to_vec(), v.to_vec()))
        .collect()
}

/// The keyspaces of a database, in the order of their maps.
fn keyspaces(db: &Db) -> [Keyspace; 2] {
    ["default", "second"].map(|name| db.keyspace(name).expect("a keyspace"))
}

/// Opens the database, and its keyspaces with their operator.
fn open(vfs: &SimVfs, seed: u64, durability: Durability, workers: usize) -> Db {
    let db = options(vfs, seed, durability, workers)
        .open("/db")
        .expect("opens");
    let merging = merging::options(seed.is_multiple_of(2));
    if !db.keyspace_exists("second") {
        let default = db.default_keyspace();
        default.set_options(&merging).expect("sets the operator");
    }
    for name in ["default", "second"] {
        db.keyspace_with(name, &merging).expect("a keyspace");
    }
    db
}

fn operand(random: &mut StdRng) -> Vec<u8> {
    match random.random_range(0..30) {
        0 => merging::CLEAR.to_vec(),
        1 => vec![b'z'; random.random_range(0..300)],
        _ => {
            let number: u16 = random.random();
            format!("+{number}").into_bytes()
        }
    }
}

/// Merges an operand in a map.
fn merge(map: &mut Map, key: &[u8], operand: &[u8]) {
    match merging::merged(map.get(key).map(Vec::as_slice), operand) {
        Some(value) => drop(map.insert(key.to_vec(), value)),
        None => drop(map.remove(key)),
    }
}

fn check_all(db: &Db, maps: &[Map; 2], what: &str) {
    for (keyspace, map) in keyspaces(db).iter().zip(maps) {
        let what = format!("{what}, {}", keyspace.name());
        let expected: Vec<_> = map.iter().collect();
        same(pairs(keyspace.iter()), &expected, &what);
        let mut backward: Vec<_> = keyspace
            .iter()
            .rev()
            .map(|item| item.expect("no error"))
            .map(|(k, v)| (k.to_vec(), v.to_vec()))
            .collect();
        backward.reverse();
        same(backward, &expected, &format!("{what}, backwards"));
    }
}

/// One run: a database, its expected content, and snapshots with their expected contents.
struct Run {
    seed: u64,
    durability: Durability,
    workers: usize,
    vfs: SimVfs,
    random: StdRng,
    db: Db,
    maps: [Map; 2],
    snapshots: Vec<(Snapshot, [Map; 2])>,
}

impl Run {
    fn new(seed: u64, durability: Durability, workers: usize) -> Run {
        let vfs = SimVfs::new(seed);
        let db = open(&vfs, seed, durability, workers);
        Run {
            seed,
            durability,
            workers,
            vfs,
            random: StdRng::seed_from_u64(seed),
            db,
            maps: Default::default(),
            snapshots: Vec::new(),
        }
    }

    fn step(&mut self, what: &str) {
        let which = self.random.random_range(0..2);
        let keyspace = keyspaces(&self.db)[which].clone();
        match self.random.random_range(0..1000) {
            0..200 => {
                // Half of them go to few keys, so that many operands meet.
                let mut key = key(&mut self.random);
                if self.random.random_bool(0.5) {
                    key.truncate(2);
                }
                let operand = operand(&mut self.random);
                keyspace.merge(&key, &operand).expect("merges");
                merge(&mut self.maps[which], &key, &operand);
            }
            200..500 => {
                let (key, value) = (key(&mut self.random), value(&mut self.random));
                let put = match self.random.random_range(0..6) {
                    0 => keyspace.put_expiring_at(&key, &value, far()),
                    _ => keyspace.put(&key, &value),
                };
                put.expect("puts");
                self.maps[which].insert(key, value);
            }
            500..520 => self.pop(which, &keyspace, what),
            520..600 => {
                let key = key(&mut self.random);
                let deleted = match self.random.random_range(0..6) {
                    // An expired record equals a deleted one, and so does a record that a single
                    // delete removes beside an operator.
                    0 => keyspace.put_expiring_at(&key, "gone", SystemTime::UNIX_EPOCH),
                    1 => keyspace.single_delete(&key),
                    _ => keyspace.delete(&key),
                };
                deleted.expect("deletes");
                self.maps[which].remove(&key);
            }
            600..720 => {
                let key = key(&mut self.random);
                let got = keyspace
                    .get(&key)
                    .expect("gets")
                    .map(|value| value.to_vec());
                assert_eq!(got.as_ref(), self.maps[which].get(&key), "{what}: {key:?}");
            }
            720..750 => {
                let keys: Vec<Vec<u8>> = (0..10).map(|_| key(&mut self.random)).collect();
                for (key, got) in keys.iter().zip(keyspace.multi_get(&keys).expect("gets")) {
                    let got = got.map(|value| value.to_vec());
                    assert_eq!(got.as_ref(), self.maps[which].get(key), "{what}: {key:?}");
                }
            }
            750..800 => self.batch(),
            800..860 => self.range(which, &keyspace, what),
            860..900 => {
                if self.snapshots.len() > 3 {
                    let at = self.random.random_range(0..self.snapshots.len());
                    self.snapshots.remove(at);
                }
                let snapshot = self.db.snapshot().expect("a snapshot");
                self.snapshots.push((snapshot, self.maps.clone()));
            }
            900..940 => {
                if let Some((snapshot, then)) = self.snapshots.choose(&mut self.random) {
                    let key = key(&mut StdRng::seed_from_u64(self.random.random()));
                    let got = snapshot.get(&keyspace, &key).expect("gets");
                    let got = got.map(|value| value.to_vec());
                    assert_eq!(
                        got.as_ref(),
                        then[which].get(&key),
                        "{what}: snapshot {key:?}"
                    );
                    let expected: Vec<_> = then[which].iter().collect();
                    let seen = pairs(snapshot.iter(&keyspace));
                    same(seen, &expected, &format!("{what}: snapshot"));
                }
            }
            940..960 => self.db.flush().expect("a checkpoint"),
            960..970 => self.db.settle_debt().expect("settles"),
            970..973 => drop(self.db.idle_pass().expect("nothing fails")),
            973..985 => check_all(&self.db, &self.maps, what),
            985..988 => self.delete_range(which, &keyspace),
            988..991 => self.ingest(which, &keyspace),
            _ => {
                self.snapshots.clear();
                drop(keyspace);
                self.db.clone().close().expect("closes");
                self.db = open(&self.vfs, self.seed, self.durability, self.workers);
                check_all(&self.db, &self.maps, &format!("{what}: reopened"));
            }
        }
    }

    /// Takes the first or last record of all, or of those with a prefix.
    fn pop(&mut self, which: usize, keyspace: &Keyspace, what: &str) {
        let prefix = *["", "k", "k1", "p", "q"]
            .choose(&mut self.random)
            .expect("not empty");
        let map = &mut self.maps[which];
        let mut with_prefix = map
            .keys()
            .filter(|key| key.starts_with(prefix.as_bytes()))
            .cloned();
        let (popped, key) = match self.random.random_bool(0.5) {
            true => (keyspace.pop_first_prefix(prefix), with_prefix.next()),
            false => (keyspace.pop_last_prefix(prefix), with_prefix.next_back()),
        };
        let popped = popped.expect("pops");
        let popped = popped.map(|(key, value)| (key.to_vec(), value.to_vec()));
        let expected = key.and_then(|key| map.remove_entry(&key));
        assert!(popped == expected, "{what}: popped of {prefix:?}");
    }

    /// Deletes a range, or a prefix.
    fn delete_range(&mut self, which: usize, keyspace: &Keyspace) {
        let (a, b) = (key(&mut self.random), key(&mut self.random));
        let (low, high): (&[u8], &[u8]) = match self.random.random_range(0..8) {
            0 => (b"", &b),
            1 => (&a, b"z"),
            2 => (b"k01", b"k02"),
            _ => (&a, &b),
        };
        match self.random.random_range(0..4) {
            0 if low == b"k01" => keyspace.delete_prefix(low),
            _ => keyspace.delete_range(low..high),
        }
        .expect("deletes a range");
        let map = &mut self.maps[which];
        map.retain(|key, _| !(low <= &key[..] && &key[..] < high));
    }

    /// Ingests records among the others or beside them, or checks that an ingest refuses records
    /// that do not ascend.
    fn ingest(&mut self, which: usize, keyspace: &Keyspace) {
        let prefix = *["k", "k0", "kz", "p", "z"]
            .choose(&mut self.random)
            .expect("not empty");
        let first: u32 = self.random.random_range(0..400);
        let step = self.random.random_range(1..5);
        let numbers = (first..).step_by(step);
        let mut records: Vec<(Vec<u8>, Vec<u8>)> = numbers
            .take(self.random.random_range(0..300))
            .map(|n| {
                let key = format!("{prefix}{n:04}").into_bytes();
                (key, value(&mut self.random))
            })
            .collect();
        let all = |records: &[(Vec<u8>, Vec<u8>)]| {
            keyspace.ingest(records.iter().map(|(key, value)| (key, value)))
        };
        if records.len() > 1 && self.random.random_bool(0.2) {
            records.swap(0, 1);
            let error = all(&records).expect_err("not sorted");
            assert_eq!(error.kind(), evendb::ErrorKind::Unsorted, "{error}");
            return;
        }
        let summary = all(&records).expect("ingests");
        assert_eq!(summary.records, records.len() as u64);
        self.maps[which].extend(records);
    }

    fn batch(&mut self) {
        let spaces = keyspaces(&self.db);
        let mut batch = self.db.batch();
        for _ in 0..self.random.random_range(1..20) {
            let which = self.random.random_range(0..2);
            let key = key(&mut self.random);
            if self.random.random_range(0..40) == 0 {
                let high = [&key[..], b"5"].concat();
                batch.delete_range(&spaces[which], &key[..]..&high[..]);
                self.maps[which].retain(|own, _| !(key <= *own && *own < high));
            } else if self.random.random_range(0..3) == 0 {
                batch.delete(&spaces[which], &key);
                self.maps[which].remove(&key);
            } else if self.random.random_range(0..2) == 0 {
                let operand = operand(&mut self.random);
                batch.merge(&spaces[which], &key, &operand);
                merge(&mut self.maps[which], &key, &operand);
            } else {
                let value = value(&mut self.random);
                match self.random.random_range(0..6) {
                    0 => batch.put_expiring_at(&spaces[which], &key, &value, far()),
                    _ => batch.put(&spaces[which], &key, &value),
                };
                self.maps[which].insert(key, value);
            }
        }
        batch.commit().expect("commits");
    }

    fn range(&mut self, which: usize, keyspace: &Keyspace, what: &str) {
        let (a, b) = (key(&mut self.random), key(&mut self.random));
        let map = &self.maps[which];
        let expected: Vec<_> = if a <= b {
            map.range(a.clone()..b.clone()).collect()
        } else {
            Vec::new()
        };
        same(pairs(keyspace.range(&a[..]..&b[..])), &expected, what);
        let mut iter = keyspace.range(&a[..]..&b[..]);
        let (mut front, mut back) = (0, expected.len());
        loop {
            if self.random.random_range(0..20) == 0 {
                let to = key(&mut self.random);
                if self.random.random_bool(0.5) {
                    iter.seek(&to);
                    front = expected.partition_point(|(key, _)| **key < to);
                } else {
                    iter.seek_back(&to);
                    back = expected.partition_point(|(key, _)| **key <= to);
                }
            }
            let forward = self.random.random_bool(0.5);
            let item = if forward {
                iter.next()
            } else {
                iter.next_back()
            };
            let Some(item) = item else { break };
            let (key, value) = item.expect("no error");
            assert!(front < back, "{what}: more than there is");
            let at = if forward { front } else { back - 1 };
            assert_eq!(
                (&key[..], &value[..]),
                (&expected[at].0[..], &expected[at].1[..])
            );
            if forward { front += 1 } else { back -= 1 }
        }
        assert!(front >= back, "{what}: both ends meet");
    }
}

fn run(seed: u64, durability: Durability, workers: usize, steps: usize) {
    let mut run = Run::new(seed, durability, workers);
    // Finds the exact step after which something is wrong.
    let thorough = flag_from_env("EVENDB_THOROUGH");
    for step in 0..steps {
        let what = format!("seed {seed} step {step}");
        if thorough {
            check_all(&run.db, &run.maps, &format!("before {what}"));
        }
        run.step(&what);
    }
    check_all(&run.db, &run.maps, &format!("seed {seed} at the end"));
    assert!(
        run.db.stats().chunks > 2 || steps < 1000 || !layout::has_chunks(),
        "no split in {steps} steps"
    );
}

/// The number of seeds at process level without threads; the other configurations have three seeds
/// for eight of these.
fn seeds() -> u64 {
    count_from_env("EVENDB_MODEL_SEEDS", 16)
}

fn other_seeds(first: u64) -> Range<u64> {
    first..first + (seeds() * 3).div_ceil(8)
}

#[test]
fn manual_process() {
    for seed in 0..seeds() {
        run(seed, Durability::Process, 0, 3000);
    }
}

#[test]
fn manual_relaxed_and_sync() {
    for seed in other_seeds(20) {
        run(seed, Durability::Relaxed, 0, 3000);
        run(seed, Durability::Sync, 0, 3000);
    }
}

#[test]
fn with_threads() {
    for seed in other_seeds(30) {
        run(seed, Durability::Process, 1, 3000);
        run(seed, Durability::Sync, 2, 1500);
    }
}
