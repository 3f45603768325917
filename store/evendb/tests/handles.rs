//! Handles, snapshots and iterators: sent to, shared with and kept by any thread; after an error,
//! after their keyspace was dropped, and given to a database that is not theirs.

use evendb::{
    Batch, Cursor, Db, Error, ErrorKind, Iter, Keyspace, Options, Result, Snapshot, Stats, Value,
};
use std::iter::FusedIterator;
use std::path::Path;

fn is_free<T: Send + Sync + 'static>() {}
fn is_fused<T: FusedIterator + DoubleEndedIterator>() {}

#[test]
fn handles_are_send_sync_and_static() {
    is_free::<Db>();
    is_free::<Keyspace>();
    is_free::<Snapshot>();
    is_free::<Iter>();
    is_free::<Cursor>();
    is_free::<Value>();
    is_free::<Batch>();
    is_free::<Options>();
    is_free::<Error>();
    is_free::<Stats>();
    is_fused::<Iter>();
}

#[test]
fn they_outlive_the_scope_that_made_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut iter, snapshot, keyspace, value) = {
        let db = Db::open(dir.path()).expect("opens");
        db.put("a", "1").expect("puts");
        let value = db.get("a").expect("gets").expect("is there");
        (
            db.iter(),
            db.snapshot().expect("a snapshot"),
            db.default_keyspace().clone(),
            value,
        )
    };
    let seen = std::thread::spawn(move || {
        keyspace
            .put("a", "2")
            .expect("the keyspace keeps the database open");
        let old = snapshot
            .get(&keyspace, "a")
            .expect("gets")
            .expect("is there");
        (iter.next().expect("one record").expect("no error"), old)
    });
    let ((key, first), old) = seen.join().expect("no panic");
    assert_eq!((&*key, &*first, &*old), (&b"a"[..], &b"1"[..], &b"1"[..]));
    // The database is closed by now; the value has its bytes.
    assert_eq!(value, "1");
    assert_eq!(
        Db::open(dir.path())
            .expect("opens")
            .get("a")
            .expect("gets")
            .expect("is there"),
        "2"
    );
}

/// A database without threads and with little memory.
fn small(dir: &Path) -> Db {
    let options = Options::new().memory_budget(1 << 20).workers(0);
    options.open(dir).expect("opens")
}

/// The kind of error that a call returned.
fn kind<T>(result: Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("not refused"),
        Err(error) => error.kind(),
    }
}

/// The items of an iterator that should give one error and end: the number of records, that of
/// errors, and whether it ended within `limit` items, taken from the front or the back.
fn drain(iter: &mut Iter, forward: bool, limit: usize) -> (usize, usize, bool) {
    let (mut records, mut errors) = (0, 0);
    for _ in 0..limit {
        let item = if forward {
            iter.next()
        } else {
            iter.next_back()
        };
        match item {
            None => return (records, errors, true),
            Some(Ok(_)) => records += 1,
            Some(Err(_)) => errors += 1,
        }
    }
    (records, errors, false)
}

/// Flips a bit of the first byte in each of the database's tables.
fn damage_tables(dir: &Path) {
    let mut damaged = 0;
    for entry in std::fs::read_dir(dir).expect("lists") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "sst") {
            let mut bytes = std::fs::read(&path).expect("reads");
            bytes[0] ^= 1;
            std::fs::write(&path, bytes).expect("writes");
            damaged += 1;
        }
    }
    assert!(damaged > 0, "no tables to damage");
}

#[test]
fn an_iterator_over_a_damaged_block_gives_the_error_once_and_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = small(dir.path());
    for number in 0..2000 {
        db.put(format!("key{number:04}"), [7; 100]).expect("puts");
    }
    db.compact().expect("compacts");
    db.close().expect("closes");
    damage_tables(dir.path());
    let db = small(dir.path());
    for forward in [true, false] {
        let mut iter = db.iter();
        let (records, errors, ended) = drain(&mut iter, forward, 4000);
        assert!(
            records < 2000 && errors == 1 && ended,
            "{records} {errors} {ended}"
        );
        // Neither end continues.
        assert!(iter.next().is_none() && iter.next_back().is_none());
    }
    let collected: Result<Vec<_>> = db.iter().collect();
    assert_eq!(kind(collected), ErrorKind::Corruption);
    // `count` as a beginner writes it.
    assert!(db.iter().flatten().take(4000).count() < 2000);
    // A cursor stays at its error, at both ends.
    let mut cursor = db.cursor::<&str>(..);
    let first = loop {
        match cursor.next() {
            Ok(record) => assert!(record.is_some(), "the damage was not seen"),
            Err(error) => break error,
        }
    };
    for _ in 0..3 {
        let again = [
            cursor.next().expect_err("sticky"),
            cursor.next_back().expect_err("sticky"),
        ];
        assert!(
            again
                .iter()
                .all(|error| error.to_string() == first.to_string())
        );
    }
}

