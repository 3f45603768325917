//! A database with many tables and few open files: it reads and writes as any other, and keeps its
//! limits.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::{DIR, Random, tiny_on};
use evendb_flsm::vfs::SimVfs;
use evendb_flsm::{Db, Durability, ErrorKind, Options};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const KEYS: u64 = 3000;
const OPEN_FILES: u64 = 4;

fn options(vfs: &SimVfs) -> Options {
    tiny_on(vfs, Durability::Process, 1).advanced(|advanced| advanced.open_files_max(OPEN_FILES))
}

fn key(number: u64) -> String {
    format!("{number:06}")
}

/// A value that tells its key and round.
fn value(number: u64, round: u64) -> Vec<u8> {
    format!("{number}/{round}/").into_bytes().repeat(12)
}

fn fill(db: &Db, round: u64) {
    for number in 0..KEYS {
        let number = number * 997 % KEYS;
        db.put(key(number), value(number, round)).unwrap();
    }
}

fn check(db: &Db, number: u64) {
    let found = db.get(key(number)).unwrap().unwrap();
    assert!(
        (0..3).any(|round| found == value(number, round)),
        "{number}"
    );
}

#[test]
fn many_tables_are_read_by_threads_through_few_that_are_open() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs).open(DIR).unwrap();
    fill(&db, 0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for reader in 0..3 {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                let mut random = Random(reader);
                while !done.load(Ordering::Relaxed) {
                    (0..50).for_each(|_| check(db, random.below(KEYS)));
                    let from = random.below(KEYS);
                    let found = db.range(key(from)..).take(100);
                    for (expected, item) in (from..).zip(found) {
                        assert_eq!(item.unwrap().0, key(expected).as_bytes());
                    }
                }
            });
        }
        fill(&db, 1);
        fill(&db, 2);
        db.settle_debt().unwrap();
        done.store(true, Ordering::Relaxed);
    });
    let tables: u64 = db.stats().tables.iter().sum();
    assert!(tables > 10 * OPEN_FILES, "{tables} tables");
    for number in 0..KEYS {
        assert_eq!(db.get(key(number)).unwrap().unwrap(), value(number, 2));
    }
    let open = db.stats().open_files;
    assert!((1..=OPEN_FILES).contains(&open), "{open} open");
    assert!(db.stats().table_bytes > 0);
    db.close().unwrap();
    let db = options(&vfs).open(DIR).unwrap();
    assert_eq!(db.iter().count() as u64, KEYS);
}

/// Indexes and filters take only the part of the budget that the other parts leave.
#[test]
fn open_tables_keep_within_the_memory_budget() {
    let vfs = SimVfs::new(1);
    let (buffer, cache, rest) = (8 << 10, 64 << 10, 40 << 10);
    let options = |budget| {
        let options = tiny_on(&vfs, Durability::Process, 1).memory_budget(budget);
        options.advanced(|advanced| {
            advanced
                .write_buffer_bytes(buffer)
                .cache_bytes(cache)
                .block_bytes(64)
                .filter_bits_per_key(40)
                .compaction_by_seeks(false)
        })
    };
    let db = options(3 * buffer + cache + rest).open(DIR).unwrap();
    fill(&db, 0);
    db.settle_debt().unwrap();
    let mut most = 0;
    for round in 0..3 {
        for number in 0..KEYS {
            check(&db, number * (991 + 2 * round) % KEYS);
            most = most.max(db.stats().open_files);
        }
    }
    let tables: u64 = db.stats().tables.iter().sum();
    db.close().unwrap();
    let db = options(64 << 20).open(DIR).unwrap();
    (0..KEYS).for_each(|number| check(&db, number));
    let stats = db.stats();
    assert_eq!(stats.open_files, tables);
    let of_one = stats.table_bytes / tables;
    assert!(stats.table_bytes > 2 * rest, "{tables} of {of_one} bytes");
    let open = most * of_one;
    assert!(
        open > rest / 2 && open < rest * 3 / 2,
        "{most} tables of {of_one} bytes"
    );
}

#[test]
fn no_open_tables_are_refused() {
    let vfs = SimVfs::new(1);
    let options = options(&vfs).advanced(|advanced| advanced.open_files_max(0));
    let error = options.open(DIR).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

fn table_names(db: &Db) -> BTreeSet<String> {
    db.tables().into_iter().map(|table| table.file).collect()
}

/// A test that listed the files of a closed database found this fault, when one of the files
/// vanished. An iterator that outlived its database removed files of the next database in the same
/// place, because they have the same names.
#[test]
fn what_still_reads_a_closed_database_removes_no_file_of_the_next() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs).open(DIR).unwrap();
    fill(&db, 0);
    db.settle_debt().unwrap();
    let old_tables = table_names(&db);
    let mut old = db.iter();
    old.next().unwrap().unwrap();
    db.compact().unwrap();
    let needed = table_names(&db);
    db.close().unwrap();
    let mut left = vfs.file_names(Path::new(DIR));
    left.retain(|name| name.starts_with("TABLE-"));
    assert!(left.iter().eq(&needed), "closing left what nobody needs");
    for name in vfs.file_names(Path::new(DIR)) {
        vfs.remove_file(&Path::new(DIR).join(name));
    }
    let db = options(&vfs).open(DIR).unwrap();
    fill(&db, 1);
    db.settle_debt().unwrap();
    let tables = table_names(&db);
    assert!(!tables.is_disjoint(&old_tables), "no name is used again");
    drop(old);
    let left = vfs.file_names(Path::new(DIR));
    assert!(tables.iter().all(|name| left.contains(name)));
    db.close().unwrap();
    let db = options(&vfs).open(DIR).unwrap();
    (0..KEYS).for_each(|number| check(&db, number));
}
