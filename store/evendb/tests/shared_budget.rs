//! Many databases under one budget: contents, memory by the databases' own counts, threads, open
//! files, failures of one of them, and moves into and out of the budget.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_types, reason = "no model runs this")]

use evendb::vfs::{Fault, FaultKind, FaultOn, SimVfs};
use evendb::{
    Db, ErrorKind, KeyspaceOptions, Layout, MergeError, MergeOperator, Options, SharedBudget,
    SharedOptions,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// What a database counts for itself, whatever it holds.
const BASE_BYTES: u64 = 96 << 10;

/// The tests of this process count its threads and files, so one of them runs at a time.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The threads of databases, by their names.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("lists");
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("evendb-")).count()
}

/// The tables that this process has open as files of their own.
fn table_files() -> usize {
    let files = std::fs::read_dir("/proc/self/fd").expect("lists");
    let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    targets
        .filter(|path| path.extension().is_some_and(|end| end == "sst"))
        .count()
}

#[track_caller]
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} never came");
}

fn layout_of(number: usize) -> Layout {
    [Layout::Chunks, Layout::Guards][number % 2]
}

fn open(shared: &SharedBudget, place: &Path, number: usize) -> Db {
    let options = shared.options().layout(layout_of(number));
    options.open(place.join(number.to_string())).expect("opens")
}

