//! Experiment `sync`: puts that survive power loss: how many a second, how long each takes, and
//! what the disk can do.
//!
//! Every store is opened so that a put that returned survives power loss; the head of its adapter
//! says how. Threads put 800-byte values, with keys drawn from the paper's composite distribution.
//! Before each number of threads the disk is measured alone, in the same directory: one thread
//! writes 1 KiB to a file that was written before, then calls `fdatasync`. A store that shares a
//! sync among `n` waiting threads may reach `n` times that rate; a store that does not stays below
//! it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::{Value, json};

use super::table::TextTable;
use super::{Common, Failure, Measure, Measured, Turn, median_of_cell};
use crate::calibrate::{SyncSettings, sync_rate};
use crate::dataset::Dataset;
use crate::distribution::{Distribution, DistributionKind, THETA_DEFAULT};
use crate::driver::{self, Limit, NoProgress, Phase, Worker};
use crate::mix::{Mix, MixWorker, Population};
use crate::opener::{Durability, Settings};

/// The arguments of `experiment sync`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16, 64])]
    threads: Vec<usize>,
    /// Seconds of each measurement; --quick: 0.3
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Different keys
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// MiB of memory a store may plan with
    #[arg(long, default_value_t = 256)]
    memory_mib: u64,
}

const VALUE_BYTES: usize = 800;
/// The store whose rates are compared with the others'.
const OURS: &str = "evendb";

impl Arguments {
    fn seconds(&self) -> f64 {
        if self.common.quick { 0.3 } else { self.seconds }
    }
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Value {
        json!({
            "threads": self.threads,
            "seconds": self.seconds(),
            "keys": self.keys,
            "value_bytes": VALUE_BYTES,
            "memory_bytes": self.memory_mib << 20,
            "seed": self.common.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let settings = Settings {
            memory_bytes: self.memory_mib << 20,
            durability: Durability::Sync,
        };
        turn.in_fresh_store(&settings, |store, _| {
            let dataset = Dataset::new(self.keys, VALUE_BYTES, self.common.seed);
            let kind = DistributionKind::ZipfComposite;
            let distribution = Distribution::new(kind, self.keys, THETA_DEFAULT, self.common.seed);
            let population = Arc::new(Population::new(self.keys));
            let mut figures = Vec::new();
            for &threads in &self.threads {
                let never = AtomicBool::new(false);
                let alone = SyncSettings {
                    record_bytes: 1 << 10,
                    threads: 1,
                    direct: false,
                    time: Duration::from_secs_f64(self.seconds() / 4.0),
                    slices: 1,
                };
                let disk = sync_rate(turn.directory, &alone, &never)?.per_second.median;
                let phase = Phase {
                    distribution: kind.name().to_owned(),
                    limit: Limit::seconds(self.seconds()),
                    ..Phase::new("sync puts", threads)
                };
                let stream = self.common.seed + (turn.round * 1000 + threads) as u64;
                let worker = |index| -> Box<dyn Worker> {
                    let (mix, set, all) = (Mix::P, &dataset, &population);
                    Box::new(MixWorker::new(mix, &distribution, set, all, stream, index))
                };
                let result = driver::run(store, &phase, &never, &NoProgress, &worker)?;
                let latency = result.latencies.first().ok_or("nothing was put")?;
                figures.push(json!({
                    "threads": threads,
                    "puts_per_second": result.throughput(),
                    "p50_nanos": latency.p50,
                    "p99_nanos": latency.p99,
                    "p99.9_nanos": latency.p999,
                    "max_nanos": latency.max,
                    "cpu_micros_per_put": result.cpu_micros_per_operation(),
                    "disk_syncs_per_second": disk,
                }));
            }
            Ok(json!({ "store": store.name(), "by_threads": figures }))
        })
    }

    fn report(&self, results: &[Measured]) -> String {
        let mut stores: Vec<&str> = Vec::new();
        for one in results {
            if !stores.contains(&&*one.store) {
                stores.push(&one.store);
            }
        }
        let mut text = String::new();
        let mut table = TextTable::new([
            "store",
            "threads",
            "put/s",
            "/ fdatasync",
            "/ best peer",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "CPU us",
        ]);
        for &threads in &self.threads {
            let of = |store: Option<&str>, name: &str| figure(results, store, threads, name);
            let disk = of(None, "disk_syncs_per_second");
            text += &format!("{threads} threads: the disk did {disk:.0} fdatasync/s\n");
            let peers = stores.iter().filter(|store| **store != OURS);
            let peers = peers.map(|store| of(Some(store), "puts_per_second"));
            let best = peers.fold(f64::NAN, f64::max);
            for store in &stores {
                let of = |name: &str| of(Some(store), name);
                let puts = of("puts_per_second");
                let micros = |name: &str| format!("{:.0}", of(name) / 1e3);
                let beside = match *store == OURS && best > 0.0 {
                    true => format!("{:.2}x", puts / best),
                    false => String::new(),
                };
                table.row([
                    (*store).to_owned(),
                    threads.to_string(),
                    format!("{puts:.0}"),
                    format!("{:.2}", puts / disk),
                    beside,
                    micros("p50_nanos"),
                    micros("p99_nanos"),
                    micros("p99.9_nanos"),
                    format!("{:.1}", of("cpu_micros_per_put")),
                ]);
            }
        }
        format!("{text}\n{table}")
    }
}

/// The median of a figure over the rounds of one store, or of all.
fn figure(results: &[Measured], store: Option<&str>, threads: usize, name: &str) -> f64 {
    let of_threads = |figures: &Value| figures["threads"].as_u64() == Some(threads as u64);
    median_of_cell(results, store, "by_threads", of_threads, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::tests::parsed;

    fn measured(store: &str, round: usize, puts: f64) -> Measured {
        let figures = json!({ "by_threads": [{
            "threads": 16,
            "puts_per_second": puts,
            "p50_nanos": 250_000,
            "disk_syncs_per_second": 5000.0,
        }] });
        Measured {
            store: store.to_owned(),
            round,
            figures,
        }
    }

    #[test]
    fn ratios_are_to_the_disk_and_to_the_best_peer() {
        let arguments: Arguments = parsed(["sync", "--threads", "16"]);
        let mut results = Vec::new();
        for (round, puts) in [50_000.0, 60_000.0, 90_000.0].into_iter().enumerate() {
            results.push(measured("evendb", round, puts));
            results.push(measured("slow", round, 2_000.0));
            results.push(measured("fast", round, 20_000.0));
        }
        let report = arguments.report(&results);
        let row = report.lines().find(|line| line.starts_with("evendb"));
        let words: Vec<_> = row.unwrap().split_whitespace().collect();
        assert_eq!(
            words[..6],
            ["evendb", "16", "60000", "12.00", "3.00x", "250"]
        );
        assert!(report.contains("the disk did 5000 fdatasync/s"));
    }
}
