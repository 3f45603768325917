//! Keyspaces with guards in which a table cannot be read: jobs leave its guard out and go on with
//! all others, so level 0 stays short, however much is put. And how often jobs are tried for range
//! deletions that a snapshot keeps.

mod common;

use common::DIR;
use evendb::inspect::{InspectOptions, verify};
use evendb::vfs::SimVfs;
use evendb::{Db, ErrorKind, Layout, Options};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Map = BTreeMap<String, String>;

const KEYS: u32 = 2_400;
const PUTS: u32 = 100_000;
/// The runs of level 0 at which they go down, and at which a checkpoint takes them down first.
const LEVEL0_RUNS: (usize, usize) = (3, 8);
/// More bytes than these runs have, and far fewer than are put.
const LEVEL0_BYTES: u64 = 600 << 10;

/// Tiny limits, so that a few records have many guards. The caller's thread does all work.
fn options(vfs: &SimVfs) -> Options {
    Options::new()
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(1 << 20)
        .workers(0)
        .layout(Layout::Guards)
        // A guard has several blocks, and the damage hits one.
        .advanced(|advanced| advanced.block_bytes(512))
        .advanced(|advanced| {
            advanced.guards(|guards| {
                guards
                    .last_guard_bytes(4 << 10)
                    .table_bytes_max(1 << 20)
                    .level0_runs(LEVEL0_RUNS.0, LEVEL0_RUNS.1)
            })
        })
}

fn open(vfs: &SimVfs) -> Db {
    options(vfs).open(DIR).expect("opens")
}

fn key(number: u32) -> String {
    // Spread over the key space.
    format!("{:08x}", (number % KEYS).wrapping_mul(0x9e37_79b1))
}

fn put(db: &Db, model: &mut Map, numbers: impl Iterator<Item = u32>, word: &str) {
    for number in numbers {
        let value = format!("{word} {:070}", number);
        db.put(key(number), &value).expect("puts");
        model.insert(key(number), value);
    }
}

/// The keys that cannot be read. All others have their values.
fn hit(db: &Db, model: &Map, what: &str) -> Vec<String> {
    let mut hit = Vec::new();
    for number in 0..KEYS {
        let key = key(number);
        match db.get(&key) {
            Ok(found) => {
                let expected = model.get(&key).map(|value| value.as_bytes());
                assert_eq!(found.as_deref(), expected, "{what}: {key}");
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
                hit.push(key);
            }
        }
    }
    hit.sort_unstable();
    hit
}

/// A scan of the keys in front of the first one that cannot be read.
fn scan_in_front(db: &Db, model: &Map, hit: &[String], what: &str) {
    // The merge reads the next block of each table.
    let in_front = model.range(..hit[0].clone());
    let end = in_front.rev().nth(20).map(|(key, _)| key.clone());
    let Some(end) = end else { return };
    let found = db.range(..&*end).map(|pair| {
        let (key, value) = pair.unwrap_or_else(|error| panic!("{what}: {error}"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&key), text(&value))
    });
    let found: Vec<_> = found.collect();
    let expected = model.range(..end);
    let expected: Vec<_> = expected
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    assert_eq!(found, expected, "{what}");
}

