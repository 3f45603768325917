//! The tables behind the figures.

use crate::load::*;
use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, UInt64Type};
use evendb_analyze::{Error, operations};
use evendb_trace::formats::Format;
use evendb_trace::{Kind, Operation, Outcome};
use std::collections::BTreeMap;
use std::path::Path;

/// A whole column, in any form of text, bytes or whole numbers.
fn column<T>(
    rows: &[RecordBatch],
    name: &str,
    to: &DataType,
    get: impl Fn(&ArrayRef, usize) -> T,
) -> Vec<Option<T>> {
    let mut cells = Vec::new();
    for batch in rows {
        let column = cast(batch.column_by_name(name).unwrap(), to).unwrap();
        cells
            .extend((0..column.len()).map(|row| (!column.is_null(row)).then(|| get(&column, row))));
    }
    cells
}

pub fn texts(rows: &[RecordBatch], name: &str) -> Vec<Option<String>> {
    column(rows, name, &DataType::Utf8, |column, row| {
        column.as_string::<i32>().value(row).to_owned()
    })
}

pub fn bytes(rows: &[RecordBatch], name: &str) -> Vec<Option<Vec<u8>>> {
    column(rows, name, &DataType::Binary, |column, row| {
        column.as_binary::<i32>().value(row).to_vec()
    })
}

pub fn wholes(rows: &[RecordBatch], name: &str) -> Vec<Option<u64>> {
    column(rows, name, &DataType::UInt64, |column, row| {
        column.as_primitive::<UInt64Type>().value(row)
    })
}

#[test]
fn the_table_of_operations_has_what_the_trace_has() {
    let mut all = operations_of_all_kinds(700);
    all[3].end_key = Some(vec![0xff, 0]);
    all[4].group = 9;
    all[5].limit = Some(77);
    all[6] = Operation::new(Kind::Scan, "low");
    all[6].end_key = Some(b"right behind\0".to_vec());
    all[6].reverse = true;
    all[6].start_nanos = all[5].start_nanos;
    let rows = rows(&all, "SELECT * FROM operations ORDER BY number");
    let all = placed(&all);
    assert_eq!(all[6].key, b"right behind");
    let some = |of: &dyn Fn(&Operation) -> u64| {
        all.iter()
            .map(|operation| Some(of(operation)))
            .collect::<Vec<_>>()
    };
    let maybe = |of: &dyn Fn(&Operation) -> Option<u64>| all.iter().map(of).collect::<Vec<_>>();
    assert_eq!(
        wholes(&rows, "number"),
        (0..700).map(Some).collect::<Vec<_>>()
    );
    assert_eq!(
        wholes(&rows, "start_nanos"),
        some(&|operation| operation.start_nanos)
    );
    assert_eq!(
        wholes(&rows, "thread"),
        some(&|operation| operation.thread.into())
    );
    assert_eq!(
        wholes(&rows, "latency_nanos"),
        maybe(&|operation| operation.latency_nanos)
    );
    assert_eq!(wholes(&rows, "value_bytes"), maybe(&value_bytes));
    assert_eq!(
        wholes(&rows, "records"),
        maybe(&|operation| operation.count)
    );
    assert_eq!(
        wholes(&rows, "record_limit"),
        maybe(&|operation| operation.limit)
    );
    let groups = maybe(&|operation| Some(operation.group).filter(|group| *group > 0));
    assert_eq!(wholes(&rows, "batch"), groups);
    let keys = all.iter().map(|operation| Some(operation.key.clone()));
    assert_eq!(bytes(&rows, "key"), keys.collect::<Vec<_>>());
    let ends = all.iter().map(|operation| operation.end_key.clone());
    assert_eq!(bytes(&rows, "end_key"), ends.collect::<Vec<_>>());
    let keyspaces = all.iter().map(|operation| Some(keyspace(operation)));
    assert_eq!(texts(&rows, "keyspace"), keyspaces.collect::<Vec<_>>());
    let kinds = all
        .iter()
        .map(|operation| Some(operation.kind.name().to_owned()));
    assert_eq!(texts(&rows, "kind"), kinds.collect::<Vec<_>>());
    let reverse = all
        .iter()
        .map(|operation| Some(operation.reverse.to_string()));
    assert_eq!(texts(&rows, "reverse"), reverse.collect::<Vec<_>>());
    let outcomes = all.iter().map(|operation| {
        let name = match operation.outcome {
            Outcome::Unknown => "unknown",
            Outcome::Done => "done",
            Outcome::Absent => "absent",
            Outcome::Present { .. } => "present",
            Outcome::Failed(_) => "failed",
        };
        Some(name.to_owned())
    });
    assert_eq!(texts(&rows, "outcome"), outcomes.collect::<Vec<_>>());
    // Equal keys of a keyspace have one hash; no two others have the same here.
    let mut hashes = BTreeMap::new();
    for (operation, hash) in all.iter().zip(wholes(&rows, "key_hash")) {
        let key = (operation.keyspace, operation.key.clone());
        assert_eq!(*hashes.entry(key).or_insert(hash), hash);
    }
    let different: std::collections::BTreeSet<_> = hashes.values().collect();
    assert_eq!(different.len(), hashes.len());
}

/// How often a key was named, when first and last, and the lengths of its values.
type Key = (u64, u64, u64, Counts);

