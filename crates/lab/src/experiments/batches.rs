//! Whether writes in batches are ever slower, record for record, than puts one by one.
//!
//! One thread fills a fresh store with records of 8-byte keys in random order: once with single puts,
//! once in batches of each size, for each size of values and each memory budget. All runs of a row
//! (one budget, one size of values) write the same records, so many that single puts are busy for
//! about `--seconds`, but at least one batch. Single puts and batches take turns: a batch size is compared with the runs of
//! single puts right before and after it, so that a machine that gets slower or faster in between
//! harms no side.
//!
//! Two rates. **Put**: records by the time until the last put returned. **Paid**: by the time until
//! everything put was checkpointed and all reorganisation that was owed is done, so that nothing is
//! borrowed. The rule: in both, a batch size reaches 0.95 of single puts. A batch that does not fit
//! the memory budget is refused by a typed error; its cell shows the refusal, which names the limit.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

use evendb::ErrorKind;
use serde_json::{Value, json};

use super::table::median;
use super::{Common, Failure, Measure, Measured};
use crate::opener::{Durability, Opener, Settings};
use crate::process::ProcessUsage;
use crate::store::{BatchWrite, Store, StoreError, StoreResult};

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
    /// Exactly so many records in each row
    #[arg(long)]
    records: Option<usize>,
    /// Keys in ascending order
    #[arg(long)]
    in_order: bool,
}

/// The least share of the rate of single puts.
const SHARE_MIN: f64 = 0.95;
/// Batch sizes between two runs of single puts.
const SIZES_BETWEEN: usize = 2;
/// Records that are prepared at once, at least.
const WINDOW_RECORDS: usize = 1000;
/// Why a put may be held up, as the store's figures name it.
const CAUSES: [&str; 5] = ["room", "pace", "debt", "chunk", "freeze"];

impl Arguments {
    fn seconds(&self) -> f64 {
        if self.common.quick { 0.1 } else { self.seconds }
    }

    /// The largest batch size of which single puts write one.
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

    /// Single puts until `seconds` are over: how many records a row has.
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
        // Whole batches of these sizes, so that all write the same.
        Ok(records.next_multiple_of(self.largest_batch_within(records)))
    }

    fn fill(
        &self,
        store: &dyn Store,
        values: &Values,
        records: usize,
        batch: usize,
    ) -> StoreResult<()> {
        if batch == 0 {
            for index in 0..records {
                store.put(&self.key(index), values.of(index))?;
            }
            return Ok(());
        }
        // Lists of many batches at once: what making one costs is not the store's.
        let window = WINDOW_RECORDS.next_multiple_of(batch);
        for first in (0..records).step_by(window) {
            let indexes = first..(first + window).min(records);
            let keys: Vec<_> = indexes.clone().map(|index| self.key(index)).collect();
            let write = |(key, index)| BatchWrite::Put(key, values.of(index));
            let keys = keys.iter().map(|key| &key[..]);
            let writes: Vec<_> = keys.zip(indexes).map(write).collect();
            for batch in writes.chunks(batch) {
                store.batch(batch)?;
            }
        }
        Ok(())
    }
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

/// The text of an error that refuses a write for its size; any other ends the measurement.
fn refusal(error: &StoreError) -> Option<String> {
    let error = error.source()?.downcast_ref::<evendb::Error>()?;
    let too_large = [ErrorKind::BatchTooLarge, ErrorKind::ValueTooLarge];
    too_large.contains(&error.kind()).then(|| error.to_string())
}

