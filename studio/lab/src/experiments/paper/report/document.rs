//! The whole document: the fastest store of each workload first, then the paper's figures, the
//! method, and what is missing.

use serde_json::{Map, Value};

use super::quantity::{Quantity, figure};
use super::run_results::{CellResults, RunResults, StoreRounds, size};
use super::tables::{marked, times};
use super::{departures, figures, half_memory, stores};
use crate::calibrate::{self, Calibration};
use crate::experiments::markdown::{Entry, Page, Table, or_dash, words};

/// Experiments that vary something other than the workload and its size. They are not in the
/// summary.
const VARYING: [&str; 6] = [
    "departures",
    "figure-10",
    "figure-11",
    "figure-12",
    "table-4",
    "load",
];

const WORKLOADS: &str = "Workloads: P puts only; A half puts, half gets; B 5 % puts, 95 % gets; C gets only; D 5 % \
     insertions, 95 % gets of recent records; E10, E100, E1000 5 % puts, 95 % scans of up to 10, 100 or \
     1000 records; F gets and puts the same key. zipf-simple: a few keys, scattered over all, take most \
     operations; zipf-composite: a few first parts of keys do, so that neighbours are hot together; \
     latest: the newest keys are the hot ones; uniform: all keys alike.";

const DEFINITIONS: [&str; 9] = [
    "Figures are medians of the rounds, with their range in brackets; the best store of a row is bold.",
    "kop/s: thousands of finished operations by wall time, that of paying what the phase owed included; \
     without debt: by the wall time until the last operation, shown where it differs.",
    "falls: the rate still fell when the phase ended (its last fifth is below the fifth before and the \
     middle one by more than the noise), so a longer phase would show less.",
    "Waited: seconds that operations were held up, of all threads together, by cause; only some stores \
     count them. CPU in use: CPU time by that of all cores. MB/s: what the process fetched from storage \
     and sent to it. These are of the phase without its settling.",
    "CPU us/op: user and system time of the whole process, the driver included, by operation. Fetched a \
     read: bytes fetched from storage by gets and scans, with those of reorganisation beside them.",
    "Ideal cache: the reads that the ideal static cache would answer, of the memory that the store was told \
     to use, which stands beside it. EvenDB is told a budget below the limit; what the page cache serves for \
     other stores is within the limit, so theirs is all of it.",
    "Write amplification: bytes the process sent to storage by bytes of keys and values handed in; what \
     a store owes after the run is paid and charged.",
    "Read amplification: bytes of read calls by bytes handed back; reads of mapped files are not calls.",
    "The line of each measurement in results.jsonl, beside this report, has all of its figures, \
     unrounded.",
];

/// The report's text.
pub fn text(results: &RunResults) -> String {
    let mut page = Page::default();
    page.heading(1, "EvenDB and its peers");
    let quick = results.run.get("quick").and_then(Value::as_bool) == Some(true);
    page.paragraph(&format!(
        "The workloads of the EvenDB paper (EuroSys 2020), with {} of memory for each store.{} How \
         it was measured is told near the end.",
        size(results.memory_bytes()),
        if quick {
            " A quick run: for a first look only."
        } else {
            ""
        }
    ));
    page.heading(2, "Summary");
    page.list(&summary(results));
    for note in &results.notes {
        page.paragraph(note);
    }
    page.table(&winners(results));
    page.paragraph(WORKLOADS);
    figures::add(&mut page, results);
    half_memory::add(&mut page, results);
    departures::add(&mut page, results);
    add_method(&mut page, results);
    add_skipped(&mut page, results);
    page.into_text()
}

/// A JSON value for a reader; none for null.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// The cells of the summary: one for each workload and size.
fn main_cells(results: &RunResults) -> Vec<&CellResults> {
    let mut cells: Vec<&CellResults> = Vec::new();
    let key = |cell: &CellResults| (cell.workload(), cell.data_bytes);
    for cell in &results.cells {
        let is_main = cell.variant.is_none() && !VARYING.contains(&cell.experiment.as_str());
        if is_main && !cells.iter().any(|other| key(other) == key(cell)) {
            cells.push(cell);
        }
    }
    cells
}

/// A ratio, the peer, and the cell.
type Compared<'a> = (f64, &'a str, &'a CellResults);