/// Opens a database with a damage in `file`, and writes much beside it.
fn judge(vfs: &SimVfs, mut model: Map, file: &str, puts: u32) {
    let mut db = open(vfs);
    let first = hit(&db, &model, file);
    assert!(!first.is_empty(), "{file}: nothing is hit");
    let is_hit = |number: u32| first.binary_search(&key(number)).is_ok();
    let mut jobs = 0;
    for part in 0..20 {
        let what = format!("{file} part {part}");
        let numbers = puts / 20 * part..puts / 20 * (part + 1);
        for number in numbers.filter(|&number| !is_hit(number)) {
            match number % 11 {
                0 => {
                    db.delete(key(number)).expect("deletes");
                    model.remove(&key(number));
                }
                _ => put(&db, &mut model, [number].into_iter(), &what),
            }
        }
        let stats = db.stats();
        assert!(stats.log_bytes < LEVEL0_BYTES, "{what}: {stats:?}");
        assert!(stats.rebalances > jobs, "{what}: the jobs have stopped");
        jobs = stats.rebalances;
        if part == 9 {
            assert_eq!(stats.damaged, 1, "{what}");
            assert_eq!(hit(&db, &model, &what), first, "{what}");
            db.close().expect("closes");
            // The next life tries the table again.
            db = open(vfs);
            jobs = 0;
        }
    }
    // Once the table is known, nothing else fails because of it, except what is asked for it.
    db.settle_debt().expect("pays its debt");
    assert_eq!(db.stats().damaged, 1, "{file}");
    let refused = db.compact().map_err(|error| error.kind());
    assert_eq!(refused.err(), Some(ErrorKind::Corruption), "{file}");
    assert_eq!(db.stats().log_runs_most, 0, "{file}");
    assert_eq!(hit(&db, &model, file), first, "{file}");
    scan_in_front(&db, &model, &first, file);
    db.close().expect("closes");
    let inspecting = InspectOptions::new().vfs(Arc::new(vfs.clone()));
    let report = verify(DIR, inspecting).expect("verifies");
    let named: Vec<_> = report.findings.iter().map(|found| &*found.file).collect();
    assert!(!report.is_sound() && named.contains(&file), "{named:?}");
    let db = open(vfs);
    assert_eq!(hit(&db, &model, file), first, "{file} reopened");
    // What hides a table whole lets it go unread, and with it the end of the damage.
    let (low, high) = (&first[0][..4], "g");
    db.delete_range(low..high).expect("deletes");
    model.retain(|key, _| &**key < low);
    db.delete_range(..low).expect("deletes");
    model.clear();
    db.flush().expect("flushes");
    db.settle_debt().expect("pays its debt");
    assert!(hit(&db, &model, file).is_empty(), "{file} deleted");
    db.compact().expect("compacts");
    assert_eq!((db.stats().damaged, db.iter().count()), (0, 0), "{file}");
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

#[test]
fn a_damaged_table_of_one_guard_stops_no_job_of_others() {
    let vfs = SimVfs::new(11);
    let mut model = Map::new();
    let db = open(&vfs);
    put(&db, &mut model, 0..KEYS, "first");
    db.compact().expect("compacts");
    db.close().expect("closes");
    let names = vfs.file_names(Path::new(DIR)).into_iter();
    let mut tables: Vec<_> = names.filter(|name| name.ends_with(".sst")).collect();
    assert!(tables.len() >= 30, "{} tables", tables.len());
    // The largest ones: one block is a small part of them.
    tables.sort_by_key(|name| std::cmp::Reverse(vfs.read_file(&path(name)).len()));
    for at in [0, 1] {
        let copy = vfs.fork_state();
        let mut bytes = vfs.read_file(&path(&tables[at]));
        bytes[20] ^= 0x10;
        copy.write_file(&path(&tables[at]), bytes);
        judge(
            &copy,
            model.clone(),
            &tables[at],
            PUTS / if at == 0 { 1 } else { 4 },
        );
    }
}

/// A run holds keys of all guards. What is older goes down first, and the run moves unread.
#[test]
fn a_damaged_run_of_level_0_lets_later_runs_go_down() {
    let vfs = SimVfs::new(11);
    let mut model = Map::new();
    let db = open(&vfs);
    put(&db, &mut model, 0..KEYS, "first");
    db.compact().expect("compacts");
    put(&db, &mut model, 0..KEYS / 4, "older");
    db.flush().expect("flushes");
    put(&db, &mut model, KEYS / 8..KEYS / 2, "in the run");
    db.flush().expect("flushes");
    assert!(db.stats().log_runs >= 2);
    db.close().expect("closes");
    let file = "CHUNK-LOGS";
    let mut bytes = vfs.read_file(&path(file));
    let word = format!("in the run {:070}", KEYS / 3).into_bytes();
    let at = bytes.windows(word.len()).position(|bytes| bytes == word);
    bytes[at.expect("the run has it")] ^= 0x10;
    vfs.write_file(&path(file), bytes);
    judge(&vfs, model, file, PUTS / 4);
}

/// Range deletions that a long snapshot keeps, many of them: a checkpoint makes no more jobs than
/// one without them, and when the snapshot is gone they are applied.
#[test]
fn what_a_snapshot_keeps_is_not_swept_at_each_checkpoint() {
    let jobs = |pieces: u32| {
        let vfs = SimVfs::new(3);
        let mut model = Map::new();
        let db = open(&vfs);
        put(&db, &mut model, 0..KEYS, "first");
        // Nobody sees what this one hides: it is spent, and hides too little for a sweep.
        db.delete_range("40".."60").expect("deletes");
        db.flush().expect("flushes");
        db.settle_debt().expect("pays its debt");
        let snapshot = db.snapshot().expect("a snapshot");
        for number in 0..pieces {
            let low = key(number);
            db.delete_range(low.clone()..format!("{low}!"))
                .expect("deletes");
        }
        db.flush().expect("flushes");
        db.settle_debt().expect("pays its debt");
        let before = db.stats().rebalances;
        for round in 0..12 {
            put(&db, &mut model, (round..KEYS).step_by(100), "again");
            db.flush().expect("flushes");
            db.settle_debt().expect("pays its debt");
        }
        let jobs = db.stats().rebalances - before;
        drop(snapshot);
        put(&db, &mut model, KEYS - 2..KEYS, "last");
        db.flush().expect("flushes");
        db.settle_debt().expect("pays its debt");
        let left = db.stats().space.range_tombstones;
        assert!(left <= 256, "{left} of {pieces} pieces");
        jobs
    };
    // A sweep at each checkpoint would be some jobs for each of twelve.
    let (few, many) = (jobs(100), jobs(400));
    println!("{few} jobs with few pieces, {many} with many");
    assert!(
        few > 0 && many <= few * 3 / 2,
        "{many} jobs, and {few} with few"
    );
}
