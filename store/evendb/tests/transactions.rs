//! The promises of a transaction, one for each test: what makes it fail, and what does not,
//! whatever the database does in between (checkpoints, splits, rewrites).
//!
//! Iterators that are sought are in `transactions/cursors.rs`, locks in `transactions/locks.rs`,
//! errors and `transact` in `transactions/errors.rs`, own reads against an ordered map in
//! `transactions/model.rs`, iterators over own merges in `transactions/operands.rs`.

mod common;

#[path = "transactions/cursors.rs"]
mod cursors;
#[path = "transactions/errors.rs"]
mod errors;
#[path = "transactions/locks.rs"]
mod locks;
mod merging;
#[path = "transactions/model.rs"]
mod model;
#[path = "transactions/operands.rs"]
mod operands;
#[path = "transactions/seen.rs"]
mod seen;

use common::{DIR, has_chunks, on_sim};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Db, Durability, Error, ErrorKind, Keyspace, Transaction, Value};
use std::thread;

fn open() -> Db {
    let options = on_sim(&SimVfs::new(1), Durability::Process, 1);
    options.open(DIR).expect("opens")
}

fn begin(db: &Db) -> Transaction {
    db.transaction().expect("begins")
}

/// The value as text, or nothing.
fn get(transaction: &Transaction, keyspace: &Keyspace, key: &str) -> Option<String> {
    let value = transaction.get(keyspace, key).expect("gets");
    value.map(|value| String::from_utf8(value.to_vec()).expect("text"))
}

fn keys(iter: impl Iterator<Item = evendb::Result<(Value, Value)>>) -> Vec<String> {
    let key = |item: evendb::Result<(Value, Value)>| {
        let (key, _) = item.expect("no error");
        String::from_utf8(key.to_vec()).expect("text")
    };
    iter.map(key).collect()
}

fn refused<T: std::fmt::Debug>(done: Result<T, Error>, kind: ErrorKind) -> Error {
    let error = done.expect_err("it is refused");
    assert_eq!(error.kind(), kind, "{error:?}");
    error
}

/// The work of the database between the steps of a test.
#[derive(Clone, Copy, Debug)]
enum Between {
    Nothing,
    /// A checkpoint: deltas leave the chunks.
    Flush,
    /// Puts to keys that begin with `m`, a checkpoint, splits and rewrites.
    Splits,
    /// Everything is rewritten.
    Compact,
}

const BETWEEN: [Between; 4] = [
    Between::Nothing,
    Between::Flush,
    Between::Splits,
    Between::Compact,
];

impl Between {
    fn happens(self, db: &Db) {
        match self {
            Between::Nothing => {}
            Between::Flush => db.flush().expect("flushes"),
            Between::Splits => {
                let (splits, checkpoints) = (db.stats().splits, db.stats().checkpoints);
                for number in 0..300 {
                    let key = format!("m{checkpoints:03}/{number:04}");
                    db.put(key, [7; 60]).expect("puts");
                }
                db.idle_pass().expect("a pass");
                let is_split = db.stats().splits > splits;
                assert!(is_split || !has_chunks(), "nothing was split");
            }
            Between::Compact => db.compact().map(drop).expect("compacts"),
        }
    }
}

/// A database with the keys `a` to `z` without `m`, some of them in memory only; and the work of
/// the database before and after the writes of others.
fn in_each_case(test: impl Fn(&Db, &dyn Fn(&str), &dyn Fn(&str))) {
    for before in BETWEEN {
        for after in BETWEEN {
            let db = open();
            for (place, letter) in ('a'..='z').filter(|&letter| letter != 'm').enumerate() {
                db.put(letter.to_string(), "old").expect("puts");
                if place == 12 {
                    db.flush().expect("flushes");
                }
            }
            let other_puts = |key: &str| {
                println!("{before:?}, put of {key}, {after:?}");
                before.happens(&db);
                db.put(key, "new").expect("puts");
                after.happens(&db);
            };
            let other_deletes = |key: &str| {
                println!("{before:?}, delete of {key}, {after:?}");
                before.happens(&db);
                db.delete(key).expect("deletes");
                after.happens(&db);
            };
            test(&db, &other_puts, &other_deletes);
        }
    }
}