/// What one run of one batch size found; size 0 for single puts.
fn run(
    arguments: &Arguments,
    store: &dyn Store,
    values: &Values,
    records: usize,
    batch: usize,
) -> StoreResult<Value> {
    let records = records.next_multiple_of(batch.max(1));
    let before = ProcessUsage::now();
    let started = Instant::now();
    if let Err(error) = arguments.fill(store, values, records, batch) {
        let refused = refusal(&error).ok_or(error)?;
        return Ok(json!({ "refused": refused }));
    }
    let put_seconds = started.elapsed().as_secs_f64();
    store.settle_debt()?;
    let paid_seconds = started.elapsed().as_secs_f64();
    let after = ProcessUsage::now();
    let cpu = before
        .zip(after)
        .map(|(before, after)| after.since(&before).cpu_seconds());
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
        "put_per_second": records as f64 / put_seconds,
        "paid_per_second": records as f64 / paid_seconds,
        "cpu_micros": cpu.map(|seconds| seconds * 1e6 / records as f64),
        "waited_seconds": waited,
        "longest_wait_seconds": longest,
    }))
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
            "records": self.records,
            "in_order": self.in_order,
            "seed": self.common.seed,
        })
    }

    fn measure(
        &self,
        opener: &dyn Opener,
        directory: &Path,
        round: usize,
    ) -> Result<Value, Failure> {
        let mut rows = Vec::new();
        for &memory_mib in &self.memory_mib {
            for &value_bytes in &self.value_bytes {
                let values = Values::new(value_bytes, self.common.seed);
                let settings = Settings {
                    memory_bytes: memory_mib << 20,
                    durability: Durability::Process,
                };
                let fresh = |run: &dyn Fn(&dyn Store) -> Result<Value, Failure>| {
                    super::in_fresh_store(opener, directory, round, &settings, |store, _| {
                        run(store)
                    })
                };
                let count = |store: &dyn Store| Ok(json!(self.records_of_row(store, &values)?));
                let records = fresh(&count)?.as_u64().unwrap_or(1) as usize;
                let measured =
                    |batch: usize| fresh(&|store| Ok(run(self, store, &values, records, batch)?));
                let mut single = vec![measured(0)?];
                let mut cells = Vec::new();
                for sizes in self.batch.chunks(SIZES_BETWEEN) {
                    for &batch in sizes {
                        let turn = single.len() - 1;
                        let figures = measured(batch)?;
                        cells.push(json!({ "batch": batch, "turn": turn, "figures": figures }));
                    }
                    single.push(measured(0)?);
                }
                eprintln!(
                    "{memory_mib} MiB, values of {value_bytes} bytes: {records} records a run"
                );
                rows.push(json!({
                    "memory_mib": memory_mib,
                    "value_bytes": value_bytes,
                    "single": single,
                    "cells": cells,
                }));
            }
        }
        Ok(json!({ "store": opener.name(), "rows": rows }))
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

/// A row: budget in MiB, bytes of a value.
type Row = (u64, usize);

/// All rounds of one store.
struct Report<'a> {
    arguments: &'a Arguments,
    rounds: Vec<&'a Value>,
}

/// A batch size of a row, medians of the rounds.
enum Cell {
    Measured { put: f64, paid: f64 },
    Refused(String),
    Missing,
}

