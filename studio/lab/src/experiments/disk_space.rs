//! Experiment `space`: what overwrites and deletes leave on the disk, and for how long.
//!
//! ```text
//!   load -> overwrite `times` the data (uniform) -> settle -> overwrite again by Zipf -> settle
//!        -> delete the first half, key by key in batches -> watch the directory shrink
//! ```
//! Live bytes are keys and values. Bytes on disk are the allocated blocks of all files in the
//! store's directory. The commit log has a fixed size, so the ratio of bytes on disk to live bytes
//! is given with it and without it. Write amplification is the bytes that the process wrote to
//! files divided by the bytes that it put, with the debt paid. The watch ends when the directory is
//! below the least limit and has not changed for a while; it tells what was written meanwhile.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::dataset::{Dataset, key_of};
use crate::distribution::{Distribution, DistributionKind, THETA_DEFAULT};
use crate::driver::{self, Limit, NoProgress, Phase, Worker};
use crate::mix::{LoadWorker, Mix, MixWorker, Population};
use crate::opener::Durability;
use crate::phase_result::{PhaseResult, figures_json};
use crate::recorder::RunError;
use crate::store::{BatchWrite, Figure, Store};

use super::{Common, Failure, Measure, Measured, Turn};

/// The arguments of `experiment space`.
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
    /// How many times the data's size each distribution overwrites
    #[arg(long, default_value_t = 3.0)]
    times: f64,
    /// Threads that put
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The access distributions, one after the other
    #[arg(long, value_delimiter = ',', default_value = "uniform,zipf-composite")]
    distributions: Vec<DistributionKind>,
    /// Do not delete half of the records at the end
    #[arg(long)]
    keep: bool,
}

