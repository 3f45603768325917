//! What the advised settings are beside: other budgets of memory, other stores, and what an analysis says of misses.
//!
//! All of them do the same stretch of the trace, each on a store that is made for it, once: these figures say what is much faster, not
//! what is a little so. Where time runs out, the rest is left out.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use evendb_report::Document;
use serde_json::Value;

use super::runs::{Hold, Measured, Stretch, Who};
use super::schedule::{Pace, WARM_SHARE};
use super::{AdviseError, Clock, Question};
use crate::stores::evendb::tuning::Tuning;

/// Budgets by the one that was given, in the order of importance.
const FACTORS: [f64; 5] = [1.0, 2.0, 0.5, 4.0, 0.25];
/// No budget is smaller.
const BUDGET_MIN: u64 = 2 << 20;
const PATIENCE: f64 = 8.0;

/// A store, or a budget, and what it did.
#[derive(Clone, Debug)]
pub struct Beside {
    /// The store.
    pub name: String,
    /// The memory with which it planned.
    pub memory_bytes: u64,
    /// What was measured; or why not.
    pub outcome: Result<Measured, String>,
}

/// One point of an analysis' curve of misses.
#[derive(Clone, Debug, PartialEq)]
pub struct MissRow {
    /// What is cached: row, block, chunk, prefix.
    pub grain: String,
    /// The memory that it takes.
    pub bytes: u64,
    /// The share of accesses that miss.
    pub miss_ratio: f64,
}

/// Who is asked, and what for.
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
        let mut measured = Vec::new();
        for (who, memory_bytes) in all {
            self.clock.check()?;
            let length = (stretch.until - stretch.skip) as f64;
            let takes = self.pace.prepare + self.pace.overhead + length / self.pace.per_second;
            let name = who.name();
            let memory = crate::readable::bytes(*memory_bytes);
            if self.clock.seconds() + takes > until {
                self.clock
                    .tell(&format!("there is no time for {name} with {memory}"));
                continue;
            }
            self.clock.tell(&format!("{name} with {memory}"));
            let outcome = match self.one(who, *memory_bytes, (stretch, takes)) {
                Ok(measured) => Ok(measured),
                Err(error @ (AdviseError::Run(_) | AdviseError::TooLong(_))) => {
                    self.clock.tell(&error.to_string());
                    Err(error.to_string())
                }
                Err(error) => return Err(error),
            };
            measured.push(Beside {
                name,
                memory_bytes: *memory_bytes,
                outcome,
            });
        }
        Ok(measured)
    }

    /// What all do: as long as the time allows for a budget, by the pace.
    fn stretch(&self) -> Stretch {
        let ground = &self.question.ground;
        let usable = ground.operations - ground.loading;
        let part = self.clock.seconds * 0.25 / FACTORS.len() as f64;
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
        std::fs::remove_dir_all(&directory)?;
        measured
    }
}

/// The curves of misses of an analysis.
///
/// # Errors
/// The document cannot be read, or has no such figure.
pub(super) fn misses(path: &Path) -> Result<Vec<MissRow>, AdviseError> {
    let input = |what: String| AdviseError::Input(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| input(error.to_string()))?;
    let document = Document::from_json(&text).map_err(input)?;
    let missing = || "it has no figure `miss-ratios` with grain, bytes and miss_ratio".to_owned();
    let rows = document.figure("miss-ratios").and_then(|figure| {
        let [grain, bytes, ratio] =
            ["grain", "bytes", "miss_ratio"].map(|name| figure.column(name));
        let (grain, bytes, ratio) = (grain?, bytes?, ratio?);
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
                bytes: row[bytes].as_f64()? as u64,
                miss_ratio: row[ratio].as_f64()?,
            })
        };
        Some(figure.rows.iter().filter_map(row).collect())
    });
    rows.ok_or_else(|| input(missing()))
}

/// The share of accesses that miss in so much memory, by the curve of a grain: at its last point that fits.
#[must_use]
pub(super) fn miss_ratio(rows: &[MissRow], grain: &str, bytes: u64) -> Option<f64> {
    let fits = rows
        .iter()
        .filter(|row| row.grain == grain && row.bytes <= bytes);
    fits.max_by_key(|row| row.bytes).map(|row| row.miss_ratio)
}
