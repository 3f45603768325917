//! A replay leaves and finds what the trace did, where traces say little or where their words are
//! easily misread.

use std::io::Cursor;

use super::*;
use crate::replay::Prepared;

/// An operation of a transaction or batch, or of none (0), `millis` milliseconds after the
/// beginning.
pub(super) fn at(millis: u64, kind: Kind, key: &str, group: u64) -> Operation {
    let mut operation = Operation::new(kind, key);
    operation.start_nanos = millis * 1_000_000;
    operation.group = group;
    operation.outcome = Outcome::Done;
    if kind == Kind::Put {
        operation.value_len = Some(5);
    }
    operation
}

pub(super) fn present(len: Option<u64>) -> Outcome {
    Outcome::Present { len, hash: None }
}

pub(super) fn with(mut operation: Operation, outcome: Outcome) -> Operation {
    operation.outcome = outcome;
    operation
}

pub(super) fn prepared(trace: &[u8], store: &dyn Store, settings: &ReplaySettings) -> Prepared {
    let go = AtomicBool::new(false);
    prepare(Reader::new(trace).unwrap(), store, settings, &go).unwrap()
}

pub(super) fn keys(store: &dyn Store) -> Vec<String> {
    let keys = contents(store).into_iter().map(|(key, _)| key);
    keys.map(|key| String::from_utf8_lossy(&key).into_owned())
        .collect()
}

pub(super) fn len_of(store: &dyn Store, key: &str) -> Option<usize> {
    let mut len = None;
    store
        .get(key.as_bytes(), &mut |value| len = Some(value.len()))
        .unwrap();
    len
}

#[test]
fn keys_whose_first_write_failed_or_was_taken_back_are_put_before() {
    use Kind::{Abort, Begin, Commit, Get, Other, Put};
    let numbered = |mut operation: Operation| {
        operation.count = Some(1);
        operation
    };
    let mut operations = vec![
        with(at(1, Put, "failed", 0), Outcome::Failed(Failure::NoSpace)),
        with(at(2, Get, "failed", 0), present(Some(7))),
        at(3, Begin, "", 1),
        at(4, Put, "aborted", 1),
        at(5, Put, "own", 1),
        // Its own writes say nothing of what was there before.
        with(at(6, Get, "own", 1), present(Some(5))),
        at(7, Abort, "", 1),
        with(at(8, Get, "aborted", 0), present(Some(8))),
        with(at(9, Get, "own", 0), Outcome::Absent),
        at(10, Begin, "", 2),
        at(11, Put, "committed", 2),
        numbered(at(12, Other, "savepoint", 2)),
        at(13, Put, "rolled back", 2),
        numbered(at(14, Other, "rollback_to", 2)),
        at(15, Commit, "", 2),
        with(at(16, Get, "rolled back", 0), present(Some(9))),
        with(at(17, Get, "committed", 0), present(Some(5))),
        at(18, Begin, "", 3),
        at(19, Put, "refused", 3),
        with(at(20, Commit, "", 3), Outcome::Failed(Failure::Conflict)),
        with(at(21, Get, "refused", 0), present(Some(4))),
    ];
    for operation in &mut operations {
        operation.older_moment = operation.kind == Get && operation.group != 0;
    }
    let trace = written(&operations);
    let store = MemoryStore::new();
    let put = prepared(&trace, &store, &settings(1));
    assert_eq!(
        keys(&store),
        ["aborted", "failed", "refused", "rolled back"]
    );
    assert_eq!((put.put, put.assumed), (4, 0));
    assert_eq!(len_of(&store, "rolled back"), Some(9));
    let report = replayed(&trace, &store, &settings(1));
    assert_eq!(report.differences.total(), 0, "{:?}", report.differences);
    assert_eq!((report.compared, report.misses), (6, 0));
    // These had no effect in the load, so nothing of it is missing.
    assert_eq!(report.not_asked(), 0, "{:?}", report.left_out);
}

