//! How long after opening a store's reads reach their full speed, and what is read from the disk
//! until then.
//!
//! ```text
//! load, then for each case (mix, distribution):
//!   open, run the mix for some time, close       what a store remembers of its use is of this mix
//!   drop the page cache
//!   open                                         timed from here
//!   run the mix, second by second                rates r1 r2 r3 ..., bytes read from the disk
//! ```
//! The **steady rate** is the median of the last third of the seconds. The store has **reached** it
//! at the end of the first second from which on two seconds in a row have nine tenths of it or
//! more. A store whose rate still rises at the end of the time has no steady rate yet: the table
//! shows the last rates, so that this can be seen.
//!
//! Only mixes that read belong here, except for the few puts of E. A limit on memory that is set
//! from outside holds for all stores.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use serde_json::{Value, json};

use super::processes::forget_files;
use super::table::{TextTable, median};
use super::{Common, Failure, Measure, Measured, Turn, put_all};
use crate::dataset::Dataset;
use crate::distribution::{Distribution, DistributionKind, THETA_DEFAULT};
use crate::driver::{self, Limit, NoProgress, Phase, Worker};
use crate::mix::{Mix, MixWorker, Population};
use crate::opener::{Durability, Settings};
use crate::process::ProcessUsage;
use crate::store::Store;

/// The arguments of `experiment warming`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// MiB of keys and values
    #[arg(long, default_value_t = 4096)]
    size_mib: u64,
    /// MiB of memory a store may plan with
    #[arg(long, default_value_t = 819)]
    memory_mib: u64,
    /// Seconds that each case runs before its store is closed, and after it is opened again
    #[arg(long, default_value_t = 40)]
    seconds: u64,
    /// The mixes, which only read
    #[arg(long, value_delimiter = ',', default_value = "C,E100")]
    mixes: Vec<Mix>,
    /// The distributions
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "zipf-composite,zipf-simple"
    )]
    distributions: Vec<DistributionKind>,
    /// Threads that read
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Bytes of a value
    #[arg(long, default_value_t = 800)]
    value_bytes: usize,
}

/// Rates in a row that must be near the steady one.
const IN_A_ROW: usize = 2;
/// The part of the steady rate that counts as reached.
const REACHED: f64 = 0.9;

/// A second of a case.
#[derive(Clone, Copy, Debug)]
struct Second {
    /// Seconds from the call that opened the store to the end of this second.
    ended: f64,
    operations_per_second: f64,
    /// Bytes read from the disk since the call that opened the store.
    read_bytes: u64,
}

impl Arguments {
    fn seconds(&self) -> u64 {
        if self.common.quick { 6 } else { self.seconds }
    }

    fn dataset(&self) -> Dataset {
        let mib = if self.common.quick { 64 } else { self.size_mib };
        Dataset::of_size(mib << 20, self.value_bytes, self.common.seed)
    }

    fn store_settings(&self) -> Settings {
        let mib = if self.common.quick {
            32
        } else {
            self.memory_mib
        };
        Settings {
            memory_bytes: mib << 20,
            durability: Durability::Process,
        }
    }

    fn load(&self, turn: &Turn<'_>) -> Result<(), Failure> {
        let (store, dataset) = (self.open(turn)?, self.dataset());
        put_all(&*store, &dataset)?;
        store.settle_debt()?;
        Ok(store.close()?)
    }

    fn open(&self, turn: &Turn<'_>) -> Result<Box<dyn Store>, Failure> {
        Ok(turn.opener.open(turn.directory, &self.store_settings())?)
    }

    /// Runs a case for some time. Returns operations a second.
    fn run(
        &self,
        store: &dyn Store,
        (mix, kind): (Mix, DistributionKind),
        seconds: f64,
        number: u64,
    ) -> Result<f64, Failure> {
        let dataset = self.dataset();
        let seed = self.common.seed;
        let distribution = Distribution::new(kind, dataset.records, THETA_DEFAULT, seed);
        let population = Arc::new(Population::new(dataset.records));
        let phase = Phase {
            limit: Limit::seconds(seconds),
            ..Phase::new(mix.to_string(), self.threads)
        };
        let worker = |thread| -> Box<dyn Worker> {
            let (own, data) = (&distribution, &dataset);
            Box::new(MixWorker::new(mix, own, data, &population, number, thread))
        };
        let result = driver::run(store, &phase, &AtomicBool::new(false), &NoProgress, &worker)
            .map_err(|error| error.to_string())?;
        Ok(result.throughput())
    }

    /// Measures a case from a fresh opening of a store that the same mix has used.
    fn measure_case(
        &self,
        turn: &Turn<'_>,
        case: (Mix, DistributionKind),
    ) -> Result<Value, Failure> {
        let store = self.open(turn)?;
        self.run(&*store, case, self.seconds() as f64, 0)?;
        store.close()?;
        forget_files(turn.directory)?;
        let before = ProcessUsage::now().unwrap_or_default();
        let opened = Instant::now();
        let store = self.open(turn)?;
        let mut seconds = Vec::new();
        for number in 1..=self.seconds() {
            let operations_per_second = self.run(&*store, case, 1.0, number)?;
            let usage = ProcessUsage::now().unwrap_or_default();
            seconds.push(Second {
                ended: opened.elapsed().as_secs_f64(),
                operations_per_second,
                read_bytes: usage.since(&before).read_bytes,
            });
        }
        store.close()?;
        forget_files(turn.directory)?;
        Ok(figures(case, &seconds))
    }
}

