//! The process of one store: loads, warms, and runs the phases of one family, cell by cell.
//!
//! The paper's method: load in key order, read to warm, then measure. Afterwards the debt of the
//! phase (checkpoints, compactions) is paid and charged to it. Phases of one family share the
//! loaded store: phases that only read come first, and every phase's reads are checked against what
//! was written. Memory is limited from outside, by the parent.
//!
//! ```text
//!   load, settle, close | open, read everything | warm, C, warm, E, ... warm, A, settle, close
//!                       | open | warm with puts, P, settle, close | open | ... next P ...
//! ```
//! Analytics of an event log begin straight after its ingestion, whose debt is unpaid then and
//! charged to them. An ingestion that is itself measured pays its own debt.
//!
//! Each phase of puts alone begins on a freshly opened store, so that it does not depend on what
//! the phases before it left in memory; `--keep-open` leaves the store open throughout. Files stay
//! in the page cache either way.

use super::cells::{Cell, Data, Family, Work};
use crate::dataset::Dataset;
use crate::distribution::Distribution;
use crate::driver::{self, Limit, NoProgress, Phase, Worker};
use crate::event_log::{AnalyticsWorker, EventLog, IngestWorker};
use crate::experiments::disk_space::disk_bytes;
use crate::experiments::results_file::{Key, ResultsFile};
use crate::experiments::{Failure, machine};
use crate::ideal_cache::{DiskReads, IdealCache};
use crate::mix::{LoadOrder, LoadWorker, Mix, MixWorker, Population, SweepWorker};
use crate::opener::{Opener, Settings};
use crate::phase_length::PhaseLengths;
use crate::phase_result::PhaseResult;
use crate::store::Store;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Bytes that the disks of stores read in a second, at random places; an estimate.
const WARM_BYTES_PER_SECOND: f64 = (256 << 20) as f64;

/// Seconds of warming before a phase. If data is larger than half of the memory, they last at least
/// until reads have roughly filled the memory once.
pub fn warm_seconds(lengths: PhaseLengths, mix: Mix, memory_bytes: u64, data_bytes: u64) -> f64 {
    let fill = memory_bytes as f64 / WARM_BYTES_PER_SECOND;
    let least = lengths.warming(mix);
    match mix != Mix::P && data_bytes > memory_bytes / 2 {
        true => least.max(fill),
        false => least,
    }
}

/// Seconds of a phase of analytics.
pub fn analytics_seconds(lengths: PhaseLengths) -> f64 {
    lengths.seconds * 3.0
}

/// The paper's events a minute, with its memory.
const PAPER_EVENTS_PER_MINUTE: f64 = 13e6;

/// What all phases have in common.
pub struct Method {
    pub settings: Settings,
    /// The limit that scales everything.
    pub memory_bytes: u64,
    pub value_bytes: usize,
    pub seed: u64,
    pub lengths: PhaseLengths,
    /// Whether the store stays open from the load to the last phase.
    pub keep_open: bool,
    pub load_order: LoadOrder,
    /// The longest time of loading.
    pub load_max: Duration,
}

/// A store, and how it was used since it was opened.
struct Opened {
    store: Box<dyn Store>,
    /// Whether anything was read or written.
    used: bool,
    /// Whether everything was read once.
    swept: bool,
}

impl Opened {
    fn new(store: Box<dyn Store>) -> Opened {
        Opened {
            store,
            used: false,
            swept: false,
        }
    }
}

/// One family of one store in one round.
pub struct Measurement<'a> {
    pub method: &'a Method,
    pub family: Family,
    pub cells: Vec<Cell>,
    pub opener: &'a dyn Opener,
    pub round: usize,
    pub results: &'a ResultsFile,
    /// The directory of the store, which is empty.
    pub directory: &'a Path,
}

