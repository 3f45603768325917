//! The results of a run, grouped by cell and store, from the lines of `results.jsonl`.
//!
//! [`crate::experiments::results_file`] describes the lines. A line that was broken off is ignored
//! and noted: its process was killed while it wrote, and the next process began a new line. A last
//! line that is broken in any way is ignored too, since the run may go on. Other broken lines are
//! an error that names them. Unknown kinds and members are ignored.
//!
//! If a (cell, store, round) has several measurements, the last one counts. That it was skipped
//! counts only while there is no measurement.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::quantity::{Quantity, Spread};
use super::stores;
use crate::course;

/// The only version of the format.
const VERSION: u64 = 1;

/// The order of the paper's figures. Other mixes come after these.
const MIXES: [&str; 12] = [
    "P", "A", "B", "C", "D", "E10", "E100", "E1000", "F", "ingest", "scans", "load",
];
const DISTRIBUTIONS: [&str; 4] = ["zipf-composite", "zipf-simple", "latest", "uniform"];

/// A run's results.
#[derive(Clone, Debug, Default)]
pub struct RunResults {
    /// The last `run` line with its settings among the other members; empty if there was none.
    pub run: Map<String, Value>,
    /// The cells by mix, distribution and size.
    pub cells: Vec<CellResults>,
    /// What a reader should know of the file itself.
    pub notes: Vec<String>,
}

/// One workload at one size, with the rounds of each store.
#[derive(Clone, Debug, Default)]
pub struct CellResults {
    /// `figure-6`, `load`, ...
    pub experiment: String,
    /// The cell's own name.
    pub name: String,
    /// `P`, `A`, ...; empty if the line does not say.
    pub mix: String,
    /// `zipf-composite`, ...; empty if the line does not say.
    pub distribution: String,
    /// The skew.
    pub theta: f64,
    /// Bytes of keys and values; zero if the line does not say.
    pub data_bytes: u64,
    /// Worker threads; zero if the line does not say.
    pub threads: u64,
    /// A setting that differs from the default.
    pub variant: Option<String>,
    /// The stores, EvenDB first.
    pub stores: Vec<StoreRounds>,
}

/// The rounds of one store in one cell: the line of each, or why it was skipped.
#[derive(Clone, Debug, Default)]
pub struct StoreRounds {
    /// The store's name.
    pub store: String,
    /// By number, from 0.
    pub rounds: BTreeMap<u64, Result<Value, String>>,
}

impl StoreRounds {
    /// The lines of the rounds that were measured.
    pub fn measured(&self) -> impl Iterator<Item = &Value> {
        self.rounds.values().filter_map(|round| round.as_ref().ok())
    }

    /// The number of measured rounds in which the rate still fell at the end.
    pub fn falling(&self) -> usize {
        self.measured().filter(|line| still_falls(line)).count()
    }
}

/// Whether the rate still fell when the phase of this line ended. It is judged by the line's
/// course, so it works for results that do not say it.
fn still_falls(line: &Value) -> bool {
    let steps = line["phase"]["course"].as_array().into_iter().flatten();
    let steps = steps.filter_map(|step| Some((step[0].as_f64()?, step[1].as_u64()?)));
    let steps: Vec<(f64, u64)> = steps.collect();
    course::fifths(&steps).is_some_and(|fifths| fifths.falls)
}

impl CellResults {
    fn new(line: &Value, experiment: &str, name: &str) -> CellResults {
        let text = |member: &str| line[member].as_str().unwrap_or_default().to_owned();
        CellResults {
            experiment: experiment.to_owned(),
            name: name.to_owned(),
            mix: text("mix"),
            distribution: text("distribution"),
            theta: line["theta"].as_f64().unwrap_or_default(),
            data_bytes: line["data_bytes"].as_u64().unwrap_or_default(),
            threads: line["threads"].as_u64().unwrap_or_default(),
            variant: line["variant"].as_str().map(str::to_owned),
            stores: Vec::new(),
        }
    }

    /// Mix and distribution.
    pub fn does(&self) -> (&str, &str) {
        (&self.mix, &self.distribution)
    }

    /// The workload without the size: mix and distribution, or the cell's own name.
    pub fn workload(&self) -> String {
        let mix = &self.mix;
        match self.distribution.as_str() {
            _ if mix.is_empty() => self.name.clone(),
            "event-log" => format!("event log: {mix}"),
            "key order" | "random order" => format!("{mix} in {}", self.distribution),
            "" => mix.clone(),
            distribution => format!("{mix} {distribution}"),
        }
    }

