mod faithful;

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
use crate::purposes::RangeEnd;
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

/// Pops and scans in reverse among other calls, over few keys.
fn calls_at_both_ends(store: &dyn Store) {
    let both_ends = store.both_ends().unwrap();
    let mut random = Random::new(11, 0);
    let key = |random: &mut Random| format!("key{:02}", random.below(60)).into_bytes();
    for number in 0..3000_u32 {
        let (one, other) = (key(&mut random), key(&mut random));
        let (low, high) = (one.clone().min(other.clone()), one.clone().max(other));
        let high = (number % 3 > 0).then_some(&high[..]);
        let end = match number % 2 {
            0 => RangeEnd::First,
            _ => RangeEnd::Last,
        };
        match random.below(8) {
            0..4 => store.put(&one, &number.to_le_bytes().repeat(3)).unwrap(),
            4 => done(both_ends.pop((&low, high), end, &mut |_| {}).unwrap()),
            5 => done(store.get(&one, &mut |_| {}).unwrap()),
            6 => done(store.scan(&one, 3, &mut |_, _| true).unwrap()),
            _ => {
                let scanned = both_ends.scan_back((&low, high), 5, &mut |_, _| true);
                done(scanned.unwrap());
            }
        }
    }
}

fn evendb(
    directory: &tempfile::TempDir,
    purpose: Option<crate::opener::Purpose>,
) -> Box<dyn Store> {
    use crate::opener::{Durability, Opener, Settings};
    use crate::stores::evendb::EvenDbOpener;
    let settings = Settings {
        memory_bytes: 16 << 20,
        durability: Durability::Relaxed,
    };
    let store = match purpose {
        Some(purpose) => EvenDbOpener.open_for(directory.path(), &settings, purpose),
        None => EvenDbOpener.open(directory.path(), &settings),
    };
    store.unwrap()
}

#[test]
fn pops_and_scans_in_reverse_are_asked_of_a_store_that_has_them() {
    let mut original = Vec::new();
    let trace = recorded(Box::new(MemoryStore::new()), with_values(), |store| {
        calls_at_both_ends(store);
        original = contents(store);
    });
    for threads in [1, 4] {
        let directory = tempfile::tempdir().unwrap();
        let stores = [
            Box::new(MemoryStore::new()) as Box<dyn Store>,
            evendb(&directory, None),
        ];
        for store in stores {
            let report = replayed(&trace, &*store, &settings(threads));
            assert_eq!(report.differences.total(), 0, "{:?}", report.differences);
            assert!(report.left_out.is_empty(), "{:?}", report.left_out);
            let asked = |kind| report.kinds[&kind].latencies.len();
            assert!(asked(Kind::Pop) > 200 && asked(Kind::Scan) > 400);
            assert!(report.compared > 500);
            assert_eq!(contents(&*store), original, "with {threads} threads");
        }
    }
    // A store without these calls: they are counted, and nothing else is.
    let report = replayed(&trace, &Slow::new(0, false), &settings(1));
    let names: Vec<_> = report.left_out.keys().copied().collect();
    assert_eq!(names, ["pops", "scans in reverse"]);
}

#[test]
fn a_pop_that_gives_something_else_is_a_difference() {
    let trace = recorded(Box::new(MemoryStore::new()), with_values(), |store| {
        store.put(b"a", b"1").unwrap();
        store.put(b"b", b"22").unwrap();
        let both_ends = store.both_ends().unwrap();
        for end in [RangeEnd::Last, RangeEnd::First, RangeEnd::First] {
            both_ends.pop((b"", None), end, &mut |_| {}).unwrap();
        }
    });
    let store = MemoryStore::new();
    store.put(b"aa", b"1").unwrap();
    store.put(b"c", b"333").unwrap();
    // c instead of b, then a, then aa instead of nothing; b stays.
    let report = replayed(&trace, &store, &settings(1));
    assert_eq!(report.differences.other_length, 1);
    assert_eq!(report.differences.present_not_absent, 1);
    assert_eq!(report.compared, 3);
    assert_eq!(contents(&store), [(b"b".to_vec(), b"22".to_vec())]);
}

