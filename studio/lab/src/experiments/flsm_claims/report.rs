//! The report on a run: `report.md`, beside the `results.jsonl` that it is made from.
//!
//! For each claim: what the slides say; the figures of EvenDB's guards divided by each other
//! store's; and a table of each phase with a row for each store. Figures are medians over rounds. A
//! figure that a store or the system does not give is missing, never zero. A phase that was not
//! measured has the reason.

use super::claims::{CLAIMS, Claim, Phase};
use crate::experiments::markdown::{Entry, Page, Table, or_dash};
use crate::experiments::results_file::{Key, ResultsFile, key_of};
use crate::experiments::table::median;
use crate::experiments::{Failure, at};
use crate::own_output;
use crate::readable;
use serde_json::Value;
use std::collections::HashMap;

use std::path::{Path, PathBuf};

/// The store whose figures are compared with the others'.
const OURS: &str = "guards";

/// The path of a directory's report.
pub fn path(directory: &Path) -> PathBuf {
    directory.join("report.md")
}

/// Writes the report.
///
/// # Errors
/// The errors of the file system.
pub fn write(directory: &Path) -> Result<(), Failure> {
    let lines = ResultsFile::in_directory(directory).lines()?;
    let path = path(directory);
    own_output::replace(&path, &text(&lines)).map_err(at(&path))?;
    Ok(())
}

/// The results by cell and store: one line a round.
struct Results {
    cells: HashMap<(String, String, String), Vec<Value>>,
    stores: Vec<String>,
}

impl Results {
    /// If a round has two lines the later one counts: that claim was measured again.
    fn of(lines: &[Value]) -> Results {
        let mut last: HashMap<Key, Value> = HashMap::new();
        let mut stores: Vec<String> = Vec::new();
        let cells = lines
            .iter()
            .filter(|line| line["kind"] == "cell" || line["kind"] == "skipped");
        for line in cells {
            if let Some(key) = key_of(line) {
                if !stores.contains(&key.2) {
                    stores.push(key.2.clone());
                }
                last.insert(key, line.clone());
            }
        }
        let mut cells: HashMap<_, Vec<Value>> = HashMap::new();
        for ((claim, phase, store, _), line) in last {
            cells.entry((claim, phase, store)).or_default().push(line);
        }
        Results { cells, stores }
    }

    fn lines(&self, claim: &Claim, phase: &Phase, store: &str) -> &[Value] {
        let key = (claim.name.into(), phase.name.into(), store.into());
        self.cells.get(&key).map_or(&[], Vec::as_slice)
    }

    /// The median of a figure over the rounds that were measured.
    fn median(&self, claim: &Claim, phase: &Phase, store: &str, figure: Figure) -> Option<f64> {
        let lines = self.lines(claim, phase, store).iter();
        let measured = lines.filter(|line| line["kind"] == "cell");
        let figures: Vec<f64> = measured.filter_map(figure).collect();
        (!figures.is_empty()).then(|| median(figures))
    }
}

/// A figure of a line, if it has it.
type Figure = fn(&Value) -> Option<f64>;

fn rate(line: &Value) -> Option<f64> {
    line["phase"]["operations_per_second_with_debt"].as_f64()
}

fn rate_without_debt(line: &Value) -> Option<f64> {
    line["phase"]["operations_per_second"].as_f64()
}

fn written(line: &Value) -> Option<f64> {
    line["phase"]["write_amplification_process"].as_f64()
}

/// The slides' SSD, Intel's DC P4600, takes 5 TB a day for 5 years.
const SSD_BYTES: f64 = 5e12 * 365.0 * 5.0;
/// What the slides have a program put in a day.
const PUT_A_DAY_BYTES: f64 = 500e9;

/// Years that the slides' SSD lasts if a program puts that each day, by the write amplification.
fn ssd_years(line: &Value) -> Option<f64> {
    let written = written(line).filter(|written| *written > 0.0)?;
    Some(SSD_BYTES / (PUT_A_DAY_BYTES * written) / 365.0)
}

fn processor_seconds(usage: &Value) -> Option<f64> {
    Some(usage["user_seconds"].as_f64()? + usage["system_seconds"].as_f64()?)
}

/// Processor time of an operation, in microseconds, with the debt.
fn processor_micros(line: &Value) -> Option<f64> {
    let phase = &line["phase"];
    let operations = phase["operations"].as_f64().filter(|all| *all > 0.0)?;
    Some(processor_seconds(&phase["process_settled"])? * 1e6 / operations)
}