impl Arguments {
    fn settings_of(&self) -> SpaceSettings {
        let mib = if self.common.quick { 64 } else { self.size_mib };
        SpaceSettings {
            data_bytes: mib << 20,
            times: self.times,
            distributions: self.distributions.clone(),
            threads: self.threads,
            delete_half: !self.keep,
            seed: self.common.seed,
            ..SpaceSettings::default()
        }
    }
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Value {
        let settings = self.settings_of();
        let names: Vec<_> = settings
            .distributions
            .iter()
            .map(|one| one.name())
            .collect();
        json!({
            "data_bytes": settings.data_bytes,
            "memory_bytes": self.memory_mib << 20,
            "times": settings.times,
            "distributions": names,
            "threads": settings.threads,
            "seed": settings.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let settings = crate::opener::Settings {
            memory_bytes: self.memory_mib << 20,
            durability: Durability::Process,
        };
        let report = turn.in_fresh_store(&settings, |store, own| {
            let report = run(store, own, &self.settings_of(), &mut |step| {
                tell!("{}{step}", store.name());
            });
            Ok(report.map_err(|error| error.to_string())?)
        })?;
        let mut figures = report.to_json();
        figures["text"] = report.to_string().into();
        Ok(figures)
    }

    fn report(&self, results: &[Measured]) -> String {
        super::texts(results)
    }
}

/// The sizes and steps of a run.
#[derive(Clone, Debug)]
pub struct SpaceSettings {
    /// Bytes of keys and values to load.
    pub data_bytes: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How many times the data's size each distribution overwrites.
    pub times: f64,
    /// The distributions, one after the other.
    pub distributions: Vec<DistributionKind>,
    /// Threads that put.
    pub threads: usize,
    /// Whether half of the records are deleted at the end.
    pub delete_half: bool,
    /// The longest wait for the space of deleted records.
    pub wait: Duration,
    /// The wait ends early once the disk holds little and has not changed for this time.
    pub unchanged: Duration,
    /// The seed of keys, values and operations.
    pub seed: u64,
}

impl Default for SpaceSettings {
    fn default() -> Self {
        SpaceSettings {
            data_bytes: 1 << 30,
            value_bytes: 800,
            times: 3.0,
            distributions: vec![DistributionKind::Uniform, DistributionKind::ZipfComposite],
            threads: 2,
            delete_half: true,
            wait: Duration::from_secs(60),
            unchanged: UNCHANGED,
            seed: 1,
        }
    }
}

/// The state after a step.
#[derive(Clone, Debug)]
pub struct SpaceStep {
    /// What was done.
    pub name: String,
    /// Seconds it took, paying the debt included.
    pub seconds: f64,
    /// Seconds of that spent on paying the debt.
    pub settle_seconds: f64,
    /// Keys and values that a reader would find.
    pub live_bytes: u64,
    /// Allocated blocks of the store's files.
    pub disk_bytes: u64,
    /// The highest number of bytes on disk during the step.
    pub disk_bytes_max: u64,
    /// Bytes on disk that do not count: a commit log of fixed size.
    pub fixed_bytes: u64,
    /// Bytes that the store wrote to files other than a commit log, in steps that put nothing, if
    /// it is known.
    pub written_bytes: Option<u64>,
    /// Bytes written to files divided by bytes put, if that is known.
    pub write_amplification: Option<f64>,
    /// The store's figures at its end.
    pub figures: Vec<Figure>,
}

/// What the experiment found.
#[derive(Clone, Debug)]
pub struct SpaceReport {
    /// The store's name.
    pub store: String,
    /// Bytes on disk that do not count: a commit log of fixed size.
    pub fixed_bytes: u64,
    /// The state after each step, in order.
    pub steps: Vec<SpaceStep>,
    /// When the disk held little again after the deletion.
    pub returned: Vec<Returned>,
}

/// When the disk came below a multiple of the live bytes.
#[derive(Clone, Copy, Debug)]
pub struct Returned {
    /// The multiple, in tenths.
    pub tenths: u64,
    /// Whether bytes that do not count were counted.
    pub with_fixed: bool,
    /// Seconds from the last deletion until then. `None` if it was not reached.
    pub seconds: Option<f64>,
}

/// The limits of the watch, the important one last.
fn limits() -> Vec<Returned> {
    let limits = [(13, true), (12, true), (13, false), (12, false)];
    let limit = |(tenths, with_fixed)| Returned {
        tenths,
        with_fixed,
        seconds: None,
    };
    limits.map(limit).to_vec()
}

/// The watch ends when the disk has not changed for this time.
const UNCHANGED: Duration = Duration::from_secs(4);

/// Runs on an empty store in `directory`. Nothing is settled before the deletion is watched: the
/// store must give space back by itself.
///
/// # Errors
/// The store's error, or what was wrong with its answer.
pub fn run(
    store: &dyn Store,
    directory: &Path,
    settings: &SpaceSettings,
    progress: &mut dyn FnMut(&SpaceStep),
) -> Result<SpaceReport, RunError> {
    let dataset = Dataset::of_size(settings.data_bytes, settings.value_bytes, settings.seed);
    let mut report = SpaceReport {
        store: store.name(),
        fixed_bytes: fixed_bytes(store),
        steps: Vec::new(),
        returned: limits(),
    };
    let population = Arc::new(Population::new(0));
    let load = |_: usize| -> Box<dyn Worker> {
        Box::new(LoadWorker::new(dataset.clone(), Arc::clone(&population)))
    };
    let watched = Watched {
        store,
        directory,
        threads: settings.threads,
        live_bytes: dataset.data_bytes(),
    };
    let mut step = |step: SpaceStep| {
        progress(&step);
        report.steps.push(step);
    };
    step(watched.phase("load", dataset.records, &load)?);
    for (number, &kind) in settings.distributions.iter().enumerate() {
        let distribution = Distribution::new(kind, dataset.records, THETA_DEFAULT, settings.seed);
        let population = Arc::new(Population::new(dataset.records));
        let overwrite = |thread: usize| -> Box<dyn Worker> {
            let phase = number as u64 + 1;
            let mix = Mix::P;
            Box::new(MixWorker::new(
                mix,
                &distribution,
                &dataset,
                &population,
                phase,
                thread,
            ))
        };
        let operations = (dataset.records as f64 * settings.times) as u64;
        step(watched.phase(kind.name(), operations, &overwrite)?);
    }
    if settings.delete_half {
        let step = watched.delete_half(&dataset, settings, &mut report)?;
        progress(&step);
        report.steps.push(step);
    }
    Ok(report)
}

/// Bytes on disk that do not count: a commit log of fixed size.
fn fixed_bytes(store: &dyn Store) -> u64 {
    let figures = store.stats();
    let log = figures
        .iter()
        .find(|one| one.name == "space.commit_log_bytes");
    log.map_or(0, |figure| figure.value)
}

fn delete(store: &dyn Store, records: std::ops::Range<u64>) -> Result<(), RunError> {
    let keys: Vec<_> = records.map(key_of).collect();
    for keys in keys.chunks(1000) {
        let deletes: Vec<_> = keys.iter().map(|key| BatchWrite::Delete(key)).collect();
        store.batch(&deletes)?;
    }
    Ok(())
}

struct Watched<'a> {
    store: &'a dyn Store,
    directory: &'a Path,
    threads: usize,
    live_bytes: u64,
}

impl Watched<'_> {
    /// Deletes the first half of the records, and watches the directory shrink.
    fn delete_half(
        &self,
        dataset: &Dataset,
        settings: &SpaceSettings,
        report: &mut SpaceReport,
    ) -> Result<SpaceStep, RunError> {
        let live_bytes = dataset.data_bytes() / 2;
        let before = files_written(&self.store.stats());
        let started = Instant::now();
        delete(self.store, 0..dataset.records / 2)?;
        let deleted = Instant::now();
        let mut disk_bytes_max = 0;
        let mut last = (0, Instant::now());
        let disk_bytes = loop {
            let bytes = disk_bytes(self.directory);
            disk_bytes_max = disk_bytes_max.max(bytes);
            report.note_returned(bytes, live_bytes, deleted.elapsed());
            if bytes != last.0 {
                last = (bytes, Instant::now());
            }
            let returned = report.returned.last().map(|one| one.seconds.is_some());
            if (returned == Some(true) && last.1.elapsed() > settings.unchanged)
                || deleted.elapsed() > settings.wait
            {
                break bytes;
            }
            thread::sleep(Duration::from_millis(50));
        };
        let figures = self.store.stats();
        let after = files_written(&figures);
        Ok(SpaceStep {
            name: "delete half".to_owned(),
            seconds: (deleted - started).as_secs_f64(),
            settle_seconds: 0.0,
            live_bytes,
            disk_bytes,
            disk_bytes_max,
            fixed_bytes: report.fixed_bytes,
            written_bytes: after.zip(before).map(|(after, before)| after - before),
            write_amplification: None,
            figures,
        })
    }

