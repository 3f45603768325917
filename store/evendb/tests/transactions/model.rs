//! Random programs against an ordered map: puts, deletes, savepoints, gets, ranges from both ends
//! that are taken in part, beside puts of others and checkpoints. The map says what a transaction
//! sees, whether its commit may be refused, and what the database holds afterwards.
//!
//! The database has no threads, so that a seed gives the same program and the same run.

use super::refused;
use crate::common::{DIR, varied};
use evendb::vfs::SimVfs;
use evendb::{Db, Durability, ErrorKind, Keyspace, Savepoint, Transaction};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

type Map = BTreeMap<String, String>;
/// Own writes: a value, or nothing for a delete.
type Own = BTreeMap<String, Option<String>>;
type Bounds = (Bound<String>, Bound<String>);

const SEEDS: u64 = 40;
const TRANSACTIONS: u32 = 30;
const KEYS: u32 = 60;

/// The reads of a transaction: keys, and spans in which nothing may change.
#[derive(Default, Debug)]
struct Reads {
    keys: BTreeSet<String>,
    spans: Vec<Bounds>,
}

impl Reads {
    fn have(&self, key: &str) -> bool {
        let mut spans = self.spans.iter();
        self.keys.contains(key) || spans.any(|span| contains(span, key))
    }
}

fn contains(bounds: &Bounds, key: &str) -> bool {
    let above = match &bounds.0 {
        Bound::Included(low) => key >= low.as_str(),
        Bound::Excluded(low) => key > low.as_str(),
        Bound::Unbounded => true,
    };
    above
        && match &bounds.1 {
            Bound::Included(high) => key <= high.as_str(),
            Bound::Excluded(high) => key < high.as_str(),
            Bound::Unbounded => true,
        }
}

/// The database, and its expected content.
struct World {
    db: Db,
    keyspace: Keyspace,
    committed: Map,
    random: StdRng,
    place: String,
    values: u32,
    conflicts: u32,
    commits: u32,
}

/// A transaction, and its expected view.
struct Program {
    moment: Map,
    own: Own,
    savepoints: Vec<(Savepoint, Own)>,
    gone: Vec<Savepoint>,
    reads: Reads,
    /// The keys that others wrote since it began.
    touched: BTreeSet<String>,
}

impl Program {
    fn seen(&self) -> Map {
        let mut seen = self.moment.clone();
        for (key, value) in &self.own {
            match value {
                Some(value) => seen.insert(key.clone(), value.clone()),
                None => seen.remove(key),
            };
        }
        seen
    }

    /// A key that the transaction itself wrote is not read from the database.
    fn note_key(&mut self, key: &str) {
        if !self.own.contains_key(key) {
            self.reads.keys.insert(key.to_owned());
        }
    }
}

impl World {
    fn key(&mut self) -> String {
        format!("k{:03}", self.random.random_range(0..KEYS))
    }

    fn value(&mut self) -> String {
        self.values += 1;
        let len = self.random.random_range(1..80);
        format!("{:>len$}", self.values)
    }

    /// A write of another, or some work of the database.
    fn others(&mut self, program: &mut Program) {
        match self.random.random_range(0..8) {
            0 => self.db.flush().expect("flushes"),
            1 => self.db.idle_pass().map(drop).expect("a pass"),
            2 => {
                let key = self.key();
                self.db.delete(&key).expect("deletes");
                self.committed.remove(&key);
                program.touched.insert(key);
            }
            _ => {
                let (key, value) = (self.key(), self.value());
                self.db.put(&key, &value).expect("puts");
                self.committed.insert(key.clone(), value);
                program.touched.insert(key);
            }
        }
    }

    fn write(&mut self, transaction: &mut Transaction, program: &mut Program) {
        let key = self.key();
        let value = self.random.random_bool(0.7).then(|| self.value());
        match &value {
            Some(value) => transaction.put(&self.keyspace, &key, value).expect("puts"),
            None => transaction.delete(&self.keyspace, &key).expect("deletes"),
        }
        program.own.insert(key, value);
        assert_eq!(transaction.len(), program.own.len(), "{}", self.place);
    }

    fn get(&mut self, transaction: &Transaction, program: &mut Program) {
        let key = self.key();
        let found = transaction.get(&self.keyspace, &key).expect("gets");
        let found = found.map(|value| String::from_utf8(value.to_vec()).expect("text"));
        let expected = program.seen().remove(&key);
        assert_eq!(found, expected, "{}: {key}", self.place);
        let is_there = transaction.contains_key(&self.keyspace, &key);
        assert_eq!(is_there.expect("gets"), found.is_some(), "{}", self.place);
        program.note_key(&key);
    }

    fn bounds(&mut self) -> Bounds {
        let (a, b) = (self.key(), self.key());
        let (low, high) = match self.random.random_range(0..20) {
            // An inverted range: it is empty.
            0 => (a.clone().max(b.clone()), a.min(b)),
            _ => (a.clone().min(b.clone()), a.max(b)),
        };
        let low = match self.random.random_range(0..4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(low),
            _ => Bound::Included(low),
        };
        let high = match self.random.random_range(0..4) {
            0 => Bound::Unbounded,
            1 => Bound::Included(high),
            _ => Bound::Excluded(high),
        };
        (low, high)
    }

