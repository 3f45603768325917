//! Loads that have nearly nothing, or the largest numbers.

use crate::load::*;
use evendb_trace::{Kind, Operation, Outcome};
use serde_json::json;

#[test]
fn of_nothing_there_are_no_figures_that_say_nothing() {
    let document = found(&[]);
    for id in [
        "accesses-per-key",
        "access-counts",
        "access-ranks",
        "hottest-keys",
        "rates",
        "unique-keys",
        "sizes",
        "key-sizes",
        "value-sizes",
        "scan-lengths",
        "scan-lengths-reverse",
        "pearson",
        "latencies",
    ] {
        assert!(document.figure(id).is_none(), "{id}");
    }
    assert!(document.facts.contains(&("operations".into(), "0".into())));
    assert!(evendb_report::page(&document).contains("</html>"));
}

#[test]
fn one_operation() {
    let mut operation = Operation::new(Kind::Get, vec![0xff, b'"']);
    operation.outcome = Outcome::Present {
        len: Some(7),
        hash: None,
    };
    let document = found(&[operation]);
    let rows = |id: &str| json!(figure(&document, id).rows);
    assert_eq!(
        rows("composition"),
        json!([["users", "get", 1, 1.0, 1, 1, 0, 0]])
    );
    assert_eq!(
        rows("accesses-per-key"),
        json!([["users", "get", 1, 1.0, 1, 1, 1, 1.0, 0.0, 0.0, 0.0]])
    );
    assert_eq!(
        rows("access-counts"),
        json!([["users", "get", 1, 1, 1.0, 1.0]])
    );
    assert_eq!(rows("access-ranks"), json!([["users", "get", 1, 1, 1.0]]));
    assert_eq!(
        rows("hottest-keys"),
        json!([["users", "get", 1, "\\xff\\\"", 1, 1.0]])
    );
    assert_eq!(rows("key-sizes"), json!([["users", "get", 2, 1, 1.0]]));
    assert_eq!(rows("value-sizes"), json!([["users", "get", 7, 1, 1.0]]));
    let sizes = json!([
        ["users", "get", "key", 2.0, 0.0, 2, 2, 2, 2],
        ["users", "get", "value", 7.0, 0.0, 7, 7, 7, 7]
    ]);
    assert_eq!(rows("sizes"), sizes);
    for id in [
        "rates",
        "unique-keys",
        "scan-lengths",
        "pearson",
        "latencies",
    ] {
        assert!(document.figure(id).is_none(), "{id}");
    }
}

#[test]
fn kinds_without_keys_are_counted_and_have_none() {
    let kinds = [
        Kind::Begin,
        Kind::Commit,
        Kind::Abort,
        Kind::BatchCommit,
        Kind::Other,
    ];
    let operations = kinds.map(|kind| {
        let mut operation = Operation::new(kind, "checkpoint");
        operation.start_nanos = kind as u64;
        operation.latency_nanos = Some(5);
        operation.count = Some(9);
        operation
    });
    let document = found(&operations);
    let composition = &figure(&document, "composition").rows;
    assert!(composition.iter().all(|row| row[2] == 1 && row[4] == 0));
    assert_eq!(figure(&document, "latencies").rows.len(), 5);
    assert_eq!(figure(&document, "rates").rows.len(), 5);
    for id in [
        "accesses-per-key",
        "hottest-keys",
        "unique-keys",
        "sizes",
        "scan-lengths",
        "pearson",
    ] {
        assert!(document.figure(id).is_none(), "{id}");
    }
}

#[test]
fn the_largest_numbers_are_no_reason_to_fail() {
    let mut operations = Vec::new();
    for (number, kind) in [Kind::Put, Kind::Get, Kind::Scan, Kind::Put]
        .into_iter()
        .enumerate()
    {
        let mut operation = Operation::new(kind, vec![0xff; 1 << 17]);
        operation.keyspace = u32::MAX;
        operation.start_nanos = [0, u64::MAX / 2, u64::MAX - 1, u64::MAX][number];
        operation.latency_nanos = Some([0, 1, u64::MAX, u64::MAX / 3][number]);
        operation.value_len = (kind == Kind::Put).then_some(u64::MAX - number as u64);
        operation.count = (kind == Kind::Scan).then_some(u64::MAX);
        operations.push(operation);
    }
    // A key that is new in the last nanosecond.
    let mut last = Operation::new(Kind::Delete, "last");
    (last.keyspace, last.start_nanos) = (u32::MAX, u64::MAX);
    operations.push(last);
    let document = found(&operations);
    let name = format!("#{}", u32::MAX);
    let most = figure(&document, "value-sizes").rows.last().unwrap();
    assert_eq!(json!(most), json!([name, "put", u64::MAX, 1, 1.0]));
    assert_eq!(
        json!(figure(&document, "scan-lengths").rows),
        json!([[name, u64::MAX, 1, 1.0]])
    );
    let rates = &figure(&document, "rates").rows;
    assert!(rates.iter().all(|row| row[3].as_f64() >= Some(0.0)));
    let unique = &figure(&document, "unique-keys").rows;
    let sum = |cell: usize| unique.iter().map(|row| whole(&row[cell])).sum::<u64>();
    assert_eq!((sum(3), sum(5)), (5, 2));
    let latencies = &figure(&document, "latencies").rows;
    assert!(latencies.iter().any(|row| row[9] == u64::MAX));
    for row in &figure(&document, "pearson").rows {
        assert!(
            row[3].is_null() || row[3].as_f64().unwrap().abs() <= 1.0,
            "{row:?}"
        );
    }
}

#[test]
fn a_line_that_never_bends_has_correlation_one() {
    let mut operations = Vec::new();
    for number in 1..=50_u64 {
        let mut operation = Operation::new(Kind::Put, vec![b'k'; number as usize]);
        operation.value_len = Some(1000 - 10 * number);
        operation.start_nanos = number * 1000;
        operations.push(operation);
    }
    let document = found(&operations);
    let rows = &figure(&document, "pearson").rows;
    let of = |a: &str, b: &str| rows.iter().find(|row| row[1] == a && row[2] == b).unwrap();
    assert!(near(&of("key size", "value size")[3], -1.0));
    assert!(near(&of("key size", "time")[3], 1.0));
    assert_eq!(of("accesses", "key size")[3], json!(null));
    assert_eq!(
        rows.iter()
            .filter(|row| row[1] == "scan length" || row[2] == "latency")
            .count(),
        0
    );
}