#[test]
fn merges_are_asked_of_a_store_that_is_opened_for_them() {
    for merges in [Merges::Counters, Merges::Appends] {
        let mut original = Vec::new();
        let trace = recorded(Box::new(MemoryStore::new()), with_values(), |store| {
            let mut random = Random::new(13, 0);
            for number in 0..2000_u64 {
                let key = format!("key{:02}", random.below(30)).into_bytes();
                let operand = number.to_le_bytes();
                match (random.below(6), merges) {
                    (0, _) => done(store.get(&key, &mut |_| {}).unwrap()),
                    (1, _) => store.put(&key, &operand).unwrap(),
                    (2, _) => store.delete(&key).unwrap(),
                    (_, Merges::Counters) => store.counters().unwrap().add(&key, number).unwrap(),
                    _ => store.appending().unwrap().append(&key, &operand).unwrap(),
                }
            }
            original = contents(store);
        });
        for threads in [1, 3] {
            let directory = tempfile::tempdir().unwrap();
            let opened = evendb(&directory, Some(merges.purpose()));
            for store in [Box::new(MemoryStore::new()) as Box<dyn Store>, opened] {
                let with_merges = ReplaySettings {
                    merges: Some(merges),
                    ..settings(threads)
                };
                let report = replayed(&trace, &*store, &with_merges);
                assert_eq!(report.differences.total(), 0, "{:?}", report.differences);
                assert!(report.left_out.is_empty() && report.compared > 100);
                assert_eq!(contents(&*store), original, "{merges:?}");
            }
        }
        let unsaid = replayed(&trace, &MemoryStore::new(), &settings(1));
        assert!(unsaid.left_out["merges"] > 500, "{:?}", unsaid.left_out);
        let asked = ReplaySettings {
            merges: Some(merges),
            ..settings(1)
        };
        let without = replayed(&trace, &Slow::new(0, false), &asked);
        assert!(without.left_out["merges, which the store does not have"] > 500);
    }
}

/// What EvenDB records of transactions that go back.
#[test]
fn what_a_transaction_took_back_is_not_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace");
    let options = evendb::Options::new().memory_budget(16 << 20);
    let store = EvenDbStore::open(&directory.path().join("db"), options, "").unwrap();
    let db = store.database();
    let trace = db.start_trace(evendb::TraceOptions::new(&file).values(true));
    let trace = trace.unwrap();
    let keyspace = db.default_keyspace();
    let mut random = Random::new(17, 0);
    for number in 0..300_u32 {
        let mut transaction = db.transaction().unwrap();
        let mut savepoints = Vec::new();
        for _ in 0..12 {
            let key = format!("key{:02}", random.below(40));
            match random.below(7) {
                0..3 => transaction
                    .put(keyspace, key, number.to_le_bytes())
                    .unwrap(),
                3 => transaction.delete(keyspace, key).unwrap(),
                4 => {
                    let high = format!("key{:02}", random.below(40));
                    transaction.delete_range(keyspace, key..high).unwrap();
                }
                5 => savepoints.push(transaction.savepoint()),
                _ if !savepoints.is_empty() => {
                    let at = random.below(savepoints.len() as u64) as usize;
                    // A savepoint that is gone is refused, and nothing changes.
                    done(transaction.rollback_to(savepoints[at]));
                }
                _ => {}
            }
        }
        match number % 5 {
            0 => drop(transaction),
            _ => transaction.commit().unwrap(),
        }
    }
    trace.stop().unwrap();
    let original = contents(&store);
    assert!(original.len() > 5);
    let trace = std::fs::read(&file).unwrap();
    for threads in [1, 4] {
        let other = MemoryStore::new();
        let report = replayed(&trace, &other, &settings(threads));
        assert_eq!(contents(&other), original, "with {threads} threads");
        let names: Vec<_> = report.left_out.keys().copied().collect();
        let not_committed = "batches and transactions that were not committed in the trace";
        assert_eq!(
            names,
            [
                not_committed,
                "deletions of ranges that end before they begin",
                "writes that failed in the trace"
            ]
        );
    }
}

#[test]
fn a_savepoint_that_the_trace_does_not_have_leaves_the_transaction_out() {
    let part = |kind, key: &str, count| {
        let mut operation = Operation::new(kind, key);
        operation.group = 1;
        operation.count = count;
        operation.outcome = Outcome::Done;
        operation
    };
    for (number, stays) in [
        (None, None),
        (Some(9), None),
        (Some(1), Some("a")),
        (Some(0), Some("")),
    ] {
        let trace = written(&[
            part(Kind::Begin, "", None),
            part(Kind::Put, "a", None),
            part(Kind::Other, "savepoint", Some(1)),
            part(Kind::Put, "b", None),
            part(Kind::Other, "rollback_to", number),
            part(Kind::Commit, "", None),
        ]);
        let store = MemoryStore::new();
        let report = replayed(&trace, &store, &settings(1));
        assert_eq!(report.left_out.is_empty(), stays.is_some(), "{number:?}");
        let keys: Vec<_> = contents(&store).into_iter().map(|(key, _)| key).collect();
        let expected = stays.unwrap_or_default().as_bytes();
        assert_eq!(keys.concat(), expected, "{number:?}");
    }
}

