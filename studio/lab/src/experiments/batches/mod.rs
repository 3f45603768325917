//! Whether writes in batches are ever slower, record for record, than puts one by one.
//!
//! One thread fills a fresh store with records of 8-byte keys in random order: once with single
//! puts, once in batches of each size, for each size of values and each memory budget. All runs of
//! a row (one budget, one size of values) write the same records. Their number keeps single puts
//! busy for about `--seconds`, and fills at least one batch. Single puts and batches take turns: a
//! batch size is compared with the runs of single puts right before and after it, so that a machine
//! that gets slower or faster in between harms no side.
//!
//! One run says little: even on an idle machine two equal runs differ by a third now and then. So
//! each round goes over the table once. While its time lasts, it then goes again over the cells
//! that fell below, lap by lap, each between single puts. The cells that are measured again are
//! chosen before the laps, so that nobody stops where they like the outcome. A cell is the median
//! of all its shares, of all rounds. What earlier runs left to be written is written out before
//! each run.
//!
//! **Noise.** The column "puts" has single puts in the place of a batch: measured between single
//! puts, and measured again, as every cell is. Its true value is 1, so that column says how far a
//! cell may be off, and how many cells in a column fall below the rule where nothing is slower.
//!
//! There are two rates. **Put**: records divided by the time until the last put returned. **Paid**:
//! records divided by the time until all puts are checkpointed and all owed reorganisation is done,
//! so that nothing is borrowed. The rule: in both, a batch size reaches 0.95 of single puts.
//!
//! Beside them stands **processor time** a record, of the whole process and with all debt: that of
//! single puts divided by that of the batch, so that a figure below one means that batches need
//! more. It does not depend on a busy disk or on other programs. A batch that does not fit the
//! memory budget is refused by a typed error; its cell shows the refusal, which names the limit.

mod report;

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Instant;

use evendb::ErrorKind;
use serde_json::{Value, json};

use super::{Common, Failure, Measure, Measured, Turn};
use crate::opener::{Durability, Settings};
use crate::process::cpu_seconds;
use crate::store::{BatchWrite, Store, StoreError, StoreResult};
use report::{Report, share};

/// Its arguments.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// MiB of memory a store may plan with
    #[arg(long, value_delimiter = ',', default_values_t = [8, 64, 512, 2048])]
    memory_mib: Vec<u64>,
    /// Bytes of a value
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 10, 100, 1000])]
    value_bytes: Vec<usize>,
    /// Records of a batch
    #[arg(long, value_delimiter = ',',
          default_values_t = [1, 2, 5, 10, 100, 1000, 10_000, 100_000])]
    batch: Vec<usize>,
    /// Seconds for which single puts of a row are busy, about
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// A round measures cells that fell below again, at most this number of times
    #[arg(long, default_value_t = 6)]
    laps: usize,
    /// Minutes after which a round begins no further run of such a cell
    #[arg(long, default_value_t = 8.0)]
    minutes: f64,
    /// The number of records in each row
    #[arg(long)]
    records: Option<usize>,
    /// Keys in ascending order
    #[arg(long)]
    in_order: bool,
}

/// A row of the table: budget in MiB, bytes of a value.
type Row = (u64, usize);

/// The figures of a run: two rates, and processor time.
const PUT: &str = "put_per_second";
const PAID: &str = "paid_per_second";
const CPU: &str = "cpu_micros";

/// The batch size that stands for single puts.
const SINGLE: usize = 0;
/// The least share of the rate of single puts that the rule allows.
const SHARE_MIN: f64 = 0.95;
/// Batch sizes between two runs of single puts.
const SIZES_BETWEEN: usize = 2;
/// Why a put may be held up, as the store's figures name it.
const CAUSES: [&str; 5] = ["room", "pace", "debt", "chunk", "freeze"];

impl Arguments {
    fn seconds(&self) -> f64 {
        if self.common.quick { 0.1 } else { self.seconds }
    }

    /// What is compared with single puts: single puts themselves, and then the batch sizes.
    fn sizes(&self) -> Vec<usize> {
        std::iter::once(SINGLE)
            .chain(self.batch.iter().copied())
            .collect()
    }

    /// The largest batch size that `records` records fill at least once.
    fn largest_batch_within(&self, records: usize) -> usize {
        let within = self.batch.iter().filter(|batch| **batch <= records);
        within.copied().max().unwrap_or(1)
    }

    /// The key of record `index`, a different one for each.
    fn key(&self, index: usize) -> [u8; 8] {
        // An odd factor permutes the numbers of 64 bits.
        match self.in_order {
            // Big-endian, so that bytes order like numbers.
            true => (index as u64).swap_bytes().to_le_bytes(),
            false => (index as u64)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .to_le_bytes(),
        }
    }

