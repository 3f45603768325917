//! Whether EvenDB puts faster with half the memory budget. It never should: if it does, the other
//! half costs more than it brings.
//!
//! Both budgets are measured in turns, as two stores (`--stores evendb,evendb-half-memory`), under
//! the same limit from outside. **The rule**: the half is faster by more than the scatter if the
//! slowest of its rounds is faster than the fastest with the whole budget, with at least two rounds
//! each. With three rounds each, this happens for two equal stores in one of twenty comparisons.

use super::quantity::{Quantity, figure};
use super::run_results::{CellResults, RunResults};
use super::stores;
use super::tables::times;
use crate::experiments::markdown::{Entry, Page, Table, words};

/// How the rounds with half the budget compare with the rounds with the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    NotFaster,
    /// The median is faster, but single rounds overlap.
    WithinScatter,
    /// Faster, but one of them has one round only.
    OneRound,
    Faster,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Verdict::NotFaster => "not faster",
            Verdict::WithinScatter => "faster, within the scatter",
            Verdict::OneRound => "faster, but one round shows no scatter",
            Verdict::Faster => "FASTER by more than the scatter",
        }
    }
}

/// Judges rounds; neither may be empty.
fn verdict(half: &[f64], whole: &[f64]) -> Verdict {
    let least = |rounds: &[f64]| rounds.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |rounds: &[f64]| rounds.iter().copied().fold(0.0, f64::max);
    let median = |rounds: &[f64]| crate::experiments::table::median(rounds.to_vec());
    if median(half) <= median(whole) {
        Verdict::NotFaster
    } else if half.len().min(whole.len()) < 2 {
        Verdict::OneRound
    } else if least(half) > most(whole) {
        Verdict::Faster
    } else {
        Verdict::WithinScatter
    }
}

/// A cell of puts alone at both budgets.
struct Comparison<'a> {
    cell: &'a CellResults,
    quantity: Quantity,
    half: Vec<f64>,
    whole: Vec<f64>,
}

impl Comparison<'_> {
    fn verdict(&self) -> Verdict {
        verdict(&self.half, &self.whole)
    }

    /// The medians: half, whole.
    fn medians(&self) -> [f64; 2] {
        [&self.half, &self.whole].map(|rounds| crate::experiments::table::median(rounds.clone()))
    }

    fn row(&self) -> Vec<Entry> {
        let [half, whole] = self.medians();
        let rounds = |rounds: &[f64]| -> Entry {
            let shown: Vec<String> = rounds
                .iter()
                .map(|rate| self.quantity.show(*rate))
                .collect();
            shown.join("; ").into()
        };
        vec![
            self.cell.label().into(),
            self.quantity.name().into(),
            rounds(&self.whole),
            rounds(&self.half),
            match whole > 0.0 {
                true => times(half / whole).into(),
                false => "-".into(),
            },
            self.verdict().name().into(),
        ]
    }

    fn told(&self) -> String {
        let [half, whole] = self.medians().map(|rate| figure(rate / 1e3));
        let quantity = self.quantity.name();
        format!("{}, {half} against {whole} {quantity}", self.cell.label())
    }
}

/// The cells of puts alone that were measured at both budgets, each with the rates that it has.
fn comparisons(results: &RunResults) -> Vec<Comparison<'_>> {
    let puts = |cell: &&CellResults| ["P", "load", "ingest"].contains(&cell.mix.as_str());
    let mut found = Vec::new();
    for cell in results.cells.iter().filter(puts) {
        for quantity in [Quantity::RateWithDebt, Quantity::RateWithoutDebt] {
            if quantity == Quantity::RateWithoutDebt && !cell.had_debt() {
                continue;
            }
            let rounds = |store: &str| -> Vec<f64> {
                let one = cell.stores.iter().find(|one| one.store == store);
                let lines = one.into_iter().flat_map(|one| one.measured());
                lines.filter_map(|line| quantity.of(line)).collect()
            };
            let (half, whole) = (rounds(stores::HALF_MEMORY), rounds(stores::OWN));
            if !half.is_empty() && !whole.is_empty() {
                found.push(Comparison {
                    cell,
                    quantity,
                    half,
                    whole,
                });
            }
        }
    }
    found
}

/// What the comparisons show, in sentences. Empty if there are no comparisons.
pub fn summary(results: &RunResults) -> Vec<String> {
    let all = comparisons(results);
    if all.is_empty() {
        return Vec::new();
    }
    let with = |wanted: Verdict| all.iter().filter(move |one| one.verdict() == wanted);
    let mut sentences = vec![match with(Verdict::Faster).count() {
        0 => format!(
            "Half the memory budget: in none of {} comparisons are puts faster than with all of it by \
             more than the scatter.",
            all.len()
        ),
        faster => {
            let told: Vec<String> = with(Verdict::Faster).map(Comparison::told).collect();
            format!(
                "Half the memory budget: in {faster} of {} comparisons puts are FASTER than with all of \
                 it by more than the scatter, which must never be: {}.",
                all.len(),
                told.join("; ")
            )
        }
    }];
    let open = with(Verdict::OneRound).count();
    if open > 0 {
        sentences.push(format!(
            "In {open} more the half is faster, and one round does not say by how much rounds differ: \
             measure with --rounds 3."
        ));
    }
    sentences
}

