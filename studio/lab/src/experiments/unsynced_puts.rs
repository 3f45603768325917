//! Experiment `relaxed`: the throughput of puts without a sync, and the bytes written for each byte
//! put.
//!
//! Every store is opened at its weakest level; the head of its adapter says what that is. Data is
//! loaded in key order and its debt settled. Then threads overwrite: a quarter of the time for
//! warming, then the measurement. The time of paying the debt is charged to the rate. The bytes
//! that the process sent to storage for the debt are charged too, and the sum is divided by the
//! bytes that were put.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::{Value, json};

use super::table::TextTable;
use super::{Common, Failure, Measure, Measured, Turn, median_within_cell, stores_of};
use crate::dataset::Dataset;
use crate::distribution::{Distribution, DistributionKind, THETA_DEFAULT};
use crate::driver::{self, Limit, NoProgress, Phase, Worker};
use crate::mix::{LoadWorker, Mix, MixWorker, Population};
use crate::opener::{Durability, Settings};
use crate::phase_length::PhaseLengths;
use crate::store::Store;

/// The arguments of `experiment relaxed`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// MiB of keys and values
    #[arg(long, default_value_t = 256)]
    size_mib: u64,
    /// MiB of memory a store may plan with
    #[arg(long, default_value_t = 512)]
    memory_mib: u64,
    /// Threads
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Seconds of each measurement [default: 60, quick: 1]. A quarter more is spent on warming
    #[arg(long)]
    seconds: Option<f64>,
}

const VALUE_BYTES: usize = 800;
const KINDS: [DistributionKind; 2] = [
    DistributionKind::ZipfSimple,
    DistributionKind::ZipfComposite,
];

impl Arguments {
    fn lengths(&self) -> PhaseLengths {
        let given = self.seconds.or(self.common.quick.then_some(1.0));
        given.map_or(PhaseLengths::FULL, PhaseLengths::all)
    }

    fn size_mib(&self) -> u64 {
        if self.common.quick { 32 } else { self.size_mib }
    }

    /// A phase of a number of seconds. Without a number, it lasts until the workers have nothing
    /// left to do.
    fn phase(&self, name: &str, distribution: &str, seconds: Option<f64>, settle: bool) -> Phase {
        Phase {
            distribution: distribution.to_owned(),
            limit: seconds.map_or_else(Limit::default, Limit::seconds),
            settle,
            course_interval: Duration::from_millis(500),
            ..Phase::new(name, self.threads)
        }
    }

    fn load(&self, store: &dyn Store, dataset: &Dataset) -> Result<(), Failure> {
        let population = Arc::new(Population::new(0));
        let never = AtomicBool::new(false);
        let worker = |_| -> Box<dyn Worker> {
            Box::new(LoadWorker::new(dataset.clone(), Arc::clone(&population)))
        };
        let phase = self.phase("load", "", None, true);
        driver::run(store, &phase, &never, &NoProgress, &worker)?;
        Ok(())
    }
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Value {
        json!({
            "data_bytes": self.size_mib() << 20,
            "memory_bytes": self.memory_mib << 20,
            "threads": self.threads,
            "seconds": self.lengths().put_seconds,
            "value_bytes": VALUE_BYTES,
            "seed": self.common.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let settings = Settings {
            memory_bytes: self.memory_mib << 20,
            durability: Durability::Relaxed,
        };
        turn.in_fresh_store(&settings, |store, _| {
            let dataset = Dataset::of_size(self.size_mib() << 20, VALUE_BYTES, self.common.seed);
            self.load(store, &dataset)?;
            let population = Arc::new(Population::new(dataset.records));
            let seed = self.common.seed;
            let mut figures = Vec::new();
            for kind in KINDS {
                let distribution = Distribution::new(kind, dataset.records, THETA_DEFAULT, seed);
                let never = AtomicBool::new(false);
                let stream = seed + turn.round as u64;
                let worker_of = |stream: u64, index: usize| -> Box<dyn Worker> {
                    let (mix, set, all) = (Mix::P, &dataset, &population);
                    Box::new(MixWorker::new(mix, &distribution, set, all, stream, index))
                };
                let run = |seconds: f64, settle: bool, stream: u64| {
                    let phase = self.phase("P", kind.name(), Some(seconds), settle);
                    let worker = |index| worker_of(stream, index);
                    driver::run(store, &phase, &never, &NoProgress, &worker)
                };
                let lengths = self.lengths();
                run(lengths.warming(Mix::P), false, stream | 1 << 32)?;
                figures.push(run(lengths.of(Mix::P), true, stream)?.to_json());
            }
            Ok(json!({ "store": store.name(), "phases": figures }))
        })
    }

    fn report(&self, results: &[Measured]) -> String {
        let mut table = TextTable::new([
            "store",
            "distribution",
            "kput/s",
            "without debt",
            "write amplification",
            "p99.9 us",
            "CPU us",
        ]);
        let stores = stores_of(results);
        for kind in KINDS {
            for store in &stores {
                let is_phase = |phase: &Value| phase["distribution"] == kind.name();
                let of = |path: &[&str]| {
                    median_within_cell(results, Some(store), "phases", is_phase, path)
                };
                table.row([
                    (*store).to_owned(),
                    kind.name().to_owned(),
                    format!("{:.1}", of(&["operations_per_second_with_debt"]) / 1e3),
                    format!("{:.1}", of(&["operations_per_second"]) / 1e3),
                    format!("{:.2}", of(&["write_amplification_process"])),
                    format!("{:.0}", of(&["latency_nanos", "put", "p99.9"]) / 1e3),
                    format!("{:.1}", of(&["cpu_micros_per_operation"])),
                ]);
            }
        }
        table.to_string()
    }
}