impl Measurement<'_> {
    /// Measures all cells that are not finished, and appends each as it ends. A failure is noted,
    /// and so are the cells that were not measured after it.
    pub fn run(&self) -> Result<(), Failure> {
        let finished = self.results.finished()?;
        let is_open = |cell: &&Cell| {
            let key = key(cell, self.opener.name(), self.round);
            cell.concerns(self.opener.name()) && !finished.contains(&key)
        };
        let open: Vec<Cell> = self.cells.iter().filter(is_open).copied().collect();
        if open.is_empty() {
            return Ok(());
        }
        let mut done = 0;
        let outcome = self.measure(&open, &mut done);
        if let Err(error) = &outcome {
            for (index, cell) in open[done..].iter().enumerate() {
                let why = match index {
                    0 => error.to_string(),
                    _ => format!("not reached: {error}"),
                };
                let cell = identity("skipped", cell, self.opener.name(), self.round);
                self.results.skip(&cell, &why)?;
            }
        }
        outcome
    }

    fn measure(&self, open: &[Cell], done: &mut usize) -> Result<(), Failure> {
        match self.family.data {
            Data::Records => self.records(open, done),
            Data::Events | Data::EventsUnpaid => self.events(open, done),
        }
    }

    fn open(&self) -> Result<Box<dyn Store>, Failure> {
        let settings = &self.method.settings;
        Ok(match self.family.variant {
            None => self.opener.open(self.directory, settings)?,
            Some(variant) => self
                .opener
                .open_variant(self.directory, settings, variant)?,
        })
    }

    fn records(&self, open: &[Cell], done: &mut usize) -> Result<(), Failure> {
        let method = self.method;
        let dataset = Dataset::of_size(self.family.data_bytes, method.value_bytes, method.seed);
        let mut opened = Opened::new(self.open()?);
        let load = self.load(&*opened.store, &dataset)?;
        opened.used = true;
        let population = Arc::new(Population::new(dataset.records));
        let mut rest = open;
        if let [cell, after @ ..] = open
            && matches!(cell.work, Work::Load(_))
        {
            self.note(cell, &load, json!({}))?;
            *done += 1;
            rest = after;
        }
        if !method.keep_open {
            opened = self.anew(opened)?;
        }
        let never = AtomicBool::new(false);
        let threads = rest.first().map_or(1, |cell| cell.threads);
        let mut disk = DiskReads::new(self.directory, threads, &never);
        for cell in rest {
            let Work::Mix {
                mix,
                distribution,
                theta,
            } = cell.work
            else {
                return Err(format!("{cell} is no mix").into());
            };
            opened = self.ready_for(mix, opened, &dataset)?;
            let fresh = !opened.used;
            opened.used = true;
            let distribution = Distribution::new(distribution, dataset.records, theta, method.seed);
            let worker_of = |mix: Mix, stream: u64, thread: usize| -> Box<dyn Worker> {
                let (set, all) = (&dataset, &population);
                Box::new(MixWorker::new(mix, &distribution, set, all, stream, thread))
            };
            let (warmed, mut result) = self.mix(cell, mix, &*opened.store, &worker_of)?;
            let told = method.settings.memory_bytes;
            let ideal = IdealCache::of(mix, &distribution, &dataset, told);
            result.ideal = ideal.map(|ideal| ideal.with_disk(&mut disk));
            let more = json!({
                "freshly_opened": fresh,
                "warming": {
                    "mix": mix.warmed_by().to_string(),
                    "seconds": warmed.seconds,
                    "operations": warmed.operations,
                },
            });
            self.note(cell, &result, more)?;
            *done += 1;
        }
        opened.store.close()?;
        Ok(())
    }

    /// Warms, then measures, and returns both results. A worker belongs to a mix, a stream of
    /// random numbers and a thread.
    fn mix(
        &self,
        cell: &Cell,
        mix: Mix,
        store: &dyn Store,
        worker_of: &dyn Fn(Mix, u64, usize) -> Box<dyn Worker>,
    ) -> Result<(PhaseResult, PhaseResult), Failure> {
        let method = self.method;
        let (memory_bytes, data_bytes) = (method.memory_bytes, self.family.data_bytes);
        let seconds = warm_seconds(method.lengths, mix, memory_bytes, data_bytes);
        let stream = stream_of(cell, self.round);
        let warm = phase(cell, Some(seconds), false);
        let warmed = run(store, &warm, &|thread| {
            worker_of(mix.warmed_by(), stream ^ 1, thread)
        })?;
        let measured = phase(cell, Some(method.lengths.of(mix)), mix.writes());
        let result = run(store, &measured, &|thread| worker_of(mix, stream, thread))?;
        Ok((warmed, result))
    }

    /// The store in the state that a phase of this mix needs.
    fn ready_for(
        &self,
        mix: Mix,
        mut opened: Opened,
        dataset: &Dataset,
    ) -> Result<Opened, Failure> {
        let keep_open = self.method.keep_open;
        if mix == Mix::P && opened.used && !keep_open {
            opened = self.anew(opened)?;
        }
        // Phases of puts alone begin with what an opening left in memory.
        if !opened.swept && (mix != Mix::P || keep_open) {
            self.sweep(&*opened.store, dataset)?;
            (opened.swept, opened.used) = (true, true);
        }
        Ok(opened)
    }

    /// Closes the store and opens it again.
    fn anew(&self, opened: Opened) -> Result<Opened, Failure> {
        opened.store.close()?;
        Ok(Opened::new(self.open()?))
    }

    fn load(&self, store: &dyn Store, dataset: &Dataset) -> Result<PhaseResult, Failure> {
        let population = Arc::new(Population::new(0));
        let cell = self.cells.first().ok_or("a family without cells")?;
        let mut load = phase(cell, Some(self.method.load_max.as_secs_f64()), true);
        let order = self.method.load_order;
        (load.name, load.distribution) = {
            let (name, order) = Work::Load(order).names();
            (name, order.to_owned())
        };
        let result = run(store, &load, &|_| {
            let (set, all) = (dataset.clone(), Arc::clone(&population));
            Box::new(LoadWorker::in_order(set, all, order, self.method.seed))
        })?;
        match population.present() >= dataset.records {
            true => Ok(result),
            false => Err(format!("loading took more than {:?}", self.method.load_max).into()),
        }
    }

    /// Reads everything once, which warms what the store can hold.
    fn sweep(&self, store: &dyn Store, dataset: &Dataset) -> Result<(), Failure> {
        let cursor = Arc::new(AtomicU64::new(0));
        let cell = self.cells.first().ok_or("a family without cells")?;
        run(store, &phase(cell, None, false), &|_| {
            Box::new(SweepWorker::new(dataset.clone(), Arc::clone(&cursor)))
        })?;
        Ok(())
    }

    fn events(&self, open: &[Cell], done: &mut usize) -> Result<(), Failure> {
        let method = self.method;
        let opened = self.open()?;
        let store = &*opened;
        let scale = method.memory_bytes as f64 / super::cells::PAPER_MEMORY_BYTES as f64;
        let a_minute = ((PAPER_EVENTS_PER_MINUTE * scale) as u64).max(1);
        let log = EventLog::new(a_minute, method.value_bytes, method.seed);
        let events = self.family.data_bytes / log.event_bytes();
        let population = Arc::new(Population::new(0));
        let cell = self.cells.first().ok_or("a family without cells")?;
        let settle = self.family.data != Data::EventsUnpaid;
        let ingest = phase(cell, Some(method.load_max.as_secs_f64()), settle);
        let (ingested, space) = self.watching_space(store, || {
            run(store, &ingest, &|_| {
                Box::new(IngestWorker::new(
                    log.clone(),
                    Arc::clone(&population),
                    events,
                ))
            })
        });
        let ingested = ingested?;
        if population.present() < events {
            return Err(format!("ingesting took more than {:?}", method.load_max).into());
        }
        for cell in open {
            match cell.work {
                Work::Ingest => {
                    self.note(cell, &ingested, json!({ "space_course": space }))?;
                }
                Work::Analytics => {
                    let scans = phase(cell, Some(analytics_seconds(method.lengths)), true);
                    // The workers of the ingest took numbers beyond the end.
                    let population = Arc::new(Population::new(events));
                    let result = run(store, &scans, &|thread| {
                        let population = Arc::clone(&population);
                        Box::new(AnalyticsWorker::new(log.clone(), population, thread))
                    })?;
                    self.note(cell, &result, json!({}))?;
                }
                Work::Load(_) | Work::Mix { .. } => {
                    return Err(format!("{cell} is no event log").into());
                }
            }
            *done += 1;
        }
        opened.close()?;
        Ok(())
    }

    /// Runs `body`. Once a second it notes the bytes of the store's files, and the bytes among them
    /// that the store says are its logs.
    fn watching_space<T>(&self, store: &dyn Store, body: impl FnOnce() -> T) -> (T, Value) {
        let ended = AtomicBool::new(false);
        let (mut bytes, mut logs, tick) = (Vec::new(), Vec::new(), Duration::from_millis(50));
        let done = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    bytes.push(disk_bytes(self.directory));
                    let figures = store.stats();
                    let log = figures.iter().find(|figure| figure.name == "log_bytes");
                    logs.extend(log.map(|figure| figure.value));
                    for _ in 0..20 {
                        if !ended.load(Ordering::Relaxed) {
                            std::thread::sleep(tick);
                        }
                    }
                }
            });
            let done = body();
            ended.store(true, Ordering::Relaxed);
            // If the watcher panicked, the course is short.
            let _ = watcher.join();
            done
        });
        let course = json!({ "interval_seconds": 1, "bytes": bytes, "log_bytes": logs });
        (done, course)
    }

    fn note(&self, cell: &Cell, result: &PhaseResult, more: Value) -> Result<(), Failure> {
        let mut line = identity("cell", cell, self.opener.name(), self.round);
        line["ended"] = machine::now().into();
        line["disk_bytes"] = disk_bytes(self.directory).into();
        if let (Some(line), Value::Object(more)) = (line.as_object_mut(), more) {
            line.extend(more);
        }
        line["phase"] = result.to_json();
        self.results.append(&line)
    }
}