/// Commits a write to a key that nobody else writes.
fn commit(mut transaction: Transaction, db: &Db) -> evendb::Result<()> {
    let keyspace = db.default_keyspace();
    transaction.put(keyspace, "~", "own").expect("puts");
    let done = transaction.commit();
    let is_there = db.contains_key("~").expect("gets");
    assert_eq!(is_there, done.is_ok(), "all or nothing: {done:?}");
    done
}

#[test]
fn a_key_that_was_read_and_changed_is_a_conflict() {
    in_each_case(|db, put, _| {
        let transaction = begin(db);
        assert_eq!(
            get(&transaction, db.default_keyspace(), "f").unwrap(),
            "old"
        );
        put("f");
        assert_eq!(
            get(&transaction, db.default_keyspace(), "f").unwrap(),
            "old"
        );
        let error = refused(commit(transaction, db), ErrorKind::Conflict);
        assert!(error.to_string().contains("nothing was written"), "{error}");
    });
}

#[test]
fn a_key_that_was_read_and_deleted_or_appears_is_a_conflict() {
    in_each_case(|db, _, delete| {
        let transaction = begin(db);
        assert!(
            transaction
                .contains_key(db.default_keyspace(), "t")
                .expect("gets")
        );
        delete("t");
        refused(commit(transaction, db), ErrorKind::Conflict);
    });
    in_each_case(|db, put, _| {
        let transaction = begin(db);
        let read = transaction.multi_get(db.default_keyspace(), &["a", "ff", "z"]);
        assert!(read.expect("gets")[1].is_none());
        put("ff");
        refused(commit(transaction, db), ErrorKind::Conflict);
    });
}

#[test]
fn a_neighbour_of_what_was_read_is_none() {
    in_each_case(|db, put, delete| {
        let transaction = begin(db);
        for key in ["c", "f", "ff", "y"] {
            get(&transaction, db.default_keyspace(), key);
        }
        put("g");
        delete("b");
        put("fff");
        commit(transaction, db).expect("what it read is the same");
        assert_eq!(db.get("g").expect("gets").expect("is there"), "new");
        assert!(!db.contains_key("b").expect("gets"));
    });
}

#[test]
fn blind_writes_never_conflict_and_the_last_commit_stays() {
    in_each_case(|db, put, _| {
        let (mut first, mut second) = (begin(db), begin(db));
        first
            .put(db.default_keyspace(), "f", "first")
            .expect("puts");
        second
            .put(db.default_keyspace(), "f", "second")
            .expect("puts");
        put("f");
        commit(second, db).expect("it read nothing");
        commit(first, db).expect("it read nothing");
        assert_eq!(db.get("f").expect("gets").expect("is there"), "first");
    });
}

#[test]
fn a_phantom_is_a_conflict() {
    for key in ["d", "ee", "f", "gzzz"] {
        in_each_case(|db, put, _| {
            let transaction = begin(db);
            let iter = transaction
                .range(db.default_keyspace(), "d".."h")
                .expect("own");
            assert_eq!(keys(iter), ["d", "e", "f", "g"]);
            put(key);
            refused(commit(transaction, db), ErrorKind::Conflict);
        });
    }
    // A put into the range of a prefix that was empty.
    in_each_case(|db, put, _| {
        let transaction = begin(db);
        let iter = transaction
            .prefix(db.default_keyspace(), "m/")
            .expect("own");
        assert!(keys(iter).is_empty());
        put("m/1");
        refused(commit(transaction, db), ErrorKind::Conflict);
    });
}

#[test]
fn a_delete_from_a_range_that_was_scanned_is_a_conflict() {
    in_each_case(|db, _, delete| {
        let transaction = begin(db);
        let iter = transaction
            .range(db.default_keyspace(), ..="c")
            .expect("own");
        assert_eq!(keys(iter.rev()), ["c", "b", "a"]);
        delete("a");
        refused(commit(transaction, db), ErrorKind::Conflict);
    });
}

