//! Phases against stores in memory: what is counted, what ends a phase, and what a stall costs.

use std::sync::atomic::AtomicU64;

use super::running::quota;
use super::*;
use crate::dataset::Dataset;
use crate::distribution::{Distribution, DistributionKind, THETA_DEFAULT};
use crate::mix::{LoadWorker, Mix, MixWorker, Population, SweepWorker};
use crate::recorder::OperationKind;
use crate::store::StoreResult;
use crate::stores::memory::{Fault, MemoryStore};
use crate::stores::put_only::PutOnlyStore;

fn phase(limit: Limit) -> Phase {
    Phase {
        limit,
        settle: true,
        course_interval: Duration::from_millis(20),
        ..Phase::new("test", 3)
    }
}

fn go(
    store: &dyn Store,
    phase: &Phase,
    worker_of: &dyn Fn(usize) -> Box<dyn Worker>,
) -> Result<PhaseResult, RunError> {
    run(
        store,
        phase,
        &AtomicBool::new(false),
        &NoProgress,
        worker_of,
    )
}

fn load(store: &dyn Store) -> Dataset {
    let dataset = Dataset::new(3000, 100, 1);
    let population = Arc::new(Population::new(0));
    let result = go(store, &phase(Limit::default()), &|_| {
        Box::new(LoadWorker::new(dataset.clone(), Arc::clone(&population)))
    })
    .unwrap();
    assert_eq!(result.operations, 3000);
    assert_eq!(result.user_bytes_written, dataset.data_bytes());
    assert_eq!(result.course.iter().map(|step| step.1).sum::<u64>(), 3000);
    dataset
}

fn mix_worker(dataset: &Dataset, mix: Mix) -> impl Fn(usize) -> Box<dyn Worker> {
    let kind = mix.distribution(DistributionKind::ZipfComposite);
    let distribution = Distribution::new(kind, dataset.records, THETA_DEFAULT, 1);
    let population = Arc::new(Population::new(dataset.records));
    let dataset = dataset.clone();
    move |thread| {
        Box::new(MixWorker::new(
            mix,
            &distribution,
            &dataset,
            &population,
            1,
            thread,
        ))
    }
}

#[test]
fn loads_sweeps_and_counts_operations_exactly() {
    let store = MemoryStore::new();
    let dataset = load(&store);
    let cursor = Arc::new(AtomicU64::new(0));
    let sweep = go(&store, &phase(Limit::default()), &|_| {
        Box::new(SweepWorker::new(dataset.clone(), Arc::clone(&cursor)))
    })
    .unwrap();
    assert_eq!(sweep.records_scanned, 3000);
    for mix in [Mix::A, Mix::D, Mix::E(20), Mix::F] {
        let limit = Limit {
            operations: Some(1001),
            duration: None,
        };
        let result = go(&store, &phase(limit), &mix_worker(&dataset, mix)).unwrap();
        assert_eq!(result.operations, 1001, "{mix}");
        assert!(!result.interrupted);
    }
}

#[test]
fn wrong_answers_end_the_run() {
    let store = MemoryStore::with_fault(Fault::FlipBit);
    let dataset = load(&store);
    let limit = Limit {
        operations: Some(1_000_000),
        duration: None,
    };
    let error = go(&store, &phase(limit), &mix_worker(&dataset, Mix::C)).unwrap_err();
    assert!(matches!(error, RunError::Wrong(_)), "{error}");
}

#[test]
fn time_and_interruption_end_a_run() {
    let store = MemoryStore::new();
    let dataset = load(&store);
    let worker_of = mix_worker(&dataset, Mix::B);
    let limit = Limit {
        operations: None,
        duration: Some(Duration::from_millis(30)),
    };
    assert!(go(&store, &phase(limit), &worker_of).unwrap().operations > 0);
    let interrupted = AtomicBool::new(true);
    let result = run(
        &store,
        &phase(Limit::default()),
        &interrupted,
        &NoProgress,
        &worker_of,
    )
    .unwrap();
    assert!(result.interrupted);
}

/// A worker that waits once in the middle.
struct Sleeper(u32);

