//! Runs one phase: N workers on N threads against one store, sampled from the side.
//!
//! ```text
//!   worker 0 --+
//!   worker 1 --+--> finished-step counters ---> sampler: course of throughput, longest stall,
//!   ...        |                                         deadline, progress, interruption
//!              +--> recorders (own to each thread), merged at the end ---> PhaseResult
//! ```
//! In the closed loop ([`run`]) a worker starts its next operation when the last one is done. In
//! the open loop ([`run_open`]) operations have intended starts at a given rate, and latencies
//! count from there; see [`crate::arrivals`].
//!
//! Every thread counts on its own cache line. The sampler is the calling thread. It looks every
//! five milliseconds, which is the resolution of the longest stall. After a phase that writes, the
//! store may be asked to settle its debt; the time and the bytes of that are reported apart and
//! charged to the phase.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::arrivals::{Arrivals, Clock, GRACE, Gate};
use crate::phase_result::{PhaseResult, components_since, figures_since, latencies};
use crate::process::ProcessUsage;
use crate::recorder::{FinishedCounter, Recorder, RunError};
use crate::store::Store;

const SAMPLE_INTERVAL: Duration = Duration::from_millis(5);

/// One thread's share of a workload.
pub trait Worker: Send {
    /// Carries out and checks one operation. `false` if there was nothing left to do, and nothing
    /// was done.
    ///
    /// # Errors
    /// The store's error, or what was wrong with its answer.
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError>;
}

/// Is told how far a phase is.
pub trait Progress {
    /// Called a few times a second with the number of finished operations, and the share of the
    /// phase that is done, if that is known.
    fn update(&self, finished: u64, fraction: Option<f64>);
}

/// Shows nothing.
pub struct NoProgress;

impl Progress for NoProgress {
    fn update(&self, _finished: u64, _fraction: Option<f64>) {}
}

/// When a phase ends: at the number of operations or at the time. The limit that comes first
/// counts. Without both, when the workers have nothing left to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// The number of operations over all threads.
    pub operations: Option<u64>,
    /// The time.
    pub duration: Option<Duration>,
}

impl Limit {
    /// The end after a number of operations over all threads.
    #[must_use]
    pub fn operations(operations: u64) -> Limit {
        Limit {
            operations: Some(operations),
            duration: None,
        }
    }

    /// The end after a time in seconds.
    #[must_use]
    pub fn seconds(seconds: f64) -> Limit {
        Limit {
            operations: None,
            duration: Some(Duration::from_secs_f64(seconds)),
        }
    }
}

/// The settings of one phase.
#[derive(Clone, Debug)]
pub struct Phase {
    /// The name in reports.
    pub name: String,
    /// The distribution's name in reports; empty if there is none.
    pub distribution: String,
    /// Worker threads.
    pub threads: usize,
    /// When the phase ends.
    pub limit: Limit,
    /// The number of operations that it has at most, for the progress display only.
    pub expected_operations: Option<u64>,
    /// Whether to settle the store's debt afterwards and charge it to the phase.
    pub settle: bool,
    /// The width of a step in the course of throughput.
    pub course_interval: Duration,
}

impl Phase {
    /// A phase that lasts until its workers have nothing left to do, and leaves its debt; its
    /// course of throughput has steps of a second.
    #[must_use]
    pub fn new(name: impl Into<String>, threads: usize) -> Phase {
        Phase {
            name: name.into(),
            distribution: String::new(),
            threads,
            limit: Limit::default(),
            expected_operations: None,
            settle: false,
            course_interval: Duration::from_secs(1),
        }
    }
}

/// Runs a phase as a closed loop. `interrupted` ends it early when it becomes true; the result says
/// so.
///
/// # Errors
/// The first thread's error; the others are stopped.
pub fn run(
    store: &dyn Store,
    phase: &Phase,
    interrupted: &AtomicBool,
    progress: &dyn Progress,
    worker_of: &dyn Fn(usize) -> Box<dyn Worker>,
) -> Result<PhaseResult, RunError> {
    run_paced(
        store,
        phase,
        Pace::default(),
        interrupted,
        progress,
        worker_of,
    )
}

/// Runs a phase as an open loop: a step of a worker is an operation of the schedule. Operations
/// that were due within the phase's time are still carried out after it, for at most the same time
/// again. Operations that are not done then are counted in the result.
///
/// # Errors
/// As [`run`].
pub fn run_open(
    store: &dyn Store,
    phase: &Phase,
    arrivals: Arrivals,
    interrupted: &AtomicBool,
    progress: &dyn Progress,
    worker_of: &dyn Fn(usize) -> Box<dyn Worker>,
) -> Result<PhaseResult, RunError> {
    let pace = Pace {
        arrivals: Some(arrivals),
        clock: Clock::default(),
    };
    run_paced(store, phase, pace, interrupted, progress, worker_of)
}