    fn phase(
        &self,
        name: &str,
        operations: u64,
        worker_of: &dyn Fn(usize) -> Box<dyn Worker>,
    ) -> Result<SpaceStep, RunError> {
        let phase = Phase {
            limit: Limit::operations(operations),
            settle: true,
            ..Phase::new(name, self.threads)
        };
        let never = AtomicBool::new(false);
        let done = AtomicBool::new(false);
        let started = Instant::now();
        let (result, most) = thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut most = 0;
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    most = disk_bytes(self.directory).max(most);
                    thread::sleep(Duration::from_millis(200));
                }
                most
            });
            let result = driver::run(self.store, &phase, &never, &NoProgress, worker_of);
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            (result, watcher.join().unwrap_or(0))
        });
        let result = result?;
        let disk_bytes = disk_bytes(self.directory);
        Ok(SpaceStep {
            name: name.to_owned(),
            seconds: started.elapsed().as_secs_f64(),
            settle_seconds: result.settle_seconds,
            live_bytes: self.live_bytes,
            disk_bytes,
            disk_bytes_max: most.max(disk_bytes),
            fixed_bytes: fixed_bytes(self.store),
            written_bytes: None,
            write_amplification: written(&result),
            figures: self.store.stats(),
        })
    }
}

/// Bytes written divided by bytes put. They are the bytes that the store wrote to files other than
/// a commit log, or else the bytes that the process wrote.
fn written(result: &PhaseResult) -> Option<f64> {
    let figure = |name| {
        let mut figures = result.figures.iter();
        figures.find(|one| one.name == name).map(|one| one.value)
    };
    match figure("written.commit_log") {
        Some(log) => {
            let log = log as f64 / result.user_bytes_written.max(1) as f64;
            result.write_amplification_store().map(|all| all - log)
        }
        None => result.write_amplification_process(),
    }
}

/// Bytes that the store says it has written to files other than a commit log, if it says so.
fn files_written(figures: &[Figure]) -> Option<u64> {
    let files = figures.iter().filter(|figure| {
        figure.name.starts_with("written.")
            && !["written.user", "written.commit_log"].contains(&figure.name)
    });
    let (count, sum) = files.fold((0, 0), |(count, sum), one| (count + 1, sum + one.value));
    (count > 0).then_some(sum)
}

