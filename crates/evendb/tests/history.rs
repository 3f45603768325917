//! Real threads, real schedules: gets, puts, deletes, range deletions, batches, scans, multi-gets and snapshots of four
//! threads are recorded, and each history is checked to be linearizable, all kinds together.
//!
//! A key has one writing thread, so its versions are known and numbered (`common/linearizable.rs`). Threads own blocks of
//! neighbouring keys, longer than some chunks: a range deletion within a block writes the next version of each of its keys.

mod common;

use common::count_from_env;
use common::linearizable::{ABSENT, Op, Watch, check};
use evendb::vfs::SimVfs;
use evendb::{Advanced, Db, Durability, LogSearch, Options};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;
use std::sync::Arc;

const THREADS: u32 = 4;
/// Neighbouring keys that one thread writes.
const BLOCK: u32 = 40;
const KEYS: u32 = 75 * BLOCK * THREADS;

fn key(number: u32) -> [u8; 6] {
    let digits = format!("{number:06}");
    digits.as_bytes().try_into().expect("six digits")
}

fn number(key: &[u8]) -> u32 {
    std::str::from_utf8(key)
        .expect("digits")
        .parse()
        .expect("a number")
}

fn version(value: Option<&[u8]>) -> u32 {
    value.map_or(ABSENT, |value| {
        u32::from_le_bytes(value[..4].try_into().expect("four bytes"))
    })
}

/// One thread of a run.
struct Client {
    db: Db,
    watch: Arc<Watch>,
    own: u32,
    random: StdRng,
    /// Versions of its own keys.
    versions: HashMap<u32, u32>,
    ops: Vec<Op>,
}

impl Client {
    fn any_key(&mut self) -> u32 {
        // Half of all in a tenth of the keys, which moves on.
        let hot = KEYS / 10;
        match self.random.random_bool(0.5) {
            true => (self.ops.len() as u32 / 4000 * hot + self.random.random_range(0..hot)) % KEYS,
            false => self.random.random_range(0..KEYS),
        }
    }

    fn own_key(&mut self) -> u32 {
        let key = self.any_key();
        let turn = BLOCK * THREADS;
        key - key % turn + self.own * BLOCK + key % BLOCK
    }

    fn value(&mut self, version: u32) -> Vec<u8> {
        let mut value = version.to_le_bytes().to_vec();
        let len = match self.random.random_range(0..200) {
            0 => 3000,
            _ => self.random.random_range(0..200),
        };
        value.resize(4 + len, version as u8);
        value
    }

    fn write(&mut self) {
        let count = match self.random.random_range(0..8) {
            0 => self.random.random_range(2..8),
            _ => 1,
        };
        let mut keys: Vec<u32> = (0..count).map(|_| self.own_key()).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut op = Op::default();
        let mut batch = self.db.batch();
        let keyspace = self.db.default_keyspace().clone();
        let mut single = None;
        for key_number in keys {
            let version = self.versions.entry(key_number).or_insert(0);
            *version += 1;
            let version = *version;
            let deleted = self.random.random_range(0..8) == 0;
            op.writes.push((key_number, version, deleted));
            let value = (!deleted).then(|| self.value(version));
            match &value {
                Some(value) => batch.put(&keyspace, key(key_number), value),
                None => batch.delete(&keyspace, key(key_number)),
            };
            single = Some((key(key_number), value));
        }
        op.begin = self.watch.now();
        match (single, op.writes.len()) {
            (Some((key, Some(value))), 1) => keyspace.put(key, value).expect("puts"),
            (Some((key, None)), 1) => keyspace.delete(key).expect("deletes"),
            _ => batch.commit().expect("commits"),
        }
        op.end = self.watch.now();
        self.ops.push(op);
    }