/// The number of processors in use while the workers ran.
fn processors(line: &Value) -> Option<f64> {
    let phase = &line["phase"];
    let seconds = phase["seconds"].as_f64().filter(|all| *all > 0.0)?;
    Some(processor_seconds(&phase["process"])? / seconds)
}

fn space(line: &Value) -> Option<f64> {
    let live = line["live_bytes"].as_f64().filter(|live| *live > 0.0)?;
    Some(line["disk_bytes"].as_f64()? / live)
}

/// The latency of the kind of operation that the phase is about. If there are several kinds, that
/// of gets.
fn latency_micros(line: &Value, quantile: &str) -> Option<f64> {
    let all = line["phase"]["latency_nanos"].as_object()?;
    let kinds = ["get", "scan", "put", "delete"];
    let latency = kinds.iter().find_map(|kind| all.get(*kind))?;
    Some(latency[quantile].as_f64()? / 1e3)
}

fn peak_mib(line: &Value) -> Option<f64> {
    let bytes = line["phase"]["process_settled"]["resident_bytes_max"].as_f64()?;
    Some(bytes / f64::from(1 << 20))
}

/// The columns of a phase's table after the store's name.
const COLUMNS: [(&str, Figure); 10] = [
    ("kop/s", |line| Some(rate(line)? / 1e3)),
    ("without debt", |line| Some(rate_without_debt(line)? / 1e3)),
    ("processor us/op", processor_micros),
    ("processors", processors),
    ("p50 us", |line| latency_micros(line, "p50")),
    ("p99 us", |line| latency_micros(line, "p99")),
    ("written/put", written),
    ("SSD years", ssd_years),
    ("space/live", space),
    ("peak MiB", peak_mib),
];

const METHOD: &str = "Figures are medians over rounds. kop/s: thousands of operations a second, the time of paying what the phase left \
     owed included; without debt: by the time of the phase alone. Processor us/op: processor time of the whole process, the paying \
     included, by operations; processors: how many were in use while the phase ran. p50 and p99: of gets, where there are any, else of \
     scans, puts or deletes. written/put: bytes that the kernel counts as written by the process and not cancelled, the paying included, by bytes \
     of keys and values put and of keys deleted. SSD years: how long the slides' SSD lasts, which takes 5 TB a day for 5 years, if 500 GB are put each \
     day and written/put is as here. space/live: allocated bytes of the store's files by those of the keys and values that are there. Peak: the \
     most resident memory of the process until then, files that it maps among it. Pairs have the slides' bytes: keys are two bytes shorter, values two longer.";

/// The whole page.
fn text(lines: &[Value]) -> String {
    let results = Results::of(lines);
    let mut page = Page::default();
    page.heading(
        1,
        "What is claimed of fragmented log-structured merge trees, measured",
    );
    let run = lines.iter().rfind(|line| line["kind"] == "run");
    if let Some(run) = run {
        let limit = run["memory_limit"].as_str().unwrap_or("unknown");
        page.list(&[
            format!("settings: {}", each(&run["settings"])),
            format!("limit of memory: {limit}"),
            format!("machine: {}", each(&run["machine"])),
        ]);
    }
    page.paragraph(METHOD);
    for claim in &CLAIMS {
        let has = |store: &String| {
            let mut phases = claim.phases.iter();
            phases.any(|phase| !results.lines(claim, phase, store).is_empty())
        };
        let stores: Vec<&String> = results.stores.iter().filter(|store| has(store)).collect();
        if stores.is_empty() {
            continue;
        }
        page.heading(2, claim.name);
        page.paragraph(&format!("{}.", claim.says));
        if let Some(scale) = run.and_then(|run| run["settings"]["scale"].as_f64()) {
            let (pairs, memory) = (claim.pairs(scale), claim.memory_bytes(scale));
            page.paragraph(&format!(
                "Here: {} pairs, {} of memory.",
                readable::grouped(pairs),
                readable::bytes(memory)
            ));
        }
        page.table(&beside(&results, claim, &stores));
        for phase in claim.phases {
            page.table(&phase_table(&results, claim, phase, &stores));
        }
    }
    page.into_text()
}

/// The fields of an object that say something, on one line.
fn each(object: &Value) -> String {
    let fields = object.as_object().into_iter().flatten();
    let told = fields.filter(|(_, value)| !value.is_null());
    let told = told.map(|(name, value)| match value.as_str() {
        Some(text) => format!("{name} {text}"),
        None => format!("{name} {value}"),
    });
    told.collect::<Vec<_>>().join(", ")
}

