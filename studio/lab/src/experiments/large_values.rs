//! Experiment `large-values`: puts and gets of large values, and what is written for them.
//!
//! ```text
//!   load in key order, debt paid, close | open, warm C, C, close
//!     | open, warm P, P, debt paid, close
//! ```
//! As in the paper's experiment, a phase is warmed for a quarter of its time by the same
//! operations. Phases of puts begin on a freshly opened store and overwrite. The time and the bytes
//! of paying their debt are charged to them, with what their warming left owed. Each value that is
//! read is checked.
//!
//! A store may keep large values apart from their keys, so that reorganisation need not write them
//! again. Such a store is measured with and without that, under two names.
//!
//! * **kop/s**: operations divided by the time until the last one returned and everything that was
//!   put off is done;
//! * **without debt**: operations divided by the time until the last one returned;
//! * **write amplification**: bytes that the process sent to storage (`/proc/self/io`, less what
//!   was cancelled), debt included, divided by bytes of keys and values that were put;
//! * **disk x data**: allocated blocks of the store's files after the phase, divided by the bytes
//!   of the data;
//! * **/ best peer**: kop/s divided by that of the best store that is not EvenDB.
//!
//! An acknowledged put survives the end of the process. The memory is for everything, page cache
//! included: the opener decides what part of it a store is told to plan with, and the limit is set
//! from outside (`scripts/with-memory-limit`).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::{Value, json};

use super::disk_space::disk_bytes;
use super::table::TextTable;
use super::{
    Common, Failure, Measure, Measured, Turn, beside_best_peer, median_of_cell, stores_of,
};
use crate::dataset::Dataset;
use crate::distribution::{Distribution, DistributionKind, THETA_DEFAULT};
use crate::driver::{self, Limit, NoProgress, Phase, Worker};
use crate::mix::{LoadWorker, Mix, MixWorker, Population};
use crate::opener::{Durability, Opener, Purpose, Settings};
use crate::phase_length::PhaseLengths;
use crate::phase_result::PhaseResult;
use crate::store::{Store, StoreResult};

/// The arguments of `experiment large-values`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// MiB of keys and values
    #[arg(long, default_value_t = 4096)]
    size_mib: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(16..))]
    value_bytes: u32,
    /// A value of at least this number of bytes lies apart, in stores that can and are named for it
    #[arg(long, default_value_t = 4096)]
    apart_from: u64,
    /// MiB of memory for everything, the page cache included; the limit itself is set from outside
    #[arg(long, default_value_t = 1024)]
    memory_mib: u64,
    /// Threads
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// The mixes, of P (puts) and C (gets), one after the other
    #[arg(long, value_delimiter = ',', default_value = "C,P")]
    mixes: Vec<Mix>,
    /// Which records are drawn
    #[arg(long, default_value_t = DistributionKind::ZipfSimple)]
    distribution: DistributionKind,
    /// Seconds of each phase [default: 60 of puts, 20 of gets; quick: 1]. A quarter more is spent
    /// on warming
    #[arg(long)]
    seconds: Option<f64>,
}

/// The figure that compares stores.
const RATE: &str = "operations_per_second_with_debt";
const LOAD: &str = "load";

/// How the phases of a round find the store.
struct Place<'a> {
    turn: Turn<'a>,
    directory: &'a Path,
    settings: Settings,
}

impl Arguments {
    fn lengths(&self) -> PhaseLengths {
        let given = self.seconds.or(self.common.quick.then_some(1.0));
        given.map_or(PhaseLengths::FULL, PhaseLengths::all)
    }

    fn dataset(&self) -> Dataset {
        let mib = match self.common.quick {
            true => self.size_mib.min(64),
            false => self.size_mib,
        };
        Dataset::of_size(mib << 20, self.value_bytes as usize, self.common.seed)
    }

    fn purpose(&self) -> Purpose {
        Purpose::ValuesApart(self.apart_from)
    }

    fn open(&self, place: &Place<'_>) -> StoreResult<Box<dyn Store>> {
        let (opener, directory) = (place.turn.opener, place.directory);
        match opener.serves(self.purpose()) {
            true => opener.open_for(directory, &place.settings, self.purpose()),
            false => opener.open(directory, &place.settings),
        }
    }

    fn phase(&self, name: String, seconds: Option<f64>, settle: bool) -> Phase {
        Phase {
            distribution: self.distribution.name().to_owned(),
            limit: seconds.map_or_else(Limit::default, Limit::seconds),
            settle,
            course_interval: Duration::from_millis(500),
            ..Phase::new(name, self.threads)
        }
    }

    fn load(&self, store: &dyn Store, dataset: &Dataset) -> Result<PhaseResult, Failure> {
        let population = Arc::new(Population::new(0));
        let worker = |_| -> Box<dyn Worker> {
            Box::new(LoadWorker::new(dataset.clone(), Arc::clone(&population)))
        };
        let never = AtomicBool::new(false);
        let phase = self.phase(LOAD.to_owned(), None, true);
        Ok(driver::run(store, &phase, &never, &NoProgress, &worker)?)
    }

    /// Warms, then measures.
    fn mix(
        &self,
        store: &dyn Store,
        dataset: &Dataset,
        mix: Mix,
        stream: u64,
    ) -> Result<PhaseResult, Failure> {
        let (seed, records) = (self.common.seed, dataset.records);
        let distribution = Distribution::new(self.distribution, records, THETA_DEFAULT, seed);
        let population = Arc::new(Population::new(records));
        let run = |seconds: f64, settle: bool, stream: u64| {
            let worker = |index: usize| -> Box<dyn Worker> {
                let (set, all) = (dataset, &population);
                Box::new(MixWorker::new(mix, &distribution, set, all, stream, index))
            };
            let never = AtomicBool::new(false);
            let phase = self.phase(mix.to_string(), Some(seconds), settle);
            driver::run(store, &phase, &never, &NoProgress, &worker)
        };
        let lengths = self.lengths();
        run(lengths.warming(mix), false, stream | 1 << 32)?;
        Ok(run(lengths.of(mix), mix.writes(), stream)?)
    }

