//! Experiment `pauses`: the longest pause of a put, a get and a scan through a long ingest.
//!
//! ```text
//!   load --> writers overwrite `times` the data, half of it uniformly, half by Zipf
//!            readers and scanners beside, closed loop    ticker: the machine's own noise
//! ```
//! Every operation is timed. A machine that others use stops threads too. So after each step longer
//! than a millisecond, its thread asks the system how long it was ready and waited for a processor.
//! The report shows the pause, and the pause less that time. (Waiting behind the store's own
//! threads for a core is in the first figure only.)
//!
//! The ticker sleeps a millisecond at a time and notes how late it wakes. Before the run, a thread
//! that only spins notes its longest gap on the idle store. If the system allows it, the stalls of
//! whole processors are noted (`processor_stalls.rs`): "rest" is the longest pause less the time in
//! which a processor stood still.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::dataset::Dataset;
use crate::distribution::{Distribution, DistributionKind, THETA_DEFAULT};
use crate::driver::{self, NoProgress, Phase, Worker};
use crate::mix::{LoadWorker, Mix, MixWorker, Population};
use crate::opener::Durability;
use crate::phase_result::figures_json;
use crate::recorder::{OperationKind, Recorder, RunError};
use crate::store::{Figure, Store};

use super::processor_stalls::{ProcessorStalls, StallWatch};
use super::{Common, Failure, Measure, Measured, Turn};

/// A step longer than this is looked at.
const LONG: Duration = Duration::from_millis(1);
/// A step longer than this is remembered, and compared with the machine's stalls.
const REMEMBERED: Duration = Duration::from_millis(5);
/// After this number of steps a thread reads its waiting time anew, so that little of it is older.
const REFRESH_STEPS: u64 = 512;

/// The arguments of `experiment pauses`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// MiB of keys and values
    #[arg(long, default_value_t = 1024)]
    size_mib: u64,
    /// MiB of memory a store may plan with
    #[arg(long, default_value_t = 512)]
    memory_mib: u64,
    /// How many times the data's size is overwritten
    #[arg(long, default_value_t = 3.0)]
    times: f64,
    /// Threads that put
    #[arg(long, default_value_t = 2)]
    writers: usize,
    /// Threads that get
    #[arg(long, default_value_t = 1)]
    readers: usize,
    /// Threads that scan up to 100 records
    #[arg(long, default_value_t = 1)]
    scanners: usize,
    /// The longest time of the ingest in seconds
    #[arg(long, default_value_t = 3600.0)]
    seconds_max: f64,
}