/// Writes that EvenDB records of transactions that were refused, ended or went back are no writes
/// of the load.
#[test]
fn a_recorded_write_that_was_not_committed_is_none() {
    let fill = |db: &evendb::Db| {
        for (key, value) in [("read", "old"), ("refused", "1234"), ("ended", "12345")] {
            db.put(key, value).unwrap();
        }
        db.put("taken back", "123456").unwrap();
    };
    let trace = of_filled_evendb(fill, |db| {
        let keyspace = db.default_keyspace();
        let mut refused = db.transaction().unwrap();
        done(refused.get(keyspace, "read").unwrap());
        refused.put(keyspace, "refused", "1").unwrap();
        db.put("read", "new").unwrap();
        done(refused.commit().unwrap_err());
        let mut ended = db.transaction().unwrap();
        ended.put(keyspace, "ended", "1").unwrap();
        ended.rollback();
        let mut back = db.transaction().unwrap();
        let beginning = back.savepoint();
        back.put(keyspace, "taken back", "1").unwrap();
        back.rollback_to(beginning).unwrap();
        // Its own write is gone, so this is the value that was there before.
        done(back.get(keyspace, "taken back").unwrap());
        back.put(keyspace, "new", "1").unwrap();
        back.commit().unwrap();
        done(db.get("refused").unwrap());
        done(db.get("ended").unwrap());
        done(db.get("new").unwrap());
    });
    let store = MemoryStore::new();
    let put = prepared(&trace, &store, &settings(1));
    assert_eq!((put.put, put.assumed), (4, 0));
    let lengths = ["read", "refused", "ended", "taken back"].map(|key| len_of(&store, key));
    assert_eq!(lengths, [Some(3), Some(4), Some(5), Some(6)]);
    assert_eq!(keys(&store).len(), 4);
    // Only `read` is written over: 7 bytes each time.
    let reader = || Ok(Reader::new(&trace[..]).unwrap());
    let go = AtomicBool::new(false);
    let aged = age(&reader, &store, (&settings(1), u64::MAX), &go).unwrap();
    assert_eq!(aged, 16 * 7);
    let load = crate::advise::load::observe(reader().unwrap(), (0, u64::MAX), 100);
    assert_eq!(load.unwrap().writes, 2);
    let report = replayed(&trace, &store, &settings(1));
    assert_eq!(report.differences.total(), 0, "{:?}", report.differences);
    assert_eq!((report.compared, report.misses), (3, 0));
    assert_eq!(report.not_asked(), 0, "{:?}", report.left_out);
    assert_eq!(
        report.left_out.get("writes that failed in the trace"),
        Some(&3)
    );
    assert_eq!(len_of(&store, "refused"), Some(4));
    assert_eq!(len_of(&store, "new"), Some(1));
}

/// The filling does what the replay would do: nothing that was not committed, and deletions of
/// ranges too.
#[test]
fn the_filling_of_a_store_is_done_as_a_replay_does_it() {
    let mut operations = vec![
        at(1, Kind::Begin, "", 1),
        at(2, Kind::Put, "aborted", 1),
        at(3, Kind::Abort, "", 1),
        with(at(4, Kind::Put, "failed", 0), Outcome::Failed(Failure::Io)),
        at(5, Kind::Put, "a", 0),
        at(6, Kind::Put, "b", 0),
        at(7, Kind::DeleteRange, "b", 0),
        at(8, Kind::Put, "c", 0),
        at(9, Kind::Begin, "", 2),
        at(10, Kind::Put, "across", 2),
        at(11, Kind::Put, "across too", 2),
        at(12, Kind::Commit, "", 2),
    ];
    operations[6].end_key = None;
    let trace = written(&operations);
    let filling = ReplaySettings {
        part: Part {
            load: 10,
            ..Part::default()
        },
        ..ReplaySettings::default()
    };
    let store = MemoryStore::new();
    prepared(&trace, &store, &filling);
    assert_eq!(keys(&store), ["a", "c"]);
    // The transaction ends after the filling, and is done whole.
    replayed(&trace, &store, &filling);
    assert_eq!(keys(&store), ["a", "across", "across too", "c"]);
}

