//! Experiment `transactions`: the number of commits a second, and of aborts on the way, where
//! transactions hardly ever meet and where they often do.
//!
//! Each transaction reads four records and counts two of them up ([`crate::transactions`]). They
//! are drawn evenly from all records (low contention), or from a hundred that lie apart (high). A
//! transaction is tried again until it is committed. A round loads a fresh store, and then measures
//! each contention with each number of threads, after a quarter of the time for warming. At its end
//! the counters of all records must add up to two for each committed transaction, with those of the
//! warming: a store that lost an update fails.
//!
//! * **commit/s**: committed transactions divided by the time until the last one returned and
//!   everything that was put off is done;
//! * **without debt**: divided by the time until the last one returned;
//! * **/ best peer**: commit/s divided by that of the best store that is not EvenDB;
//! * **aborts**: attempts that were not committed, divided by attempts that were;
//! * latencies are of a transaction with all its attempts.
//!
//! An acknowledged commit survives the end of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::table::TextTable;
use super::{
    Common, Failure, Measure, Measured, Turn, beside_best_peer, median_of_cell, stores_of,
};
use crate::dataset::Dataset;
use crate::driver::{self, Limit, NoProgress, Phase, Worker};
use crate::mix::{LoadWorker, Population};
use crate::opener::{Durability, Opener, Settings};
use crate::phase_result::PhaseResult;
use crate::random::Random;
use crate::recorder::RunError;
use crate::store::Store;
use crate::transactions::{
    Contention, READS, TransactionWorker, WRITES, Work, check_counters, transactions_of,
};

/// The arguments of `experiment transactions`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// MiB of keys and values
    #[arg(long, default_value_t = 512)]
    size_mib: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(16..))]
    value_bytes: u16,
    /// MiB of memory a store may plan with
    #[arg(long, default_value_t = 1024)]
    memory_mib: u64,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16])]
    threads: Vec<usize>,
    /// The records that transactions are over
    #[arg(long, value_delimiter = ',', default_values = ["low", "high"])]
    contention: Vec<Contention>,
    /// Seconds of each measurement [default: 10, quick: 0.3]. A quarter more is spent on warming
    #[arg(long)]
    seconds: Option<f64>,
}

/// One measurement of a round.
#[derive(Clone, Copy)]
struct Cell {
    contention: Contention,
    threads: usize,
}

impl Arguments {
    fn seconds(&self) -> f64 {
        let default = if self.common.quick { 0.3 } else { 10.0 };
        self.seconds.unwrap_or(default)
    }

    fn size_mib(&self) -> u64 {
        match self.common.quick {
            true => self.size_mib.min(16),
            false => self.size_mib,
        }
    }

    fn cells(&self) -> impl Iterator<Item = Cell> {
        self.contention.iter().flat_map(|&contention| {
            self.threads.iter().map(move |&threads| Cell {
                contention,
                threads,
            })
        })
    }

    fn load(&self, store: &dyn Store, dataset: &Dataset) -> Result<(), RunError> {
        let population = Arc::new(Population::new(0));
        let worker = |_| -> Box<dyn Worker> {
            Box::new(LoadWorker::new(dataset.clone(), Arc::clone(&population)))
        };
        let phase = Phase {
            settle: true,
            ..Phase::new("load", 1)
        };
        let never = AtomicBool::new(false);
        driver::run(store, &phase, &never, &NoProgress, &worker)?;
        Ok(())
    }

    /// Runs transactions for some seconds. Returns what was measured, and the number of aborts.
    fn run(
        &self,
        store: &dyn Store,
        dataset: &Dataset,
        cell: Cell,
        seconds: f64,
        stream: u64,
    ) -> Result<(PhaseResult, u64), RunError> {
        let aborts = Arc::new(AtomicU64::new(0));
        let worker = |index: usize| -> Box<dyn Worker> {
            Box::new(TransactionWorker {
                work: Work::new(dataset.values.clone()),
                records: dataset.records,
                contention: cell.contention,
                random: Random::new(self.common.seed, stream << 16 | index as u64),
                aborts: Arc::clone(&aborts),
            })
        };
        let phase = Phase {
            distribution: cell.contention.name().to_owned(),
            limit: Limit::seconds(seconds),
            settle: true,
            course_interval: Duration::from_millis(500),
            ..Phase::new("transactions", cell.threads)
        };
        let never = AtomicBool::new(false);
        let result = driver::run(store, &phase, &never, &NoProgress, &worker)?;
        Ok((result, aborts.load(Ordering::Relaxed)))
    }

