//! A load is drawn from a model and its figures are counted by plain loops. The model that is made
//! from them is compared with the first one.

use super::*;
use crate::access::{Accesses, Ranges};
use crate::curve::{Curve, Shape};
use crate::sizes::{Sizes, Spread};
use evendb_report::{Figure, Unit};
use serde_json::{Value, json};
use std::collections::BTreeMap;

mod kinds;
mod lacking;
mod workload;

/// Numbers from 0 to 1 that fill it evenly, another sequence for each `step`.
fn even(step: f64) -> impl Iterator<Item = f64> {
    (1..).map(move |n| (f64::from(n) * step).fract())
}

const GOLDEN: f64 = 0.618_033_988_749_894_9;
const ROOT: f64 = 0.414_213_562_373_095;
const CUBE: f64 = 0.259_921_049_894_873_2;

struct Load {
    pairs: u64,
    ranges: Ranges,
    accesses: Accesses,
    operations: usize,
}

fn figure(id: &str, columns: &[&str], rows: Vec<Vec<Value>>) -> Figure {
    let columns: Vec<_> = columns.iter().map(|name| (*name, Unit::Number)).collect();
    Figure {
        rows,
        ..Figure::new(id, "", "", "", &columns)
    }
}

/// Counts by size as rows of a cumulative figure.
fn cumulative(prefix: &[&str], sizes: impl Iterator<Item = u64>) -> Vec<Vec<Value>> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for size in sizes {
        *counts.entry(size).or_default() += 1;
    }
    let (total, mut up_to) = (counts.values().sum::<u64>() as f64, 0);
    let mut rows = Vec::new();
    for (size, count) in counts {
        up_to += count;
        let mut row: Vec<Value> = prefix.iter().map(|&cell| cell.into()).collect();
        row.extend([json!(size), json!(count), json!(up_to as f64 / total)]);
        rows.push(row);
    }
    rows
}

/// The columns of a figure of sizes.
const SIZES: [&str; 5] = [
    "keyspace",
    "kind",
    "bytes",
    "operations",
    "operations_up_to",
];

/// The figures of a load of 9 gets to 1 scan.
fn document(load: &Load, values: &Sizes, scans: &Sizes) -> Document {
    let gets = load.operations as u64;
    let accesses = Counted::of(load);
    let mut found = Document::new("drawn");
    found.figures = vec![
        composition(gets),
        accesses.unique_keys(),
        figure(
            "key-sizes",
            &SIZES,
            cumulative(
                &["app", "get"],
                (0..gets).map(|n| if n % 10 == 0 { 32 } else { 28 }),
            ),
        ),
        figure(
            "value-sizes",
            &SIZES,
            cumulative(
                &["app", "get"],
                even(CUBE).take(20_000).map(|unit| values.quantile(unit)),
            ),
        ),
        figure(
            "scan-lengths",
            &["keyspace", "records", "scans", "scans_up_to"],
            cumulative(
                &["app"],
                even(CUBE).take(20_000).map(|unit| scans.quantile(unit)),
            ),
        ),
        accesses.ranges(),
        accesses.ranks(load.operations),
        rates(),
        figure(
            "pearson",
            &["keyspace", "a", "b", "correlation"],
            vec![vec![
                json!("app"),
                json!("key_bytes"),
                json!("value_bytes"),
                json!(0.3),
            ]],
        ),
    ];
    found
}

fn composition(gets: u64) -> Figure {
    let row = |kind: &str, n: u64| vec![json!("app"), json!(kind), json!(n)];
    figure(
        "composition",
        &["keyspace", "kind", "operations"],
        vec![
            row("get", gets),
            row("scan", gets / 9),
            row("delete_range", 3),
            vec![json!("other"), json!("put"), json!(5)],
        ],
    )
}

/// A rate that swings over a day.
fn rates() -> Figure {
    let row = |n: u32| {
        let time = f64::from(n) * 432.0;
        vec![
            json!("app"),
            json!("get"),
            json!(time),
            json!(4500.0 + 1000.0 * (0.000_073 * time).sin()),
        ]
    };
    figure(
        "rates",
        &["keyspace", "kind", "time", "per_second"],
        (0..200).map(row).collect(),
    )
}

/// The accesses of a load, counted.
struct Counted {
    by_range: Vec<u64>,
    /// The accesses of each pair, those of the hottest first.
    hottest: Vec<u64>,
}