#[test]
fn what_is_put_for_a_time_is_gone_when_the_trace_comes_to_its_end() {
    let for_a_time = |mut operation: Operation| {
        operation.ttl_millis = Some(10);
        operation
    };
    let found = |millis, key, is_there| {
        let outcome = if is_there {
            present(Some(5))
        } else {
            Outcome::Absent
        };
        with(at(millis, Kind::Get, key, 0), outcome)
    };
    let trace = written(&[
        for_a_time(at(0, Kind::Put, "short", 0)),
        for_a_time(at(0, Kind::Put, "again", 0)),
        for_a_time(at(1, Kind::Put, "stays", 0)),
        at(2, Kind::Put, "stays", 0),
        for_a_time(at(3, Kind::Put, "in batch", 7)),
        at(3, Kind::BatchCommit, "", 7),
        for_a_time(at(5, Kind::Put, "again", 0)),
        found(9, "short", true),
        found(11, "short", false),
        found(11, "again", true),
        found(11, "in batch", true),
        found(14, "in batch", false),
        found(16, "again", false),
        found(17, "stays", true),
    ]);
    for threads in [1, 4] {
        let store = MemoryStore::new();
        let report = replayed(&trace, &store, &settings(threads));
        assert_eq!(report.differences.total(), 0, "{:?}", report.differences);
        assert_eq!((report.compared, report.expired), (7, 3));
        assert_eq!(keys(&store), ["stays"]);
        // The deletions of expired values are no operations of the trace.
        assert!(!report.kinds.contains_key(&Kind::Delete));
    }
    // In two parts on one store.
    let part = |skip, until| ReplaySettings {
        part: Part {
            skip,
            until,
            ..Part::default()
        },
        ..ReplaySettings::default()
    };
    let store = MemoryStore::new();
    replayed(&trace, &store, &part(0, 8));
    let report = replayed(&trace, &store, &part(8, u64::MAX));
    assert_eq!(report.differences.total(), 0, "{:?}", report.differences);
    assert_eq!(keys(&store), ["stays"]);
}

/// What EvenDB records of `run`.
fn of_evendb(run: impl FnOnce(&evendb::Db)) -> Vec<u8> {
    of_filled_evendb(|_| {}, run)
}

/// What EvenDB records of `run`, after `fill`.
fn of_filled_evendb(fill: impl FnOnce(&evendb::Db), run: impl FnOnce(&evendb::Db)) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace");
    let options = evendb::Options::new().memory_budget(16 << 20);
    let store = EvenDbStore::open(&directory.path().join("db"), options, "").unwrap();
    let db = store.database();
    fill(db);
    let trace = db.start_trace(evendb::TraceOptions::new(&file).values(true));
    let trace = trace.unwrap();
    run(db);
    trace.stop().unwrap();
    std::fs::read(&file).unwrap()
}

#[test]
fn deletions_of_ranges_without_an_end_are_replayed() {
    let trace = of_evendb(|db| {
        for key in [&b"a"[..], b"b", b"c", b"\xff\xff1"] {
            db.put(key, "1").unwrap();
        }
        db.delete_prefix(b"\xff").unwrap();
        db.delete_range("c"..).unwrap();
        assert_eq!(db.iter().count(), 2);
    });
    let all = of_evendb(|db| {
        db.put("a", "1").unwrap();
        db.put(b"\xff\xff", "1").unwrap();
        db.delete_range::<&str>(..).unwrap();
        let mut batch = db.batch();
        batch.put(db.default_keyspace(), "x", "1");
        batch.delete_range::<&str>(db.default_keyspace(), ..);
        batch.put(db.default_keyspace(), "y", "1");
        batch.commit().unwrap();
    });
    for threads in [1, 3] {
        // One store deletes ranges; the other one has no such call, and no reverse scans.
        for store in [
            Box::new(MemoryStore::new()) as Box<dyn Store>,
            Box::new(Slow::new(0, false)),
        ] {
            let report = replayed(&trace, &*store, &settings(threads));
            assert!(report.left_out.is_empty(), "{:?}", report.left_out);
            assert_eq!(keys(&*store), ["a", "b"]);
            replayed(&all, &*store, &settings(threads));
            assert_eq!(keys(&*store), ["y"]);
        }
    }
}

