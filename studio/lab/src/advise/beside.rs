//! What the advised settings are compared with: other budgets of memory, other stores, and the
//! curves of misses of an analysis.
//!
//! Each of them replays the same stretch of the trace on a store that is made for it. They run in
//! rounds: in a round each of them runs once, and rounds go on while time is left. What is said of
//! two of them depends on how far repeated runs of one store differ ([`Ratio`]).

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use evendb_report::Document;
use serde_json::Value;

use super::runs::{Hold, Measured, Stretch, Who};
use super::schedule::{Pace, WARM_SHARE};
use super::{AdviseError, Clock, Question};
use crate::readable::bytes;
use crate::stores::evendb::tuning::Tuning;

/// Budgets as multiples of the given budget, the important ones first.
const FACTORS: [f64; 5] = [1.0, 2.0, 0.5, 4.0, 0.25];
/// No budget is smaller.
const BUDGET_MIN: u64 = 2 << 20;
const PATIENCE: f64 = 8.0;
/// Stretches are made short enough for this number of rounds, and there are no more rounds.
const ROUNDS: usize = 3;
/// If the time is too short for this number of rounds, fewer budgets are measured. The given budget
/// and one other always stay.
const ROUNDS_MIN: usize = 2;
const BUDGETS_MIN: usize = 2;
const ROUNDS_MAX: usize = 9;

/// A store, or a budget, and its runs.
#[derive(Clone, Debug)]
pub struct Beside {
    /// The store.
    pub name: String,
    /// The memory with which it planned.
    pub memory_bytes: u64,
    /// The runs. None, if all failed.
    pub runs: Vec<Measured>,
    /// Why a run failed. No run follows it.
    pub failed: Option<String>,
}

impl Beside {
    /// Operations a second over all runs. None without a run.
    #[must_use]
    pub fn per_second(&self) -> Option<f64> {
        let seconds: f64 = self.runs.iter().map(|run| run.seconds).sum();
        let operations: u64 = self.runs.iter().map(|run| run.operations).sum();
        (!self.runs.is_empty()).then(|| operations as f64 / seconds.max(1e-9))
    }

    /// The sum of the squared relative deviations of single runs from their mean, and the number of
    /// runs less one.
    fn spread(&self) -> (f64, usize) {
        let speeds = || self.runs.iter().map(Measured::per_second);
        let count = self.runs.len();
        let mean = speeds().sum::<f64>() / count.max(1) as f64;
        let squares = speeds().map(|speed| (speed / mean.max(1e-9) - 1.0).powi(2));
        (squares.sum(), count.saturating_sub(1))
    }
}

/// The assumed spread of single runs of one store: where no run was repeated, and where few were.
const SPREAD_OF_ONE: f64 = 0.2;
const SPREAD_OF_FEW: f64 = 0.1;
/// With this number of repeated runs, the measured spread is believed.
const REPEATED_MIN: usize = 4;
/// Two stores with equal settings may differ by this share, and no number of runs shows it.
const SPREAD_MIN: f64 = 0.02;
/// A ratio may be off by this number of its standard errors.
const ERRORS: f64 = 2.5;

