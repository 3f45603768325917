//! [`Drift`]: two portraits beside each other, as rows, text and JSON.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::portrait::{Portrait, Shares, distance};
use crate::printed::printable;
use crate::readable::grouped;

/// Below this a distance is not named at the top.
const ALIKE: f64 = 0.05;
/// The numbers of hottest keys that are compared.
const HOTTEST: [usize; 3] = [1, 10, 100];

/// A part of the load in both traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is. Names of a group begin with that of the group.
    pub what: String,
    /// In the first trace, for people.
    pub a: String,
    /// In the second one.
    pub b: String,
    /// From 0, alike, to 1. `None` if a trace does not tell, or if this row is a part of another.
    pub distance: Option<f64>,
    /// For programs: both values. `null` for what is not known.
    pub values: (Value, Value),
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    /// The parts, in the order of reports.
    pub rows: Vec<Row>,
    /// What a reader of the rows must know first.
    pub warnings: Vec<String>,
}

const UNKNOWN: &str = "not known";

fn percent(share: Option<f64>) -> String {
    share.map_or_else(
        || UNKNOWN.to_owned(),
        |share| format!("{:.2} %", 100.0 * share),
    )
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| format!("{value:.1}"))
}

/// One minus the smaller divided by the larger.
fn apart(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    let (a, b) = (a?, b?);
    let larger = a.max(b);
    Some(if larger > 0.0 {
        1.0 - a.min(b) / larger
    } else {
        0.0
    })
}

impl Drift {
    /// Compares two traces.
    #[must_use]
    pub fn of(a: &Portrait, b: &Portrait) -> Drift {
        let mut drift = Drift {
            rows: Vec::new(),
            warnings: warnings(a, b),
        };
        drift.counts(a, b);
        drift.shares("kind", &a.kinds, &b.kinds);
        drift.shares("keyspace", &a.keyspaces, &b.keyspaces);
        drift.rates(a, b);
        drift.sizes("bytes of keys", &a.key_sizes, &b.key_sizes);
        drift.sizes(
            "bytes of values written",
            &a.written_sizes,
            &b.written_sizes,
        );
        drift.sizes("bytes of values found", &a.found_sizes, &b.found_sizes);
        drift.compressible(a, b);
        drift.sizes("records of scans", &a.scan_lengths, &b.scan_lengths);
        drift.misses(a, b);
        drift.popularity(a, b);
        drift
    }

    fn push(
        &mut self,
        what: impl Into<String>,
        texts: [String; 2],
        distance: Option<f64>,
        values: [Value; 2],
    ) {
        let ([a, b], [one, other]) = (texts, values);
        self.rows.push(Row {
            what: what.into(),
            a,
            b,
            distance,
            values: (one, other),
        });
    }

    fn whole(&mut self, what: &str, [a, b]: [u64; 2]) {
        self.push(what, [grouped(a), grouped(b)], None, [a.into(), b.into()]);
    }

    fn counts(&mut self, a: &Portrait, b: &Portrait) {
        self.whole("operations", [a.operations, b.operations]);
        self.whole("different keys", [a.keys(), b.keys()]);
    }

    fn shares(&mut self, what: &str, a: &Shares, b: &Shares) {
        let sums = [a, b].map(|shares| grouped(shares.sum));
        let values = [a, b].map(|shares| Value::from(shares.sum));
        self.push(format!("{what}s"), sums, a.distance(b), values);
        let names = a.counts.keys().chain(b.counts.keys());
        let names: std::collections::BTreeSet<_> = names.collect();
        for name in names {
            let of = [a, b].map(|shares| (shares.sum > 0).then(|| shares.share(name)));
            self.push(
                format!("{what} {name}"),
                of.map(percent),
                None,
                of.map(|share| json!(share)),
            );
        }
    }

    fn rates(&mut self, a: &Portrait, b: &Portrait) {
        let rates = [a.rate(), b.rate()];
        self.push(
            "operations a second",
            rates.map(number),
            apart(rates[0], rates[1]),
            rates.map(|one| json!(one)),
        );
        let peaks = [a, b].map(|one| one.peak().map(|peak| peak as f64));
        self.push(
            "most in a second",
            peaks.map(number),
            apart(peaks[0], peaks[1]),
            peaks.map(|one| json!(one)),
        );
    }

