//! Gets: what memory knows is ready at once, the rest is read by threads of the database.

use super::executor::{at_once, block_on, drive, poll_once, until};
use super::files::{Files, key, value};
use crate::common::DIR;
use evendb::{
    Db, Durability, ErrorKind, GetFuture, KeyspaceOptions, MergeError, MergeOperator, Merges,
    Snapshot, WouldRead,
};
use std::collections::BTreeSet;

#[test]
fn what_memory_knows_is_ready_at_the_first_poll() {
    let files = Files::new();
    let db = files.open(Durability::Process);
    let snapshot = db.snapshot().unwrap();
    db.put("a", "1").unwrap();
    let keyspace = db.default_keyspace();
    // A read of a file would stand for ever.
    files.hold_reads(true);
    assert_eq!(at_once(db.get_async("a")).unwrap().unwrap(), "1");
    assert!(at_once(db.get_async("b")).unwrap().is_none());
    assert!(
        at_once(snapshot.get_async(keyspace, "a"))
            .unwrap()
            .is_none()
    );
    assert_eq!(db.try_get("a").unwrap().unwrap().unwrap(), "1");
    assert_eq!(snapshot.try_get(keyspace, "a").unwrap(), Ok(None));
    let found = at_once(db.multi_get_async(&["a", "b"])).unwrap();
    assert_eq!(found[0].as_deref(), Some(&b"1"[..]));
    assert!(found[1].is_none());
    files.hold_reads(false);
    // A value that lies apart is in a file, though its record is in memory.
    let apart = files.options(Durability::Process, 1);
    let apart = apart.advanced(|advanced| advanced.values_apart_from(Some(100)));
    let other = apart.open("/other").unwrap();
    other.put("long", [7; 200]).unwrap();
    assert_eq!(other.try_get("long").unwrap(), Err(WouldRead));
    assert_eq!(
        *block_on(other.get_async("long")).unwrap().unwrap(),
        [7; 200]
    );
}

#[test]
fn operands_that_memory_has_are_folded_at_once() {
    let files = Files::new();
    let db = files.open(Durability::Process);
    let adding = KeyspaceOptions::new().merge_operator(Merges::AddU64);
    let counters = db.keyspace_with("counters", &adding).unwrap();
    counters.put("a", 1u64.to_le_bytes()).unwrap();
    counters.merge("a", 2u64.to_le_bytes()).unwrap();
    counters.merge("new", 3u64.to_le_bytes()).unwrap();
    let get = |key| at_once(counters.get_async(key)).unwrap().unwrap();
    assert_eq!(get("a"), 3u64.to_le_bytes());
    assert_eq!(get("new"), 3u64.to_le_bytes());
}

#[test]
fn try_get_reads_nothing() {
    let files = Files::new();
    let db = files.cold(100, || files.options(Durability::Process, 1));
    // A read of a file would stand for ever.
    files.hold_reads(true);
    assert_eq!(db.try_get(key(5)).unwrap(), Err(WouldRead));
    db.put(key(5), "new").unwrap();
    assert_eq!(db.try_get(key(5)).unwrap().unwrap().unwrap(), "new");
    db.delete(key(6)).unwrap();
    assert_eq!(db.try_get(key(6)).unwrap(), Ok(None));
    files.hold_reads(false);
    assert_eq!(*db.get(key(7)).unwrap().unwrap(), *value(7));
}

#[test]
fn what_has_to_be_read_comes_from_a_reader_and_wakes_once() {
    let files = Files::new();
    let db = files.cold(1000, || files.options(Durability::Process, 1));
    let snapshot = db.snapshot().unwrap();
    let gets = (0..1000).map(|number| db.get_async(key(number))).collect();
    let (found, polls) = drive(gets);
    for (number, found) in found.into_iter().enumerate() {
        assert_eq!(*found.unwrap().unwrap(), *value(number as u32));
    }
    assert!(polls <= 2 * 1000, "a22: {polls} polls");
    let keys: Vec<String> = [3, 2000, 1].map(key).to_vec();
    for found in [
        block_on(db.multi_get_async(&keys)).unwrap(),
        block_on(snapshot.multi_get_async(db.default_keyspace(), &keys)).unwrap(),
    ] {
        assert_eq!(found[0].as_deref(), Some(&value(3)[..]));
        assert!(found[1].is_none());
        assert_eq!(found[2].as_deref(), Some(&value(1)[..]));
    }
    let one = block_on(snapshot.get_async(db.default_keyspace(), key(9))).unwrap();
    assert_eq!(*one.unwrap(), *value(9));
}

/// A5, A10: a read that has begun belongs to its thread. Futures that are dropped, forgotten or
/// not polled again hold no other up.
#[test]
fn a05_a10_a_read_goes_on_without_its_future() {
    let files = Files::new();
    let db = files.cold(100, || files.options(Durability::Process, 1));
    files.hold_reads(true);
    let mut left = Vec::new();
    for round in 0..9 {
        let mut get = db.get_async(key(5));
        assert!(poll_once(&mut get).is_pending());
        match round % 3 {
            0 => drop(get),
            1 => std::mem::forget(get),
            _ => left.push(get),
        }
    }
    until("a read stands", || files.standing() > 0);
    let second = db.get_async(key(5));
    files.hold_reads(false);
    assert_eq!(*block_on(second).unwrap().unwrap(), *value(5));
    for get in left {
        assert_eq!(*block_on(get).unwrap().unwrap(), *value(5));
    }
}

