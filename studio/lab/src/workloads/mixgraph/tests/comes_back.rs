//! A model of two keyspaces is drawn as a trace, the figures of an analysis are counted from the
//! trace by plain loops, and a model is made from them: it has the parameters of the first within
//! the bounds that are stated here.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::mixgraph::drawn_trace::{self, Timetable};
use evendb_model::access::{Accesses, Ranges};
use evendb_model::curve::{Curve, Shape};
use evendb_model::from_analysis::{Known, make_workload};
use evendb_model::model::Rate;
use evendb_model::sizes::{Sizes, Spread};
use evendb_model::workload::Keyspace;
use evendb_report::{Document, Figure, Unit};
use evendb_trace::{Operation, Outcome, Reader};
use serde_json::{Value, json};

const OPERATIONS: u64 = 400_000;

/// Two keyspaces that differ in everything.
fn planted() -> Workload {
    let mut files = small("zippydb", 20_000);
    files.accesses = files.accesses.map(|_| Accesses::Cumulative {
        a: 20_000f64.powf(-0.6),
        b: 0.6,
    });
    let mut users = small("zippydb", 10_000);
    (users.mix.get, users.mix.put, users.mix.scan) = (0.5, 0.4, 0.1);
    users.keys = Sizes::constant(24);
    users.values.sizes = Sizes::constant(60);
    users.values.loaded = Sizes::constant(60);
    users.scans = Some(Sizes::constant(7));
    users.ranges = Some(Ranges {
        count: 20,
        curve: Curve::new(Shape::Power, vec![1.0, -0.7]).unwrap(),
    });
    users.accesses = Some(Accesses::Cumulative {
        a: 10_000f64.powf(-0.45),
        b: 0.45,
    });
    let mut workload = Workload::from(&files);
    let keyspace = |name: &str, share: f64, load: Model| Keyspace {
        name: name.to_owned(),
        share,
        load,
    };
    workload.keyspaces = vec![keyspace("files", 0.7, files), keyspace("users", 0.3, users)];
    let (a, b, c, d) = (300.0, 0.02, 0.0, 1000.0);
    workload.rate = Some(Rate { a, b, c, d });
    workload
}

/// Counts by keyspace, kind and a number.
type Counts = BTreeMap<(u32, &'static str, u64), u64>;

/// Counts the figures of an analysis.
struct Analysis<'l> {
    load: &'l Load,
    values: Counts,
    scans: Counts,
    pairs: Counts,
    rates: Counts,
}

/// Seconds of a stretch of the figure of rates.
const STRETCH: u64 = 2;

