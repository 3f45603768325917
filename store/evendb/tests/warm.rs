//! Warm reopening: the spans that were in RAM come back; and whatever happens to the file that
//! lists them, every record reads right.

use evendb::{Db, Options};
use std::path::Path;
use std::time::{Duration, Instant};

const RECORDS: u32 = 40_000;
const HOT: u32 = 2_000;
/// The longest time that an immediate event may take: then the test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// About 40 MiB of data in 16 MiB. The number of hot records that rows take before spans are
/// loaded, and then keep, is random: so there are no rows.
fn options() -> Options {
    with_rows(false)
}

fn with_rows(yes: bool) -> Options {
    Options::new()
        .memory_budget(16 << 20)
        .advanced(|advanced| advanced.chunk_bytes(256 << 10).row_cache(yes))
}

fn cold() -> Options {
    options().advanced(|advanced| advanced.warm_reopening(false))
}

fn key(number: u32) -> String {
    format!("{number:06}")
}

fn value(number: u32) -> Vec<u8> {
    let mut value = key(number).into_bytes();
    value.resize(1000, number as u8);
    value
}

fn get(db: &Db, number: u32) {
    let found = db.get(key(number)).expect("it reads").expect("it is there");
    assert_eq!(found.as_ref(), value(number), "record {number}");
}

fn wait(what: &str, mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A database whose first records were hot when it was closed.
fn closed_hot(place: &Path) {
    closed_hot_with(false, place);
}

/// Like [`closed_hot`]; returns the number of the hot records that spans held.
fn closed_hot_with(rows: bool, place: &Path) -> u64 {
    let db = with_rows(rows).open(place).expect("opens");
    for number in 0..RECORDS {
        db.put(key(number), value(number)).expect("puts");
    }
    db.settle_debt().expect("settles");
    let in_spans = heat(&db);
    db.close().expect("closes");
    let nearly_all = u64::from(HOT) * 9 / 10;
    assert!(rows || in_spans >= nearly_all, "{in_spans} of {HOT}");
    in_spans
}

/// Reads the hot records until nearly all are read from RAM. Returns the number of them that spans
/// hold then.
fn heat(db: &Db) -> u64 {
    let mut in_spans = 0;
    wait("hot records are read from RAM", || {
        let before = db.stats().gets;
        (0..HOT).for_each(|number| get(db, number));
        let after = db.stats().gets;
        in_spans = after.munk - before.munk;
        let in_rows = after.row_cache - before.row_cache;
        in_spans + in_rows >= u64::from(HOT) * 9 / 10
    });
    in_spans
}

fn is_warm(db: &Db) -> bool {
    let stats = db.stats();
    stats.warmed_spans > 0 && stats.spans_to_warm == 0
}

/// The number of the hot records that a fresh opening reads from spans in RAM.
fn hot_hits(db: &Db) -> u64 {
    let before = db.stats().gets.munk;
    (0..HOT).for_each(|number| get(db, number));
    db.stats().gets.munk - before
}

#[test]
fn what_was_hot_is_in_ram_before_it_is_read() {
    for rows in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let in_spans = closed_hot_with(rows, dir.path());
        // Twice: a life that only loaded it passes it on.
        for _ in 0..2 {
            let db = with_rows(rows).open(dir.path()).expect("opens");
            wait("it is loaded", || is_warm(&db));
            let hits = hot_hits(&db);
            assert!(
                hits >= in_spans * 6 / 7,
                "{hits} of {in_spans}, rows: {rows}"
            );
            let memory = db.stats().memory;
            assert!(memory.used() <= memory.budget + (1 << 20), "{memory:?}");
            db.close().expect("closes");
        }
        // The same database without warm reopening: nothing is loaded, and the file stays for the
        // next life.
        let db = cold().open(dir.path()).expect("opens");
        hot_hits(&db);
        let stats = db.stats();
        assert_eq!((stats.warmed_spans, stats.spans_to_warm), (0, 0));
        db.close().expect("closes");
        assert!(dir.path().join("HEAT").exists());
    }
}