/// The standard deviation of single runs, relative to their mean, over all runs that were measured
/// beside each other.
#[must_use]
pub fn spread(all: &[Beside]) -> f64 {
    let each = all.iter().map(Beside::spread);
    let (squares, repeated) = each.fold((0.0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let measured = (squares / repeated.max(1) as f64).sqrt();
    match repeated {
        0 => SPREAD_OF_ONE,
        1..REPEATED_MIN => measured.max(SPREAD_OF_FEW),
        _ => measured.max(SPREAD_MIN),
    }
}

/// How many times as fast one store is as another, and how far that may be off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Speed of the one divided by speed of the other.
    pub by: f64,
    /// The true ratio is at most this far from `by`, except by chance.
    pub off: f64,
}

impl Ratio {
    /// The ratio of two, where single runs differ by `spread`. None if one of them was not
    /// measured.
    #[must_use]
    pub fn of(one: &Beside, other: &Beside, spread: f64) -> Option<Ratio> {
        let by = one.per_second()? / other.per_second()?.max(1e-9);
        let runs = [one, other].map(|beside| 1.0 / beside.runs.len() as f64);
        let off = ERRORS * by * spread * (runs[0] + runs[1]).sqrt();
        Some(Ratio { by, off })
    }

    /// Whether the ratio is above 1 beyond chance, and above `times`.
    #[must_use]
    pub fn is_above(&self, times: f64) -> bool {
        self.by - self.off > 1.0 && self.by > times
    }

    /// Whether the ratio is below `times` beyond chance.
    #[must_use]
    pub fn is_below(&self, times: f64) -> bool {
        self.by + self.off < times
    }
}

/// One point of a curve of misses of an analysis.
#[derive(Clone, Debug, PartialEq)]
pub struct MissRow {
    /// The unit of the cache: row, block, chunk or prefix.
    pub grain: String,
    /// The memory of the cache, in bytes.
    pub bytes: u64,
    /// The share of accesses that miss.
    pub miss_ratio: f64,
}

/// What the comparisons start from: the question, and the settings.
pub(super) struct Asked<'a> {
    pub(super) question: &'a Question,
    pub(super) clock: &'a Clock<'a>,
    pub(super) pace: Pace,
}

