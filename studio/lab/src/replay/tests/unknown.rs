//! What a trace does not tell: values, their lengths, hashes, lengths of scans, what reads found.

use super::faithful::{at, keys, len_of, prepared, present, with};
use super::*;
use crate::replay::Prepared;

#[test]
fn values_that_were_made_up_are_not_wrong_and_others_are() {
    let before = MemoryStore::new();
    for key in [b"a", b"b", b"c"] {
        before.put(key, b"old value").unwrap();
    }
    let trace = recorded(Box::new(before), with_values(), |store| {
        for key in [b"a", b"b", b"c"] {
            store.get(key, &mut |_| {}).unwrap();
        }
        store.put(b"b", b"new value").unwrap();
        for key in [b"a", b"b"] {
            store.get(key, &mut |_| {}).unwrap();
        }
    });
    let store = MemoryStore::new();
    assert_eq!(prepared(&trace, &store, &settings(1)).put, 3);
    let report = replayed(&trace, &store, &settings(1));
    assert_eq!(
        (report.compared, report.differences.total()),
        (5, 0),
        "{report:?}"
    );
    // A store that forgets the put, and gives the value that was made up: this is a difference.
    let store = Forgetful {
        inner: MemoryStore::new(),
    };
    prepared(&trace, &store.inner, &settings(1));
    let report = replayed(&trace, &store, &settings(1));
    assert_eq!(
        report.differences.other_value, 1,
        "{:?}",
        report.differences
    );
    // Another value of the same length is a difference as well.
    let store = MemoryStore::new();
    prepared(&trace, &store, &settings(1));
    store.put(b"c", b"bad value").unwrap();
    let report = replayed(&trace, &store, &settings(1));
    assert_eq!(
        report.differences.other_value, 1,
        "{:?}",
        report.differences
    );
}

/// A store whose puts have no effect.
struct Forgetful {
    inner: MemoryStore,
}

impl Store for Forgetful {
    crate::passed_on!(inner: get, delete, scan, batch, stats, settle_debt, close);

    fn name(&self) -> String {
        "forgetful".to_owned()
    }

    fn put(&self, _: &[u8], _: &[u8]) -> StoreResult<()> {
        Ok(())
    }
}

#[test]
fn hashes_of_values_that_the_trace_does_not_have_are_not_compared() {
    let hashes = RecorderOptions {
        has_hashes: true,
        ..RecorderOptions::default()
    };
    let trace = recorded(Box::new(MemoryStore::new()), hashes, |store| {
        store.put(b"a", b"value").unwrap();
        store.get(b"a", &mut |_| {}).unwrap();
    });
    let report = replayed(&trace, &MemoryStore::new(), &settings(1));
    assert_eq!((report.compared, report.differences.total()), (1, 0));
}

#[test]
fn a_scan_of_unknown_length_asks_for_as_many_records_as_the_settings_say() {
    let mut operations = puts(50, 0);
    for number in 0..4 {
        let mut scan = at(1, Kind::Scan, "key", 0);
        scan.outcome = Outcome::Unknown;
        scan.end_key = (number == 3).then(|| b"kez".to_vec());
        operations.push(scan);
    }
    let mut known = at(2, Kind::Scan, "key", 0);
    (known.limit, known.count) = (Some(20), None);
    operations.push(known);
    let trace = written(&operations);
    for (scan_length, records) in [(1, 24), (7, 48)] {
        let settings = ReplaySettings {
            scan_length,
            ..settings(1)
        };
        let report = replayed(&trace, &MemoryStore::new(), &settings);
        assert_eq!(report.kinds[&Kind::Scan].records, records);
        assert_eq!(report.unknown_lengths, 4);
    }
}