impl Analysis<'_> {
    fn of<'l>(load: &'l Load, operations: &[Operation]) -> Analysis<'l> {
        let mut found = Analysis {
            load,
            values: Counts::new(),
            scans: Counts::new(),
            pairs: Counts::new(),
            rates: Counts::new(),
        };
        operations.iter().for_each(|operation| found.add(operation));
        found
    }

    fn add(&mut self, operation: &Operation) {
        let (keyspace, kind) = (operation.keyspace, operation.kind.name());
        let count = |counts: &mut Counts, number: u64| {
            *counts.entry((keyspace, kind, number)).or_default() += 1;
        };
        let value = match operation.outcome {
            Outcome::Present { len, .. } => len,
            _ => operation.value_len,
        };
        if let Some(value) = value {
            count(&mut self.values, value);
        }
        if let Some(records) = operation.count {
            count(&mut self.scans, records);
        }
        let records = &self.load.families[keyspace as usize].records;
        let stored = [records.prefix(), &operation.key].concat();
        count(&mut self.pairs, records.pair_of(&stored).unwrap());
        let stretch = operation.start_nanos / 1_000_000_000 / STRETCH;
        count(&mut self.rates, stretch);
    }

    /// The accesses of pairs, with another number in the place of the pair's.
    fn by(&self, number: impl Fn(&Family, u64) -> u64) -> Counts {
        let mut counts = Counts::new();
        for (&(keyspace, kind, pair), count) in &self.pairs {
            let number = number(&self.load.families[keyspace as usize], pair);
            *counts.entry((keyspace, kind, number)).or_default() += count;
        }
        counts
    }

    fn name(&self, keyspace: u32) -> Value {
        json!(self.load.families[keyspace as usize].name)
    }

    fn rows(&self, counts: &Counts) -> Vec<Vec<Value>> {
        let each = counts.iter();
        each.map(|((keyspace, kind, number), count)| {
            vec![
                self.name(*keyspace),
                json!(kind),
                json!(number),
                json!(count),
            ]
        })
        .collect()
    }

    fn document(&self) -> Document {
        let mut document = Document::new("drawn");
        let sizes = [
            "keyspace",
            "kind",
            "bytes",
            "operations",
            "operations_up_to",
        ];
        let mut scans = self.cumulative(&self.scans);
        scans.iter_mut().for_each(|row| drop(row.remove(1)));
        let mut composition = self.rows(&self.by(|_, _| 0));
        composition.iter_mut().for_each(|row| drop(row.remove(2)));
        let mut rates = self.rows(&self.rates);
        for row in &mut rates {
            row[2] = json!(row[2].as_u64().unwrap() * STRETCH);
            row[3] = json!(row[3].as_f64().unwrap() / STRETCH as f64);
        }
        let key_bytes = |family: &Family, pair: u64| {
            (family.records.key(pair).len() - family.records.prefix().len()) as u64
        };
        let range = |family: &Family, pair: u64| {
            let holds = |place: &u64| {
                let (first, among) = family.space.range_at(*place);
                (first..first + among).contains(&pair)
            };
            (0..family.space.ranges()).find(holds).unwrap()
        };
        let (named, stored) = self.keys();
        document.figures = vec![
            figure(
                "composition",
                &["keyspace", "kind", "operations"],
                composition,
            ),
            figure("key-sizes", &sizes, self.cumulative(&self.by(key_bytes))),
            figure("value-sizes", &sizes, self.cumulative(&self.values)),
            figure(
                "scan-lengths",
                &["keyspace", "records", "scans", "scans_up_to"],
                scans,
            ),
            figure(
                "unique-keys",
                &["keyspace", "period_seconds", "new_keys"],
                named,
            ),
            figure("stored-keys", &["keyspace", "stored", "accessed"], stored),
            figure(
                "ranges",
                &["keyspace", "kind", "range", "accesses"],
                self.rows(&self.by(range)),
            ),
            figure(
                "access-ranks",
                &["keyspace", "kind", "rank", "accesses", "accesses_up_to"],
                self.ranks(),
            ),
            figure("rates", &["keyspace", "kind", "time", "per_second"], rates),
        ];
        document
    }

    /// The different keys that are named, and those of the store.
    fn keys(&self) -> (Vec<Vec<Value>>, Vec<Vec<Value>>) {
        let families = (0..).zip(&self.load.families);
        let of = families.map(|(number, family)| {
            let own = self.pairs.keys().filter(|at| at.0 == number);
            let named = own.map(|at| at.2).collect::<BTreeSet<_>>().len();
            let name = self.name(number);
            let stored = vec![name.clone(), json!(family.model.pairs), json!(named)];
            (vec![name, json!(60), json!(named)], stored)
        });
        of.unzip()
    }

    /// The accesses of each pair, those of the hottest first, for each kind.
    fn ranks(&self) -> Vec<Vec<Value>> {
        let mut of_kinds: BTreeMap<(u32, &str), Vec<u64>> = BTreeMap::new();
        for ((keyspace, kind, _), count) in &self.pairs {
            of_kinds.entry((*keyspace, kind)).or_default().push(*count);
        }
        let mut rows = Vec::new();
        for ((keyspace, kind), mut counts) in of_kinds {
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let (all, mut up_to) = (counts.iter().sum::<u64>() as f64, 0);
            for (rank, count) in (1..).zip(counts) {
                up_to += count;
                let share = up_to as f64 / all;
                rows.push(vec![
                    self.name(keyspace),
                    json!(kind),
                    json!(rank),
                    json!(count),
                    json!(share),
                ]);
            }
        }
        rows
    }

    /// Counts by size as rows of a cumulative figure.
    fn cumulative(&self, counts: &Counts) -> Vec<Vec<Value>> {
        let mut totals: BTreeMap<(u32, &str), (u64, u64)> = BTreeMap::new();
        for ((keyspace, kind, _), count) in counts {
            totals.entry((*keyspace, kind)).or_default().0 += count;
        }
        let rows = counts.iter().map(|((keyspace, kind, size), count)| {
            let (total, up_to) = totals.get_mut(&(*keyspace, *kind)).unwrap();
            *up_to += count;
            let share = *up_to as f64 / *total as f64;
            vec![
                self.name(*keyspace),
                json!(kind),
                json!(size),
                json!(count),
                json!(share),
            ]
        });
        rows.collect()
    }
}

