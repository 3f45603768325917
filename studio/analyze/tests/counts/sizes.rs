//! Sizes of keys and values, lengths of scans, correlations, and latencies.

use crate::load::*;
use evendb_trace::{Kind, Operation};
use std::collections::BTreeMap;

/// Sizes by keyspace, kind and what has them.
fn sizes(operations: &[Operation]) -> BTreeMap<(String, String, String), Counts> {
    let mut groups: BTreeMap<_, Counts> = BTreeMap::new();
    for operation in operations {
        let records = match operation.reverse {
            true => "records_reverse",
            false => "records",
        };
        let is_scan = operation.kind == Kind::Scan;
        let sizes = [
            (
                "key",
                has_key(operation).then_some(operation.key.len() as u64),
            ),
            ("value", value_bytes(operation)),
            (records, operation.count.filter(|_| is_scan)),
        ];
        for (what, size) in sizes {
            let kind = operation.kind.name().to_owned();
            let group = (keyspace(operation), kind, what.to_owned());
            if let Some(size) = size {
                groups.entry(group).or_default().add(size);
            }
        }
    }
    groups
}

#[test]
fn moments_of_sizes() {
    let Large {
        done: operations,
        document,
        ..
    } = large();
    let found = figure(document, "sizes");
    assert_columns(found, "keyspace kind what mean sd least median p99 most");
    let groups = sizes(operations);
    assert_eq!(found.rows.len(), groups.len());
    for (row, ((keyspace, kind, what), counts)) in found.rows.iter().zip(&groups) {
        let name = [0, 1, 2].map(|cell| text(&row[cell]));
        assert_eq!(name, [keyspace.clone(), kind.clone(), what.clone()]);
        let (mean, sd) = (counts.mean(), counts.sd());
        assert!(
            near(&row[3], mean) && near(&row[4], sd),
            "{row:?} {mean} {sd}"
        );
        let all = counts.all();
        let expected = [
            all[0],
            counts.percentile(500),
            counts.percentile(990),
            all[all.len() - 1],
        ];
        assert_eq!([5, 6, 7, 8].map(|cell| whole(&row[cell])), expected);
    }
}

/// Fails unless figure `id` shows the distributions of `what`, thinned by `growth`, with `by` cells
/// before the sizes.
fn assert_distributions(id: &str, what: &str, by: usize, growth: f64) {
    let Large {
        done: operations,
        document,
        ..
    } = large();
    let found = figure(document, id);
    let mut rows = found.rows.iter().peekable();
    let mut before = 0;
    for ((keyspace, kind, _), counts) in sizes(operations)
        .iter()
        .filter(|(group, _)| group.2 == what)
    {
        let group = [keyspace, kind];
        let mut kept = Vec::new();
        while let Some(row) = rows.next_if(|row| (0..by).all(|cell| row[cell] == **group[cell])) {
            let size = whole(&row[by]);
            assert_eq!(whole(&row[by + 1]), counts.0[&size]);
            assert!(near(&row[by + 2], counts.share_up_to(size)));
            kept.push(size);
        }
        let all: Vec<u64> = counts.0.keys().copied().collect();
        assert_thinned(&kept, &all, growth);
        before += all.len();
    }
    assert!(rows.next().is_none() && before > 0);
    let thinned = found.rows_before.unwrap_or(found.rows.len() as u64);
    assert_eq!(thinned, before as u64);
}

#[test]
fn sizes_are_sums_up_to_a_size() {
    let Large { document, .. } = large();
    for id in ["key-sizes", "value-sizes"] {
        let found = figure(document, id);
        assert_columns(found, "keyspace kind bytes operations operations_up_to");
    }
    assert_distributions("key-sizes", "key", 2, 1.01);
    assert_distributions("value-sizes", "value", 2, 1.02);
    assert!(figure(document, "value-sizes").rows_before.is_some());
}

#[test]
fn backward_scans_are_apart() {
    let Large { document, .. } = large();
    for id in ["scan-lengths", "scan-lengths-reverse"] {
        assert_columns(figure(document, id), "keyspace records scans scans_up_to");
    }
    assert_distributions("scan-lengths", "records", 1, 1.02);
    assert_distributions("scan-lengths-reverse", "records_reverse", 1, 1.02);
}