    /// The name of a row: the workload, its size, and what else its experiment varies.
    pub fn label(&self) -> String {
        let mut label = self.workload();
        if self.data_bytes > 0 {
            label += &format!(", {}", size(self.data_bytes));
        }
        match self.experiment.as_str() {
            "figure-10" => label += &format!(", theta {:.2}", self.theta),
            "figure-11" | "table-4" => label += &format!(", {} threads", self.threads),
            _ => {}
        }
        self.variant
            .iter()
            .fold(label, |label, variant| format!("{label}, {variant}"))
    }

    fn rounds_of(&mut self, store: &str) -> &mut StoreRounds {
        let index = self.stores.iter().position(|one| one.store == store);
        let index = index.unwrap_or_else(|| {
            self.stores.push(StoreRounds {
                store: store.to_owned(),
                ..StoreRounds::default()
            });
            self.stores.len() - 1
        });
        &mut self.stores[index]
    }

    fn order(&self) -> impl Ord + use<> {
        let place = |names: &[&str], name: &str| {
            let known = names.iter().position(|one| *one == name);
            (known.unwrap_or(names.len()), name.to_owned())
        };
        (
            place(&MIXES, &self.mix),
            place(&DISTRIBUTIONS, &self.distribution),
            self.data_bytes,
            (self.theta * 1e4) as u64,
            self.threads,
        )
    }

    /// Whether any round left a debt: its rates with and without debt differ.
    pub fn had_debt(&self) -> bool {
        let mut lines = self.stores.iter().flat_map(StoreRounds::measured);
        lines.any(|line| Quantity::RateWithDebt.of(line) != Quantity::RateWithoutDebt.of(line))
    }

    /// The median and spread of a quantity over the rounds of a store that have it.
    pub fn spread(&self, store: &str, quantity: Quantity) -> Option<Spread> {
        self.spread_by(store, |line| quantity.of(line))
    }

    /// As [`CellResults::spread`], for any figure that `figure` takes from the line of a round.
    pub fn spread_by(&self, store: &str, figure: impl Fn(&Value) -> Option<f64>) -> Option<Spread> {
        let rounds = self.stores.iter().find(|one| one.store == store)?;
        Spread::of(rounds.measured().filter_map(figure))
    }

    /// The best median among the stores that `wanted` names.
    pub fn best(&self, quantity: Quantity, wanted: impl Fn(&str) -> bool) -> Option<(&str, f64)> {
        let medians = (self.stores.iter().filter(|one| wanted(&one.store))).filter_map(|one| {
            let spread = self.spread(&one.store, quantity)?;
            Some((one.store.as_str(), spread.median))
        });
        medians.reduce(|best, next| {
            let better = match quantity.more_is_better() {
                true => next.1 > best.1,
                false => next.1 < best.1,
            };
            if better { next } else { best }
        })
    }

    /// EvenDB's median divided by the best median among the stores that `wanted` names, with the
    /// name of the best.
    pub fn ratio_to_best(
        &self,
        quantity: Quantity,
        wanted: impl Fn(&str) -> bool,
    ) -> Option<(f64, &str)> {
        let own = self.spread(stores::OWN, quantity)?;
        let (peer, best) = self.best(quantity, wanted)?;
        (best > 0.0).then(|| (own.median / best, peer))
    }
}

/// Why lines are no results. Shown after the name of the file.
#[derive(Debug, PartialEq, Eq)]
pub enum ParseError {
    /// No cell was measured or skipped.
    Empty,
    /// The number of a line (from 1) that does not follow the format, and why.
    Damaged(usize, String),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(
                f,
                " has no results: no cell was finished or skipped yet; `experiment paper` with \
                 --out and this directory measures"
            ),
            Self::Damaged(line, why) => write!(f, ", line {line}: {why}; mend or remove the line"),
        }
    }
}

impl RunResults {
    /// Reads the whole file's bytes.
    ///
    /// # Errors
    /// It is damaged before its last line, or has no results.
    pub fn parse(bytes: &[u8]) -> Result<RunResults, ParseError> {
        let lines = bytes.split(|&byte| byte == b'\n').enumerate();
        let lines: Vec<(usize, &[u8])> = lines
            .map(|(index, line)| (index + 1, line.trim_ascii()))
            .filter(|(_, line)| !line.is_empty())
            .collect();
        let last = lines.last().map(|(number, _)| *number);
        let mut results = RunResults::default();
        for &(number, line) in &lines {
            let damaged = |why| ParseError::Damaged(number, why);
            match serde_json::from_slice::<Map<String, Value>>(line) {
                Ok(line) => results.add(line).map_err(damaged)?,
                Err(error) if error.is_eof() || Some(number) == last => {
                    let note =
                        format!("Line {number} of the results was broken off, and is ignored.");
                    results.notes.push(note);
                }
                Err(error) => return Err(damaged(format!("not a JSON object ({error})"))),
            }
        }
        for cell in &mut results.cells {
            cell.stores.sort_by_key(|one| stores::rank(&one.store));
        }
        results.cells.sort_by_key(CellResults::order);
        match results.cells.is_empty() {
            true => Err(ParseError::Empty),
            false => Ok(results),
        }
    }

