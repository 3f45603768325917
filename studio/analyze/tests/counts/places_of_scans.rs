//! Where scans in reverse are counted, unknown facts, and failures.

use crate::load::*;
use evendb_trace::{Failure, Header, Kind, Operation, Outcome, Writer};
use serde_json::{Value, json};

fn at(number: u64, kind: Kind, key: &str, outcome: Outcome) -> Operation {
    let mut operation = Operation::new(kind, key);
    operation.start_nanos = number * 1_000_000;
    operation.outcome = outcome;
    operation
}

fn hottest(operations: &[Operation], kind: &str) -> Vec<(String, u64)> {
    let document = found(operations);
    let rows = figure(&document, "hottest-keys").rows.clone();
    let rows = rows.into_iter().filter(|row| row[1] == kind);
    let named = rows.map(|row| {
        (
            row[3].as_str().unwrap().to_owned(),
            row[4].as_u64().unwrap(),
        )
    });
    named.collect()
}

#[test]
fn scans_in_reverse_are_counted_where_they_begin() {
    let scan = |number, low: &str, high: Option<&str>| {
        let mut scan = at(number, Kind::Scan, low, Outcome::Done);
        scan.end_key = high.map(|high| high.as_bytes().to_vec());
        scan.reverse = true;
        scan.count = Some(3);
        scan
    };
    let operations = [
        at(1, Kind::Put, "time 7", Outcome::Done),
        at(2, Kind::Put, "time 1", Outcome::Done),
        // The last records of all, twice; a prefix; the record at which a seek to a key before it
        // began.
        scan(3, "", None),
        scan(4, "", None),
        scan(5, "user/7/", Some("user/70")),
        scan(6, "", Some("sought\0")),
    ];
    let mut found = hottest(&operations, "scan");
    found.sort();
    let expected = [("sought", 1), ("time 7", 2), ("user/70", 1)];
    assert_eq!(found, expected.map(|(key, count)| (key.to_owned(), count)));
}

#[test]
fn what_a_trace_does_not_tell_is_null_and_what_failed_is_counted_apart() {
    let failed = Outcome::Failed(Failure::NoSpace);
    let mut put = at(1, Kind::Put, "a", Outcome::Done);
    put.value_len = Some(10);
    let mut refused = at(2, Kind::Put, "b", failed);
    refused.value_len = Some(1000);
    // A write of a transaction that was not committed.
    let mut taken_back = at(2, Kind::Put, "b", Outcome::Failed(Failure::RolledBack));
    (taken_back.value_len, taken_back.group) = (Some(2000), 1);
    let document = found(&[
        put,
        refused,
        taken_back,
        at(3, Kind::Get, "a", Outcome::Unknown),
        at(4, Kind::Contains, "a", Outcome::Absent),
    ]);
    let rows = &figure(&document, "composition").rows;
    let row = |kind: &str| rows.iter().find(|row| row[1] == kind).unwrap();
    let counts = |kind: &str| [2, 4, 5, 6, 7].map(|cell| row(kind)[cell].clone());
    assert_eq!(
        counts("put"),
        [json!(1), json!(1), json!(0), json!(0), json!(2)]
    );
    let nothing = || Value::Null;
    assert_eq!(
        counts("get"),
        [json!(1), json!(1), nothing(), nothing(), nothing()]
    );
    assert_eq!(
        counts("contains"),
        [json!(1), json!(1), json!(0), json!(1), json!(0)]
    );
    let sizes = &figure(&document, "sizes").rows;
    let size = sizes
        .iter()
        .find(|row| row[1] == "put" && row[2] == "value")
        .unwrap();
    assert_eq!(size[8], 10);
    assert!(
        figure(&document, "hottest-keys")
            .rows
            .iter()
            .all(|row| row[3] != "b")
    );
}

#[test]
fn a_trace_that_is_not_whole_is_told_above_the_figures_and_by_the_exit_code() {
    let place = tempfile::tempdir().unwrap();
    let trace = place.path().join("a.trace");
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for number in 0..50 {
        writer
            .add(&at(number, Kind::Get, "key", Outcome::Absent))
            .unwrap();
    }
    let whole = writer.finish().unwrap().0;
    let run = |bytes: &[u8], out: &str| {
        std::fs::write(&trace, bytes).unwrap();
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_evendb-analyze"));
        let done = program
            .arg(&trace)
            .arg("--out")
            .arg(place.path().join(out))
            .args(["--memory-mib", "256"])
            .output()
            .unwrap();
        (
            done.status.code(),
            String::from_utf8_lossy(&done.stderr).into_owned(),
        )
    };
    assert_eq!(run(&whole, "whole").0, Some(0));
    let (code, error) = run(&whole[..whole.len() - 5], "torn");
    assert!(
        code == Some(5) && error.contains("not whole") && error.contains("ends within a frame"),
        "{code:?} {error}"
    );
    let page = std::fs::read_to_string(place.path().join("torn/page.html")).unwrap();
    assert!(page.contains("ends within a frame"));
    let (code, error) = run(&whole, "whole");
    assert!(
        code == Some(1) && error.contains("is there already") && !error.contains("os error"),
        "{error}"
    );
}
