use evendb_trace::{Header, Kind, Operation, Outcome, Reader, Times, Writer};

use super::{Drift, Portrait, Row};

fn portrait(header: &Header, operations: &[Operation]) -> Portrait {
    let mut writer = Writer::new(Vec::new(), header).unwrap();
    for operation in operations {
        writer.add(operation).unwrap();
    }
    let bytes = writer.finish().unwrap().0;
    Portrait::of(Reader::new(&bytes[..]).unwrap()).unwrap()
}

fn header() -> Header {
    Header {
        one_in: 1,
        keyspaces: [(0, "default".to_owned()), (1, "users".to_owned())].into(),
        ..Header::default()
    }
}

fn at(millis: u64, kind: Kind, key: &str) -> Operation {
    let mut operation = Operation::new(kind, key);
    operation.start_nanos = millis * 1_000_000;
    operation
}

fn put(millis: u64, key: &str, len: u64) -> Operation {
    let mut put = at(millis, Kind::Put, key);
    put.value_len = Some(len);
    put
}

fn get(millis: u64, key: &str, outcome: Outcome) -> Operation {
    let mut get = at(millis, Kind::Get, key);
    get.outcome = outcome;
    get
}

fn present(len: u64) -> Outcome {
    Outcome::Present {
        len: Some(len),
        hash: None,
    }
}

fn row<'a>(drift: &'a Drift, what: &str) -> &'a Row {
    let found = drift.rows.iter().find(|row| row.what == what);
    found.unwrap_or_else(|| panic!("no row {what} in {:?}", drift.rows))
}

fn near(distance: Option<f64>, expected: f64) {
    let distance = distance.unwrap();
    assert!((distance - expected).abs() < 1e-9, "{distance} {expected}");
}

/// Eight puts and two gets in two seconds; the other has five of each in one.
fn two() -> (Portrait, Portrait) {
    let mut one: Vec<_> = (0..8).map(|n| put(n * 250, "hot", 100)).collect();
    one.push(get(1900, "hot", present(100)));
    one.push(get(2000, "cold", Outcome::Absent));
    let mut other: Vec<_> = (0..5)
        .map(|n| put(n * 100, &format!("k{n}"), 200))
        .collect();
    other.extend((0..4).map(|n| get(500 + n, "hot", present(300))));
    let mut last = get(1000, "hot", present(300));
    last.keyspace = 1;
    other.push(last);
    (portrait(&header(), &one), portrait(&header(), &other))
}

#[test]
fn each_part_has_its_distance() {
    let (a, b) = two();
    let drift = Drift::of(&a, &b);
    assert_eq!(drift.warnings, Vec::<String>::new());
    let kinds = row(&drift, "kinds");
    near(kinds.distance, 0.3);
    assert_eq!(
        (
            &row(&drift, "kind put").a[..],
            &row(&drift, "kind put").b[..]
        ),
        ("80.00 %", "50.00 %")
    );
    near(row(&drift, "keyspaces").distance, 0.1);
    assert_eq!(row(&drift, "keyspace users").a, "0.00 %");
    // Ten operations in 2 s, ten in 1 s.
    near(row(&drift, "operations a second").distance, 0.5);
    assert_eq!(
        row(&drift, "most in a second").values,
        (5.0.into(), 9.0.into())
    );
    near(row(&drift, "bytes of values written").distance, 1.0);
    near(row(&drift, "bytes of values found").distance, 1.0);
    assert_eq!(
        row(&drift, "bytes of values written, p99").values,
        (100.into(), 200.into())
    );
    // Half of the reads found nothing in the one, none in the other.
    near(row(&drift, "reads that found nothing").distance, 0.5);
    // Nine of ten accesses go to one key; in the other four of ten, in another keyspace one more.
    near(row(&drift, "accesses of the hottest key").distance, 0.5);
    near(row(&drift, "accesses of the 10 hottest keys").distance, 0.0);
    assert_eq!(row(&drift, "different keys").values, (2.into(), 7.into()));
    // Both have `hot` of the keyspace `default`.
    let both = row(&drift, "hottest keys that both have");
    near(both.distance, 0.5);
    assert_eq!(both.a, "1 of 2");
    let text = drift.text(["one", "other"]);
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("different") && first.contains("kinds 0.30"),
        "{text}"
    );
    let json = drift.to_json(["one", "other"]);
    assert_eq!(json["different"][0], "bytes of values written");
}

#[test]
fn a_trace_does_not_differ_from_itself() {
    let (a, _) = two();
    let (again, _) = two();
    let drift = Drift::of(&a, &again);
    assert!(
        drift
            .rows
            .iter()
            .all(|row| row.distance.is_none_or(|distance| distance == 0.0))
    );
    assert!(drift.text(["one", "one"]).starts_with("no part differs"));
}

/// What a trace does not tell is not known, and no distance stands for it.
#[test]
fn what_is_not_known_has_no_distance() {
    let unknown = header();
    let unknown = Header {
        times: Times::Order,
        ..unknown
    };
    let mut scan = at(0, Kind::Scan, "a");
    scan.limit = Some(5);
    let one = portrait(
        &unknown,
        &[
            get(0, "a", Outcome::Unknown),
            at(0, Kind::Put, "a"),
            scan.clone(),
        ],
    );
    scan.count = Some(3);
    let other = portrait(
        &header(),
        &[get(0, "a", present(9)), put(1000, "a", 5), scan],
    );
    let drift = Drift::of(&one, &other);
    for what in [
        "operations a second",
        "most in a second",
        "bytes of values written",
        "records of scans",
        "reads that found nothing",
    ] {
        let row = row(&drift, what);
        assert_eq!((&row.a[..], row.distance), ("not known", None), "{what}");
        assert!(row.values.0.is_null() && !row.values.1.is_null(), "{what}");
    }
    let said = drift.warnings.join("\n");
    assert!(
        said.contains("A has no times") && said.contains("1 of its 1 reads"),
        "{said}"
    );
}

#[test]
fn samples_of_different_shares_are_told() {
    let sample = Header {
        one_in: 100,
        ..header()
    };
    let drift = Drift::of(&portrait(&sample, &[]), &portrait(&header(), &[]));
    assert!(
        drift.warnings[0].contains("one key in 100"),
        "{:?}",
        drift.warnings
    );
    assert!(
        drift
            .rows
            .iter()
            .all(|row| row.distance.is_none_or(|distance| distance == 0.0))
    );
}

#[test]
fn values_that_compress_more_are_seen() {
    let with = |value: Vec<u8>| {
        let mut put = put(0, "k", value.len() as u64);
        put.value = Some(value);
        portrait(&header(), &[put])
    };
    let noise: Vec<u8> = (0..5000_u64)
        .flat_map(|n| evendb_trace::value_hash(&n.to_le_bytes()).to_le_bytes())
        .collect();
    let half: Vec<u8> = [noise[..20_000].to_vec(), vec![0; 20_000]].concat();
    let drift = Drift::of(&with(noise), &with(half));
    let off = row(&drift, "values compressed by LZ4").distance.unwrap();
    assert!((off - 0.5).abs() < 0.02, "{off}");
}