/// A trace whose keys were hidden by hashes has no ends of ranges: such a deletion must not become
/// one of all that follows.
#[test]
fn a_deletion_of_a_range_whose_end_is_lost_is_left_out() {
    let header = Header {
        without_ends: true,
        keyspaces: [(0, "a".to_owned()), (1, "b".to_owned())].into(),
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    for operation in puts(5, 1).iter().chain([&at(1, Kind::DeleteRange, "", 0)]) {
        writer.add(operation).unwrap();
    }
    let trace = writer.finish().unwrap().0;
    assert!(Reader::new(&trace[..]).unwrap().header().without_ends);
    let store = MemoryStore::new();
    let report = replayed(&trace, &store, &settings(1));
    assert_eq!(keys(&store).len(), 5);
    assert_eq!(report.not_asked(), 1, "{:?}", report.left_out);
}

#[test]
fn keyspaces_that_were_made_while_the_trace_was_recorded_are_replayed() {
    let trace = of_evendb(|db| {
        db.put("key", "1").unwrap();
        let late = db.keyspace("late").unwrap();
        late.put("key", "22").unwrap();
        late.put("other", "22").unwrap();
        late.delete_range::<&str>("o"..).unwrap();
    });
    let several = evendb_trace::keyspaces_of(Cursor::new(&trace))
        .unwrap()
        .len()
        > 1;
    let settings = ReplaySettings {
        several_keyspaces: several,
        ..settings(2)
    };
    let store = MemoryStore::new();
    let report = replayed(&trace, &store, &settings);
    assert_eq!(report.not_asked(), 0, "{:?}", report.left_out);
    let lens: Vec<_> = contents(&store)
        .iter()
        .map(|(key, value)| (key.len(), value.len()))
        .collect();
    assert_eq!(lens, [(7, 1), (7, 2)]);
}

#[test]
fn what_is_left_out_for_want_of_a_name_is_more_than_a_hundredth() {
    let of = |keyspace, number: u32| {
        let mut put = at(0, Kind::Put, &number.to_string(), 0);
        put.keyspace = keyspace;
        put
    };
    let unnamed = |count| {
        let operations: Vec<_> = (0..200)
            .map(|number| of(u32::from(number < count), number))
            .collect();
        replayed(&written(&operations), &MemoryStore::new(), &settings(1))
    };
    // The first operation is the only one.
    let report = unnamed(50);
    let why = "of a keyspace that the trace does not name";
    assert_eq!((report.not_asked(), report.left_out[why]), (150, 150));
    assert!(report.is_of_another_load());
    let mut operations: Vec<_> = (0..200).map(|number| of(0, number)).collect();
    operations[7].keyspace = 1;
    operations[8].keyspace = 1;
    let report = replayed(&written(&operations), &MemoryStore::new(), &settings(1));
    assert!(report.not_asked() == 2 && !report.is_of_another_load());
}

#[test]
fn a_recorded_scan_that_found_nothing_is_asked_and_one_of_no_record_is_not() {
    let trace = of_evendb(|db| {
        db.put("a", "1").unwrap();
        assert_eq!(db.range("x"..).count(), 0);
        assert_eq!(db.range("x"..).limit(3).rev().count(), 0);
    });
    let report = replayed(&trace, &MemoryStore::new(), &settings(1));
    assert_eq!(report.kinds[&Kind::Scan].latencies.len(), 2);
    assert!(report.left_out.is_empty(), "{:?}", report.left_out);
}

#[test]
fn a_replay_that_passes_over_more_than_the_trace_has_is_an_error() {
    let trace = written(&puts(50, 1));
    let run = |part| {
        let settings = ReplaySettings {
            part,
            ..settings(1)
        };
        let reader = Reader::new(&trace[..]).unwrap();
        replay(
            reader,
            &MemoryStore::new(),
            &settings,
            &AtomicBool::new(false),
        )
    };
    let whole = Part::default();
    for part in [
        Part { skip: 51, ..whole },
        Part { load: 51, ..whole },
        Part {
            skip: 31,
            until: 30,
            ..whole
        },
    ] {
        let error = run(part).unwrap_err().to_string();
        assert!(error.contains("the trace ends after"), "{part:?}: {error}");
    }
    // No operation is left, and the report says so.
    for part in [Part { skip: 50, ..whole }, Part { warm: 90, ..whole }] {
        let warnings = run(part).unwrap().warnings(None);
        assert!(warnings[0].contains("nothing was measured"), "{warnings:?}");
    }
    let rest = run(Part { skip: 49, ..whole }).unwrap();
    assert!(rest.operations_in_trace == 1 && rest.warnings(None).is_empty());
}
