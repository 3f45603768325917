//! Reads `results.jsonl`: one JSON object a line, appended by the run and flushed line by line.
//!
//! ```text
//!   {"kind":"run", "version":1, "scale":.., "memory_bytes":.., "machine":{..}, "stores":{..}, ..}
//!   {"kind":"cell", "experiment":"figure-6", "cell":"P/uniform/512MiB", "store":"evendb", "round":0,
//!    "mix":"P", "distribution":"uniform", "theta":0.99, "data_bytes":.., "threads":4,
//!    "variant":null, "ended":"..", "phase":{..}}
//!   {"kind":"skipped", "experiment":.., "cell":.., "store":.., "round":.., "why":".."}
//! ```
//! The settings of a run may stand in its member `settings`. A line that is broken off is ignored: its
//! process was killed in it, and whoever wrote next began a new line; so is a last line that is broken
//! in whatever way (the run may go on). Other broken lines are an error that names them. Unknown kinds and members are ignored. Members that only
//! describe (mix, sizes) may be missing: what the cell's name says is taken instead.
//!
//! Of one (cell, store, round) the last finished measurement counts; an interrupted one counts for
//! nothing but is shown as such while no finished one exists. The same for what was skipped.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use super::ReportError;
use super::quantity::{Quantity, Spread};
use super::stores;

/// The one version of the format there is.
const VERSION: u64 = 1;

/// A run's results, grouped.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The last `run` line; empty if there was none.
    pub run: Map<String, Value>,
    /// Cells in the order in which they first occur.
    pub cells: Vec<Cell>,
    /// What was skipped and not measured later.
    pub skipped: Vec<Skipped>,
    /// What a reader should know of the file itself.
    pub notes: Vec<String>,
}

/// One workload at one size: the stores' rounds.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// `figure-6`, `event-log-ingest`, ...
    pub experiment: String,
    /// The cell's own name.
    pub name: String,
    /// `P`, `A`, ...
    pub mix: Option<String>,
    /// `zipf-composite`, ...
    pub distribution: Option<String>,
    /// The skew.
    pub theta: Option<f64>,
    /// Bytes of keys and values that were loaded.
    pub data_bytes: Option<u64>,
    /// Worker threads.
    pub threads: Option<u64>,
    /// A setting that differs from the default.
    pub variant: Option<String>,
    /// The stores, EvenDB first.
    pub stores: Vec<StoreRounds>,
}

/// The rounds of one store in one cell.
#[derive(Clone, Debug, Default)]
pub struct StoreRounds {
    /// The store's name.
    pub store: String,
    /// What was measured.
    pub rounds: Vec<Round>,
}

/// One measurement.
#[derive(Clone, Debug)]
pub struct Round {
    /// From 0.
    pub round: u64,
    /// Whether it was ended early.
    pub interrupted: bool,
    /// [`crate::report::PhaseResult::to_json`].
    pub phase: Value,
}

/// What was not measured, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// As in [`Cell`].
    pub experiment: String,
    /// The cell's name.
    pub cell: String,
    /// The store's name.
    pub store: String,
    /// The round, if one was named.
    pub round: Option<u64>,
    /// The reason.
    pub why: String,
}

impl StoreRounds {
    /// The rounds that were finished.
    pub fn finished(&self) -> impl Iterator<Item = &Round> {
        self.rounds.iter().filter(|round| !round.interrupted)
    }
}

impl Cell {
    /// The median and spread of a quantity over the finished rounds of a store that have it.
    #[must_use]
    pub fn spread(&self, store: &str, quantity: Quantity) -> Option<Spread> {
        let rounds = self.stores.iter().find(|one| one.store == store)?;
        let values = rounds.finished();
        Spread::of(values.filter_map(|round| quantity.of(self, &round.phase)))
    }

    /// The best median among the stores that `wanted` names.
    #[must_use]
    pub fn best(
        &self,
        quantity: Quantity,
        wanted: impl Fn(&str) -> bool,
    ) -> Option<(&str, Spread)> {
        let candidates = self.stores.iter().filter(|one| wanted(&one.store));
        let measured = candidates
            .filter_map(|one| Some((one.store.as_str(), self.spread(&one.store, quantity)?)));
        measured.reduce(|best, next| {
            let better = if quantity.more_is_better() {
                next.1.median > best.1.median
            } else {
                next.1.median < best.1.median
            };
            if better { next } else { best }
        })
    }

    /// EvenDB's median by the best peer's, with the peer's name.
    #[must_use]
    pub fn ratio_to_best_peer(&self, quantity: Quantity) -> Option<(f64, &str)> {
        let own = self.spread(stores::OWN, quantity)?;
        let (peer, best) = self.best(quantity, stores::is_peer)?;
        (best.median > 0.0).then(|| (own.median / best.median, peer))
    }