/// Pearson's correlation by the book, in two passes. None if one of the two never changes.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let count = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|(a, b)| of(a - x, b - y)).sum::<f64>();
    let scale = (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt();
    (scale > 0.0).then(|| sum(&|a, b| a * b) / scale)
}

#[test]
fn correlations_are_those_of_the_book() {
    let Large {
        done: operations,
        document,
        ..
    } = large();
    let found = figure(document, "pearson");
    assert_columns(found, "keyspace a b correlation pairs");
    let mut pairs: BTreeMap<_, Vec<(f64, f64)>> = BTreeMap::new();
    let mut keys: BTreeMap<(String, &[u8], Kind), (u64, Counts)> = BTreeMap::new();
    for operation in operations.iter().filter(|operation| has_key(operation)) {
        let keyspace = keyspace(operation);
        let is_scan = operation.kind == Kind::Scan;
        let has = [
            ("key size", Some(operation.key.len() as u64)),
            ("value size", value_bytes(operation)),
            ("scan length", operation.count.filter(|_| is_scan)),
            ("latency", operation.latency_nanos),
            ("time", Some(operation.start_nanos)),
        ];
        for (at, (a, x)) in has.into_iter().enumerate() {
            for (b, y) in has.into_iter().skip(at + 1) {
                if let (Some(x), Some(y)) = (x, y) {
                    let of = pairs.entry((keyspace.clone(), a, b)).or_default();
                    of.push((x as f64, y as f64));
                }
            }
        }
        let key = keys
            .entry((keyspace, &operation.key, operation.kind))
            .or_default();
        key.0 += 1;
        value_bytes(operation)
            .into_iter()
            .for_each(|bytes| key.1.add(bytes));
    }
    for ((keyspace, key, _), (accesses, values)) in &keys {
        let of = pairs
            .entry((keyspace.clone(), "accesses", "key size"))
            .or_default();
        of.push((*accesses as f64, key.len() as f64));
        if !values.0.is_empty() {
            let of = pairs
                .entry((keyspace.clone(), "accesses", "value size"))
                .or_default();
            of.push((*accesses as f64, values.mean()));
        }
    }
    pairs.retain(|_, pairs| pairs.len() >= 2);
    assert_eq!(found.rows.len(), pairs.len());
    for row in &found.rows {
        let [keyspace, a, b] = [0, 1, 2].map(|cell| text(&row[cell]));
        let pairs = &pairs[&(keyspace, a.as_str(), b.as_str())];
        assert_eq!(whole(&row[4]), pairs.len() as u64);
        let expected = correlation(pairs).unwrap();
        assert!(
            (row[3].as_f64().unwrap() - expected).abs() < 1e-7,
            "{row:?} {expected}"
        );
    }
}

#[test]
fn percentiles_of_latencies_are_within_their_error() {
    let Large {
        all: operations,
        document,
        ..
    } = large();
    let found = figure(document, "latencies");
    assert_columns(
        found,
        "keyspace kind outcome operations mean p50 p90 p99 p999 most",
    );
    let mut groups: BTreeMap<(String, &str, &str), Counts> = BTreeMap::new();
    for operation in operations {
        use evendb_trace::Outcome::{Absent, Done, Failed, Present, Unknown};
        let outcome = match operation.outcome {
            Unknown => "unknown",
            Done => "done",
            Absent => "absent",
            Present { .. } => "present",
            Failed(_) => "failed",
        };
        if let Some(latency) = operation.latency_nanos {
            let group = (keyspace(operation), operation.kind.name(), outcome);
            groups.entry(group).or_default().add(latency);
        }
    }
    assert_eq!(found.rows.len(), groups.len());
    for (row, ((keyspace, kind, outcome), counts)) in found.rows.iter().zip(&groups) {
        let name = [0, 1, 2].map(|cell| text(&row[cell]));
        assert_eq!(name, [keyspace, *kind, *outcome]);
        let all = counts.all();
        assert_eq!(whole(&row[3]), all.len() as u64);
        assert!(near(&row[4], counts.mean()));
        for (cell, per_mille) in [(5, 500), (6, 900), (7, 990), (8, 999)] {
            let (found, exact) = (whole(&row[cell]), counts.percentile(per_mille));
            assert!(
                found >= exact && found as f64 <= exact as f64 * 1.0101 + 1.0,
                "{found} {exact}"
            );
            assert!(counts.0.contains_key(&found));
        }
        assert_eq!(whole(&row[9]), all[all.len() - 1]);
    }
}
