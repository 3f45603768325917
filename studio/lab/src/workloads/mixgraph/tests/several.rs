//! Loads on several keyspaces: each has what its model says, and none is mistaken for another.

use std::collections::HashMap;

use super::*;
use crate::mixgraph::drawn_trace::{self, Timetable};
use crate::store::StoreResult;
use crate::stores::keyspaces;
use evendb_model::Workload;
use evendb_model::sizes::Sizes;
use evendb_model::workload::Keyspace;
use evendb_trace::{Operation, Reader};

/// The preset with this share of its pairs.
fn udb(share: f64) -> Workload {
    presets::workload("udb").unwrap().scaled(share)
}

/// A drawn trace, and the names of its keyspaces.
fn drawn(load: &Arc<Load>, operations: u64) -> (Vec<Operation>, Vec<String>) {
    let mut bytes = Vec::new();
    let at = Timetable::Even(1000.0);
    drawn_trace::write(load, operations, at, &mut bytes).unwrap();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let names = reader.keyspaces().values().cloned().collect();
    let operations: Result<Vec<_>, _> = reader.operations().collect();
    (operations.unwrap(), names)
}

fn shares(sizes: &Sizes) -> Vec<f64> {
    (0..=sizes.most).map(|size| sizes.share(size)).collect()
}

fn count(sizes: impl Iterator<Item = u64>, most: u64) -> Vec<u64> {
    let mut counts = vec![0; most as usize + 1];
    sizes.for_each(|size| counts[size as usize] += 1);
    counts
}

#[test]
fn a_drawn_trace_of_six_families_has_what_the_model_says_of_each() {
    let load = Arc::new(Load::new(udb(0.0005), Allocation::PrefixDist, 7));
    let (operations, names) = drawn(&load, 300_000);
    let printed = [
        "Object",
        "Assoc",
        "Assoc_count",
        "Object_2ry",
        "Assoc_2ry",
        "Non_SG",
    ];
    assert_eq!(names, printed);
    let of_each = count(operations.iter().map(|one| u64::from(one.keyspace)), 5);
    let keyspaces = &load.workload.keyspaces;
    let wanted: Vec<f64> = keyspaces.iter().map(|keyspace| keyspace.share).collect();
    follows(&of_each, &wanted).unwrap();
    for (number, family) in load.families.iter().enumerate() {
        let name = &family.name;
        let id = number as u32;
        let own = || operations.iter().filter(move |one| one.keyspace == id);
        let of_kind = |kind| own().filter(move |one| one.kind == kind);
        let kinds = [
            evendb_trace::Kind::Get,
            evendb_trace::Kind::Put,
            evendb_trace::Kind::Delete,
            evendb_trace::Kind::Merge,
            evendb_trace::Kind::Scan,
        ];
        let counts = kinds.map(|kind| of_kind(kind).count() as u64);
        let mix = family.model.mix.shares().map(|(_, share)| share);
        follows(&counts, &mix).unwrap_or_else(|why| panic!("{name}: kinds: {why}"));
        let put = &family.model.values.sizes;
        let values = of_kind(evendb_trace::Kind::Put).map(|one| one.value_len.unwrap());
        follows(&count(values, put.most), &shares(put))
            .unwrap_or_else(|why| panic!("{name}: values: {why}"));
        if let Some(scans) = &family.model.scans {
            let limits = of_kind(evendb_trace::Kind::Scan).map(|one| one.limit.unwrap());
            follows(&count(limits, scans.most), &shares(scans))
                .unwrap_or_else(|why| panic!("{name}: scans: {why}"));
        }
        // A key's size belongs to its pair, and keys have no number of a keyspace before them.
        let keys = &family.model.keys;
        let mut key = Vec::new();
        let sizes = (0..family.model.pairs).map(|pair| {
            family.records.write_key_in_keyspace(pair, &mut key);
            key.len() as u64
        });
        follows(&count(sizes, keys.most), &shares(keys))
            .unwrap_or_else(|why| panic!("{name}: keys: {why}"));
        let prefix = keyspaces::prefix(number as u32);
        let pair = |one: &Operation| family.records.pair_of(&[&prefix[..], &one.key].concat());
        assert!(own().all(|one| pair(one).is_some_and(|pair| pair < family.model.pairs)));
    }
}

/// Two keyspaces with the same keys, of 8 bytes, and values that say what they are.
fn two(change: impl FnOnce(&mut [Keyspace])) -> Workload {
    let mut model = small("zippydb", 500);
    (model.keys, model.values.loaded) = (Sizes::constant(8), Sizes::constant(40));
    model.values.sizes = Sizes::constant(40);
    let keyspace = |name: &str| Keyspace {
        name: name.to_owned(),
        share: 0.5,
        load: model.clone(),
    };
    let mut workload = Workload::from(&model);
    workload.keyspaces = vec![keyspace("left"), keyspace("right")];
    change(&mut workload.keyspaces);
    workload
}

/// A store that looks for a key in the other one of two keyspaces.
struct Crossed {
    inner: MemoryStore,
}

impl Store for Crossed {
    crate::passed_on!(inner: name, put, batch, stats, settle_debt, close, scan);

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        let (number, key) = keyspaces::split(key);
        let other = [&keyspaces::prefix(1 - number)[..], key].concat();
        self.inner.get(&other, check)
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.inner.delete(key)
    }
}