/// Allocated blocks of all files below `directory`.
#[must_use]
pub fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(directory) else {
        return 0;
    };
    entries
        .flatten()
        .filter_map(|entry| {
            // A file may be removed while it is looked at.
            let metadata = entry.metadata().ok()?;
            Some(match metadata.is_dir() {
                true => disk_bytes(&entry.path()),
                false => metadata.blocks() * 512,
            })
        })
        .sum()
}

impl SpaceReport {
    /// All figures as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let steps: Vec<Value> = self
            .steps
            .iter()
            .map(|step| {
                json!({
                    "name": step.name,
                    "seconds": step.seconds,
                    "settle_seconds": step.settle_seconds,
                    "live_bytes": step.live_bytes,
                    "disk_bytes": step.disk_bytes,
                    "disk_bytes_max": step.disk_bytes_max,
                    "written_bytes": step.written_bytes,
                    "write_amplification": step.write_amplification,
                    "figures": figures_json(&step.figures),
                })
            })
            .collect();
        json!({
            "store": self.store,
            "fixed_bytes": self.fixed_bytes,
            "steps": steps,
            "returned": self.returned.iter().map(|one| json!({
                "times": one.tenths as f64 / 10.0,
                "with_fixed": one.with_fixed,
                "seconds": one.seconds,
            })).collect::<Vec<_>>(),
        })
    }

    fn note_returned(&mut self, disk_bytes: u64, live_bytes: u64, elapsed: Duration) {
        for returned in &mut self.returned {
            let bytes = match returned.with_fixed {
                true => disk_bytes,
                false => disk_bytes.saturating_sub(self.fixed_bytes),
            };
            if returned.seconds.is_none() && bytes * 10 < live_bytes.max(1) * returned.tenths {
                returned.seconds = Some(elapsed.as_secs_f64());
            }
        }
    }
}

impl fmt::Display for SpaceStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        write!(
            f,
            "  {:<16} {:>8.1} s ({:>5.1} s debt)  live {:>8.1}  disk {:>8.1} (at most {:>8.1}) MiB",
            self.name,
            self.seconds,
            self.settle_seconds,
            mib(self.live_bytes),
            mib(self.disk_bytes),
            mib(self.disk_bytes_max)
        )?;
        let times = |bytes: u64| bytes as f64 / self.live_bytes.max(1) as f64;
        let counted = self.disk_bytes.saturating_sub(self.fixed_bytes);
        write!(f, "  {:.2}x live", times(counted))?;
        if self.fixed_bytes > 0 {
            write!(f, " ({:.2}x with what is fixed)", times(self.disk_bytes))?;
        }
        if let Some(amplification) = self.write_amplification {
            write!(f, "  write amplification {amplification:.2}")?;
        }
        if let Some(bytes) = self.written_bytes {
            write!(f, "  written {:.1} MiB", mib(bytes))?;
        }
        for figure in &self.figures {
            if figure.name.starts_with("space.") {
                write!(f, "  {} {:.1}", &figure.name[6..], mib(figure.value))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for SpaceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fixed = self.fixed_bytes as f64 / f64::from(1 << 20);
        writeln!(
            f,
            "{} (of the disk's, {fixed:.1} MiB are fixed)",
            self.store
        )?;
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        let returned = self.returned.iter();
        for one in returned.filter(|one| self.fixed_bytes > 0 || !one.with_fixed) {
            let times = one.tenths as f64 / 10.0;
            let fixed = match one.with_fixed {
                true => ", what is fixed counted",
                false => "",
            };
            match one.seconds {
                Some(seconds) => writeln!(f, "  under {times}x live after {seconds:.2} s{fixed}")?,
                None => writeln!(f, "  not under {times}x live in time{fixed}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::memory::MemoryStore;

    #[test]
    fn a_small_run_is_reported() {
        let settings = SpaceSettings {
            data_bytes: 1 << 20,
            value_bytes: 100,
            unchanged: Duration::ZERO,
            ..SpaceSettings::default()
        };
        let directory = tempfile::tempdir().unwrap();
        let store = MemoryStore::new();
        let report = run(&store, directory.path(), &settings, &mut |_| ()).unwrap();
        assert_eq!(report.steps.len(), 4);
        assert!(report.returned.iter().all(|one| one.seconds.is_some()));
        let records = Dataset::of_size(1 << 20, 100, 1).records;
        assert_eq!(store.len() as u64, records - records / 2);
        assert!(report.to_string().contains("delete half"));
    }
}