impl Counted {
    fn of(load: &Load) -> Counted {
        let shares = load.ranges.shares().unwrap();
        let (of_range, touched) = (
            load.pairs / load.ranges.count,
            load.accesses.touched(load.pairs),
        );
        let mut counts: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for (range, pair) in even(GOLDEN).zip(even(ROOT)).take(load.operations) {
            let mut left = range;
            let range = shares
                .iter()
                .position(|share| {
                    left -= share;
                    left < 0.0
                })
                .unwrap_or(0) as u64;
            *counts
                .entry((range, load.accesses.rank(pair, of_range, touched)))
                .or_default() += 1;
        }
        let mut by_range = vec![0_u64; load.ranges.count as usize];
        for ((range, _), count) in &counts {
            by_range[*range as usize] += count;
        }
        let mut hottest: Vec<u64> = counts.values().copied().collect();
        hottest.sort_unstable_by(|a, b| b.cmp(a));
        Counted { by_range, hottest }
    }

    fn unique_keys(&self) -> Figure {
        let keys = self.hottest.len();
        figure(
            "unique-keys",
            &["keyspace", "period_seconds", "new_keys"],
            vec![
                vec![json!("app"), json!(60), json!(keys / 2)],
                vec![json!("app"), json!(60), json!(keys.div_ceil(2))],
                vec![json!("app"), json!(600), json!(keys)],
            ],
        )
    }

    fn ranges(&self) -> Figure {
        let counts = self.by_range.iter().enumerate();
        figure(
            "ranges",
            &["keyspace", "kind", "range", "accesses"],
            counts
                .map(|(at, n)| vec![json!("app"), json!("get"), json!(at), json!(n)])
                .collect(),
        )
    }

    fn ranks(&self, operations: usize) -> Figure {
        let (mut up_to, mut ranks) = (0, Vec::new());
        for (at, accesses) in self.hottest.iter().enumerate() {
            up_to += accesses;
            ranks.push(vec![
                json!("app"),
                json!("get"),
                json!(at + 1),
                json!(accesses),
                json!(up_to as f64 / operations as f64),
            ]);
        }
        figure(
            "access-ranks",
            &["keyspace", "kind", "rank", "accesses", "accesses_up_to"],
            ranks,
        )
    }
}

fn zippydb(b: f64) -> Load {
    let curve = Curve::new(
        Shape::TwoExponentials,
        vec![14.18, -2.917, 0.0164, -0.08082],
    )
    .unwrap();
    let pairs = 60_000_u64;
    Load {
        pairs,
        ranges: Ranges { count: 30, curve },
        accesses: Accesses::Cumulative {
            a: (pairs as f64).powf(-b),
            b,
        },
        operations: 600_000,
    }
}

fn pareto(k: f64, sigma: f64, most: u64) -> Sizes {
    Sizes {
        spread: Spread::GeneralizedPareto {
            k,
            sigma,
            theta: 0.0,
        },
        least: 1,
        most,
    }
}

#[test]
fn a_planted_model_comes_back() {
    for b in [0.3467, 0.6] {
        let load = zippydb(b);
        let found = document(
            &load,
            &pareto(0.2615, 25.45, 1024),
            &pareto(0.5, 14.0, 10_000),
        );
        let made = make(
            &found,
            &Known {
                pairs: Some(load.pairs),
                ..Known::default()
            },
        )
        .unwrap();
        let notes = made.notes.join("\n");
        assert!(
            (made.model.mix.get - 0.9).abs() < 1e-6 && (made.model.mix.scan - 0.1).abs() < 1e-5
        );
        assert_eq!(made.model.pairs, load.pairs);
        let ranges = made.model.ranges.as_ref().unwrap();
        assert_eq!(ranges.count, 30);
        let (planted, fitted) = (load.ranges.shares().unwrap(), ranges.shares().unwrap());
        for (planted, fitted) in planted.iter().zip(&fitted) {
            assert!(
                (planted - fitted).abs() < 0.005,
                "{planted} {fitted}\n{notes}"
            );
        }
        let Some(Accesses::Cumulative { b: fitted, .. }) = made.model.accesses else {
            panic!("{:?}\n{notes}", made.model.accesses)
        };
        assert!((fitted - b).abs() < 0.03, "{fitted} of {b}\n{notes}");
        let Spread::GeneralizedPareto { k, sigma, .. } = made.model.values.loaded.spread else {
            panic!("{notes}")
        };
        assert!(
            (k - 0.2615).abs() < 0.03 && (sigma - 25.45).abs() < 1.0,
            "{k} {sigma}"
        );
        let scans = made.model.scans.as_ref().unwrap();
        assert!(
            matches!(scans.spread, Spread::GeneralizedPareto { .. }),
            "{notes}"
        );
        assert_eq!(
            made.model.keys.spread,
            Spread::Histogram(vec![(28, 0.9), (32, 0.1)])
        );
        let rate = made.model.rate.unwrap();
        assert!(
            (rate.a.abs() - 1000.0).abs() < 10.0 && (rate.d - 4500.0).abs() < 10.0,
            "{rate:?}"
        );
        assert!(
            notes.contains("key_bytes and value_bytes are correlated")
                && notes.contains("delete_range"),
            "{notes}"
        );
        assert_eq!(
            Model::from_toml(&made.to_toml().unwrap()).unwrap(),
            made.model
        );
    }
}

