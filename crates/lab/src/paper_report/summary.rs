//! The whole document: who wins where first, then the paper's figures, then the gap to the targets,
//! how it was measured, and what is missing.

use serde_json::{Map, Value};

use super::arrangement;
use super::document::{Block, Document, Entry, Section, Table, Tone};
use super::gap::{self, Gap, Place};
use super::quantity::{Percentile, Quantity, figure};
use super::results::{Cell, Results};
use super::series::{named, size};
use super::stores::{self, Looks};
use super::tables::{full_label, ratio_entry};
use crate::calibrate::{self, Calibration};

/// Experiments that vary something else than the workload and its size: not in the summary.
const VARYING: [&str; 5] = ["figure-10", "figure-11", "figure-12", "table-4", "load"];

/// What the names of workloads mean.
const WORKLOADS: &str = "Workloads: P puts only; A half puts, half gets; B 5 % puts, 95 % gets; C gets only; D 5 % \
     insertions, 95 % gets of recent records; E10, E100, E1000 5 % puts, 95 % scans of up to so many \
     records; F gets and puts the same key. zipf-simple: a few keys, scattered over all, take most \
     operations; zipf-composite: a few first parts of keys do, so that neighbours are hot together; \
     latest: the newest keys are the hot ones; uniform: all keys alike.";

/// The document of a run.
#[must_use]
pub fn document(results: &Results) -> Document {
    let mut sections = vec![summary(results)];
    sections.extend(arrangement::sections(results));
    sections.extend([targets(results), method(results), missing(results)]);
    Document {
        title: "EvenDB and its peers".to_owned(),
        subtitle: subtitle(results),
        looks: Looks::new(&results.stores()),
        sections,
    }
}

fn subtitle(results: &Results) -> String {
    let run = &results.run;
    let mut parts = Vec::new();
    let word = |name: &str| run.get(name).and_then(plain);
    parts.extend(word("started").map(|started| format!("Run of {started}")));
    if run.get("quick").and_then(Value::as_bool) == Some(true) {
        parts.push("quick: short phases, for a first look only".to_owned());
    }
    parts.extend(word("scale").map(|scale| format!("sizes {} of the paper's", fraction(&scale))));
    if let Some(bytes) = run.get("memory_bytes").and_then(Value::as_u64) {
        parts.push(format!("{} of memory", size(bytes)));
    }
    parts.extend(word("threads").map(|threads| format!("{threads} threads")));
    parts.extend(word("value_bytes").map(|bytes| format!("values of {bytes} bytes")));
    parts.extend(word("durability").map(|level| format!("durability: {level}")));
    parts.join("; ")
}

/// `0.0625` as `1/16`.
fn fraction(scale: &str) -> String {
    match scale.parse::<f64>().map(|scale| 1.0 / scale) {
        Ok(parts) if parts > 1.5 && (parts - parts.round()).abs() < 1e-6 => {
            format!("1/{parts:.0}")
        }
        _ => scale.to_owned(),
    }
}

/// A JSON value as a reader wants it; none for null.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// The cells of the summary: one for each workload and size.
fn main_cells(results: &Results) -> Vec<&Cell> {
    let mut cells: Vec<&Cell> = Vec::new();
    let varies = |cell: &Cell| VARYING.iter().any(|name| cell.experiment.starts_with(name));
    let key = |cell: &Cell| (named(cell).workload, cell.data_bytes);
    for cell in &results.cells {
        let is_main = cell.variant.is_none() && !varies(cell);
        if is_main && !cells.iter().any(|other| key(other) == key(cell)) {
            cells.push(cell);
        }
    }
    cells.sort_by_key(|cell| named(cell).order());
    cells
}

type Compared<'a> = (f64, &'a str, &'a Cell);

fn compared(results: &Results) -> Vec<Compared<'_>> {
    let ratios = main_cells(results).into_iter().filter_map(|cell| {
        let (ratio, peer) = cell.ratio_to_best_peer(Quantity::Throughput)?;
        Some((ratio, peer, cell))
    });
    ratios.collect()
}

