//! `get_for_update`: which transaction waits for which, what is read under a lock, when a lock
//! ends, and the errors.
//!
//! A transaction that does not wait (a timeout of zero) shows whether a key is locked. If threads
//! wait for each other, the result shows in which order they continued.

use super::{begin, commit, get, keys, open, refused};
use evendb::{Db, Error, ErrorKind, Keyspace, Transaction};
use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(600);

fn lock(transaction: &Transaction, keyspace: &Keyspace, key: &str) -> Option<String> {
    let value = transaction.get_for_update(keyspace, key).expect("locks");
    value.map(|value| String::from_utf8(value.to_vec()).expect("text"))
}

/// Whether some other transaction has the key locked.
fn is_locked(db: &Db, keyspace: &Keyspace, key: &str) -> bool {
    let mut transaction = begin(db);
    transaction.lock_timeout(Duration::ZERO);
    match transaction.get_for_update(keyspace, key) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::LockTimeout, "{error:?}");
            true
        }
    }
}

#[test]
fn a_locked_key_is_refused_to_one_that_does_not_wait() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    let holder = begin(&db);
    assert_eq!(lock(&holder, &keyspace, "a"), None);
    // Once more, by the same transaction.
    assert_eq!(lock(&holder, &keyspace, "a"), None);
    let mut other = begin(&db);
    other.lock_timeout(Duration::ZERO);
    let error = refused(other.get_for_update(&keyspace, "a"), ErrorKind::LockTimeout);
    assert!(error.to_string().contains("\"a\""), "{error}");
    // The same name elsewhere is another key; and transactions that do not ask for the lock are not
    // delayed.
    let elsewhere = db.keyspace("elsewhere").expect("a keyspace");
    assert_eq!(lock(&other, &elsewhere, "a"), None);
    assert_eq!(lock(&other, &keyspace, "b"), None);
    assert_eq!(get(&other, &keyspace, "a"), None);
    db.put("b", "1").expect("puts");
}

#[test]
fn a_lock_ends_with_its_transaction() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    let locked = || {
        let transaction = begin(&db);
        lock(&transaction, &keyspace, "a");
        lock(&transaction, &keyspace, "b");
        assert!(is_locked(&db, &keyspace, "a") && is_locked(&db, &keyspace, "b"));
        transaction
    };
    let free = || {
        assert!(!is_locked(&db, &keyspace, "a") && !is_locked(&db, &keyspace, "b"));
    };
    drop(locked());
    free();
    locked().rollback();
    free();
    locked().commit().expect("nothing");
    free();
    commit(locked(), &db).expect("commits");
    free();
    db.delete("~").expect("deletes");
    // After a conflict.
    let transaction = locked();
    db.put("a", "1").expect("puts");
    refused(commit(transaction, &db), ErrorKind::Conflict);
    free();
    // A rollback to a savepoint is no end.
    let mut transaction = begin(&db);
    let savepoint = transaction.savepoint();
    lock(&transaction, &keyspace, "a");
    transaction.put(&keyspace, "a", "2").expect("puts");
    transaction.rollback_to(savepoint).expect("it is there");
    assert!(is_locked(&db, &keyspace, "a"));
}

#[test]
fn one_that_waits_reads_what_the_one_before_it_wrote() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    db.put("a", "first").expect("puts");
    let mut holder = begin(&db);
    lock(&holder, &keyspace, "a");
    let (asks, asked) = channel();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut transaction = begin(&db);
            transaction.lock_timeout(LONG);
            assert_eq!(get(&transaction, &keyspace, "b"), None);
            asks.send(()).expect("it listens");
            let found = lock(&transaction, &keyspace, "a");
            let put = transaction.put(&keyspace, "a", "third");
            put.and_then(|()| transaction.commit()).map(|()| found)
        });
        asked.recv().expect("it asks");
        holder.put(&keyspace, "a", "second").expect("puts");
        holder.commit().expect("commits");
        let found = waiter.join().expect("no panic").expect("commits");
        assert_eq!(found.as_deref(), Some("second"));
    });
    assert_eq!(db.get("a").expect("gets").expect("is there"), "third");
    assert_eq!(db.stats().transaction_conflicts, 0);
}

