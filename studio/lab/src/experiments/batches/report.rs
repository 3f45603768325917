//! The tables of [`super`], and the outcome of its rule. A cell is the median of all its shares, of
//! all rounds.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::table::median;
use super::{Arguments, CAUSES, CPU, PAID, PUT, Row, SHARE_MIN, SINGLE};

/// All rounds of one store.
pub(super) struct Report<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) rounds: Vec<&'a Value>,
}

/// A batch size of a row: medians over the rounds.
enum Cell {
    Measured(Shares),
    Refused(String),
    Missing,
}

/// The figures of a batch size as shares of single puts. A share of processor time below one means
/// that it needs more.
struct Shares {
    put: f64,
    paid: f64,
    cpu: f64,
    /// The number of runs behind these medians.
    runs: usize,
}

impl std::fmt::Display for Shares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} / {:.2} / {:.2}", self.put, self.paid, self.cpu)
    }
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

    /// The figures of a row in each round.
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
        let (mut put, mut paid, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
        for found in self.of_row(row) {
            let Some(single) = found["single"].as_array() else {
                continue;
            };
            for cell in cells_of(found, batch) {
                if let Some(refused) = cell["figures"]["refused"].as_str() {
                    return Cell::Refused(refused.to_owned());
                }
                put.extend(share(single, cell, PUT));
                paid.extend(share(single, cell, PAID));
                cpu.extend(share(single, cell, CPU).map(f64::recip));
            }
        }
        match put.is_empty() {
            true => Cell::Missing,
            false => Cell::Measured(Shares {
                runs: put.len(),
                put: median(put),
                paid: median(paid),
                cpu: median(cpu),
            }),
        }
    }

    /// The median over the rounds of a figure of single puts or of a batch size.
    fn figure(&self, row: Row, batch: usize, get: &dyn Fn(&Value) -> Option<f64>) -> f64 {
        let mut all = Vec::new();
        for found in self.of_row(row) {
            match batch {
                SINGLE => all.extend(
                    found["single"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(get),
                ),
                _ => all.extend(cells_of(found, batch).filter_map(|cell| get(&cell["figures"]))),
            }
        }
        median(all)
    }

    /// All tables, and whether the rule holds.
    pub(super) fn text(&self, store: &str) -> String {
        let rate = |name: &'static str| {
            move |report: &Report<'_>, row, batch| {
                let rate = report.figure(row, batch, &|run| run[name].as_f64());
                thousands(rate)
            }
        };
        let waits = |report: &Report<'_>, row, batch| report.waits(row, batch);
        let cpu = |report: &Report<'_>, row, batch| {
            let micros = report.figure(row, batch, &|run| run[CPU].as_f64());
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
            &rate(PUT),
        );
        text += &self.table("Thousand records a second with all debt paid", &rate(PAID));
        text += &self.table("Microseconds of CPU a record, debt included", &cpu);
        text += &self.table("Seconds waited, by cause (longest)", &waits);
        text
    }

    /// The rule, cell by cell, and its outcome.
    fn shares(&self) -> String {
        let mut outcome = Outcome::default();
        let mut text = String::from(
            "Share of single puts: of their rate until the last put returned / with all debt paid / of their \
             processor time.\n\n",
        );
        let sizes = self.arguments.sizes();
        text += &heading(&sizes, "puts");
        for row in self.rows() {
            text += &row_head(row);
            for &batch in &sizes {
                let what = match batch {
                    SINGLE => "single puts".to_owned(),
                    batch => format!("batches of {batch}"),
                };
                let name = format!("{} MiB, values of {} bytes, {what}", row.0, row.1);
                let cell = self.cell(row, batch);
                text += &format!(" {} |", outcome.take(&cell, batch, &name));
            }
            text.push('\n');
        }
        text += "| geometric mean | |";
        for batch in &sizes {
            let (logs, count) = outcome.logs.get(batch).copied().unwrap_or_default();
            let mean = logs.map(|sum| (sum / f64::from(count.max(1))).exp());
            text += &format!(" {:.2} / {:.2} / {:.2} |", mean[0], mean[1], mean[2]);
        }
        text + "\n\n" + &outcome.told()
    }

    fn table(&self, title: &str, show: &dyn Fn(&Report<'_>, Row, usize) -> String) -> String {
        let sizes = self.arguments.sizes();
        let mut text = format!("{title}:\n\n{}", heading(&sizes, "single"));
        for row in self.rows() {
            text += &row_head(row);
            for &batch in &sizes {
                text += &format!(" {} |", show(self, row, batch));
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

/// What the cells up to now add up to.
#[derive(Default)]
struct Outcome {
    measured: usize,
    /// Single puts in the place of a batch, cell by cell.
    noise: Vec<[f64; 3]>,
    refusals: Vec<String>,
    /// Cells that are below the rule in a rate, and cells that are below it in processor time.
    slow: Vec<String>,
    dear: Vec<String>,
    /// By batch size: sums of logarithms, and the number of cells.
    logs: BTreeMap<usize, ([f64; 3], u32)>,
}

impl Outcome {
    /// Counts a cell, and returns the text for the table.
    fn take(&mut self, cell: &Cell, batch: usize, name: &str) -> String {
        let shares = match cell {
            Cell::Measured(shares) => shares,
            Cell::Refused(refusal) => {
                self.refusals.push(format!("{name}: {refusal}"));
                return format!("refused ({})", self.refusals.len());
            }
            Cell::Missing => return String::new(),
        };
        let each = [shares.put, shares.paid, shares.cpu];
        let (sums, count) = self.logs.entry(batch).or_default();
        *count += 1;
        for (sum, share) in sums.iter_mut().zip(each) {
            *sum += share.ln();
        }
        let is_slow = shares.put.min(shares.paid) < SHARE_MIN;
        let shown = match is_slow {
            true => format!("**{shares}**"),
            false => shares.to_string(),
        };
        if batch == SINGLE {
            self.noise.push(each);
            return shown;
        }
        self.measured += 1;
        let told = format!("{name}: {shares}, medians of {}", shares.runs);
        if shares.cpu < SHARE_MIN {
            self.dear.push(told.clone());
        }
        if is_slow {
            self.slow.push(told);
        }
        shown
    }

    /// How far single puts differ from themselves.
    fn noise_told(&self) -> String {
        if self.noise.is_empty() {
            return String::new();
        }
        let reach = |of: &[usize]| {
            let cells = self.noise.iter();
            cells
                .filter(|cell| of.iter().all(|&which| cell[which] >= SHARE_MIN))
                .count()
        };
        let spread = [0, 1, 2].map(|which| {
            let each = || self.noise.iter().map(move |cell| cell[which]);
            let (low, high) = (
                each().fold(f64::MAX, f64::min),
                each().fold(f64::MIN, f64::max),
            );
            let off = median(each().map(|share| share.ln().abs()).collect());
            format!(
                "{low:.2} to {high:.2} (half of them within {:.0} %)",
                100.0 * off
            )
        });
        format!(
            "Noise: of single puts in the place of a batch {} of {} cells reach {SHARE_MIN} in both rates, {} in \
             processor time; they lie at {}.\n",
            reach(&[0, 1]),
            self.noise.len(),
            reach(&[2]),
            spread.join(" / "),
        )
    }

    fn told(&self) -> String {
        let mut text = String::new();
        for (number, refusal) in self.refusals.iter().enumerate() {
            text += &format!("({}) {refusal}\n", number + 1);
        }
        let verdict = match self.slow.is_empty() {
            true => "PASS",
            false => "FAIL",
        };
        text += &format!(
            "\n{verdict}: {} of {} cells reach {SHARE_MIN} of single puts in both rates, {} in processor time; {} are \
             refused by a typed error.\n",
            self.measured - self.slow.len(),
            self.measured,
            self.measured - self.dear.len(),
            self.refusals.len()
        );
        text += &self.noise_told();
        for cell in &self.slow {
            text += &format!("below: {cell}\n");
        }
        for cell in &self.dear {
            text += &format!("more processor time: {cell}\n");
        }
        text + "\n"
    }
}

fn cells_of(row: &Value, batch: usize) -> impl Iterator<Item = &Value> {
    let cells = row["cells"].as_array().into_iter().flatten();
    cells.filter(move |cell| cell["batch"].as_u64() == Some(batch as u64))
}

/// The cell's figure divided by that of the single puts before and after it.
pub(super) fn share(single: &[Value], cell: &Value, name: &str) -> Option<f64> {
    let turn = cell["turn"].as_u64()? as usize;
    let single = |turn: usize| single.get(turn)?[name].as_f64();
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

/// The head of a table of `sizes`, in which single puts are called `single`.
fn heading(sizes: &[usize], single: &str) -> String {
    let mut text = "| budget MiB | value bytes |".to_owned();
    let mut line = "|---:|---:|".to_owned();
    for &size in sizes {
        match size {
            SINGLE => text += &format!(" {single} |"),
            size => text += &format!(" {size} |"),
        }
        line += "---:|";
    }
    format!("{text}\n{line}\n")
}

fn row_head(row: Row) -> String {
    format!("| {} | {} |", row.0, row.1)
}

#[cfg(test)]
mod tests {
    use super::super::super::{Measure, Measured};
    use super::*;
    use crate::experiments::tests::parsed;
    use serde_json::json;

    fn rate(per_second: f64) -> Value {
        json!({ PUT: per_second, PAID: per_second / 2.0, CPU: 1e5 / per_second })
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
        let arguments: Arguments = parsed(words);
        let cell = |batch: u64, turn: u64, figures: Value| json!({ "batch": batch, "turn": turn, "figures": figures });
        let figures = json!({ "rows": [{
            "memory_mib": 64,
            "value_bytes": 1,
            "single": [rate(100.0), rate(100.0), rate(400.0), rate(100.0), rate(100.0)],
            "cells": [
                // Single puts beside themselves: this is noise and no verdict.
                cell(0, 0, rate(90.0)),
                cell(2, 0, rate(120.0)),
                cell(10, 1, rate(180.0)),
                cell(50, 1, json!({ "refused": "too large, 9 is the limit" })),
                // Measured again, twice.
                cell(10, 3, rate(94.0)),
                cell(10, 3, rate(80.0)),
            ],
        }] });
        let measured = Measured {
            store: "evendb".to_owned(),
            round: 0,
            figures,
        };
        let report = arguments.report(&[measured]);
        assert!(
            report
                .contains("| 64 | 1 | **0.90 / 0.90 / 0.90** | 1.20 / 1.20 / 1.20 | **0.90 / 0.90 / 0.90** | refused (1) |"),
            "{report}"
        );
        let noise = "Noise: of single puts in the place of a batch 0 of 1 cells reach 0.95 in both rates, 0 in \
                     processor time; they lie at 0.90 to 0.90 (half of them within 11 %)";
        assert!(report.contains(noise), "{report}");
        assert!(report.contains("FAIL: 1 of 2 cells"), "{report}");
        let below =
            "below: 64 MiB, values of 1 bytes, batches of 10: 0.90 / 0.90 / 0.90, medians of 3";
        assert!(report.contains(below), "{report}");
        assert!(report.contains("too large, 9 is the limit"), "{report}");
    }
}