    /// A range; a random number of its records is taken from either end.
    fn scan(&mut self, transaction: &Transaction, program: &mut Program) {
        let bounds = self.bounds();
        let place = format!("{}: {bounds:?}", self.place);
        let seen = program.seen();
        let inside = seen.iter().filter(|(key, _)| contains(&bounds, key));
        let mut expected = inside.map(|(key, value)| (key.clone(), value.clone()));
        let mut iter = transaction
            .range(&self.keyspace, bounds.clone())
            .expect("own");
        let backwards = *[0.0, 1.0, 0.5, 0.1]
            .get(self.random.random_range(0..4))
            .expect("one");
        let most = match self.random.random_bool(0.4) {
            true => usize::MAX,
            false => self.random.random_range(0..12),
        };
        let (mut front, mut back, mut ended) = (None, None, false);
        for _ in 0..most {
            let from_back = self.random.random_bool(backwards);
            let (found, wanted) = match from_back {
                true => (iter.next_back(), expected.next_back()),
                false => (iter.next(), expected.next()),
            };
            let found = found.map(|item| {
                let (key, value) = item.expect("no error");
                let text = |value: evendb::Value| String::from_utf8(value.to_vec()).expect("text");
                (text(key), text(value))
            });
            assert_eq!(found, wanted, "{place}");
            let Some((key, _)) = found else {
                ended = true;
                break;
            };
            match from_back {
                true => back = Some(key),
                false => front = Some(key),
            }
        }
        if ended {
            program.reads.spans.push(bounds);
            return;
        }
        let (low, high) = bounds;
        if let Some(front) = front {
            program.reads.spans.push((low, Bound::Included(front)));
        }
        if let Some(back) = back {
            program.reads.spans.push((Bound::Included(back), high));
        }
    }

    fn savepoint(&mut self, transaction: &mut Transaction, program: &mut Program) {
        let invalid = ErrorKind::InvalidArgument;
        match self.random.random_range(0..3) {
            0 => {
                let savepoint = transaction.savepoint();
                program.savepoints.push((savepoint, program.own.clone()));
            }
            1 if !program.savepoints.is_empty() => {
                let place = self.random.random_range(0..program.savepoints.len());
                let gone = program.savepoints.drain(place + 1..);
                program.gone.extend(gone.map(|(savepoint, _)| savepoint));
                let (savepoint, own) = program.savepoints[place].clone();
                transaction.rollback_to(savepoint).expect("it is there");
                program.own = own;
            }
            _ => {
                if let Some(&gone) = program.gone.last() {
                    refused(transaction.rollback_to(gone), invalid);
                }
            }
        }
        assert_eq!(transaction.len(), program.own.len(), "{}", self.place);
    }

    fn end(&mut self, transaction: Transaction, program: Program) {
        if self.random.random_range(0..8) == 0 {
            return transaction.rollback();
        }
        let touched = || program.touched.iter().filter(|key| program.reads.have(key));
        let changed = |key: &&String| program.moment.get(*key) != self.committed.get(*key);
        let must_fail = touched().any(|key| changed(&key)) && !program.own.is_empty();
        let may_fail = touched().next().is_some() && !program.own.is_empty();
        let place = &self.place;
        match transaction.commit() {
            Ok(()) => {
                let reads = &program.reads;
                assert!(!must_fail, "{place}: {:?} and {reads:?}", program.touched);
                self.commits += 1;
                for (key, value) in program.own {
                    match value {
                        Some(value) => self.committed.insert(key, value),
                        None => self.committed.remove(&key),
                    };
                }
            }
            Err(error) => {
                let reads = &program.reads;
                assert_eq!(error.kind(), ErrorKind::Conflict, "{place}: {error:?}");
                assert!(may_fail, "{place}: {:?} and {reads:?}", program.touched);
                self.conflicts += 1;
            }
        }
    }

    fn transaction(&mut self) {
        let mut transaction = self.db.transaction().expect("begins");
        let mut program = Program {
            moment: self.committed.clone(),
            own: Own::new(),
            savepoints: Vec::new(),
            gone: Vec::new(),
            reads: Reads::default(),
            touched: BTreeSet::new(),
        };
        let busy = self.random.random_range(0..3);
        for _ in 0..self.random.random_range(0..25) {
            match self.random.random_range(0..20) {
                0..6 => self.write(&mut transaction, &mut program),
                6..9 => self.get(&transaction, &mut program),
                9..13 => self.scan(&transaction, &mut program),
                13..16 => self.savepoint(&mut transaction, &mut program),
                other if other < 16 + 2 * busy => self.others(&mut program),
                _ => {}
            }
        }
        self.end(transaction, program);
        let text = |value: evendb::Value| String::from_utf8(value.to_vec()).expect("text");
        let all = self.db.iter().map(|item| {
            let (key, value) = item.expect("no error");
            (text(key), text(value))
        });
        assert_eq!(all.collect::<Map>(), self.committed, "{}", self.place);
    }
}

#[test]
fn random_programs_see_what_an_ordered_map_says() {
    let (mut commits, mut conflicts) = (0, 0);
    for seed in 0..SEEDS {
        let vfs = SimVfs::new(seed);
        let options = varied(&vfs, Durability::Process, seed);
        let db = options.open(DIR).expect("opens");
        let mut world = World {
            keyspace: db.default_keyspace().clone(),
            db,
            committed: Map::new(),
            random: StdRng::seed_from_u64(seed),
            place: String::new(),
            values: 0,
            conflicts: 0,
            commits: 0,
        };
        for number in 0..TRANSACTIONS {
            world.place = format!("seed {seed}, transaction {number}");
            world.transaction();
        }
        commits += world.commits;
        conflicts += world.conflicts;
    }
    assert!(commits > 100 && conflicts > 100, "{commits}, {conflicts}");
}
