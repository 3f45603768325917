//! Experiment `split`: whether the split of memory between chunks in RAM and single rows adapts.
//! The hit rate with EvenDB's own split stands beside the hit rates with fixed shares, on the same
//! data and the same gets.
//!
//! **Hit rate**: gets answered by deltas, munks or rows, divided by all gets (each of them finds
//! its key). The data is loaded once and is several times as large as memory; each share opens it
//! anew. A load that stays is counted in the second half of its gets, when caches and split have
//! found their place. A load that shifts has one turn of each distribution first. Then all gets of
//! four turns are counted, shifts included.
//!
//! Caches can follow the shift that the policy has to follow: a turn has some dozens of gets for
//! each row that fits into memory. Other stores have no such setting.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evendb::Options;
use serde_json::{Value, json};

use super::table::{TextTable, median};
use super::{Common, Failure, Measure, Measured, Turn, put_all};
use crate::dataset::Dataset;
use crate::distribution::{Distribution, DistributionKind, THETA_DEFAULT};
use crate::driver::{self, Limit, NoProgress, Phase};
use crate::mix::{Mix, MixWorker, Population};
use crate::store::Store;
use crate::stores::evendb::EvenDbStore;

/// The arguments of `experiment split`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// MiB of keys and values
    #[arg(long, default_value_t = 1024)]
    size_mib: u64,
    /// MiB of memory the store may plan with
    #[arg(long, default_value_t = 192)]
    memory_mib: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 800)]
    value_bytes: usize,
    /// Thousands of gets of a phase: a warm-up, what is measured then, and each turn of a load that
    /// shifts
    #[arg(long, default_value_t = 4000)]
    kilo_gets: u64,
    /// The fixed shares of rows
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0,0.05,0.1,0.2,0.4,0.6,0.8,1"
    )]
    shares: Vec<f64>,
    /// The loads, each of distributions that take turns, joined by `+`
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "zipf-simple,zipf-composite,zipf-simple+zipf-composite"
    )]
    loads: Vec<Load>,
}

/// Distributions that take turns.
#[derive(Clone, Debug)]
struct Load(Vec<DistributionKind>);

impl std::str::FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Load, String> {
        text.split('+')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map(Load)
    }
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.0.iter().map(|kind| kind.name()).collect();
        f.write_str(&names.join("+"))
    }
}

const THREADS: usize = 2;
/// Turns of a load that shifts while it is measured.
const TURNS: u64 = 4;
/// The name of the adaptive split in results.
const ADAPTIVE: &str = "adaptive";

/// Hits and gets, and the time of both the clock and the processor.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    gets: f64,
    hits: f64,
    seconds: f64,
    cpu_micros: f64,
}

impl Arguments {
    /// Bytes of data and of memory.
    fn sizes(&self) -> (u64, u64) {
        let parts = if self.common.quick { 4 } else { 1 };
        let data = (self.size_mib << 20) / parts;
        (data, (self.memory_mib << 20) / parts)
    }

    fn gets(&self) -> u64 {
        self.kilo_gets * 1000 / if self.common.quick { 4 } else { 1 }
    }

    fn dataset(&self) -> Dataset {
        Dataset::of_size(self.sizes().0, self.value_bytes, self.common.seed)
    }

    fn open(&self, directory: &Path, share: Option<f64>) -> Result<EvenDbStore, Failure> {
        let options = Options::new()
            .memory_budget(self.sizes().1)
            .advanced(|advanced| advanced.row_cache_share(share));
        Ok(EvenDbStore::open(directory, options, "")?)
    }

    fn load(&self, directory: &Path) -> Result<(), Failure> {
        let (store, dataset) = (self.open(directory, None)?, self.dataset());
        put_all(&store, &dataset)?;
        store.settle_debt()?;
        Box::new(store).close()?;
        Ok(())
    }

    /// Runs one load with one fixed share of rows, or with the adaptive split.
    fn run(&self, store: &dyn Store, load: &Load, seed: u64) -> Result<Sum, Failure> {
        let turns = if load.0.len() > 1 { TURNS } else { 1 };
        let mut sum = Sum::default();
        // One turn of each, so that the first shift is measured too.
        for (number, &kind) in load.0.iter().enumerate() {
            self.phase(store, kind, seed << 8 | number as u64)?;
        }
        for turn in 0..turns {
            let kind = load.0[turn as usize % load.0.len()];
            let one = self.phase(store, kind, seed << 8 | 128 | turn)?;
            sum.gets += one.gets;
            sum.hits += one.hits;
            sum.seconds += one.seconds;
            sum.cpu_micros += one.cpu_micros;
        }
        Ok(sum)
    }