#[test]
fn what_a_trace_without_results_reads_first_is_put_before() {
    let unknown = |millis, key| with(at(millis, Kind::Get, key, 0), Outcome::Unknown);
    let put = |millis, key, len| {
        let mut put = with(at(millis, Kind::Put, key, 0), Outcome::Unknown);
        put.value_len = Some(len);
        put
    };
    let trace = written(&[
        put(0, "put first", 5),
        unknown(1, "put first"),
        unknown(2, "read"),
        unknown(3, "read, then put"),
        put(4, "read, then put", 250),
        put(5, "read, then put", 7),
        with(
            at(6, Kind::Contains, "length comes later", 0),
            present(None),
        ),
        with(at(7, Kind::Get, "length comes later", 0), present(Some(33))),
        with(at(8, Kind::Get, "absent", 0), Outcome::Absent),
        unknown(9, "absent"),
    ]);
    let store = MemoryStore::new();
    let put = prepared(&trace, &store, &settings(1));
    assert_eq!(put, Prepared { put: 3, assumed: 2 });
    assert_eq!(len_of(&store, "read"), Some(100));
    assert_eq!(len_of(&store, "read, then put"), Some(250));
    assert_eq!(len_of(&store, "length comes later"), Some(33));
    assert_eq!(keys(&store).len(), 3);
    let report = replayed(&trace, &store, &settings(1));
    // `absent` is read once more, and the trace does not say that it is not there.
    assert_eq!((report.looked, report.misses), (7, 1));
}

#[test]
fn a_replay_on_an_unprepared_store_says_that_it_measures_misses() {
    let gets: Vec<_> = (0..200)
        .map(|number| {
            with(
                at(0, Kind::Get, &format!("key{number}"), 0),
                Outcome::Unknown,
            )
        })
        .collect();
    let trace = written(&gets);
    let report = replayed(&trace, &MemoryStore::new(), &settings(1));
    assert_eq!((report.looked, report.misses), (200, 200));
    assert!(report.measures_misses());
    let store = MemoryStore::new();
    assert_eq!(prepared(&trace, &store, &settings(1)).assumed, 200);
    let report = replayed(&trace, &store, &settings(1));
    assert!(report.misses == 0 && !report.measures_misses());
    // Misses that the trace has too are a part of its load.
    let absent: Vec<_> = gets
        .into_iter()
        .map(|get| with(get, Outcome::Absent))
        .collect();
    let report = replayed(&written(&absent), &MemoryStore::new(), &settings(1));
    assert!(report.misses == 0 && !report.measures_misses());
}

#[test]
fn scans_alone_on_an_empty_store_say_that_they_measure_misses() {
    let scan = |number: u32, count| {
        let mut scan = at(number.into(), Kind::Scan, &format!("key{number}"), 0);
        scan.count = count;
        scan
    };
    let of = |count| {
        (0..100)
            .map(|number| scan(number, count))
            .collect::<Vec<_>>()
    };
    for count in [None, Some(7)] {
        let trace = written(&of(count));
        let report = replayed(&trace, &MemoryStore::new(), &settings(1));
        assert_eq!((report.scanned, report.empty_scans), (100, 100));
        assert!(report.measures_misses());
        let warnings = report.warnings(Some("a remedy"));
        assert_eq!(
            warnings,
            [
                "misses are measured: 100 of 100 scans (100.0 %) found nothing, and the trace does not say so; a remedy"
            ]
        );
        let store = MemoryStore::new();
        store.put(b"z", b"value").unwrap();
        let report = replayed(&trace, &store, &settings(1));
        assert!(report.empty_scans == 0 && report.warnings(None).is_empty());
    }
    // Scans that gave nothing in the trace.
    let report = replayed(&written(&of(Some(0))), &MemoryStore::new(), &settings(1));
    assert_eq!((report.scanned, report.empty_scans), (100, 0));
    assert!(report.warnings(None).is_empty());
}

#[test]
fn counters_of_unknown_length_are_prepared_as_counters() {
    let unknown = |millis, key| with(at(millis, Kind::Get, key, 0), Outcome::Unknown);
    let trace = written(&[
        unknown(1, "read"),
        unknown(2, "read, then added to"),
        at(3, Kind::Merge, "read, then added to", 0),
        unknown(4, "read, then put"),
        at(5, Kind::Put, "read, then put", 0),
    ]);
    assert_eq!(Merges::value_bytes(Some(Merges::Counters)), 8);
    assert_eq!(Merges::value_bytes(None), 100);
    let lens = |merges, value_bytes| {
        let store = MemoryStore::new();
        let settings = ReplaySettings {
            merges,
            value_bytes,
            ..settings(1)
        };
        prepared(&trace, &store, &settings);
        ["read", "read, then added to", "read, then put"].map(|key| len_of(&store, key).unwrap())
    };
    // Also if another length was given: it is the length of the other values.
    assert_eq!(lens(Some(Merges::Counters), 30), [30, 8, 5]);
    assert_eq!(lens(Some(Merges::Appends), 30), [30, 30, 5]);
    assert_eq!(lens(None, 100), [100, 100, 5]);
}
