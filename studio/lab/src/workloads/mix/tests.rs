//! The mixes, the workers and what they check, against a store in memory.

use std::sync::Arc;

use super::*;
use crate::dataset::Dataset;
use crate::distribution::Distribution;
use crate::distribution::THETA_DEFAULT;
use crate::driver::Worker;
use crate::recorder::{OperationKind, Recorder};
use crate::store::Store;
use crate::stores::memory::{Fault, MemoryStore};

const RECORDS: u64 = 500;

fn load(store: &dyn Store) -> (Dataset, Arc<Population>) {
    let dataset = Dataset::new(RECORDS, 64, 1);
    let population = Arc::new(Population::new(0));
    let mut worker = LoadWorker::new(dataset.clone(), population);
    let mut recorder = Recorder::new(Arc::default());
    while worker.step(store, &mut recorder).unwrap() {}
    (dataset, Arc::new(Population::new(RECORDS)))
}

#[test]
fn a_load_in_random_order_puts_every_record_once() {
    let dataset = Dataset::new(RECORDS, 64, 1);
    let first_of = |order, seed| {
        let population = Arc::new(Population::new(0));
        let (set, all) = (dataset.clone(), population.clone());
        let mut worker = LoadWorker::in_order(set, all, order, seed);
        let store = MemoryStore::new();
        let has = |record: &u64| store.get(&key_of(*record), &mut |_| {}).unwrap();
        let mut recorder = Recorder::new(Arc::default());
        assert!(worker.step(&store, &mut recorder).unwrap());
        let first = (0..RECORDS).find(has);
        while worker.step(&store, &mut recorder).unwrap() {}
        assert!((0..RECORDS).all(|record| has(&record)));
        assert_eq!(population.present(), RECORDS);
        assert_eq!(recorder.user_bytes_written, dataset.data_bytes());
        first.unwrap()
    };
    assert_eq!(first_of(LoadOrder::Key, 1), 0);
    let random = first_of(LoadOrder::Random, 1);
    assert_eq!(random, first_of(LoadOrder::Random, 1), "the same seed");
    assert_ne!(random, first_of(LoadOrder::Random, 2), "another seed");
}

fn run(store: &dyn Store, mix: Mix, steps: u32) -> Result<(Recorder, u64), RunError> {
    let (dataset, population) = load(store);
    let kind = mix.distribution(DistributionKind::ZipfSimple);
    let distribution = Distribution::new(kind, RECORDS, THETA_DEFAULT, 1);
    let mut worker = MixWorker::new(mix, &distribution, &dataset, &population, 0, 0);
    let mut recorder = Recorder::new(Arc::default());
    for _ in 0..steps {
        worker.step(store, &mut recorder)?;
    }
    Ok((recorder, population.present()))
}

fn share(recorder: &Recorder, kind: OperationKind) -> f64 {
    let count = |kind| {
        recorder
            .histogram(kind)
            .map_or(0, hdrhistogram::Histogram::len)
    };
    let all = count(OperationKind::Get) + count(OperationKind::Put) + count(OperationKind::Scan);
    count(kind) as f64 / all as f64
}

#[test]
fn mixes_have_their_shares() {
    let expected = [
        (Mix::P, 0.0, 1.0, 0.0),
        (Mix::A, 0.5, 0.5, 0.0),
        (Mix::B, 0.95, 0.05, 0.0),
        (Mix::C, 1.0, 0.0, 0.0),
        (Mix::D, 0.95, 0.05, 0.0),
        (Mix::E(10), 0.0, 0.05, 0.95),
        (Mix::F, 0.5, 0.5, 0.0),
    ];
    for (mix, get, put, scan) in expected {
        let (recorder, present) = run(&MemoryStore::new(), mix, 4000).unwrap();
        for (kind, share_expected) in [
            (OperationKind::Get, get),
            (OperationKind::Put, put),
            (OperationKind::Scan, scan),
        ] {
            let sampled = share(&recorder, kind);
            assert!(
                (sampled - share_expected).abs() < 0.025,
                "{mix} {kind:?} {sampled}"
            );
        }
        assert_eq!(present > RECORDS, mix == Mix::D, "{mix} grows the set");
    }
}

#[test]
fn scans_have_uniform_lengths() {
    let (recorder, _) = run(&MemoryStore::new(), Mix::E(10), 4000).unwrap();
    let scans = recorder.histogram(OperationKind::Scan).unwrap().len() as f64;
    let mean = recorder.records_scanned as f64 / scans;
    assert!((mean - 5.5).abs() < 0.3, "{mean}");
}

#[test]
fn every_kind_of_wrong_answer_is_found() {
    for (fault, mix, words) in [
        (Fault::FlipBit, Mix::C, "bytes differ"),
        (Fault::LoseRecord, Mix::B, "missing"),
        (Fault::WrongRecord, Mix::F, "belongs to record"),
        (Fault::ScanGap, Mix::E(100), "yielded key"),
    ] {
        let error = run(&MemoryStore::with_fault(fault), mix, 1000)
            .err()
            .unwrap();
        assert!(matches!(error, RunError::Wrong(_)), "{error}");
        assert!(error.to_string().contains(words), "{fault:?}: {error}");
    }
}

#[test]
fn a_value_that_the_same_thread_overwrote_is_stale() {
    let mut own = OwnPuts::new(7 << 32 | 5);
    let [first, second] = [(); 2].map(|()| own.next_generation());
    assert!(!own.is_stale(3, 0), "nothing was put yet");
    own.acknowledged(3, second);
    assert!(own.is_stale(3, 0) && own.is_stale(3, first));
    assert!(!own.is_stale(3, second), "the last one");
    assert!(!own.is_stale(3, 6 << 32), "of another thread");
    assert!(!own.is_stale(4, first), "of another record");
}

#[test]
fn a_scan_that_ends_early_is_found() {
    let store = MemoryStore::new();
    let (dataset, _) = load(&store);
    let population = Arc::new(Population::new(RECORDS + 50));
    let distribution = Distribution::new(DistributionKind::Uniform, RECORDS, THETA_DEFAULT, 1);
    let mut worker = MixWorker::new(Mix::E(50), &distribution, &dataset, &population, 0, 0);
    let mut recorder = Recorder::new(Arc::default());
    let error = (0..1000)
        .find_map(|_| worker.step(&store, &mut recorder).err())
        .unwrap();
    assert!(error.to_string().contains("records came"), "{error}");
}

#[test]
fn the_population_waits_for_gaps() {
    let population = Population::new(10);
    let taken: Vec<u64> = (0..3).map(|_| population.take()).collect();
    assert_eq!(taken, [10, 11, 12]);
    population.acknowledge(12);
    population.acknowledge(11);
    assert_eq!(population.present(), 10);
    population.acknowledge(10);
    assert_eq!(population.present(), 13);
}

#[test]
fn names_read_back() {
    for mix in [
        Mix::P,
        Mix::A,
        Mix::B,
        Mix::C,
        Mix::D,
        Mix::E(10),
        Mix::E(1000),
        Mix::F,
    ] {
        assert_eq!(mix.to_string().parse(), Ok(mix));
    }
    assert_eq!("e7".parse(), Ok(Mix::E(7)));
    for wrong in ["", "E", "E0", "G", "E-1", "AB"] {
        assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
    }
}
