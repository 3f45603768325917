//! Random operations against an ordered map, with reopens, snapshots, batches, both directions and
//! tiny limits, so that splits, rebalances and merges happen all the time.

use evendb::vfs::SimVfs;
use evendb::{Db, Durability, Options, Snapshot};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(vfs: &SimVfs, durability: Durability, workers: usize) -> Options {
    Options::new()
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(1 << 20)
        .commit_log_bytes(64 << 10)
        .chunk_bytes(2048)
        .block_bytes(256)
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

fn check_all(db: &Db, map: &Map, what: &str) {
    let expected: Vec<_> = map.iter().collect();
    same(pairs(db.iter()), &expected, what);
    let mut backward: Vec<_> = db
        .iter()
        .rev()
        .map(|item| item.expect("no error"))
        .map(|(k, v)| (k.to_vec(), v.to_vec()))
        .collect();
    backward.reverse();
    same(backward, &expected, &format!("{what}, backwards"));
}

fn run(seed: u64, durability: Durability, workers: usize, steps: usize) {
    let mut random = StdRng::seed_from_u64(seed);
    let vfs = SimVfs::new(seed);
    let mut db = options(&vfs, durability, workers)
        .open("/db")
        .expect("opens");
    let mut map = Map::new();
    // Finds the very step after which something is wrong.
    let thorough = std::env::var_os("EVENDB_THOROUGH").is_some();
    let mut snapshots: Vec<(Snapshot, Map)> = Vec::new();
    for step in 0..steps {
        let what = format!("seed {seed} step {step}");
        if thorough {
            check_all(&db, &map, &format!("before {what}"));
        }
        let action = random.random_range(0..1000);
        if thorough {
            eprintln!("{what}: action {action}, {} chunks", db.stats().chunks);
        }
        match action {
            0..500 => {
                let (key, value) = (key(&mut random), value(&mut random));
                db.put(&key, &value).expect("puts");
                map.insert(key, value);
            }
            500..600 => {
                let key = key(&mut random);
                db.delete(&key).expect("deletes");
                map.remove(&key);
            }
            600..750 => {
                let key = key(&mut random);
                let got = db.get(&key).expect("gets").map(|value| value.to_vec());
                assert_eq!(got.as_ref(), map.get(&key), "{what}: {key:?}");
            }
            750..800 => {
                let mut batch = db.batch();
                for _ in 0..random.random_range(1..20) {
                    let key = key(&mut random);
                    if random.random_range(0..3) == 0 {
                        batch.delete(db.default_keyspace(), &key);
                        map.remove(&key);
                    } else {
                        let value = value(&mut random);
                        batch.put(db.default_keyspace(), &key, &value);
                        map.insert(key, value);
                    }
                }
                batch.commit().expect("commits");
            }
            800..860 => {
                let (a, b) = (key(&mut random), key(&mut random));
                let expected: Vec<_> = if a <= b {
                    map.range(a.clone()..b.clone()).collect()
                } else {
                    Vec::new()
                };
                same(pairs(db.range(&a[..]..&b[..])), &expected, &what);
                let mut iter = db.range(&a[..]..&b[..]);
                let mut ends = Vec::new();
                let (mut front, mut back) = (0, expected.len());
                loop {
                    let forward = random.random_bool(0.5);
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
                    if forward {
                        front += 1
                    } else {
                        back -= 1
                    }
                    ends.push(at);
                }
                assert_eq!(ends.len(), expected.len(), "{what}: both ends");
            }
            860..900 => {
                if snapshots.len() > 3 {
                    snapshots.remove(random.random_range(0..snapshots.len()));
                }
                snapshots.push((db.snapshot().expect("a snapshot"), map.clone()));
            }
            900..940 => {
                if let Some((snapshot, then)) = snapshots.last() {
                    let keyspace = db.default_keyspace();
                    let key = key(&mut random);
                    let got = snapshot.get(keyspace, &key).expect("gets");
                    let got = got.map(|value| value.to_vec());
                    assert_eq!(got.as_ref(), then.get(&key), "{what}: snapshot {key:?}");
                    let expected: Vec<_> = then.iter().collect();
                    same(
                        pairs(snapshot.iter(keyspace)),
                        &expected,
                        &format!("{what}: snapshot"),
                    );
                }
            }
            940..960 => db.checkpoint().expect("a checkpoint"),
            960..975 => db.settle_debt().expect("settles"),
            975..990 => check_all(&db, &map, &what),
            _ => {
                snapshots.clear();
                db.close().expect("closes");
                db = options(&vfs, durability, workers)
                    .open("/db")
                    .expect("reopens");
                check_all(&db, &map, &format!("{what}: reopened"));
            }
        }
    }
    check_all(&db, &map, &format!("seed {seed} at the end"));
    let stats = db.stats();
    assert!(
        stats.chunks > 1 || steps < 1000,
        "no split in {steps} steps"
    );
}

#[test]
fn manual_process() {
    for seed in 0..6 {
        run(seed, Durability::Process, 0, 3000);
    }
}

#[test]
fn manual_relaxed_and_sync() {
    for seed in 10..13 {
        run(seed, Durability::Relaxed, 0, 3000);
        run(seed, Durability::Sync, 0, 3000);
    }
}

#[test]
fn with_threads() {
    for seed in 20..23 {
        run(seed, Durability::Process, 1, 3000);
        run(seed, Durability::Sync, 2, 1500);
    }
}