impl Report<'_> {
    fn rows(&self) -> Vec<Row> {
        let budgets = self.arguments.memory_mib.iter();
        budgets
            .flat_map(|&mib| {
                self.arguments
                    .value_bytes
                    .iter()
                    .map(move |&bytes| (mib, bytes))
            })
            .collect()
    }

    /// What each round found of a row.
    fn of_row(&self, row: Row) -> Vec<&Value> {
        let is_row = |found: &&Value| {
            found["memory_mib"].as_u64() == Some(row.0)
                && found["value_bytes"].as_u64() == Some(row.1 as u64)
        };
        let find = |round: &&'_ Value| -> Option<usize> {
            round["rows"]
                .as_array()?
                .iter()
                .position(|found| is_row(&found))
        };
        let mut found = Vec::new();
        for round in &self.rounds {
            if let Some(at) = find(round) {
                found.push(&round["rows"][at]);
            }
        }
        found
    }

    fn cell(&self, row: Row, batch: usize) -> Cell {
        let (mut put, mut paid) = (Vec::new(), Vec::new());
        for found in self.of_row(row) {
            let Some(cell) = find_cell(found, batch) else {
                continue;
            };
            if let Some(refused) = cell["figures"]["refused"].as_str() {
                return Cell::Refused(refused.to_owned());
            }
            put.extend(share(found, cell, "put_per_second"));
            paid.extend(share(found, cell, "paid_per_second"));
        }
        match put.is_empty() {
            true => Cell::Missing,
            false => Cell::Measured {
                put: median(put),
                paid: median(paid),
            },
        }
    }

    /// The median over the rounds of a figure of single puts (`batch` 0) or of a batch size.
    fn figure(&self, row: Row, batch: usize, get: &dyn Fn(&Value) -> Option<f64>) -> f64 {
        let mut all = Vec::new();
        for found in self.of_row(row) {
            match batch {
                0 => all.extend(
                    found["single"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(get),
                ),
                _ => all.extend(find_cell(found, batch).and_then(|cell| get(&cell["figures"]))),
            }
        }
        median(all)
    }

    fn text(&self, store: &str) -> String {
        let rate = |name: &'static str| {
            move |report: &Report<'_>, row, batch| {
                let rate = report.figure(row, batch, &|run| run[name].as_f64());
                thousands(rate)
            }
        };
        let waits = |report: &Report<'_>, row, batch| report.waits(row, batch);
        let cpu = |report: &Report<'_>, row, batch| {
            let micros = report.figure(row, batch, &|run| run["cpu_micros"].as_f64());
            if micros.is_nan() {
                String::new()
            } else {
                format!("{micros:.2}")
            }
        };
        let mut text = format!("# {store}\n\n");
        text += &self.shares();
        text += &self.table(
            "Thousand records a second until the last put returned",
            &rate("put_per_second"),
        );
        text += &self.table(
            "Thousand records a second with all debt paid",
            &rate("paid_per_second"),
        );
        text += &self.table("Microseconds of CPU a record, debt included", &cpu);
        text += &self.table("Seconds waited, by cause (longest)", &waits);
        text
    }

    /// The rule, cell by cell, and its outcome.
    fn shares(&self) -> String {
        let mut refusals = Vec::new();
        let mut failed = Vec::new();
        let mut logs: BTreeMap<usize, (f64, f64, u32)> = BTreeMap::new();
        let mut measured = 0;
        let mut text = String::from(
            "Share of the rate of single puts: until the last put returned / with all debt paid.\n\n",
        );
        text += &heading(&self.arguments.batch, None);
        for row in self.rows() {
            text += &row_head(row);
            for &batch in &self.arguments.batch {
                let shown = match self.cell(row, batch) {
                    Cell::Measured { put, paid } => {
                        measured += 1;
                        let sums = logs.entry(batch).or_default();
                        *sums = (sums.0 + put.ln(), sums.1 + paid.ln(), sums.2 + 1);
                        let short = put.min(paid) < SHARE_MIN;
                        if short {
                            failed.push(format!(
                                "{} MiB, values of {} bytes, batches of {batch}",
                                row.0, row.1
                            ));
                        }
                        let mark = if short { "**" } else { "" };
                        format!("{mark}{put:.2} / {paid:.2}{mark}")
                    }
                    Cell::Refused(refusal) => {
                        refusals.push((row, batch, refusal));
                        format!("refused ({})", refusals.len())
                    }
                    Cell::Missing => String::new(),
                };
                text += &format!(" {shown} |");
            }
            text.push('\n');
        }
        text += "| geometric mean | |";
        for batch in &self.arguments.batch {
            let (put, paid, count) = logs.get(batch).copied().unwrap_or_default();
            let mean = |sum: f64| (sum / f64::from(count.max(1))).exp();
            text += &format!(" {:.2} / {:.2} |", mean(put), mean(paid));
        }
        text += "\n\n";
        for (number, (row, batch, refusal)) in refusals.iter().enumerate() {
            let number = number + 1;
            text += &format!(
                "({number}) {} MiB, values of {} bytes, batches of {batch}: {refusal}\n",
                row.0, row.1
            );
        }
        let verdict = match failed.is_empty() {
            true => "PASS",
            false => "FAIL",
        };
        text += &format!(
            "\n{verdict}: {} of {measured} cells reach {SHARE_MIN} of single puts in both rates; {} are refused by a \
             typed error.\n",
            measured - failed.len(),
            refusals.len()
        );
        for cell in failed {
            text += &format!("below: {cell}\n");
        }
        text.push('\n');
        text
    }

    fn table(&self, title: &str, show: &dyn Fn(&Report<'_>, Row, usize) -> String) -> String {
        let mut text = format!(
            "{title}:\n\n{}",
            heading(&self.arguments.batch, Some("single"))
        );
        for row in self.rows() {
            text += &row_head(row);
            for batch in std::iter::once(&0).chain(&self.arguments.batch) {
                text += &format!(" {} |", show(self, row, *batch));
            }
            text.push('\n');
        }
        text.push('\n');
        text
    }

    fn waits(&self, row: Row, batch: usize) -> String {
        let mut shown = Vec::new();
        for cause in CAUSES {
            let of =
                |name: &'static str| self.figure(row, batch, &move |run| run[name][cause].as_f64());
            let (total, longest) = (of("waited_seconds"), of("longest_wait_seconds"));
            if total >= 0.005 {
                shown.push(format!("{cause} {total:.2} ({longest:.3})"));
            }
        }
        shown.join(", ")
    }
}