    fn new(experiment: &str, name: &str) -> Cell {
        let mut parts = name.split('/').map(str::to_owned);
        let mut cell = Cell {
            experiment: experiment.to_owned(),
            name: name.to_owned(),
            ..Cell::default()
        };
        // `P/zipf-composite/512MiB`, as a cell that was only skipped has nothing else to go by.
        if let (Some(mix), Some(distribution), Some(size)) =
            (parts.next(), parts.next(), parts.next())
            && let Some(bytes) = parse_bytes(&size)
        {
            cell.mix = Some(mix);
            cell.distribution = Some(distribution);
            cell.data_bytes = Some(bytes);
        }
        cell
    }

    fn describe(&mut self, line: &Map<String, Value>) {
        let text = |name: &str| line.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| line.get(name).and_then(Value::as_u64);
        let theta = line.get("theta").and_then(Value::as_f64);
        self.mix = text("mix").or(self.mix.take());
        self.distribution = text("distribution").or(self.distribution.take());
        self.variant = text("variant").or(self.variant.take());
        self.theta = theta.or(self.theta);
        self.data_bytes = number("data_bytes").or(self.data_bytes);
        self.threads = number("threads").or(self.threads);
    }
}

impl Results {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, is damaged before its last line, or has no results.
    pub fn read(path: &Path) -> Result<Results, ReportError> {
        let bytes = fs::read(path).map_err(|error| ReportError::Read(path.to_path_buf(), error))?;
        Self::parse(&bytes).map_err(|error| match error {
            ParseError::Empty => ReportError::Empty(path.to_path_buf()),
            ParseError::Damaged(line, why) => ReportError::Damaged {
                path: path.to_path_buf(),
                line,
                why,
            },
        })
    }

    fn parse(bytes: &[u8]) -> Result<Results, ParseError> {
        let lines: Vec<(usize, &[u8])> = bytes
            .split(|&byte| byte == b'\n')
            .enumerate()
            .map(|(index, line)| (index + 1, line.trim_ascii()))
            .filter(|(_, line)| !line.is_empty())
            .collect();
        let mut results = Results::default();
        let mut cut = Vec::new();
        for (position, &(number, line)) in lines.iter().enumerate() {
            match serde_json::from_slice::<Map<String, Value>>(line) {
                Ok(object) => results
                    .add(&object)
                    .map_err(|why| ParseError::Damaged(number, why))?,
                Err(error) if error.is_eof() => cut.push(number.to_string()),
                Err(_) if position + 1 == lines.len() => cut.push(number.to_string()),
                Err(error) => {
                    let why = format!("not a JSON object ({error})");
                    return Err(ParseError::Damaged(number, why));
                }
            }
        }
        if !cut.is_empty() {
            results.notes.push(format!(
                "Lines of the results that were broken off were ignored: {}.",
                cut.join(", ")
            ));
        }
        results.finish();
        match results.cells.is_empty() {
            true => Err(ParseError::Empty),
            false => Ok(results),
        }
    }

    fn add(&mut self, line: &Map<String, Value>) -> Result<(), String> {
        match line.get("kind").and_then(Value::as_str) {
            Some("run") => self.add_run(line),
            Some("cell") => self.add_cell(line),
            Some("skipped") => self.add_skipped(line),
            Some(_) => Ok(()),
            None => Err("an object without `kind`".to_owned()),
        }
    }

    fn add_run(&mut self, line: &Map<String, Value>) -> Result<(), String> {
        if let Some(version) = line.get("version").and_then(Value::as_u64)
            && version != VERSION
        {
            return Err(format!(
                "results of version {version}, of which only {VERSION} is known"
            ));
        }
        let mut next = line.clone();
        if let Some(Value::Object(settings)) = next.remove("settings") {
            for (name, value) in settings {
                next.entry(name).or_insert(value);
            }
        }
        let differs = |name: &&&str| self.run.get(**name) != next.get(**name);
        let decisive = [
            "scale",
            "quick",
            "memory_bytes",
            "memory_limit",
            "durability",
        ];
        if !self.run.is_empty() {
            for name in decisive.iter().filter(differs) {
                self.notes.push(format!(
                    "Results of runs that differ in `{name}` are mixed here."
                ));
            }
        }
        // Settings of stores that only an earlier run had are still those of its cells.
        if let (Some(Value::Object(earlier)), Some(Value::Object(stores))) =
            (self.run.get("stores"), next.get_mut("stores"))
        {
            for (store, settings) in earlier {
                stores.entry(store).or_insert_with(|| settings.clone());
            }
        }
        self.run = next;
        Ok(())
    }

    fn cell(&mut self, experiment: &str, name: &str) -> &mut Cell {
        let same = |cell: &Cell| cell.experiment == experiment && cell.name == name;
        let index = self.cells.iter().position(same).unwrap_or_else(|| {
            self.cells.push(Cell::new(experiment, name));
            self.cells.len() - 1
        });
        &mut self.cells[index]
    }