/// How EvenDB fared, in sentences.
pub fn summary(results: &RunResults) -> Vec<String> {
    let cells = main_cells(results).into_iter();
    let all: Vec<Compared<'_>> = cells
        .filter_map(|cell| {
            let (ratio, peer) = cell.ratio_to_best(Quantity::RateWithDebt, stores::is_peer)?;
            Some((ratio, peer, cell))
        })
        .collect();
    let mut sentences = Vec::new();
    if all.is_empty() {
        sentences.push(
            "No cell has figures of EvenDB and of a peer: nothing can be compared yet.".to_owned(),
        );
    } else {
        sentences.push(format!(
            "EvenDB is the fastest store in {} of {} workloads and sizes, debt charged; its throughput \
             is {} times the best peer's in the geometric mean (the best peer is whichever other store \
             is fastest there).",
            ahead(&all),
            all.len(),
            figure(mean(&all))
        ));
        sentences.extend(by_room(results, &all));
        let by_ratio = |a: &&Compared<'_>, b: &&Compared<'_>| a.0.total_cmp(&b.0);
        let told = |(ratio, peer, cell): &Compared<'_>| {
            format!("{}, {} times {peer}", cell.label(), figure(*ratio))
        };
        if let Some(best) = all.iter().max_by(by_ratio).filter(|best| best.0 >= 1.0) {
            sentences.push(format!("Its largest lead: {}.", told(best)));
        }
        if let Some(worst) = all.iter().min_by(by_ratio).filter(|worst| worst.0 < 1.0) {
            sentences.push(format!("It is furthest behind in: {}.", told(worst)));
        }
    }
    sentences.extend(half_memory::summary(results));
    let rounds = || results.cells.iter().flat_map(|cell| &cell.stores);
    let falling: usize = rounds().map(StoreRounds::falling).sum();
    if falling > 0 {
        sentences.push(format!(
            "In {falling} of {} measurements the rate still fell at the end; tables mark them: falls.",
            rounds().map(|one| one.measured().count()).sum::<usize>()
        ));
    }
    let skipped = results.skipped().len();
    if skipped > 0 {
        sentences.push(format!(
            "{skipped} measurements were skipped; the last section lists them."
        ));
    }
    sentences
}