/// Who wins where, in words.
#[must_use]
pub fn sentences(results: &Results) -> Vec<String> {
    let all = compared(results);
    let mut sentences = Vec::new();
    if all.is_empty() {
        sentences.push(
            "No cell has finished figures of EvenDB and of a peer: nothing can be compared yet."
                .to_owned(),
        );
    } else {
        let ahead = all.iter().filter(|(ratio, ..)| *ratio >= 1.0).count();
        sentences.push(format!(
            "EvenDB is the fastest store in {ahead} of {} workloads and sizes; its throughput is \
             {} times the best peer's in the geometric mean (the best peer is whichever other \
             store is fastest there).",
            all.len(),
            figure(mean(&all))
        ));
        sentences.extend(by_place(results, &all));
        let order = |a: &&Compared<'_>, b: &&Compared<'_>| a.0.total_cmp(&b.0);
        if let Some(best) = all.iter().max_by(order).filter(|best| best.0 >= 1.0) {
            sentences.push(format!("Its largest lead: {}.", told(best)));
        }
        if let Some(worst) = all.iter().min_by(order).filter(|worst| worst.0 < 1.0) {
            sentences.push(format!("It is furthest behind in: {}.", told(worst)));
        }
    }
    let gaps = gap::gaps(results);
    if !gaps.is_empty() {
        let reached = gaps.iter().filter(|gap| gap.is_reached()).count();
        sentences.push(format!(
            "Of {} targets that could be judged, {reached} are reached.",
            gaps.len()
        ));
    }
    let interrupted = interrupted(results).len();
    if !results.skipped.is_empty() || interrupted > 0 {
        sentences.push(format!(
            "{} measurements were skipped and {interrupted} interrupted; the last section lists them.",
            results.skipped.len()
        ));
    }
    sentences
}

