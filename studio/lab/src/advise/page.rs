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

use evendb_report::{Chart, Document, Exactness, Figure, Mark, Summary, Unit, number_shown};
use serde_json::Value;

use super::Advice;
use super::beside::{self, Beside, Ratio, miss_ratio};
use super::candidates::DEFAULT;
use super::halving::median;
use super::runs::{Measured, limit_of};
use super::words::{self, of_load, percent};
use crate::readable::bytes;
use crate::stores::evendb::tuning::Engine;

/// Facts that a later command reads.
pub(super) const FACT_OPERATIONS: &str = "operations used";
pub(super) const FACT_SETTINGS: &str = "advised settings";
pub(super) const FACT_AGED: &str = "written over before measuring, at most";

/// A speed that is higher by less than this counts as alike, whatever the number of runs.
const FASTER_MIN: f64 = 0.05;
/// Memory that certainly makes things faster by less than this is said to bring nothing.
const ALIKE_MAX: f64 = 0.10;
/// A larger cache has fewer misses if it has fewer by this share of the accesses.
const MISSES_MIN: f64 = 0.01;

/// What is advised, in sentences.
pub(super) fn sentences(advice: &Advice) -> Vec<String> {
    let mut said = vec![settings_said(advice)];
    if advice.allowed_bytes > advice.memory_bytes {
        said.push(format!(
            "The data needs no larger budget: {} were allowed, and all was measured with {}.",
            bytes(advice.allowed_bytes),
            bytes(advice.memory_bytes)
        ));
    }
    said.extend(engine_said(advice));
    if !advice.untried.is_empty() {
        let names: Vec<_> = advice.untried.iter().map(|one| one.name()).collect();
        let names = names.join(", ");
        said.push(format!(
            "There was no time for these, which may serve the load too: {names}."
        ));
    }
    if advice.age_bytes == 0 && advice.load.age_bytes() > 0 {
        said.push(
            "There was no time to make the stores as old as they will be: settings that matter when much has been written over are judged too early."
                .to_owned(),
        );
    }
    if !advice.load.has_values {
        said.push(
            "The trace has lengths of values only, so what compression would bring cannot be said."
                .to_owned(),
        );
    }
    said.extend(memory_said(advice));
    said.push(peers_said(advice));
    said
}

fn settings_said(advice: &Advice) -> String {
    let memory = bytes(advice.tuning().budget(advice.memory_bytes));
    let noise = percent(advice.noise());
    let tried = advice.candidates.len() - 1;
    let standing = advice.standing(advice.winner);
    match (advice.winner, standing) {
        (0, _) if tried == 0 => format!(
            "Open EvenDB with a budget of {memory} and its defaults: no other settings were tried."
        ),
        (0, None) => format!(
            "Open EvenDB with a budget of {memory} and its defaults: the time did not suffice to compare other settings."
        ),
        (0, Some(_)) => format!(
            "Open EvenDB with a budget of {memory} and its defaults: of {tried} other settings that were tried none was faster by more than the noise of {noise}."
        ),
        (winner, standing) => {
            let by = standing.map_or(1.0, |(_, standing)| standing.score());
            let settings = &advice.candidates[winner].tuning;
            format!(
                "Open EvenDB with a budget of {memory} and {settings}: it does {by:.2} times as many operations a second as with its defaults, at a noise of {noise}."
            )
        }
    }
}

/// The speed of the engine that is not advised beside the one that is. None if only one was
/// measured.
fn engine_said(advice: &Advice) -> Option<String> {
    let engine_of = |number: usize| {
        let both = advice.fixed.and(&advice.candidates[number].tuning);
        both.unwrap_or_default().engine()
    };
    let advised = engine_of(advice.winner);
    let speed = |number: usize| match number {
        0 => Some(1.0),
        number => advice
            .standing(number)
            .map(|(_, standing)| standing.score()),
    };
    let others = (0..advice.candidates.len()).filter(|number| engine_of(*number) != advised);
    let others = others.filter_map(|number| Some((number, speed(number)?)));
    // A store that failed has no speed.
    let others = others.filter(|(_, speed)| *speed > 0.0);
    let (other, other_speed) = others.max_by(|one, other| one.1.total_cmp(&other.1))?;
    let by = other_speed / speed(advice.winner)?;
    let name = match other {
        0 => "its defaults".to_owned(),
        number => advice.candidates[number].name(),
    };
    Some(match engine_of(other) {
        Engine::Flsm => format!(
            "With the second engine, a fragmented log-structured merge tree ({name}), it does {by:.2} times as many operations a second as with what is advised."
        ),
        Engine::Chunks => format!(
            "The second engine, a fragmented log-structured merge tree, serves this load better: the first, with {name}, does {by:.2} times as many operations a second as what is advised."
        ),
    })
}

