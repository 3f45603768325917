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
//!
//! The threads are in `running`, the sampler is in `sampler`. Not here: what is figured out from a
//! result ([`crate::phase_result`]), and workloads ([`crate::mix`] and others).

mod running;
mod sampler;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::arrivals::{Arrivals, Clock, Gate};
use crate::phase_result::{PhaseResult, components_since, figures_since, latencies};
use crate::process::ProcessUsage;
use crate::recorder::{FinishedCounter, Recorder, RunError};
use crate::store::{ComponentSteps, Figure, Store};
use running::{Outcome, Running};

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
    let before = Before::of(store);
    let start = pace.clock.now();
    let gate = pace.arrivals.map(|arrivals| {
        let limit = phase.limit;
        Gate::new(arrivals, limit.operations, limit.duration, &pace.clock)
    });
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

    let (all, end) = merged(outcomes, start)?;
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
        components: components_since(&before.steps, &store.get_latencies()),
        user_bytes_written: all.user_bytes_written,
        user_bytes_read: all.user_bytes_read,
        records_scanned: all.records_scanned,
        usage: difference(usage_after, before.usage),
        usage_settled: difference(usage_settled, before.usage),
        ideal: None,
        figures: figures_since(&before.figures, &store.stats()),
    })
}

/// What the store and the process had counted before a phase.
struct Before {
    figures: Vec<Figure>,
    steps: Vec<ComponentSteps>,
    usage: Option<ProcessUsage>,
}

impl Before {
    fn of(store: &dyn Store) -> Before {
        Before {
            figures: store.stats(),
            steps: store.get_latencies(),
            usage: ProcessUsage::now(),
        }
    }
}

fn difference(after: Option<ProcessUsage>, before: Option<ProcessUsage>) -> Option<ProcessUsage> {
    Some(after?.since(&before?))
}

/// The notes of all workers, and when the work ended: when the last worker ended, not when the
/// sampler noticed it.
fn merged(outcomes: Vec<Outcome>, start: Instant) -> Result<(Recorder, Instant), RunError> {
    let mut all = Recorder::new(Arc::default());
    let mut end = start;
    for outcome in outcomes {
        let (recorder, ended) = outcome.map_err(|_| RunError::Panicked)??;
        all.merge(&recorder);
        end = end.max(ended);
    }
    Ok((all, end))
}

fn sum(counters: &[Arc<FinishedCounter>]) -> u64 {
    counters.iter().map(|counter| counter.get()).sum()
}
