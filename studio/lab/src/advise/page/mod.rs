//! The advice as a document of figures, and as a few sentences.
//!
//! ```text
//!   figure      rows
//!   advice      each advised setting: setting, value, what it does
//!   load        what, value
//!   candidates  settings, stage, times_default, lowest, highest, per_second, p99_nanos,
//!               disk_bytes, why
//!   runs        stage, round, settings, operations, seconds, per_second, bytes_written,
//!               differences
//!   budgets     memory_bytes, per_second, lowest, highest, runs, p99_nanos, disk_bytes, note
//!   peers       store, times_evendb, per_second, lowest, highest, runs, p99_nanos, disk_bytes,
//!               note
//!   misses      grain, bytes, miss_ratio: of the analysis, if one was given
//! ```

mod figures;
mod said;

use evendb_report::{Document, Summary, Unit, number_shown};

use super::Advice;
use super::beside::Beside;
use super::candidates::DEFAULT;
use super::halving::median;
use super::runs::limit_of;
use super::words;
use crate::readable::bytes;
use figures::{
    advised, budgets_figure, candidates_figure, load_figure, misses_figure, peers_figure,
    runs_figure,
};
pub(super) use said::sentences;

/// Facts that a later command reads.
pub(super) const FACT_OPERATIONS: &str = "operations used";
pub(super) const FACT_SETTINGS: &str = "advised settings";
pub(super) const FACT_AGED: &str = "written over before measuring, at most";

/// The whole page.
pub(super) fn document(advice: &Advice, facts: Vec<(String, String)>) -> Document {
    let mut document = Document::new("Advice for a load");
    document.summary = summary(advice);
    document.facts = facts;
    let settings = match advice.tuning() {
        tuning if tuning.is_empty() => DEFAULT.to_owned(),
        tuning => tuning.to_string(),
    };
    document.facts.push((FACT_SETTINGS.to_owned(), settings));
    let aged = bytes(advice.age_bytes);
    document.facts.push((FACT_AGED.to_owned(), aged));
    let mut unlimited = advice.runs.iter().filter_map(|run| {
        let measured = run.outcome.as_ref().ok()?;
        measured.unlimited.clone()
    });
    let limit = unlimited.next().map_or_else(
        || {
            format!(
                "{} for process and page cache",
                bytes(limit_of(advice.memory_bytes))
            )
        },
        |why| format!("none, so the system's cache helps every budget: {why}"),
    );
    document.facts.push(("limit of memory".to_owned(), limit));
    document.figures = vec![
        advised(advice),
        load_figure(advice),
        candidates_figure(advice),
    ];
    if !advice.budgets.is_empty() {
        document.figures.push(budgets_figure(advice));
    }
    if advice.peers_were_asked {
        document.figures.push(peers_figure(advice));
    }
    if !advice.misses.is_empty() {
        document.figures.push(misses_figure(advice));
    }
    document.figures.push(runs_figure(advice));
    document
}

/// Warnings, the first sentence of the advice, the code, five figures, and the other sentences.
fn summary(advice: &Advice) -> Summary {
    let mut said = sentences(advice).into_iter();
    let mut verdict = words::warnings(&advice.load);
    verdict.extend(said.next());
    let tuning = advice.tuning();
    let load = &advice.load;
    let not_known = || "not measured".to_owned();
    let last = base(advice);
    let speed = last.and_then(Beside::per_second);
    let p99 =
        last.and_then(|base| median(base.runs.iter().map(|run| run.p99_nanos as f64).collect()));
    let shown =
        |value: Option<f64>, unit| value.map_or_else(not_known, |value| number_shown(value, unit));
    let figures = [
        ("memory budget", bytes(tuning.budget(advice.memory_bytes))),
        ("data of the load", words::data(load)),
        (
            "operations a second, as advised",
            shown(speed, Unit::PerSecond),
        ),
        (
            "99th percentile of its latency",
            shown(p99, Unit::Nanoseconds),
        ),
        (
            "settings tried beside the defaults",
            (advice.candidates.len() - 1).to_string(),
        ),
    ];
    Summary {
        verdict: verdict.join(" "),
        code: tuning.code(advice.memory_bytes),
        figures: figures.map(|(name, value)| (name.to_owned(), value)).into(),
        stands_out: said.collect(),
    }
}

/// The given budget among the budgets.
fn base(advice: &Advice) -> Option<&Beside> {
    let mut budgets = advice.budgets.iter();
    budgets.find(|one| one.memory_bytes == advice.memory_bytes && !one.runs.is_empty())
}
