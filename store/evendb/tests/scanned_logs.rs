//! Scans that read many runs from disk cause merges of these; other reads, and scans that cannot
//! write, do not.

use evendb::vfs::SimVfs;
use evendb::{Db, Options};
use std::sync::Arc;
use std::time::{Duration, Instant};

const RECORDS: u32 = 1000;
const RUNS: u32 = 8;
/// The longest time that an immediate event may take: then the test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// All reads are from disk: there are neither munks nor rows.
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

/// A chunk with a base, a run that is larger than all later runs together, and [`RUNS`] small runs,
/// each spread over all of the chunk.
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
    for number in (0..RECORDS).filter(|number| number % 100 >= 100 - 2 * RUNS) {
        db.put(key(number), value(number)).expect("puts");
    }
    db.flush().expect("flushes");
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
    // The older and larger run was merged too, since it would cost each scan a read. A log of one
    // run is not merged again, however often it is read.
    db.settle_debt().expect("settles");
    assert_eq!(db.stats().log_runs_most, 1);
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

/// The most runs that a log may have: a checkpoint merges the runs of a longer one before it adds
/// one.
const RUNS_MOST: u64 = 48;

/// A composite key: an application, and a moment. A few applications have most of the records.
fn event(random: u64) -> String {
    let (app, skew) = (random % 61, random / 61 % 4);
    format!("app{:02}/{:05}", app >> skew, random / 244 % 400)
}

/// After puts to many tiny chunks, however many, a scan visits at most that number of runs.
#[test]
fn no_log_has_more_runs_than_the_limit_whatever_was_put() {
    for workers in [0, 2] {
        let vfs = Arc::new(SimVfs::new(1));
        let options = Options::new().vfs(vfs).memory_budget(2 << 20);
        let options = options.workers(workers);
        let options = options.advanced(|advanced| advanced.chunk_bytes(16 << 10).munks(false));
        let db = options.open("/db").expect("opens");
        let (mut random, mut most) = (1_u64, 0);
        for round in 0..1_000_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005) ^ round;
            db.put(event(random >> 20), round.to_le_bytes())
                .expect("puts");
            if round % 20_000 == 0 {
                most = most.max(db.stats().log_runs_most);
            }
        }
        most = most.max(db.stats().log_runs_most);
        assert!(db.stats().chunks > 10, "{} chunks", db.stats().chunks);
        assert!(db.stats().log_merges > 0 && most > 4, "{most} runs at most");
        assert!(most <= RUNS_MOST, "{workers} workers: {most} runs");
        let before = (db.stats().log_merges, db.stats().rebalances);
        let scanned = (0..61).map(|app| db.prefix(format!("app{app:02}/")).count());
        assert!(scanned.sum::<usize>() > 10_000);
        // A scan asks for merges and does none itself. Workers may have done some meanwhile.
        if workers == 0 {
            assert_eq!((db.stats().log_merges, db.stats().rebalances), before);
        }
    }
}