#[test]
fn what_lies_beside_a_range_is_none() {
    in_each_case(|db, put, _| {
        let transaction = begin(db);
        let iter = transaction
            .range(db.default_keyspace(), "d".."h")
            .expect("own");
        assert_eq!(keys(iter).len(), 4);
        put("h");
        put("czzz");
        commit(transaction, db).expect("the range is the same");
    });
}

/// Takes `front` records from the front of everything below `m` and `back` from the back, and drops
/// the iterator.
fn read_a_part(transaction: &Transaction, db: &Db, front: usize, back: usize) {
    let mut iter = transaction
        .range(db.default_keyspace(), .."m")
        .expect("own");
    for _ in 0..front {
        iter.next().expect("a record").expect("no error");
    }
    for _ in 0..back {
        iter.next_back().expect("a record").expect("no error");
    }
}

#[test]
fn only_what_a_scan_passed_counts_as_read() {
    // Records a to l: three from the front, two from the back; c and k are the last ones given.
    let cases = [
        ("aa", false),
        ("bz", false),
        ("c", false),
        ("c!", true),
        ("f", true),
        ("jzz", true),
        ("k", false),
        ("k!", false),
        ("lz", false),
    ];
    for (key, passes) in cases {
        in_each_case(|db, put, _| {
            let transaction = begin(db);
            read_a_part(&transaction, db, 3, 2);
            put(key);
            match passes {
                true => commit(transaction, db).expect("outside of what was passed"),
                false => drop(refused(commit(transaction, db), ErrorKind::Conflict)),
            }
        });
    }
}

#[test]
fn a_scan_from_one_end_reads_nothing_of_the_other() {
    in_each_case(|db, put, _| {
        let transaction = begin(db);
        read_a_part(&transaction, db, 2, 0);
        put("c");
        put("l");
        commit(transaction, db).expect("not reached");
    });
    in_each_case(|db, put, delete| {
        let transaction = begin(db);
        read_a_part(&transaction, db, 0, 2);
        read_a_part(&transaction, db, 0, 0);
        put("a");
        delete("j");
        commit(transaction, db).expect("not reached");
    });
}

#[test]
fn a_scan_that_ended_has_read_everything() {
    in_each_case(|db, put, _| {
        let transaction = begin(db);
        let mut iter = transaction
            .range(db.default_keyspace(), "a".."e")
            .expect("own");
        assert_eq!(iter.by_ref().count(), 4);
        assert!(iter.next().is_none() && iter.next_back().is_none());
        drop(iter);
        put("dz");
        refused(commit(transaction, db), ErrorKind::Conflict);
    });
}

#[test]
fn an_iterator_that_is_forgotten_has_read_its_whole_range() {
    for key in ["a", "f", "lz"] {
        in_each_case(|db, put, _| {
            let transaction = begin(db);
            let mut iter = transaction
                .range(db.default_keyspace(), .."m")
                .expect("own");
            iter.next().expect("a record").expect("no error");
            std::mem::forget(iter);
            put(key);
            refused(commit(transaction, db), ErrorKind::Conflict);
        });
    }
    in_each_case(|db, put, _| {
        let transaction = begin(db);
        let iter = transaction
            .range(db.default_keyspace(), .."m")
            .expect("own");
        std::mem::forget(iter);
        put("n");
        commit(transaction, db).expect("beside the range");
    });
}

#[test]
fn a_write_skew_is_refused() {
    in_each_case(|db, _, _| {
        let keyspace = db.default_keyspace();
        let (mut first, mut second) = (begin(db), begin(db));
        for transaction in [&first, &second] {
            get(transaction, keyspace, "a");
            get(transaction, keyspace, "z");
        }
        first.put(keyspace, "a", "off duty").expect("puts");
        second.put(keyspace, "z", "off duty").expect("puts");
        first.commit().expect("the first one");
        refused(second.commit(), ErrorKind::Conflict);
        assert_eq!(db.get("z").expect("gets").expect("is there"), "old");
    });
}