    fn sizes(&mut self, what: &str, a: &Histogram<u64>, b: &Histogram<u64>) {
        if a.is_empty() && b.is_empty() {
            return;
        }
        let mean = [a, b].map(|one| (!one.is_empty()).then(|| one.mean()));
        self.push(
            what,
            mean.map(number),
            distance(a, b),
            mean.map(|one| json!(one)),
        );
        for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("most", 1.0)] {
            let of = [a, b].map(|one| (!one.is_empty()).then(|| one.value_at_quantile(quantile)));
            let text = |value: Option<u64>| value.map_or_else(|| UNKNOWN.to_owned(), grouped);
            self.push(
                format!("{what}, {name}"),
                of.map(text),
                None,
                of.map(|one| json!(one)),
            );
        }
    }

    fn compressible(&mut self, a: &Portrait, b: &Portrait) {
        let ratios = [a, b].map(|one| one.compressible.ratio());
        if let [None, None] = ratios {
            return;
        }
        let off = ratios[0]
            .zip(ratios[1])
            .map(|(one, other)| (one - other).abs());
        self.push(
            "values compressed by LZ4",
            ratios.map(percent),
            off,
            ratios.map(|one| json!(one)),
        );
    }

    fn misses(&mut self, a: &Portrait, b: &Portrait) {
        if a.point_reads + b.point_reads == 0 {
            return;
        }
        let absent = [a, b].map(|one| (one.reads.sum > 0).then(|| one.reads.share("absent")));
        let off = a.reads.distance(&b.reads);
        self.push(
            "reads that found nothing",
            absent.map(percent),
            off,
            absent.map(|one| json!(one)),
        );
    }

    fn popularity(&mut self, a: &Portrait, b: &Portrait) {
        for count in HOTTEST {
            let shares = [a, b].map(|one| one.share_of_hottest(count));
            let off = shares[0]
                .zip(shares[1])
                .map(|(one, other)| (one - other).abs());
            let what = match count {
                1 => "accesses of the hottest key".to_owned(),
                count => format!("accesses of the {count} hottest keys"),
            };
            self.push(what, shares.map(percent), off, shares.map(|one| json!(one)));
        }
        let most = HOTTEST[2];
        let (of_a, of_b) = (a.popularity.hottest(most), b.popularity.hottest(most));
        if of_a.is_empty() || of_b.is_empty() {
            return;
        }
        let both = of_a
            .iter()
            .filter(|(key, _)| of_b.iter().any(|(other, _)| other == key))
            .count();
        let fewer = of_a.len().min(of_b.len());
        let off = 1.0 - both as f64 / fewer as f64;
        let text = format!("{both} of {fewer}");
        self.push(
            "hottest keys that both have",
            [text.clone(), text],
            Some(off),
            [both.into(), both.into()],
        );
        // The share that the hottest keys of the one trace have in the other.
        let there = |keys: &[(&[u8], u64)], there: &Portrait| {
            let sum: u64 = keys.iter().map(|(key, _)| there.popularity.of(key)).sum();
            Some(sum as f64 / there.popularity.accesses().max(1) as f64)
        };
        let in_other = [there(&of_b, a), there(&of_a, b)];
        self.push(
            "accesses of the other's 100 hottest keys",
            in_other.map(percent),
            None,
            in_other.map(|one| json!(one)),
        );
    }

    /// The parts that differ, the most different first.
    #[must_use]
    pub fn largest(&self) -> Vec<(&str, f64)> {
        let far = self
            .rows
            .iter()
            .filter_map(|row| Some((&row.what[..], row.distance?)));
        let mut far: Vec<_> = far.filter(|(_, distance)| *distance >= ALIKE).collect();
        far.sort_by(|one, other| other.1.total_cmp(&one.1));
        far
    }

    /// For people. Names that came from traces have no control characters there.
    #[must_use]
    pub fn text(&self, names: [&str; 2]) -> String {
        let names = names.map(printable);
        let mut text = String::new();
        for warning in &self.warnings {
            let _ = writeln!(text, "{warning}");
        }
        let far = self.largest();
        let far: Vec<_> = far
            .iter()
            .map(|(what, distance)| format!("{} {distance:.2}", printable(what)))
            .collect();
        let _ = match far.is_empty() {
            true => writeln!(
                text,
                "no part differs by {ALIKE} or more (0: alike, 1: nothing in common)"
            ),
            false => writeln!(
                text,
                "different (0: alike, 1: nothing in common): {}",
                far.join(", ")
            ),
        };
        let _ = writeln!(text, "A is {}\nB is {}\n", names[0], names[1]);
        let what = |row: &Row| printable(&row.what);
        let width = self
            .rows
            .iter()
            .map(|row| what(row).chars().count())
            .max()
            .unwrap_or(0)
            + 2;
        let _ = writeln!(
            text,
            "{:<width$}{:>16}{:>16}{:>10}",
            "", "A", "B", "distance"
        );
        for row in &self.rows {
            let off = row
                .distance
                .map_or_else(String::new, |distance| format!("{distance:.3}"));
            let _ = writeln!(
                text,
                "{:<width$}{:>16}{:>16}{off:>10}",
                what(row),
                row.a,
                row.b
            );
        }
        text
    }

    /// For programs.
    #[must_use]
    pub fn to_json(&self, names: [&str; 2]) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "what": row.what, "a": row.values.0, "b": row.values.1, "distance": row.distance,
            })
        });
        json!({
            "a": names[0],
            "b": names[1],
            "warnings": self.warnings,
            "different": self.largest().iter().map(|(what, _)| *what).collect::<Vec<_>>(),
            "parts": rows.collect::<Vec<_>>(),
        })
    }
}

fn warnings(a: &Portrait, b: &Portrait) -> Vec<String> {
    use evendb_trace::Times;
    let mut said = Vec::new();
    for (name, one) in [("A", a), ("B", b)] {
        if !one.losses.is_nothing() {
            said.push(format!("{name} is not whole: {}", one.losses));
        }
        match one.times {
            Times::Order => said.push(format!("{name} has no times: its rates are not known")),
            Times::Seconds => said.push(format!(
                "{name} has times of whole seconds: nothing is known within a second"
            )),
            _ => {}
        }
        let untold = one.point_reads - one.reads.sum;
        if untold > 0 {
            said.push(format!(
                "{name} does not tell of {} of its {} reads what they found: they are not among the reads below",
                grouped(untold),
                grouped(one.point_reads)
            ));
        }
        if one.popularity.short_by() > 0 {
            said.push(format!(
                "{name} has more keys than fit into memory: accesses of a key are short by {} at most",
                grouped(one.popularity.short_by())
            ));
        }
    }
    if a.one_in != b.one_in {
        said.push(format!(
            "A has one key in {}, B one in {}: numbers of operations and keys cannot be compared",
            grouped(a.one_in),
            grouped(b.one_in)
        ));
    }
    said
}
