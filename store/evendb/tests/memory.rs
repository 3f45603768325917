//! The memory budget under small limits: charged memory stays within it while there are far more
//! chunks, tables and log records than it holds, and everything still reads right.

use evendb::{Db, LogSearch, Options};
use parking_lot::Mutex;
use std::collections::BTreeMap;

const BUDGET: u64 = 4 << 20;
/// The bytes that may be charged above the budget for a moment: a munk that is being replaced, a
/// table that was just opened, a record that was admitted alone.
const ALLOWANCE: u64 = 768 << 10;

/// One test at a time: a pinned thread of another test that gets no processor would keep memory
/// that this one has released.
static ALONE: Mutex<()> = Mutex::new(());

fn options() -> Options {
    Options::new()
        .memory_budget(BUDGET)
        .advanced(|advanced| advanced.chunk_bytes(32 << 10))
        .workers(0)
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:08}").into_bytes()
}

fn value(number: u64, round: u64) -> Vec<u8> {
    let mut value = format!("{number}-{round}-").into_bytes();
    value.resize(200, b'.');
    value
}

fn check(db: &Db, what: &str) {
    let memory = db.stats().memory;
    // Holes in slabs belong to the process: here to all tests.
    let used = memory.used() - memory.unreclaimed;
    assert!(
        used <= BUDGET + ALLOWANCE,
        "{what}: {used} bytes of {BUDGET}: {memory:?}"
    );
}

/// Scattered numbers below `end`, the same in every run.
fn scattered(end: u64, step: u64) -> u64 {
    step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % end
}

#[test]
fn more_chunks_than_the_budget_holds() {
    let _alone = ALONE.lock();
    let dir = tempfile::tempdir().unwrap();
    let db = options().open(dir.path()).unwrap();
    let mut model = BTreeMap::new();
    let records = 60_000;
    for number in 0..records {
        db.put(key(number), value(number, 0)).unwrap();
        model.insert(key(number), value(number, 0));
        if number % 500 == 0 {
            check(&db, "load");
        }
    }
    assert!(db.stats().chunks > 300, "{} chunks", db.stats().chunks);
    for step in 0..40_000 {
        let number = scattered(records, step);
        if step % 3 == 0 {
            db.put(key(number), value(number, step)).unwrap();
            model.insert(key(number), value(number, step));
        } else {
            let got = db.get(key(number)).unwrap().expect("every key is there");
            assert_eq!(got, model[&key(number)]);
        }
        if step % 500 == 0 {
            check(&db, "puts and gets");
        }
    }
    let mut cursor = db.cursor::<&[u8]>(..);
    let mut expected = model.iter();
    let mut scanned = 0;
    while let Some((key, value)) = cursor.next().unwrap() {
        let (wanted_key, wanted) = expected.next().expect("no more than there are");
        assert_eq!((key, value), (&wanted_key[..], &wanted[..]));
        scanned += 1;
        if scanned % 2000 == 0 {
            check(&db, "scan");
        }
    }
    assert!(expected.next().is_none());
    drop(cursor);
    db.close().unwrap();
}

#[test]
fn snapshots_do_not_break_the_budget() {
    let _alone = ALONE.lock();
    let dir = tempfile::tempdir().unwrap();
    let db = options().open(dir.path()).unwrap();
    let mut snapshots = Vec::new();
    for round in 0..100 {
        for step in 0..300 {
            let number = scattered(2000, round * 300 + step);
            db.put(key(number), value(number, round)).unwrap();
        }
        db.put("marker", value(0, round)).unwrap();
        snapshots.push(db.snapshot().unwrap());
        check(&db, "snapshots");
    }
    for (round, snapshot) in snapshots.iter().enumerate() {
        let marker = snapshot.get(db.default_keyspace(), "marker").unwrap();
        assert_eq!(marker.expect("put before"), value(0, round as u64));
    }
    check(&db, "reading snapshots");
}