/// Adds a section, if anything was measured at both budgets.
pub fn add(page: &mut Page, results: &RunResults) {
    let rows: Vec<Vec<Entry>> = comparisons(results).iter().map(Comparison::row).collect();
    if rows.is_empty() {
        return;
    }
    page.heading(2, "Half the memory: puts must not be faster");
    page.paragraph(
        "EvenDB with its memory budget and with half of it, in turns, under the same limit on the \
         memory of process and page cache. Faster by more than the scatter: in every round faster than \
         in any with the whole budget.",
    );
    page.table(&Table {
        caption: "Rounds of puts alone at both budgets".to_owned(),
        heading: words([
            "workload",
            "rate",
            "whole budget",
            "half",
            "half / whole",
            "the half is",
        ]),
        rows,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::paper::report::tests as fixture;
    use serde_json::json;

    #[test]
    fn only_rounds_that_do_not_overlap_are_faster() {
        let whole = [70.0, 74.0, 71.0];
        assert_eq!(verdict(&[60.0, 65.0, 66.0], &whole), Verdict::NotFaster);
        assert_eq!(verdict(&whole, &whole), Verdict::NotFaster);
        assert_eq!(verdict(&[69.0, 75.0, 80.0], &whole), Verdict::WithinScatter);
        assert_eq!(verdict(&[74.0, 75.0, 80.0], &whole), Verdict::WithinScatter);
        assert_eq!(verdict(&[74.1, 75.0, 80.0], &whole), Verdict::Faster);
        // One slow round of the whole budget alone proves nothing.
        assert_eq!(
            verdict(&[72.0, 73.0, 73.0], &[30.0, 74.0, 71.0]),
            Verdict::WithinScatter
        );
        assert_eq!(verdict(&[90.0], &whole), Verdict::OneRound);
        assert_eq!(verdict(&[60.0], &[70.0]), Verdict::NotFaster);
    }

    fn results(half: [f64; 2], settling: f64) -> RunResults {
        let line = |name: &str, store: &str, round: u64, rate: f64| {
            let phase = json!({
                "operations_per_second": rate, "seconds": 60, "settle_seconds": settling,
            });
            fixture::line("figure-6", name, store, round, phase).to_string()
        };
        let mut lines = Vec::new();
        for (round, half) in (0..).zip(half) {
            for cell in ["P/uniform/4GiB", "C/uniform/4GiB"] {
                lines.push(line(cell, stores::HALF_MEMORY, round, half));
                lines.push(line(cell, stores::OWN, round, 33e3 + round as f64));
                lines.push(line(cell, "rocksdb", round, 77e3));
            }
        }
        RunResults::parse(lines.join("\n").as_bytes()).unwrap()
    }

    fn section(results: &RunResults) -> String {
        let mut page = Page::default();
        add(&mut page, results);
        page.into_text()
    }

    #[test]
    fn a_half_that_is_faster_is_told_plainly() {
        let faster = results([73e3, 74e3], 0.0);
        let told = summary(&faster);
        let words = "in 1 of 1 comparisons puts are FASTER than with all of it by more than the scatter, \
                     which must never be: P uniform, 4 GiB, 73.5 against 33.0 kop/s.";
        assert!(told.len() == 1 && told[0].ends_with(words), "{told:?}");
        let text = section(&faster);
        let row =
            "| P uniform, 4 GiB | kop/s | 33.0; 33.0 | 73.0; 74.0 | 2.23x | FASTER by more than";
        assert!(text.contains(row), "{text}");
        assert!(!text.contains("C uniform"), "only puts alone: {text}");

        // With a debt, both rates are compared.
        let slower = results([30e3, 31e3], 20.0);
        let told = summary(&slower);
        assert!(
            told.len() == 1 && told[0].contains("in none of 2 comparisons"),
            "{told:?}"
        );
        let row = "| P uniform, 4 GiB | kop/s without debt | 33.0; 33.0 | 30.0; 31.0 | 0.92x | not faster |";
        assert!(section(&slower).contains(row), "{}", section(&slower));
    }

    #[test]
    fn without_the_half_nothing_is_said() {
        let lines = fixture::line("figure-6", "P/uniform/1GiB", "evendb", 0, json!({}));
        let results = RunResults::parse(lines.to_string().as_bytes()).unwrap();
        assert!(summary(&results).is_empty() && section(&results).is_empty());
    }
}
