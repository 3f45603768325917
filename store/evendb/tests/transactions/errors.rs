//! Every error of a transaction, and that it continues after an error of a single call; and how
//! `transact`, `compare_and_swap` and `fetch_update` handle a conflict.

use super::{begin, commit, get, open, refused};
use crate::common::{DIR, on_sim, tiny};
use evendb::vfs::SimVfs;
use evendb::{Db, Durability, Error, ErrorKind};
use std::thread;

/// The error of `body` in a test, like an application's.
#[derive(Debug)]
enum Failure {
    Store(Error),
    Own(&'static str),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Store(error)
    }
}

#[test]
fn a_keyspace_of_another_database_is_refused() {
    let (db, other) = (open(), open());
    let foreign = other.default_keyspace();
    let mut transaction = begin(&db);
    let invalid = ErrorKind::InvalidArgument;
    refused(transaction.get(foreign, "a"), invalid);
    refused(transaction.contains_key(foreign, "a"), invalid);
    refused(transaction.multi_get(foreign, &["a"]), invalid);
    refused(transaction.get_for_update(foreign, "a"), invalid);
    refused(transaction.put(foreign, "a", "1"), invalid);
    refused(transaction.delete(foreign, "a"), invalid);
    refused(transaction.range(foreign, "a".."b"), invalid);
    refused(transaction.prefix(foreign, "a"), invalid);
    refused(transaction.iter(foreign), invalid);
    commit(transaction, &db).expect("it goes on");
    assert!(!other.contains_key("a").expect("gets"));
}

#[test]
fn a_closed_database_is_refused() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    let mut transaction = begin(&db);
    transaction.put(&keyspace, "a", "1").expect("puts");
    let reader = begin(&db);
    db.clone().close().expect("closes");
    refused(db.transaction(), ErrorKind::Closed);
    refused(reader.get(&keyspace, "b"), ErrorKind::Closed);
    refused(reader.get_for_update(&keyspace, "b"), ErrorKind::Closed);
    let mut iter = reader.iter(&keyspace).expect("its own keyspace");
    refused(iter.next().expect("an item"), ErrorKind::Closed);
    assert!(iter.next().is_none() && iter.next_back().is_none());
    drop(iter);
    refused(reader.commit(), ErrorKind::Closed);
    refused(transaction.put(&keyspace, "b", "1"), ErrorKind::Closed);
    refused(transaction.commit(), ErrorKind::Closed);
    let ran: Result<(), Error> = db.transact(|_| panic!("it does not run"));
    refused(ran, ErrorKind::Closed);
}

#[test]
fn a_database_for_reading_is_only_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = || tiny(Durability::Process, 1);
    let db = options().open(dir.path()).expect("opens");
    db.put("a", "1").expect("puts");
    db.close().expect("closes");
    let db = options().read_only(true).open(dir.path()).expect("opens");
    let keyspace = db.default_keyspace().clone();
    let mut transaction = begin(&db);
    assert_eq!(get(&transaction, &keyspace, "a").unwrap(), "1");
    let locked = transaction.get_for_update(&keyspace, "a").expect("gets");
    assert_eq!(locked.expect("is there"), "1");
    refused(transaction.put(&keyspace, "a", "2"), ErrorKind::ReadOnly);
    refused(transaction.delete(&keyspace, "a"), ErrorKind::ReadOnly);
    transaction.commit().expect("read only");
    let swapped = db.compare_and_swap("a", Some("1"), Some("2"));
    refused(swapped, ErrorKind::ReadOnly);
}

#[test]
fn a_keyspace_that_was_dropped_is_refused() {
    let db = open();
    let gone = db.keyspace("gone").expect("a keyspace");
    gone.put("a", "1").expect("puts");
    let (mut writer, reader) = (begin(&db), begin(&db));
    writer.put(&gone, "b", "1").expect("puts");
    writer.put(db.default_keyspace(), "b", "1").expect("puts");
    db.drop_keyspace("gone").expect("drops");
    // The moment that it reads is an earlier one.
    assert_eq!(get(&reader, &gone, "a").unwrap(), "1");
    refused(writer.commit(), ErrorKind::KeyspaceDropped);
    assert!(!db.contains_key("b").expect("gets"));
    refused(begin(&db).get(&gone, "a"), ErrorKind::KeyspaceDropped);
    let mut late = begin(&db);
    let put = late.put(&gone, "b", "1");
    refused(put.and_then(|()| late.commit()), ErrorKind::KeyspaceDropped);
}