fn key(number: usize) -> [u8; 8] {
    (number as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_le_bytes()
}

fn value(database: usize, number: usize) -> Vec<u8> {
    vec![(database * 31 + number) as u8; 200]
}

fn fill(db: &Db, database: usize, records: std::ops::Range<usize>) {
    for number in records {
        db.put(key(number), value(database, number)).expect("puts");
    }
}

#[track_caller]
fn expect(db: &Db, database: usize, records: std::ops::Range<usize>) {
    for number in records {
        let found = db.get(key(number)).expect("reads");
        assert!(
            found.is_some_and(|found| found[..] == value(database, number)),
            "record {number} of database {database}"
        );
    }
}

/// What a database has by its own figures.
fn held(db: &Db) -> u64 {
    let memory = db.stats().memory;
    let sum = memory.deltas + memory.row_cache + memory.munks + memory.log_indexes;
    BASE_BYTES + sum + memory.block_indexes + memory.metadata + memory.buffers + memory.commit_log
}

#[test]
fn two_hundred_databases_keep_one_budget() {
    const DATABASES: usize = 200;
    const RECORDS: usize = 300;
    let _one = one_at_a_time();
    let place = tempfile::tempdir().expect("a directory");
    let options = SharedOptions::new(64 * MIB).threads(4).open_files_max(100);
    let shared = options.databases(64).make().expect("makes");
    let all: Vec<Db> = (0..DATABASES)
        .map(|number| open(&shared, place.path(), number))
        .collect();
    // Twice: then most databases have tables and runs.
    let mut most_threads = 0;
    for part in [0..RECORDS / 2, RECORDS / 2..RECORDS] {
        for (number, db) in all.iter().enumerate() {
            fill(db, number, part.clone());
            most_threads = most_threads.max(threads());
        }
        for db in &all {
            db.flush().expect("flushes");
        }
    }
    for (number, db) in all.iter().enumerate() {
        expect(db, number, 0..RECORDS);
        if number % 20 == 0 {
            assert_eq!(db.iter().count(), RECORDS);
        }
        most_threads = most_threads.max(threads());
        let stats = shared.stats();
        assert!(stats.parts <= stats.budget, "{stats:?}");
        assert!(stats.threads <= 4, "{stats:?}");
    }
    // A thread that ends may still be there when the next one comes.
    assert!(most_threads <= 8, "{most_threads} threads");
    // What they hold comes within the budget, and so do the figures of each.
    wait_for("a sum within the budget", || {
        let stats = shared.stats();
        let sum: u64 = all.iter().map(held).sum();
        stats.databases == DATABASES as u64 && stats.held <= stats.budget && sum <= stats.budget
    });
    wait_for("a bound of open tables", || {
        shared.stats().open_files <= DATABASES as u64 && table_files() <= 2 * DATABASES
    });
    wait_for("one thread for all", || threads() == 1);
    // They wake up again.
    for (number, db) in all.iter().enumerate() {
        expect(db, number, 0..10);
    }
    for db in all {
        db.close().expect("closes");
    }
    assert_eq!(shared.stats().databases, 0);
    assert_eq!(shared.stats().open_files, 0);
    for number in [0, 1, DATABASES - 2, DATABASES - 1] {
        expect(&open(&shared, place.path(), number), number, 0..RECORDS);
    }
}

/// The memory goes to the database that is used: its part grows, and those of others that nobody
/// uses any more fall, and come back.
#[test]
fn memory_goes_to_the_database_that_is_used() {
    const DATABASES: usize = 6;
    const RECORDS: usize = 12_000;
    let _one = one_at_a_time();
    let place = tempfile::tempdir().expect("a directory");
    let shared = SharedOptions::new(8 * MIB)
        .databases(4)
        .make()
        .expect("makes");
    let open = |number| {
        let options = shared.options().layout(Layout::Chunks);
        options
            .open(place.path().join(format!("{number}")))
            .expect("opens")
    };
    let all: Vec<Db> = (0..DATABASES).map(open).collect();
    for (number, db) in all.iter().enumerate() {
        fill(db, number, 0..RECORDS);
        db.flush().expect("flushes");
    }
    let budget = shared.stats().budget;
    for used in [2, 5, 2] {
        // All records of it take about a third of the budget, and all of all of them twice that.
        wait_for("a large part", || {
            expect(&all[used], used, 0..RECORDS);
            let stats = shared.stats();
            assert!(stats.parts <= stats.budget, "{stats:?}");
            all[used].stats().memory.budget >= budget / 4
        });
        let parts: Vec<u64> = all.iter().map(|db| db.stats().memory.budget).collect();
        let others: u64 = parts.iter().sum::<u64>() - parts[used];
        assert!(others / (DATABASES as u64 - 1) < parts[used], "{parts:?}");
        wait_for("a sum within the budget", || {
            all.iter().map(held).sum::<u64>() <= budget
        });
    }
    for (number, db) in all.iter().enumerate() {
        expect(db, number, 0..RECORDS);
    }
}

#[test]
fn databases_come_and_go_while_others_work() {
    let _one = one_at_a_time();
    let place = tempfile::tempdir().expect("a directory");
    let shared = SharedOptions::new(16 * MIB)
        .threads(2)
        .make()
        .expect("makes");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (shared, stop, path) = (&shared, &stop, place.path());
            scope.spawn(move || {
                let db = open(shared, path, worker);
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    fill(&db, worker, round * 100..(round + 1) * 100);
                    expect(&db, worker, 0..(round + 1) * 100);
                    round = (round + 1) % 20;
                }
            });
        }
        for turn in 0..30 {
            let number = 10 + turn % 7;
            let db = open(&shared, place.path(), number);
            fill(&db, number, 0..200);
            match turn % 3 {
                0 => db.close().expect("closes"),
                1 => drop(db),
                _ => {
                    db.flush().expect("flushes");
                    expect(&db, number, 0..200);
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(shared.stats().databases, 0);
    wait_for("the end of all threads", || threads() == 0);
    for number in 10..17 {
        expect(&open(&shared, place.path(), number), number, 0..200);
    }
}

#[test]
fn the_handle_may_go_first() {
    let _one = one_at_a_time();
    let place = tempfile::tempdir().expect("a directory");
    let shared = SharedBudget::new(8 * MIB).expect("makes");
    let all: Vec<Db> = (0..4)
        .map(|number| open(&shared, place.path(), number))
        .collect();
    drop(shared);
    for (number, db) in all.iter().enumerate() {
        fill(db, number, 0..2_000);
        db.flush().expect("flushes");
        expect(db, number, 0..2_000);
    }
    drop(all);
    wait_for("the end of all threads", || threads() == 0);
}

/// A database whose disk is full, and one that has failed, do not keep the others from working,
/// even with a single thread for all.
#[test]
fn a_full_disk_or_a_failure_of_one_leaves_the_others_alone() {
    let _one = one_at_a_time();
    let shared = SharedOptions::new(16 * MIB)
        .threads(1)
        .make()
        .expect("makes");
    let disks = [1, 2, 3].map(SimVfs::new);
    let open = |number: usize| {
        let options = shared.options().vfs(Arc::new(disks[number].clone()));
        options
            .layout(layout_of(number))
            .open("/db")
            .expect("opens")
    };
    let [full, failed, sound] = [0, 1, 2].map(open);
    for (number, db) in [&full, &failed, &sound].into_iter().enumerate() {
        fill(db, number, 0..500);
        db.persist().expect("persists");
    }
    disks[0].set_capacity(disks[0].used_bytes());
    disks[1].inject(Fault {
        at: 0,
        on: FaultOn::Sync,
        kind: FaultKind::Eio,
        sticky: true,
        path_contains: None,
    });
    let refused = (500..200_000).find_map(|number| full.put(key(number), value(0, number)).err());
    assert_eq!(refused.expect("is full").kind(), ErrorKind::NoSpace);
    let error = failed.flush().expect_err("cannot sync");
    assert!(
        matches!(error.kind(), ErrorKind::Latched | ErrorKind::Io),
        "{error}"
    );
    for round in 0..10 {
        fill(&sound, 2, round * 1_000..(round + 1) * 1_000);
        sound.flush().expect("flushes");
    }
    expect(&sound, 2, 0..10_000);
    expect(&full, 0, 0..500);
    expect(&failed, 1, 0..500);
    disks[0].set_capacity(u64::MAX);
    wait_for("room again", || full.put("later", "value").is_ok());
    assert!(failed.close().is_err());
    full.close().expect("closes");
    sound.close().expect("closes");
    assert_eq!(shared.stats().databases, 0);
}

/// Every wait of one database for its background work ends, although a single thread does that of
/// all.
#[test]
fn one_thread_is_enough() {
    let _one = one_at_a_time();
    let place = tempfile::tempdir().expect("a directory");
    let options = SharedOptions::new(8 * MIB).threads(1);
    let shared = options.make().expect("makes");
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (shared, place) = (&shared, place.path());
            scope.spawn(move || {
                let db = open(shared, place, number);
                for round in 0..3 {
                    fill(&db, number, round * 400..(round + 1) * 400);
                    db.flush().expect("flushes");
                    db.settle_debt().expect("settles");
                }
                db.compact().expect("compacts");
                expect(&db, number, 0..1_200);
                db.close().expect("closes");
            });
        }
    });
    assert_eq!(shared.stats().databases, 0);
}