/// The given budget among the budgets.
fn base(advice: &Advice) -> Option<&Beside> {
    let mut budgets = advice.budgets.iter();
    budgets.find(|one| one.memory_bytes == advice.memory_bytes && !one.runs.is_empty())
}

/// What a cache with more memory would find, as far as it is known without a run.
#[derive(Clone, Copy, PartialEq)]
enum Curve {
    Unknown,
    /// Fewer accesses miss.
    Fewer,
    /// The same number of accesses miss: each of them asks for its data for the first time, or all
    /// data is in memory.
    Same,
}

/// Compares the misses of caches of the given size and of four times the size, by the analysis.
/// Without an analysis: whether all data fits in half of the memory.
fn curve(advice: &Advice) -> Curve {
    let at =
        |grain: &str, factor: u64| miss_ratio(&advice.misses, grain, advice.memory_bytes * factor);
    let grains = ["row", "block", "chunk"];
    let falls = grains
        .iter()
        .filter_map(|grain| Some(at(grain, 1)? - at(grain, 4)?));
    match falls.reduce(f64::max) {
        Some(fall) if fall >= MISSES_MIN => Curve::Fewer,
        Some(_) => Curve::Same,
        None => {
            let load = &advice.load;
            let fits =
                load.tells_data() && !load.goes_on && load.data_bytes <= advice.memory_bytes / 2;
            if fits { Curve::Same } else { Curve::Unknown }
        }
    }
}

/// Whether more memory helps, by the runs and by the curve of misses. Empty if only the given
/// memory was measured.
fn means(advice: &Advice, base: &Beside) -> &'static str {
    let spread = beside::spread(&advice.budgets);
    let larger = advice
        .budgets
        .iter()
        .filter(|one| one.memory_bytes > advice.memory_bytes);
    let larger: Vec<Ratio> = larger
        .filter_map(|one| Ratio::of(one, base, spread))
        .collect();
    if larger.is_empty() {
        return "more was not measured";
    }
    let faster = larger.iter().any(|ratio| ratio.is_above(1.0 + FASTER_MIN));
    let alike = larger.iter().all(|ratio| ratio.is_below(1.0 + ALIKE_MAX));
    match (faster, alike, curve(advice)) {
        (true, _, Curve::Fewer | Curve::Unknown) => "more memory helps",
        (true, _, Curve::Same) => {
            "with more memory the runs were faster, but a larger cache would miss as many accesses as this one: what else made them faster is not known"
        }
        (_, true, _) => "more memory does not help",
        (_, _, Curve::Same) => {
            "whether more memory helps cannot be said, because runs of the same differ by more than that; a larger cache would miss as many accesses as this one"
        }
        (_, _, Curve::Fewer) => {
            "whether more memory helps cannot be said, because runs of the same differ by more than that; a larger cache would miss fewer accesses"
        }
        (_, _, Curve::Unknown) => {
            "whether more memory helps cannot be said, because runs of the same differ by more than that"
        }
    }
}

fn memory_said(advice: &Advice) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(base) = base(advice) {
        let spread = beside::spread(&advice.budgets);
        let changes = advice.budgets.iter().filter_map(|one| {
            let Ratio { by, off } = Ratio::of(one, base, spread)?;
            let is_other = one.memory_bytes != advice.memory_bytes;
            is_other.then(|| format!("{by:.2} (+-{off:.2}) with {}", bytes(one.memory_bytes)))
        });
        let changes: Vec<_> = changes.collect();
        if !changes.is_empty() {
            said.push(format!(
                "Operations a second with other memory, as multiples of those with {}: {}; {}.",
                bytes(advice.memory_bytes),
                changes.join(", "),
                means(advice, base)
            ));
        }
    }
    let at = |grain: &str, factor: u64| {
        miss_ratio(&advice.misses, grain, advice.memory_bytes * factor).map(percent)
    };
    for grain in ["row", "block", "chunk"] {
        if let (Some(now), Some(twice), Some(four)) = (at(grain, 1), at(grain, 2), at(grain, 4)) {
            said.push(format!(
                "By the analysis, a cache of {grain}s of the given size that drops what was used longest ago misses {now} of the accesses, one of twice the size {twice}, of four times {four}."
            ));
        }
    }
    said
}