/// When operations start, and by which clock.
#[derive(Default)]
struct Pace {
    arrivals: Option<Arrivals>,
    clock: Clock,
}

fn run_paced(
    store: &dyn Store,
    phase: &Phase,
    pace: Pace,
    interrupted: &AtomicBool,
    progress: &dyn Progress,
    worker_of: &dyn Fn(usize) -> Box<dyn Worker>,
) -> Result<PhaseResult, RunError> {
    let threads = phase.threads.max(1);
    let counters: Vec<Arc<FinishedCounter>> = (0..threads).map(|_| Arc::default()).collect();
    let workers: Vec<_> = (0..threads).map(worker_of).collect();
    let figures_before = store.stats();
    let steps_before = store.get_latencies();
    let usage_before = ProcessUsage::now();
    let Limit {
        operations,
        duration,
    } = phase.limit;
    let start = pace.clock.now();
    let gate = pace
        .arrivals
        .map(|arrivals| Gate::new(arrivals, operations, duration, &pace.clock));
    let running = Running {
        store,
        phase,
        gate: gate.as_ref(),
        clock: &pace.clock,
        counters: &counters,
        interrupted,
        stop: AtomicBool::new(false),
    };
    let (sampled, outcomes) = running.to_the_end(workers, start, progress);

    let mut all = Recorder::new(Arc::default());
    // The work ends when the last worker ended, not when the sampler noticed it.
    let mut end = start;
    for outcome in outcomes {
        let (recorder, ended) = outcome.map_err(|_| RunError::Panicked)??;
        all.merge(&recorder);
        end = end.max(ended);
    }
    let usage_after = ProcessUsage::now();
    let (mut settle_seconds, mut usage_settled) = (0.0, usage_after);
    if phase.settle {
        let settle_start = Instant::now();
        progress.update(sum(&counters), Some(1.0));
        store.settle_debt()?;
        settle_seconds = settle_start.elapsed().as_secs_f64();
        usage_settled = ProcessUsage::now();
    }
    Ok(PhaseResult {
        name: phase.name.clone(),
        distribution: phase.distribution.clone(),
        store: store.name(),
        threads,
        cores: thread::available_parallelism().ok().map(usize::from),
        operations: sum(&counters),
        seconds: (end - start).as_secs_f64(),
        settle_seconds,
        interrupted: interrupted.load(Ordering::Relaxed),
        longest_stall_seconds: sampled.longest_stall(end),
        course_interval_seconds: phase.course_interval.as_secs_f64(),
        course: sampled.course(end),
        open_loop: gate.map(|gate| gate.result(end)),
        latencies: latencies(&all),
        components: components_since(&steps_before, &store.get_latencies()),
        user_bytes_written: all.user_bytes_written,
        user_bytes_read: all.user_bytes_read,
        records_scanned: all.records_scanned,
        usage: difference(usage_after, usage_before),
        usage_settled: difference(usage_settled, usage_before),
        ideal: None,
        figures: figures_since(&figures_before, &store.stats()),
    })
}

/// The result of one worker's thread: its notes and when it ended, or its panic.
type Outcome = thread::Result<Result<(Recorder, Instant), RunError>>;

/// A phase while its workers run.
struct Running<'a> {
    store: &'a dyn Store,
    phase: &'a Phase,
    gate: Option<&'a Gate>,
    clock: &'a Clock,
    counters: &'a [Arc<FinishedCounter>],
    interrupted: &'a AtomicBool,
    stop: AtomicBool,
}

