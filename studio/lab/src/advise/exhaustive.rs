//! All settings at full length, to see how far the advice is from the best of them.
//!
//! Every candidate is measured, whether or not it was thought to suit the load, and the advised
//! settings too. Each fills and ages a store of its own
//! ([`Ground::prepare`](super::runs::Ground::prepare)). It then replays everything that `advise`
//! had of the trace, round by round, and each round begins with another candidate.
//!
//! A store with the defaults does the same beside each candidate, before it and after it (default,
//! settings, settings, default; or the other way round). The figure of a candidate is its speed
//! divided by the speed of that default: a machine that becomes slower meanwhile is slower for
//! both. Then every two of the best three go together, if both were better than the default.
//!
//! What was measured is kept in `exhaustive.json`, so that the command can be run in pieces: it
//! goes on where it ended. The verdict compares medians of the rounds that all have. The best of
//! many medians is above its own true figure, so the verdict is too hard rather than too mild.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evendb_report::{Document, Figure, Unit};
use serde_json::Value;

use super::candidates::{self, Candidate};
use super::halving::median;
use super::page::{FACT_AGED, FACT_OPERATIONS, FACT_SETTINGS};
use super::runs::{Hold, Measured, Stretch, Who};
use super::{AdviseError, Clock, Question};
use crate::own_output;
use crate::readable::bytes;
use crate::stores::evendb::tuning::{Tuning, TuningError};

/// The column of a row by which settings are compared.
const RATIO: usize = 4;
/// Lies beside `advice.json`.
pub(super) const FILE: &str = "exhaustive.json";
const ID: &str = "exhaustive";
/// The operations of a trace divided by this number warm the store up.
const WARM_PART: u64 = 5;

/// What was measured up to now, and the question that it belongs to.
struct Measurements {
    document: Document,
    path: PathBuf,
}

impl Measurements {
    fn load(out: &Path, facts: &[(String, String)]) -> Result<Measurements, AdviseError> {
        let path = out.join(FILE);
        let document = match crate::whole_file::read_text(&path) {
            Ok(text) => read(&path, &text)?,
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(AdviseError::io(&path)(error));
            }
            Err(_) => {
                let mut document = Document::new("All settings at full length");
                document.facts = facts.to_vec();
                document.figures.push(empty());
                document
            }
        };
        if document.facts != facts || document.figure(ID).is_none() {
            let what = "it is about another load or memory; remove it to begin anew";
            return Err(AdviseError::Input(format!("{}: {what}", path.display())));
        }
        Ok(Measurements { document, path })
    }

    fn figure(&mut self) -> &mut Figure {
        &mut self.document.figures[0]
    }

    /// Speed of a candidate divided by speed of the defaults, by rounds. 0 where it failed.
    fn ratios(&self, settings: &Tuning) -> Vec<f64> {
        let settings = settings.to_string();
        let rows = self.document.figures[0].rows.iter();
        let own = rows.filter(|row| row[0] == settings);
        own.map(|row| row[RATIO].as_f64().unwrap_or(0.0)).collect()
    }

    fn add(&mut self, row: Vec<Value>) -> Result<(), AdviseError> {
        self.figure().rows.push(row);
        own_output::replace(&self.path, &self.document.to_json())
            .map_err(AdviseError::io(&self.path))
    }
}

fn empty() -> Figure {
    let columns = [
        ("settings", Unit::Text),
        ("operations", Unit::Count),
        ("seconds", Unit::Seconds),
        ("per_second", Unit::PerSecond),
        ("times_default", Unit::Number),
        ("p99_nanos", Unit::Nanoseconds),
        ("disk_bytes", Unit::Bytes),
        ("bytes_written", Unit::Bytes),
        ("note", Unit::Text),
    ];
    let about = "Each row is of a store that was filled for it and aged, and on which all that advise had of the load was replayed twice; the first fifth was not counted. Between the two it was made anew if the load makes or removes records, since it is another load the second time then. A store with the defaults, which did the same before and after it, is what times_default is by.";
    Figure::new(ID, "All settings at full length", about, "", &columns)
}

fn read(path: &Path, text: &str) -> Result<Document, AdviseError> {
    let input = |what| AdviseError::Input(format!("{}: {what}", path.display()));
    Document::from_json(text).map_err(input)
}

/// The question that `advice.json` answers, and its answer.
pub(super) struct Advised {
    document: Document,
    path: PathBuf,
}

