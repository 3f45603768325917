//! Experiment `after-puts`: what a phase of puts leaves behind for the scans and gets that come
//! next.
//!
//! Data is loaded in key order. Then these phases follow on the same store, each on a fresh
//! opening: gets and scans, puts of composite keys, the same scans, the same gets. No debt is
//! settled between them, so the work that the puts left is there when the scans begin. Rates of
//! scans are given by windows of time, since a mean over a minute hides the first seconds. The
//! phases after the puts are not warmed.
//!
//! `EvenDB` also tells how many runs the logs of its chunks had when a phase ended. A limit on
//! memory, page cache included, is set from outside: by a memory control group.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};

use super::table::TextTable;
use super::{
    Common, Failure, Measure, Measured, Turn, at, median_of_cell, median_within_cell, stores_of,
};
use crate::dataset::Dataset;
use crate::distribution::{Distribution, DistributionKind, THETA_DEFAULT};
use crate::driver::{self, Limit, NoProgress, Phase, Worker};
use crate::mix::{LoadWorker, Mix, MixWorker, Population};
use crate::opener::{Durability, Settings};
use crate::phase_result::PhaseResult;

/// The arguments of `experiment after-puts`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// MiB of keys and values [default: 4096, quick: 32]
    #[arg(long)]
    size_mib: Option<u64>,
    /// MiB of memory a store may plan with [default: 819, quick: 8]
    #[arg(long)]
    memory_mib: Option<u64>,
    /// Threads
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Seconds of each phase of reads [default: 35, quick: 1]
    #[arg(long)]
    seconds: Option<f64>,
    /// Seconds of puts [default: 35, quick: 1]
    #[arg(long)]
    put_seconds: Option<f64>,
}

const VALUE_BYTES: usize = 800;
const SECONDS: f64 = 35.0;
/// The second at which the first window of a phase ends.
const FIRST_SECONDS: f64 = 10.0;

/// The phases, in their order: name, mix, distribution.
const PHASES: [(&str, Mix, DistributionKind); 5] = [
    ("gets before", Mix::C, DistributionKind::ZipfSimple),
    ("scans before", Mix::E(100), DistributionKind::ZipfSimple),
    ("puts", Mix::P, DistributionKind::ZipfComposite),
    ("scans after", Mix::E(100), DistributionKind::ZipfSimple),
    ("gets after", Mix::C, DistributionKind::ZipfSimple),
];

impl Arguments {
    fn pick<T>(&self, given: Option<T>, full: T, quick: T) -> T {
        given.unwrap_or(if self.common.quick { quick } else { full })
    }

    fn data_bytes(&self) -> u64 {
        self.pick(self.size_mib, 4096, 32) << 20
    }

    fn memory_bytes(&self) -> u64 {
        self.pick(self.memory_mib, 819, 8) << 20
    }

    fn seconds_of(&self, mix: Mix) -> f64 {
        match mix {
            Mix::P => self.pick(self.put_seconds, SECONDS, 1.0),
            _ => self.pick(self.seconds, SECONDS, 1.0),
        }
    }

    /// Opens the store, runs one phase and closes it.
    fn on_fresh_opening(
        &self,
        turn: Turn<'_>,
        directory: &Path,
        phase: &Phase,
        worker_of: &dyn Fn(usize) -> Box<dyn Worker>,
    ) -> Result<PhaseResult, Failure> {
        let settings = Settings {
            memory_bytes: self.memory_bytes(),
            durability: Durability::Process,
        };
        let store = turn.opener.open(directory, &settings)?;
        let never = AtomicBool::new(false);
        let result = driver::run(&*store, phase, &never, &NoProgress, worker_of)?;
        store.close()?;
        Ok(result)
    }
}

/// Operations a second between two times of a phase, over the steps of its course that end there.
fn rate_between(result: &PhaseResult, from: f64, until: f64) -> f64 {
    let ends = |&&(end, _): &&(f64, u64)| end > from && end <= until;
    let steps = || result.course.iter().filter(ends);
    let before = result.course.iter().filter(|&&(end, _)| end <= from);
    let begin = before.map(|&(end, _)| end).fold(0.0, f64::max);
    let end = steps().map(|&(end, _)| end).fold(begin, f64::max);
    steps().map(|&(_, operations)| operations).sum::<u64>() as f64 / (end - begin)
}

