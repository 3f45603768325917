//! When operations come, and how many different keys they name in a period.

use crate::load::*;
use evendb_report::Document;
use evendb_trace::{Kind, Operation};
use std::collections::{BTreeMap, BTreeSet};

/// The end of the trace: that of the operation that ended last.
fn duration(operations: &[Operation]) -> u64 {
    let end = |operation: &Operation| operation.start_nanos + operation.latency_nanos.unwrap_or(0);
    operations.iter().map(end).max().unwrap()
}

/// The same time for each bin, in whole nanoseconds, as in the figure.
fn step_nanos(times: &[f64]) -> u64 {
    let step = (times[1] * 1e9).round() as u64;
    for (at, time) in times.iter().enumerate() {
        assert!((time - at as f64 * step as f64 / 1e9).abs() < 1e-9);
    }
    step
}

fn assert_rates(operations: &[Operation], document: &Document) {
    let found = figure(document, "rates");
    assert_columns(found, "keyspace kind time per_second");
    let kinds: BTreeSet<(String, &str)> = operations
        .iter()
        .map(|operation| (keyspace(operation), operation.kind.name()))
        .collect();
    let runs = found.rows.chunk_by(|a, b| a[..2] == b[..2]);
    assert_eq!(runs.clone().count(), kinds.len());
    for (run, (name, kind)) in runs.zip(kinds) {
        assert_eq!(
            (text(&run[0][0]), text(&run[0][1])),
            (name.clone(), kind.to_owned())
        );
        let times: Vec<f64> = run.iter().map(|row| row[2].as_f64().unwrap()).collect();
        assert!(times.len() > 1 && times.len() <= 300);
        let step = step_nanos(&times);
        let mut counts = vec![0_u64; times.len()];
        let of_kind = operations
            .iter()
            .filter(|operation| keyspace(operation) == name);
        for operation in of_kind.filter(|operation| operation.kind.name() == kind) {
            counts[(operation.start_nanos / step) as usize] += 1;
        }
        for (row, count) in run.iter().zip(&counts) {
            assert!(near(&row[3], *count as f64 / (step as f64 / 1e9)));
        }
        // The bins cover the whole trace, and little more.
        let end = step * times.len() as u64;
        assert!(end > duration(operations) && end - duration(operations) <= step);
    }
}

fn assert_unique_keys(operations: &[Operation], document: &Document) {
    let found = figure(document, "unique-keys");
    assert_columns(
        found,
        "keyspace period_seconds time operations unique_keys new_keys",
    );
    let mut all: BTreeMap<String, Vec<&Operation>> = BTreeMap::new();
    for operation in operations.iter().filter(|operation| has_key(operation)) {
        all.entry(keyspace(operation)).or_default().push(operation);
    }
    let runs = found.rows.chunk_by(|a, b| a[0] == b[0]);
    assert_eq!(runs.clone().count(), all.len());
    for (run, (name, operations)) in runs.zip(&all) {
        assert_eq!(text(&run[0][0]), *name);
        assert!(run.len() > 1 && run.len() <= 200);
        let times: Vec<f64> = run.iter().map(|row| row[2].as_f64().unwrap()).collect();
        let step = step_nanos(&times);
        let mut seen: BTreeSet<&[u8]> = BTreeSet::new();
        for (period, row) in run.iter().enumerate() {
            assert!(near(&row[1], step as f64 / 1e9));
            let here = operations
                .iter()
                .filter(|operation| operation.start_nanos / step == period as u64);
            let keys: Vec<&[u8]> = here.map(|operation| operation.key.as_slice()).collect();
            let different: BTreeSet<&[u8]> = keys.iter().copied().collect();
            let new = different.difference(&seen).count();
            let expected = [keys.len(), different.len(), new].map(|count| count as u64);
            assert_eq!([3, 4, 5].map(|cell| whole(&row[cell])), expected);
            seen.extend(different);
        }
        let sum: u64 = run.iter().map(|row| whole(&row[5])).sum();
        assert_eq!(sum, seen.len() as u64);
    }
}

#[test]
fn rates_are_counts_of_equal_stretches() {
    let Large {
        done: operations,
        document,
        ..
    } = large();
    assert_rates(operations, document);
    let zero = figure(document, "rates")
        .rows
        .iter()
        .filter(|row| row[3] == 0.0);
    assert!(zero.count() > 0, "the load has pauses");
}

#[test]
fn periods_have_their_different_and_their_new_keys() {
    let Large {
        done: operations,
        document,
        ..
    } = large();
    assert_unique_keys(operations, document);
}

#[test]
fn a_trace_of_few_operations_has_few_stretches() {
    let mut all = operations_of_all_kinds(300);
    // The end of the done operations is that of the trace.
    all.retain(|operation| !matches!(operation.outcome, evendb_trace::Outcome::Failed(_)));
    all.truncate(200);
    let document = found(&all);
    let operations = done(&all);
    assert_rates(&operations, &document);
    assert_unique_keys(&operations, &document);
    let rates = figure(&document, "rates");
    let run = rates.rows.chunk_by(|a, b| a[..2] == b[..2]).next().unwrap();
    assert_eq!(run.len(), 4);
}

#[test]
fn keys_that_are_new_to_one_kind_alone_are_not_new() {
    let mut operations = Vec::new();
    for number in 0..200_u64 {
        let kind = if number < 100 { Kind::Put } else { Kind::Get };
        let mut operation = Operation::new(kind, (number % 100).to_be_bytes());
        operation.start_nanos = number * 1_000_000;
        operations.push(operation);
    }
    let document = found(&operations);
    assert_unique_keys(&operations, &document);
    let rows = &figure(&document, "unique-keys").rows;
    let new: Vec<u64> = rows.iter().map(|row| whole(&row[5])).collect();
    assert_eq!(new, [100, 0]);
}
