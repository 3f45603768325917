//! Iterators of a transaction that are sought, limited, or give only keys: against an ordered map,
//! and which parts of the range count as read afterwards.

use super::seen::Seen;
use super::{begin, keys, open, refused};
use crate::common::{DIR, scramble, varied};
use evendb::vfs::SimVfs;
use evendb::{Db, Durability, ErrorKind, Keyspace, Transaction};
use std::collections::BTreeMap;

type Map = BTreeMap<String, String>;

const SEEDS: u64 = 60;
const MOVES: u64 = 120;

fn key(dice: u64) -> String {
    format!("k{:02}", dice % 50)
}

/// Older records with own writes over them, and the map that both make.
fn fill(db: &Db, keyspace: &Keyspace, seed: u64) -> (Transaction, Map) {
    let mut map = Map::new();
    for number in 0..scramble(seed) % 60 {
        let key = key(scramble(seed * 1_000 + number));
        let value = format!("old {number}");
        db.put(&key, &value).expect("puts");
        map.insert(key, value);
        if number == 20 {
            db.flush().expect("flushes");
        }
    }
    let mut transaction = begin(db);
    for number in 0..scramble(seed + 1) % 40 {
        let dice = scramble(seed * 2_000 + number);
        let key = key(dice);
        match dice / 50 % 10 {
            0 => {
                let high = self::key(dice / 500);
                let deleted = transaction.delete_range(keyspace, key.as_str()..high.as_str());
                deleted.expect("deletes");
                map.retain(|own, _| !(key <= *own && *own < high));
            }
            1..4 => {
                transaction.delete(keyspace, &key).expect("deletes");
                map.remove(&key);
            }
            _ => {
                let value = format!("own {number}");
                transaction.put(keyspace, &key, &value).expect("puts");
                map.insert(key, value);
            }
        }
    }
    (transaction, map)
}

#[test]
fn moves_are_those_of_an_ordered_map() {
    for seed in 0..SEEDS {
        let vfs = SimVfs::new(seed);
        let db = varied(&vfs, Durability::Process, seed);
        let db = db.open(DIR).expect("opens");
        let keyspace = db.default_keyspace().clone();
        let (transaction, map) = fill(&db, &keyspace, seed);
        for (number, limited) in [(0, false), (1, true), (2, false), (3, true)] {
            let (low, high) = (
                key(scramble(seed + number)),
                key(scramble(seed + 10 + number)),
            );
            let range = low.as_str()..high.as_str();
            let inside = map.keys().filter(|key| range.contains(&key.as_str()));
            let inside: Vec<&String> = inside.collect();
            let mut left = if limited {
                scramble(seed) % 9
            } else {
                u64::MAX
            };
            let mut seen = match number < 2 {
                true => Seen::Records(
                    transaction
                        .range(&keyspace, range.clone())
                        .expect("own")
                        .limit(left),
                ),
                false => Seen::Keys(
                    transaction
                        .keys(&keyspace, range.clone())
                        .expect("own")
                        .limit(left),
                ),
            };
            let (mut front, mut back) = (0, inside.len());
            for step in 0..MOVES {
                let dice = scramble(seed * 7_000 + number * 300 + step);
                let backwards = dice.is_multiple_of(3);
                let to = key(dice / 9);
                if (dice / 3).is_multiple_of(3) {
                    seen.seek(&to, backwards);
                    match backwards {
                        true => back = inside.partition_point(|key| **key <= to),
                        false => front = inside.partition_point(|key| **key < to),
                    }
                    continue;
                }
                let expected = (left > 0 && front < back).then(|| {
                    left -= 1;
                    match backwards {
                        true => back -= 1,
                        false => front += 1,
                    }
                    inside[if backwards { back } else { front - 1 }].clone()
                });
                assert_eq!(
                    seen.step(backwards).map(|(key, _)| key),
                    expected,
                    "seed {seed}.{number} step {step}"
                );
            }
        }
    }
}

/// A transaction does something, then another write comes, then it commits: returns whether the
/// commit is refused.
fn is_refused(work: impl FnOnce(&Transaction, &Keyspace), other: &str) -> bool {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    for key in ["a", "c", "e", "g", "i"] {
        db.put(key, "").expect("puts");
    }
    let mut transaction = begin(&db);
    work(&transaction, &keyspace);
    transaction.put(&keyspace, "own", "").expect("puts");
    db.put(other, "new").expect("puts");
    match transaction.commit() {
        Ok(()) => false,
        Err(error) => {
            refused(Err::<(), _>(error), ErrorKind::Conflict);
            true
        }
    }
}

#[test]
fn what_a_seek_leaves_out_was_not_read() {
    let work = |transaction: &Transaction, keyspace: &Keyspace| {
        let mut iter = transaction.iter(keyspace).expect("own");
        assert_eq!(iter.next().expect("a").expect("no error").0, "a");
        iter.seek("f");
        assert_eq!(iter.next().expect("g").expect("no error").0, "g");
        iter.seek("c");
        assert_eq!(iter.next().expect("c").expect("no error").0, "c");
    };
    let found = ["", "a", "b", "c", "d", "e", "f", "f5", "g", "h", "i"]
        .map(|other| is_refused(work, other));
    // The span from the beginning to `a`, the span from `f` to `g`, and `c`.
    let expected = [
        true, true, false, true, false, false, true, true, true, false, false,
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_both_ends_passed_before_they_were_sought_was_read() {
    let work = |transaction: &Transaction, keyspace: &Keyspace| {
        let mut iter = transaction.keys::<&str>(keyspace, ..).expect("own");
        assert_eq!(iter.next_back().expect("i").expect("no error"), "i");
        assert_eq!(iter.next().expect("a").expect("no error"), "a");
        iter.seek_back("d");
        assert_eq!(iter.next_back().expect("c").expect("no error"), "c");
        // Both ends have met: nothing lies between them.
        assert!(iter.next_back().is_none());
    };
    let found = ["a", "b", "c", "d", "e", "h", "i", "j"].map(|other| is_refused(work, other));
    assert_eq!(found, [true, true, true, true, false, false, true, true]);
}

#[test]
fn what_lies_behind_a_limit_was_not_read() {
    let work = |transaction: &Transaction, keyspace: &Keyspace| {
        let iter = transaction.range(keyspace, "b"..).expect("own").limit(2);
        assert_eq!(keys(iter), ["c", "e"]);
    };
    let found = ["a", "b", "d", "e", "f", "g"].map(|other| is_refused(work, other));
    assert_eq!(found, [false, true, true, true, false, false]);
}

/// Found by `programs`: range deletions conflicted with an iterator that was dropped before it gave
/// anything, and with an inverted range, if they lay around its beginning.
#[test]
fn what_read_nothing_meets_no_range_deletion() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    let mut transaction = begin(&db);
    drop(transaction.range(&keyspace, "k".."m").expect("own"));
    let mut nothing = transaction.range(&keyspace, "k".."k").expect("own");
    assert!(nothing.next_back().is_none());
    drop(nothing);
    transaction.put(&keyspace, "own", "").expect("puts");
    db.delete_range("a".."z").expect("deletes");
    transaction
        .commit()
        .expect("nothing that was read has changed");
}