/// The figures of a phase, with the rates of its windows.
fn figures_of(name: &str, result: &PhaseResult) -> Value {
    let mut figures = result.to_json();
    figures["phase"] = json!(name);
    let first = rate_between(result, 0.0, FIRST_SECONDS);
    let later = rate_between(result, FIRST_SECONDS, f64::INFINITY);
    if first.is_finite() {
        figures["first_operations_per_second"] = json!(first);
    }
    if later.is_finite() {
        figures["later_operations_per_second"] = json!(later);
    }
    figures
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Value {
        json!({
            "data_bytes": self.data_bytes(),
            "memory_bytes": self.memory_bytes(),
            "threads": self.threads,
            "seconds": self.seconds_of(Mix::C),
            "put_seconds": self.seconds_of(Mix::P),
            "value_bytes": VALUE_BYTES,
            "seed": self.common.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let directory = turn.directory.join(turn.round.to_string());
        std::fs::create_dir_all(&directory).map_err(at(&directory))?;
        let dataset = Dataset::of_size(self.data_bytes(), VALUE_BYTES, self.common.seed);
        let loaded = Arc::new(Population::new(0));
        let load_worker = |_| -> Box<dyn Worker> {
            Box::new(LoadWorker::new(dataset.clone(), Arc::clone(&loaded)))
        };
        let load = Phase {
            settle: true,
            ..Phase::new("load", self.threads)
        };
        let load = self.on_fresh_opening(turn, &directory, &load, &load_worker)?;
        let population = Arc::new(Population::new(dataset.records));
        let mut phases = vec![figures_of("load", &load)];
        for (index, (name, mix, kind)) in PHASES.into_iter().enumerate() {
            let distribution =
                Distribution::new(kind, dataset.records, THETA_DEFAULT, self.common.seed);
            let stream = (turn.round * PHASES.len() + index) as u64;
            let worker = |thread| -> Box<dyn Worker> {
                let (set, all) = (&dataset, &population);
                Box::new(MixWorker::new(mix, &distribution, set, all, stream, thread))
            };
            let phase = Phase {
                distribution: kind.name().to_owned(),
                limit: Limit::seconds(self.seconds_of(mix)),
                ..Phase::new(name, self.threads)
            };
            let result = self.on_fresh_opening(turn, &directory, &phase, &worker)?;
            phases.push(figures_of(name, &result));
        }
        std::fs::remove_dir_all(&directory).map_err(at(&directory))?;
        Ok(json!({ "store": turn.opener.name(), "phases": phases }))
    }

    fn report(&self, results: &[Measured]) -> String {
        let mut table = TextTable::new([
            "store",
            "phase",
            "kop/s",
            "first 10 s",
            "after them",
            "p99 us",
            "CPU us",
            "KiB read",
            "written",
            "runs",
            "most runs",
        ]);
        for store in stores_of(results) {
            for phase in std::iter::once("load").chain(PHASES.map(|(name, ..)| name)) {
                let is_phase = |figures: &Value| figures["phase"] == phase;
                let of =
                    |name: &str| median_of_cell(results, Some(store), "phases", is_phase, name);
                let nested = |path: &[&str]| {
                    median_within_cell(results, Some(store), "phases", is_phase, path)
                };
                let shown = |value: f64, text: String| match value.is_finite() {
                    true => text,
                    false => "-".to_owned(),
                };
                let thousands = |name| shown(of(name), format!("{:.1}", of(name) / 1e3));
                let kind = match phase {
                    "load" | "puts" => "put",
                    "gets before" | "gets after" => "get",
                    _ => "scan",
                };
                let p99 = nested(&["latency_nanos", kind, "p99"]) / 1e3;
                let read = of("fetched_bytes_per_read") / 1024.0;
                let written = of("write_amplification_process");
                let runs = nested(&["figures", "log_runs"]) / nested(&["figures", "chunks"]);
                let most = nested(&["figures", "log_runs_most"]);
                table.row([
                    store.to_owned(),
                    phase.to_owned(),
                    thousands("operations_per_second"),
                    thousands("first_operations_per_second"),
                    thousands("later_operations_per_second"),
                    shown(p99, format!("{p99:.0}")),
                    format!("{:.1}", of("cpu_micros_per_operation")),
                    shown(read, format!("{read:.1}")),
                    shown(written, format!("{written:.2}")),
                    shown(runs, format!("{runs:.1}")),
                    shown(most, format!("{most:.0}")),
                ]);
            }
        }
        table.to_string()
    }
}