fn peers_said(advice: &Advice) -> String {
    if !advice.peers_were_asked {
        return "Other stores were not measured: --peers takes the command `experiments` of studio/peers, which `cargo build --release --manifest-path studio/peers/Cargo.toml --features rocksdb,fjall --bin experiments` builds."
            .to_owned();
    }
    let Some(base) = base(advice) else {
        return "Other stores cannot be compared: EvenDB was not measured beside them.".to_owned();
    };
    let spread = beside::spread(&[&advice.peers[..], std::slice::from_ref(base)].concat());
    let speeds = advice.peers.iter().filter_map(|peer| {
        let ratio = Ratio::of(peer, base, spread)?;
        Some((peer.name.as_str(), ratio))
    });
    let speeds: Vec<(&str, Ratio)> = speeds.collect();
    let failed = advice.peers.iter().filter(|peer| peer.failed.is_some());
    let failed: Vec<_> = failed.map(|peer| peer.name.as_str()).collect();
    let faster = speeds
        .iter()
        .filter(|(_, ratio)| ratio.is_above(1.0 + FASTER_MIN));
    let mut faster: Vec<_> = faster.collect();
    faster.sort_by(|one, other| other.1.by.total_cmp(&one.1.by));
    let told =
        |(name, Ratio { by, off }): &(&str, Ratio)| format!("{name} {by:.2} times (+-{off:.2})");
    let mut text = match (faster.is_empty(), speeds.is_empty()) {
        (_, true) => "No other store could be measured.".to_owned(),
        (true, false) => {
            let all: Vec<_> = speeds.iter().map(told).collect();
            let all = all.join(", ");
            format!(
                "With the same memory no other store that was measured is faster with this load beyond what runs of the same differ by: by EvenDB's speed {all}."
            )
        }
        (false, false) => {
            let all: Vec<_> = faster.into_iter().map(told).collect();
            let all = all.join(", ");
            format!(
                "Another store serves this load faster: by EvenDB's speed with the advised settings {all}. See its own documents for what it promises."
            )
        }
    };
    if !failed.is_empty() {
        text += &format!(" These could not be measured: {}.", failed.join(", "));
    }
    text
}

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

fn advised(advice: &Advice) -> Figure {
    let columns = [
        ("setting", Unit::Text),
        ("value", Unit::Text),
        ("what_it_does", Unit::Text),
    ];
    let tuning = advice.tuning();
    let about = "Each setting that is advised, with its value.";
    let mut figure = Figure::new("advice", "What is advised", about, "", &columns);
    figure.exactness = measured(format!("at a noise of {}", percent(advice.noise())));
    let budget = bytes(tuning.budget(advice.memory_bytes));
    let row = [
        "memory_budget",
        &budget,
        "all that the store keeps in memory",
    ];
    figure.rows.push(row.map(Value::from).to_vec());
    for (name, value, about) in tuning.each() {
        let row = [name, &value, about].map(Value::from);
        figure.rows.push(row.to_vec());
    }
    figure
}

fn measured(how: String) -> Exactness {
    Exactness::Measured(how)
}

/// The exactness of figures that were measured beside each other.
fn repeated(all: &[Beside]) -> Exactness {
    let most = all.iter().map(|one| one.runs.len()).max().unwrap_or(0);
    let spread = percent(beside::spread(all));
    measured(match most {
        0 | 1 => format!("one run each: runs of the same are taken to differ by {spread}"),
        most => format!("up to {most} runs each; runs of the same differ by {spread}"),
    })
}

