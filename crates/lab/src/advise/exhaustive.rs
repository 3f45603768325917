//! All settings at full length, to see how far the advice is from the best of them.
//!
//! Each of the candidates, whether or not it was thought to suit the load, and the advised one fill a store and replay the whole trace on it, round by
//! round. What was measured is kept in `exhaustive.json`: the command goes on where it ended, so it can be run in pieces. The verdict compares
//! medians of the rounds that all candidates have.

use std::path::Path;
use std::time::Duration;

use evendb_report::{Document, Figure, Unit};
use serde_json::Value;

use super::candidates::{self, Candidate};
use super::halving::median;
use super::page::{self, FACT_MEMORY, FACT_SETTINGS, FACT_SOURCE};
use super::runs::{Hold, Stretch, Who};
use super::{AdviseError, Clock, Question};
use crate::stores::evendb::tuning::Tuning;

const FILE: &str = "exhaustive.json";
const ID: &str = "exhaustive";
/// Of a trace, the part that warms up.
const WARM_PART: u64 = 5;

/// What was measured so far, and of what.
struct Measurements {
    document: Document,
    path: std::path::PathBuf,
}

impl Measurements {
    fn load(out: &Path, facts: &[(String, String)]) -> Result<Measurements, AdviseError> {
        let path = out.join(FILE);
        let document = match std::fs::read_to_string(&path) {
            Ok(text) => read(&path, &text)?,
            Err(_) => {
                let mut document = Document::new("All settings at full length");
                document.facts = facts.to_vec();
                document.figures.push(empty());
                document
            }
        };
        if document.facts != facts || document.figure(ID).is_none() {
            let what = "it is about another load, memory or advice; remove it to begin anew";
            return Err(AdviseError::Input(format!("{}: {what}", path.display())));
        }
        Ok(Measurements { document, path })
    }

    fn figure(&mut self) -> &mut Figure {
        &mut self.document.figures[0]
    }

    /// The speeds of one candidate, by rounds; 0 where it failed.
    fn speeds(&self, settings: &str) -> Vec<f64> {
        let rows = self.document.figures[0].rows.iter();
        let own = rows.filter(|row| row[0] == settings);
        own.map(|row| row[3].as_f64().unwrap_or(0.0)).collect()
    }

    fn add(&mut self, row: Vec<Value>) -> Result<(), AdviseError> {
        self.figure().rows.push(row);
        std::fs::write(&self.path, self.document.to_json())?;
        Ok(())
    }
}

fn empty() -> Figure {
    let columns = [
        ("settings", Unit::Text),
        ("operations", Unit::Count),
        ("seconds", Unit::Seconds),
        ("per_second", Unit::PerSecond),
        ("p99_nanos", Unit::Nanoseconds),
        ("disk_bytes", Unit::Bytes),
        ("bytes_written", Unit::Bytes),
        ("note", Unit::Text),
    ];
    let about = "Each run filled a store of its own and replayed the whole trace on it; the first fifth was not counted.";
    page::figure(
        ID,
        "All settings at full length",
        about.to_owned(),
        &columns,
    )
}

fn read(path: &Path, text: &str) -> Result<Document, AdviseError> {
    let input = |what| AdviseError::Input(format!("{}: {what}", path.display()));
    Document::from_json(text).map_err(input)
}

/// The settings that were advised, as `advice.json` in this directory says.
fn advised(out: &Path, source: &str, memory_bytes: u64) -> Result<Tuning, AdviseError> {
    let path = out.join("advice.json");
    let input = |what: &str| AdviseError::Input(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|error| {
        input(&format!(
            "{error}; the same command without --exhaustive makes it"
        ))
    })?;
    let document = read(&path, &text)?;
    let fact = |name: &str| {
        let mut facts = document.facts.iter();
        let fact = facts.find(|(known, _)| known == name);
        fact.map(|(_, value)| value.as_str())
    };
    let is_same =
        fact(FACT_SOURCE) == Some(source) && fact(FACT_MEMORY) == Some(&memory_bytes.to_string());
    if !is_same {
        return Err(input("it is about another load or memory"));
    }
    let settings = fact(FACT_SETTINGS).ok_or_else(|| input("it has no advised settings"))?;
    settings
        .parse()
        .map_err(|error: crate::stores::evendb::tuning::TuningError| input(&error.to_string()))
}