impl Worker for Sleeper {
    fn step(&mut self, _: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        self.0 += 1;
        recorder.time(OperationKind::Get, || {
            let nap = if self.0 == 20 { 80 } else { 1 };
            thread::sleep(Duration::from_millis(nap));
            StoreResult::Ok(())
        })?;
        Ok(self.0 < 40)
    }
}

#[test]
fn a_stall_is_seen() {
    let mut phase = phase(Limit::default());
    phase.threads = 1;
    let result = go(&MemoryStore::new(), &phase, &|_| Box::new(Sleeper(0))).unwrap();
    assert!(
        result.longest_stall_seconds >= 0.07,
        "{}",
        result.longest_stall_seconds
    );
}

/// 1,000 puts by one thread, 100 a second if `open`; the put at 200 stalls for a second.
fn stalled(open: bool, limit: Limit) -> PhaseResult {
    let clock = Clock::manual();
    let (own, puts) = (clock.clone(), AtomicU64::new(0));
    // A put takes 1 ms of the manual clock, and one of them a second.
    let store = PutOnlyStore(move || {
        let stalls = puts.fetch_add(1, Ordering::Relaxed) == 200;
        own.advance(Duration::from_millis(if stalls { 1000 } else { 1 }));
        Ok(())
    });
    let mut phase = phase(limit);
    phase.threads = 1;
    let arrivals = Arrivals {
        per_second: 100.0,
        swing: None,
        spacing: crate::arrivals::Spacing::Even,
        seed: 1,
    };
    let pace = Pace {
        arrivals: open.then_some(arrivals),
        clock,
    };
    let dataset = Dataset::new(1000, 16, 1);
    let never = AtomicBool::new(false);
    let worker_of = mix_worker(&dataset, Mix::P);
    run_paced(&store, &phase, pace, &never, &NoProgress, &worker_of).unwrap()
}

#[test]
fn an_open_loop_charges_a_stall_to_all_that_wait_for_it() {
    let limit = Limit {
        operations: Some(1000),
        duration: None,
    };
    // The closed loop has one slow put of 1,000: nothing else was asked meanwhile.
    let closed = stalled(false, limit);
    assert!(closed.open_loop.is_none());
    let latency = closed.latencies[0];
    assert!(latency.p99 < 1_100_000 && latency.max >= 1_000_000_000);

    // In the open loop puts come due every 10 ms during that second and wait for it. Each put
    // afterwards takes 9 ms off the backlog: 1,000 / 9 = 111 of them are late.
    let open = stalled(true, limit);
    let latency = open.latencies[0];
    assert_eq!((latency.count, open.operations), (1000, 1000));
    assert!(latency.p50 < 1_100_000, "{latency:?}");
    assert!(
        latency.p95 > 400_000_000 && latency.p99 > 900_000_000,
        "{latency:?}"
    );
    let kept = open.open_loop.unwrap();
    assert_eq!((kept.intended_rate, kept.not_started), (100.0, 0));
    assert_eq!(kept.behind_seconds, 0.0);
    assert!((kept.late_seconds_max - 0.99).abs() < 1e-6, "{kept:?}");
    // The last put was due at 9.99 s and took 1 ms.
    assert!((open.seconds - 9.991).abs() < 1e-6, "{}", open.seconds);
}

#[test]
fn an_open_loop_that_ends_behind_says_so() {
    let limit = Limit {
        operations: None,
        duration: Some(Duration::from_millis(2500)),
    };
    let open = stalled(true, limit);
    // Until 2.5 s, 250 puts are due. The stall lasts from 2 s to 3 s. Puts that were due before
    // the end are still done after it.
    assert_eq!(open.operations, 250);
    let kept = open.open_loop.unwrap();
    assert_eq!(kept.not_started, 0);
    // The last put was due at 2.49 s and started after the stall and 48 other puts of 1 ms.
    assert!((kept.behind_seconds - 0.558).abs() < 1e-6, "{kept:?}");
}

#[test]
fn quotas_add_up() {
    for (all, threads) in [(10, 3), (2, 4), (0, 2), (7, 1)] {
        let shares = (0..threads).map(|index| quota(Some(all), threads, index));
        assert_eq!(shares.sum::<u64>(), all);
    }
}