#[test]
fn pairs_that_are_named_are_all_there_are_if_nobody_says_more() {
    let load = zippydb(0.5);
    let found = document(&load, &Sizes::constant(40), &Sizes::constant(1));
    let made = make(&found, &Known::default()).unwrap();
    assert!(
        made.model.pairs < load.pairs && made.model.pairs > load.pairs / 4,
        "{}",
        made.model.pairs
    );
    assert_eq!(made.model.values.sizes, Sizes::constant(40));
    assert_eq!(
        made.model
            .accesses
            .unwrap()
            .touched(made.model.pairs)
            .round(),
        1.0
    );
}

/// The last third of the ranges was never accessed: the analysis knows of them only by the keys of
/// the store.
#[test]
fn ranges_without_accesses_are_ranges_where_the_keys_of_the_store_are_known() {
    let load = zippydb(0.5);
    let mut found = document(&load, &Sizes::constant(40), &Sizes::constant(1));
    let at = |id: &str| {
        let position = found.figures.iter().position(|figure| figure.id == id);
        position.unwrap()
    };
    let (ranges, others) = (at("ranges"), load.ranges.count / 2);
    let stored = |range: u64| vec![json!("app"), json!("stored"), json!(range), json!(0)];
    let all = load.ranges.count + others;
    found.figures[ranges].rows.extend((0..all).map(stored));
    let keys = load.pairs / load.ranges.count * all;
    let columns = ["keyspace", "stored", "accessed"];
    let row = |keyspace: &str, keys: u64| vec![json!(keyspace), json!(keys), json!(1)];
    found.figures.push(figure(
        "stored-keys",
        &columns,
        vec![row("a", 7), row("app", keys)],
    ));
    let made = make(&found, &Known::default()).unwrap();
    assert_eq!(made.model.pairs, keys);
    let notes = made.notes.join("\n");
    assert!(
        notes.contains(&format!("of {keys} that the store has")),
        "{notes}"
    );
    let fitted = made.model.ranges.unwrap();
    assert_eq!(all % fitted.count, 0);
    let shares = fitted.shares().unwrap();
    let cold: f64 = shares[shares.len() * 2 / 3..].iter().sum();
    assert!(cold < 0.05, "{cold} {shares:?}");

    let known = Known {
        pairs: Some(2 * keys),
        ..Known::default()
    };
    assert_eq!(make(&found, &known).unwrap().model.pairs, 2 * keys);
    // A number of pairs below the number of named keys is refused.
    let last = found.figures.last_mut().unwrap();
    last.rows[1][1] = json!(1);
    let made = make(&found, &Known::default()).unwrap();
    assert!(made.model.pairs > 1000);
}

#[test]
fn what_is_missing_is_named() {
    let load = zippydb(0.5);
    let mut found = document(&load, &Sizes::constant(40), &Sizes::constant(1));
    let nothing = make(
        &found,
        &Known {
            keyspace: Some("none".to_owned()),
            ..Known::default()
        },
    );
    assert!(matches!(nothing, Err(MakeError::Nothing(_))), "{nothing:?}");
    let mut figures = found.figures.iter();
    let at = figures
        .position(|figure| figure.id == "access-ranks")
        .unwrap();
    found.figures[at]
        .columns
        .retain(|column| column.name != "rank");
    let missing = make(&found, &Known::default()).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "the analysis has no column \"rank\" in figure \"access-ranks\""
    );
    // A figure is missing if the load has nothing for it.
    found.figures.remove(at);
    let made = make(&found, &Known::default()).unwrap();
    assert_eq!(made.model.accesses, None);
    assert!(
        made.unknown[0].contains("all pairs are alike"),
        "{:?}",
        made.unknown
    );
    assert!(matches!(
        make(&Document::new("empty"), &Known::default()),
        Err(MakeError::Missing(_))
    ));
}