impl Asked<'_> {
    /// The advised settings at other budgets, the smallest first.
    pub(super) fn budgets(&self, tuning: &Tuning, until: f64) -> Result<Vec<Beside>, AdviseError> {
        let who = Who::EvenDb(tuning.clone());
        let given = self.question.memory_bytes;
        let budget = |factor: f64| ((given as f64 * factor) as u64).max(BUDGET_MIN.min(given));
        let mut all: Vec<(&Who, u64)> = Vec::new();
        for memory_bytes in FACTORS.map(budget) {
            if all.iter().all(|(_, known)| *known != memory_bytes) {
                all.push((&who, memory_bytes));
            }
        }
        // Few budgets in several rounds say more than many in one.
        let runs = (until - self.clock.seconds()) / self.takes();
        all.truncate(((runs / ROUNDS_MIN as f64) as usize).max(BUDGETS_MIN));
        let mut measured = self.each(&all, until)?;
        measured.sort_by_key(|one| one.memory_bytes);
        Ok(measured)
    }

    /// Other stores with the same memory.
    pub(super) fn peers(
        &self,
        program: &Path,
        stores: &[String],
        until: f64,
    ) -> Result<Vec<Beside>, AdviseError> {
        let peer = |name: &String| Who::Peer {
            program: program.to_owned(),
            name: name.clone(),
        };
        let peers: Vec<_> = stores.iter().map(peer).collect();
        let memory = self.question.memory_bytes;
        let all: Vec<_> = peers.iter().map(|peer| (peer, memory)).collect();
        self.each(&all, until)
    }

    fn each(&self, all: &[(&Who, u64)], until: f64) -> Result<Vec<Beside>, AdviseError> {
        let stretch = self.stretch();
        let takes = self.takes();
        let mut measured: Vec<Beside> = all
            .iter()
            .map(|(who, memory_bytes)| Beside {
                name: who.name(),
                memory_bytes: *memory_bytes,
                runs: Vec::new(),
                failed: None,
            })
            .collect();
        for round in 1..=ROUNDS_MAX {
            for ((who, memory_bytes), beside) in all.iter().zip(&mut measured) {
                self.clock.check()?;
                if beside.failed.is_some() {
                    continue;
                }
                let what = format!("{} with {}", beside.name, bytes(*memory_bytes));
                if self.clock.seconds() + takes > until {
                    self.clock.tell(&match round {
                        1 => format!("there is no time for {what}"),
                        _ => format!("there is no time for {what} once more"),
                    });
                    // The ones behind it take as long.
                    measured.retain(|beside| !beside.runs.is_empty() || beside.failed.is_some());
                    return Ok(measured);
                }
                self.clock.tell(&format!("round {round}: {what}"));
                match self.one(who, *memory_bytes, (stretch, takes)) {
                    Ok(run) => beside.runs.push(run),
                    Err(error @ (AdviseError::Run(_) | AdviseError::TooLong(_))) => {
                        self.clock.tell(&error.to_string());
                        beside.failed = Some(error.to_string());
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(measured)
    }

    /// Seconds that one of them takes, by the pace.
    fn takes(&self) -> f64 {
        let stretch = self.stretch();
        let length = (stretch.until - stretch.skip) as f64;
        self.pace.prepare + self.pace.overhead + length / self.pace.per_second
    }

    /// The stretch that all replay. By the pace, the time suffices for some rounds of all budgets.
    fn stretch(&self) -> Stretch {
        let ground = &self.question.ground;
        let usable = ground.operations - ground.loading;
        let part = self.clock.seconds * 0.25 / (FACTORS.len() * ROUNDS) as f64;
        let seconds = (part - self.pace.prepare - self.pace.overhead).max(0.5);
        let length = ((seconds * self.pace.per_second) as u64).clamp(1, usable.max(1));
        Stretch {
            skip: ground.loading,
            warm: (length as f64 * WARM_SHARE / (1.0 + WARM_SHARE)) as u64,
            until: (ground.loading + length).min(ground.operations),
        }
    }

    fn one(
        &self,
        who: &Who,
        memory_bytes: u64,
        (stretch, takes): (Stretch, f64),
    ) -> Result<Measured, AdviseError> {
        let directory = self.question.place.join("beside");
        let hold = Hold {
            at_most: Duration::from_secs_f64((takes * PATIENCE).max(20.0)),
            stop: self.clock.stop,
        };
        let ground = &self.question.ground;
        ground.prepare(who, memory_bytes, &directory, hold)?;
        let measured = ground.run(who, memory_bytes, &directory, (stretch, hold));
        std::fs::remove_dir_all(&directory).map_err(AdviseError::io(&directory))?;
        measured
    }
}

/// The curves of misses of an analysis.
///
/// # Errors
/// The document cannot be read, or has no such figure.
pub(super) fn misses(path: &Path) -> Result<Vec<MissRow>, AdviseError> {
    let input = |what: String| AdviseError::Input(format!("{}: {what}", path.display()));
    let text = crate::whole_file::read_text(path).map_err(|error| input(error.to_string()))?;
    let document = Document::from_json(&text).map_err(input)?;
    let missing = || "it has no figure `miss-ratios` with grain, bytes and miss_ratio".to_owned();
    let rows = document.figure("miss-ratios").and_then(|figure| {
        let [grain, size, ratio] = ["grain", "bytes", "miss_ratio"].map(|name| figure.column(name));
        let (grain, size, ratio) = (grain?, size?, ratio?);
        let keyspace = figure.column("keyspace");
        let keyspaces: BTreeSet<&str> = figure
            .rows
            .iter()
            .filter_map(|row| row[keyspace?].as_str())
            .collect();
        let row = |row: &Vec<Value>| {
            let of = keyspace.filter(|_| keyspaces.len() > 1);
            let of = of.and_then(|of| row[of].as_str());
            let grain = row[grain].as_str()?;
            Some(MissRow {
                grain: of.map_or_else(|| grain.to_owned(), |of| format!("{of}: {grain}")),
                bytes: row[size].as_f64()? as u64,
                miss_ratio: row[ratio].as_f64()?,
            })
        };
        Some(figure.rows.iter().filter_map(row).collect())
    });
    rows.ok_or_else(|| input(missing()))
}

/// The share of accesses that miss in a cache of `bytes`: the last point of the grain's curve that
/// fits into them.
#[must_use]
pub(super) fn miss_ratio(rows: &[MissRow], grain: &str, bytes: u64) -> Option<f64> {
    let fits = rows
        .iter()
        .filter(|row| row.grain == grain && row.bytes <= bytes);
    fits.max_by_key(|row| row.bytes).map(|row| row.miss_ratio)
}