#[test]
fn keys_values_and_batches_that_are_too_large_are_refused() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    let mut transaction = begin(&db);
    let long = vec![1; 65_536];
    refused(
        transaction.put(&keyspace, &long, "1"),
        ErrorKind::KeyTooLarge,
    );
    refused(transaction.delete(&keyspace, &long), ErrorKind::KeyTooLarge);
    let locked = transaction.get_for_update(&keyspace, &long);
    refused(locked, ErrorKind::KeyTooLarge);
    assert!(transaction.get(&keyspace, &long).expect("gets").is_none());
    // A quarter of the budget is 256 KiB.
    let large = vec![1; 257 << 10];
    refused(
        transaction.put(&keyspace, "a", &large),
        ErrorKind::ValueTooLarge,
    );
    assert!(transaction.is_empty());
    // All writes may have 64 times the budget, 64 MiB.
    for number in 0..263 {
        let value = vec![1; 250 << 10];
        transaction
            .put(&keyspace, number.to_string(), value)
            .expect("puts");
    }
    let error = refused(transaction.commit(), ErrorKind::BatchTooLarge);
    assert!(error.to_string().contains("263 records"), "{error}");
    assert_eq!(db.iter().count(), 0);
}

#[test]
fn a_savepoint_that_is_gone_is_refused() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    let mut transaction = begin(&db);
    transaction.put(&keyspace, "a", "1").expect("puts");
    let first = transaction.savepoint();
    transaction.put(&keyspace, "b", "1").expect("puts");
    let second = transaction.savepoint();
    transaction.put(&keyspace, "c", "1").expect("puts");
    transaction.rollback_to(first).expect("it is there");
    let invalid = ErrorKind::InvalidArgument;
    refused(transaction.rollback_to(second), invalid);
    // The savepoint does not come back with later writes.
    for letter in ["x", "y", "z"] {
        transaction.put(&keyspace, letter, "1").expect("puts");
    }
    refused(transaction.rollback_to(second), invalid);
    let third = transaction.savepoint();
    transaction.delete(&keyspace, "a").expect("deletes");
    transaction.rollback_to(third).expect("it is there");
    transaction.rollback_to(third).expect("it stays");
    assert_eq!(transaction.len(), 4);
    transaction.commit().expect("commits");
    let keys: Vec<_> = db.iter().map(|item| item.expect("no error").0).collect();
    assert_eq!(keys, ["a", "x", "y", "z"]);
}

#[test]
fn a_savepoint_of_another_transaction_is_refused() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    let (mut first, mut second) = (begin(&db), begin(&db));
    let other = first.savepoint();
    second.put(&keyspace, "a", "1").expect("puts");
    second.savepoint();
    second.put(&keyspace, "b", "1").expect("puts");
    refused(second.rollback_to(other), ErrorKind::InvalidArgument);
    assert_eq!(second.len(), 2);
}

#[test]
fn transact_returns_what_its_body_returns() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    let mut runs = 0;
    let done: Result<u32, Failure> = db.transact(|transaction| {
        runs += 1;
        transaction.put(&keyspace, "a", "1")?;
        Ok(7)
    });
    assert_eq!((done.expect("commits"), runs), (7, 1));
    // An error of its own ends it at once, and nothing was written.
    let done: Result<(), Failure> = db.transact(|transaction| {
        runs += 1;
        transaction.put(&keyspace, "a", "2")?;
        Err(Failure::Own("no money"))
    });
    assert!(matches!(done, Err(Failure::Own("no money"))), "{done:?}");
    let stays = db.get("a").expect("gets").expect("is there");
    assert_eq!(runs, 2);
    assert_eq!(stays, "1");
    let done: Result<(), Failure> = db.transact(|transaction| {
        runs += 1;
        transaction.put(&keyspace, vec![1; 70_000], "2")?;
        Ok(())
    });
    match done {
        Err(Failure::Store(error)) => assert_eq!(error.kind(), ErrorKind::KeyTooLarge),
        other => panic!("{other:?}"),
    }
    assert_eq!((runs, db.stats().transactions), (3, 1));
}

#[test]
fn transact_tries_again_until_nobody_comes_between() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    let mut runs = 0;
    let done: Result<Option<String>, Error> = db.transact(|transaction| {
        runs += 1;
        let found = get(transaction, &keyspace, "a");
        if runs < 5 {
            db.put("a", format!("{runs}"))?;
        }
        transaction.put(&keyspace, "b", "own")?;
        Ok(found)
    });
    assert_eq!((done.expect("the fifth").unwrap(), runs), ("4".into(), 5));
    let stats = db.stats();
    assert_eq!((stats.transactions, stats.transaction_conflicts), (1, 4));
}