/// The figure of our store divided by each other store's. Above 1, ours is ahead.
fn beside(results: &Results, claim: &Claim, stores: &[&String]) -> Table {
    let others: Vec<&&String> = stores.iter().filter(|store| **store != OURS).collect();
    let mut table = Table {
        caption: format!(
            "{OURS} by each other store (rate: higher is better; bytes written: lower is better)"
        ),
        heading: vec!["phase".to_owned()],
        rows: Vec::new(),
    };
    table
        .heading
        .extend(others.iter().map(|store| (**store).clone()));
    for (what, figure) in [("rate", rate as Figure), ("written", written)] {
        for phase in claim.phases {
            let Some(ours) = results.median(claim, phase, OURS, figure) else {
                continue;
            };
            let by = |store: &str| {
                let theirs = results.median(claim, phase, store, figure)?;
                (theirs > 0.0).then(|| format!("{:.2}", ours / theirs))
            };
            let mut row = vec![Entry::from(format!("{}: {what}", phase.name))];
            row.extend(others.iter().map(|store| or_dash(by(store))));
            if others.iter().any(|store| by(store).is_some()) {
                table.rows.push(row);
            }
        }
    }
    table
}

fn phase_table(results: &Results, claim: &Claim, phase: &Phase, stores: &[&String]) -> Table {
    let mut table = Table {
        caption: phase.name.to_owned(),
        heading: vec!["store".to_owned()],
        rows: Vec::new(),
    };
    table
        .heading
        .extend(COLUMNS.map(|(name, _)| name.to_owned()));
    for store in stores {
        let lines = results.lines(claim, phase, store);
        let mut row = vec![Entry::from(store.as_str())];
        let shown = |figure: Figure| results.median(claim, phase, store, figure).map(digits);
        row.extend(COLUMNS.map(|(_, figure)| or_dash(shown(figure))));
        let is_measured = lines.iter().any(|line| line["kind"] == "cell");
        let why = lines.iter().find_map(|line| line["why"].as_str());
        if let Some(why) = why.filter(|_| !is_measured) {
            row[1] = format!("skipped: {why}").into();
        }
        if !lines.is_empty() {
            table.rows.push(row);
        }
    }
    table
}

/// A number with three significant digits.
fn digits(figure: f64) -> String {
    match figure {
        figure if figure < 9.995 => format!("{figure:.2}"),
        figure if figure < 99.95 => format!("{figure:.1}"),
        figure => format!("{figure:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(store: &str, round: usize, rate: f64, written: f64) -> Value {
        json!({
            "kind": "cell", "experiment": "db-bench", "cell": "random fill", "store": store, "round": round,
            "live_bytes": 1000, "disk_bytes": 1250,
            "phase": {
                "operations": 1000, "seconds": 2.0, "operations_per_second": rate * 2.0,
                "operations_per_second_with_debt": rate, "write_amplification_process": written,
                "latency_nanos": { "put": { "p50": 1500, "p99": 9000 } },
                "process": { "user_seconds": 1.0, "system_seconds": 2.0 },
                "process_settled": { "user_seconds": 2.0, "system_seconds": 2.0, "resident_bytes_max": 3 << 20 },
            },
        })
    }

    #[test]
    fn medians_stand_beside_each_other_and_later_lines_count() {
        let mut lines = vec![
            json!({ "kind": "run", "settings": { "scale": 0.0625 }, "memory_limit": "cgroup v2" }),
        ];
        // A second measurement of the same round replaces the first one of guards.
        lines.push(line("guards", 0, 1.0, 99.0));
        for (round, (ours, theirs)) in [(80e3, 20e3), (60e3, 40e3), (70e3, 35e3)]
            .iter()
            .enumerate()
        {
            lines.push(line("guards", round, *ours, 3.0));
            lines.push(line("rocksdb", round, *theirs, 9.0));
        }
        let skipped = json!({ "kind": "skipped", "experiment": "db-bench", "cell": "random fill",
            "store": "leveldb", "round": 0, "why": "it was killed" });
        lines.push(skipped);
        let text = text(&lines);
        assert!(text.contains("| random fill: rate | 2.00 | - |"), "{text}");
        assert!(
            text.contains("| random fill: written | 0.33 | - |"),
            "{text}"
        );
        // 500 GB a day, three times: 1.5 of the 5 TB a day that the SSD takes for 5 years.
        let row = "| guards | 70.0 | 140 | 4000 | 1.50 | 1.50 | 9.00 | 3.00 | 16.7 | 1.25 | 3.00 |";
        assert!(text.contains(row), "{text}");
        assert!(
            text.contains("| leveldb | skipped: it was killed | - |"),
            "{text}"
        );
        assert!(
            text.contains("Here: 3,125,000 pairs, 1.00 GiB of memory."),
            "{text}"
        );
        assert!(!text.contains("## aged"), "{text}");
    }
}
