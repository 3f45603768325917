//! Threads beside each other: records that are written together are seen together, by every kind of
//! read, while generations are flushed and guards compacted.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::{DIR, LEVELS, Random, count_from_env, tiny_on};
use evendb_flsm::vfs::SimVfs;
use evendb_flsm::{Db, Durability, Keyspace};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// The number of keys of a writer, over two keyspaces.
const KEYS: usize = 8;
const WRITERS: usize = 3;

fn key(writer: usize, at: usize) -> Vec<u8> {
    format!("{at}/{writer}").into_bytes()
}

fn stamp(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

fn value(random: &mut Random, stamp: u64) -> Vec<u8> {
    let mut value = stamp.to_le_bytes().to_vec();
    value.resize(8 + random.below(200) as usize, 7);
    value
}

struct Bank {
    db: Db,
    halves: [Keyspace; 2],
    /// The last acknowledged stamp of each writer.
    acknowledged: [AtomicU64; WRITERS],
    done: AtomicBool,
}

impl Bank {
    fn half(&self, at: usize) -> &Keyspace {
        &self.halves[at % 2]
    }

    /// Writes ascending stamps, each to all keys of the writer at once. It also writes other keys,
    /// one by one, so that there is background work.
    fn write(&self, writer: usize, rounds: u64) {
        let mut random = Random(writer as u64);
        for stamp in 1..=rounds {
            let mut batch = self.db.batch();
            for at in 0..KEYS {
                batch.put(self.half(at), key(writer, at), value(&mut random, stamp));
            }
            if random.one_in(16) {
                batch.durability(Durability::Sync);
            }
            batch.commit().unwrap();
            self.acknowledged[writer].store(stamp, Ordering::Release);
            for _ in 0..4 {
                let other = format!("other/{writer}/{}", random.below(500));
                match random.one_in(4) {
                    true => self.half(stamp as usize).delete(&other).unwrap(),
                    false => {
                        let value = value(&mut random, stamp);
                        self.half(stamp as usize).put(&other, value).unwrap();
                    }
                }
            }
        }
    }

    /// The one stamp that all keys of a writer have; 0 if the keys do not exist.
    fn agreed(&self, writer: usize, found: impl Fn(usize) -> Option<u64>) -> u64 {
        let first = found(0);
        for at in 1..KEYS {
            assert_eq!(found(at), first, "writer {writer}, key {at}");
        }
        first.unwrap_or(0)
    }

    /// Reads by snapshot, by scan in either direction, and by single gets. A stamp that was seen
    /// once is never followed by an older one.
    fn read(&self, seed: u64) -> u64 {
        let mut random = Random(seed);
        let mut last = [0; WRITERS];
        let mut rounds = 0;
        while !self.done.load(Ordering::Acquire) {
            let writer = random.below(WRITERS as u64) as usize;
            let floor = self.acknowledged[writer].load(Ordering::Acquire);
            let snapshot = self.db.snapshot().unwrap();
            let seen = match random.below(3) {
                0 => self.agreed(writer, |at| {
                    let found = snapshot.get(self.half(at), key(writer, at)).unwrap();
                    found.map(|value| stamp(&value))
                }),
                1 => {
                    let scans: Vec<Vec<(Vec<u8>, u64)>> = self
                        .halves
                        .iter()
                        .map(|half| {
                            let items = snapshot.range(half, "0"..":").map(|item| item.unwrap());
                            items
                                .map(|(key, value)| (key.to_vec(), stamp(&value)))
                                .collect()
                        })
                        .collect();
                    for (half, scan) in self.halves.iter().zip(&scans) {
                        let back = snapshot.range(half, "0"..":").rev();
                        let mut back: Vec<_> = back
                            .map(|item| item.unwrap())
                            .map(|(key, value)| (key.to_vec(), stamp(&value)))
                            .collect();
                        back.reverse();
                        assert_eq!(&back, scan);
                    }
                    self.agreed(writer, |at| {
                        let key = key(writer, at);
                        let place = scans[at % 2].binary_search_by(|(own, _)| own.cmp(&key));
                        place.ok().map(|place| scans[at % 2][place].1)
                    })
                }
                _ => {
                    // Half of the keys, by one call.
                    let keys: Vec<_> = (0..KEYS).step_by(2).map(|at| key(writer, at)).collect();
                    let found = self.halves[0].multi_get(&keys).unwrap();
                    self.agreed(writer, |at| found[at / 2].as_deref().map(stamp))
                }
            };
            assert!(seen >= floor && seen >= last[writer], "{seen}, {floor}");
            last[writer] = seen;
            let at = random.below(KEYS as u64) as usize;
            let found = self.half(at).get(key(writer, at)).unwrap();
            let found = found.map_or(0, |value| stamp(&value));
            assert!(found >= last[writer], "{found}, {}", last[writer]);
            last[writer] = found;
            rounds += 1;
        }
        rounds
    }
}

#[test]
fn batches_are_seen_whole_and_in_order() {
    let rounds = count_from_env("EVENDB_FLSM_BANK_ROUNDS", 1_000);
    for (seed, level) in LEVELS.into_iter().enumerate() {
        let vfs = SimVfs::new(seed as u64);
        let options = tiny_on(&vfs, level, seed as u64 + 40);
        let db = options.clone().open(DIR).unwrap();
        let halves = [db.keyspace("even").unwrap(), db.keyspace("odd").unwrap()];
        let bank = Bank {
            halves,
            db,
            acknowledged: Default::default(),
            done: AtomicBool::new(false),
        };
        let reads = thread::scope(|scope| {
            let bank = &bank;
            let readers: Vec<_> = (0..2)
                .map(|seed| scope.spawn(move || bank.read(seed)))
                .collect();
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| scope.spawn(move || bank.write(writer, rounds)))
                .collect();
            for writer in writers {
                writer.join().unwrap();
            }
            bank.done.store(true, Ordering::Release);
            readers
                .into_iter()
                .map(|reader| reader.join().unwrap())
                .sum::<u64>()
        });
        let stats = bank.db.stats();
        println!("{level:?}: {reads} reads, {stats:?}");
        assert!(reads > 0 && stats.flushes > 5 && stats.compactions > 5);
        assert!(stats.groups <= 5 * WRITERS as u64 * rounds);
        drop(bank);
        let db = options.open(DIR).unwrap();
        for (at, name) in ["even", "odd"].into_iter().enumerate() {
            let half = db.keyspace(name).unwrap();
            for writer in 0..WRITERS {
                let found = half.get(key(writer, at)).unwrap().unwrap();
                assert_eq!(stamp(&found), rounds);
            }
        }
    }
}

/// Many threads that sync share syncs: there are fewer syncs than writes.
#[test]
fn writes_that_come_at_once_share_a_sync() {
    let vfs = SimVfs::new(1);
    let db = tiny_on(&vfs, Durability::Sync, 1).open(DIR).unwrap();
    thread::scope(|scope| {
        for writer in 0..8 {
            let db = &db;
            scope.spawn(move || {
                for number in 0..50 {
                    db.put(format!("{writer}/{number}"), "value").unwrap();
                }
            });
        }
    });
    let stats = db.stats();
    assert_eq!(db.iter().count(), 400);
    assert!(
        stats.syncs <= stats.groups && stats.groups <= 400,
        "{stats:?}"
    );
}
