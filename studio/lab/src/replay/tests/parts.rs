//! Parts of a trace, what fills a store before, and ageing.

use super::*;

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