#[test]
fn a_value_of_another_keyspace_is_wrong_even_under_the_same_key() {
    let crossed = Crossed {
        inner: MemoryStore::new(),
    };
    let told = run(&crossed, two(|_| {}), 2000);
    let told = told.err().unwrap().to_string();
    assert!(told.contains("belongs to another pair"), "{told}");
    assert!(told.contains("of keyspace "), "{told}");
    run(&MemoryStore::new(), two(|_| {}), 2000).unwrap();
}

#[test]
fn a_load_puts_exactly_the_pairs_of_each_keyspace_once() {
    let workload = udb(0.0001);
    let load = Arc::new(Load::new(&workload, Allocation::PrefixDist, 4));
    let store = MemoryStore::new();
    let mut recorder = Recorder::new(Arc::default());
    // Two threads share the work.
    let taken = Arc::default();
    let mut workers = [
        FillWorker::new(&load, &taken),
        FillWorker::new(&load, &taken),
    ];
    let mut puts = 0;
    'all: loop {
        for worker in &mut workers {
            if !worker.step(&store, &mut recorder).unwrap() {
                break 'all;
            }
            puts += 1;
        }
    }
    assert_eq!((puts, load.pairs()), (workload.pairs(), workload.pairs()));
    let mut counts: HashMap<u32, u64> = HashMap::new();
    let mut each = |key: &[u8], value: &[u8]| {
        let number = keyspaces::split(key).0;
        let records = &load.families[number as usize].records;
        let pair = records.pair_of(key).unwrap();
        records
            .check(pair, value, crate::value::Thoroughness::Whole)
            .unwrap();
        *counts.entry(number).or_default() += 1;
        true
    };
    store.scan(b"", usize::MAX, &mut each).unwrap();
    // No put has replaced another one, and each keyspace has what its model says.
    for (number, keyspace) in (0..).zip(&workload.keyspaces) {
        assert_eq!(counts[&number], keyspace.load.pairs, "{}", keyspace.name);
    }
}

#[test]
fn all_operations_of_a_workload_are_carried_out_and_checked() {
    let (recorder, load) = run(&MemoryStore::new(), udb(0.0001), 20_000).unwrap();
    let timed = |kind| {
        recorder
            .histogram(kind)
            .map_or(0, hdrhistogram::Histogram::len)
    };
    let all = [
        OperationKind::Get,
        OperationKind::Put,
        OperationKind::Delete,
        OperationKind::Scan,
    ];
    assert_eq!(all.map(timed).iter().sum::<u64>(), 20_000);
    // Deletes leave holes in the keyspaces that have them, and are missed there alone.
    assert!(load.absent() > 0);
    // A pair that is missing where nothing is deleted is a fault.
    let lost = run(
        &MemoryStore::with_fault(Fault::LoseRecord),
        two(|_| {}),
        20_000,
    );
    let told = lost.err().unwrap().to_string();
    assert!(
        told.contains("missing") || told.contains("pairs came"),
        "{told}"
    );
}

#[test]
fn counters_of_each_keyspace_add_up_beside_plain_values() {
    let workload = two(|keyspaces| {
        let counter = &mut keyspaces[1].load;
        (counter.mix.get, counter.mix.put) = (0.2, 0.0);
        (counter.mix.merge, counter.mix.scan) = (0.8, 0.0);
        counter.values.sizes = Sizes::constant(8);
        counter.values.loaded = Sizes::constant(8);
    });
    assert!(workload.counts());
    let store = MemoryStore::new();
    let (_, load) = run(&store, &workload, 5000).unwrap();
    store.add(&load.families[1].records.key(7), 1).unwrap();
    let told = load.check_sum(&store).unwrap_err().to_string();
    let is_told = told.contains("were added") && told.contains("keyspace right");
    assert!(is_told, "{told}");
}

#[test]
fn one_keyspace_with_a_name_lies_in_the_store_as_one_without() {
    let mut workload = two(|keyspaces| keyspaces[0].share = 1.0);
    workload.keyspaces.truncate(1);
    let load = Arc::new(Load::new(&workload, Allocation::PrefixDist, 4));
    assert_eq!(load.families[0].records.key(3).len(), 8);
    let (operations, names) = drawn(&load, 100);
    assert_eq!(names, ["left"]);
    assert!(operations.iter().all(|one| one.keyspace == 0));
    // What is drawn is what a model of one keyspace draws.
    let model = workload.keyspaces[0].load.clone();
    let plain = Arc::new(Load::new(&model, Allocation::PrefixDist, 4));
    assert_eq!(drawn(&plain, 100).0, operations);
}

#[test]
fn keyspaces_without_a_share_are_loaded_and_never_asked() {
    let workload = two(|keyspaces| {
        keyspaces[0].share = 0.0;
        keyspaces[1].share = 1.0;
    });
    let load = Arc::new(Load::new(&workload, Allocation::PrefixDist, 4));
    assert_eq!(load.pairs(), 1000);
    let (operations, names) = drawn(&load, 10_000);
    assert_eq!(names, ["left", "right"]);
    assert!(operations.iter().all(|one| one.keyspace == 1));
}