fn phase(cell: &Cell, seconds: Option<f64>, settle: bool) -> Phase {
    let (name, distribution) = cell.work.names();
    Phase {
        distribution: distribution.to_owned(),
        limit: seconds.map_or_else(Limit::default, Limit::seconds),
        settle,
        course_interval: Duration::from_millis(500),
        ..Phase::new(name, cell.threads)
    }
}

fn run(
    store: &dyn Store,
    phase: &Phase,
    worker_of: &dyn Fn(usize) -> Box<dyn Worker>,
) -> Result<PhaseResult, Failure> {
    let never = AtomicBool::new(false);
    driver::run(store, phase, &never, &NoProgress, worker_of)
        .map_err(|error| format!("{} {}: {error}", phase.name, phase.distribution).into())
}

/// A number for the random operations of a cell, the same in every process.
fn stream_of(cell: &Cell, round: usize) -> u64 {
    let name = format!("{}/{}/{round}", cell.experiment, cell.name());
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The fields that say to which cell a line belongs.
pub fn identity(kind: &str, cell: &Cell, store: &str, round: usize) -> Value {
    let (mix, distribution) = cell.work.names();
    let theta = match cell.work {
        Work::Mix { theta, .. } => Some(theta),
        Work::Load(_) | Work::Ingest | Work::Analytics => None,
    };
    json!({
        "kind": kind,
        "experiment": cell.experiment,
        "cell": cell.name(),
        "store": store,
        "round": round,
        "mix": mix,
        "distribution": distribution,
        "theta": theta,
        "data_bytes": cell.data_bytes,
        "threads": cell.threads,
        "variant": cell.variant.map(|variant| variant.to_string()),
    })
}

/// The key of a cell's measurement.
fn key(cell: &Cell, store: &str, round: usize) -> Key {
    let experiment = cell.experiment.to_owned();
    (experiment, cell.name(), store.to_owned(), round)
}