#[test]
fn those_that_lock_take_turns_without_a_conflict() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    const ROUNDS: u32 = 250;
    let add_one = |number: u32| {
        let mut transaction = begin(&db);
        transaction.lock_timeout(LONG);
        let found = lock(&transaction, &keyspace, "count").unwrap_or_default();
        let count: u32 = found.parse().unwrap_or(0);
        let put = transaction.put(&keyspace, "count", (count + 1).to_string());
        put.expect("puts");
        if number.is_multiple_of(50) {
            db.flush().expect("flushes");
        }
        transaction.commit().expect("nobody else writes the key");
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..ROUNDS).for_each(add_one));
        }
    });
    let count = db.get("count").expect("gets").expect("is there");
    assert_eq!(count, "1000");
    let stats = db.stats();
    assert_eq!((stats.transactions, stats.transaction_conflicts), (1000, 0));
}

/// The work of the database between a read and a lock.
fn with_and_without_checkpoints(test: impl Fn(&Db, &dyn Fn())) {
    for flushes in 0..3 {
        let db = open();
        for letter in ["a", "b", "c"] {
            db.put(letter, "old").expect("puts");
        }
        test(&db, &|| {
            for _ in 0..flushes {
                db.flush().expect("flushes");
                db.put("other", format!("{flushes}")).expect("puts");
            }
        });
    }
}

#[test]
fn a_lock_moves_the_moment_forward_where_nothing_read_has_changed() {
    with_and_without_checkpoints(|db, between| {
        let keyspace = db.default_keyspace();
        let mut transaction = begin(db);
        assert_eq!(get(&transaction, keyspace, "a").unwrap(), "old");
        let scanned = transaction.range(keyspace, "c".."d").expect("own");
        assert_eq!(keys(scanned), ["c"]);
        between();
        db.put("b", "new").expect("puts");
        between();
        assert_eq!(lock(&transaction, keyspace, "b").unwrap(), "new");
        assert_eq!(get(&transaction, keyspace, "a").unwrap(), "old");
        transaction.put(keyspace, "b", "newer").expect("puts");
        // From now on it reads its own write.
        assert_eq!(lock(&transaction, keyspace, "b").unwrap(), "newer");
        between();
        transaction
            .commit()
            .expect("nothing that it read has changed");
        assert_eq!(db.get("b").expect("gets").expect("is there"), "newer");
    });
}

#[test]
fn a_lock_after_which_the_reads_would_be_stale_is_a_conflict() {
    with_and_without_checkpoints(|db, between| {
        let keyspace = db.default_keyspace();
        let (by_key, by_range) = (begin(db), begin(db));
        assert_eq!(get(&by_key, keyspace, "a").unwrap(), "old");
        let scanned = by_range.range(keyspace, "A".."b").expect("own");
        assert_eq!(keys(scanned), ["a"]);
        between();
        db.put("a", "new").expect("puts");
        db.put("b", "new").expect("puts");
        between();
        for transaction in [by_key, by_range] {
            let conflict = ErrorKind::Conflict;
            refused(transaction.get_for_update(keyspace, "b"), conflict);
            // A transaction that continues nevertheless is refused at the end.
            refused(commit(transaction, db), conflict);
        }
    });
}

#[test]
fn a_lock_of_a_key_that_is_the_same_leaves_the_reads_to_the_commit() {
    with_and_without_checkpoints(|db, between| {
        let keyspace = db.default_keyspace();
        let transaction = begin(db);
        assert_eq!(get(&transaction, keyspace, "a").unwrap(), "old");
        between();
        db.put("a", "new").expect("puts");
        match transaction.get_for_update(keyspace, "c") {
            Ok(found) => assert_eq!(found.expect("is there"), "old"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}"),
        }
        refused(commit(transaction, db), ErrorKind::Conflict);
    });
}