#[test]
fn one_that_only_reads_never_conflicts_and_sees_one_moment() {
    in_each_case(|db, put, delete| {
        let keyspace = db.default_keyspace();
        let transaction = begin(db);
        assert_eq!(get(&transaction, keyspace, "a").unwrap(), "old");
        put("a");
        put("nn");
        delete("b");
        assert_eq!(get(&transaction, keyspace, "a").unwrap(), "old");
        let all = keys(transaction.iter(keyspace).expect("own"));
        assert_eq!(all.len(), 25, "{all:?}");
        transaction.commit().expect("read only");
    });
}

#[test]
fn what_others_changed_to_the_same_value_may_be_a_conflict_and_the_value_stays() {
    in_each_case(|db, _, _| {
        let transaction = begin(db);
        get(&transaction, db.default_keyspace(), "f");
        db.put("f", "old").expect("puts");
        db.flush().expect("flushes");
        match commit(transaction, db) {
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}"),
        }
        assert_eq!(db.get("f").expect("gets").expect("is there"), "old");
    });
}

#[test]
fn keyspaces_are_kept_apart_and_committed_together() {
    in_each_case(|db, put, _| {
        let other = db.keyspace("other").expect("a keyspace");
        other.put("f", "there").expect("puts");
        let mut transaction = begin(db);
        assert_eq!(get(&transaction, &other, "f").unwrap(), "there");
        transaction.put(&other, "g", "there").expect("puts");
        transaction
            .put(db.default_keyspace(), "g", "here")
            .expect("puts");
        assert_eq!(get(&transaction, &other, "g").unwrap(), "there");
        assert_eq!(keys(transaction.iter(&other).expect("own")), ["f", "g"]);
        put("f");
        transaction.commit().expect("another f");
        assert_eq!(other.get("g").expect("gets").expect("is there"), "there");
        assert_eq!(db.get("g").expect("gets").expect("is there"), "here");
    });
}

#[test]
fn nobody_sees_anything_before_the_commit_or_after_a_rollback() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    let mut transaction = begin(&db);
    assert!(transaction.is_empty());
    transaction.put(&keyspace, "a", "1").expect("puts");
    transaction.delete(&keyspace, "b").expect("deletes");
    transaction.put(&keyspace, "a", "2").expect("puts");
    assert_eq!(transaction.len(), 2);
    assert!(!db.contains_key("a").expect("gets"));
    assert_eq!(get(&begin(&db), &keyspace, "a"), None);
    transaction.rollback();
    drop(begin(&db));
    assert_eq!(db.iter().count(), 0);
}

#[test]
fn transactions_and_conflicts_are_counted() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    begin(&db).commit().expect("nothing");
    let mut transaction = begin(&db);
    transaction.put(&keyspace, "a", "1").expect("puts");
    transaction.commit().expect("commits");
    let transaction = begin(&db);
    get(&transaction, &keyspace, "a");
    db.put("a", "2").expect("puts");
    refused(commit(transaction, &db), ErrorKind::Conflict);
    let stats = db.stats();
    assert_eq!((stats.transactions, stats.transaction_conflicts), (1, 1));
}

#[test]
fn a_transaction_is_durable_with_the_level_that_it_asks_for() {
    let vfs = SimVfs::new(3);
    let options = |vfs| on_sim(vfs, Durability::Relaxed, 1);
    let db = options(&vfs).open(DIR).expect("opens");
    let mut transaction = begin(&db);
    for letter in ["a", "b"] {
        let put = transaction.put(db.default_keyspace(), letter, "1");
        put.expect("puts");
    }
    transaction.durability(Durability::Sync);
    transaction.commit().expect("commits");
    let left = vfs.crash(CrashMode::PowerLossNothing);
    let db = options(&left).open(DIR).expect("reopens");
    assert_eq!(db.iter().count(), 2);
}

#[test]
fn a_transaction_may_be_sent() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    let mut transaction = begin(&db);
    let sent = thread::spawn(move || {
        transaction.put(&keyspace, "a", "1").expect("puts");
        transaction
    });
    sent.join().expect("no panic").commit().expect("commits");
    assert!(db.contains_key("a").expect("gets"));
}