/// The hot spans of a chunk, in its middle, come back before the others, which are in RAM too.
#[test]
fn what_comes_back_by_heat_stays_in_order() {
    const FEW: u32 = 1500;
    let all = |db: &Db| {
        (0..FEW).for_each(|number| get(db, number));
        let keys: Vec<_> = db.iter().map(|item| item.expect("reads").0).collect();
        assert_eq!(keys.len(), FEW as usize);
        let in_order = keys.iter().zip(0..);
        in_order.for_each(|(found, number)| assert_eq!(found.as_ref(), key(number).as_bytes()));
    };
    let dir = tempfile::tempdir().expect("a directory");
    let options = || {
        let options = options().memory_budget(64 << 20);
        options.advanced(|advanced| advanced.chunk_bytes(4 << 20))
    };
    let db = options().open(dir.path()).expect("opens");
    (0..FEW).for_each(|number| db.put(key(number), value(number)).expect("puts"));
    db.compact().expect("compacts");
    db.close().expect("closes");
    // A life that ends before its threads have begun is not remembered.
    wait("a life is remembered", || {
        let db = options().open(dir.path()).expect("opens");
        wait("all is read from RAM", || {
            let before = db.stats().gets.munk;
            all(&db);
            (0..20).for_each(|_| (500..700).for_each(|number| get(&db, number)));
            db.stats().gets.munk - before >= u64::from(FEW) + 4000
        });
        std::thread::sleep(Duration::from_millis(100));
        db.close().expect("closes");
        dir.path().join("HEAT").exists()
    });
    for _ in 0..3 {
        let db = options().open(dir.path()).expect("opens");
        wait("it is loaded", || is_warm(&db));
        all(&db);
        (0..FEW)
            .step_by(3)
            .for_each(|number| db.put(key(number), value(number)).expect("puts"));
        db.compact().expect("compacts");
        all(&db);
        (0..20).for_each(|_| (500..700).for_each(|number| get(&db, number)));
        db.close().expect("closes");
    }
}

/// Neither kind has threads that could load.
#[test]
fn readers_and_databases_without_workers_leave_the_file_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    closed_hot(dir.path());
    let before = std::fs::read(dir.path().join("HEAT")).expect("it was written");
    for options in [options().read_only(true), options().workers(0)] {
        let db = options.open(dir.path()).expect("opens");
        (0..RECORDS).for_each(|number| get(&db, number));
        let stats = db.stats();
        assert_eq!((stats.warmed_spans, stats.spans_to_warm), (0, 0));
        db.close().expect("closes");
        let after = std::fs::read(dir.path().join("HEAT")).expect("it is there");
        assert!(before == after);
    }
}

#[test]
fn whatever_the_file_holds_the_records_are_there() {
    let dir = tempfile::tempdir().expect("a directory");
    closed_hot(dir.path());
    let path = dir.path().join("HEAT");
    let whole = std::fs::read(&path).expect("it was written");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 0x40;
    let half = whole[..whole.len() / 2].to_vec();
    for bytes in [Vec::new(), b"no heat at all".to_vec(), half, flipped] {
        std::fs::write(&path, &bytes).expect("writes");
        let db = options().open(dir.path()).expect("opens");
        (0..RECORDS).step_by(7).for_each(|number| get(&db, number));
        assert_eq!(db.stats().warmed_spans, 0);
        db.close().expect("closes");
    }
    // The file is neither read nor replaced.
    std::fs::remove_file(&path).expect("removes");
    std::fs::create_dir(&path).expect("creates");
    std::fs::write(path.join("inside"), "").expect("writes");
    let db = options().open(dir.path()).expect("opens");
    get(&db, 1);
    db.close().expect("closes");
}

#[test]
fn what_is_no_longer_there_is_not_loaded() {
    let dir = tempfile::tempdir().expect("a directory");
    closed_hot(dir.path());
    let path = dir.path().join("HEAT");
    let old = std::fs::read(&path).expect("it was written");
    // Everything is deleted, in lives that neither read nor write the file.
    let db = cold().open(dir.path()).expect("opens");
    db.delete_prefix("").expect("deletes");
    let other = db.keyspace("other").expect("creates");
    other.put("a", "1").expect("puts");
    db.settle_debt().expect("settles");
    db.close().expect("closes");
    assert!(std::fs::read(&path).expect("it is there") == old);
    let db = options().open(dir.path()).expect("opens");
    wait("it is loaded", || {
        let stats = db.stats();
        stats.spans_to_warm == 0 && db.get(key(0)).expect("reads").is_none()
    });
    assert_eq!(db.iter().count(), 0);
    db.close().expect("closes");
}