#[test]
fn a_trace_is_replayed_in_parts_on_the_same_store() {
    let mut original = Vec::new();
    let trace = recorded(Box::new(MemoryStore::new()), with_values(), |store| {
        some_calls(store);
        original = contents(store);
    });
    let reader = Reader::new(&trace[..]).unwrap();
    let operations: Vec<_> = InOrder::new(reader, 1 << 20).map(Result::unwrap).collect();
    // Not within a batch: half of the batch would be lost.
    let middle = (700..).find(|at| operations[*at].group == 0).unwrap() as u64;
    let operations = operations.len() as u64;
    let store = MemoryStore::new();
    let part = |skip, warm, until| ReplaySettings {
        part: Part {
            skip,
            warm,
            until,
            ..Part::default()
        },
        // All operations that wait to be put in order take less than that.
        order_bytes: 1 << 20,
        ..ReplaySettings::default()
    };
    let begin = replayed(&trace, &store, &part(0, 100, middle));
    assert_eq!(begin.operations_in_trace, middle - 100);
    let end = replayed(&trace, &store, &part(middle, 0, u64::MAX));
    assert_eq!(end.operations_in_trace, operations - middle);
    assert_eq!(begin.differences.total() + end.differences.total(), 0);
    assert_eq!(contents(&store), original);
    let nothing = replayed(&trace, &store, &part(operations, 5, u64::MAX));
    assert_eq!((nothing.operations_in_trace, nothing.replayed()), (0, 0));
}

#[test]
fn a_part_is_due_by_its_own_time() {
    let trace = written(&puts(40, 50_000_000));
    let timed = ReplaySettings {
        speed: Speed::Times(10.0),
        part: Part {
            skip: 20,
            warm: 5,
            ..Part::default()
        },
        ..ReplaySettings::default()
    };
    let report = replayed(&trace, &MemoryStore::new(), &timed);
    assert_eq!(report.replayed(), 15);
    // From the 25th to the last there are 14 gaps of 50 ms.
    assert_eq!(report.intended, Some(Duration::from_millis(70)));
}

#[test]
fn the_beginning_of_a_trace_can_fill_the_store() {
    let mut operations = puts(10, 1);
    let mut gone = Operation::new(Kind::Delete, "key3");
    gone.start_nanos = 20;
    operations.push(gone);
    for (at, key) in [(30, "key1"), (31, "key3"), (32, "other")] {
        let mut get = Operation::new(Kind::Get, key);
        get.start_nanos = at;
        get.outcome = match key {
            "key3" => Outcome::Absent,
            _ => Outcome::Present {
                len: Some(10),
                hash: None,
            },
        };
        operations.push(get);
    }
    let trace = written(&operations);
    let filling = ReplaySettings {
        part: Part {
            load: 11,
            ..Part::default()
        },
        ..ReplaySettings::default()
    };
    let (store, go) = (MemoryStore::new(), AtomicBool::new(false));
    let put = prepare(Reader::new(&trace[..]).unwrap(), &store, &filling, &go).unwrap();
    assert_eq!((put.put, contents(&store).len()), (11, 10));
    let report = replayed(&trace, &store, &filling);
    assert_eq!((report.replayed(), report.compared), (3, 3));
    assert_eq!(report.differences.total(), 0, "{:?}", report.differences);
}

#[test]
fn a_store_is_aged_by_what_the_trace_writes_over_and_has_the_same_records() {
    let mut failed = Operation::new(Kind::Put, "kept");
    failed.outcome = Outcome::Failed(Failure::Other);
    let of = |kind, key: &str, bytes| {
        let mut operation = Operation::new(kind, key);
        (operation.value_len, operation.outcome) = (bytes, Outcome::Done);
        operation
    };
    let mut operations = vec![
        of(Kind::Put, "kept", Some(40)),
        of(Kind::Put, "over", Some(10)),
        of(Kind::Put, "gone", Some(10)),
        of(Kind::Put, "over", Some(30)),
        of(Kind::Put, "new", Some(10)),
        of(Kind::Delete, "gone", None),
        failed,
    ];
    for (at, operation) in (0..).zip(&mut operations) {
        operation.start_nanos = at;
    }
    let trace = written(&operations);
    let settings = ReplaySettings {
        part: Part {
            load: 3,
            ..Part::default()
        },
        ..ReplaySettings::default()
    };
    let (memory, go) = (MemoryStore::new(), AtomicBool::new(false));
    let reader = || Ok(Reader::new(&trace[..]).unwrap());
    prepare(reader().unwrap(), &memory, &settings, &go).unwrap();
    let before = contents(&memory);
    let (log, slot) = (Shared::default(), Arc::new(RecorderHandle::default()));
    let store = TracedStore::new(Box::new(memory), slot.clone());
    let recorder = Recorder::start(&slot, log.clone(), with_values()).unwrap();
    // Only `over` is written over: 14 bytes each time, until the bytes are reached or after 16
    // times.
    let age = |bytes| age(&reader, &store, (&settings, bytes), &go).unwrap();
    assert_eq!((age(0), age(14), age(15), age(1000)), (0, 14, 28, 224));
    recorder.stop().unwrap();
    assert_eq!(contents(&store), before);
    let calls = log.0.lock().clone();
    let calls = InOrder::new(Reader::new(&calls[..]).unwrap(), 1 << 20).map(Result::unwrap);
    let puts: Vec<_> = calls.filter(|call| call.kind == Kind::Put).collect();
    assert_eq!(puts.len(), 19);
    assert!(puts.iter().all(|put| put.key == b"over"));
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
