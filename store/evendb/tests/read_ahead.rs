//! What long scans ask the disk for before they read it: over borders of blocks, tables and chunks,
//! in both directions, and no more than they may.

use evendb::vfs::{ReadAheadCounts, SimVfs};
use evendb::{Db, Options};
use std::sync::Arc;

const RECORDS: u32 = 10_000;
const VALUE_BYTES: usize = 800;
/// The most bytes that a scan asks for ahead of its reads.
const WINDOW_BYTES: u64 = 1 << 20;

fn open(vfs: &SimVfs, munks: bool) -> Db {
    Options::new()
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(64 << 20)
        .advanced(|advanced| advanced.chunk_bytes(512 << 10).munks(munks))
        .workers(0)
        .open("/db")
        .expect("opens")
}

fn key(number: u32) -> String {
    format!("user{number:08}")
}

fn value(number: u32, round: u32) -> Vec<u8> {
    let mut value = format!("{number} of round {round}").into_bytes();
    value.resize(VALUE_BYTES, b'.');
    value
}

fn round_of(number: u32, runs: u32) -> u32 {
    match number % 10 {
        digit if digit < runs => digit + 1,
        _ => 0,
    }
}

/// Many chunks on a disk, each with a base and `runs` runs; closed.
fn disk(runs: u32) -> SimVfs {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, false);
    for number in 0..RECORDS {
        db.put(key(number), value(number, 0)).expect("puts");
    }
    db.compact().expect("compacts");
    for run in 0..runs {
        for number in (0..RECORDS).filter(|number| number % 10 == run) {
            db.put(key(number), value(number, run + 1)).expect("puts");
        }
        db.flush().expect("flushes");
    }
    assert!(db.stats().chunks >= 10, "{} chunks", db.stats().chunks);
    db.close().expect("closes");
    vfs
}

/// The bytes that a call has read and asked for.
fn counted(vfs: &SimVfs, call: impl FnOnce()) -> ReadAheadCounts {
    let before = vfs.read_ahead();
    call();
    let after = vfs.read_ahead();
    ReadAheadCounts {
        read: after.read - before.read,
        read_as_asked: after.read_as_asked - before.read_as_asked,
        asked: after.asked - before.asked,
    }
}

fn scan(db: &Db, runs: u32, backward: bool, records: u32) {
    let mut cursor = db.cursor::<&str>(..);
    for step in 0..records {
        let (number, found) = match backward {
            false => (step, cursor.next()),
            true => (RECORDS - 1 - step, cursor.next_back()),
        };
        let (found, bytes) = found.expect("reads").expect("is there");
        assert_eq!(found, key(number).as_bytes());
        assert_eq!(bytes, value(number, round_of(number, runs)));
    }
}

#[test]
fn long_scans_have_nearly_all_read_ahead() {
    for (runs, munks) in [(0, false), (3, false), (0, true), (3, true)] {
        for backward in [false, true] {
            let vfs = disk(runs);
            let db = open(&vfs, munks);
            let counts = counted(&vfs, || scan(&db, runs, backward, RECORDS));
            let case = format!("{runs} runs, munks: {munks}, backward: {backward}: {counts:?}");
            // All except the beginning, before the scan is known to be long.
            let missed = counts.read - counts.read_as_asked;
            assert!(missed < 800 << 10, "{missed} missed; {case}");
            assert!(counts.asked < 2 * counts.read, "{case}");
        }
    }
}

#[test]
fn short_scans_ask_for_nothing() {
    let vfs = disk(0);
    let db = open(&vfs, false);
    let counts = counted(&vfs, || {
        for _ in 0..20 {
            let mut cursor = db.cursor::<&str>(..).limit_hint(30);
            for _ in 0..30 {
                assert!(cursor.next().expect("reads").is_some());
                assert!(cursor.next_back().expect("reads").is_some());
            }
        }
    });
    assert_eq!(counts.asked, 0, "{counts:?}");
    assert!(counts.read > 0);
}

#[test]
fn a_scan_that_stops_has_asked_for_a_bounded_window() {
    for backward in [false, true] {
        let vfs = disk(0);
        let db = open(&vfs, false);
        let mut least = 0;
        for records in [300, 600, 1200, 4800] {
            let given = u64::from(records) * VALUE_BYTES as u64;
            let before = vfs.read_ahead();
            let counts = counted(&vfs, || scan(&db, 0, backward, records));
            // Bytes that were asked for and not read: half of the bytes that were taken, a window,
            // and what a buffer and a cursor have ahead.
            let waste = counts.asked.saturating_sub(counts.read_as_asked);
            let most = WINDOW_BYTES.min(given) + (512 << 10);
            assert!(
                waste <= most,
                "{waste} of {records} records: {before:?}, {counts:?}"
            );
            assert!(counts.read >= least, "longer scans read more");
            least = counts.read;
        }
    }
}

/// A hint on the number of records ends the requests of a scan.
#[test]
fn a_hint_limits_what_is_asked_for() {
    let vfs = disk(0);
    let db = open(&vfs, false);
    let counts = counted(&vfs, || {
        let mut cursor = db.cursor::<&str>(..).limit_hint(2000);
        for _ in 0..2000 {
            assert!(cursor.next().expect("reads").is_some());
        }
    });
    let data = 2000 * (VALUE_BYTES as u64 + 40);
    assert!(counts.read_as_asked > data / 2, "{counts:?}");
    assert!(counts.read < data + (256 << 10), "{counts:?}");
    let waste = counts.asked.saturating_sub(counts.read_as_asked);
    assert!(waste < 640 << 10, "{waste} in vain; {counts:?}");
}

/// The range of a scan ends its requests.
#[test]
fn nothing_behind_the_range_is_asked_for() {
    let vfs = disk(0);
    let db = open(&vfs, false);
    let counts = counted(&vfs, || {
        let range = key(1000)..key(2000);
        assert_eq!(db.range(range.clone()).count(), 1000);
        assert_eq!(db.range(range).rev().count(), 1000);
    });
    let data = 2 * 1000 * (VALUE_BYTES as u64 + 40);
    assert!(counts.asked > 0);
    // A block at each end, and bytes that were asked for twice: also by a cursor for its table.
    assert!(counts.asked < 2 * data + (64 << 10), "{counts:?}");
    let read_far = counts.read > 2 * data;
    assert!(!read_far, "{counts:?}");
}