    /// Loads an empty store and measures all cells on it; checks the counters at the end.
    fn round(&self, store: &dyn Store, round: usize) -> Result<Vec<Value>, Failure> {
        transactions_of(store)?;
        let value_bytes = usize::from(self.value_bytes);
        let mut dataset = Dataset::of_size(self.size_mib() << 20, value_bytes, self.common.seed);
        dataset.records = dataset.records.max(READS as u64);
        self.load(store, &dataset)?;
        let (mut figures, mut commits) = (Vec::new(), 0);
        for (number, cell) in self.cells().enumerate() {
            let stream = (round << 8 | number) as u64;
            let seconds = self.seconds();
            let (warming, _) = self.run(store, &dataset, cell, seconds / 4.0, stream | 1 << 40)?;
            let (result, aborts) = self.run(store, &dataset, cell, seconds, stream)?;
            commits += warming.operations + result.operations;
            figures.push(figures_of(cell, &result, aborts)?);
        }
        check_counters(store, &dataset, commits)?;
        Ok(figures)
    }
}

fn figures_of(cell: Cell, result: &PhaseResult, aborts: u64) -> Result<Value, Failure> {
    let latency = result.latencies.first().ok_or("nothing was committed")?;
    Ok(json!({
        "contention": cell.contention.name(),
        "threads": cell.threads,
        "commits": result.operations,
        "commits_per_second_with_debt": result.throughput_with_debt(),
        "commits_per_second": result.throughput(),
        "aborts_per_commit": aborts as f64 / result.operations as f64,
        "cpu_micros_per_commit": result.cpu_micros_per_operation(),
        "p50_nanos": latency.p50,
        "p99_nanos": latency.p99,
        "p99.9_nanos": latency.p999,
        "max_nanos": latency.max,
    }))
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn takes_part(&self, opener: &dyn Opener) -> bool {
        opener.has_transactions()
    }

    fn settings(&self) -> Value {
        let contention: Vec<_> = self.contention.iter().map(|one| one.name()).collect();
        json!({
            "data_bytes": self.size_mib() << 20,
            "value_bytes": self.value_bytes,
            "memory_bytes": self.memory_mib << 20,
            "threads": self.threads,
            "contention": contention,
            "seconds": self.seconds(),
            "reads": READS,
            "writes": WRITES,
            "durability": Durability::Process.name(),
            "seed": self.common.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let settings = Settings {
            memory_bytes: self.memory_mib << 20,
            durability: Durability::Process,
        };
        turn.in_fresh_store(&settings, |store, _| {
            let cells = self.round(store, turn.round)?;
            Ok(json!({ "store": store.name(), "cells": cells }))
        })
    }

    fn report(&self, results: &[Measured]) -> String {
        let mut table = TextTable::new([
            "store",
            "contention",
            "threads",
            "commit/s",
            "without debt",
            "/ best peer",
            "aborts",
            "CPU us",
            "p50 us",
            "p99 us",
            "p99.9 us",
        ]);
        let stores = stores_of(results);
        for cell in self.cells() {
            for row in rows(results, &stores, cell) {
                table.row(row);
            }
        }
        table.to_string()
    }
}

/// The rows of a cell, one for each store.
fn rows(results: &[Measured], stores: &[&str], cell: Cell) -> Vec<Vec<String>> {
    const RATE: &str = "commits_per_second_with_debt";
    let row = |store: &&str| {
        let of = |name: &str| figure(results, store, cell, name);
        let micros = |name: &str| format!("{:.1}", of(name) / 1e3);
        let beside = beside_best_peer(stores, store, |store| figure(results, store, cell, RATE));
        vec![
            (*store).to_owned(),
            cell.contention.name().to_owned(),
            cell.threads.to_string(),
            format!("{:.0}", of(RATE)),
            format!("{:.0}", of("commits_per_second")),
            beside,
            format!("{:.4}", of("aborts_per_commit")),
            format!("{:.1}", of("cpu_micros_per_commit")),
            micros("p50_nanos"),
            micros("p99_nanos"),
            micros("p99.9_nanos"),
        ]
    };
    stores.iter().map(row).collect()
}

/// The median of a figure over the rounds of one store.
fn figure(results: &[Measured], store: &str, cell: Cell, name: &str) -> f64 {
    let is_cell = |figures: &Value| {
        figures["contention"] == cell.contention.name()
            && figures["threads"].as_u64() == Some(cell.threads as u64)
    };
    median_of_cell(results, Some(store), "cells", is_cell, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::tests::{measured, parsed};
    use crate::stores::evendb::{EvenDbOpener, LockingOpener};
    use crate::stores::memory::{Fault, MemoryStore};

    /// Few records, so that transactions meet.
    fn tiny(more: &[&str]) -> Arguments {
        let all = ["transactions", "--size-mib=0", "--seconds=0.1"];
        parsed(all.iter().chain(more))
    }

    #[test]
    fn both_forms_of_evendb_are_measured_and_count_right() {
        let arguments = tiny(&["--threads=1,4", "--memory-mib=64"]);
        let openers: [&dyn Opener; 2] = [&EvenDbOpener, &LockingOpener];
        for opener in openers {
            let directory = tempfile::tempdir().unwrap();
            let measured = measured(&arguments, opener, directory.path());
            let figures = &measured.figures;
            let cells = figures["cells"].as_array().unwrap();
            assert_eq!(cells.len(), 4);
            assert!(cells.iter().all(|cell| cell["commits"].as_u64() > Some(0)));
            assert_eq!(cells[0]["aborts_per_commit"], 0.0, "one thread meets none");
        }
    }

    #[test]
    fn a_store_that_loses_updates_is_refused() {
        let arguments = tiny(&["--threads=4", "--contention=low"]);
        arguments.round(&MemoryStore::new(), 0).unwrap();
        let wrong = MemoryStore::with_fault(Fault::LoseUpdate);
        let error = arguments.round(&wrong, 0).unwrap_err().to_string();
        assert!(error.contains("updates were lost"), "{error}");
    }

    #[test]
    fn a_store_without_transactions_is_refused() {
        let store = crate::stores::put_only::PutOnlyStore(|| Ok(()));
        let error = tiny(&[]).round(&store, 0).unwrap_err().to_string();
        assert!(error.contains("put only has none"), "{error}");
    }

    #[test]
    fn ratios_are_medians_to_the_best_peer() {
        let arguments = tiny(&["--threads=4", "--contention=high"]);
        let measured = |store: &str, round: usize, rate: f64| Measured {
            store: store.to_owned(),
            round,
            figures: json!({ "cells": [{
                "contention": "high",
                "threads": 4,
                "commits_per_second_with_debt": rate,
                "aborts_per_commit": 0.5,
            }] }),
        };
        let mut results = Vec::new();
        for (round, rate) in [900.0, 300.0, 400.0].into_iter().enumerate() {
            results.push(measured("evendb", round, rate));
            results.push(measured("evendb-for-update", round, rate / 2.0));
            results.push(measured("slow", round, 100.0));
            results.push(measured("fast", round, 200.0));
        }
        let report = arguments.report(&results);
        let words = |store: &str| -> Vec<_> {
            let row = report.lines().find(|line| line.starts_with(store));
            row.unwrap().split_whitespace().map(str::to_owned).collect()
        };
        let expected = ["evendb", "high", "4", "400", "NaN", "2.00x", "0.5000"];
        assert_eq!(words("evendb ")[..7], expected);
        assert_eq!(words("evendb-for-update")[5], "1.00x");
        assert_eq!(words("fast")[5], "0.5000", "a peer has no ratio");
    }
}