impl<'a> Running<'a> {
    /// Runs each worker on a thread of its own, and samples them until the last has ended.
    fn to_the_end(
        &self,
        workers: Vec<Box<dyn Worker>>,
        start: Instant,
        progress: &dyn Progress,
    ) -> (Sampler<'a>, Vec<Outcome>) {
        let Limit {
            operations,
            duration,
        } = self.phase.limit;
        // The gate counts for all threads, so that an operation never waits for one certain thread.
        let operations = operations.filter(|_| self.gate.is_none());
        let threads = workers.len();
        thread::scope(|scope| {
            let handles: Vec<_> = workers
                .into_iter()
                .enumerate()
                .map(|(index, worker)| {
                    let share = Share {
                        quota: quota(operations, threads, index),
                        gate: self.gate,
                        clock: self.clock,
                        stop: &self.stop,
                    };
                    let counter = Arc::clone(&self.counters[index]);
                    scope.spawn(move || work(self.store, worker, &share, counter))
                })
                .collect();
            let mut sampler = Sampler::new(self.phase, self.counters, start);
            sampler.duration_max = duration.map(|duration| match self.gate {
                Some(_) => duration * GRACE,
                None => duration,
            });
            while handles.iter().any(|handle| !handle.is_finished()) {
                thread::sleep(SAMPLE_INTERVAL);
                if sampler.sample(progress) || self.interrupted.load(Ordering::Relaxed) {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
            let outcomes = handles.into_iter().map(thread::ScopedJoinHandle::join);
            (sampler, outcomes.collect())
        })
    }
}

fn sum(counters: &[Arc<FinishedCounter>]) -> u64 {
    counters.iter().map(|counter| counter.get()).sum()
}

fn quota(operations: Option<u64>, threads: usize, index: usize) -> u64 {
    operations.map_or(u64::MAX, |all| {
        all / threads as u64 + u64::from((index as u64) < all % threads as u64)
    })
}

/// What one thread is to do.
struct Share<'a> {
    quota: u64,
    gate: Option<&'a Gate>,
    clock: &'a Clock,
    stop: &'a AtomicBool,
}

fn work(
    store: &dyn Store,
    mut worker: Box<dyn Worker>,
    share: &Share<'_>,
    counter: Arc<FinishedCounter>,
) -> Result<(Recorder, Instant), RunError> {
    let stop = share.stop;
    let mut recorder = Recorder::with_clock(counter, share.clock.clone());
    let mut left = share.quota;
    while left > 0 && !stop.load(Ordering::Relaxed) {
        if let Some(gate) = share.gate {
            let Some(intended) = gate.next(stop) else {
                break;
            };
            recorder.intend(Some(intended));
        }
        match worker.step(store, &mut recorder) {
            Ok(true) => recorder.finish_step(),
            Ok(false) => break,
            Err(error) => {
                stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        left -= 1;
    }
    Ok((recorder, share.clock.now()))
}

fn difference(after: Option<ProcessUsage>, before: Option<ProcessUsage>) -> Option<ProcessUsage> {
    Some(after?.since(&before?))
}

/// Follows the counters while the workers run.
struct Sampler<'a> {
    phase: &'a Phase,
    counters: &'a [Arc<FinishedCounter>],
    start: Instant,
    course: Vec<u64>,
    finished: u64,
    in_course: u64,
    moved: Instant,
    longest_stall: Duration,
    samples: u64,
    /// The time after which the workers are stopped.
    duration_max: Option<Duration>,
}

impl<'a> Sampler<'a> {
    fn new(phase: &'a Phase, counters: &'a [Arc<FinishedCounter>], start: Instant) -> Self {
        Self {
            phase,
            counters,
            start,
            course: Vec::new(),
            finished: 0,
            in_course: 0,
            moved: start,
            longest_stall: Duration::ZERO,
            samples: 0,
            duration_max: phase.limit.duration,
        }
    }

    /// Takes one sample. `true` when the phase's time is over.
    fn sample(&mut self, progress: &dyn Progress) -> bool {
        let now = Instant::now();
        let finished = sum(self.counters);
        if finished != self.finished {
            self.longest_stall = self.longest_stall.max(now - self.moved);
            self.moved = now;
            self.finished = finished;
        }
        let elapsed = now - self.start;
        let step = (elapsed.as_secs_f64() / self.phase.course_interval.as_secs_f64()) as usize;
        while self.course.len() < step {
            // If a sample is late, the operations of the steps before it count in the first of
            // them.
            self.course.push(finished - self.in_course);
            self.in_course = finished;
        }
        self.samples += 1;
        if self.samples.is_multiple_of(20) {
            progress.update(finished, self.fraction(finished, elapsed));
        }
        self.duration_max.is_some_and(|limit| elapsed >= limit)
    }

    fn fraction(&self, finished: u64, elapsed: Duration) -> Option<f64> {
        let operations = self
            .phase
            .limit
            .operations
            .or(self.phase.expected_operations);
        let by_count = operations.map(|all| finished as f64 / all.max(1) as f64);
        let by_time = self
            .phase
            .limit
            .duration
            .map(|all| elapsed.as_secs_f64() / all.as_secs_f64());
        match (by_count, by_time) {
            (Some(count), Some(time)) => Some(count.max(time).min(1.0)),
            (one, other) => one.or(other).map(|share| share.min(1.0)),
        }
    }

    fn longest_stall(&self, end: Instant) -> f64 {
        let last = end.saturating_duration_since(self.moved);
        // A stall shorter than two looks cannot be told from the interval between them.
        let longest = self.longest_stall.max(last);
        if longest < SAMPLE_INTERVAL * 2 {
            0.0
        } else {
            longest.as_secs_f64()
        }
    }

    /// Operations in each step of the course; the last step is usually a short one.
    fn course(&self, end: Instant) -> Vec<(f64, u64)> {
        let width = self.phase.course_interval.as_secs_f64();
        let mut course: Vec<(f64, u64)> = self
            .course
            .iter()
            .enumerate()
            .map(|(index, &operations)| ((index + 1) as f64 * width, operations))
            .collect();
        let rest = sum(self.counters) - self.in_course;
        if rest > 0 {
            course.push(((end - self.start).as_secs_f64(), rest));
        }
        course
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

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
}