    /// Runs all phases of a round. Returns them with the store's name.
    fn round(&self, place: &Place<'_>) -> Result<Value, Failure> {
        let dataset = self.dataset();
        let data_bytes = dataset.data_bytes() as f64;
        let figures = |result: &PhaseResult| {
            let mut figures = result.to_json();
            let on_disk = disk_bytes(place.directory) as f64;
            figures["disk_by_data"] = (on_disk / data_bytes).into();
            figures
        };
        let store = self.open(place)?;
        let name = store.name();
        let mut phases = vec![figures(&self.load(&*store, &dataset)?)];
        store.close()?;
        for (number, &mix) in self.mixes.iter().enumerate() {
            let store = self.open(place)?;
            let stream = (place.turn.round << 8 | number) as u64;
            phases.push(figures(&self.mix(&*store, &dataset, mix, stream)?));
            store.close()?;
        }
        Ok(json!({ "store": name, "phases": phases }))
    }
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    /// The stores that show what values apart are good for: EvenDB, and every store that has them,
    /// with and without.
    fn takes_part(&self, opener: &dyn Opener) -> bool {
        opener.serves(self.purpose()) || opener.measured_beside_values_apart()
    }

    fn settings(&self) -> Value {
        let mixes: Vec<_> = self.mixes.iter().map(ToString::to_string).collect();
        json!({
            "data_bytes": self.dataset().data_bytes(),
            "value_bytes": self.value_bytes,
            "apart_from_bytes": self.apart_from,
            "memory_bytes": self.memory_mib << 20,
            "threads": self.threads,
            "mixes": mixes,
            "distribution": self.distribution.name(),
            "seconds": self.lengths().seconds,
            "put_seconds": self.lengths().put_seconds,
            "durability": Durability::Process.name(),
            "seed": self.common.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let directory = turn.directory.join(turn.round.to_string());
        std::fs::create_dir_all(&directory)?;
        let figures = self.round(&Place {
            turn,
            directory: &directory,
            settings: Settings {
                memory_bytes: turn.opener.memory_within(self.memory_mib << 20),
                durability: Durability::Process,
            },
        })?;
        std::fs::remove_dir_all(&directory)?;
        Ok(figures)
    }

    fn report(&self, results: &[Measured]) -> String {
        let mut table = TextTable::new([
            "store",
            "phase",
            "kop/s",
            "without debt",
            "/ best peer",
            "write amplification",
            "disk x data",
            "p50 us",
            "p99 us",
            "CPU us",
        ]);
        let stores = stores_of(results);
        let mixes = self.mixes.iter().map(ToString::to_string);
        for phase in std::iter::once(LOAD.to_owned()).chain(mixes) {
            let is_phase = |figures: &Value| figures["phase"] == *phase;
            let figure = |store: &str, name: &str| {
                median_of_cell(results, Some(store), "phases", is_phase, name)
            };
            let operation = if phase == "C" { "get" } else { "put" };
            for store in &stores {
                let of = |name: &str| figure(store, name);
                let latency = |name: &str| {
                    let own = results.iter().filter(|one| one.store == *store);
                    let nanos = own.filter_map(|one| {
                        let phases = one.figures["phases"].as_array()?;
                        let own = phases.iter().find(|figures| is_phase(figures))?;
                        own["latency_nanos"][operation][name].as_f64()
                    });
                    format!("{:.1}", super::table::median(nanos.collect()) / 1e3)
                };
                let written = match phase == "C" {
                    true => String::new(),
                    false => format!("{:.2}", of("write_amplification_process")),
                };
                table.row([
                    (*store).to_owned(),
                    phase.clone(),
                    format!("{:.2}", of(RATE) / 1e3),
                    format!("{:.2}", of("operations_per_second") / 1e3),
                    beside_best_peer(&stores, store, |store| figure(store, RATE)),
                    written,
                    format!("{:.2}", of("disk_by_data")),
                    latency("p50"),
                    latency("p99"),
                    format!("{:.1}", of("cpu_micros_per_operation")),
                ]);
            }
        }
        table.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::tests::{measured, parsed};
    use crate::stores::evendb::{EvenDbOpener, HalfMemoryOpener, ValuesApartOpener};

    fn tiny(more: &[&str]) -> Arguments {
        let all = ["large-values", "--size-mib=4", "--seconds=0.1"];
        parsed(all.iter().chain(&["--memory-mib=80"]).chain(more))
    }

    #[test]
    fn evendb_is_measured_in_each_phase() {
        let arguments = tiny(&["--threads=2"]);
        assert!(!arguments.takes_part(&HalfMemoryOpener));
        let openers: [&dyn Opener; 2] = [&EvenDbOpener, &ValuesApartOpener];
        let mut results = Vec::new();
        for opener in openers {
            if opener.unavailable().is_some() {
                continue;
            }
            let directory = tempfile::tempdir().unwrap();
            let measured = measured(&arguments, opener, directory.path());
            let figures = &measured.figures;
            let phases = figures["phases"].as_array().unwrap();
            let names: Vec<_> = phases.iter().map(|phase| &phase["phase"]).collect();
            assert_eq!(names, ["load", "C", "P"]);
            results.push(measured);
        }
        let report = arguments.report(&results);
        assert_eq!(report.lines().count(), 1 + 3 * results.len());
        assert!(!report.contains("NaN"), "{report}");
    }
}