fn load_figure(advice: &Advice) -> Figure {
    let load = &advice.load;
    let about = of_load(load, advice.memory_bytes).join(" ");
    let columns = [("what", Unit::Text), ("value", Unit::Number)];
    let mut figure = Figure::new("load", "The load", &about, "", &columns);
    let of_keys = |value: Value| match load.keys {
        0 => Value::Null,
        _ => value,
    };
    let rows: [(&str, Value); 15] = [
        ("operations", load.operations.into()),
        ("share of lookups", load.share(load.point_reads).into()),
        (
            "share of lookups that find nothing",
            load.absent_share().into(),
        ),
        ("share of writes", load.share(load.writes).into()),
        ("share of scans", load.share(load.scans).into()),
        ("records of a scan", load.records_per_scan().into()),
        ("bytes of a key", of_keys(load.key_bytes.into())),
        ("bytes of a value", of_keys(load.value_bytes.into())),
        (
            "bytes of a value, 90th percentile",
            of_keys(load.value_bytes_p90.into()),
        ),
        ("keys", of_keys(load.keys.into())),
        ("bytes of data", of_keys(load.data_bytes.into())),
        (
            "share of accesses to the hottest 1 % of keys",
            load.hottest_1.into(),
        ),
        (
            "share of accesses to the hottest 10 % of keys",
            load.hottest_10.into(),
        ),
        (
            "share of accesses to the hottest 10 % of ranges",
            load.hottest_ranges_10.into(),
        ),
        ("share of puts behind all keys before", load.appended.into()),
    ];
    figure.rows = rows
        .into_iter()
        .map(|(what, value)| vec![what.into(), value])
        .collect();
    if load.one_in > 1 {
        figure.exactness = Exactness::Sketched(format!("keys from one in {}", load.one_in));
    }
    figure
}

fn candidates_figure(advice: &Advice) -> Figure {
    let about = format!(
        "Settings that suit this load, by successive halving: all of them did short parts of the load, the better half longer ones. \
         times_default is the speed by that of the defaults, over all rounds of the last stage that they reached: 1.10 is a tenth more operations a second. lowest and highest are the least and the most of single rounds. \
         Settings that are not faster than the defaults by more than {} count as equal to them, and the defaults win.",
        percent(advice.noise())
    );
    let columns = [
        ("settings", Unit::Text),
        ("stage", Unit::Count),
        ("times_default", Unit::Number),
        ("lowest", Unit::Number),
        ("highest", Unit::Number),
        ("per_second", Unit::PerSecond),
        ("p99_nanos", Unit::Nanoseconds),
        ("disk_bytes", Unit::Bytes),
        ("why", Unit::Text),
    ];
    let mut figure = Figure::new(
        "candidates",
        "Settings that were tried",
        &about,
        "",
        &columns,
    );
    for (number, candidate) in advice.candidates.iter().enumerate() {
        let standing = advice.standing(number);
        let ratios = standing.map(|(_, standing)| standing.ratios.as_slice());
        let ratios = ratios.unwrap_or_default();
        let last: Vec<&Measured> = advice
            .runs
            .iter()
            .filter(|run| run.candidate == number && Some(run.stage) == standing.map(|of| of.0))
            .filter_map(|run| run.outcome.as_ref().ok())
            .collect();
        let of = |figure: &dyn Fn(&Measured) -> f64| -> Value {
            let figures = last.iter().map(|one| figure(one)).collect();
            median(figures).into()
        };
        figure.rows.push(vec![
            candidate.name().into(),
            standing.map(|(stage, _)| stage).into(),
            standing.map(|(_, standing)| standing.score()).into(),
            ratios.iter().copied().reduce(f64::min).into(),
            ratios.iter().copied().reduce(f64::max).into(),
            of(&Measured::per_second),
            of(&|one| one.p99_nanos as f64),
            of(&|one| one.disk_bytes as f64),
            candidate.reason.clone().into(),
        ]);
    }
    let rounds = advice.stages.last().map_or(0, |last| last[0].ratios.len());
    figure.exactness = measured(format!(
        "{} rounds in the last stage, at a noise of {}",
        rounds,
        percent(advice.noise())
    ));
    figure.charts = vec![Chart::new(Mark::Bar, "settings", "times_default")];
    figure
}

/// The cells of one comparison, from `per_second` to `note`.
fn cells(beside: &Beside) -> [Value; 7] {
    let speeds = || beside.runs.iter().map(Measured::per_second);
    let middle = |of: fn(&Measured) -> u64| -> Value {
        median(beside.runs.iter().map(|run| of(run) as f64).collect()).into()
    };
    let sum = |of: fn(&Measured) -> u64| beside.runs.iter().map(of).sum::<u64>();
    let (left_out, differences) = (sum(|run| run.left_out), sum(|run| run.differences));
    let note = match (&beside.failed, left_out, differences) {
        (Some(why), _, _) => why.clone(),
        (None, 0, 0) => String::new(),
        _ => format!("operations left out: {left_out}; results that differ: {differences}"),
    };
    [
        beside.per_second().into(),
        speeds().reduce(f64::min).into(),
        speeds().reduce(f64::max).into(),
        beside.runs.len().into(),
        middle(|run| run.p99_nanos),
        middle(|run| run.disk_bytes),
        note.into(),
    ]
}