fn figure(id: &str, columns: &[&str], rows: Vec<Vec<Value>>) -> Figure {
    let columns: Vec<_> = columns.iter().map(|name| (*name, Unit::Number)).collect();
    Figure {
        rows,
        ..Figure::new(id, "", "", "", &columns)
    }
}

#[test]
fn a_model_of_two_keyspaces_comes_back_from_its_trace() {
    let planted = planted();
    let load = Arc::new(Load::new(&planted, Allocation::PrefixDist, 3));
    let mut bytes = Vec::new();
    let timetable = Timetable::Swing(planted.rate.unwrap());
    drawn_trace::write(&load, OPERATIONS, timetable, &mut bytes).unwrap();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let operations: Result<Vec<_>, _> = reader.operations().collect();
    let document = Analysis::of(&load, &operations.unwrap()).document();
    let made = make_workload(&document, &Known::default()).unwrap();
    let (found, notes) = (&made.workload, made.notes.join("\n"));
    let near = |what: &str, is: f64, wanted: f64, most: f64| {
        let off = (is - wanted).abs();
        assert!(off <= most, "{what}: {is} of {wanted}\n{notes}");
    };
    assert_eq!(found.operations, OPERATIONS);
    assert_eq!(found.keyspaces.len(), 2);
    let rate = found.rate.unwrap();
    near("swing", rate.a.abs(), 300.0, 15.0);
    near("mean rate", rate.d, 1000.0, 10.0);
    near("turn", rate.b, 0.02, 0.0005);
    for (is, wanted) in found.keyspaces.iter().zip(&planted.keyspaces) {
        assert_eq!(is.name, wanted.name);
        near("share", is.share, wanted.share, 0.003);
        let (is, wanted) = (&is.load, &wanted.load);
        assert_eq!((is.pairs, &is.keys), (wanted.pairs, &wanted.keys));
        for kind in Kind::ALL {
            near(
                kind.name(),
                is.mix.share(kind),
                wanted.mix.share(kind),
                0.003,
            );
        }
        let shares = |model: &Model| model.ranges.as_ref().and_then(Ranges::shares).unwrap();
        let all = shares(is).into_iter().zip(shares(wanted));
        all.for_each(|(is, wanted)| near("range", is, wanted, 0.01));
        let exponent = |model: &Model| match model.accesses {
            Some(Accesses::Cumulative { b, .. }) => b,
            other => panic!("{other:?}\n{notes}"),
        };
        near("exponent", exponent(is), exponent(wanted), 0.05);
        assert_eq!(shares(is).len(), shares(wanted).len());
    }
    let [files, users] = [&found.keyspaces[0].load, &found.keyspaces[1].load];
    let Spread::GeneralizedPareto { k, sigma, .. } = files.values.sizes.spread else {
        panic!("{notes}")
    };
    near("k", k, 0.2615, 0.03);
    near("sigma", sigma, 25.45, 1.0);
    // Long scans are cut where the key space ends, so the short ones are compared.
    let short = |sizes: &Option<Sizes>| -> f64 {
        let sizes = sizes.as_ref().unwrap();
        (1..=10).map(|length| sizes.share(length)).sum()
    };
    let wanted = &planted.keyspaces[0].load.scans;
    near("short scans", short(&files.scans), short(wanted), 0.03);
    assert_eq!(users.values.sizes, Sizes::constant(60));
    // Scans at the end of the key space are cut.
    let scans = users.scans.as_ref().unwrap();
    near("scans", scans.mean(), 7.0, 0.05);
    // What was made is a file, and draws the same shares again.
    let again = Workload::from_toml(&made.to_toml().unwrap()).unwrap();
    assert_eq!(again, *found);
}