    fn add(&mut self, line: Map<String, Value>) -> Result<(), String> {
        match line.get("kind").and_then(Value::as_str) {
            Some("run") => self.add_run(line),
            Some("cell") => match line.get("phase").is_some_and(Value::is_object) {
                true => self.add_round(Value::Object(line), None),
                false => Err("a cell without `phase`".to_owned()),
            },
            Some("skipped") => {
                let why = line.get("why").and_then(Value::as_str);
                let why = why.unwrap_or("no reason given").to_owned();
                self.add_round(Value::Object(line), Some(why))
            }
            Some(_) => Ok(()),
            None => Err("an object without `kind`".to_owned()),
        }
    }

    fn add_run(&mut self, mut line: Map<String, Value>) -> Result<(), String> {
        match line.get("version").and_then(Value::as_u64) {
            None | Some(VERSION) => {}
            Some(other) => {
                let why = format!("results of version {other}, and only {VERSION} is known");
                return Err(why);
            }
        }
        if let Some(Value::Object(settings)) = line.remove("settings") {
            line.extend(settings);
        }
        for name in ["memory_bytes", "memory_limit", "durability", "machine"] {
            if !self.run.is_empty() && self.run.get(name) != line.get(name) {
                let note = format!("Results of runs that differ in `{name}` are mixed here.");
                self.notes.push(note);
            }
        }
        self.run = line;
        Ok(())
    }

    fn add_round(&mut self, line: Value, skipped: Option<String>) -> Result<(), String> {
        let text = |name: &str| match line[name].as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(format!("a cell without `{name}`")),
        };
        let [experiment, name, store] = [text("experiment")?, text("cell")?, text("store")?];
        let same = |cell: &CellResults| cell.experiment == experiment && cell.name == name;
        let index = self.cells.iter().position(same).unwrap_or_else(|| {
            self.cells.push(CellResults::new(&line, &experiment, &name));
            self.cells.len() - 1
        });
        let rounds = &mut self.cells[index].rounds_of(&store).rounds;
        let number = line["round"].as_u64().unwrap_or(0);
        match skipped {
            None => {
                rounds.insert(number, Ok(line));
            }
            Some(why) if !matches!(rounds.get(&number), Some(Ok(_))) => {
                rounds.insert(number, Err(why));
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// The memory that the stores had; a gibibyte if the run does not say.
    pub fn memory_bytes(&self) -> u64 {
        let stated = self.run.get("memory_bytes").and_then(Value::as_u64);
        stated.filter(|&bytes| bytes > 0).unwrap_or(1 << 30)
    }

    /// Cells that were skipped and not measured afterwards: cell, store, round and reason.
    pub fn skipped(&self) -> Vec<(&CellResults, &str, u64, &str)> {
        let pairs = (self.cells.iter()).flat_map(|cell| cell.stores.iter().map(move |s| (cell, s)));
        let rounds = pairs.flat_map(|(cell, one)| {
            let skipped = one.rounds.iter();
            skipped.filter_map(move |(&round, outcome)| match outcome {
                Ok(_) => None,
                Err(why) => Some((cell, one.store.as_str(), round, why.as_str())),
            })
        });
        rounds.collect()
    }
}

/// The stores of these cells, in order.
pub fn stores_of<'a>(cells: &[&'a CellResults]) -> Vec<&'a str> {
    let all = cells.iter().flat_map(|cell| &cell.stores);
    let mut stores: Vec<&str> = all.map(|one| one.store.as_str()).collect();
    stores.sort_by_key(|store| stores::rank(store));
    stores.dedup();
    stores
}

