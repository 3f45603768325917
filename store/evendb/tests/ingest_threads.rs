//! Ingests beside threads that put, delete, scan, hold snapshots, run checkpoints and compact; each
//! history is judged.
//!
//! Keys of one kind are written only by ingests, so at every moment all of them are of one round.
//! Keys of the other kind lie among those; each belongs to one writer and is ingested too. After a
//! put has returned, its writer reads its own value, or the value of a round that had not returned
//! when the put began: nothing else is newer.

mod common;

use common::{DIR, LEVELS, on_sim, perhaps_apart};
use evendb::vfs::SimVfs;
use evendb::{Db, Value};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const KEYS: u64 = 150;
const WRITERS: u64 = 2;
const ROUNDS: u64 = 12;

fn shared_key(number: u64) -> String {
    format!("k{number:04}")
}

/// A key between two shared keys.
fn own_key(writer: u64, number: u64) -> String {
    format!("k{number:04}/w{writer}")
}

fn value(kind: u64, number: u64) -> Vec<u8> {
    let mut value = [kind.to_le_bytes(), number.to_le_bytes()].concat();
    value.resize(16 + (number % 60) as usize, number as u8);
    value
}

fn parse(bytes: &[u8]) -> (u64, u64) {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let (kind, number) = (number(0), number(8));
    assert!(bytes == value(kind, number), "a value is damaged");
    (kind, number)
}

/// The records of an ingest of a round, in order. Each has all shared keys, and others now and
/// then.
fn records(round: u64) -> Vec<(String, Vec<u8>)> {
    let mut records = Vec::new();
    for number in 0..KEYS {
        records.push((shared_key(number), value(0, round)));
        for writer in (0..WRITERS).filter(|_| (number + round).is_multiple_of(3)) {
            records.push((own_key(writer, number), value(0, round)));
        }
    }
    records
}

struct World {
    db: Db,
    /// The last round that has returned.
    done: AtomicU64,
    is_over: AtomicBool,
}

impl World {
    fn ingest(&self) {
        for round in 1..=ROUNDS {
            let summary = self.db.ingest(records(round)).expect("ingests");
            assert!(summary.records >= KEYS);
            self.done.store(round, Ordering::SeqCst);
            let mut least = round;
            self.check_moment(&mut least);
        }
        self.is_over.store(true, Ordering::SeqCst);
    }

    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::SeqCst)
    }

    fn write(&self, writer: u64) {
        let mut number = 0;
        // The greatest round that was seen of each key.
        let mut seen = vec![0; KEYS as usize];
        while self.goes_on() {
            number += 1;
            let place = number * 7 % KEYS;
            let key = own_key(writer, place);
            let before = self.done.load(Ordering::SeqCst).max(seen[place as usize]);
            if number % 5 == 0 {
                self.db.delete(&key).expect("deletes");
            } else {
                self.db.put(&key, value(1, number)).expect("puts");
            }
            for _ in 0..2 {
                let found = self.db.get(&key).expect("gets");
                match found.map(|value| parse(&value)) {
                    None => assert!(number % 5 == 0, "put {number} of {key} is gone"),
                    Some((0, round)) => {
                        assert!(round > before, "{key}: round {round} hides put {number}");
                        seen[place as usize] = round;
                    }
                    Some((_, found)) => {
                        assert_eq!(found, number, "{key}");
                        assert!(seen[place as usize] <= before, "{key}: a round went");
                    }
                }
            }
        }
    }

    /// All shared keys of one moment have one round, no older than `last`.
    fn check(&self, items: impl Iterator<Item = evendb::Result<(Value, Value)>>, last: &mut u64) {
        let mut rounds = Vec::new();
        for item in items {
            let (key, value) = item.expect("scans");
            if key.len() == shared_key(0).len() {
                rounds.push(parse(&value).1);
            }
        }
        let round = rounds.first().copied().unwrap_or(0);
        let count = if round == 0 { 0 } else { KEYS as usize };
        assert_eq!(rounds.len(), count, "round {round}");
        assert!(rounds.iter().all(|own| *own == round), "halves: {rounds:?}");
        assert!(round >= *last, "round {round} after {last}");
        *last = round;
    }

    fn check_moment(&self, last: &mut u64) {
        self.check(self.db.iter(), last);
        self.check(self.db.iter().rev(), last);
    }

    fn scan(&self) {
        let mut last = 0;
        while self.goes_on() {
            last = last.max(self.done.load(Ordering::SeqCst));
            self.check_moment(&mut last);
            let snapshot = self.db.snapshot().expect("a snapshot");
            let keyspace = self.db.default_keyspace();
            let mut first = last;
            self.check(snapshot.iter(keyspace), &mut first);
            std::thread::yield_now();
            let mut then = first;
            self.check(snapshot.iter(keyspace).rev(), &mut then);
            assert_eq!(then, first, "a snapshot moved");
            last = first;
        }
    }

    fn get(&self) {
        let mut last = 0;
        let mut number = 0;
        while self.goes_on() {
            number += 1;
            last = self.done.load(Ordering::SeqCst).max(last);
            // One store shows all of them: no get goes back behind an earlier one.
            if let Some(value) = self.db.get(shared_key(number * 11 % KEYS)).expect("gets") {
                let (_, round) = parse(&value);
                assert!(round >= last, "round {round} after {last}");
                last = round;
            } else {
                assert_eq!(last, 0);
            }
        }
    }

    fn reorganise(&self) {
        while self.goes_on() {
            self.db.flush().expect("a checkpoint");
            self.db.settle_debt().expect("settles");
            self.db.compact().expect("compacts");
        }
    }
}

#[test]
fn every_moment_has_an_ingest_whole_or_not_at_all() {
    for (number, level) in (5..).zip(LEVELS) {
        let vfs = SimVfs::new(1);
        let options = |workers, number| perhaps_apart(on_sim(&vfs, level, workers), number);
        let world = World {
            db: options(1, number).open(DIR).expect("opens"),
            done: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        };
        std::thread::scope(|scope| {
            let world = &world;
            for writer in 0..WRITERS {
                scope.spawn(move || world.write(writer));
            }
            scope.spawn(|| world.scan());
            scope.spawn(|| world.get());
            scope.spawn(|| world.reorganise());
            scope.spawn(|| {
                // Caught so that the other threads end too.
                let ends = std::panic::AssertUnwindSafe(|| world.ingest());
                let ended = std::panic::catch_unwind(ends);
                world.is_over.store(true, Ordering::SeqCst);
                if let Err(panic) = ended {
                    std::panic::resume_unwind(panic);
                }
            });
        });
        let mut least = ROUNDS;
        world.check_moment(&mut least);
        let then: Vec<_> = world.db.iter().map(|item| item.expect("reads")).collect();
        world.db.close().expect("closes");
        let db = options(0, number + 1).open(DIR).expect("opens again");
        let now: Vec<_> = db.iter().map(|item| item.expect("reads")).collect();
        assert!(then == now, "{level:?}");
    }
}