/// The columns of [`cells`].
const CELLS: [(&str, Unit); 7] = [
    ("per_second", Unit::PerSecond),
    ("lowest", Unit::PerSecond),
    ("highest", Unit::PerSecond),
    ("runs", Unit::Count),
    ("p99_nanos", Unit::Nanoseconds),
    ("disk_bytes", Unit::Bytes),
    ("note", Unit::Text),
];

fn budgets_figure(advice: &Advice) -> Figure {
    let about = "The advised settings with other budgets, each run on a store of its own, all with the same stretch of the load.";
    let columns = [&[("memory_bytes", Unit::Bytes)][..], &CELLS].concat();
    let mut figure = Figure::new("budgets", "Other budgets of memory", about, "", &columns);
    for one in &advice.budgets {
        let mut row = vec![one.memory_bytes.into()];
        row.extend(cells(one));
        figure.rows.push(row);
    }
    figure.exactness = repeated(&advice.budgets);
    let line = Chart::new(Mark::Line, "memory_bytes", "per_second");
    figure.charts = vec![Chart {
        x_log: true,
        ..line
    }];
    figure
}

fn peers_figure(advice: &Advice) -> Figure {
    let about = "Other stores with the same memory and durability, each with the settings that docs/peers.md has for it, all with the stretch of the load that the budgets were measured with. \
         EvenDB has the advised settings.";
    let columns = [
        &[("store", Unit::Text), ("times_evendb", Unit::Number)][..],
        &CELLS,
    ];
    let columns = columns.concat();
    let mut figure = Figure::new("peers", "Other stores", about, "", &columns);
    let base = base(advice);
    for one in base.into_iter().chain(&advice.peers) {
        let speeds = one.per_second().zip(base.and_then(Beside::per_second));
        let by = speeds.map(|(speed, base)| speed / base);
        let mut row = vec![one.name.clone().into(), by.into()];
        row.extend(cells(one));
        figure.rows.push(row);
    }
    figure.exactness = repeated(&advice.peers);
    figure.charts = vec![Chart::new(Mark::Bar, "store", "per_second")];
    figure
}

fn misses_figure(advice: &Advice) -> Figure {
    let about = "What the analysis of the trace says of caches of different sizes that drop what was used longest ago, for rows, blocks and chunks: \
         the share of accesses that miss. It is an ideal of such a cache, and no measurement of a store.";
    let columns = [
        ("grain", Unit::Text),
        ("bytes", Unit::Bytes),
        ("miss_ratio", Unit::Share),
    ];
    let mut figure = Figure::new("misses", "Misses by size of a cache", about, "", &columns);
    let row = |row: &super::beside::MissRow| {
        let cells: [Value; 3] = [
            row.grain.clone().into(),
            row.bytes.into(),
            row.miss_ratio.into(),
        ];
        cells.to_vec()
    };
    figure.rows = advice.misses.iter().map(row).collect();
    figure.exactness = Exactness::Sketched("as the analysis says".to_owned());
    let line = Chart::new(Mark::Line, "bytes", "miss_ratio");
    figure.charts = vec![Chart {
        x_log: true,
        ..line.with_series("grain")
    }];
    figure
}

fn runs_figure(advice: &Advice) -> Figure {
    let about = "Every run of the candidates, as it was measured. All runs of a round did the same operations.";
    let columns = [
        ("stage", Unit::Count),
        ("round", Unit::Count),
        ("settings", Unit::Text),
        ("operations", Unit::Count),
        ("seconds", Unit::Seconds),
        ("per_second", Unit::PerSecond),
        ("bytes_written", Unit::Bytes),
        ("differences", Unit::Count),
        ("note", Unit::Text),
    ];
    let mut figure = Figure::new("runs", "All runs", about, "", &columns);
    figure.exactness = measured("each run by itself".to_owned());
    for run in &advice.runs {
        let mut row: Vec<Value> = vec![
            run.stage.into(),
            run.round.into(),
            advice.candidates[run.candidate].name().into(),
        ];
        row.extend(match &run.outcome {
            Ok(measured) => [
                measured.operations.into(),
                measured.seconds.into(),
                measured.per_second().into(),
                measured.bytes_written.into(),
                measured.differences.into(),
                "".into(),
            ],
            Err(why) => {
                let none = Value::Null;
                [
                    none.clone(),
                    none.clone(),
                    none.clone(),
                    none.clone(),
                    none,
                    why.clone().into(),
                ]
            }
        });
        figure.rows.push(row);
    }
    figure
}
