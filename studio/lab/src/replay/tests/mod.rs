//! Replays of recorded and of made traces: what they leave and see, differences, times, the end of
//! a replay, keyspaces. The files beside it have the rest.

mod faithful;
mod parts;
mod purposes;
mod savepoints;
mod times;
mod unknown;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use evendb_trace::{
    Failure, Header, InOrder, Kind, Operation, Outcome, Reader, Recorder, RecorderHandle,
    RecorderOptions, Writer,
};
use parking_lot::Mutex;

use super::{Merges, Part, ReplayReport, ReplaySettings, Speed, age, prepare, replay};
use crate::random::Random;
use crate::store::{BatchWrite, Store, StoreError, StoreResult};
use crate::stores::evendb::EvenDbStore;
use crate::stores::memory::MemoryStore;
use crate::traced::TracedStore;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The operations of `run` on a store, as a trace.
fn recorded(
    store: Box<dyn Store>,
    options: RecorderOptions,
    run: impl FnOnce(&dyn Store),
) -> Vec<u8> {
    let (file, slot) = (Shared::default(), Arc::new(RecorderHandle::default()));
    let traced = TracedStore::new(store, slot.clone());
    let recorder = Recorder::start(&slot, file.clone(), options).unwrap();
    run(&traced);
    recorder.stop().unwrap();
    file.0.lock().clone()
}

fn written(operations: &[Operation]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for operation in operations {
        writer.add(operation).unwrap();
    }
    writer.finish().unwrap().0
}

fn replayed(trace: &[u8], store: &dyn Store, settings: &ReplaySettings) -> ReplayReport {
    let reader = Reader::new(trace).unwrap();
    replay(reader, store, settings, &AtomicBool::new(false)).unwrap()
}

fn contents(store: &dyn Store) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    let scanned = store.scan(b"", usize::MAX, &mut |key, value| {
        all.push((key.to_vec(), value.to_vec()));
        true
    });
    scanned.unwrap();
    all
}

fn settings(threads: usize) -> ReplaySettings {
    ReplaySettings {
        threads,
        ..ReplaySettings::default()
    }
}

fn done<T>(_: T) {}

/// Random calls of all kinds over few keys.
fn some_calls(store: &dyn Store) {
    let mut random = Random::new(7, 0);
    let key = |random: &mut Random| format!("key{:02}", random.below(60)).into_bytes();
    for number in 0..4000_u32 {
        let (one, other) = (key(&mut random), key(&mut random));
        let value = number.to_le_bytes().repeat(1 + random.below(5) as usize);
        match random.below(10) {
            0..3 => done(store.get(&one, &mut |_| {}).unwrap()),
            3..6 => store.put(&one, &value).unwrap(),
            6 => store.delete(&one).unwrap(),
            7 => {
                let writes = [BatchWrite::Put(&one, &value), BatchWrite::Delete(&other)];
                store.batch(&writes).unwrap();
            }
            8 => done(store.scan(&one, 5, &mut |_, _| true).unwrap()),
            _ if number % 7 == 0 => {
                let (low, high) = (one.clone().min(other.clone()), one.max(other));
                store.delete_range(&low, &high).unwrap();
            }
            _ => {}
        }
    }
}

fn with_values() -> RecorderOptions {
    RecorderOptions {
        has_values: true,
        has_hashes: true,
        ..RecorderOptions::default()
    }
}

#[test]
fn a_replay_leaves_what_the_trace_left_and_sees_what_it_saw() {
    let mut original = Vec::new();
    let trace = recorded(Box::new(MemoryStore::new()), with_values(), |store| {
        some_calls(store);
        original = contents(store);
    });
    for threads in [1, 2, 5] {
        let store = MemoryStore::new();
        let report = replayed(&trace, &store, &settings(threads));
        assert_eq!(report.differences.total(), 0, "{:?}", report.differences);
        assert!(
            report.compared > 1000 && report.left_out.is_empty(),
            "{report:?}"
        );
        assert_eq!(contents(&store), original, "with {threads} threads");
    }
}

#[test]
fn each_kind_of_difference_is_counted() {
    let trace = recorded(Box::new(MemoryStore::new()), with_values(), |store| {
        store.put(b"a", b"1").unwrap();
        for key in [b"a", b"b", b"c", b"d"] {
            store.get(key, &mut |_| {}).unwrap();
        }
        store.scan(b"a", 10, &mut |_, _| true).unwrap();
    });
    // A trace whose reads found other things.
    let mut reader = Reader::new(&trace[..]).unwrap();
    let mut operations: Vec<_> = reader.operations().map(Result::unwrap).collect();
    operations.remove(0);
    operations[1].outcome = Outcome::Present {
        len: Some(1),
        hash: Some(5),
    };
    operations[2].outcome = Outcome::Present {
        len: Some(2),
        hash: None,
    };
    let store = MemoryStore::new();
    for key in [b"b", b"c", b"d"] {
        store.put(key, b"1").unwrap();
    }
    let report = replayed(&written(&operations), &store, &settings(1));
    let found = report.differences;
    assert_eq!(found.absent_not_present, 1, "a: {found:?}");
    assert_eq!(found.other_value, 1, "b: {found:?}");
    assert_eq!(found.other_length, 1, "c: {found:?}");
    assert_eq!(found.present_not_absent, 1, "d: {found:?}");
    assert_eq!(found.other_count, 1, "{found:?}");
    assert_eq!((report.compared, found.total()), (5, 5));
}

