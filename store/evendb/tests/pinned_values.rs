//! Values are handed out without a copy: they keep the place where they lie.

use evendb::{Db, Durability, Options};
use std::collections::HashSet;

fn options() -> Options {
    Options::new()
        .durability(Durability::Process)
        .memory_budget(32 << 20)
}

fn key(number: u32) -> String {
    format!("key{number:06}")
}

fn value(number: u32, bytes: usize) -> Vec<u8> {
    let seed = number.to_le_bytes();
    (0..bytes).map(|at| seed[at % 4] ^ at as u8).collect()
}

fn get(db: &Db, number: u32) -> evendb::Value {
    let found = db.get(key(number)).expect("reads");
    found.expect("it was put")
}

/// The same bytes at the same place, twice.
fn is_lent(db: &Db, number: u32) -> bool {
    let (one, other) = (get(db, number), get(db, number));
    assert_eq!(*one, *other);
    one.as_ptr() == other.as_ptr()
}

#[test]
fn a_value_in_ram_is_lent_and_stays_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().open(dir.path()).unwrap();
    for number in 0..500 {
        db.put(key(number), value(number, 300)).unwrap();
    }
    assert!(is_lent(&db, 7), "out of a new record");
    let new = get(&db, 7);
    db.flush().unwrap();
    // The first get may read a table; what it read comes into RAM.
    assert!((0..1000).any(|_| is_lent(&db, 8)), "out of a page or a row");
    let kept = get(&db, 8);
    for number in 0..500 {
        db.put(key(number), "other").unwrap();
    }
    db.delete(key(8)).unwrap();
    db.flush().unwrap();
    db.settle_debt().unwrap();
    assert_eq!(db.get(key(8)).unwrap(), None);
    db.close().unwrap();
    assert_eq!(
        *new,
        *value(7, 300),
        "after it was overwritten, and the end of the database"
    );
    assert_eq!(*kept, *value(8, 300));
}

#[test]
fn values_read_from_tables_outlive_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let options = options().advanced(|advanced| {
            let advanced = advanced.munks(false).row_cache(false);
            advanced.warm_reopening(false)
        });
        options.open(dir.path()).unwrap()
    };
    let db = open();
    for number in 0..200 {
        let bytes = if number % 2 == 0 { 100_000 } else { 50 };
        db.put(key(number), value(number, bytes)).unwrap();
    }
    db.close().unwrap();
    let db = open();
    let held: Vec<_> = (0..200).map(|number| get(&db, number)).collect();
    let places: HashSet<_> = held.iter().map(|value| value.as_ptr()).collect();
    assert_eq!(places.len(), 200, "each get has read for itself");
    db.close().unwrap();
    for (number, found) in (0..200).zip(held) {
        let bytes = if number % 2 == 0 { 100_000 } else { 50 };
        assert_eq!(*found, *value(number, bytes));
    }
}

/// Values that are held through rewrites of all that lies around them, some in pages and some in
/// records, stay as they were.
#[test]
fn values_that_are_held_through_rewrites_stay_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().open(dir.path()).unwrap();
    const RECORDS: u32 = 20_000;
    let mut held = Vec::new();
    for number in 0..RECORDS {
        db.put(key(number), value(number, 400)).unwrap();
        if number % 50 == 0 {
            held.push((number, get(&db, number)));
        }
    }
    db.flush().unwrap();
    for round in 1..4 {
        for number in (0..RECORDS).step_by(50) {
            held.push((number, get(&db, number)));
        }
        for number in (0..RECORDS).filter(|number| number % 50 != 0) {
            db.put(key(number), value(number + round, 400)).unwrap();
        }
        db.flush().unwrap();
        db.settle_debt().unwrap();
    }
    assert_eq!(held.len(), 4 * 400);
    for (number, found) in &held {
        assert_eq!(**found, *value(*number, 400));
    }
    drop(held);
    db.close().unwrap();
}
