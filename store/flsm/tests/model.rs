//! Random programs against sorted maps: writes, batches, reads in both directions, snapshots,
//! keyspaces, flushes, reopenings.
//!
//! Everything repeats by the seed in the message, except the progress of the background threads, on
//! which no answer depends. `EVENDB_FLSM_MODEL_SEEDS` sets how many seeds are run (default 60).

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::{DIR, LEVELS, Map, Random, count_from_env, scramble, tiny_on};
use evendb_flsm::vfs::SimVfs;
use evendb_flsm::{Cursor, Db, Durability, ErrorKind, Keyspace, Snapshot, Value};
use std::collections::BTreeMap;

const NAMES: [&str; 3] = ["default", "other", "third"];

fn owned(item: evendb_flsm::Result<(Value, Value)>) -> (Vec<u8>, Vec<u8>) {
    let (key, value) = item.unwrap();
    (key.to_vec(), value.to_vec())
}

/// A snapshot, and the records that it has to show: for each keyspace by its id.
struct Taken {
    snapshot: Snapshot,
    maps: BTreeMap<u32, Map>,
}

struct World {
    vfs: SimVfs,
    level: Durability,
    seed: u64,
    random: Random,
    db: Option<Db>,
    /// By the ids of the keyspaces.
    maps: BTreeMap<u32, Map>,
    keyspaces: BTreeMap<&'static str, Keyspace>,
    taken: Vec<Taken>,
    dropped: Vec<Keyspace>,
    step: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut world = World {
            vfs: SimVfs::new(seed),
            level: LEVELS[(seed % 3) as usize],
            seed,
            random: Random(scramble(seed)),
            db: None,
            maps: BTreeMap::new(),
            keyspaces: BTreeMap::new(),
            taken: Vec::new(),
            dropped: Vec::new(),
            step: 0,
        };
        world.open();
        world
    }

    fn open(&mut self) {
        let db = tiny_on(&self.vfs, self.level, self.random.next()).open(DIR);
        let db =
            db.unwrap_or_else(|error| panic!("seed {} step {}: {error}", self.seed, self.step));
        for name in NAMES {
            if db.keyspace_exists(name) {
                self.keyspaces.insert(name, db.keyspace(name).unwrap());
            }
        }
        self.db = Some(db);
        self.maps.entry(self.keyspaces["default"].id()).or_default();
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.random.below(200);
        match self.random.below(12) {
            0 => Vec::new(),
            1 => vec![number as u8],
            2 => format!(
                "k{number:03}/{}",
                "x".repeat(self.random.below(90) as usize)
            )
            .into(),
            _ => format!("k{number:03}").into(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.random.below(20) {
            0 => self.random.below(3000),
            1..4 => 0,
            _ => self.random.below(150),
        };
        let mut value = format!("{}.{}", self.step, self.random.below(1000)).into_bytes();
        value.truncate(len as usize);
        value.resize(len as usize, (self.step % 251) as u8);
        value
    }

    fn keyspace(&mut self) -> Keyspace {
        let at = self.random.below(self.keyspaces.len() as u64) as usize;
        self.keyspaces.values().nth(at).unwrap().clone()
    }

    fn write(&mut self) {
        let keyspace = self.keyspace();
        let key = self.key();
        let map = self.maps.entry(keyspace.id()).or_default();
        if self.random.one_in(4) {
            map.remove(&key);
            keyspace.delete(&key).unwrap();
        } else {
            let value = self.value();
            keyspace.put(&key, &value).unwrap();
            self.maps
                .get_mut(&keyspace.id())
                .unwrap()
                .insert(key, value);
        }
    }

    fn batch(&mut self) {
        let mut batch = self.db().batch();
        for _ in 0..self.random.below(12) {
            let (keyspace, key) = (self.keyspace(), self.key());
            if self.random.one_in(3) {
                batch.delete(&keyspace, &key);
                self.maps.entry(keyspace.id()).or_default().remove(&key);
            } else {
                let value = self.value();
                batch.put(&keyspace, &key, &value);
                let map = self.maps.entry(keyspace.id()).or_default();
                map.insert(key, value);
            }
        }
        if self.random.one_in(8) {
            batch.durability(LEVELS[self.random.below(3) as usize]);
        }
        batch.commit().unwrap();
    }

    fn look(&mut self) {
        let keyspace = self.keyspace();
        let map = self.maps.get(&keyspace.id()).cloned().unwrap_or_default();
        let keys: Vec<Vec<u8>> = (0..6).map(|_| self.key()).collect();
        for key in &keys {
            assert_eq!(
                keyspace.get(key).unwrap().as_deref(),
                map.get(key).map(|value| &**value)
            );
            assert_eq!(keyspace.contains_key(key).unwrap(), map.contains_key(key));
        }
        let found = keyspace.multi_get(&keys).unwrap();
        for (found, key) in found.iter().zip(&keys) {
            assert_eq!(found.as_deref(), map.get(key).map(|value| &**value));
        }
        let (mut low, mut high) = (self.key(), self.key());
        if low > high {
            std::mem::swap(&mut low, &mut high);
        }
        self.walk(
            keyspace.cursor(&low[..]..&high[..]),
            &map,
            &low,
            Some(&high),
        );
        self.walk(keyspace.cursor::<&[u8]>(..), &map, b"", None);
        let prefix = &self.key()[..];
        let prefix = &prefix[..prefix.len().min(2)];
        let expected = map.iter().filter(|(key, _)| key.starts_with(prefix));
        let found = keyspace.prefix(prefix).map(owned);
        assert!(found.eq(expected.map(|(key, value)| (key.clone(), value.clone()))));
        let keys = keyspace.keys::<&[u8]>(..).rev().map(|key| key.unwrap());
        assert!(keys.eq(map.keys().rev().cloned()));
    }

    /// Moves both ends of a cursor at random, and seeks in between. The model is the ends' places
    /// in the map.
    fn walk(&mut self, mut cursor: Cursor, map: &Map, low: &[u8], high: Option<&[u8]>) {
        let inside = |key: &[u8]| key >= low && high.is_none_or(|high| key < high);
        let records: Vec<_> = map.iter().filter(|(key, _)| inside(key)).collect();
        // The records `records[front..back]` are left.
        let (mut front, mut back) = (0, records.len());
        for _ in 0..2 * records.len() + 4 {
            match self.random.below(20) {
                0 => {
                    let to = self.key();
                    front = records.partition_point(|(key, _)| **key < to);
                    cursor.seek(&to);
                }
                1 => {
                    let to = self.key();
                    back = records.partition_point(|(key, _)| **key <= to);
                    cursor.seek_back(&to);
                }
                2..12 => {
                    let expected = (front < back).then(|| records[front]);
                    let found = cursor.next().unwrap();
                    assert_eq!(found, expected.map(|(key, value)| (&key[..], &value[..])));
                    front += usize::from(front < back);
                }
                _ => {
                    let expected = (front < back).then(|| records[back - 1]);
                    let found = cursor.next_back().unwrap();
                    assert_eq!(found, expected.map(|(key, value)| (&key[..], &value[..])));
                    back -= usize::from(front < back);
                }
            }
        }
    }

    fn look_at_snapshot(&mut self) {
        if self.taken.is_empty() {
            return;
        }
        let at = self.random.below(self.taken.len() as u64) as usize;
        let key = self.key();
        let taken = &self.taken[at];
        let handles = self.keyspaces.values().chain(&self.dropped);
        for keyspace in handles {
            let Some(map) = taken.maps.get(&keyspace.id()) else {
                continue;
            };
            let found = taken.snapshot.iter(keyspace).map(owned);
            assert!(found.eq(map.clone()), "{}", keyspace.name());
            let found = taken.snapshot.iter(keyspace).rev().map(owned);
            assert!(found.eq(map.clone().into_iter().rev()));
            let found = taken.snapshot.get(keyspace, &key).unwrap();
            assert_eq!(found.as_deref(), map.get(&key).map(|value| &**value));
        }
    }

    fn change_keyspaces(&mut self) {
        let name = NAMES[1 + self.random.below(2) as usize];
        if let Some(keyspace) = self.keyspaces.remove(name) {
            self.db().drop_keyspace(name).unwrap();
            assert_eq!(
                keyspace.get("k").unwrap_err().kind(),
                ErrorKind::KeyspaceDropped
            );
            assert_eq!(
                keyspace.put("k", "v").unwrap_err().kind(),
                ErrorKind::KeyspaceDropped
            );
            let since = self.db().snapshot().unwrap();
            let refused = since.get(&keyspace, "k").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::KeyspaceDropped);
            self.dropped.push(keyspace);
        } else {
            let keyspace = self.db().keyspace(name).unwrap();
            assert_eq!(keyspace.iter().count(), 0);
            self.maps.insert(keyspace.id(), Map::new());
            self.keyspaces.insert(name, keyspace);
        }
        let names: Vec<&str> = self.keyspaces.keys().copied().collect();
        assert_eq!(self.db().keyspace_names(), names);
    }

    fn reopen(&mut self) {
        self.taken.clear();
        self.dropped.clear();
        self.keyspaces.clear();
        let db = self.db.take().unwrap();
        match self.random.one_in(2) {
            true => db.close().unwrap(),
            // The last handle closes it silently.
            false => drop(db),
        }
        self.level = LEVELS[self.random.below(3) as usize];
        self.open();
    }

    fn run(&mut self, steps: usize) {
        for step in 0..steps {
            self.step = step;
            match self.random.below(1000) {
                0..700 => self.write(),
                700..840 => self.batch(),
                840..880 => self.look(),
                880..900 => self.look_at_snapshot(),
                900..915 => {
                    let snapshot = self.db().snapshot().unwrap();
                    let maps = self.keyspaces.values().map(|keyspace| {
                        let map = self.maps.get(&keyspace.id()).cloned();
                        (keyspace.id(), map.unwrap_or_default())
                    });
                    let maps = maps.collect();
                    self.taken.push(Taken { snapshot, maps });
                }
                915..930 => drop(self.taken.pop()),
                930..950 => self.db().flush().unwrap(),
                950..960 => self.db().settle_debt().unwrap(),
                960..970 => self.db().persist().unwrap(),
                970..985 => self.change_keyspaces(),
                _ => self.reopen(),
            }
        }
        self.look();
    }
}

#[test]
fn random_programs_equal_sorted_maps() {
    let (mut deep, mut guards) = (0, 0);
    for seed in 0..count_from_env("EVENDB_FLSM_MODEL_SEEDS", 60) {
        let place = format!("seed {seed}");
        println!("{place}");
        let mut world = World::new(seed);
        world.run(1500);
        let stats = world.db().stats();
        deep += stats.tables[1..].iter().sum::<u64>();
        guards += stats.guards[1..].iter().sum::<u64>() - stats.guards.len() as u64 + 1;
    }
    println!("{deep} tables below level 0, {guards} guards");
    assert!(deep > 60 && guards > 60, "the limits are not tiny enough");
}