#[test]
fn transact_gives_up_after_its_attempts() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    let mut runs = 0;
    let done: Result<(), Failure> = db.transact(|transaction| {
        runs += 1;
        transaction.get(&keyspace, "a")?;
        db.put("a", format!("{runs}"))?;
        transaction.put(&keyspace, "b", "own")?;
        Ok(())
    });
    match done {
        Err(Failure::Store(error)) => assert_eq!(error.kind(), ErrorKind::Conflict),
        other => panic!("{other:?}"),
    }
    assert_eq!(runs, 64);
    assert!(!db.contains_key("b").expect("gets"));
    // Its last attempts locked the key, and left no lock behind.
    let mut transaction = begin(&db);
    transaction.lock_timeout(std::time::Duration::ZERO);
    let found = transaction.get_for_update(&keyspace, "a").expect("locks");
    assert_eq!(found.expect("is there"), "64");
}

#[test]
fn compare_and_swap_says_what_it_found() {
    let db = open();
    let swap = |expected: Option<&str>, new: Option<&str>| {
        let swapped = db.compare_and_swap("a", expected, new).expect("no error");
        swapped.map_err(|found| found.map(|value| value.to_vec()))
    };
    let found = |value: &str| Err(Some(value.as_bytes().to_vec()));
    assert_eq!(swap(Some("0"), Some("1")), Err(None));
    assert_eq!(swap(None, Some("1")), Ok(()));
    assert_eq!(swap(None, Some("2")), found("1"));
    assert_eq!(swap(Some("2"), None), found("1"));
    assert_eq!(swap(Some("1"), Some("2")), Ok(()));
    assert_eq!(db.get("a").expect("gets").expect("is there"), "2");
    assert_eq!(swap(Some("2"), None), Ok(()));
    assert!(!db.contains_key("a").expect("gets"));
    // Swaps nothing for nothing.
    assert_eq!(swap(None, None), Ok(()));
}

const COUNTERS: u64 = 8;
const INCREMENTS: u64 = 500;

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| {
        u64::from_le_bytes(value.try_into().expect("eight bytes"))
    })
}

/// Each of eight threads calls `increment` five hundred times; beside them there are checkpoints.
fn count(increment: impl Fn(&Db) + Sync) -> u64 {
    let options = on_sim(&SimVfs::new(2), Durability::Process, 1);
    let db = options.open(DIR).expect("opens");
    thread::scope(|scope| {
        for _ in 0..COUNTERS {
            scope.spawn(|| {
                for round in 0..INCREMENTS {
                    increment(&db);
                    if round % 100 == 0 {
                        db.flush().expect("flushes");
                    }
                }
            });
        }
    });
    number(db.get("count").expect("gets").as_deref())
}

#[test]
fn fetch_update_loses_no_increment() {
    let counted = count(|db| {
        let add_one = |value: Option<&[u8]>| Some((number(value) + 1).to_le_bytes());
        db.fetch_update("count", add_one).expect("no error");
    });
    assert_eq!(counted, COUNTERS * INCREMENTS);
}

#[test]
fn compare_and_swap_loses_no_increment() {
    let counted = count(|db| {
        let mut found = db.get("count").expect("gets");
        loop {
            let next = (number(found.as_deref()) + 1).to_le_bytes();
            let swapped = db.compare_and_swap("count", found.as_deref(), Some(&next[..]));
            match swapped.expect("no error") {
                Ok(()) => return,
                Err(other) => found = other,
            }
        }
    });
    assert_eq!(counted, COUNTERS * INCREMENTS);
}

/// The records that it read are gone, and writes that come after the drop must not depend on them.
#[test]
fn a_commit_that_has_read_a_dropped_keyspace_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = crate::common::options().open(dir.path()).expect("opens");
    let gone = db.keyspace("gone").expect("a keyspace");
    gone.put("a", "1").expect("puts");
    let mut transaction = db.transaction().expect("begins");
    assert!(transaction.contains_key(&gone, "a").expect("gets"));
    db.drop_keyspace("gone").expect("drops");
    let keyspace = db.default_keyspace();
    transaction.put(keyspace, "b", "2").expect("puts");
    let error = transaction.commit().expect_err("it is refused");
    assert_eq!(error.kind(), evendb::ErrorKind::KeyspaceDropped);
    assert!(db.get("b").expect("gets").is_none());
}
