//! Iterators of a transaction that has merged: own operands over values and operands of the moment,
//! over own range deletions, and over own puts; from both ends, sought, keys alone. Against an
//! ordered map.

use super::seen::Seen;
use super::{Between, begin, refused};
use crate::common::{DIR, scramble, varied};
use crate::merging::{self, CLEAR};
use evendb::vfs::SimVfs;
use evendb::{Db, Durability, ErrorKind, Keyspace, KeyspaceOptions, Merges, Transaction};
use std::collections::BTreeMap;

type Map = BTreeMap<String, Vec<u8>>;

const SEEDS: u64 = 60;
const MOVES: u64 = 150;

fn key(dice: u64) -> String {
    format!("k{:02}", dice % 50)
}

fn merge(map: &mut Map, key: String, operand: &[u8]) {
    match merging::merged(map.get(&key).map(Vec::as_slice), operand) {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}

/// One operand of eight removes the value.
fn operand(dice: u64, what: &str) -> Vec<u8> {
    match dice / 7 % 8 {
        0 => CLEAR.to_vec(),
        _ => format!("{what}{} ", dice % 1000).into_bytes(),
    }
}

/// Older values and operands, in RAM and in tables, then own writes over them; and the map that
/// both make.
fn fill(db: &Db, keyspace: &Keyspace, seed: u64) -> (Transaction, Map) {
    let mut map = Map::new();
    for number in 0..scramble(seed) % 120 {
        let dice = scramble(seed * 1_000 + number);
        let key = key(dice);
        match dice / 50 % 8 {
            0 => {
                keyspace.delete(&key).expect("deletes");
                map.remove(&key);
            }
            1 => {
                let prefix = &key[..2];
                keyspace.delete_prefix(prefix).expect("deletes");
                map.retain(|own, _| !own.starts_with(prefix));
            }
            2..5 => {
                keyspace.put(&key, "old").expect("puts");
                map.insert(key, b"old".to_vec());
            }
            _ => {
                let operand = operand(dice / 400, "+");
                keyspace.merge(&key, &operand).expect("merges");
                merge(&mut map, key, &operand);
            }
        }
        if number % 40 == 20 {
            db.flush().expect("flushes");
        }
    }
    let mut transaction = begin(db);
    // Writes of others from now on are not seen.
    for number in 0..10 {
        let key = key(scramble(seed * 3_000 + number));
        keyspace.merge(key, "later").expect("merges");
    }
    for number in 0..scramble(seed + 1) % 60 {
        let dice = scramble(seed * 2_000 + number);
        let key = key(dice);
        match dice / 50 % 10 {
            0 => {
                let high = self::key(dice / 500);
                let deleted = transaction.delete_range(keyspace, key.as_str()..high.as_str());
                deleted.expect("deletes");
                map.retain(|own, _| !(key <= *own && *own < high));
            }
            1 => {
                transaction.delete(keyspace, &key).expect("deletes");
                map.remove(&key);
            }
            2 => {
                transaction.put(keyspace, &key, "own").expect("puts");
                map.insert(key, b"own".to_vec());
            }
            _ => {
                let operand = operand(dice / 500, "*");
                let merged = transaction.merge(keyspace, &key, &operand);
                merged.expect("merges");
                merge(&mut map, key, &operand);
            }
        }
    }
    (transaction, map)
}

#[test]
fn moves_over_own_operands_are_those_of_an_ordered_map() {
    for seed in 0..SEEDS {
        let vfs = SimVfs::new(seed);
        let db = varied(&vfs, Durability::Process, seed);
        let db = db.open(DIR).expect("opens");
        let options = merging::options(seed % 2 == 0);
        let keyspace = db.keyspace_with("merged", &options).expect("makes it");
        let (transaction, map) = fill(&db, &keyspace, seed);
        let between = [Between::Nothing, Between::Flush, Between::Compact];
        between[seed as usize % 3].happens(&db);
        for (key, value) in &map {
            let got = transaction.get(&keyspace, key).expect("gets");
            assert_eq!(got.as_deref(), Some(&value[..]), "seed {seed}: {key}");
        }
        for number in 0..4 {
            let (low, high) = match number % 2 {
                0 => (String::new(), "l".to_owned()),
                _ => (key(scramble(seed)), key(scramble(seed + 10))),
            };
            let range = low.as_str()..high.as_str();
            let inside: Vec<(&String, &Vec<u8>)> = map
                .iter()
                .filter(|(key, _)| range.contains(&key.as_str()))
                .collect();
            let keys_only = number >= 2;
            let mut seen = match keys_only {
                false => Seen::Records(transaction.range(&keyspace, range.clone()).expect("own")),
                true => Seen::Keys(transaction.keys(&keyspace, range.clone()).expect("own")),
            };
            // At first without seeks, so that everything is passed once.
            let seeks_from = inside.len() as u64 / 2;
            let (mut front, mut back) = (0, inside.len());
            for step in 0..MOVES {
                let dice = scramble(seed * 7_000 + number * 300 + step);
                let backwards = dice.is_multiple_of(3);
                let to = key(dice / 9);
                if step >= seeks_from && (dice / 3).is_multiple_of(4) {
                    seen.seek(&to, backwards);
                    match backwards {
                        true => back = inside.partition_point(|(key, _)| **key <= to),
                        false => front = inside.partition_point(|(key, _)| **key < to),
                    }
                    continue;
                }
                let expected = (front < back).then(|| {
                    match backwards {
                        true => back -= 1,
                        false => front += 1,
                    }
                    let (key, value) = inside[if backwards { back } else { front - 1 }];
                    (key.clone(), (!keys_only).then(|| value.clone()))
                });
                let found = seen.step(backwards);
                assert_eq!(found, expected, "seed {seed}.{number} step {step}");
            }
        }
    }
}

/// A merge alone reads nothing; an iterator that passes its key, even without the value, has read
/// it.
#[test]
fn what_an_iterator_passes_of_own_operands_was_read() {
    for between in [Between::Nothing, Between::Flush, Between::Compact] {
        for keys_only in [false, true] {
            let conflicts = ["a", "c", "e"].map(|other| {
                let db = super::open();
                let options = KeyspaceOptions::new().merge_operator(Merges::Append);
                let keyspace = db.keyspace_with("merged", &options).expect("makes it");
                keyspace.put("a", "1").expect("puts");
                keyspace.put("c", "1").expect("puts");
                let mut transaction = begin(&db);
                for key in ["a", "c", "e"] {
                    let merged = transaction.merge(&keyspace, key, "2");
                    merged.expect("merges");
                }
                match keys_only {
                    true => {
                        let mut seen = transaction.keys::<&str>(&keyspace, ..).expect("own");
                        assert_eq!(seen.next().expect("a").expect("no error"), "a");
                        assert_eq!(seen.next().expect("c").expect("no error"), "c");
                    }
                    false => {
                        let mut seen = transaction.iter(&keyspace).expect("own");
                        assert_eq!(seen.next().expect("a").expect("no error").1, "12");
                        assert_eq!(seen.next().expect("c").expect("no error").1, "12");
                    }
                }
                keyspace.merge(other, "3").expect("merges");
                between.happens(&db);
                match transaction.commit() {
                    Ok(()) => false,
                    Err(error) => {
                        refused(Err::<(), _>(error), ErrorKind::Conflict);
                        true
                    }
                }
            });
            assert_eq!(conflicts, [true, true, false], "{between:?}, {keys_only}");
        }
    }
}

/// An operator that fails ends the iterator with the error, and nothing comes after it.
#[test]
fn own_operands_that_cannot_be_merged_end_an_iterator() {
    let db = super::open();
    let options = KeyspaceOptions::new().merge_operator(Merges::AddU64);
    let keyspace = db.keyspace("merged").expect("makes it");
    for key in ["a", "b", "c"] {
        keyspace.put(key, "no number").expect("puts");
    }
    keyspace.set_options(&options).expect("gives an operator");
    let mut transaction = begin(&db);
    let merged = transaction.merge(&keyspace, "b", 1u64.to_le_bytes());
    merged.expect("merges");
    for back in [false, true] {
        let mut seen = transaction.iter(&keyspace).expect("own");
        let mut step = || match back {
            true => seen.next_back(),
            false => seen.next(),
        };
        step().expect("one is there").expect("no error");
        let error = step().expect("an error").expect_err("no number");
        assert_eq!(error.kind(), ErrorKind::MergeFailed);
        assert!(step().is_none());
    }
}