/// When the rate reached nine tenths of the steady rate: the seconds, and the place of that second.
fn reached(seconds: &[Second]) -> (f64, Option<usize>) {
    let last_third = &seconds[seconds.len() - seconds.len().div_ceil(3)..];
    let rates = last_third.iter().map(|one| one.operations_per_second);
    let steady = median(rates.collect());
    let is_near = |one: &Second| one.operations_per_second >= REACHED * steady;
    let at = seconds
        .windows(IN_A_ROW)
        .position(|row| row.iter().all(is_near));
    (steady, at)
}

fn figures((mix, kind): (Mix, DistributionKind), seconds: &[Second]) -> Value {
    let (steady, at) = reached(seconds);
    let rate = |one: &Second| json!(one.operations_per_second);
    json!({
        "mix": mix.to_string(),
        "distribution": kind.name(),
        "steady_operations_per_second": steady,
        "reached_after_seconds": at.map(|at| seconds[at].ended),
        "reached_after_read_bytes": at.map(|at| seconds[at].read_bytes),
        "read_bytes": seconds.last().map(|one| one.read_bytes),
        "operations_per_second": seconds.iter().map(rate).collect::<Vec<_>>(),
    })
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Value {
        json!({
            "data_bytes": self.dataset().data_bytes(),
            "memory_bytes": self.store_settings().memory_bytes,
            "seconds": self.seconds(),
            "threads": self.threads,
            "value_bytes": self.value_bytes,
            "seed": self.common.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let reads = |mix: &&Mix| matches!(mix, Mix::C | Mix::E(_));
        if let Some(mix) = self.mixes.iter().find(|mix| !reads(mix)) {
            return Err(format!("mix {mix} writes, and this experiment is of reads").into());
        }
        if is_empty(turn.directory)? {
            self.load(&turn)?;
        }
        let mut cases = Vec::new();
        for &mix in &self.mixes {
            for &kind in &self.distributions {
                cases.push(self.measure_case(&turn, (mix, kind))?);
            }
        }
        Ok(json!({ "cases": cases }))
    }

    fn report(&self, results: &[Measured]) -> String {
        let mut table = TextTable::new([
            "case",
            "store",
            "steady thousand/s",
            "nine tenths after s",
            "read until then MiB",
            "read in all MiB",
            "thousand/s in seconds 1, 2, 4, 8, last",
        ]);
        let mut rows: Vec<(String, String, Vec<String>)> = Vec::new();
        for one in results {
            for case in one.figures["cases"].as_array().into_iter().flatten() {
                let text = |name: &str| case[name].as_str().unwrap_or_default().to_owned();
                let name = format!("{} {}", text("mix"), text("distribution"));
                rows.push((name, one.store.clone(), cells(case)));
            }
        }
        rows.sort();
        for (case, store, cells) in rows {
            table.row([case, store].into_iter().chain(cells));
        }
        table.to_string()
    }
}

/// A case's cells of the table, after its name and store.
fn cells(case: &Value) -> Vec<String> {
    let thousand = |value: Option<f64>| value.map_or("-".to_owned(), |value| short(value / 1e3));
    let mebi = |name: &str| {
        let bytes = case[name].as_f64();
        bytes.map_or("-".to_owned(), |bytes| format!("{:.0}", bytes / 1048576.0))
    };
    let after = case["reached_after_seconds"].as_f64();
    let rates = case["operations_per_second"].as_array();
    let rates: Vec<f64> = rates
        .into_iter()
        .flatten()
        .filter_map(Value::as_f64)
        .collect();
    let some = [0, 1, 3, 7].map(|at| thousand(rates.get(at).copied()));
    vec![
        thousand(case["steady_operations_per_second"].as_f64()),
        after.map_or("never".to_owned(), |after| format!("{after:.1}")),
        mebi("reached_after_read_bytes"),
        mebi("read_bytes"),
        format!("{}, {}", some.join(", "), thousand(rates.last().copied())),
    ]
}

fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

fn is_empty(directory: &Path) -> Result<bool, Failure> {
    Ok(std::fs::read_dir(directory)?.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(rates: &[f64]) -> Vec<Second> {
        let each = rates.iter().enumerate();
        each.map(|(at, &rate)| Second {
            ended: at as f64 + 1.5,
            operations_per_second: rate,
            read_bytes: (at as u64 + 1) << 20,
        })
        .collect()
    }

    #[test]
    fn the_steady_rate_is_that_of_the_end_and_is_reached_by_two_seconds_in_a_row() {
        let rising = seconds(&[10.0, 50.0, 95.0, 60.0, 91.0, 95.0, 99.0, 100.0, 101.0]);
        assert_eq!(reached(&rising), (100.0, Some(4)));
        let level = seconds(&[100.0; 9]);
        assert_eq!(reached(&level), (100.0, Some(0)));
        let (_, never) = reached(&seconds(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]));
        assert_eq!(never, None);
    }

    #[test]
    fn a_case_that_never_got_there_says_so() {
        let case = figures(
            (Mix::C, DistributionKind::ZipfSimple),
            &seconds(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]),
        );
        let cells = cells(&case);
        assert_eq!(cells[1..4], ["never", "-", "6"]);
    }
}