#[test]
fn an_iterator_over_a_closed_database_gives_the_error_once_and_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = small(dir.path());
    for number in 0..2000 {
        db.put(format!("key{number:04}"), "v").expect("puts");
    }
    let keyspace = db.default_keyspace().clone();
    let snapshot = db.snapshot().expect("a snapshot");
    let mut begun = [db.iter(), db.iter()];
    for iter in &mut begun {
        iter.next().expect("a record").expect("no error");
    }
    db.close().expect("closes");
    for (iter, forward) in begun.iter_mut().zip([true, false]) {
        let (records, errors, ended) = drain(iter, forward, 4000);
        assert!(
            records < 1000 && errors == 1 && ended,
            "{records} {errors} {ended}"
        );
        assert!(iter.next().is_none() && iter.next_back().is_none());
    }
    // Iterators that begin now.
    for mut iter in [
        keyspace.iter(),
        keyspace.prefix("key"),
        snapshot.iter(&keyspace),
    ] {
        assert_eq!(drain(&mut iter, true, 10), (0, 1, true));
    }
}

/// The result of every call that takes a snapshot and a keyspace.
fn read_through(snapshot: &Snapshot, keyspace: &Keyspace) -> Vec<(&'static str, Result<usize>)> {
    let first = |mut iter: Iter| match iter.next() {
        None => Ok(0),
        Some(item) => item.map(|_| 1),
    };
    let mut cursor = snapshot.cursor::<&str>(keyspace, ..);
    let none: [&str; 0] = [];
    let found = |values: Vec<Option<Value>>| values.iter().flatten().count();
    vec![
        (
            "get",
            snapshot.get(keyspace, "k").map(|value| value.iter().len()),
        ),
        (
            "contains_key",
            snapshot.contains_key(keyspace, "k").map(usize::from),
        ),
        (
            "multi_get",
            snapshot.multi_get(keyspace, &["k", "l"]).map(found),
        ),
        (
            "multi_get of nothing",
            snapshot.multi_get(keyspace, &none).map(|_| 1),
        ),
        ("range", first(snapshot.range(keyspace, "a".."z"))),
        ("prefix", first(snapshot.prefix(keyspace, "k"))),
        ("iter", first(snapshot.iter(keyspace))),
        (
            "iter, backward",
            snapshot
                .iter(keyspace)
                .next_back()
                .map_or(Ok(0), |item| item.map(|_| 1)),
        ),
        ("cursor", cursor.next().map(|record| record.iter().len())),
    ]
}

/// The result of every call that takes a batch and a keyspace, at the batch's commit.
fn write_through(db: &Db, keyspace: &Keyspace) -> Vec<(&'static str, Result<usize>)> {
    let commit = |fill: &dyn Fn(&mut Batch)| {
        let mut batch = db.batch();
        batch.put(db.default_keyspace(), "beside", "1");
        fill(&mut batch);
        batch.commit().map(|()| 1)
    };
    vec![
        ("put", commit(&|batch| _ = batch.put(keyspace, "k", "new"))),
        (
            "delete",
            commit(&|batch| _ = batch.delete(keyspace, "gone")),
        ),
    ]
}

#[test]
fn a_keyspace_of_another_database_is_refused_by_every_call_that_takes_two_handles() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let [db, other] = [&dirs[0], &dirs[1]].map(|dir| small(dir.path()));
    for (db, value) in [(&db, "own"), (&other, "foreign")] {
        db.put("k", value).expect("puts");
    }
    let snapshot = db.snapshot().expect("a snapshot");
    for (call, answer) in read_through(&snapshot, db.default_keyspace()) {
        assert_eq!(answer.expect(call), 1, "{call}");
    }
    let calls = read_through(&snapshot, other.default_keyspace());
    let writes = write_through(&db, other.default_keyspace());
    for (call, answer) in calls.into_iter().chain(writes) {
        let error = answer.expect_err(call);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{call}");
        // The keyspace's own database, and the one that it should belong to.
        for dir in &dirs {
            assert!(
                error.to_string().contains(&*dir.path().to_string_lossy()),
                "{call}: {error}"
            );
        }
    }
    // The refused batches have no effect, here or there.
    assert!(!db.contains_key("beside").expect("gets"));
    assert_eq!(other.get("k").expect("gets").expect("is there"), "foreign");
}

#[test]
fn a_keyspace_of_an_earlier_life_is_a_stranger_to_the_database_opened_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = small(dir.path());
    db.put("k", "v").expect("puts");
    let old = db.default_keyspace().clone();
    let old_snapshot = db.snapshot().expect("a snapshot");
    let mut old_batch = db.batch();
    old_batch.put(&old, "k", "old");
    db.close().expect("closes");
    let db = small(dir.path());
    let snapshot = db.snapshot().expect("a snapshot");
    let calls = read_through(&snapshot, &old)
        .into_iter()
        .chain(write_through(&db, &old))
        .chain(read_through(&old_snapshot, db.default_keyspace()));
    for (call, answer) in calls {
        let error = answer.expect_err(call);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{call}");
        assert!(
            error.to_string().contains("another opening"),
            "{call}: {error}"
        );
    }
    // Handles of the old life are closed, also when used with each other, and write nothing into
    // the new one.
    assert_eq!(kind(old_batch.commit()), ErrorKind::Closed);
    assert_eq!(kind(old.put("k", "old")), ErrorKind::Closed);
    for (call, answer) in read_through(&old_snapshot, &old) {
        assert_eq!(kind(answer), ErrorKind::Closed, "{call}");
    }
    assert_eq!(db.get("k").expect("gets").expect("is there"), "v");
}

