//! The first and the last record: looked at, and popped, by one thread and by many at once.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

use evendb::vfs::SimVfs;
use evendb::{Db, ErrorKind, Keyspace, Options, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

fn open(workers: usize) -> Db {
    Options::new()
        .memory_budget(1 << 20)
        .workers(workers)
        .vfs(Arc::new(SimVfs::new(1)))
        .advanced(|advanced| advanced.chunk_bytes(2048).block_bytes(256))
        .open("/db")
        .unwrap()
}

fn text(record: Option<(Value, Value)>) -> Option<(String, String)> {
    let text = |value: Value| String::from_utf8(value.to_vec()).unwrap();
    record.map(|(key, value)| (text(key), text(value)))
}

fn pair(key: &str, value: &str) -> Option<(String, String)> {
    Some((key.to_owned(), value.to_owned()))
}

#[test]
fn first_and_last_are_of_the_moment() {
    let db = open(0);
    assert!(db.first().unwrap().is_none() && db.last().unwrap().is_none());
    for (key, value) in [("b", "2"), ("a", "1"), ("c", "3")] {
        db.put(key, value).unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    db.delete("a").unwrap();
    db.put("d", "4").unwrap();
    let keyspace = db.default_keyspace();
    assert_eq!(text(db.first().unwrap()), pair("b", "2"));
    assert_eq!(text(keyspace.last().unwrap()), pair("d", "4"));
    assert_eq!(text(snapshot.first(keyspace).unwrap()), pair("a", "1"));
    assert_eq!(text(snapshot.last(keyspace).unwrap()), pair("c", "3"));
}

#[test]
fn pops_take_the_ends_of_all_of_a_range_and_of_a_prefix() {
    let db = open(0);
    let keyspace = db.keyspace("queue").unwrap();
    for key in ["a/1", "a/2", "b/1", "b/2", "b/3", "c/1"] {
        keyspace.put(key, format!("value of {key}")).unwrap();
    }
    let popped = |record: evendb::Result<Option<(Value, Value)>>| {
        text(record.unwrap()).map(|(key, value)| {
            assert_eq!(value, format!("value of {key}"));
            key
        })
    };
    let key = |key: &str| Some(key.to_owned());
    assert_eq!(popped(keyspace.pop_first_prefix("b/")), key("b/1"));
    assert_eq!(popped(keyspace.pop_last_prefix("b/")), key("b/3"));
    assert_eq!(popped(keyspace.pop_first_range("a/2"..)), key("a/2"));
    assert_eq!(popped(keyspace.pop_last_range(.."c")), key("b/2"));
    assert_eq!(popped(keyspace.pop_first_prefix("b/")), None);
    assert_eq!(popped(keyspace.pop_first_range("x".."a")), None);
    assert_eq!(popped(keyspace.pop_last()), key("c/1"));
    assert_eq!(popped(keyspace.pop_first()), key("a/1"));
    assert_eq!(popped(keyspace.pop_first()), None);
    assert_eq!(popped(db.pop_last()), None);
    assert_eq!(keyspace.iter().count(), 0);
}

#[test]
fn what_is_popped_is_gone_after_reopening_and_a_reader_may_not_pop() {
    let vfs = SimVfs::new(7);
    let options = || Options::new().workers(0).vfs(Arc::new(vfs.clone()));
    let db = options().open("/db").unwrap();
    db.put("a", "1").unwrap();
    db.put("b", "2").unwrap();
    assert_eq!(text(db.pop_first().unwrap()), pair("a", "1"));
    db.close().unwrap();
    let db = options().read_only(true).open("/db").unwrap();
    assert_eq!(text(db.first().unwrap()), pair("b", "2"));
    assert_eq!(db.pop_first().unwrap_err().kind(), ErrorKind::ReadOnly);
}

/// The least key may still be locked by a transaction that began before.
#[test]
fn a_dropped_keyspace_is_told_and_not_waited_for() {
    let db = open(0);
    let keyspace = db.keyspace("dropped").unwrap();
    let transaction = db.transaction().unwrap();
    transaction.get_for_update(&keyspace, "").unwrap();
    db.drop_keyspace("dropped").unwrap();
    let error = keyspace.pop_first().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::KeyspaceDropped, "{error}");
    drop(transaction);
}

/// Pops until nothing comes and `more` says that nothing will; returns the popped records.
fn pop_all(keyspace: &Keyspace, last: bool, more: &AtomicU64) -> Vec<Vec<u8>> {
    let mut popped = Vec::new();
    loop {
        // Asked before: records that were put before it became zero are found.
        let may_come = more.load(Ordering::SeqCst) > 0;
        let record = match last {
            true => keyspace.pop_last_prefix("job/"),
            false => keyspace.pop_first_prefix("job/"),
        };
        match record.unwrap() {
            Some((key, _)) => popped.push(key.to_vec()),
            None if !may_come => return popped,
            None => thread::yield_now(),
        }
    }
}

#[test]
fn of_threads_that_pop_at_once_each_gets_other_records() {
    for workers in [0, 2] {
        let db = open(workers);
        let keyspace = db.keyspace("queue").unwrap();
        let putting = AtomicU64::new(2);
        let popped: Vec<Vec<u8>> = thread::scope(|scope| {
            for putter in 0..2 {
                let (keyspace, putting) = (&keyspace, &putting);
                scope.spawn(move || {
                    for job in 0..150 {
                        keyspace
                            .put(format!("job/{job:03}/{putter}"), "do")
                            .unwrap();
                    }
                    putting.fetch_sub(1, Ordering::SeqCst);
                });
            }
            let pops = [false, false, true].map(|last| {
                let (keyspace, putting) = (&keyspace, &putting);
                scope.spawn(move || pop_all(keyspace, last, putting))
            });
            pops.into_iter()
                .flat_map(|pop| pop.join().unwrap())
                .collect()
        });
        let mut times: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        popped
            .into_iter()
            .for_each(|key| *times.entry(key).or_default() += 1);
        assert_eq!(times.len(), 300, "workers {workers}");
        assert!(times.values().all(|times| *times == 1), "{times:?}");
        assert_eq!(keyspace.iter().count(), 0);
    }
}
