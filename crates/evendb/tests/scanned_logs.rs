//! Scans that read many runs from disk have them merged; other reads, and scans that cannot write, do not.

use evendb::{Db, Options};
use std::time::{Duration, Instant};

const RECORDS: u32 = 1000;
const RUNS: u32 = 8;
/// So long may something take that happens at once: then the test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// All reads are from disk: neither munks nor rows.
fn options() -> Options {
    Options::new()
        .memory_budget(16 << 20)
        .advanced(|advanced| advanced.chunk_bytes(1 << 20).munks(false))
}

fn key(number: u32) -> String {
    format!("{number:04}")
}

fn value(number: u32) -> Vec<u8> {
    let round = match number % 100 {
        spread if spread < RUNS => spread,
        _ => 0,
    };
    let mut value = format!("{number} of round {round}").into_bytes();
    value.resize(400, 7);
    value
}

/// A chunk with a base and as many runs, each spread over all of it.
fn db_with_runs(place: &std::path::Path) -> Db {
    let db = options().open(place).expect("opens");
    for number in 0..RECORDS {
        db.put(key(number), "old").expect("puts");
    }
    db.compact().expect("compacts");
    for number in (0..RECORDS).filter(|number| number % 100 >= RUNS) {
        db.put(key(number), value(number)).expect("puts");
    }
    db.compact().expect("compacts");
    for round in 0..RUNS {
        for number in (0..RECORDS).filter(|number| number % 100 == round) {
            db.put(key(number), value(number)).expect("puts");
        }
        db.flush().expect("flushes");
    }
    db.settle_debt().expect("settles");
    db
}

fn scan(db: &Db, from: u32) {
    let mut expected = from..RECORDS;
    for item in db.range(key(from)..) {
        let (found, bytes) = item.expect("reads");
        let number = expected.next().expect("no more than were put");
        assert_eq!(found.as_ref(), key(number).as_bytes());
        assert_eq!(bytes.as_ref(), value(number), "record {number}");
    }
    assert_eq!(expected.next(), None);
}

#[test]
fn scans_from_disk_have_runs_merged() {
    let place = tempfile::tempdir().expect("a directory");
    let db = db_with_runs(place.path());
    let before = db.stats().log_merges;
    for number in 0..RECORDS {
        let found = db.get(key(number)).expect("reads").expect("is there");
        assert_eq!(found.as_ref(), value(number));
    }
    db.settle_debt().expect("settles");
    assert_eq!(db.stats().log_merges, before, "gets read one run each");
    let start = Instant::now();
    while db.stats().log_merges == before {
        assert!(start.elapsed() < PATIENCE, "runs stay after many scans");
        scan(&db, 0);
        scan(&db, RECORDS / 2);
    }
    scan(&db, 0);
    // What is one run is not merged again, however often it is read.
    db.settle_debt().expect("settles");
    let merged = db.stats().log_merges;
    (0..200).for_each(|_| scan(&db, 0));
    db.settle_debt().expect("settles");
    assert_eq!(db.stats().log_merges, merged);
    db.close().expect("closes");
    scan(&options().open(place.path()).expect("opens"), 0);
}

#[test]
fn scans_of_a_database_for_reading_only_change_nothing() {
    let place = tempfile::tempdir().expect("a directory");
    db_with_runs(place.path()).close().expect("closes");
    let db = options().read_only(true).open(place.path()).expect("opens");
    (0..200).for_each(|_| scan(&db, 0));
    assert_eq!(db.stats().log_merges, 0);
}