    /// Deletes own keys by a range; in every third case by a batch, which puts one of them again.
    fn delete_range(&mut self) {
        let low = self.own_key();
        let block_end = low - low % BLOCK + BLOCK;
        let high = (low + self.random.random_range(1..=BLOCK)).min(block_end);
        let again = (self.random.random_range(0..3) == 0)
            .then(|| (self.random.random_range(low..high), self.value(0)));
        let mut op = Op::default();
        for key_number in low..high {
            let version = self.versions.entry(key_number).or_insert(0);
            *version += 1;
            let deleted = again.as_ref().is_none_or(|(put, _)| *put != key_number);
            op.writes.push((key_number, *version, deleted));
        }
        let keyspace = self.db.default_keyspace().clone();
        let range = key(low)..key(high);
        let mut batch = self.db.batch();
        op.begin = self.watch.now();
        match again {
            None => keyspace.delete_range(range).expect("deletes"),
            Some((put, mut value)) => {
                value[..4].copy_from_slice(&self.versions[&put].to_le_bytes());
                batch.delete_range(&keyspace, range);
                batch.put(&keyspace, key(put), value);
                batch.commit().expect("commits");
            }
        }
        op.end = self.watch.now();
        self.ops.push(op);
    }

    fn get(&mut self) {
        let wanted = self.any_key();
        let begin = self.watch.now();
        let value = self.db.get(key(wanted)).expect("gets");
        let end = self.watch.now();
        let reads = vec![(wanted, version(value.as_deref()))];
        self.ops.push(Op {
            begin,
            end,
            reads,
            writes: Vec::new(),
        });
    }

    fn multi_get(&mut self) {
        let wanted: Vec<u32> = (0..4).map(|_| self.any_key()).collect();
        let keys: Vec<_> = wanted.iter().map(|&wanted| key(wanted)).collect();
        let begin = self.watch.now();
        let values = self.db.multi_get(&keys).expect("gets");
        let end = self.watch.now();
        let values = values.iter().map(|value| version(value.as_deref()));
        let reads = wanted.into_iter().zip(values).collect();
        self.ops.push(Op {
            begin,
            end,
            reads,
            writes: Vec::new(),
        });
    }

    /// A range from both ends, at once or of a snapshot that is read twice.
    fn scan(&mut self) {
        let low = self.any_key();
        let high = (low + self.random.random_range(1..60)).min(KEYS);
        let keyspace = self.db.default_keyspace().clone();
        let begin = self.watch.now();
        let (snapshot, iter, end) = match self.random.random_bool(0.3) {
            true => {
                let snapshot = self.db.snapshot().expect("a snapshot");
                let end = self.watch.now();
                let iter = snapshot.range(&keyspace, key(low)..key(high));
                (Some(snapshot), iter, Some(end))
            }
            false => (None, self.db.range(key(low)..key(high)), None),
        };
        let reads = self.drain(iter, low..high);
        let end = end.unwrap_or_else(|| self.watch.now());
        if let Some(snapshot) = snapshot {
            let iter = snapshot.range(&keyspace, key(low)..key(high));
            assert_eq!(self.drain(iter, low..high), reads, "a snapshot changed");
            let (wanted, seen) = reads[0];
            let value = snapshot.get(&keyspace, key(wanted)).expect("gets");
            assert_eq!(
                version(value.as_deref()),
                seen,
                "get and scan of a snapshot"
            );
        }
        self.ops.push(Op {
            begin,
            end,
            reads,
            writes: Vec::new(),
        });
    }

    /// All of an iterator, in key order, with the keys that are absent.
    fn drain(&mut self, mut iter: evendb::Iter, keys: std::ops::Range<u32>) -> Vec<(u32, u32)> {
        let mut reads: Vec<(u32, u32)> = keys.clone().map(|key| (key, ABSENT)).collect();
        let backwards = self.random.random_range(0.0..1.0);
        let (mut front, mut back) = (None, None);
        loop {
            let from_back = self.random.random_bool(backwards);
            let Some(item) = (if from_back {
                iter.next_back()
            } else {
                iter.next()
            }) else {
                break;
            };
            let (key, value) = item.expect("no error");
            let key = number(&key);
            assert!(keys.contains(&key), "outside of the range");
            assert!(front.is_none_or(|front| key > front) && back.is_none_or(|back| key < back));
            match from_back {
                true => back = Some(key),
                false => front = Some(key),
            }
            reads[(key - keys.start) as usize].1 = version(Some(&value));
        }
        reads
    }