/// The result of every call on a keyspace.
fn use_all(db: &Db, keyspace: &Keyspace) -> Vec<(&'static str, Result<usize>)> {
    let first = |mut iter: Iter| match iter.next() {
        None => Ok(0),
        Some(item) => item.map(|_| 1),
    };
    let none: [&str; 0] = [];
    let mut cursor = keyspace.cursor::<&str>(..);
    let mut calls = vec![
        ("put", keyspace.put("k", "v").map(|()| 1)),
        ("delete", keyspace.delete("gone").map(|()| 1)),
        ("get", keyspace.get("k").map(|value| value.iter().len())),
        ("get of what is not there", keyspace.get("none").map(|_| 1)),
        ("contains_key", keyspace.contains_key("k").map(usize::from)),
        ("multi_get", keyspace.multi_get(&["k", "l"]).map(|_| 1)),
        ("multi_get of one", keyspace.multi_get(&["k"]).map(|_| 1)),
        ("multi_get of nothing", keyspace.multi_get(&none).map(|_| 1)),
        ("range", first(keyspace.range("a".."z"))),
        ("prefix", first(keyspace.prefix("k"))),
        ("iter", first(keyspace.iter())),
        ("cursor", cursor.next().map(|record| record.iter().len())),
        ("delete_range", keyspace.delete_range("x".."y").map(|_| 1)),
        ("delete_prefix", keyspace.delete_prefix("x").map(|_| 1)),
        ("property", keyspace.property("p").map(|_| 1)),
        ("set_property", keyspace.set_property("p", "v").map(|()| 1)),
        ("remove_property", keyspace.remove_property("p").map(|()| 1)),
        ("compact", keyspace.compact().map(|_| 1)),
        ("compact_range", keyspace.compact_range("x".."y").map(|_| 1)),
        ("compact_prefix", keyspace.compact_prefix("x").map(|_| 1)),
    ];
    calls.extend(write_through(db, keyspace));
    let snapshot = db.snapshot().expect("a snapshot");
    calls.extend(read_through(&snapshot, keyspace));
    calls
}

#[test]
fn after_a_drop_every_new_call_is_refused_and_what_was_begun_before_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = small(dir.path());
    let keyspace = db.keyspace("edges").expect("a keyspace");
    // Some records in tables, some in memory.
    for number in 0..500 {
        keyspace
            .put(format!("k{number:03}"), [1; 200])
            .expect("puts");
    }
    db.compact().expect("compacts");
    keyspace.put("k", "v").expect("puts");
    for (call, answer) in use_all(&db, &keyspace) {
        answer.expect(call);
    }
    let snapshot = db.snapshot().expect("a snapshot");
    let mut iter = keyspace.iter();
    let mut half = keyspace.iter();
    assert!(half.next_back().expect("a record").is_ok());
    let mut cursor = keyspace.cursor::<&str>(..);
    let mut begun = db.batch();
    begun.put(&keyspace, "k", "late");
    let second_handle = db.keyspace("edges").expect("the same keyspace");

    db.drop_keyspace("edges").expect("drops");

    for handle in [&keyspace, &second_handle] {
        let mut calls = use_all(&db, handle);
        // First the calls that are not refused, if there are any.
        calls.sort_by_key(|(_, answer)| answer.is_err());
        for (call, answer) in calls {
            let error = answer.expect_err(call);
            assert_eq!(error.kind(), ErrorKind::KeyspaceDropped, "{call}");
            let message = error.to_string();
            assert!(message.contains("\"edges\" was dropped"), "{message}");
        }
    }
    assert_eq!(kind(begun.commit()), ErrorKind::KeyspaceDropped);
    assert_eq!(keyspace.name(), "edges");
    // Iterators that began before see everything, including records in tables.
    assert_eq!(drain(&mut iter, true, 4000), (501, 0, true));
    assert_eq!(drain(&mut half, false, 4000), (500, 0, true));
    let mut records = 0;
    while cursor.next().expect("reads").is_some() {
        records += 1;
    }
    assert_eq!(records, 501);
    for (call, answer) in read_through(&snapshot, &keyspace) {
        assert_eq!(answer.expect(call), 1, "{call}");
    }

    // A new keyspace of the same name is a different one.
    let again = db.keyspace("edges").expect("made again");
    again.put("k", "another").expect("puts");
    for (call, answer) in use_all(&db, &keyspace) {
        assert_eq!(kind(answer), ErrorKind::KeyspaceDropped, "{call}");
    }
    assert_eq!(again.get("k").expect("gets").expect("is there"), "another");
    assert_eq!(
        snapshot
            .get(&keyspace, "k")
            .expect("gets")
            .expect("is there"),
        "new"
    );
    assert_eq!(snapshot.get(&again, "k").expect("gets"), None);
}