/// Joins operands, and drops a database at the first merge.
struct Dropping(Arc<Mutex<Option<Db>>>);

impl MergeOperator for Dropping {
    fn name(&self) -> &str {
        "dropping"
    }

    fn full_merge(
        &self,
        _: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        drop(self.0.lock().expect("not poisoned").take());
        Ok(Some(
            [existing.unwrap_or_default(), &operands.concat()].concat(),
        ))
    }
}

/// The last handle of one database is dropped by a merge of another, on the only thread of both.
#[test]
fn a_callback_may_drop_another_database() {
    let _one = one_at_a_time();
    let place = tempfile::tempdir().expect("a directory");
    let options = SharedOptions::new(8 * MIB).threads(1);
    let shared = options.make().expect("makes");
    let other = open(&shared, place.path(), 1);
    fill(&other, 1, 0..1_000);
    let held = Arc::new(Mutex::new(Some(other)));
    let merging = KeyspaceOptions::new().merge_operator(Dropping(held.clone()));
    let db = open(&shared, place.path(), 0);
    let keyspace = db.keyspace_with("merged", &merging).expect("is made");
    for _ in 0..3 {
        keyspace.merge("key", "1").expect("merges");
    }
    db.flush().expect("flushes");
    db.compact().expect("compacts");
    assert_eq!(
        keyspace.get("key").expect("reads").as_deref(),
        Some(&b"111"[..])
    );
    assert!(
        held.lock().expect("not poisoned").is_none(),
        "no merge was made"
    );
    drop(keyspace);
    db.close().expect("closes");
    assert_eq!(shared.stats().databases, 0);
    expect(&open(&shared, place.path(), 1), 1, 0..1_000);
}