    fn run(mut self, count: usize) -> Vec<Op> {
        for _ in 0..count {
            match self.random.random_range(0..100) {
                0..55 => self.get(),
                55..93 => self.write(),
                93 => self.delete_range(),
                94..97 => self.multi_get(),
                _ => self.scan(),
            }
        }
        self.ops
    }
}

/// Runs the clients; checks what they and a last scan saw.
fn run(seed: u64, operations: usize, tune: impl FnOnce(Options) -> Options) -> evendb::Stats {
    let vfs = SimVfs::new(seed);
    let options = Options::new()
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(1 << 20)
        .advanced(|advanced| {
            advanced
                .commit_log_bytes(64 << 10)
                .chunk_bytes(8 << 10)
                .block_bytes(512)
        });
    let options = tune(options);
    let db = options.clone().open("/db").expect("opens");
    let watch = Arc::new(Watch::default());
    let clients = (0..THREADS).map(|own| Client {
        db: db.clone(),
        watch: watch.clone(),
        own,
        random: StdRng::seed_from_u64(seed * 100 + u64::from(own)),
        versions: HashMap::new(),
        ops: Vec::new(),
    });
    let threads: Vec<_> = clients
        .map(|client| std::thread::spawn(move || client.run(operations / THREADS as usize)))
        .collect();
    let mut ops: Vec<Op> = Vec::new();
    for thread in threads {
        ops.extend(thread.join().expect("no client fails"));
    }
    let stats = db.stats();
    let mut last = |db: &Db| {
        let begin = watch.now();
        let mut reads: Vec<(u32, u32)> = (0..KEYS).map(|key| (key, ABSENT)).collect();
        for item in db.iter() {
            let (key, value) = item.expect("no error");
            reads[number(&key) as usize].1 = version(Some(&value));
        }
        let end = watch.now();
        ops.push(Op {
            begin,
            end,
            reads,
            writes: Vec::new(),
        });
    };
    last(&db);
    db.close().expect("closes");
    // The same once more from the disk.
    last(&options.open("/db").expect("reopens"));
    if let Err(what) = check(&ops) {
        panic!("seed {seed}: {what}");
    }
    stats
}

/// Values lie apart, in files that go again soon.
fn apart(advanced: Advanced) -> Advanced {
    let advanced = advanced.values_apart_from(Some(20));
    advanced
        .value_file_bytes(16 << 10)
        .value_file_live_percent(60)
}

/// The five runs of the test, each of four threads.
const RUNS: u64 = 5;