#[test]
fn what_the_trace_finds_first_can_be_put_before() {
    let before = MemoryStore::new();
    for key in [b"a", b"b", b"c"] {
        before.put(key, b"old value").unwrap();
    }
    let options = RecorderOptions::default();
    let trace = recorded(Box::new(before), options, |store| {
        store.get(b"a", &mut |_| {}).unwrap();
        store.put(b"b", b"2").unwrap();
        store.get(b"b", &mut |_| {}).unwrap();
        store.get(b"x", &mut |_| {}).unwrap();
    });
    let store = MemoryStore::new();
    let go = AtomicBool::new(false);
    let put = prepare(Reader::new(&trace[..]).unwrap(), &store, &settings(1), &go).unwrap();
    assert_eq!(put.put, 1);
    assert_eq!(
        replayed(&trace, &store, &settings(1)).differences.total(),
        0
    );
    let bare = replayed(&trace, &MemoryStore::new(), &settings(1));
    assert_eq!(bare.differences.absent_not_present, 1);
}

#[test]
fn writes_of_batches_and_transactions_count_where_they_were_committed() {
    let part = |kind, key: &str, group| {
        let mut operation = Operation::new(kind, key);
        operation.group = group;
        operation.value_len = Some(3);
        operation.outcome = Outcome::Done;
        operation
    };
    let trace = written(&[
        part(Kind::Begin, "", 1),
        part(Kind::Put, "aborted", 1),
        part(Kind::Begin, "", 2),
        part(Kind::Put, "committed", 2),
        part(Kind::Abort, "", 1),
        part(Kind::Commit, "", 2),
        part(Kind::Put, "torn", 3),
        part(Kind::Merge, "merged", 0),
        part(Kind::Other, "flush", 0),
    ]);
    for threads in [1, 3] {
        let store = MemoryStore::new();
        let report = replayed(&trace, &store, &settings(threads));
        let left: Vec<_> = contents(&store).into_iter().map(|(key, _)| key).collect();
        assert_eq!(left, [b"committed"]);
        let each: Vec<_> = report.left_out.values().copied().collect();
        assert_eq!(each, [1, 1, 1, 1], "{:?}", report.left_out);
    }
}

/// A store that takes its time, or fails.
struct Slow {
    inner: MemoryStore,
    takes: Duration,
    fails: bool,
}

impl Slow {
    fn new(millis: u64, fails: bool) -> Slow {
        Slow {
            inner: MemoryStore::new(),
            takes: Duration::from_millis(millis),
            fails,
        }
    }
}

impl Store for Slow {
    crate::passed_on!(inner: get, delete, scan, batch, stats, settle_debt, close);

    fn name(&self) -> String {
        "slow".to_owned()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        thread::sleep(self.takes);
        match self.fails && key.ends_with(b"7") {
            true => Err(StoreError::new("put", "no")),
            false => self.inner.put(key, value),
        }
    }
}

fn puts(count: u64, apart_nanos: u64) -> Vec<Operation> {
    let put = |number: u64| {
        let mut operation = Operation::new(Kind::Put, format!("key{number}"));
        operation.start_nanos = number * apart_nanos;
        operation.value_len = Some(10);
        operation
    };
    (0..count).map(put).collect()
}

#[test]
fn latencies_count_from_when_operations_were_due() {
    // Ten in 50 ms of the trace, 100 ms at half its speed; each takes 20 ms.
    let trace = written(&puts(10, 5_000_000));
    let timed = ReplaySettings {
        speed: Speed::Times(0.5),
        ..ReplaySettings::default()
    };
    let report = replayed(&trace, &Slow::new(20, false), &timed);
    let latencies = &report.kinds[&Kind::Put].latencies;
    assert!(report.duration >= Duration::from_millis(200));
    // The last one was due after 90 ms, and done after 200.
    assert!(latencies.max() >= 105_000_000, "{}", latencies.max());
    assert!(
        report.late_max >= Duration::from_millis(85),
        "{:?}",
        report.late_max
    );
    assert_eq!(report.intended, Some(Duration::from_millis(90)));
    let report = replayed(&trace, &Slow::new(20, false), &settings(1));
    assert!(report.kinds[&Kind::Put].latencies.min() >= 19_000_000);
    let quick = replayed(&trace, &MemoryStore::new(), &timed);
    assert!(
        quick.duration >= Duration::from_millis(90),
        "{:?}",
        quick.duration
    );
}

