//! The figures of the page: the head of this folder's module has their columns.

use evendb_report::{Chart, Exactness, Figure, Mark, Unit};
use serde_json::Value;

use super::base;
use crate::advise::Advice;
use crate::advise::beside::{self, Beside, MissRow};
use crate::advise::halving::median;
use crate::advise::runs::Measured;
use crate::advise::words::{of_load, percent};
use crate::readable::bytes;

pub(super) fn advised(advice: &Advice) -> Figure {
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

pub(super) fn load_figure(advice: &Advice) -> Figure {
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

pub(super) fn candidates_figure(advice: &Advice) -> Figure {
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

pub(super) fn budgets_figure(advice: &Advice) -> Figure {
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

pub(super) fn peers_figure(advice: &Advice) -> Figure {
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

pub(super) fn misses_figure(advice: &Advice) -> Figure {
    let about = "What the analysis of the trace says of caches of different sizes that drop what was used longest ago, for rows, blocks and chunks: \
         the share of accesses that miss. It is an ideal of such a cache, and no measurement of a store.";
    let columns = [
        ("grain", Unit::Text),
        ("bytes", Unit::Bytes),
        ("miss_ratio", Unit::Share),
    ];
    let mut figure = Figure::new("misses", "Misses by size of a cache", about, "", &columns);
    let row = |row: &MissRow| {
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

pub(super) fn runs_figure(advice: &Advice) -> Figure {
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
