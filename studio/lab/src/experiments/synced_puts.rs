//! Experiment `sync`: puts that survive power loss: how many a second, how long each takes, and
//! what the disk can do.
//!
//! Every store is opened so that a put that returned survives power loss; the head of its adapter
//! says how. Threads put 800-byte values, with keys drawn from the paper's composite distribution.
//! Before each number of threads the disk is measured alone, in the same directory: one thread
//! writes 1 KiB to a file that was written before, then calls `fdatasync`. A store that shares a
//! sync among `n` waiting threads may reach `n` times that rate; a store that does not stays below
//! it. With `--asynchronous` the same puts are measured in a store that may lose its last puts in a
//! crash, and the ratio of both rates is told.

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
use crate::phase_result::PhaseResult;
use crate::store::Store;

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
    /// Measure asynchronous puts as well, in another store and by as many threads, and how many
    /// times as fast they are
    #[arg(long)]
    asynchronous: bool,
}

const VALUE_BYTES: usize = 800;
/// The store whose rates are compared with the others'.
const OURS: &str = "evendb";

impl Arguments {
    fn seconds(&self) -> f64 {
        if self.common.quick { 0.3 } else { self.seconds }
    }
}

impl Arguments {
    /// The disk alone, and then synced puts by this number of threads.
    fn synced(&self, turn: &Turn<'_>, store: &dyn Store, threads: usize) -> Result<Value, Failure> {
        let alone = SyncSettings {
            record_bytes: 1 << 10,
            threads: 1,
            direct: false,
            time: Duration::from_secs_f64(self.seconds() / 4.0),
            slices: 1,
        };
        let never = AtomicBool::new(false);
        let disk = sync_rate(turn.directory, &alone, &never)?.per_second.median;
        let result = self.puts(turn, store, threads)?;
        let latency = result.latencies.first().ok_or("nothing was put")?;
        Ok(json!({
            "threads": threads,
            "puts_per_second": result.throughput(),
            "p50_nanos": latency.p50,
            "p99_nanos": latency.p99,
            "p99.9_nanos": latency.p999,
            "max_nanos": latency.max,
            "cpu_micros_per_put": result.cpu_micros_per_operation(),
            "disk_syncs_per_second": disk,
        }))
    }

    /// Puts by this number of threads. The same keys and values at each level.
    fn puts(
        &self,
        turn: &Turn<'_>,
        store: &dyn Store,
        threads: usize,
    ) -> Result<PhaseResult, Failure> {
        let dataset = Dataset::new(self.keys, VALUE_BYTES, self.common.seed);
        let kind = DistributionKind::ZipfComposite;
        let distribution = Distribution::new(kind, self.keys, THETA_DEFAULT, self.common.seed);
        let population = Arc::new(Population::new(self.keys));
        let phase = Phase {
            distribution: kind.name().to_owned(),
            limit: Limit::seconds(self.seconds()),
            ..Phase::new("puts", threads)
        };
        let stream = self.common.seed + (turn.round * 1000 + threads) as u64;
        let worker = |index| -> Box<dyn Worker> {
            let (mix, set, all) = (Mix::P, &dataset, &population);
            Box::new(MixWorker::new(mix, &distribution, set, all, stream, index))
        };
        let never = AtomicBool::new(false);
        Ok(driver::run(store, &phase, &never, &NoProgress, &worker)?)
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
            "asynchronous": self.asynchronous,
            "seed": self.common.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let settings = |durability| Settings {
            memory_bytes: self.memory_mib << 20,
            durability,
        };
        let (name, mut figures) =
            turn.in_fresh_store(&settings(Durability::Sync), |store, _| {
                let figures = self.threads.iter();
                let figures = figures.map(|threads| self.synced(&turn, store, *threads));
                Ok((store.name(), figures.collect::<Result<Vec<_>, _>>()?))
            })?;
        if self.asynchronous {
            turn.in_fresh_store(&settings(Durability::Relaxed), |store, _| {
                for figures in &mut figures {
                    let threads = figures["threads"].as_u64().unwrap_or(1) as usize;
                    let result = self.puts(&turn, store, threads)?;
                    figures["asynchronous_puts_per_second"] = result.throughput().into();
                }
                Ok(())
            })?;
        }
        Ok(json!({ "store": name, "by_threads": figures }))
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
            "async put/s",
            "/ sync",
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
                let asynchronous = of("asynchronous_puts_per_second");
                let shown = |value: f64, text: String| match value.is_finite() {
                    true => text,
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
                    shown(asynchronous, format!("{asynchronous:.0}")),
                    shown(asynchronous, format!("{:.1}x", asynchronous / puts)),
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
        assert!(
            !report.contains("NaN x") && !report.contains("NaNx"),
            "{report}"
        );
        // Medians of both, and how many times as fast the one is.
        for (one, puts) in results
            .iter_mut()
            .zip([500e3, 0.0, 0.0, 700e3, 0.0, 0.0, 660e3])
        {
            one.figures["by_threads"][0]["asynchronous_puts_per_second"] = json!(puts);
        }
        let report = arguments.report(&results);
        let row = report.lines().find(|line| line.starts_with("evendb"));
        let words: Vec<_> = row.unwrap().split_whitespace().collect();
        assert_eq!(words[words.len() - 2..], ["660000", "11.0x"]);
    }

    #[test]
    fn asynchronous_puts_are_measured_beside_synced_ones() {
        use crate::experiments::tests;
        use crate::stores::evendb::EvenDbOpener;
        let words = ["sync", "--quick", "--threads", "1,2", "--keys", "500"];
        for asynchronous in [false, true] {
            let more = asynchronous.then_some("--asynchronous");
            let arguments: Arguments = parsed(words.into_iter().chain(more));
            let directory = tempfile::tempdir().unwrap();
            let one = tests::measured(&arguments, &EvenDbOpener, directory.path());
            let all = one.figures["by_threads"].as_array().unwrap();
            assert_eq!(all.len(), 2);
            for figures in all {
                assert!(figures["puts_per_second"].as_f64().unwrap() > 0.0);
                let rate = figures["asynchronous_puts_per_second"].as_f64();
                assert_eq!(rate.is_some_and(|rate| rate > 0.0), asynchronous);
            }
        }
    }
}