fn ahead(all: &[Compared<'_>]) -> usize {
    all.iter().filter(|(ratio, ..)| *ratio >= 1.0).count()
}

fn mean(all: &[Compared<'_>]) -> f64 {
    let logarithms = (all.iter()).map(|(ratio, ..)| ratio.max(f64::MIN_POSITIVE).ln());
    (logarithms.sum::<f64>() / all.len() as f64).exp()
}

/// The relation of this size to the memory, for headings.
fn room(data_bytes: u64, memory_bytes: u64) -> &'static str {
    match data_bytes {
        bytes if bytes <= memory_bytes / 2 => "at most half of memory",
        bytes if bytes <= memory_bytes => "at most all of memory",
        _ => "more than memory",
    }
}

fn by_room(results: &RunResults, all: &[Compared<'_>]) -> Option<String> {
    let room_of = |one: &Compared<'_>| room(one.2.data_bytes, results.memory_bytes());
    let mut rooms: Vec<(u64, &str)> = (all.iter())
        .map(|one| (one.2.data_bytes, room_of(one)))
        .collect();
    rooms.sort_unstable();
    rooms.dedup_by_key(|(_, room)| *room);
    let told = rooms.iter().map(|(_, room)| {
        let here: Vec<Compared<'_>> = (all.iter().filter(|one| room_of(one) == *room))
            .copied()
            .collect();
        let (ahead, mean) = (ahead(&here), figure(mean(&here)));
        format!("data of {room}: {ahead} of {}, {mean} times", here.len())
    });
    let told: Vec<String> = told.collect();
    (told.len() > 1).then(|| format!("By size: {}.", told.join("; ")))
}

/// Ratios to the best peer: workloads by sizes.
fn winners(results: &RunResults) -> Table {
    let is_compared = |cell: &&CellResults| {
        let ratio = cell.ratio_to_best(Quantity::RateWithDebt, stores::is_peer);
        ratio.is_some() && cell.data_bytes > 0
    };
    let cells: Vec<&CellResults> = main_cells(results)
        .into_iter()
        .filter(is_compared)
        .collect();
    let mut sizes: Vec<u64> = cells.iter().map(|cell| cell.data_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut workloads: Vec<String> = cells.iter().map(|cell| cell.workload()).collect();
    workloads.dedup();
    let memory = results.memory_bytes();
    let mut heading = words(["workload"]);
    let column = |bytes| format!("{}, {}", size(bytes), room(bytes, memory));
    heading.extend(sizes.iter().map(|&bytes| column(bytes)));
    let rows = workloads.iter().map(|workload| {
        let ratios = sizes.iter().map(|&bytes| {
            let mut cells = cells.iter();
            let cell = cells.find(|cell| cell.data_bytes == bytes && cell.workload() == *workload);
            or_dash(cell.and_then(|cell| {
                let (ratio, peer) = cell.ratio_to_best(Quantity::RateWithDebt, stores::is_peer)?;
                let own = cell.stores.iter().find(|one| one.store == stores::OWN);
                Some(marked(own, format!("{} {peer}", times(ratio))))
            }))
        });
        let first: Entry = workload.as_str().into();
        std::iter::once(first).chain(ratios).collect()
    });
    Table {
        caption:
            "EvenDB's throughput, debt charged, divided by that of the best peer, which is named \
                  beside it; columns are sizes of the data"
                .to_owned(),
        rows: rows.collect(),
        heading,
    }
}

fn add_method(page: &mut Page, results: &RunResults) {
    page.heading(2, "How it was measured");
    page.list(&words(DEFINITIONS));
    let run = &results.run;
    let machine = run.get("machine").and_then(Value::as_object);
    page.table(&pairs("The machine", machine.unwrap_or(&Map::new())));
    let mut rest = run.clone();
    rest.retain(|name, _| !["kind", "version", "machine", "limits"].contains(&name.as_str()));
    page.table(&pairs("The run", &rest));
    match run.get("limits").and_then(Calibration::from_json) {
        Some(calibration) => page.table(&limits(results, &calibration)),
        None => page.paragraph("The limits of the machine were not measured in this run."),
    }
}

/// Names and values.
fn pairs(caption: &str, entries: &Map<String, Value>) -> Table {
    let rows = entries.iter().filter_map(|(name, value)| {
        let text = match value {
            Value::Array(all) => Some(all.iter().filter_map(plain).collect::<Vec<_>>().join(", ")),
            _ if name.ends_with("bytes") => value.as_u64().map(size),
            _ => plain(value),
        };
        Some(vec![name.replace('_', " ").into(), text?.into()])
    });
    Table {
        caption: caption.to_owned(),
        heading: words(["", "value"]),
        rows: rows.collect(),
    }
}

/// What the machine can do at best, and the share of it that EvenDB's best cell reached.
fn limits(results: &RunResults, calibration: &Calibration) -> Table {
    let rows = calibrate::limits(calibration).into_iter().map(|limit| {
        let best = best_for(results, limit.name);
        let told = best.map(|(cell, measured)| {
            let share = limit.share(measured);
            format!(
                "{} in {cell}, {share:.2} of the limit",
                limit.unit.show(measured)
            )
        });
        let told = told.unwrap_or_else(|| "not measured in this run".to_owned());
        let value = limit.unit.show(limit.value);
        vec![limit.of.into(), limit.by.into(), value.into(), told.into()]
    });
    Table {
        caption: "Limits of the machine, measured before the run".to_owned(),
        heading: words(["what", "bound by", "limit", "EvenDB's best"]),
        rows: rows.collect(),
    }
}

/// EvenDB's best figure for a limit, in the limit's unit, with the cell's label.
fn best_for(results: &RunResults, limit: &str) -> Option<(String, f64)> {
    // In RAM: the smallest data. Cold: the largest.
    let (mixes, largest) = match limit {
        "get_ram" => (&["C"][..], false),
        "scan_ram" => (&["E100", "E1000"][..], false),
        "gets_cold" => (&["C"][..], true),
        "ingest" => (&["ingest"][..], true),
        _ => return None,
    };
    let mut cells: Vec<&CellResults> = results.cells.iter().collect();
    cells.retain(|cell| mixes.contains(&cell.mix.as_str()) && cell.data_bytes > 0);
    let sizes = || cells.iter().map(|cell| cell.data_bytes);
    let wanted = if largest {
        sizes().max()
    } else {
        sizes().min()
    }?;
    let value = |line: &Value| {
        let phase = &line["phase"];
        let a_second = |figure: &Value| Some(figure.as_f64()? / phase["seconds"].as_f64()?);
        match limit {
            "get_ram" => Quantity::Latency("get", "p50").of(line),
            "scan_ram" => {
                let threads = line["threads"].as_f64().unwrap_or(1.0).max(1.0);
                Some(a_second(&phase["user_bytes_read"])? / threads)
            }
            "ingest" => a_second(&phase["user_bytes_written"]),
            // Only the gets that had to be read: the others cost the disk nothing.
            _ => {
                let read =
                    ["gets.log", "gets.sstable"].map(|name| a_second(&phase["figures"][name]));
                Some(read.into_iter().flatten().sum())
            }
        }
    };
    let found = cells.iter().filter(|cell| cell.data_bytes == wanted);
    let found = found.filter_map(|cell| {
        let median = cell.spread_by(stores::OWN, value)?.median;
        Some((cell.label(), median))
    });
    let less_is_better = limit == "get_ram";
    found.reduce(|best, next| match (next.1 < best.1) == less_is_better {
        true => next,
        false => best,
    })
}

fn add_skipped(page: &mut Page, results: &RunResults) {
    page.heading(2, "What is missing");
    let rows = results
        .skipped()
        .into_iter()
        .map(|(cell, store, round, why)| {
            let cell = format!("{}, {}", cell.experiment, cell.label());
            vec![
                cell.into(),
                store.into(),
                (round + 1).to_string().into(),
                why.into(),
            ]
        });
    let table = Table {
        caption: "Skipped".to_owned(),
        heading: words(["cell", "store", "round", "why"]),
        rows: rows.collect(),
    };
    match table.rows.is_empty() {
        true => page.paragraph("Nothing was skipped."),
        false => page.table(&table),
    }
}