    /// Puts single records for `seconds`, to find out how many records a row has.
    fn records_of_row(&self, store: &dyn Store, values: &Values) -> StoreResult<usize> {
        if let Some(records) = self.records {
            return Ok(records);
        }
        let started = Instant::now();
        let mut records = 0;
        while started.elapsed().as_secs_f64() < self.seconds() {
            for _ in 0..1000 {
                store.put(&self.key(records), values.of(records))?;
                records += 1;
            }
        }
        // Whole batches of these sizes, so that all runs write the same records.
        Ok(records.next_multiple_of(self.largest_batch_within(records)))
    }
}

/// Puts `writes` one by one ([`SINGLE`]), or in batches of `batch` records.
fn fill(store: &dyn Store, writes: &[BatchWrite<'_>], batch: usize) -> StoreResult<()> {
    if batch != SINGLE {
        return writes
            .chunks(batch)
            .try_for_each(|batch| store.batch(batch));
    }
    writes.iter().try_for_each(|write| match write {
        BatchWrite::Put(key, value) => store.put(key, value),
        BatchWrite::Delete(key) => store.delete(key),
    })
}

/// Values of one size, all different, cut out of one random stretch.
struct Values {
    random: Vec<u8>,
    bytes: usize,
}

impl Values {
    fn new(bytes: usize, seed: u64) -> Values {
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let random = (0..bytes + 4096).map(|_| next()).collect();
        Values { random, bytes }
    }

    fn of(&self, index: usize) -> &[u8] {
        let start = index % 4096;
        &self.random[start..start + self.bytes]
    }
}

/// The text of an error that refuses a write for its size. Any other error ends the measurement.
fn refusal(error: &StoreError) -> Option<String> {
    let error = error.source()?.downcast_ref::<evendb::Error>()?;
    let too_large = [ErrorKind::BatchTooLarge, ErrorKind::ValueTooLarge];
    too_large.contains(&error.kind()).then(|| error.to_string())
}

/// The figures of one run of one batch size, or of single puts.
fn run(
    arguments: &Arguments,
    store: &dyn Store,
    values: &Values,
    records: usize,
    batch: usize,
) -> StoreResult<Value> {
    let records = records.next_multiple_of(batch.max(1));
    // All runs use one list that is made before: the time to make it is not the store's.
    let keys: Vec<_> = (0..records).map(|index| arguments.key(index)).collect();
    let write = |(index, key)| BatchWrite::Put(key, values.of(index));
    let keys = keys.iter().map(|key| &key[..]);
    let writes: Vec<_> = keys.enumerate().map(write).collect();
    let cpu_before = cpu_seconds();
    let started = Instant::now();
    if let Err(error) = fill(store, &writes, batch) {
        let refused = refusal(&error).ok_or(error)?;
        return Ok(json!({ "refused": refused }));
    }
    let put_seconds = started.elapsed().as_secs_f64();
    store.settle_debt()?;
    let paid_seconds = started.elapsed().as_secs_f64();
    let cpu = cpu_seconds() - cpu_before;
    let figures: BTreeMap<&str, u64> = store
        .stats()
        .iter()
        .map(|figure| (figure.name, figure.value))
        .collect();
    let mut waited = BTreeMap::new();
    let mut longest = BTreeMap::new();
    for cause in CAUSES {
        let of = |what: &str| figures.get(&*format!("pause.{cause}_{what}")).copied();
        if let (Some(total), Some(max)) = (of("nanos_total"), of("nanos_max")) {
            waited.insert(cause, total as f64 / 1e9);
            longest.insert(cause, max as f64 / 1e9);
        }
    }
    Ok(json!({
        "records": records,
        PUT: records as f64 / put_seconds,
        PAID: records as f64 / paid_seconds,
        CPU: cpu * 1e6 / records as f64,
        "waited_seconds": waited,
        "longest_wait_seconds": longest,
    }))
}

/// A row of the table while it is measured.
struct RowRun<'a> {
    arguments: &'a Arguments,
    turn: Turn<'a>,
    row: Row,
    values: Values,
    records: usize,
    /// Runs of single puts, in order.
    single: Vec<Value>,
    /// Runs of batches: the size, the run of single puts before it, the figures.
    cells: Vec<Value>,
}