#[test]
fn a_failing_store_ends_the_replay_of_all_threads() {
    let mut operations = puts(2000, 0);
    for (at, group) in [(500, 1), (1500, 2)] {
        let mut delete = Operation::new(Kind::DeleteRange, "key");
        delete.end_key = Some(b"kez".to_vec());
        operations.insert(at, delete);
        let mut commit = Operation::new(Kind::BatchCommit, "");
        commit.group = group;
        operations[at + 1].group = group;
        operations[at + 2].group = group;
        operations.insert(at + 3, commit);
    }
    let trace = written(&operations);
    for threads in [1, 4] {
        let reader = Reader::new(&trace[..]).unwrap();
        let store = Slow::new(0, true);
        let go = AtomicBool::new(false);
        let error = replay(reader, &store, &settings(threads), &go).unwrap_err();
        assert!(error.to_string().contains("put failed: no"), "{error}");
    }
}

#[test]
fn it_stops_when_it_is_told_to() {
    let trace = written(&puts(1000, 1_000_000_000));
    let timed = ReplaySettings {
        speed: Speed::Times(1.0),
        threads: 2,
        ..ReplaySettings::default()
    };
    let stop = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(50));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        replay(
            Reader::new(&trace[..]).unwrap(),
            &MemoryStore::new(),
            &timed,
            &stop,
        )
    });
    let report = report.unwrap();
    assert!(report.duration < Duration::from_secs(5) && report.replayed() < 10);
}

#[test]
fn keyspaces_are_told_apart() {
    let header = Header {
        keyspaces: [(0, "a".to_owned()), (300, "b".to_owned())].into(),
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    for keyspace in [0, 300] {
        let mut put = Operation::new(Kind::Put, "key");
        put.keyspace = keyspace;
        put.value_len = Some(1);
        writer.add(&put).unwrap();
    }
    let mut scan = Operation::new(Kind::Scan, "");
    scan.count = Some(1);
    scan.limit = Some(10);
    writer.add(&scan).unwrap();
    let trace = writer.finish().unwrap().0;
    let store = MemoryStore::new();
    let report = replayed(&trace, &store, &settings(1));
    assert_eq!(report.differences.total(), 0);
    let keys: Vec<_> = contents(&store).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [b"\0\0\0\0key", b"\0\0\x01\x2ckey"]);
}

/// The same key is in two keyspaces, and each was there before with its own length.
#[test]
fn what_is_prepared_lies_in_its_keyspace() {
    let header = Header {
        keyspaces: [(0, "a".to_owned()), (300, "b".to_owned())].into(),
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    for (keyspace, len) in [(0, 3), (300, 9)] {
        let mut get = Operation::new(Kind::Get, "key");
        get.keyspace = keyspace;
        let (len, hash) = (Some(len), None);
        get.outcome = Outcome::Present { len, hash };
        writer.add(&get).unwrap();
    }
    // Only the first keyspace has this one.
    let mut absent = Operation::new(Kind::Get, "other");
    absent.keyspace = 300;
    absent.outcome = Outcome::Absent;
    writer.add(&absent).unwrap();
    absent.keyspace = 0;
    let (len, hash) = (Some(5), None);
    absent.outcome = Outcome::Present { len, hash };
    writer.add(&absent).unwrap();
    let trace = writer.finish().unwrap().0;
    let (store, never) = (MemoryStore::new(), AtomicBool::new(false));
    let reader = Reader::new(&trace[..]).unwrap();
    let prepared = prepare(reader, &store, &settings(1), &never).unwrap();
    assert_eq!(prepared.put, 3);
    let held = contents(&store).into_iter();
    let held: Vec<_> = held.map(|(key, value)| (key, value.len())).collect();
    let right = [
        (b"\0\0\0\0key".to_vec(), 3),
        (b"\0\0\0\0other".to_vec(), 5),
        (b"\0\0\x01\x2ckey".to_vec(), 9),
    ];
    assert_eq!(held, right);
    let report = replayed(&trace, &store, &settings(1));
    assert_eq!((report.compared, report.differences.total()), (4, 0));
}

#[test]
fn a_scan_that_its_caller_ended_takes_no_more_than_it_took() {
    let trace = recorded(Box::new(MemoryStore::new()), with_values(), |store| {
        for key in 0..50 {
            store.put(format!("{key:02}").as_bytes(), b"v").unwrap();
        }
        let mut left = 3;
        let mut three = |_: &[u8], _: &[u8]| {
            left -= 1;
            left > 0
        };
        assert_eq!(store.scan(b"10", usize::MAX, &mut three).unwrap(), 3);
    });
    let store = MemoryStore::new();
    let report = replayed(&trace, &store, &settings(1));
    assert_eq!(report.kinds[&Kind::Scan].records, 3);
    assert_eq!((report.compared, report.differences.total()), (1, 0));
}
