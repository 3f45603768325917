//! The bytes that scans of few records read from disk, and that such scans give the same records as
//! others.

use evendb::vfs::SimVfs;
use evendb::{Db, Options};
use std::collections::BTreeMap;
use std::sync::Arc;

const VALUE_BYTES: usize = 800;
/// The most bytes of a block: it may be longer than a page by a record.
const BLOCK_BYTES: u64 = 4096 + 900;

/// All reads are from disk: there are neither munks nor rows.
fn open(vfs: &SimVfs) -> Db {
    let options = options(vfs).advanced(|advanced| advanced.munks(false));
    options.open("/db").expect("opens")
}

fn open_with_munks(vfs: &SimVfs) -> Db {
    options(vfs).open("/db").expect("opens")
}

fn options(vfs: &SimVfs) -> Options {
    Options::new()
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(32 << 20)
        .advanced(|advanced| advanced.chunk_bytes(256 << 10))
        .workers(0)
}

fn key(number: u32) -> String {
    format!("user{number:06}")
}

fn value(number: u32, round: u32) -> Vec<u8> {
    let mut value = format!("{number} of round {round}").into_bytes();
    value.resize(VALUE_BYTES, b'.');
    value
}

/// A database with a base of every second number, and with `runs` runs that each have one of ten of
/// these numbers anew.
fn filled(vfs: &SimVfs, records: u32, runs: u32) -> Db {
    let db = open(vfs);
    let numbers = || (0..records).map(|number| 2 * number);
    for number in numbers() {
        db.put(key(number), value(number, 0)).expect("puts");
    }
    db.compact().expect("compacts");
    for run in 1..=runs {
        for number in numbers().filter(|number| number / 2 % 10 == run) {
            db.put(key(number), value(number, run)).expect("puts");
        }
        db.flush().expect("flushes");
    }
    db
}

/// The value that [`filled`] has given to a number of its own.
fn newest(number: u32, runs: u32) -> Vec<u8> {
    match number / 2 % 10 {
        run if run <= runs => value(number, run),
        _ => value(number, 0),
    }
}

/// Bytes that `read` reads from disk the second time: tables are open by then.
fn bytes_read(vfs: &SimVfs, read: impl Fn()) -> u64 {
    read();
    let before = vfs.read_ahead().read;
    read();
    vfs.read_ahead().read - before
}

#[test]
fn a_scan_reads_what_its_limit_and_its_range_ask_for() {
    let vfs = SimVfs::new(1);
    let db = filled(&vfs, 4000, 0);
    let few = bytes_read(&vfs, || {
        assert_eq!(db.range(key(500)..).limit(10).count(), 10);
    });
    // Ten records, and a block at each end of them.
    assert!(few >= 10 * VALUE_BYTES as u64, "{few} bytes");
    assert!(few <= 10 * 900 + 2 * BLOCK_BYTES, "{few} for ten records");
    // A short forward scan is one read, wherever in a block it begins.
    for limit in 1..=9 {
        for start in 500..508 {
            for backward in [false, true] {
                let read = bytes_read(&vfs, || {
                    let range = db.range(key(2 * start)..key(2 * start + 200));
                    let given = match backward {
                        false => range.limit(limit).count(),
                        true => range.limit(limit).rev().count(),
                    };
                    assert_eq!(given as u64, limit);
                });
                // A backward range may end with the first record of a block: then there is a second
                // read, of eight pages.
                let more = if backward { 9 * BLOCK_BYTES } else { 0 };
                let most = limit * 900 + 2 * BLOCK_BYTES + more;
                assert!(
                    read <= most,
                    "{read} for {limit} records at {start}, backward: {backward}"
                );
            }
        }
    }
    let narrow = bytes_read(&vfs, || {
        assert_eq!(db.range(key(500)..key(506)).count(), 3);
        assert_eq!(db.range(key(500)..key(506)).rev().count(), 3);
    });
    assert!(narrow <= 2 * (3 * 900 + 3 * BLOCK_BYTES), "{narrow} bytes");
    let many = bytes_read(&vfs, || {
        assert_eq!(db.range(key(100)..).limit(900).count(), 900);
    });
    assert!(many >= 900 * VALUE_BYTES as u64, "{many} bytes");
    assert!(many <= 900 * 1000, "{many} bytes for nine hundred records");
    db.close().expect("closes");
}

#[test]
fn one_record_whose_key_is_there_is_one_block() {
    let (vfs, runs) = (SimVfs::new(2), 6);
    let db = filled(&vfs, 2000, runs);
    for number in (0..4000).step_by(38) {
        for hinted in [true, false] {
            let read = bytes_read(&vfs, || {
                let cursor = db.cursor(key(number)..);
                let mut cursor = match hinted {
                    true => cursor.limit_hint(1),
                    false => cursor,
                };
                let (found, bytes) = cursor.next().expect("reads").expect("is there");
                assert_eq!(found, key(number).as_bytes());
                assert_eq!(bytes, newest(number, runs));
            });
            assert!(read > 0, "nothing was read for {number}");
            // After the first scan it is known that scans take one record.
            if hinted || number > 0 {
                assert!(read <= BLOCK_BYTES, "{read} for {number}");
            }
        }
    }
    db.close().expect("closes");
}