impl Arguments {
    fn settings_of(&self) -> PauseSettings {
        let mib = if self.common.quick { 64 } else { self.size_mib };
        PauseSettings {
            data_bytes: mib << 20,
            times: self.times,
            writers: self.writers,
            readers: self.readers,
            scanners: self.scanners,
            seconds_max: self.seconds_max,
            seed: self.common.seed,
            ..PauseSettings::default()
        }
    }
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Value {
        let settings = self.settings_of();
        json!({
            "data_bytes": settings.data_bytes,
            "memory_bytes": self.memory_mib << 20,
            "times": settings.times,
            "writers": settings.writers,
            "readers": settings.readers,
            "scanners": settings.scanners,
            "seed": settings.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        // Each round begins with an empty store: a long ingest leaves another state behind.
        let settings = crate::opener::Settings {
            memory_bytes: self.memory_mib << 20,
            durability: Durability::Process,
        };
        let report = turn.in_fresh_store(&settings, |store, _| {
            Ok(run(store, &self.settings_of()).map_err(|error| error.to_string())?)
        })?;
        let mut figures = report.to_json();
        figures["text"] = report.to_string().into();
        Ok(figures)
    }

    fn report(&self, results: &[Measured]) -> String {
        super::texts(results)
    }
}

/// The sizes and threads of a run.
#[derive(Clone, Debug)]
pub struct PauseSettings {
    /// Bytes of keys and values to load.
    pub data_bytes: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How many times the data's size is overwritten.
    pub times: f64,
    /// Threads that put.
    pub writers: usize,
    /// Threads that get.
    pub readers: usize,
    /// Threads that scan up to 100 records.
    pub scanners: usize,
    /// The longest time of the ingest in seconds. Its size counts if it is reached earlier.
    pub seconds_max: f64,
    /// The seed of keys, values and operations.
    pub seed: u64,
}

impl Default for PauseSettings {
    fn default() -> Self {
        PauseSettings {
            data_bytes: 1 << 30,
            value_bytes: 800,
            times: 3.0,
            writers: 2,
            readers: 1,
            scanners: 1,
            seconds_max: 3600.0,
            seed: 1,
        }
    }
}

/// The pauses of one kind of operation.
#[derive(Clone, Debug)]
pub struct Pauses {
    /// The kind of operation.
    pub kind: &'static str,
    /// The number of operations.
    pub count: u64,
    /// Median, p99, p99.9, p99.99 and the longest, in nanoseconds.
    pub percentiles: [u64; 5],
    /// The longest pause, less the time in which the thread was ready and waited for a processor.
    pub longest_own_nanos: u64,
    /// The longest pause, less the time in which the machine stood still, if that was watched.
    pub longest_rest_nanos: Option<u64>,
    /// The number of pauses above 5 and 20 ms, for any reason.
    pub above: [u64; 2],
    /// The number of pauses above 5 and 20 ms, less the time in which the thread was ready and
    /// waited for a processor.
    pub above_own: [u64; 2],
}

/// What the experiment found.
#[derive(Clone, Debug)]
pub struct PauseReport {
    /// The store's name.
    pub store: String,
    /// Pauses by kind.
    pub pauses: Vec<Pauses>,
    /// Bytes of keys and values overwritten.
    pub bytes_overwritten: u64,
    /// Seconds of loading and of overwriting.
    pub seconds: [f64; 2],
    /// Longest gap of a spinning thread before the run, and the ticker's p99.9 and longest delay in
    /// the run, in nanoseconds.
    pub noise: [u64; 3],
    /// How often a processor stood still in the run, and the longest time in nanoseconds. `None` if
    /// the system does not let us watch.
    pub stops: Option<(usize, u64)>,
    /// The store's own figures over loading and overwriting.
    pub figures: Vec<Figure>,
}

/// Loads the (empty) store and runs the ingest.
///
/// # Errors
/// The store's error, or what was wrong with its answer.
pub fn run(store: &dyn Store, settings: &PauseSettings) -> Result<PauseReport, RunError> {
    let dataset = Dataset::of_size(settings.data_bytes, settings.value_bytes, settings.seed);
    let spun = longest_gap(Duration::from_secs(2));
    let started = Instant::now();
    load(store, &dataset)?;
    let loaded = started.elapsed().as_secs_f64();
    let overwrites = Overwrites::new((dataset.records as f64 * settings.times) as u64);
    let stop = &overwrites.stop;
    let started = Instant::now();
    let (outcomes, ticks, stops) = thread::scope(|scope| {
        let ticker = scope.spawn(|| tick(stop));
        let watch = StallWatch::start(scope, stop);
        let limiter = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed)
                && started.elapsed().as_secs_f64() < settings.seconds_max
            {
                thread::sleep(Duration::from_millis(20));
            }
            stop.store(true, Ordering::Relaxed);
        });
        let handles: Vec<_> = (0..settings.writers + settings.readers + settings.scanners)
            .map(|number| {
                let (overwrites, dataset) = (&overwrites, &dataset);
                scope.spawn(move || {
                    let role = Role::of(number, settings);
                    role.run(store, number, dataset, settings, overwrites)
                })
            })
            .collect();
        let outcomes: Vec<_> = handles
            .into_iter()
            .map(|handle| {
                let outcome = handle.join().map_err(|_| RunError::Panicked);
                // A reader that failed ends the run too.
                if outcome.is_err() {
                    stop.store(true, Ordering::Relaxed);
                }
                outcome
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        drop(limiter.join());
        (outcomes, ticker.join(), watch.finish())
    });
    let seconds = started.elapsed().as_secs_f64();
    let ticks = ticks.map_err(|_| RunError::Panicked)?;
    let mut all = Notes::new();
    for outcome in outcomes {
        all.merge(&outcome??);
    }
    Ok(PauseReport {
        store: store.name(),
        pauses: all.pauses(stops.as_ref()),
        bytes_overwritten: all.recorder.user_bytes_written,
        seconds: [loaded, seconds],
        noise: [spun, ticks.value_at_quantile(0.999), ticks.max()],
        stops: stops.as_ref().map(|stops| {
            let (count, longest) = stops.count_and_longest();
            (count, longest.as_nanos() as u64)
        }),
        figures: store.stats(),
    })
}

fn load(store: &dyn Store, dataset: &Dataset) -> Result<(), RunError> {
    let population = Arc::new(Population::new(0));
    let phase = Phase {
        expected_operations: Some(dataset.records),
        settle: true,
        ..Phase::new("load", 2)
    };
    let never = AtomicBool::new(false);
    driver::run(store, &phase, &never, &NoProgress, &|_| {
        Box::new(LoadWorker::new(dataset.clone(), Arc::clone(&population)))
    })
    .map(drop)
}

/// The work of the writers, which all threads see.
struct Overwrites {
    total: u64,
    left: AtomicU64,
    /// The run ends.
    stop: AtomicBool,
}

impl Overwrites {
    fn new(total: u64) -> Overwrites {
        Overwrites {
            total,
            left: AtomicU64::new(total),
            stop: AtomicBool::new(false),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Writer,
    Reader,
    Scanner,
}

impl Role {
    fn of(number: usize, settings: &PauseSettings) -> Role {
        match number {
            _ if number < settings.writers => Role::Writer,
            _ if number < settings.writers + settings.readers => Role::Reader,
            _ => Role::Scanner,
        }
    }

    fn mix(self) -> Mix {
        match self {
            Role::Writer => Mix::P,
            Role::Reader => Mix::C,
            Role::Scanner => Mix::E(100),
        }
    }

    fn run(
        self,
        store: &dyn Store,
        number: usize,
        dataset: &Dataset,
        settings: &PauseSettings,
        overwrites: &Overwrites,
    ) -> Result<Notes, RunError> {
        let population = Arc::new(Population::new(dataset.records));
        let worker = |kind, phase| {
            let distribution =
                Distribution::new(kind, dataset.records, THETA_DEFAULT, settings.seed);
            MixWorker::new(
                self.mix(),
                &distribution,
                dataset,
                &population,
                phase,
                number,
            )
        };
        let mut uniform = worker(DistributionKind::Uniform, 1);
        let mut zipf = worker(DistributionKind::ZipfSimple, 2);
        let mut notes = Notes::new();
        let Overwrites { total, left, stop } = overwrites;
        while !stop.load(Ordering::Relaxed) {
            // Only writers use the work up; the others see in which half it is.
            let now = match self {
                Role::Writer => {
                    let take = |left: u64| left.checked_sub(1);
                    match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
                        Ok(before) => before,
                        Err(_) => break,
                    }
                }
                _ => left.load(Ordering::Relaxed),
            };
            let worker: &mut dyn Worker = match now > *total / 2 {
                true => &mut uniform,
                false => &mut zipf,
            };
            if let Err(error) = notes.step(store, worker) {
                stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        // The other threads only ran beside the writers.
        if self == Role::Writer {
            stop.store(true, Ordering::Relaxed);
        }
        Ok(notes)
    }
}

/// What a thread notes.
struct Notes {
    recorder: Recorder,
    steps: u64,
    waited_nanos: u64,
    /// Long steps by kind, less the time in which the thread was ready and waited for a processor.
    own: [Histogram<u64>; OperationKind::ALL.len()],
    /// Very long steps: their time, length and kind.
    remembered: Vec<(Instant, Duration, OperationKind)>,
}

impl Notes {
    fn new() -> Self {
        Self {
            recorder: Recorder::new(Arc::default()),
            steps: 0,
            waited_nanos: 0,
            own: std::array::from_fn(|_| histogram()),
            remembered: Vec::new(),
        }
    }

    fn step(&mut self, store: &dyn Store, worker: &mut dyn Worker) -> Result<(), RunError> {
        if self.steps.is_multiple_of(REFRESH_STEPS) {
            self.waited_nanos = ready_nanos();
        }
        self.steps += 1;
        let before = OperationKind::ALL.map(|kind| self.count(kind));
        let started = Instant::now();
        worker.step(store, &mut self.recorder)?;
        let took = started.elapsed();
        if took < LONG {
            return Ok(());
        }
        let waited = ready_nanos();
        let own = (took.as_nanos() as u64).saturating_sub(waited - self.waited_nanos);
        self.waited_nanos = waited;
        for (kind, before) in OperationKind::ALL.into_iter().zip(before) {
            if self.count(kind) > before {
                self.own[kind as usize].saturating_record(own.max(1));
                if took >= REMEMBERED {
                    self.remembered.push((started, took, kind));
                }
            }
        }
        Ok(())
    }

    fn count(&self, kind: OperationKind) -> u64 {
        self.recorder.histogram(kind).map_or(0, Histogram::len)
    }

    fn merge(&mut self, other: &Self) {
        self.recorder.merge(&other.recorder);
        for (own, theirs) in self.own.iter_mut().zip(&other.own) {
            own.add(theirs).expect("the same bounds");
        }
        self.remembered.extend_from_slice(&other.remembered);
    }

    /// The longest pause of a kind, less the time in which the machine stood still.
    fn longest_rest(&self, kind: OperationKind, stops: &ProcessorStalls) -> u64 {
        let of_kind = self.remembered.iter().filter(|step| step.2 == kind);
        let rest = of_kind.map(|&(start, took, _)| took - stops.within(start, start + took));
        // A pause that is not remembered is shorter.
        let all = self.recorder.histogram(kind).map_or(0, Histogram::max);
        let least = all.min(REMEMBERED.as_nanos() as u64);
        rest.map(|rest| rest.as_nanos() as u64)
            .max()
            .unwrap_or(0)
            .max(least)
    }

    fn pauses(&self, stops: Option<&ProcessorStalls>) -> Vec<Pauses> {
        let above = |histogram: &Histogram<u64>| {
            [5_000_000, 20_000_000].map(|nanos| histogram.count_between(nanos, u64::MAX))
        };
        let kinds = OperationKind::ALL.into_iter();
        kinds
            .filter_map(|kind| {
                let all = self.recorder.histogram(kind)?;
                let own = &self.own[kind as usize];
                let at = |quantile| all.value_at_quantile(quantile);
                Some(Pauses {
                    kind: kind.name(),
                    count: all.len(),
                    percentiles: [at(0.5), at(0.99), at(0.999), at(0.9999), all.max()],
                    longest_own_nanos: own.max(),
                    longest_rest_nanos: stops.map(|stops| self.longest_rest(kind, stops)),
                    above: above(all),
                    above_own: above(own),
                })
            })
            .collect()
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("the bounds are valid constants")
}

/// The nanoseconds that this thread has been ready and waiting for a processor. 0 if the system
/// does not say.
fn ready_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let second = text.split_whitespace().nth(1);
    second.and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

/// The longest gap between two looks of a thread that only looks at the clock.
fn longest_gap(time: Duration) -> u64 {
    let start = Instant::now();
    let (mut last, mut longest) = (start, Duration::ZERO);
    while last - start < time {
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
    }
    longest.as_nanos() as u64
}

/// How late a thread wakes that sleeps a millisecond at a time.
fn tick(stop: &AtomicBool) -> Histogram<u64> {
    let mut late = histogram();
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        thread::sleep(LONG);
        let over = start.elapsed().saturating_sub(LONG);
        late.saturating_record((over.as_nanos() as u64).max(1));
    }
    late
}

impl PauseReport {
    /// All figures as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let pauses: Vec<Value> = self
            .pauses
            .iter()
            .map(|pauses| {
                json!({
                    "kind": pauses.kind,
                    "count": pauses.count,
                    "p50_nanos": pauses.percentiles[0],
                    "p99_nanos": pauses.percentiles[1],
                    "p99.9_nanos": pauses.percentiles[2],
                    "p99.99_nanos": pauses.percentiles[3],
                    "longest_nanos": pauses.percentiles[4],
                    "longest_own_nanos": pauses.longest_own_nanos,
                    "longest_rest_nanos": pauses.longest_rest_nanos,
                    "above_5_ms": pauses.above[0],
                    "above_20_ms": pauses.above[1],
                    "above_5_ms_own": pauses.above_own[0],
                    "above_20_ms_own": pauses.above_own[1],
                })
            })
            .collect();
        json!({
            "store": self.store,
            "pauses": pauses,
            "bytes_overwritten": self.bytes_overwritten,
            "load_seconds": self.seconds[0],
            "ingest_seconds": self.seconds[1],
            "spinner_longest_nanos": self.noise[0],
            "ticker_p99.9_nanos": self.noise[1],
            "ticker_longest_nanos": self.noise[2],
            "stops": self.stops.map(|stops| stops.0),
            "stop_longest_nanos": self.stops.map(|stops| stops.1),
            "figures": figures_json(&self.figures),
        })
    }
}

impl fmt::Display for PauseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = (self.bytes_overwritten >> 20) as f64;
        writeln!(
            f,
            "{}: {mib} MiB overwritten in {:.1} s ({:.0} MiB/s), loaded in {:.1} s",
            self.store,
            self.seconds[1],
            mib / self.seconds[1],
            self.seconds[0]
        )?;
        let ms = |nanos: u64| nanos as f64 / 1e6;
        writeln!(
            f,
            "machine: spinner's longest gap before {:.2} ms; ticker late by p99.9 {:.2}, at most {:.2} ms",
            ms(self.noise[0]),
            ms(self.noise[1]),
            ms(self.noise[2])
        )?;
        match self.stops {
            Some((count, longest)) => writeln!(
                f,
                "processors stood still {count} times, at most {:.2} ms",
                ms(longest)
            )?,
            None => writeln!(
                f,
                "stops of processors: not watched, for want of the right to"
            )?,
        }
        writeln!(
            f,
            "  {:<6} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12} {:>12}   (ms)",
            "kind",
            "count",
            "p50",
            "p99",
            "p99.9",
            "p99.99",
            "longest",
            "rest",
            "own",
            ">5 (own)",
            ">20 (own)"
        )?;
        for pauses in &self.pauses {
            let [p50, p99, p999, p9999, max] = pauses.percentiles.map(ms);
            let above = |at: usize| format!("{} ({})", pauses.above[at], pauses.above_own[at]);
            writeln!(
                f,
                "  {:<6} {:>10} {p50:>9.4} {p99:>9.3} {p999:>9.3} {p9999:>9.2} {max:>9.2} {:>9} {:>9.2} {:>12} {:>12}",
                pauses.kind,
                pauses.count,
                pauses
                    .longest_rest_nanos
                    .map_or("-".to_owned(), |nanos| format!("{:.2}", ms(nanos))),
                ms(pauses.longest_own_nanos),
                above(0),
                above(1)
            )?;
        }
        for figure in &self.figures {
            if figure.name.starts_with("pause.") && figure.value > 0 {
                write!(f, "  {} {}", figure.name, figure.value)?;
            }
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::memory::MemoryStore;

    #[test]
    fn a_small_ingest_is_reported() {
        let settings = PauseSettings {
            data_bytes: 1 << 20,
            value_bytes: 100,
            ..PauseSettings::default()
        };
        let report = run(&MemoryStore::new(), &settings).unwrap();
        let put = report
            .pauses
            .iter()
            .find(|pauses| pauses.kind == "put")
            .unwrap();
        assert!(put.count >= Dataset::of_size(1 << 20, 100, 1).records * 3);
        assert!(report.bytes_overwritten >= 3 * (1 << 20) - 1000);
        assert!(put.percentiles.is_sorted());
        assert!(report.to_string().contains("put"));
        assert_eq!(report.to_json()["pauses"][0]["kind"], "get");
    }
}