fn find_cell(row: &Value, batch: usize) -> Option<&Value> {
    let is_batch = |cell: &&Value| cell["batch"].as_u64() == Some(batch as u64);
    row["cells"].as_array()?.iter().find(is_batch)
}

/// The cell's rate by that of single puts before and after it.
fn share(row: &Value, cell: &Value, name: &str) -> Option<f64> {
    let turn = cell["turn"].as_u64()? as usize;
    let single = |turn: usize| row["single"][turn][name].as_f64();
    let around = (single(turn)? * single(turn + 1)?).sqrt();
    Some(cell["figures"][name].as_f64()? / around)
}

fn thousands(rate: f64) -> String {
    match rate {
        rate if rate.is_nan() => String::new(),
        rate if rate < 1e4 => format!("{:.1}", rate / 1e3),
        rate => format!("{:.0}", rate / 1e3),
    }
}

fn heading(batches: &[usize], first: Option<&str>) -> String {
    let mut text = "| budget MiB | value bytes |".to_owned();
    let mut line = "|---:|---:|".to_owned();
    let sizes = batches.iter().map(usize::to_string);
    for column in first.map(str::to_owned).into_iter().chain(sizes) {
        text += &format!(" {column} |");
        line += "---:|";
    }
    format!("{text}\n{line}\n")
}

fn row_head(row: Row) -> String {
    format!("| {} | {} |", row.0, row.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn rate(per_second: f64) -> Value {
        json!({ "put_per_second": per_second, "paid_per_second": per_second / 2.0 })
    }

    #[test]
    fn a_cell_is_compared_with_the_single_puts_around_it_and_the_rule_is_told() {
        let words = [
            "batches",
            "--batch",
            "2,10,50",
            "--memory-mib",
            "64",
            "--value-bytes",
            "1",
        ];
        let arguments = Command::parse_from(words).arguments;
        let cell = |batch: u64, turn: u64, figures: Value| json!({ "batch": batch, "turn": turn, "figures": figures });
        let figures = json!({ "rows": [{
            "memory_mib": 64,
            "value_bytes": 1,
            "single": [rate(100.0), rate(100.0), rate(400.0)],
            "cells": [
                cell(2, 0, rate(120.0)),
                cell(10, 1, rate(180.0)),
                cell(50, 1, json!({ "refused": "too large, 9 is the limit" })),
            ],
        }] });
        let measured = Measured {
            store: "evendb".to_owned(),
            round: 0,
            figures,
        };
        let report = arguments.report(&[measured]);
        assert!(
            report.contains("| 64 | 1 | 1.20 / 1.20 | **0.90 / 0.90** | refused (1) |"),
            "{report}"
        );
        assert!(report.contains("FAIL: 1 of 2 cells"), "{report}");
        assert!(report.contains("too large, 9 is the limit"), "{report}");
    }

    #[test]
    fn keys_differ_and_values_have_their_size() {
        let arguments = Command::parse_from(["batches"]).arguments;
        let keys: std::collections::HashSet<_> =
            (0..10_000).map(|index| arguments.key(index)).collect();
        assert_eq!(keys.len(), 10_000);
        let values = Values::new(10, 1);
        assert!((0..5000).all(|index| values.of(index).len() == 10));
        assert_ne!(values.of(0), values.of(1));
    }
}
