//! Traces: every public call is in them, with its own kind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/polled.rs"]
mod polled;

#[path = "programs/sources.rs"]
#[allow(dead_code, reason = "what programs check is not checked here")]
mod sources;

#[path = "recording/cases.rs"]
mod cases;

#[path = "recording/transactions.rs"]
mod transactions;

use cases::{AB, NOT_RECORDED, NOT_RECORDED_CALLS, all_cases, committed};
use evendb::{Db, ErrorKind, Keyspace, KeyspaceOptions, Merges, Options, Trace, TraceOptions};
use evendb_trace::{Failure, Kind, Operation, Outcome, Reader};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

type Counts = BTreeMap<&'static str, u64>;

/// Drops the result of a call, whatever it is.
fn done<T>(_: T) {}

struct World {
    dir: TempDir,
    db: Db,
    keyspace: Keyspace,
    counters: Keyspace,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let db = Options::new()
            .workers(0)
            .open(dir.path().join("db"))
            .unwrap();
        let keyspace = db.keyspace("k").unwrap();
        let adding = KeyspaceOptions::new().merge_operator(Merges::AddU64);
        let counters = db.keyspace_with("counters", &adding).unwrap();
        for key in ["a", "b", "c", "d"] {
            keyspace.put(key, "value").unwrap();
            db.put(key, "value").unwrap();
        }
        World {
            dir,
            db,
            keyspace,
            counters,
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn start(&self) -> Trace {
        let options = TraceOptions::new(self.path("trace")).value_hashes(true);
        self.db.start_trace(options.values(true)).unwrap()
    }

    fn stop(&self, trace: Trace) -> Vec<Operation> {
        let recorded = trace.stop().unwrap().recorded;
        let operations = read(&self.path("trace"));
        assert_eq!(operations.len() as u64, recorded);
        std::fs::remove_file(self.path("trace")).unwrap();
        operations
    }

    /// The operations that are recorded during a call.
    fn recorded(&self, call: impl FnOnce(&World)) -> Vec<Operation> {
        let trace = self.start();
        call(self);
        self.stop(trace)
    }
}

fn read(path: &Path) -> Vec<Operation> {
    let bytes = std::fs::read(path).unwrap();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let operations = reader.operations().collect::<Result<_, _>>().unwrap();
    assert!(reader.losses().is_nothing(), "{:?}", reader.losses());
    operations
}

#[test]
fn every_public_call_is_recorded() {
    let cases = all_cases();
    let mut wrong = Vec::new();
    for (name, kind, call) in &cases {
        let operations = World::new().recorded(call);
        let own_name = name.split("::").nth(1).unwrap();
        let is_it = |operation: &Operation| {
            let has_name = operation.key.is_ascii() && !operation.key.is_empty();
            operation.kind == *kind && (*kind != Kind::Other || has_name)
        };
        if !operations.iter().any(is_it) {
            wrong.push((name, own_name));
        }
    }
    assert!(wrong.is_empty(), "in no trace: {wrong:?}");
    let told: BTreeSet<_> = cases.iter().map(|(name, ..)| *name).collect();
    let mut missing = sources::all_calls();
    missing.retain(|call| {
        let is_of = |(prefix, _): &(&str, &str)| call.starts_with(prefix);
        let is_it = |(name, _): &(&str, &str)| name == call;
        !told.contains(&**call)
            && !NOT_RECORDED.iter().any(is_of)
            && !NOT_RECORDED_CALLS.iter().any(is_it)
    });
    assert!(
        missing.is_empty(),
        "record these calls, and add a case here; or say why they are in no trace: {missing:?}"
    );
}

#[test]
fn results_and_sizes_are_those_of_the_calls() {
    let world = World::new();
    let operations = world.recorded(|w| {
        w.keyspace.put("a", "12345").unwrap();
        done(w.keyspace.get("a").unwrap());
        done(w.keyspace.get("x").unwrap());
        done(w.keyspace.put(vec![0; 70_000], "").unwrap_err());
        w.keyspace
            .put_with_ttl("t", "1", Duration::from_secs(60))
            .unwrap();
    });
    let hash = Some(evendb_trace::value_hash(b"12345"));
    assert_eq!(operations[0].value.as_deref(), Some(&b"12345"[..]));
    assert_eq!(operations[0].value_len, Some(5));
    assert_eq!(operations[0].keyspace, world.keyspace.id());
    assert_eq!(
        operations[1].outcome,
        Outcome::Present { len: Some(5), hash }
    );
    assert_eq!(operations[2].outcome, Outcome::Absent);
    assert_eq!(operations[3].outcome, Outcome::Failed(Failure::TooLarge));
    let ttl = operations[4].ttl_millis.unwrap();
    assert!((59_000..=60_000).contains(&ttl), "{ttl}");
    assert!(
        operations
            .iter()
            .all(|operation| operation.latency_nanos.is_some())
    );
    assert!(operations.is_sorted_by_key(|operation| operation.start_nanos));
}

#[test]
fn scans_have_their_ends_counts_and_seeks() {
    let world = World::new();
    let operations = world.recorded(|w| {
        assert_eq!(w.keyspace.range("b"..).limit(2).count(), 2);
        assert_eq!(w.keyspace.iter().rev().take(1).count(), 1);
        let mut cursor = w.keyspace.cursor("a".."d").keys_only();
        cursor.next().unwrap();
        cursor.seek("c");
        cursor.next().unwrap();
        assert!(cursor.next().unwrap().is_none());
        // The front has passed this key.
        cursor.seek_back("b");
        assert!(cursor.next_back().unwrap().is_none());
        done(cursor);
        w.db.transact(|t| {
            t.put(&w.keyspace, "e", "1")?;
            assert_eq!(t.range(&w.keyspace, "c"..)?.count(), 3);
            Ok::<_, evendb::Error>(())
        })
        .unwrap();
    });
    let scans: Vec<_> = operations
        .iter()
        .filter(|one| one.kind == Kind::Scan)
        .collect();
    let shape = |scan: &Operation| {
        let end = scan.end_key.as_deref().map(<[u8]>::to_vec);
        (
            scan.key.clone(),
            end,
            scan.count.unwrap(),
            scan.reverse,
            scan.limit,
        )
    };
    let shapes: Vec<_> = scans.iter().map(|scan| shape(scan)).collect();
    let expected = [
        (b"b".to_vec(), None, 2, false, Some(2)),
        (vec![], None, 1, true, None),
        (b"a".to_vec(), Some(b"d".to_vec()), 1, false, None),
        (b"c".to_vec(), Some(b"d".to_vec()), 1, false, None),
        (b"a".to_vec(), Some(b"b\0".to_vec()), 0, true, None),
        (b"c".to_vec(), None, 3, false, None),
    ];
    assert_eq!(shapes, expected);
    assert!(scans[2].keys_only && !scans[0].keys_only);
    assert!(scans[5].older_moment && scans[5].group != 0);
}

#[test]
fn a_scan_that_gives_nothing_keeps_its_direction() {
    let world = World::new();
    let directions = |call: &dyn Fn(&World)| -> Vec<(bool, Option<u64>)> {
        let operations = world.recorded(call);
        let scans = operations.iter().filter(|one| one.kind == Kind::Scan);
        scans.map(|scan| (scan.reverse, scan.count)).collect()
    };
    let backward = [(true, Some(0))];
    assert_eq!(
        directions(&|w| assert_eq!(w.keyspace.range("x"..).rev().count(), 0)),
        backward
    );
    assert_eq!(
        directions(&|w| assert_eq!(w.keyspace.prefix("x").rev().count(), 0)),
        backward
    );
    assert_eq!(
        directions(&|w| assert!(w.keyspace.cursor("x"..).next_back().unwrap().is_none())),
        backward
    );
    assert_eq!(
        directions(&|w| {
            committed(w, |t| {
                assert_eq!(t.range(&w.keyspace, "x"..).unwrap().rev().count(), 0);
            });
        }),
        backward
    );
    let forward = [(false, Some(0))];
    assert_eq!(
        directions(&|w| assert_eq!(w.keyspace.range("x"..).count(), 0)),
        forward
    );
    assert_eq!(directions(&|w| done(w.keyspace.range("a"..))), forward);
}

#[test]
fn a_scan_in_a_transaction_has_the_time_that_it_took() {
    let world = World::new();
    let operations = world.recorded(|w| {
        committed(w, |t| {
            assert_eq!(t.range(&w.keyspace, "a"..).unwrap().count(), 4);
            assert_eq!(t.range(&w.keyspace, "a"..).unwrap().rev().count(), 4);
        });
    });
    let scans = operations.iter().filter(|one| one.kind == Kind::Scan);
    let times: Vec<_> = scans.map(|scan| scan.latency_nanos).collect();
    assert_eq!(times.len(), 2);
    assert!(
        times.iter().all(|time| time.is_some_and(|time| time > 0)),
        "{times:?}"
    );
}

/// The operations of one batch or transaction have one group, and its end comes last.
fn check_groups(operations: &[Operation]) -> Result<(), String> {
    let mut ended = BTreeSet::new();
    for operation in operations {
        let is_part = operation.kind.is_point_write();
        if is_part && operation.group == 0 {
            return Err(format!("without a group: {operation:?}"));
        }
        if ended.contains(&operation.group) {
            return Err(format!("after the end: {operation:?}"));
        }
        if matches!(
            operation.kind,
            Kind::BatchCommit | Kind::Commit | Kind::Abort
        ) {
            ended.insert(operation.group);
        }
    }
    match ended.len() {
        3 => Ok(()),
        other => Err(format!("{other} groups")),
    }
}

fn groups(world: &World) {
    let mut batch = world.db.batch();
    batch
        .put(&world.keyspace, "a", "1")
        .delete(&world.counters, "b");
    batch
        .delete_range(&world.keyspace, AB)
        .put(&world.keyspace, "b", "2");
    batch.commit().unwrap();
    committed(world, |t| {
        t.put(&world.keyspace, "a", "2").unwrap();
        t.delete(&world.keyspace, "b").unwrap();
    });
    let mut refused = world.db.transaction().unwrap();
    refused.get(&world.keyspace, "a").unwrap();
    refused.put(&world.keyspace, "c", "1").unwrap();
    done(refused);
}

#[test]
fn batches_and_transactions_are_groups() {
    let operations = World::new().recorded(groups);
    check_groups(&operations).unwrap();
    let kinds: Vec<_> = operations.iter().map(|operation| operation.kind).collect();
    use Kind::*;
    let expected = [
        Put,
        Delete,
        DeleteRange,
        Put,
        BatchCommit,
        Begin,
        Put,
        Delete,
        Commit,
        Begin,
        Get,
        Put,
        Abort,
    ];
    assert_eq!(kinds, expected);
    assert_eq!(operations[4].count, Some(4));
    assert_eq!(operations[8].count, Some(2));
}

/// A reader that counts the writes of a trace leaves out the failed ones, each by its own outcome.
#[test]
fn the_writes_of_a_batch_have_the_outcome_of_its_commit() {
    let world = World::new();
    let operations = world.recorded(|w| {
        let gone = w.db.keyspace("gone").unwrap();
        let mut refused = w.db.batch();
        refused
            .put(&w.keyspace, "a", "refused")
            .put(&gone, "b", "refused")
            .delete(&w.keyspace, "c")
            .delete_range(&w.keyspace, AB);
        let mut too_long = w.db.batch();
        too_long
            .put(&w.keyspace, "a", "1")
            .put(&w.keyspace, vec![0; 70_000], "1");
        w.db.drop_keyspace("gone").unwrap();
        let mut written = w.db.batch();
        written
            .put(&w.keyspace, "a", "12345")
            .delete(&w.keyspace, "b");
        done(refused.commit().unwrap_err());
        written.commit().unwrap();
        done(too_long.commit().unwrap_err());
        // A single write goes another way.
        let mut single = w.db.batch();
        single.put(&gone, "b", "refused");
        done(single.commit().unwrap_err());
    });
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for operation in operations.iter().filter(|one| one.group != 0) {
        let what = format!("{:?} {:?}", operation.kind, operation.outcome);
        *counts.entry(what).or_default() += 1;
    }
    let counts: Vec<_> = counts
        .iter()
        .map(|(what, count)| (&**what, *count))
        .collect();
    let expected = [
        ("BatchCommit Done", 1),
        ("BatchCommit Failed(Closed)", 2),
        ("BatchCommit Failed(TooLarge)", 1),
        ("Delete Done", 1),
        ("Delete Failed(Closed)", 1),
        ("DeleteRange Failed(Closed)", 1),
        ("Put Done", 1),
        ("Put Failed(Closed)", 3),
        ("Put Failed(TooLarge)", 1),
    ];
    assert_eq!(counts, expected);
    let put = operations
        .iter()
        .find(|one| one.kind == Kind::Put && one.outcome == Outcome::Done);
    let put = put.unwrap();
    assert_eq!(
        (&put.key[..], put.value.as_deref()),
        (&b"a"[..], Some(&b"12345"[..]))
    );
    assert!(put.value_len == Some(5) && put.latency_nanos.is_none());
}

#[test]
fn a_sample_has_all_operations_of_its_keys() {
    let world = World::new();
    let options = TraceOptions::new(world.path("trace")).one_key_in(10);
    let trace = world.db.start_trace(options).unwrap();
    let key = |number: u32| format!("{number:06}");
    thread::scope(|scope| {
        for part in 0..2 {
            let world = &world;
            scope.spawn(move || {
                for number in (part..4000).step_by(2) {
                    world.db.put(key(number), "value").unwrap();
                    world.db.get(key(number)).unwrap();
                    let mut batch = world.db.batch();
                    batch.put(world.db.default_keyspace(), key(number), "2");
                    batch.commit().unwrap();
                }
            });
        }
    });
    let operations = world.stop(trace);
    let mut by_key: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for operation in operations
        .iter()
        .filter(|one| one.kind != Kind::BatchCommit)
    {
        by_key
            .entry(&operation.key)
            .or_default()
            .push(operation.kind);
    }
    assert!((300..500).contains(&by_key.len()), "{}", by_key.len());
    assert!(
        by_key
            .values()
            .all(|kinds| *kinds == [Kind::Put, Kind::Get, Kind::Put])
    );
    let commits = operations
        .iter()
        .filter(|one| one.kind == Kind::BatchCommit);
    assert_eq!(commits.count(), by_key.len());
}

#[test]
fn what_cannot_be_recorded_is_refused_by_name() {
    let world = World::new();
    let options = || TraceOptions::new(world.path("trace"));
    let trace = world.db.start_trace(options()).unwrap();
    let other = TraceOptions::new(world.path("other"));
    let error = world.db.start_trace(other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(!world.path("other").exists());
    trace.stop().unwrap();
    let error = world.db.start_trace(options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let nowhere = TraceOptions::new(world.path("no/such/place"));
    assert_eq!(
        world.db.start_trace(nowhere).unwrap_err().kind(),
        ErrorKind::Io
    );
    std::fs::remove_file(world.path("trace")).unwrap();
    // A trace outlives the handles of the database, and ends when it is dropped.
    done(world.db.start_trace(options()).unwrap());
    assert!(read(&world.path("trace")).is_empty());
    world.db.clone().close().unwrap();
    let closed = TraceOptions::new(world.path("closed"));
    assert_eq!(
        world.db.start_trace(closed).unwrap_err().kind(),
        ErrorKind::Closed
    );
}

#[test]
fn keyspaces_have_their_names() {
    let world = World::new();
    let trace = world.start();
    let late = world.db.keyspace("late").unwrap();
    late.put("a", "1").unwrap();
    trace.stop().unwrap();
    let bytes = std::fs::read(world.path("trace")).unwrap();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    assert_eq!(reader.keyspaces()[&world.keyspace.id()], "k");
    while reader.next().unwrap().is_some() {}
    assert_eq!(reader.keyspaces()[&late.id()], "late");
}