impl<'a> RowRun<'a> {
    fn new(arguments: &'a Arguments, turn: Turn<'a>, row: Row) -> Result<RowRun<'a>, Failure> {
        let mut run = RowRun {
            arguments,
            turn,
            row,
            values: Values::new(row.1, arguments.common.seed),
            records: 0,
            single: Vec::new(),
            cells: Vec::new(),
        };
        run.records =
            run.in_fresh_store(|store| Ok(arguments.records_of_row(store, &run.values)?))?;
        Ok(run)
    }

    fn in_fresh_store<T>(
        &self,
        run: impl FnOnce(&dyn Store) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let settings = Settings {
            memory_bytes: self.row.0 << 20,
            durability: Durability::Process,
        };
        // The run before removed its files, and the disk may not know of it yet.
        let directory = self.turn.directory;
        std::fs::create_dir_all(directory)?;
        rustix::fs::syncfs(std::fs::File::open(directory)?)?;
        self.turn.in_fresh_store(&settings, |store, _| run(store))
    }

    fn measured(&self, batch: usize) -> Result<Value, Failure> {
        self.in_fresh_store(|store| {
            Ok(run(
                self.arguments,
                store,
                &self.values,
                self.records,
                batch,
            )?)
        })
    }

    fn single(&mut self) -> Result<(), Failure> {
        self.single.push(self.measured(SINGLE)?);
        Ok(())
    }

    /// One run in batches, right after one of single puts. Another one of single puts must follow.
    fn cell(&mut self, batch: usize) -> Result<(), Failure> {
        let turn = self.single.len() - 1;
        let figures = self.measured(batch)?;
        self.cells
            .push(json!({ "batch": batch, "turn": turn, "figures": figures }));
        Ok(())
    }

    /// Batch sizes with a rate below the rule.
    fn below(&self) -> Vec<usize> {
        let is_below = |cell: &&Value| {
            let below =
                |name| share(&self.single, cell, name).is_some_and(|share| share < SHARE_MIN);
            below(PUT) || below(PAID)
        };
        let cells = self.cells.iter().filter(is_below);
        cells
            .filter_map(|cell| Some(cell["batch"].as_u64()? as usize))
            .collect()
    }

    fn figures(self) -> Value {
        json!({
            "memory_mib": self.row.0,
            "value_bytes": self.row.1,
            "single": self.single,
            "cells": self.cells,
        })
    }
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Value {
        json!({
            "memory_mib": self.memory_mib,
            "value_bytes": self.value_bytes,
            "batch": self.batch,
            "seconds": self.seconds(),
            "laps": self.laps,
            "minutes": self.minutes,
            "records": self.records,
            "in_order": self.in_order,
            "seed": self.common.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let started = Instant::now();
        let mut rows = Vec::new();
        for &memory_mib in &self.memory_mib {
            for &value_bytes in &self.value_bytes {
                let mut row = RowRun::new(self, turn, (memory_mib, value_bytes))?;
                row.single()?;
                for sizes in self.sizes().chunks(SIZES_BETWEEN) {
                    for &batch in sizes {
                        row.cell(batch)?;
                    }
                    row.single()?;
                }
                tell!(
                    "{memory_mib} MiB, values of {value_bytes} bytes: {} records a run",
                    row.records
                );
                rows.push(row);
            }
        }
        let below: Vec<Vec<usize>> = rows.iter().map(RowRun::below).collect();
        tell!(
            "{} cells are looked at again, up to {} times",
            below.iter().map(Vec::len).sum::<usize>(),
            self.laps
        );
        let is_over = || started.elapsed().as_secs_f64() > self.minutes * 60.0;
        'laps: for _ in 0..self.laps {
            for (row, sizes) in rows
                .iter_mut()
                .zip(&below)
                .filter(|(_, sizes)| !sizes.is_empty())
            {
                row.single()?;
                for &batch in sizes {
                    if is_over() {
                        break 'laps;
                    }
                    row.cell(batch)?;
                    row.single()?;
                }
            }
        }
        let rows: Vec<Value> = rows.into_iter().map(RowRun::figures).collect();
        Ok(json!({ "store": turn.opener.name(), "rows": rows }))
    }

    fn report(&self, results: &[Measured]) -> String {
        let mut stores: Vec<&str> = results.iter().map(|one| &*one.store).collect();
        stores.sort_unstable();
        stores.dedup();
        let report = |store: &&str| {
            let rounds = results.iter().filter(|one| one.store == **store);
            Report {
                arguments: self,
                rounds: rounds.map(|one| &one.figures).collect(),
            }
            .text(store)
        };
        stores.iter().map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::tests::parsed;

    #[test]
    fn keys_differ_and_values_have_their_size() {
        let arguments: Arguments = parsed(["batches"]);
        let keys: std::collections::HashSet<_> =
            (0..10_000).map(|index| arguments.key(index)).collect();
        assert_eq!(keys.len(), 10_000);
        let values = Values::new(10, 1);
        assert!((0..5000).all(|index| values.of(index).len() == 10));
        assert_ne!(values.of(0), values.of(1));
    }
}