#[test]
fn histories_are_linearizable() {
    let operations = count_from_env("EVENDB_HISTORY_OPERATIONS", 1_000_000);
    // Each thread does as many of a run.
    let part = operations.next_multiple_of(RUNS * u64::from(THREADS)) as usize / RUNS as usize;
    let mut all = Vec::new();
    all.push(run(1, part, |options| options));
    all.push(run(2, part, |options| {
        options
            .workers(2)
            .advanced(|advanced| apart(advanced.commit_log_mapped(false)))
    }));
    all.push(run(3, part, |options| {
        options.durability(Durability::Relaxed)
    }));
    all.push(run(4, part, |options| {
        options.advanced(|advanced| {
            advanced
                .munks(false)
                .log_search(LogSearch::Bloom { split_factor: 4 })
        })
    }));
    all.push(run(5, part, |options| {
        options.workers(2).memory_budget(3 << 20).advanced(apart)
    }));
    let sum = |count: fn(&evendb::Stats) -> u64| all.iter().map(count).sum::<u64>();
    // With how many operations it must have been seen: what comes of data beyond memory only in longer
    // histories.
    let seen = [
        ("splits", 20_000, sum(|stats| stats.splits)),
        ("rebalances", 20_000, sum(|stats| stats.rebalances)),
        ("checkpoints", 20_000, sum(|stats| stats.checkpoints)),
        ("rows", 20_000, sum(|stats| stats.gets.row_cache)),
        ("range deletions", 20_000, sum(|stats| stats.range_deletes)),
        ("loads", 200_000, sum(|stats| stats.munk_loads)),
        ("absorbs", 200_000, sum(|stats| stats.munk_rebalances)),
        ("evictions", 200_000, sum(|stats| stats.munk_evictions)),
    ];
    for (what, with, count) in seen {
        assert!(count > 0 || operations < with, "no {what}: {seen:?}");
        if count == 0 {
            println!("{operations} operations are too few to have seen {what}");
        }
    }
}

/// An operation of a written history.
fn op(begin: u32, end: u32, reads: &[(u32, u32)], writes: &[(u32, u32)]) -> Op {
    let writes = writes.iter().map(|&(key, version)| (key, version, false));
    Op {
        begin,
        end,
        reads: reads.to_vec(),
        writes: writes.collect(),
    }
}

#[test]
fn the_checker_accepts_what_has_a_moment() {
    // A get beside a put may see it or not; a scan beside two puts may see the one or the other.
    let concurrent = [
        op(0, 5, &[], &[(1, 1)]),
        op(1, 2, &[(1, 1)], &[]),
        op(3, 4, &[(1, 1), (2, ABSENT)], &[]),
        op(6, 7, &[], &[(2, 1), (1, 2)]),
        op(8, 9, &[(1, 2), (2, 1)], &[]),
    ];
    assert_eq!(check(&concurrent), Ok(()));
}

#[test]
fn the_checker_refuses_what_has_none() {
    let stale = [
        op(0, 1, &[], &[(1, 1)]),
        op(2, 3, &[], &[(1, 2)]),
        op(4, 5, &[(1, 1)], &[]),
    ];
    let backwards = [
        op(0, 1, &[], &[(1, 1)]),
        op(2, 7, &[], &[(1, 2)]),
        op(3, 4, &[(1, 2)], &[]),
        op(5, 6, &[(1, 1)], &[]),
    ];
    let half_a_batch = [
        op(0, 1, &[], &[(1, 1), (2, 1)]),
        op(2, 5, &[], &[(1, 2), (2, 2)]),
        op(3, 4, &[(1, 2), (2, 1)], &[]),
    ];
    // Two scans that see two puts in different orders.
    let long_fork = [
        op(0, 6, &[], &[(1, 1)]),
        op(1, 7, &[], &[(2, 1)]),
        op(2, 3, &[(1, 1), (2, ABSENT)], &[]),
        op(4, 5, &[(1, ABSENT), (2, 1)], &[]),
    ];
    // A put stalls; a younger put returns; a get misses the first, a scan begun earlier has it
    // without the second.
    let out_of_order = [
        op(0, 9, &[], &[(1, 1)]),
        op(1, 8, &[(1, 1), (2, ABSENT)], &[]),
        op(2, 3, &[], &[(2, 1)]),
        op(4, 5, &[(1, ABSENT)], &[]),
        op(6, 7, &[(2, 1)], &[]),
    ];
    let lost = [op(0, 1, &[], &[(1, 1)]), op(2, 3, &[(1, ABSENT)], &[])];
    let invented = [op(0, 1, &[(1, 7)], &[])];
    for history in [
        &stale[..],
        &backwards,
        &half_a_batch,
        &long_fork,
        &out_of_order,
        &lost,
        &invented,
    ] {
        assert!(check(history).is_err(), "{history:#?}");
    }
}