#[test]
fn few_files_are_open_at_once() {
    let _alone = ALONE.lock();
    let dir = tempfile::tempdir().unwrap();
    // No munks, so that gets read tables.
    let db = options()
        .advanced(|advanced| advanced.open_files_max(4).munks(false))
        .open(dir.path())
        .unwrap();
    let records = 20_000;
    for step in 0..records {
        // Scattered, so that the tables are rewritten into files.
        let number = scattered(records, step);
        db.put(key(number), value(number, 0)).unwrap();
    }
    db.settle_debt().unwrap();
    let mut files = 0;
    for step in 0..4_000 {
        let number = scattered(records, scattered(records, step));
        if db.get(key(number)).unwrap().is_none() {
            continue;
        }
        files = files.max(db.stats().open_files);
        assert!(files <= 4, "{files} files are open");
    }
    assert_eq!(files, 4, "as many as allowed are kept open");
    assert_eq!(db.iter().count(), db.iter().rev().count());
}

#[test]
fn values_kept_by_a_user_are_not_the_stores() {
    let _alone = ALONE.lock();
    let dir = tempfile::tempdir().unwrap();
    let db = options().open(dir.path()).unwrap();
    let records = 20_000;
    for number in 0..records {
        db.put(key(number), value(number, 0)).unwrap();
    }
    let mut kept = Vec::new();
    for step in 0..20_000 {
        let number = scattered(records, step);
        kept.push((number, db.get(key(number)).unwrap().expect("is there")));
        if step % 1000 == 0 {
            db.settle_debt().unwrap();
            check(&db, "kept values");
        }
    }
    for (number, kept) in &kept {
        assert_eq!(*kept, value(*number, 0));
    }
}

#[test]
fn a_filter_stands_in_for_an_index() {
    let _alone = ALONE.lock();
    // Long logs: they make the index of all chunks larger than its share.
    for search in [LogSearch::Index, LogSearch::bloom()] {
        let dir = tempfile::tempdir().unwrap();
        let db = Options::new()
            .memory_budget(2 << 20)
            .advanced(|advanced| {
                advanced
                    .chunk_bytes(256 << 10)
                    .log_bytes_limits(1 << 20, 1 << 20)
                    .log_search(search)
                    .munks(false)
            })
            .workers(0)
            .open(dir.path())
            .unwrap();
        let records = 40_000;
        for round in 0..3 {
            for step in 0..records {
                let number = scattered(records, step);
                db.put(key(number), format!("{number}/{round}")).unwrap();
            }
            db.settle_debt().unwrap();
            for step in 0..records {
                let number = scattered(records, step);
                let got = db.get(key(number)).unwrap();
                assert_eq!(got.expect("is there"), format!("{number}/{round}"));
            }
        }
        let memory = db.stats().memory;
        let used = memory.used() - memory.unreclaimed;
        assert!(used <= (2 << 20) + ALLOWANCE, "{memory:?}");
    }
}

#[test]
fn runs_of_a_log_are_merged() {
    let _alone = ALONE.lock();
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        // Logs that are never at their limit: only the number of their runs is too large.
        let options = Options::new()
            .memory_budget(BUDGET)
            .advanced(|advanced| advanced.log_bytes_limits(1 << 30, 1 << 30).munks(false));
        options.workers(0).open(dir.path()).unwrap()
    };
    let mut db = open();
    let mut model = BTreeMap::new();
    let mut snapshots = Vec::new();
    for round in 0..200 {
        for step in 0..5 {
            let number = scattered(300, round * 5 + step);
            if (round + step) % 7 == 0 {
                db.delete(key(number)).unwrap();
                model.remove(&key(number));
            } else {
                db.put(key(number), value(number, round)).unwrap();
                model.insert(key(number), value(number, round));
            }
        }
        if round % 20 == 10 {
            snapshots.push((db.snapshot().unwrap(), model.clone()));
        }
        db.settle_debt().unwrap();
        for number in 0..300 {
            let got = db.get(key(number)).unwrap();
            assert_eq!(
                got.as_deref(),
                model.get(&key(number)).map(|value| &value[..])
            );
        }
        if round == 100 {
            assert!(
                db.stats().log_merges > 5,
                "{} merges",
                db.stats().log_merges
            );
            for (snapshot, then) in snapshots.drain(..) {
                let keyspace = db.default_keyspace();
                let seen: Vec<_> = snapshot
                    .iter(keyspace)
                    .map(|item| item.map(|(key, value)| (key.to_vec(), value.to_vec())))
                    .collect::<Result<_, _>>()
                    .unwrap();
                assert!(seen.iter().map(|(key, value)| (key, value)).eq(&then));
            }
            db.close().unwrap();
            db = open();
        }
    }
    assert_eq!(db.iter().count(), model.len());
}