#[test]
fn the_table_of_keys_is_in_order_and_counts_each_key() {
    let all = operations_of_all_kinds(3000);
    let found = rows(&all, "SELECT * FROM keys");
    let all = done(&all);
    let mut keys: BTreeMap<_, Key> = BTreeMap::new();
    for operation in all.iter().filter(|operation| has_key(operation)) {
        let (start, kind) = (operation.start_nanos, operation.kind.name().to_owned());
        let key = keys.entry((keyspace(operation), operation.key.clone(), kind));
        let key = key.or_insert((0, start, start, Counts::default()));
        (key.0, key.2) = (key.0 + 1, start);
        value_bytes(operation)
            .into_iter()
            .for_each(|bytes| key.3.add(bytes));
    }
    let expected: Vec<_> = keys
        .keys()
        .cloned()
        .map(|(keyspace, key, kind)| (Some(keyspace), Some(key), Some(kind)))
        .collect();
    let names = texts(&found, "keyspace")
        .into_iter()
        .zip(bytes(&found, "key"))
        .zip(texts(&found, "kind"));
    let names: Vec<_> = names
        .map(|((keyspace, key), kind)| (keyspace, key, kind))
        .collect();
    assert_eq!(names, expected);
    let some =
        |of: &dyn Fn(&Key) -> u64| keys.values().map(|key| Some(of(key))).collect::<Vec<_>>();
    assert_eq!(wholes(&found, "accesses"), some(&|key| key.0));
    assert_eq!(wholes(&found, "first_nanos"), some(&|key| key.1));
    assert_eq!(wholes(&found, "last_nanos"), some(&|key| key.2));
    let means = column(&found, "value_bytes", &DataType::Float64, |column, row| {
        column.as_primitive::<Float64Type>().value(row)
    });
    for (mean, key) in means.iter().zip(keys.values()) {
        assert_eq!(mean.is_some(), !key.3.0.is_empty());
        assert!(mean.is_none_or(|mean| (mean - key.3.mean()).abs() < 1e-6));
    }
}

#[test]
fn sizes_and_counts_are_in_order() {
    let all = operations_of_all_kinds(3000);
    for (table, by) in [
        ("sizes", ["keyspace", "kind", "what"]),
        ("access_counts", ["keyspace", "kind", "kind"]),
    ] {
        let number = if table == "sizes" { "size" } else { "accesses" };
        let found = rows(&all, &format!("SELECT * FROM {table}"));
        let [a, b, c] = by.map(|name| texts(&found, name));
        let numbers = wholes(&found, number);
        let rows: Vec<_> = (0..numbers.len())
            .map(|row| (&a[row], &b[row], &c[row], numbers[row]))
            .collect();
        assert!(
            rows.len() > 50 && rows.is_sorted_by(|x, y| x < y),
            "{table}"
        );
    }
}

/// Writes the table of a source.
fn table_of(source: &[u8], format: Option<Format>) -> Result<(operations::Summary, usize), Error> {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (
        folder.path().join("source"),
        folder.path().join("operations.parquet"),
    );
    std::fs::write(&from, source).unwrap();
    let summary = operations::write(&from, format, &to, &mut |_| {})?;
    Ok((summary, std::fs::read(to).unwrap().len()))
}

#[test]
fn summaries_tell_of_the_source() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("a.trace");
    let all = operations_of_all_kinds(100);
    write(&all, &trace);
    let trace = std::fs::read(trace).unwrap();
    let (summary, _) = table_of(&trace, None).unwrap();
    assert_eq!(
        (summary.operations, summary.late, summary.one_key_in),
        (100, 0, 1)
    );
    assert_eq!(summary.source, "a test");
    let ends = all
        .iter()
        .map(|operation| operation.start_nanos + operation.latency_nanos.unwrap_or(0));
    assert_eq!(Some(summary.duration_nanos), ends.max());
    // A trace that was cut has the operations before the cut, and says that something is lost.
    let (cut, _) = table_of(&trace[..trace.len() - 20], None).unwrap();
    assert!(cut.end.is_none() || !cut.losses.unwrap().is_nothing());
    let twitter = "7,key,3,10,1,get,0\n7,key,3,10,1,set,60\nnonsense\n9,other,5,0,2,delete,0\n";
    let (summary, _) = table_of(twitter.as_bytes(), Some(Format::TwitterCsv)).unwrap();
    assert_eq!(
        (summary.operations, summary.duration_nanos),
        (3, 2_000_000_000)
    );
    assert_eq!(summary.imported.unwrap().bad, 1);
}

#[test]
fn what_is_no_trace_is_refused() {
    for source in [
        &b""[..],
        b"no trace at all, but text that is long enough",
        &[0; 300],
    ] {
        let refused = table_of(source, None).unwrap_err();
        assert!(matches!(refused, Error::Source(_)), "{refused:?}");
    }
    let nowhere = Path::new("/nowhere/at all");
    let refused = operations::write(nowhere, None, nowhere, &mut |_| {}).unwrap_err();
    assert!(
        matches!(&refused, Error::Io(message) if message.contains("/nowhere/at all")),
        "{refused:?}"
    );
}

#[test]
fn kinds_have_names_that_sql_knows() {
    // The kinds without keys, in `tables::KEYLESS`, are the kinds without keys in the naive
    // program.
    for kind in Kind::ALL {
        let is_keyless = evendb_analyze::tables::KEYLESS.contains(&format!("'{}'", kind.name()));
        assert_eq!(
            is_keyless,
            !has_key(&Operation::new(kind, "key")),
            "{kind:?}"
        );
    }
}