/// Measures until all rounds are done or the time is over; what is known then, in words.
pub(super) fn run(
    question: &Question,
    (source, out, rounds): (&str, &Path, usize),
    clock: &Clock<'_>,
) -> Result<String, AdviseError> {
    let advised = advised(out, source, question.memory_bytes)?;
    let facts = [
        (FACT_SOURCE, source.to_owned()),
        (FACT_MEMORY, question.memory_bytes.to_string()),
        (FACT_SETTINGS, advised.to_string()),
        ("operations", question.ground.operations.to_string()),
    ];
    let facts = facts.map(|(name, value)| (name.to_owned(), value));
    let mut measured = Measurements::load(out, &facts)?;
    let mut all: Vec<Tuning> = candidates::all(&question.fixed)
        .iter()
        .filter_map(|candidate: &Candidate| question.fixed.and(&candidate.tuning))
        .collect();
    if !all.contains(&advised) {
        all.push(advised.clone());
    }
    let mut longest = 0.0f64;
    'rounds: for round in 0..rounds {
        for tuning in &all {
            let name = tuning.to_string();
            if measured.speeds(&name).len() > round {
                continue;
            }
            clock.check()?;
            if clock.seconds() + longest > clock.seconds {
                clock.tell("there is no time for another run; the same command goes on");
                break 'rounds;
            }
            let began = clock.seconds();
            clock.tell(&format!("round {}: {name}", round + 1));
            let row = one(question, tuning, clock)?;
            measured.add(row)?;
            longest = longest.max(clock.seconds() - began);
        }
    }
    Ok(verdict(&all, &advised, &|name| measured.speeds(name)))
}

/// One run at full length, as a row.
fn one(question: &Question, tuning: &Tuning, clock: &Clock<'_>) -> Result<Vec<Value>, AdviseError> {
    let ground = &question.ground;
    let directory = question.place.join("exhaustive");
    let who = Who::EvenDb(tuning.clone());
    let hold = Hold {
        at_most: Duration::from_secs_f64(clock.seconds.max(60.0)),
        stop: clock.stop,
    };
    let stretch = Stretch {
        skip: ground.loading,
        warm: (ground.operations - ground.loading) / WARM_PART,
        until: ground.operations,
    };
    let memory_bytes = question.memory_bytes;
    let prepared = ground.prepare(&who, memory_bytes, &directory, hold);
    let run = prepared.and_then(|_| ground.run(&who, memory_bytes, &directory, (stretch, hold)));
    let name = tuning.to_string();
    match run {
        Ok(run) => Ok(vec![
            name.into(),
            run.operations.into(),
            run.seconds.into(),
            run.per_second().into(),
            run.p99_nanos.into(),
            run.disk_bytes.into(),
            run.bytes_written.into(),
            "".into(),
        ]),
        Err(error @ (AdviseError::Run(_) | AdviseError::TooLong(_))) => {
            let mut row = vec![Value::Null; 8];
            (row[0], row[7]) = (name.into(), error.to_string().into());
            Ok(row)
        }
        Err(error) => Err(error),
    }
}

/// How far the advised settings are from the best, by medians of the rounds that all have.
fn verdict(all: &[Tuning], advised: &Tuning, speeds: &dyn Fn(&str) -> Vec<f64>) -> String {
    let counts = all.iter().map(|one| speeds(&one.to_string()).len());
    let rounds = counts.min().unwrap_or(0);
    if rounds == 0 {
        let done = all
            .iter()
            .filter(|one| !speeds(&one.to_string()).is_empty());
        let (done, all) = (done.count(), all.len());
        return format!("{done} of {all} settings were measured at full length: no verdict yet.\n");
    }
    let score = |tuning: &Tuning| {
        let mut speeds = speeds(&tuning.to_string());
        speeds.truncate(rounds);
        median(speeds).unwrap_or(0.0)
    };
    let mut ranked: Vec<(f64, &Tuning)> = all.iter().map(|one| (score(one), one)).collect();
    ranked.sort_by(|one, other| other.0.total_cmp(&one.0));
    let best = ranked[0].0.max(f64::MIN_POSITIVE);
    let mut text = format!(
        "{:>12}  {:>8}  settings ({rounds} rounds)\n",
        "per second", "by best"
    );
    for (speed, tuning) in &ranked {
        let name = match tuning.is_empty() {
            true => candidates::DEFAULT.to_owned(),
            false => tuning.to_string(),
        };
        let mark = if *tuning == advised {
            "  <- advised"
        } else {
            ""
        };
        text += &format!("{speed:>12.0}  {:>8.3}  {name}{mark}\n", speed / best);
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
        let speeds = |name: &str| match name {
            "" => vec![100.0, 90.0, 5000.0],
            "munks=off" => vec![80.0, 110.0],
            _ => vec![50.0, 70.0, 60.0],
        };
        let text = verdict(&all, &all[2], &speeds);
        assert!(text.contains("(2 rounds)"), "{text}");
        assert!(text.contains("are 36.8 % slower"), "{text}");
        let advised_best = verdict(&all[2..], &all[2], &speeds);
        assert!(advised_best.contains("are 0.0 % slower"), "{advised_best}");
        let none = verdict(&all, &all[0], &|name| match name {
            "munks=off" => Vec::new(),
            _ => vec![1.0],
        });
        assert!(
            none.contains("2 of 3") && none.contains("no verdict"),
            "{none}"
        );
    }
}