/// A size in its shortest form: `512 MiB`, `1.5 GiB`.
pub fn size(bytes: u64) -> String {
    let long = crate::readable::bytes(bytes);
    match long.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            let number = number.trim_end_matches('0').trim_end_matches('.');
            format!("{number} {unit}")
        }
        _ => long,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::paper::report::tests as fixture;
    use serde_json::json;

    fn line(store: &str, round: u64, rate: f64) -> String {
        let phase = json!({ "operations_per_second": rate });
        fixture::line("figure-6", "P/uniform/1GiB", store, round, phase).to_string()
    }

    fn parse(lines: &[String]) -> RunResults {
        RunResults::parse(lines.join("\n").as_bytes()).unwrap()
    }

    #[test]
    fn rounds_become_median_and_spread() {
        let lines = [("evendb", [3e5, 1e5, 8e5]), ("fjall", [2e5, 1e5, 1.5e5])];
        let lines =
            lines.map(|(store, rates)| [0, 1, 2].map(|i| line(store, i, rates[i as usize])));
        let results = parse(&lines.concat());
        let cell = &results.cells[0];
        let spread = cell.spread("evendb", Quantity::RateWithDebt);
        let shown = spread.map(|spread| spread.show(Quantity::RateWithDebt));
        assert_eq!(shown.as_deref(), Some("300 (100 to 800)"));
        let ratio = cell.ratio_to_best(Quantity::RateWithDebt, stores::is_peer);
        assert_eq!(ratio, Some((2.0, "fjall")));
    }

    #[test]
    fn only_the_last_line_may_be_broken() {
        let good = line("evendb", 0, 1.0);
        let cut = good[..good.len() / 2].to_owned();
        for lines in [
            vec![good.clone(), cut.clone()],
            vec![good.clone(), cut, good.clone()],
        ] {
            let results = parse(&lines);
            assert_eq!(results.cells.len(), 1);
            assert!(results.notes[0].contains("Line 2 "), "{:?}", results.notes);
        }
        for damaged in [
            "{\"kind\":cell}",
            "[]",
            "{}",
            "\u{fffd}",
            "{\"kind\":\"cell\"}",
        ] {
            let text = format!("{good}\n\n{damaged}\n{good}\n");
            match RunResults::parse(text.as_bytes()) {
                Err(ParseError::Damaged(3, _)) => {}
                other => panic!("{damaged}: {other:?}"),
            }
        }
        // Every place at which a write can end.
        for end in good.len() + 1..2 * good.len() + 1 {
            let text = format!("{good}\n{good}");
            RunResults::parse(&text.as_bytes()[..end]).unwrap();
        }
    }

    #[test]
    fn nothing_and_unknown_things_are_told_apart_from_results() {
        let run = "{\"kind\":\"run\",\"version\":1}\n{\"kind\":\"moon\"}\n";
        for empty in ["", "\n\n", "{\"kind\":\"ru", run] {
            let error = RunResults::parse(empty.as_bytes()).unwrap_err();
            assert_eq!(error, ParseError::Empty);
        }
        let newer = b"{\"kind\":\"run\",\"version\":2}\n";
        assert!(matches!(
            RunResults::parse(newer),
            Err(ParseError::Damaged(1, why)) if why.contains("version 2")
        ));
    }

    #[test]
    fn runs_that_differ_are_told() {
        let run = |memory: u64| {
            json!({ "kind": "run", "settings": { "memory_bytes": memory, "seed": memory } })
                .to_string()
        };
        assert!(
            parse(&[run(5), run(5), line("evendb", 0, 1.0)])
                .notes
                .is_empty()
        );
        let mixed = parse(&[run(5), run(6), line("evendb", 0, 1.0)]);
        assert_eq!((mixed.notes.len(), mixed.memory_bytes()), (1, 6));
        assert!(mixed.notes[0].contains("`memory_bytes`"));
    }

    #[test]
    fn what_was_skipped_and_measured_is_not_skipped() {
        let skipped = |store: &str| {
            let line = line(store, 0, 1.0).replace("\"cell\",", "\"skipped\",\"why\":\"slow\",");
            assert!(line.contains("slow"));
            line
        };
        let results = parse(&[
            skipped("evendb"),
            skipped("lmdb"),
            skipped("lmdb"),
            line("evendb", 0, 1.0),
            line("fjall", 0, 1.0),
            skipped("fjall"),
        ]);
        let [(_, "lmdb", 0, "slow")] = results.skipped()[..] else {
            panic!("{:?}", results.skipped());
        };
        let cells: Vec<_> = results.cells.iter().collect();
        assert_eq!(stores_of(&cells), ["evendb", "fjall", "lmdb"]);
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(size(512 << 20), "512 MiB");
        assert_eq!(size(3 << 29), "1.5 GiB");
        assert_eq!(size(100), "100 B");
        assert_eq!(size(10 << 30), "10 GiB");
    }
}
