//! Real threads, real schedules: gets, puts, deletes, batches, scans in both directions, multi-gets and snapshots of four threads are
//! recorded, and each history is checked to be linearizable, all kinds together, by the checker of the first engine's tests.
//!
//! `EVENDB_FLSM_HISTORY_OPERATIONS` sets how many operations there are (default 30,000).

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::linearizable::{ABSENT, Op, Watch, check};
use common::{DIR, Random, count_from_env, tiny_on};
use evendb_flsm::vfs::SimVfs;
use evendb_flsm::{Db, Durability, Iter, Options, Stats};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

const THREADS: u32 = 4;
/// Neighbouring keys that one thread writes.
const BLOCK: u32 = 10;
const KEYS: u32 = 60 * BLOCK * THREADS;

fn key(number: u32) -> [u8; 6] {
    format!("{number:06}").as_bytes().try_into().unwrap()
}

fn number(key: &[u8]) -> u32 {
    std::str::from_utf8(key).unwrap().parse().unwrap()
}

fn version(value: Option<&[u8]>) -> u32 {
    value.map_or(ABSENT, |value| {
        u32::from_le_bytes(value[..4].try_into().unwrap())
    })
}

/// One thread of a run.
struct Client {
    db: Db,
    watch: Arc<Watch>,
    own: u32,
    random: Random,
    /// Versions of its own keys.
    versions: HashMap<u32, u32>,
    ops: Vec<Op>,
}

impl Client {
    /// Half of all in a tenth of the keys, which moves on.
    fn any_key(&mut self) -> u32 {
        let hot = KEYS / 10;
        match self.random.one_in(2) {
            true => {
                let moved = self.ops.len() as u32 / 4000 * hot;
                (moved + self.random.below(hot.into()) as u32) % KEYS
            }
            false => self.random.below(KEYS.into()) as u32,
        }
    }

    fn own_key(&mut self) -> u32 {
        let key = self.any_key();
        let turn = BLOCK * THREADS;
        key - key % turn + self.own * BLOCK + key % BLOCK
    }

    fn value(&mut self, version: u32) -> Vec<u8> {
        let mut value = version.to_le_bytes().to_vec();
        let len = match self.random.one_in(200) {
            true => 3000,
            false => self.random.below(120),
        };
        value.resize(4 + len as usize, version as u8);
        value
    }

    /// A put, a delete, or a batch of both.
    fn write(&mut self) {
        let count = match self.random.one_in(8) {
            true => 2 + self.random.below(6),
            false => 1,
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
            let deleted = self.random.one_in(8);
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
            (Some((key, Some(value))), 1) => keyspace.put(key, value).unwrap(),
            (Some((key, None)), 1) => keyspace.delete(key).unwrap(),
            _ => batch.commit().unwrap(),
        }
        op.end = self.watch.now();
        self.ops.push(op);
    }

    fn read(&mut self, begin: u32, end: u32, reads: Vec<(u32, u32)>) {
        self.ops.push(Op {
            begin,
            end,
            reads,
            writes: Vec::new(),
        });
    }

    fn get(&mut self) {
        let wanted = self.any_key();
        let begin = self.watch.now();
        let value = self.db.get(key(wanted)).unwrap();
        let end = self.watch.now();
        self.read(begin, end, vec![(wanted, version(value.as_deref()))]);
    }

    fn multi_get(&mut self) {
        let wanted: Vec<u32> = (0..4).map(|_| self.any_key()).collect();
        let keys: Vec<_> = wanted.iter().map(|&wanted| key(wanted)).collect();
        let begin = self.watch.now();
        let values = self.db.multi_get(&keys).unwrap();
        let end = self.watch.now();
        let values = values.iter().map(|value| version(value.as_deref()));
        self.read(begin, end, wanted.into_iter().zip(values).collect());
    }