    fn phase(
        &self,
        store: &dyn Store,
        kind: DistributionKind,
        number: u64,
    ) -> Result<Sum, Failure> {
        let dataset = self.dataset();
        let seed = self.common.seed;
        let distribution = Distribution::new(kind, dataset.records, THETA_DEFAULT, seed);
        let population = Arc::new(Population::new(dataset.records));
        let phase = Phase {
            distribution: kind.name().to_owned(),
            limit: Limit::operations(self.gets()),
            course_interval: Duration::from_millis(500),
            ..Phase::new("C", THREADS)
        };
        let worker = |thread| -> Box<dyn driver::Worker> {
            let worker =
                MixWorker::new(Mix::C, &distribution, &dataset, &population, number, thread);
            Box::new(worker)
        };
        let result = driver::run(store, &phase, &AtomicBool::new(false), &NoProgress, &worker)
            .map_err(|error| error.to_string())?;
        let gets = result.operations as f64;
        Ok(Sum {
            gets,
            hits: result.ram_hit_rate().unwrap_or(0.0) * gets,
            seconds: result.seconds,
            cpu_micros: result.cpu_micros_per_operation().unwrap_or(0.0) * gets,
        })
    }
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Value {
        let (data, memory) = self.sizes();
        json!({
            "data_bytes": data,
            "memory_bytes": memory,
            "value_bytes": self.value_bytes,
            "gets_of_a_phase": self.gets(),
            "seed": self.common.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        if turn.opener.name() != "evendb" {
            return Err("only evendb has memory to split".into());
        }
        if std::fs::read_dir(turn.directory)?.next().is_none() {
            self.load(turn.directory)?;
        }
        let mut loads = serde_json::Map::new();
        for load in &self.loads {
            let mut shares = serde_json::Map::new();
            let fixed = self.shares.iter().map(|&share| Some(share));
            for share in fixed.chain([None]) {
                let store = self.open(turn.directory, share)?;
                let sum = self.run(&store, load, turn.round as u64)?;
                let figure = |name: &str| {
                    let figures = store.stats();
                    let found = figures.iter().find(|figure| figure.name == name);
                    found.map_or(0, |figure| figure.value)
                };
                let name = share.map_or(ADAPTIVE.to_owned(), |share| share.to_string());
                let one = json!({
                    "hit_rate": sum.hits / sum.gets,
                    "gets_per_second": sum.gets / sum.seconds,
                    "cpu_micros": sum.cpu_micros / sum.gets,
                    "row_bytes": figure("memory.row_cache"),
                    "munk_bytes": figure("memory.munks"),
                    "munk_loads": figure("munk_loads"),
                });
                shares.insert(name, one);
                Box::new(store).close()?;
            }
            loads.insert(load.to_string(), shares.into());
        }
        Ok(loads.into())
    }

    fn report(&self, results: &[Measured]) -> String {
        let heading = [
            "load",
            "rows' share",
            "hit rate %",
            "of the best %",
            "at least %",
            "kgets/s",
            "CPU us",
        ];
        let more = ["rows MiB", "munks MiB", "munk loads"];
        let mut table = TextTable::new(heading.into_iter().chain(more));
        let names: Vec<_> = self.shares.iter().map(f64::to_string).collect();
        for load in &self.loads {
            let figure = |one: &Measured, share: &str, figure: &str| {
                one.figures[load.to_string()][share][figure].as_f64()
            };
            let of = |share: &str, name: &str| {
                let figures = results.iter().filter_map(|one| figure(one, share, name));
                median(figures.collect())
            };
            let best = names.iter().map(|share| of(share, "hit_rate"));
            let best = best.fold(0.0, f64::max);
            // The lowest share of the best fixed split of the same round, over the rounds.
            let least = |share: &str| {
                let parts = results.iter().filter_map(|one| {
                    let rates = names
                        .iter()
                        .filter_map(|share| figure(one, share, "hit_rate"));
                    Some(figure(one, share, "hit_rate")? / rates.fold(0.0, f64::max))
                });
                parts.fold(f64::INFINITY, f64::min)
            };
            for share in names.iter().map(String::as_str).chain([ADAPTIVE]) {
                let mib = |name: &str| format!("{:.0}", of(share, name) / f64::from(1 << 20));
                table.row([
                    load.to_string(),
                    share.to_owned(),
                    format!("{:.2}", 100.0 * of(share, "hit_rate")),
                    format!("{:.2}", 100.0 * of(share, "hit_rate") / best),
                    format!("{:.2}", 100.0 * least(share)),
                    format!("{:.0}", of(share, "gets_per_second") / 1e3),
                    format!("{:.2}", of(share, "cpu_micros")),
                    mib("row_bytes"),
                    mib("munk_bytes"),
                    format!("{:.0}", of(share, "munk_loads")),
                ]);
            }
        }
        table.to_string()
    }
}