impl Advised {
    /// Reads the advice in this directory.
    ///
    /// # Errors
    /// There is no advice, or it cannot be read.
    pub(super) fn load(out: &Path) -> Result<Advised, AdviseError> {
        let path = out.join("advice.json");
        let text = crate::whole_file::read_text(&path).map_err(|error| {
            AdviseError::Input(format!(
                "{}: {error}; the same command without --exhaustive makes it",
                path.display()
            ))
        })?;
        let document = read(&path, &text)?;
        Ok(Advised { document, path })
    }

    fn fact(&self, name: &str) -> Option<&str> {
        let mut facts = self.document.facts.iter();
        let fact = facts.find(|(known, _)| known == name);
        fact.map(|(_, value)| value.as_str())
    }

    /// The number of operations of the load that the advice used.
    ///
    /// # Errors
    /// The advice does not say it.
    pub(super) fn operations(&self) -> Result<u64, AdviseError> {
        let number = self
            .fact(FACT_OPERATIONS)
            .and_then(|text| text.parse().ok());
        number.ok_or_else(|| self.wrong("it does not say how many operations it used"))
    }

    fn wrong(&self, what: &str) -> AdviseError {
        AdviseError::Input(format!("{}: {what}", self.path.display()))
    }

    /// The advised settings, if the question had these facts.
    fn settings(&self, asked: &[(String, String)]) -> Result<Tuning, AdviseError> {
        for (name, value) in asked {
            if self.fact(name) != Some(value.as_str()) {
                return Err(self.wrong(&format!("its {name} is another one, and not {value}")));
            }
        }
        let settings = self.fact(FACT_SETTINGS);
        let settings = settings.ok_or_else(|| self.wrong("it has no advised settings"))?;
        if settings == candidates::DEFAULT {
            return Ok(Tuning::new());
        }
        let parsed = settings.parse();
        parsed.map_err(|error: TuningError| self.wrong(&error.to_string()))
    }

    /// Measures until all rounds are done or the time is over. `asked` are the facts of the
    /// question. Returns what is known then, in words.
    pub(super) fn check(
        &self,
        question: &Question,
        asked: Vec<(String, String)>,
        (out, rounds): (&Path, usize),
        clock: &Clock<'_>,
    ) -> Result<String, AdviseError> {
        let advised = self.settings(&asked)?;
        let mut facts = asked;
        facts.push((FACT_AGED.to_owned(), bytes(question.ground.age_bytes)));
        let mut measured = Measurements::load(out, &facts)?;
        let mut all: Vec<Tuning> = candidates::all(&question.fixed)
            .iter()
            .filter_map(|candidate: &Candidate| question.fixed.and(&candidate.tuning))
            .collect();
        let mut is_done = rounds_of(&all, rounds, (question, clock), &mut measured)?;
        if is_done {
            let pairs = pairs_of_best(&question.fixed, &|tuning| measured.ratios(tuning));
            all.extend(pairs);
            if !all.contains(&advised) {
                all.push(advised.clone());
            }
            is_done = rounds_of(&all, rounds, (question, clock), &mut measured)?;
        }
        if !is_done {
            clock.tell("there is no time for another run; the same command goes on");
        }
        Ok(verdict(&all, &advised, &|tuning| measured.ratios(tuning)))
    }
}