#[test]
fn a_database_moves_into_a_budget_and_out_of_it() {
    let _one = one_at_a_time();
    let place = tempfile::tempdir().expect("a directory");
    for layout in [Layout::Chunks, Layout::Guards] {
        let path = place.path().join(format!("{layout:?}"));
        let alone = || Options::new().memory_budget(4 * MIB).layout(layout);
        let shared = SharedOptions::new(4 * MIB)
            .databases(4)
            .make()
            .expect("makes");
        for round in 0..4 {
            let options = match round % 2 {
                0 => alone(),
                _ => shared.options().layout(layout),
            };
            let db = options.open(&path).expect("opens");
            expect(&db, 0, 0..round * 3_000);
            fill(&db, 0, round * 3_000..(round + 1) * 3_000);
            expect(&db, 0, 0..(round + 1) * 3_000);
            db.close().expect("closes");
        }
    }
}

/// Snapshots, transactions, batches and scans work within the least part, too.
#[test]
fn the_least_part_is_enough_to_work() {
    let _one = one_at_a_time();
    let place = tempfile::tempdir().expect("a directory");
    let shared = SharedBudget::new(MIB).expect("makes");
    let all: Vec<Db> = (0..5)
        .map(|number| open(&shared, place.path(), number))
        .collect();
    for (number, db) in all.iter().enumerate() {
        fill(db, number, 0..3_000);
        let snapshot = db.snapshot().expect("a snapshot");
        let mut batch = db.batch();
        for record in 0..500 {
            batch.put(db.default_keyspace(), key(record), "overwritten");
        }
        batch.commit().expect("commits");
        assert!(
            snapshot
                .get(db.default_keyspace(), key(7))
                .expect("reads")
                .is_some_and(|old| old == value(number, 7)[..])
        );
        db.transact(|transaction| -> evendb::Result<()> {
            let seen = transaction.get(db.default_keyspace(), key(8))?;
            transaction.put(db.default_keyspace(), "seen", &seen.expect("is there")[..])?;
            Ok(())
        })
        .expect("commits");
        assert_eq!(db.iter().count(), 3_001);
        expect(db, number, 500..3_000);
    }
    // The least parts fill the budget, and the metadata comes to them.
    let stats = shared.stats();
    let metadata: u64 = all.iter().map(|db| db.stats().memory.metadata).sum();
    // What a database told last may be older than its metadata of now, which is less.
    let most = 5 * (160 << 10) + 2 * metadata;
    assert!(
        stats.parts <= most,
        "{stats:?}, {metadata} bytes of metadata"
    );
    // The bound of a value is that of a budget of 1 MiB.
    let error = all[0]
        .put("key", vec![0; MIB as usize / 4])
        .expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::ValueTooLarge);
}

#[test]
fn budgets_that_are_too_small_are_refused() {
    let _one = one_at_a_time();
    let kind = |made: evendb::Result<SharedBudget>| made.expect_err("refused").kind();
    assert_eq!(kind(SharedBudget::new(MIB - 1)), ErrorKind::InvalidArgument);
    let options = || SharedOptions::new(MIB);
    assert_eq!(
        kind(options().databases(0).make()),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        kind(options().threads(0).make()),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        kind(options().open_files_max(0).make()),
        ErrorKind::InvalidArgument
    );
    // Each database has 160 KiB at least.
    let place = tempfile::tempdir().expect("a directory");
    let shared = options().make().expect("makes");
    let all: Vec<Db> = (0..5)
        .map(|number| open(&shared, place.path(), number))
        .collect();
    let sixth = place.path().join("6");
    let error = shared.options().open(&sixth).expect_err("no room");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(
        error.to_string().contains("has room for 5 databases"),
        "{error}"
    );
    assert!(!sixth.exists(), "nothing was made");
    drop(all);
    shared.options().open(&sixth).expect("there is room again");
}