    fn add_cell(&mut self, line: &Map<String, Value>) -> Result<(), String> {
        let [experiment, name, store] = names(line, "cell")?;
        let phase = line.get("phase").filter(|phase| phase.is_object());
        let phase = phase.ok_or("a cell without `phase`")?;
        let next = Round {
            round: line.get("round").and_then(Value::as_u64).unwrap_or(0),
            interrupted: phase["interrupted"].as_bool() == Some(true),
            phase: with_beside(phase, line),
        };
        let cell = self.cell(&experiment, &name);
        cell.describe(line);
        let rounds = cell.rounds_of(&store);
        match rounds.iter_mut().find(|round| round.round == next.round) {
            Some(round) if next.interrupted && !round.interrupted => {}
            Some(round) => *round = next,
            None => rounds.push(next),
        }
        Ok(())
    }

    fn add_skipped(&mut self, line: &Map<String, Value>) -> Result<(), String> {
        let [experiment, cell, store] = names(line, "skipped cell")?;
        let why = line.get("why").and_then(Value::as_str);
        let skipped = Skipped {
            why: why.unwrap_or("no reason given").to_owned(),
            round: line.get("round").and_then(Value::as_u64),
            experiment,
            cell,
            store,
        };
        let cell = self.cell(&skipped.experiment, &skipped.cell);
        cell.describe(line);
        cell.rounds_of(&skipped.store);
        self.skipped.push(skipped);
        Ok(())
    }

    fn finish(&mut self) {
        for cell in &mut self.cells {
            cell.stores.sort_by_key(|one| stores::rank(&one.store));
        }
        let mut kept: Vec<Skipped> = Vec::new();
        for one in self.skipped.drain(..) {
            let cell = (self.cells.iter())
                .find(|cell| cell.experiment == one.experiment && cell.name == one.cell);
            let rounds = cell.and_then(|cell| cell.stores.iter().find(|s| s.store == one.store));
            let measured = rounds.is_some_and(|rounds| {
                rounds
                    .finished()
                    .any(|round| one.round.is_none_or(|skipped| skipped == round.round))
            });
            if !measured && !kept.contains(&one) {
                kept.push(one);
            }
        }
        self.skipped = kept;
    }

    /// The names of all stores, EvenDB first, then those that are known in a fixed order.
    #[must_use]
    pub fn stores(&self) -> Vec<&str> {
        stores::of(&self.cells)
    }

    /// The memory that the stores had; a gibibyte if the run does not say.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let stated = self.run.get("memory_bytes").and_then(Value::as_u64);
        stated.filter(|&bytes| bytes > 0).unwrap_or(1 << 30)
    }
}

impl Cell {
    fn rounds_of(&mut self, store: &str) -> &mut Vec<Round> {
        let same = |one: &StoreRounds| one.store == store;
        let index = self.stores.iter().position(same).unwrap_or_else(|| {
            self.stores.push(StoreRounds {
                store: store.to_owned(),
                rounds: Vec::new(),
            });
            self.stores.len() - 1
        });
        &mut self.stores[index].rounds
    }
}

#[derive(Debug, PartialEq, Eq)]
enum ParseError {
    Empty,
    Damaged(usize, String),
}

/// The phase with what the run measured beside it.
fn with_beside(phase: &Value, line: &Map<String, Value>) -> Value {
    let mut phase = phase.clone();
    for name in ["disk_bytes", "live_bytes", "space_course"] {
        if let (Some(object), Some(value)) = (phase.as_object_mut(), line.get(name)) {
            object.entry(name).or_insert_with(|| value.clone());
        }
    }
    phase
}

fn names(line: &Map<String, Value>, what: &str) -> Result<[String; 3], String> {
    let text = |name: &str| match line.get(name).and_then(Value::as_str) {
        Some(text) => Ok(text.to_owned()),
        None => Err(format!("a {what} without `{name}`")),
    };
    Ok([text("experiment")?, text("cell")?, text("store")?])
}