/// Does what is missing of `rounds` rounds. Returns whether all of them are done.
fn rounds_of(
    all: &[Tuning],
    rounds: usize,
    (question, clock): (&Question, &Clock<'_>),
    measured: &mut Measurements,
) -> Result<bool, AdviseError> {
    let mut longest = 0.0f64;
    for round in 0..rounds {
        for place in 0..all.len() {
            // Places move by thirds: after few rounds each candidate has been early, in the middle
            // and late.
            let at = (place + round * all.len().div_ceil(3)) % all.len();
            let tuning = &all[at];
            if measured.ratios(tuning).len() > round {
                continue;
            }
            clock.check()?;
            if clock.seconds() + longest > clock.seconds {
                return Ok(false);
            }
            let began = clock.seconds();
            clock.tell(&format!("round {}: {}", round + 1, name_of(tuning)));
            let row = one(question, tuning, (round + at).is_multiple_of(2), clock)?;
            measured.add(row)?;
            longest = longest.max(clock.seconds() - began);
        }
    }
    Ok(true)
}

/// Every two of the three best candidates. Only candidates that were better than the default count.
fn pairs_of_best(fixed: &Tuning, ratios: &dyn Fn(&Tuning) -> Vec<f64>) -> Vec<Tuning> {
    let score = |own: &Candidate| {
        let tuning = fixed.and(&own.tuning)?;
        median(ratios(&tuning))
    };
    let mut all = candidates::all(fixed);
    let base = score(&all.remove(0));
    all.retain(|one| score(one) > base);
    all.sort_by(|one, other| {
        score(other)
            .partial_cmp(&score(one))
            .unwrap_or(Ordering::Equal)
    });
    all.truncate(3);
    let mut pairs = Vec::new();
    for (number, one) in all.iter().enumerate() {
        for other in &all[number + 1..] {
            let both = candidates::together(one, other);
            pairs.extend(both.and_then(|both| fixed.and(&both.tuning)));
        }
    }
    pairs
}

fn name_of(tuning: &Tuning) -> String {
    match tuning.is_empty() {
        true => candidates::DEFAULT.to_owned(),
        false => tuning.to_string(),
    }
}

/// A store that runs at full length: its name and its directory.
struct Side {
    who: Who,
    directory: PathBuf,
    runs: Vec<Measured>,
}

impl Side {
    fn seconds(&self) -> f64 {
        self.runs.iter().map(|run| run.seconds).sum()
    }
}

/// Runs a candidate at full length beside the default, and returns the row. With `is_first` the
/// default begins.
fn one(
    question: &Question,
    tuning: &Tuning,
    is_first: bool,
    clock: &Clock<'_>,
) -> Result<Vec<Value>, AdviseError> {
    let name = tuning.to_string();
    let side = |name: &str, tuning: &Tuning| Side {
        who: Who::EvenDb(tuning.clone()),
        directory: question.place.join(name),
        runs: Vec::new(),
    };
    let mut sides = [
        side("exhaustive-default", &question.fixed),
        side("exhaustive", tuning),
    ];
    match beside(question, &mut sides, is_first, clock) {
        Ok(()) => Ok(row(name, &sides)),
        Err(error @ (AdviseError::Run(_) | AdviseError::TooLong(_))) => {
            let mut row = vec![Value::Null; empty().columns.len()];
            let note = row.len() - 1;
            (row[0], row[note]) = (name.into(), error.to_string().into());
            Ok(row)
        }
        Err(error) => Err(error),
    }
}

/// Has both run in turns: a machine that becomes slower meanwhile is slower for both. Their stores
/// are made before.
fn beside(
    question: &Question,
    sides: &mut [Side; 2],
    is_first: bool,
    clock: &Clock<'_>,
) -> Result<(), AdviseError> {
    let ground = &question.ground;
    let hold = Hold {
        at_most: Duration::from_secs_f64(clock.seconds.max(60.0)),
        stop: clock.stop,
    };
    let stretch = Stretch {
        skip: ground.loading,
        warm: (ground.operations - ground.loading) / WARM_PART,
        until: ground.operations,
    };
    let order = match is_first {
        true => [0, 1, 1, 0],
        false => [1, 0, 0, 1],
    };
    for at in order {
        let side = &mut sides[at];
        let (memory, directory) = (question.memory_bytes, &side.directory);
        if side.runs.is_empty() || !ground.repeats {
            ground.prepare(&side.who, memory, directory, hold)?;
        }
        let run = ground.run(&side.who, memory, directory, (stretch, hold))?;
        side.runs.push(run);
    }
    Ok(())
}

fn row(name: String, [default, own]: &[Side; 2]) -> Vec<Value> {
    let operations: u64 = own.runs.iter().map(|run| run.operations).sum();
    let last = own.runs.last();
    vec![
        name.into(),
        operations.into(),
        own.seconds().into(),
        (operations as f64 / own.seconds()).into(),
        (default.seconds() / own.seconds()).into(),
        own.runs.iter().map(|run| run.p99_nanos).max().into(),
        last.map(|run| run.disk_bytes).into(),
        own.runs
            .iter()
            .filter_map(|run| run.bytes_written)
            .sum::<u64>()
            .into(),
        "".into(),
    ]
}

/// How far the advised settings are from the best, by medians of the rounds that all have.
fn verdict(all: &[Tuning], advised: &Tuning, ratios: &dyn Fn(&Tuning) -> Vec<f64>) -> String {
    let rounds = all.iter().map(|one| ratios(one).len()).min().unwrap_or(0);
    if rounds == 0 || !all.contains(advised) {
        let done = all.iter().filter(|one| !ratios(one).is_empty()).count();
        let all = all.len();
        return format!("{done} of {all} settings were measured at full length: no verdict yet.\n");
    }
    let of_rounds = |tuning: &Tuning| {
        let mut own = ratios(tuning);
        own.truncate(rounds);
        own
    };
    let score = |tuning: &Tuning| median(of_rounds(tuning)).unwrap_or(0.0);
    let mut ranked: Vec<(f64, &Tuning)> = all.iter().map(|one| (score(one), one)).collect();
    ranked.sort_by(|one, other| other.0.total_cmp(&one.0));
    let best = ranked[0].0.max(f64::MIN_POSITIVE);
    let mut text = format!(
        "{:>13}  {:>8}  {:>8}  {:>8}  settings ({rounds} rounds)\n",
        "times default", "by best", "lowest", "highest"
    );
    for (ratio, tuning) in &ranked {
        let name = name_of(tuning);
        let mark = if *tuning == advised {
            "  <- advised"
        } else {
            ""
        };
        let each = of_rounds(tuning);
        let least = each.iter().copied().fold(f64::MAX, f64::min) / best;
        let most = each.iter().copied().fold(0.0, f64::max) / best;
        text += &format!(
            "{ratio:>13.3}  {:>8.3}  {least:>8.3}  {most:>8.3}  {name}{mark}\n",
            ratio / best
        );
    }
    let behind = (1.0 - score(advised) / best) * 100.0;
    text + &format!(
        "The advised settings are {behind:.1} % slower than the best of all that were tried.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_compares_medians_of_rounds_that_all_have() {
        let all: Vec<Tuning> = ["", "munks=off", "row-cache=off"]
            .map(|text| text.parse().unwrap())
            .into();
        let ratios = |tuning: &Tuning| match tuning.to_string().as_str() {
            "" => vec![100.0, 90.0, 5000.0],
            "munks=off" => vec![80.0, 110.0],
            _ => vec![50.0, 70.0, 60.0],
        };
        let text = verdict(&all, &all[2], &ratios);
        assert!(text.contains("(2 rounds)"), "{text}");
        assert!(text.contains("are 36.8 % slower"), "{text}");
        let advised_best = verdict(&all[2..], &all[2], &ratios);
        assert!(advised_best.contains("are 0.0 % slower"), "{advised_best}");
        let none = verdict(&all, &all[0], &|tuning| match tuning.to_string().as_str() {
            "munks=off" => Vec::new(),
            _ => vec![1.0],
        });
        assert!(
            none.contains("2 of 3") && none.contains("no verdict"),
            "{none}"
        );
    }

    #[test]
    fn a_row_is_by_the_default_that_ran_beside() {
        let side = |seconds: [f64; 2]| Side {
            who: Who::EvenDb(Tuning::new()),
            directory: PathBuf::new(),
            runs: seconds
                .map(|seconds| Measured {
                    operations: 300,
                    seconds,
                    ..Measured::default()
                })
                .into(),
        };
        let made = row(
            "munks=off".to_owned(),
            &[side([3.0, 5.0]), side([2.0, 2.0])],
        );
        assert_eq!(made.len(), empty().columns.len());
        assert_eq!(empty().columns[RATIO].name, "times_default");
        assert_eq!(made[RATIO], 2.0);
        assert_eq!((&made[1], &made[3]), (&600.into(), &150.0.into()));
    }

    #[test]
    fn the_best_three_are_tried_in_pairs_if_they_were_better_than_the_default() {
        let fixed: Tuning = "chunk-bytes=262144".parse().unwrap();
        let ratios =
            |tuning: &Tuning| match tuning.to_string().trim_start_matches("chunk-bytes=262144 ") {
                "memory-share=0.5" => vec![130.0, 120.0],
                "row-cache=off" => vec![150.0, 110.0],
                "munks=off" => vec![114.0],
                "compression=lz4" => vec![111.0],
                "space-amplification=2" => vec![0.0],
                _ => vec![100.0, 110.0],
            };
        let pairs = pairs_of_best(&fixed, &ratios);
        let names: Vec<_> = pairs.iter().map(Tuning::to_string).collect();
        // Without spans in RAM and without rows nothing is cached: these two do not go together.
        assert_eq!(
            names,
            [
                "chunk-bytes=262144 row-cache=off memory-share=0.5",
                "chunk-bytes=262144 memory-share=0.5 munks=off"
            ]
        );
        let none_is_better = |_: &Tuning| vec![100.0];
        assert!(pairs_of_best(&fixed, &none_is_better).is_empty());
    }
}