/// A7: while no read returns, memory answers at once, and calls that were given up leave nothing
/// behind: the queue is as long as the futures that live.
#[test]
fn a07_reads_that_never_return_hold_up_only_reads() {
    let files = Files::new();
    let db = files.cold(100, || files.options(Durability::Process, 1));
    db.put("new", "1").unwrap();
    files.hold_reads(true);
    let keep: Vec<GetFuture> = (0..100)
        .map(|number| {
            let mut get = db.get_async(key(number));
            assert!(poll_once(&mut get).is_pending());
            get
        })
        .collect();
    for number in 0..10_000 {
        assert!(poll_once(db.get_async(key(number % 100))).is_pending());
        assert_eq!(at_once(db.get_async("new")).unwrap().unwrap(), "1");
    }
    files.hold_reads(false);
    let read_before = files.reads_done();
    let (found, _) = drive(keep);
    assert!(found.into_iter().all(|found| found.unwrap().is_some()));
    // Of the ten thousand that were given up, only those were read whose thread had begun.
    let reads = files.reads_done() - read_before;
    assert!(reads < 5_000, "{reads} reads");
}

/// Fails to merge, by a panic.
struct Panics;

impl MergeOperator for Panics {
    fn name(&self) -> &str {
        "panics"
    }
    fn full_merge(
        &self,
        _key: &[u8],
        _existing: Option<&[u8]>,
        _operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        panic!("planted");
    }
}

/// A20: a panic in the application's code is an error of that read alone.
#[test]
fn a20_a_panic_in_a_read_is_its_error_alone() {
    let files = Files::new();
    let with_operator = |db: &Db| {
        let options = KeyspaceOptions::new().merge_operator(Panics);
        db.keyspace_with("merged", &options).unwrap()
    };
    let options = || files.options(Durability::Process, 1);
    {
        let db = options().open(DIR).unwrap();
        with_operator(&db).merge("m", "1").unwrap();
        db.close().unwrap();
    }
    let db = files.cold(100, options);
    let merged = with_operator(&db);
    for _ in 0..50 {
        let error = block_on(merged.get_async("m")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MergeFailed);
        assert_eq!(*block_on(db.get_async(key(1))).unwrap().unwrap(), *value(1));
    }
    db.put("still", "writes").unwrap();
    db.close().unwrap();
}

#[test]
fn ten_thousand_gets_on_one_thread() {
    let files = Files::new();
    let db = files.cold(500, || files.options(Durability::Process, 1));
    let gets: Vec<GetFuture> = (0..10_000).map(|n| db.get_async(key(n % 500))).collect();
    let (found, _) = drive(gets);
    let seen: BTreeSet<Vec<u8>> = found
        .into_iter()
        .map(|v| v.unwrap().unwrap().to_vec())
        .collect();
    assert_eq!(seen.len(), 500);
}

/// Without threads of its own, a poll reads by itself.
#[test]
fn without_threads_a_poll_does_the_work() {
    let files = Files::new();
    let db = files.cold(100, || files.options(Durability::Sync, 0));
    assert_eq!(*at_once(db.get_async(key(5))).unwrap().unwrap(), *value(5));
    let mut batch = db.batch();
    batch.put(db.default_keyspace(), "k", "v");
    at_once(batch.commit_async()).unwrap();
    at_once(db.persist_async()).unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), "v");
}

/// A database that is open for reading only has readers, too.
#[test]
fn a_read_only_database_has_readers() {
    let files = Files::new();
    files
        .cold(100, || files.options(Durability::Process, 1))
        .close()
        .unwrap();
    let options = files.options(Durability::Process, 1).read_only(true);
    let nothing_in_ram = options.advanced(|advanced| advanced.munks(false).row_cache(false));
    let db = nothing_in_ram.open(DIR).unwrap();
    files.hold_reads(true);
    let mut get = db.get_async(key(3));
    assert!(poll_once(&mut get).is_pending());
    files.hold_reads(false);
    assert_eq!(*block_on(get).unwrap().unwrap(), *value(3));
    let mut batch = db.batch();
    batch.put(db.default_keyspace(), "k", "v");
    let error = at_once(batch.commit_async()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    db.close().unwrap();
}

#[test]
fn a_poll_after_the_last_one_is_an_error() {
    let files = Files::new();
    let db = files.open(Durability::Process);
    let mut get = db.get_async("k");
    at_once(&mut get).unwrap();
    let error = at_once(&mut get).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let mut commit = db.batch().commit_async();
    at_once(&mut commit).unwrap();
    let error = at_once(&mut commit).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_keyspace_of_another_database_is_refused() {
    let files = Files::new();
    let open = |dir| files.options(Durability::Process, 1).open(dir).unwrap();
    let (one, other) = (open(DIR), open("/other"));
    let snapshot: Snapshot = one.snapshot().unwrap();
    let foreign = other.default_keyspace();
    let errors = [
        at_once(snapshot.get_async(foreign, "k")).unwrap_err(),
        at_once(snapshot.multi_get_async(foreign, &["k"])).unwrap_err(),
        snapshot.try_get(foreign, "k").unwrap_err(),
        at_once(snapshot.range_async::<&str>(foreign, ..).next_chunk()).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}