/// `512MiB`, `4 GiB`, `256K`, ...
#[must_use]
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = text[..digits].parse().ok()?;
    let shift = match text[digits..].trim() {
        "B" => 0,
        "K" | "KB" | "KiB" => 10,
        "M" | "MB" | "MiB" => 20,
        "G" | "GB" | "GiB" => 30,
        "T" | "TB" | "TiB" => 40,
        _ => return None,
    };
    Some((number * f64::from(1 << (shift % 30)) * (1u64 << (shift / 30 * 30)) as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper_report::fixture;

    fn line(store: &str, round: u64, rate: f64, interrupted: bool) -> String {
        fixture::cell("figure-6", "P/uniform/1GiB", store, round)
            .with("mix", "P")
            .phase(serde_json::json!({
                "operations_per_second": rate, "interrupted": interrupted
            }))
            .to_string()
    }

    #[test]
    fn rounds_become_median_and_spread() {
        let lines = [
            line("evendb", 0, 3e5, false),
            line("evendb", 1, 1e5, false),
            line("evendb", 2, 8e5, false),
            line("fjall", 0, 2e5, false),
            line("fjall", 1, 1e5, false),
        ];
        let results = Results::parse(lines.join("\n").as_bytes()).unwrap();
        let cell = &results.cells[0];
        let spread = cell.spread("evendb", Quantity::Throughput).unwrap();
        assert_eq!(
            (spread.median, spread.low, spread.high, spread.rounds),
            (3e5, 1e5, 8e5, 3)
        );
        let ratio = cell.ratio_to_best_peer(Quantity::Throughput);
        assert_eq!(ratio, Some((2.0, "fjall")));
        assert_eq!(cell.data_bytes, Some(1 << 30));
    }

    #[test]
    fn interrupted_rounds_do_not_count_and_finished_ones_replace_them() {
        let lines = [
            line("evendb", 0, 1.0, true),
            line("evendb", 0, 5.0, false),
            line("evendb", 0, 9.0, true),
            line("fjall", 0, 7.0, true),
        ];
        let results = Results::parse(lines.join("\n").as_bytes()).unwrap();
        let cell = &results.cells[0];
        let median = |store| Some(cell.spread(store, Quantity::Throughput)?.median);
        assert_eq!(median("evendb"), Some(5.0));
        assert_eq!(median("fjall"), None);
        assert_eq!(cell.stores[1].rounds.len(), 1);
    }

    #[test]
    fn only_the_last_line_may_be_broken() {
        let good = line("evendb", 0, 1.0, false);
        let cut = &good[..good.len() / 2];
        let results = Results::parse(format!("{good}\n{cut}").as_bytes()).unwrap();
        assert_eq!(results.cells.len(), 1);
        assert!(results.notes[0].contains("2."), "{:?}", results.notes);
        let text = format!("{good}\n{cut}\n{good}\n");
        let results = Results::parse(text.as_bytes()).unwrap();
        assert!(results.notes[0].contains("2."), "{:?}", results.notes);
        for damaged in [
            "{\"kind\":cell}",
            "[]",
            "{}",
            "\u{fffd}",
            "{\"kind\":\"cell\"}",
        ] {
            let text = format!("{good}\n\n{damaged}\n{good}\n");
            match Results::parse(text.as_bytes()) {
                Err(ParseError::Damaged(3, _)) => {}
                other => panic!("{damaged}: {other:?}"),
            }
        }
        // Every place at which a write can end.
        for end in good.len() + 1..2 * good.len() + 1 {
            let text = format!("{good}\n{good}");
            Results::parse(&text.as_bytes()[..end]).unwrap();
        }
    }

    #[test]
    fn nothing_and_unknown_things_are_told_apart_from_results() {
        assert_eq!(Results::parse(b"").unwrap_err(), ParseError::Empty);
        let run = b"{\"kind\":\"run\",\"version\":1}\n{\"kind\":\"moon\"}\n";
        assert_eq!(Results::parse(run).unwrap_err(), ParseError::Empty);
        let newer = b"{\"kind\":\"run\",\"version\":2}\n";
        assert!(matches!(
            Results::parse(newer),
            Err(ParseError::Damaged(1, why)) if why.contains("version 2")
        ));
    }

    #[test]
    fn what_was_skipped_and_measured_later_is_not_skipped() {
        let skipped = |store: &str| {
            format!(
                "{{\"kind\":\"skipped\",\"experiment\":\"figure-6\",\"cell\":\"P/uniform/1GiB\",\
                 \"store\":\"{store}\",\"round\":0,\"why\":\"slow\"}}"
            )
        };
        let lines = [
            skipped("evendb"),
            skipped("lmdb"),
            skipped("lmdb"),
            line("evendb", 0, 1.0, false),
        ];
        let results = Results::parse(lines.join("\n").as_bytes()).unwrap();
        assert_eq!(results.skipped.len(), 1);
        assert_eq!(results.skipped[0].store, "lmdb");
        assert_eq!(results.stores(), ["evendb", "lmdb"]);
    }

    #[test]
    fn sizes_read_back() {
        assert_eq!(parse_bytes("512MiB"), Some(512 << 20));
        assert_eq!(parse_bytes("1.5 GiB"), Some(3 << 29));
        assert_eq!(parse_bytes("2T"), Some(2 << 40));
        for wrong in ["", "MiB", "12", "1 parsec", "<b>"] {
            assert_eq!(parse_bytes(wrong), None, "{wrong}");
        }
    }
}