    /// A range from both ends, at once or of a snapshot that is read twice.
    fn scan(&mut self) {
        let low = self.any_key();
        let high = (low + 1 + self.random.below(60) as u32).min(KEYS);
        let keyspace = self.db.default_keyspace().clone();
        let begin = self.watch.now();
        let (snapshot, iter, end) = match self.random.one_in(3) {
            true => {
                let snapshot = self.db.snapshot().unwrap();
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
            let value = snapshot.get(&keyspace, key(wanted)).unwrap();
            assert_eq!(version(value.as_deref()), seen, "get and scan of one");
        }
        self.read(begin, end, reads);
    }

    /// All of an iterator, in key order, with the keys that are absent.
    fn drain(&mut self, mut iter: Iter, keys: Range<u32>) -> Vec<(u32, u32)> {
        let mut reads: Vec<(u32, u32)> = keys.clone().map(|key| (key, ABSENT)).collect();
        let backwards = self.random.below(5);
        let (mut front, mut back) = (None, None);
        loop {
            let from_back = self.random.below(4) < backwards;
            let item = match from_back {
                true => iter.next_back(),
                false => iter.next(),
            };
            let Some(item) = item else { break };
            let (key, value) = item.unwrap();
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

    fn run(mut self, count: u64) -> Vec<Op> {
        for _ in 0..count {
            match self.random.below(100) {
                0..50 => self.get(),
                50..93 => self.write(),
                93..96 => self.multi_get(),
                _ => self.scan(),
            }
        }
        self.ops
    }
}

/// All that there is, as one read.
fn last(db: &Db, watch: &Watch) -> Op {
    let begin = watch.now();
    let mut reads: Vec<(u32, u32)> = (0..KEYS).map(|key| (key, ABSENT)).collect();
    for item in db.iter() {
        let (key, value) = item.unwrap();
        reads[number(&key) as usize].1 = version(Some(&value));
    }
    Op {
        begin,
        end: watch.now(),
        reads,
        writes: Vec::new(),
    }
}

/// Runs the clients; checks what they and two last scans saw.
fn run(seed: u64, operations: u64, options: Options) -> Stats {
    let db = options.clone().open(DIR).unwrap();
    let watch = Arc::new(Watch::default());
    let clients = (0..THREADS).map(|own| Client {
        db: db.clone(),
        watch: watch.clone(),
        own,
        random: Random(seed * 100 + u64::from(own)),
        versions: HashMap::new(),
        ops: Vec::new(),
    });
    let part = operations.div_ceil(THREADS.into());
    let threads: Vec<_> = clients
        .map(|client| std::thread::spawn(move || client.run(part)))
        .collect();
    let mut ops: Vec<Op> = Vec::new();
    for thread in threads {
        ops.extend(thread.join().unwrap());
    }
    let stats = db.stats();
    ops.push(last(&db, &watch));
    db.close().unwrap();
    // The same once more from the disk.
    ops.push(last(&options.open(DIR).unwrap(), &watch));
    if let Err(what) = check(&ops) {
        panic!("seed {seed}: {what}");
    }
    stats
}

#[test]
fn histories_are_linearizable() {
    const RUNS: u64 = 6;
    let operations = count_from_env("EVENDB_FLSM_HISTORY_OPERATIONS", 30_000);
    let (mut flushes, mut compactions, mut deep) = (0, 0, 0);
    for seed in 1..=RUNS {
        let level = match seed {
            2 => Durability::Relaxed,
            3 => Durability::Sync,
            _ => Durability::Process,
        };
        let vfs = SimVfs::new(seed);
        let stats = run(seed, operations.div_ceil(RUNS), tiny_on(&vfs, level, seed));
        flushes += stats.flushes;
        compactions += stats.compactions;
        deep += stats.tables[1..].iter().sum::<u64>();
    }
    println!("{flushes} flushes, {compactions} compactions, {deep} tables below level 0");
    if operations >= 20_000 {
        assert!(flushes > 20 && compactions > 10 && deep > 10);
    }
}
