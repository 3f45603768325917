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

mod noise;
mod notes;
mod report;
mod role;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::dataset::Dataset;
use crate::driver::{self, NoProgress, Phase};
use crate::mix::{LoadWorker, Population};
use crate::opener::Durability;
use crate::recorder::RunError;
use crate::store::Store;

use super::processor_stalls::StallWatch;
use super::{Common, Failure, Measure, Measured, Turn};
use noise::{longest_gap, tick};
use notes::Notes;
pub use report::{PauseReport, Pauses};
use role::{Overwrites, Role};

/// A step longer than this is looked at.
const LONG: Duration = Duration::from_millis(1);
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
