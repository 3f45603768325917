//! Seeks pay for compactions: a database that is only read ends with one run to look into, if the
//! option allows it.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::{DIR, Random, tiny_on};
use evendb_flsm::vfs::SimVfs;
use evendb_flsm::{Db, Durability};
use std::thread;
use std::time::Duration;

const KEYS: u64 = 3000;
const LAST: usize = 6;

fn key(number: u64) -> String {
    format!("{number:06}")
}

/// A database that was filled in no order and settled, with tables above the last level. No
/// compaction is due or running. Chance decides how many tables are in level 0 before the last
/// flush, and that flush may make a compaction due.
fn filled(vfs: &SimVfs, by_seeks: bool) -> Db {
    let options = tiny_on(vfs, Durability::Process, 1)
        .advanced(|advanced| advanced.compaction_by_seeks(by_seeks));
    let db = options.open(DIR).unwrap();
    for number in 0..KEYS {
        db.put(key(number * 997 % KEYS), [7; 100]).unwrap();
    }
    db.settle_debt().unwrap();
    for _ in 0..2 {
        db.put(key(0), "newer").unwrap();
        db.settle_debt().unwrap();
        if above_last(&db) > 0 {
            return db;
        }
    }
    panic!("nothing stays above the last level");
}

/// Bytes of tables above the last level.
fn above_last(db: &Db) -> u64 {
    db.stats().level_bytes[..LAST].iter().sum()
}

fn seek(db: &Db, random: &mut Random, count: usize) {
    for _ in 0..count {
        let from = random.below(KEYS);
        let found = db.range(key(from)..).next().unwrap().unwrap();
        assert_eq!(found.0, key(from).as_bytes());
        let found = db.range(..key(from + 1)).next_back().unwrap().unwrap();
        assert_eq!(found.0, key(from).as_bytes());
    }
}

#[test]
fn what_is_only_read_comes_to_lie_in_the_last_level() {
    let vfs = SimVfs::new(1);
    let db = filled(&vfs, true);
    let mut random = Random(1);
    let before = db.stats().compactions;
    // The workers are woken.
    let mut rounds = 0;
    while db.stats().compactions == before {
        seek(&db, &mut random, 50);
        thread::sleep(Duration::from_millis(1));
        rounds += 1;
        assert!(rounds < 20_000, "nobody compacts");
    }
    let mut rounds = 0;
    while above_last(&db) > 0 {
        seek(&db, &mut random, 200);
        db.settle_debt().unwrap();
        rounds += 1;
        assert!(rounds < 1000, "{} bytes stay", above_last(&db));
    }
    assert_eq!(db.iter().count() as u64, KEYS);
}

#[test]
fn seeks_change_nothing_where_they_are_not_to() {
    let vfs = SimVfs::new(1);
    let db = filled(&vfs, false);
    let before = (db.stats().compactions, above_last(&db));
    seek(&db, &mut Random(1), 10_000);
    db.settle_debt().unwrap();
    assert_eq!((db.stats().compactions, above_last(&db)), before);
}

/// After an error an iterator does not seem to be at its end: after a seek it returns the error
/// again.
#[test]
fn a_seek_after_an_error_is_no_silent_end() {
    let db = filled(&SimVfs::new(1), false);
    let (mut iter, mut keys) = (db.iter(), db.keys::<&str>(..));
    db.close().unwrap();
    let closed = |item: Option<evendb_flsm::Result<()>>| {
        let error = item.unwrap().unwrap_err();
        assert_eq!(error.kind(), evendb_flsm::ErrorKind::Closed);
    };
    for _ in 0..3 {
        closed(iter.next().map(|item| item.map(drop)));
        assert!(iter.next().is_none() && iter.next_back().is_none());
        iter.seek("k");
        closed(iter.next_back().map(|item| item.map(drop)));
        assert!(iter.next().is_none());
        iter.seek_back("k");
        closed(keys.next_back().map(|item| item.map(drop)));
        assert!(keys.next().is_none());
        keys.seek_back("k");
        closed(keys.next().map(|item| item.map(drop)));
        keys.seek("k");
    }
}