fn mean(all: &[Compared<'_>]) -> f64 {
    let logarithms = all
        .iter()
        .map(|(ratio, ..)| ratio.max(f64::MIN_POSITIVE).ln());
    (logarithms.sum::<f64>() / all.len() as f64).exp()
}

fn by_place(results: &Results, all: &[Compared<'_>]) -> Option<String> {
    let memory = results.memory_bytes();
    let places = [Place::InRam, Place::Between, Place::BeyondRam];
    let told: Vec<String> = places
        .into_iter()
        .filter_map(|place| {
            let here = |one: &&Compared<'_>| {
                one.2.data_bytes.map(|bytes| Place::of(bytes, memory)) == Some(place)
            };
            let here: Vec<Compared<'_>> = all.iter().filter(here).copied().collect();
            if here.is_empty() {
                return None;
            }
            let ahead = here.iter().filter(|(ratio, ..)| *ratio >= 1.0).count();
            let what = match place {
                Place::InRam => "data that fit in memory (at most half of it)",
                Place::Between => "data between half and all of memory",
                Place::BeyondRam => "data larger than memory",
            };
            Some(format!(
                "with {what} {ahead} of {}, {} times",
                here.len(),
                figure(mean(&here))
            ))
        })
        .collect();
    (told.len() > 1).then(|| format!("By size: {}.", told.join("; ")))
}

fn told((ratio, peer, cell): &Compared<'_>) -> String {
    let name = named(cell);
    let data = name
        .data
        .map_or(String::new(), |data| format!(" with {data}"));
    format!("{}{data}, {} times {peer}", name.workload, figure(*ratio))
}

fn summary(results: &Results) -> Section {
    let words = sentences(results);
    let notes = results.notes.iter().cloned().map(Block::Text);
    let mut blocks = vec![Block::Text(introduction(results)), Block::List(words)];
    blocks.extend(notes);
    let table = winners(results);
    if !table.rows.is_empty() {
        blocks.push(Block::Text(
            "The table: EvenDB's throughput divided by that of the best peer, which is named below \
             each figure. Above 1 EvenDB is faster. Columns are sizes of the data."
                .to_owned(),
        ));
        blocks.push(Block::Table(table));
        blocks.push(Block::Text(WORKLOADS.to_owned()));
    }
    Section {
        title: "Summary".to_owned(),
        short: "Summary".to_owned(),
        blocks,
    }
}

fn introduction(results: &Results) -> String {
    let stores = results.stores();
    let peers: Vec<&str> = stores
        .into_iter()
        .filter(|store| stores::is_peer(store))
        .collect();
    let beside = match peers.is_empty() {
        true => "no other store yet".to_owned(),
        false => peers.join(", "),
    };
    format!(
        "The workloads of the EvenDB paper (EuroSys 2020), run on EvenDB, an embedded ordered \
         key-value store, and under the same memory and durability on its peers: {beside}. Sections \
         follow the paper's figures."
    )
}

/// Ratios to the best peer: workloads by sizes.
fn winners(results: &Results) -> Table {
    let cells = main_cells(results);
    let mut sizes: Vec<u64> = cells.iter().filter_map(|cell| cell.data_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut workloads: Vec<String> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.data_bytes.is_some()) {
        let workload = named(cell).workload;
        if !workloads.contains(&workload) {
            workloads.push(workload);
        }
    }
    let memory = results.memory_bytes();
    let mut heading = vec!["workload".to_owned()];
    heading.extend(
        sizes
            .iter()
            .map(|&bytes| format!("{} ({})", size(bytes), Place::of(bytes, memory).name())),
    );
    let rows = workloads.iter().map(|workload| {
        let mut row = vec![Entry::new(workload)];
        for &bytes in &sizes {
            let cell = cells
                .iter()
                .find(|cell| cell.data_bytes == Some(bytes) && named(cell).workload == *workload);
            let ratio = cell.and_then(|cell| cell.ratio_to_best_peer(Quantity::Throughput));
            row.push(match ratio {
                Some((ratio, peer)) => ratio_entry(ratio, Quantity::Throughput).with_detail(peer),
                None => Entry::toned("-", Tone::Faint),
            });
        }
        row
    });
    Table {
        caption: "EvenDB's throughput by the best peer's".to_owned(),
        rows: rows.collect(),
        heading,
    }
}

fn targets(results: &Results) -> Section {
    let gaps = gap::gaps(results);
    let (reached, missed): (Vec<&Gap<'_>>, Vec<&Gap<'_>>) =
        gaps.iter().partition(|gap| gap.is_reached());
    let mut blocks = vec![Block::Text(
        "Each cell's figure beside its target, the worst first. \"Reached\" is the part of the way: \
         100 % is the target, 50 % is half the rate or twice the bytes or time. Cells to which no \
         target applies are only in the figures above; reopening is measured by another command."
            .to_owned(),
    )];
    for (caption, gaps, folded) in [
        (format!("{} targets missed", missed.len()), missed, false),
        (format!("{} targets reached", reached.len()), reached, true),
    ] {
        let table = gap_table(caption, &gaps);
        match (table.rows.is_empty(), folded) {
            (true, _) => {}
            (false, true) => blocks.push(Block::Folded(table)),
            (false, false) => blocks.push(Block::Table(table)),
        }
    }
    Section {
        title: "Gap to the targets".to_owned(),
        short: "Gap".to_owned(),
        blocks,
    }
}

fn gap_table(caption: String, gaps: &[&Gap<'_>]) -> Table {
    let rows = gaps.iter().map(|gap| {
        let quantity = gap.target.quantity;
        let peer = match gap.against {
            Some((store, value)) => Entry::new(quantity.show(value)).with_detail(store),
            None => Entry::toned("-", Tone::Faint),
        };
        let measured = match gap.against {
            Some(_) => format!("{}x", figure(gap.measured)),
            None => figure(gap.measured),
        };
        let tone = if gap.is_reached() {
            Tone::Good
        } else {
            Tone::Bad
        };
        // A bound that itself is not enough is missed at 100 % too.
        let percent = (gap.reached * 100.0).min(9999.0);
        let percent = if gap.is_reached() {
            percent.round()
        } else {
            percent.floor()
        };
        vec![
            full_label(gap.cell),
            Entry::toned(quantity.name(), Tone::Words),
            Entry::new(quantity.show(gap.own)),
            peer,
            Entry::toned(measured, tone),
            Entry::toned(gap.target.words(), Tone::Words),
            Entry::toned(format!("{percent:.0} %"), tone),
        ]
    });
    let heading = [
        "cell",
        "quantity",
        "EvenDB",
        "peer",
        "ratio or figure",
        "target",
        "reached",
    ];
    Table {
        caption,
        heading: heading.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

fn method(results: &Results) -> Section {
    let mut blocks = vec![Block::List(
        [
            "Throughput: finished operations by wall time, as the median of the rounds.",
            "CPU us/op: user and system time of the whole process, the driver included, by operation.",
            "Write amplification: bytes the process sent to storage by bytes of keys and values handed \
             in; what a store owes after the run is paid and charged.",
            "Read amplification: bytes of read calls by bytes handed back; reads of mapped files are \
             not calls.",
            "A range below a figure is that of its rounds; in plots it is the thin vertical line.",
        ]
        .map(str::to_owned)
        .to_vec(),
    )];
    let run = &results.run;
    let named = |name: &str| run.get(name).and_then(Value::as_object);
    for (caption, entries) in [
        ("Settings of the stores", named("stores").cloned()),
        ("The machine", named("machine").cloned()),
        ("The run", Some(rest(run))),
    ] {
        let table = pairs(caption, &entries.unwrap_or_default());
        if !table.rows.is_empty() {
            blocks.push(Block::Table(table));
        }
    }
    if let Some(limits) = limits(results) {
        blocks.push(Block::Table(limits));
    } else {
        blocks.push(Block::Text(
            "The limits of the machine (disk, memory, CPU) were not measured in this run."
                .to_owned(),
        ));
    }
    Section {
        title: "How it was measured".to_owned(),
        short: "Method".to_owned(),
        blocks,
    }
}

/// What the machine can do at most, and how much of it EvenDB's best cell reached.
fn limits(results: &Results) -> Option<Table> {
    let calibration = Calibration::from_json(results.run.get("limits")?)?;
    let rows = calibrate::limits(&calibration).into_iter().map(|limit| {
        let reached = reached(results, limit.name);
        let (place, measured, share) = match reached {
            Some((cell, measured)) => (
                cell,
                limit.unit.show(measured),
                format!("{:.2}", limit.share(measured)),
            ),
            None => (
                "not measured in this run".to_owned(),
                String::new(),
                String::new(),
            ),
        };
        [
            limit.of.to_owned(),
            limit.by.to_owned(),
            limit.unit.show(limit.value),
            place,
            measured,
            share,
        ]
        .map(|text| Entry::toned(text, Tone::Words))
        .to_vec()
    });
    let heading = [
        "what",
        "bound by",
        "limit",
        "EvenDB's best",
        "",
        "of the limit",
    ];
    Some(Table {
        caption: "Limits of the machine, measured before the run".to_owned(),
        heading: heading.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    })
}

/// EvenDB's best figure for a limit, in the limit's unit, with the cell's name.
fn reached(results: &Results, limit: &str) -> Option<(String, f64)> {
    let (mixes, largest) = match limit {
        "get_ram" => (&["C"][..], false),
        "scan_ram" => (&["E100", "E1000"][..], false),
        "gets_cold" => (&["C"][..], true),
        "ingest" => (&["ingest"][..], true),
        _ => return None,
    };
    let own = |cell: &&Cell| {
        let mix = cell.mix.as_deref().unwrap_or_default();
        mixes.contains(&mix) && cell.data_bytes.is_some()
    };
    let sizes = results.cells.iter().filter(own).map(|cell| cell.data_bytes);
    // In RAM: what is smallest. Cold: what is largest.
    let size = match largest {
        true => sizes.max(),
        false => sizes.min(),
    }?;
    let cells = results
        .cells
        .iter()
        .filter(own)
        .filter(|cell| cell.data_bytes == size);
    let value = |cell: &Cell| {
        let rounds = cell.stores.iter().find(|one| one.store == stores::OWN)?;
        let phase = &rounds.finished().next()?.phase;
        Some(match limit {
            "get_ram" => {
                cell.spread(stores::OWN, Quantity::Latency("get", Percentile::P50))?
                    .median
            }
            "scan_ram" => {
                let threads = cell.threads.unwrap_or(1).max(1) as f64;
                phase["user_bytes_read"].as_f64()? / phase["seconds"].as_f64()? / threads
            }
            "ingest" => phase["user_bytes_written"].as_f64()? / phase["seconds"].as_f64()?,
            // Only those that had to be read: the others cost the disk nothing.
            _ => {
                let read = ["gets.log", "gets.sstable"].map(|name| phase["figures"][name].as_f64());
                let read: f64 = read.into_iter().flatten().sum();
                read / phase["seconds"].as_f64()?
            }
        })
    };
    let found = cells.filter_map(|cell| Some((cell.name.clone(), value(cell)?)));
    let less_is_better = limit == "get_ram";
    found.reduce(|best, next| match (next.1 < best.1) == less_is_better {
        true => next,
        false => best,
    })
}

/// What the other tables do not say.
fn rest(run: &Map<String, Value>) -> Map<String, Value> {
    let said = ["kind", "version", "stores", "machine", "limits"];
    let left = run
        .iter()
        .filter(|(name, _)| !said.contains(&name.as_str()));
    left.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Names and values; objects within are flattened.
fn pairs(caption: &str, entries: &Map<String, Value>) -> Table {
    fn add(rows: &mut Vec<Vec<Entry>>, name: &str, value: &Value) {
        match value {
            Value::Object(inner) => {
                for (key, value) in inner {
                    add(rows, &format!("{name}, {key}"), value);
                }
            }
            value => rows.extend(plain(value).map(|text| {
                let text = match value.as_u64() {
                    Some(bytes) if name.ends_with("bytes") => size(bytes),
                    _ => text,
                };
                vec![
                    Entry::new(name.replace('_', " ")),
                    Entry::toned(text, Tone::Words),
                ]
            })),
        }
    }
    let mut rows = Vec::new();
    let mut entries: Vec<(&String, &Value)> = entries.iter().collect();
    if caption == "Settings of the stores" {
        entries.sort_by_key(|(store, _)| stores::rank(store));
    }
    for (name, value) in entries {
        add(&mut rows, name, value);
    }
    Table {
        caption: caption.to_owned(),
        heading: vec![String::new(), String::new()],
        rows,
    }
}

/// Measurements that were ended early and not repeated: cell, store, round.
fn interrupted(results: &Results) -> Vec<(&Cell, &str, u64)> {
    let cells = results.cells.iter();
    let rounds = cells.flat_map(|cell| {
        let stores = cell.stores.iter();
        stores.flat_map(move |one| {
            let early = one.rounds.iter().filter(|round| round.interrupted);
            early.map(move |round| (cell, one.store.as_str(), round.round))
        })
    });
    rounds.collect()
}

fn missing(results: &Results) -> Section {
    let mut blocks = Vec::new();
    let skipped = results.skipped.iter().map(|one| {
        let same = |cell: &&Cell| cell.experiment == one.experiment && cell.name == one.cell;
        let cell = results.cells.iter().find(same);
        vec![
            cell.map_or_else(|| Entry::new(&one.cell), full_label),
            Entry::toned(&one.store, Tone::Words),
            Entry::new(
                one.round
                    .map_or("all".to_owned(), |round| (round + 1).to_string()),
            ),
            Entry::toned(&one.why, Tone::Words),
        ]
    });
    let heading = |last: &[&str]| {
        let first = ["cell", "store", "round"];
        first
            .iter()
            .chain(last)
            .map(|name| (*name).to_owned())
            .collect()
    };
    let skipped = Table {
        caption: "Skipped".to_owned(),
        heading: heading(&["why"]),
        rows: skipped.collect(),
    };
    let early = interrupted(results)
        .into_iter()
        .map(|(cell, store, round)| {
            let name = Entry::toned(store, Tone::Words);
            vec![full_label(cell), name, Entry::new((round + 1).to_string())]
        });
    let early = Table {
        caption: "Interrupted before they were finished; their figures count for nothing"
            .to_owned(),
        heading: heading(&[]),
        rows: early.collect(),
    };
    for table in [skipped, early] {
        if !table.rows.is_empty() {
            blocks.push(Block::Table(table));
        }
    }
    if blocks.is_empty() {
        blocks.push(Block::Text(
            "Nothing was skipped or interrupted.".to_owned(),
        ));
    }
    Section {
        title: "What is missing".to_owned(),
        short: "Missing".to_owned(),
        blocks,
    }
}