#[test]
fn one_record_behind_a_key_that_is_not_there_is_a_block_of_each_table() {
    let (vfs, runs) = (SimVfs::new(3), 3);
    let db = filled(&vfs, 2000, runs);
    let mut read = 0;
    let mut scans = 0;
    for number in (1..3900).step_by(38) {
        read += bytes_read(&vfs, || {
            let mut range = db.range(key(number)..).limit(1);
            let (found, bytes) = range.next().expect("is there").expect("reads");
            assert_eq!(found, key(number + 1).as_bytes());
            assert_eq!(bytes.as_ref(), newest(number + 1, runs));
        });
        scans += 1;
    }
    // If the key lies between two blocks the next one is read too.
    let tables = u64::from(runs) + 1;
    assert!(read <= scans * (tables + 1) * BLOCK_BYTES, "{read} bytes");
    db.close().expect("closes");
}

/// The records that scans from each key on give: one record, and five more behind it.
fn check(db: &Db, of: &BTreeMap<u32, Vec<u8>>, snapshot: Option<&evendb::Snapshot>) {
    let keyspace = db.default_keyspace();
    for number in 0..64 {
        let mut cursor = match snapshot {
            Some(snapshot) => snapshot.cursor(keyspace, key(number)..),
            None => db.cursor(key(number)..),
        };
        if number % 3 > 0 {
            cursor = cursor.limit_hint(u64::from(number % 3));
        }
        let mut expected = of.range(number..);
        for _ in 0..6 {
            let found = cursor.next().expect("reads");
            let found = found.map(|(key, value)| (key.to_vec(), value.to_vec()));
            let next = expected.next();
            let next = next.map(|(number, value)| (key(*number).into_bytes(), value.clone()));
            assert_eq!(found, next, "from {number}");
        }
    }
}

#[test]
fn scans_of_one_record_give_what_is_there() {
    let vfs = SimVfs::new(4);
    let db = open(&vfs);
    let mut of = BTreeMap::new();
    let mut before = None;
    let mut random = 1u64;
    for step in 0..600u32 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let number = (random >> 33) as u32 % 64;
        match random >> 60 {
            0..=4 => {
                db.delete(key(number)).expect("deletes");
                of.remove(&number);
            }
            _ => {
                let value = value(number, step);
                db.put(key(number), &value).expect("puts");
                of.insert(number, value);
            }
        }
        match step % 40 {
            7 | 15 | 23 => db.flush().expect("flushes"),
            31 if step > 300 => drop(db.compact().expect("compacts")),
            _ => {}
        }
        if step % 20 == 19 {
            check(&db, &of, None);
            if let Some((snapshot, of)) = &before {
                check(&db, of, Some(snapshot));
            }
        }
        if step % 100 == 50 {
            before = Some((db.snapshot().expect("a snapshot"), of.clone()));
        }
    }
    drop(before);
    db.close().expect("closes");
}

/// The number of records of each small run.
const FEW: u32 = 20;

/// The number of the record that a small run has in one of the parts of the key space.
fn number_of(run: u32, part: u32) -> u32 {
    400 * part + 200 + 2 * run
}

/// A database with a base, and with small runs that each have a record in each of some parts of the
/// key space.
fn with_small_runs(vfs: &SimVfs, runs: u32) -> Db {
    let db = filled(vfs, 4000, 0);
    for run in 1..=runs {
        for part in 0..FEW {
            let number = number_of(run, part);
            db.put(key(number), value(number, run)).expect("puts");
        }
        db.flush().expect("flushes");
    }
    db
}