#[test]
fn a_put_to_a_locked_key_is_a_conflict() {
    with_and_without_checkpoints(|db, between| {
        let keyspace = db.default_keyspace();
        let transaction = begin(db);
        lock(&transaction, keyspace, "b");
        between();
        db.put("b", "new").expect("puts");
        between();
        refused(commit(transaction, db), ErrorKind::Conflict);
    });
}

#[test]
fn an_open_iterator_goes_on_when_a_lock_moves_the_moment() {
    with_and_without_checkpoints(|db, between| {
        let keyspace = db.default_keyspace();
        let transaction = begin(db);
        let mut iter = transaction.range(keyspace, "a".."c").expect("own");
        iter.next().expect("a record").expect("no error");
        db.put("c", "new").expect("puts");
        between();
        assert_eq!(lock(&transaction, keyspace, "c").unwrap(), "new");
        assert_eq!(keys(iter), ["b"]);
        // Afterwards a key was put into the range.
        db.put("aa", "new").expect("puts");
        refused(commit(transaction, db), ErrorKind::Conflict);
    });
}

#[test]
fn of_two_that_wait_for_each_other_one_is_told() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    let both = Barrier::new(2);
    let take = |first: &str, second: &str| {
        let mut transaction = begin(&db);
        transaction.lock_timeout(LONG);
        lock(&transaction, &keyspace, first);
        both.wait();
        let done = transaction.get_for_update(&keyspace, second);
        let done = done.and_then(|_| transaction.put(&keyspace, first, second));
        done.and_then(|()| transaction.commit())
    };
    let ends: Vec<Result<(), Error>> = thread::scope(|scope| {
        let ends = [("a", "b"), ("b", "a")];
        let threads = ends.map(|(first, second)| scope.spawn(move || take(first, second)));
        threads
            .map(|thread| thread.join().expect("no panic"))
            .into()
    });
    let (done, told): (Vec<_>, Vec<_>) = ends.into_iter().partition(Result::is_ok);
    assert_eq!((done.len(), told.len()), (1, 1), "{told:?}");
    for end in told {
        refused(end, ErrorKind::Deadlock);
    }
    assert!(!is_locked(&db, &keyspace, "a") && !is_locked(&db, &keyspace, "b"));
}

#[test]
fn transact_gets_through_deadlocks() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    let both = Barrier::new(2);
    let take = |first: &str, second: &str| {
        let mut runs = 0;
        db.transact(|transaction| {
            runs += 1;
            transaction.lock_timeout(LONG);
            lock(transaction, &keyspace, first);
            if runs == 1 {
                both.wait();
            }
            transaction.get_for_update(&keyspace, second)?;
            transaction.put(&keyspace, format!("{first} {second}"), "done")
        })
    };
    thread::scope(|scope| {
        let threads = [("a", "b"), ("b", "a")]
            .map(|(first, second)| scope.spawn(move || take(first, second)));
        for thread in threads {
            thread
                .join()
                .expect("no panic")
                .expect("commits in the end");
        }
    });
    assert_eq!(db.iter().count(), 2);
}

#[test]
fn a_timeout_may_be_for_ever() {
    let db = open();
    let keyspace = db.default_keyspace().clone();
    let holder = begin(&db);
    lock(&holder, &keyspace, "a");
    let (asks, asked) = channel();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut transaction = begin(&db);
            transaction.lock_timeout(Duration::MAX);
            asks.send(()).expect("it listens");
            transaction.get_for_update(&keyspace, "a").map(drop)
        });
        asked.recv().expect("it asks");
        // By now the other thread most likely waits; the test holds either way.
        for _ in 0..1000 {
            thread::yield_now();
        }
        drop(holder);
        waiter.join().expect("no panic").expect("locks");
    });
}
