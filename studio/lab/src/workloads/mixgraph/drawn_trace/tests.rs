//! A drawn trace has the answers of a store to the same operations, and keeps to its times.

use super::*;
use crate::driver::Worker as _;
use crate::mixgraph::allocation::Allocation;
use crate::recorder::Recorder;
use crate::store::Store as _;
use crate::stores::memory::MemoryStore;
use crate::traced::TracedStore;
use evendb_model::workload::Keyspace;
use evendb_model::{Model, Workload, presets};
use evendb_trace::{Operation, Reader, RecorderHandle, RecorderOptions};

fn load(name: &str, pairs: u64, change: impl FnOnce(&mut Model)) -> Arc<Load> {
    let model = presets::named(name).unwrap();
    let mut model = model.scaled(pairs as f64 / model.pairs as f64);
    change(&mut model);
    Arc::new(Load::new(&model, Allocation::PrefixDist, 5))
}

/// Three keyspaces: with scans that end where the keyspace does, with deletes, and with counters.
fn of_three() -> Arc<Load> {
    let [plain, mut deletes] = ["zippydb", "zippydb"].map(|name| presets::named(name).unwrap());
    (deletes.mix.get, deletes.mix.delete) = (0.73, 0.1);
    let counters = presets::named("up2x").unwrap();
    let mut workload = Workload::from(&plain);
    let parts = [
        ("plain", plain),
        ("deletes", deletes),
        ("counters", counters),
    ];
    workload.keyspaces = parts
        .map(|(name, load)| Keyspace {
            name: name.to_owned(),
            share: 1.0 / 3.0,
            load: load.scaled(1000.0 / load.pairs as f64),
        })
        .into();
    Arc::new(Load::new(&workload, Allocation::PrefixDist, 5))
}

fn read(bytes: &[u8]) -> Vec<Operation> {
    let mut reader = Reader::new(bytes).unwrap();
    let operations: Result<Vec<_>, _> = reader.operations().collect();
    operations.unwrap()
}

fn drawn(load: &Arc<Load>, operations: u64, timetable: Timetable) -> Vec<Operation> {
    let mut bytes = Vec::new();
    let note = write(load, operations, timetable, &mut bytes).unwrap();
    assert_eq!(note.recorded, operations);
    read(&bytes)
}

/// The operations and answers that are seen at a correct store.
fn asked(load: &Arc<Load>, operations: u64) -> Vec<Operation> {
    let slot = Arc::new(RecorderHandle::default());
    let inner = Box::new(MemoryStore::new());
    let store = match load.is_of_several() {
        true => TracedStore::of_keyspaces(inner, slot.clone()),
        false => TracedStore::new(inner, slot.clone()),
    };
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for family in &load.families {
        for pair in 0..family.model.pairs {
            family.records.write_key(pair, &mut key);
            family.records.write_value(pair, 0, &mut value);
            store.put(&key, &value).unwrap();
        }
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let to = file.reopen().unwrap();
    let options = RecorderOptions {
        waits: true,
        ..RecorderOptions::default()
    };
    let trace = evendb_trace::Recorder::start(&slot, to, options).unwrap();
    let (mut worker, mut figures) = (ModelWorker::new(load, 0, 0), Recorder::new(Arc::default()));
    for _ in 0..operations {
        assert!(worker.step(&store, &mut figures).unwrap());
    }
    assert_eq!(trace.stop().unwrap().recorded, operations);
    read(&std::fs::read(file.path()).unwrap())
}

#[test]
fn it_is_what_a_store_answers() {
    let deletes = |model: &mut Model| {
        model.mix.delete = 0.06;
        model.mix.get -= 0.06;
    };
    let loads = [
        load("zippydb", 3000, |_| {}),
        load("zippydb", 3000, deletes),
        load("up2x", 3000, |_| {}),
        of_three(),
    ];
    for load in loads {
        let ours = drawn(&load, 5000, Timetable::Even(1000.0));
        for (mut asked, ours) in asked(&load, 5000).into_iter().zip(ours) {
            // The model says nothing of these.
            (asked.start_nanos, asked.latency_nanos) = (ours.start_nanos, None);
            asked.thread = 0;
            assert_eq!(asked, ours);
        }
    }
}

#[test]
fn operations_start_as_the_rate_says() {
    let load = load("zippydb", 3000, |_| {});
    let even = drawn(&load, 11, Timetable::Even(1000.0));
    let nanos: Vec<u64> = even.iter().map(|operation| operation.start_nanos).collect();
    assert_eq!((nanos[0], nanos[10]), (0, 10_000_000));
    let (a, b, c, d) = (80.0, 0.1, 0.0, 100.0);
    let rate = Rate { a, b, c, d };
    let swing = drawn(&load, 20_000, Timetable::Swing(rate));
    for seconds in [15.0f64, 31.4, 47.0, 62.8, 150.0] {
        let due = rate.due(seconds);
        let before = |operation: &&Operation| (operation.start_nanos as f64) < seconds * 1e9;
        let started = swing.iter().filter(before).count() as f64;
        // Four deviations of a Poisson process.
        assert!(
            (started - due).abs() < 4.0 * due.sqrt() + 1.0,
            "{started} of {due} by {seconds} s"
        );
    }
}
