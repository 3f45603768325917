//! `evendb bench --transactions`: transactions of four reads and two writes, over all records or
//! over few.
//!
//! Each adds one to the counters of the two records that it writes. So at the end the counters of
//! all records must add up to what was committed, warm-ups included: an update that got lost ends
//! the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evendb_lab::driver::Worker;
use evendb_lab::random::Random;
use evendb_lab::readable::{bytes, counted};
use evendb_lab::transactions::{Contention, READS, TransactionWorker, Work, check_counters};
use serde_json::{Value, json};

use super::{Bench, limits};
use crate::failure::Failure;

/// The load of transactions.
#[derive(clap::Args)]
pub struct TransactionArguments {
    /// Instead of the mixes, transactions that read 4 records and write 2 of them, tried again
    /// until they are committed: over all records, or over a hundred of them
    #[arg(long, value_name = "CONTENTION", value_enum, value_delimiter = ',', num_args = 0..,
        default_missing_value = "low,high",
        conflicts_with_all = ["mixes", "distributions", "theta", "event_log", "replay", "rate"])]
    transactions: Vec<Contention>,
}

impl TransactionArguments {
    /// Whether transactions take the place of the mixes.
    pub fn given(&self) -> bool {
        !self.transactions.is_empty()
    }

    /// Loads the records, and runs transactions at each contention that was asked for.
    pub fn run(&self, bench: &mut Bench<'_>) -> Result<(), Failure> {
        bench.dataset.records = bench.dataset.records.max(READS as u64);
        bench.planned = 1 + self.transactions.len();
        let text = format!(
            "{}, transactions over {} of {}, {} in all, {}",
            bench.store.name(),
            counted(bench.dataset.records, "record"),
            bytes(bench.dataset.record_bytes()),
            bytes(bench.dataset.data_bytes()),
            counted(bench.arguments.threads.into(), "thread")
        );
        bench.begin(&text, Some(bench.dataset.data_bytes()))?;
        bench.load()?;
        let mut commits = 0;
        for (number, &contention) in self.transactions.iter().enumerate() {
            if bench.interrupt.raised() {
                return Ok(());
            }
            commits += phases(bench, contention, number as u64)?;
        }
        check_counters(&*bench.store, &bench.dataset, commits)
            .map_err(|error| Failure::new("after the transactions", error))
    }
}

/// A warm-up and the measured phase. Returns the number of transactions that both have committed.
fn phases(bench: &mut Bench<'_>, contention: Contention, number: u64) -> Result<u64, Failure> {
    let arguments = bench.arguments;
    let (values, records) = (bench.dataset.values.clone(), bench.dataset.records);
    let aborts = Arc::new(AtomicU64::new(0));
    let worker_of = |stream: u64, thread: usize| -> Box<dyn Worker> {
        Box::new(TransactionWorker {
            work: Work::new(values.clone()),
            records,
            contention,
            random: Random::new(arguments.seed, stream << 16 | thread as u64),
            aborts: Arc::clone(&aborts),
        })
    };
    let limit = limits::limit(arguments, limits::lengths(arguments).seconds);
    let name = contention.name();
    let warm = bench.phase(
        "warm-up for transactions",
        name,
        limits::warm_limit(limit),
        false,
    );
    let warming = bench.run(&warm, &|thread| worker_of(number | 1 << 32, thread))?;
    aborts.store(0, Ordering::Relaxed);
    let phase = bench.phase("transactions", name, limit, true);
    let result = bench.run(&phase, &|thread| worker_of(number, thread))?;
    let committed = result.operations;
    let each = aborts.load(Ordering::Relaxed) as f64 / committed.max(1) as f64;
    bench.report(result)?;
    bench.print(&format!(
        "{each:.4} attempts were refused for each transaction that was committed\n"
    ))?;
    bench
        .refused
        .push(json!({ "contention": name, "aborts_per_commit": each }));
    Ok(warming.operations + committed)
}

/// The refused attempts, for the report.
pub fn refused(all: Vec<Value>) -> Option<Value> {
    (!all.is_empty()).then_some(Value::Array(all))
}