/// The index of a small run has its keys, so a scan that meets none of them reads no block of it,
/// in either direction; of keys that it meets it reads the records.
#[test]
fn a_scan_reads_of_small_runs_what_it_gives_out() {
    const RUNS: u32 = 7;
    let (plain, vfs) = (SimVfs::new(1), SimVfs::new(2));
    let (without, db) = (filled(&plain, 4000, 0), with_small_runs(&vfs, RUNS));
    assert!(db.stats().log_runs >= u64::from(RUNS));
    let count = |db: &Db, from: u32, to: u32, backward: bool| {
        let range = db.range(key(from)..key(to));
        match backward {
            true => range.rev().count(),
            false => range.count(),
        }
    };
    for backward in [false, true] {
        let (mut between, mut at_them) = (Vec::new(), Vec::new());
        for part in 1..FEW {
            let more_than_plain = |from: u32, to: u32, expected: usize| {
                let read = |db| move || assert_eq!(count(db, from, to, backward), expected);
                let base = bytes_read(&plain, read(&without));
                bytes_read(&vfs, read(&db)).saturating_sub(base)
            };
            between.push(more_than_plain(400 * part + 20, 400 * part + 40, 10));
            let (from, to) = (number_of(1, part), number_of(RUNS + 1, part));
            at_them.push(more_than_plain(from, to, RUNS as usize));
            let mut items: Vec<_> = db
                .range(key(from)..key(to))
                .map(|item| item.expect("reads"))
                .collect();
            for run in (1..=RUNS).rev() {
                let (found, bytes) = items.pop().expect("a record a run");
                assert_eq!(found.as_ref(), key(number_of(run, part)).as_bytes());
                assert_eq!(bytes.as_ref(), value(number_of(run, part), run));
            }
        }
        // A chunk may begin within a range that one of the two databases is asked for, and then
        // another base is read.
        for own in [&mut between, &mut at_them] {
            own.sort_unstable();
            own.truncate(FEW as usize - 3);
        }
        // Less than two of the seven records that a read of each run would cost.
        let none = |&own: &u64| own < 2 * VALUE_BYTES as u64;
        assert!(between.iter().all(none), "{between:?}");
        // A page of each run would be five times that.
        let records = u64::from(RUNS) * VALUE_BYTES as u64;
        let few = |&own: &u64| own <= records / 4 * 5;
        assert!(at_them.iter().all(few), "{at_them:?}");
    }
}

/// A scan loads the spans that it reads into RAM. The load reads what the span has, and no block of
/// a small run without keys in the span, also if the run has keys at both sides of the span.
#[test]
fn a_span_that_is_loaded_costs_no_read_of_small_runs_without_its_keys() {
    const RUNS: u32 = 7;
    let (plain, vfs) = (SimVfs::new(1), SimVfs::new(2));
    filled(&plain, 4000, 0).close().expect("closes");
    let db = filled(&vfs, 4000, 0);
    for run in 1..=RUNS {
        for part in 0..FEW {
            for side in [100, 300] {
                let number = 400 * part + side + 2 * run;
                db.put(key(number), value(number, run)).expect("puts");
            }
        }
        db.flush().expect("flushes");
    }
    db.close().expect("closes");
    let (without, db) = (open_with_munks(&plain), open_with_munks(&vfs));
    let mut more: Vec<u64> = (1..FEW)
        .map(|part| {
            let read = |vfs: &SimVfs, db: &Db| {
                // It opens the tables.
                assert_eq!(db.get(key(400 * part + 201)).expect("reads"), None);
                let before = vfs.read_ahead().read;
                for _ in 0..8 {
                    let range = key(400 * part + 200)..key(400 * part + 220);
                    assert_eq!(db.range(range).count(), 10);
                    db.settle_debt().expect("settles");
                }
                vfs.read_ahead().read - before
            };
            read(&vfs, &db).saturating_sub(read(&plain, &without))
        })
        .collect();
    let loads = |db: &Db| db.stats().munk_loads;
    assert!(loads(&db) >= u64::from(FEW) / 2, "{} loads", loads(&db));
    assert!(loads(&without) >= u64::from(FEW) / 2);
    // A chunk may begin in a range, and a span reach up to a key of the runs.
    more.sort_unstable();
    more.truncate(FEW as usize / 4 * 3);
    let none = |&own: &u64| own < 2 * VALUE_BYTES as u64;
    assert!(more.iter().all(none), "{more:?}");
}

/// A snapshot sees the earlier records of small runs, and no keys that only newer runs have.
#[test]
fn a_snapshot_sees_of_small_runs_what_was_there() {
    let vfs = SimVfs::new(1);
    let db = with_small_runs(&vfs, 2);
    let before = db.snapshot().expect("a snapshot");
    let (old, new) = (number_of(1, 3), number_of(1, 3) + 1);
    db.put(key(old), value(old, 9)).expect("puts");
    db.put(key(new), value(new, 9)).expect("puts");
    db.delete(key(old + 2)).expect("deletes");
    db.flush().expect("flushes");
    let range = || key(old)..key(old + 4);
    let read = |items: &mut dyn Iterator<Item = evendb::Result<(evendb::Value, evendb::Value)>>| {
        items
            .map(|item| item.expect("reads"))
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect::<Vec<_>>()
    };
    let of = |number: u32, run: u32| (key(number).into_bytes(), value(number, run));
    assert_eq!(
        read(&mut before.range(db.default_keyspace(), range())),
        [of(old, 1), of(old + 2, 2)]
    );
    assert_eq!(read(&mut db.range(range())), [of(old, 9), of(new, 9)]);
    assert_eq!(
        read(&mut before.range(db.default_keyspace(), range()).rev()),
        [of(old + 2, 2), of(old, 1)]
    );
}
