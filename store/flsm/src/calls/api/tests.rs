//! Tests of opening, reading only, compacting, measuring and removing a database.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

use crate::{Db, Durability, ErrorKind, Options, destroy};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Limits at which flushes and compactions happen all the time.
fn tiny() -> Options {
    Options::new().memory_budget(1 << 20).advanced(|advanced| {
        advanced
            .write_buffer_bytes(4 << 10)
            .last_guard_bytes(2 << 10)
            .table_bytes_max(4 << 10)
            .block_bytes(256)
    })
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap();
    let files = entries.map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read(path).unwrap())
    });
    files.collect()
}

fn key(number: u32) -> String {
    format!("key{number:05}")
}

#[test]
fn no_database_is_made_inside_of_one_of_either_engine_nor_of_backups() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    tiny().open(at("db")).unwrap().put("key", "value").unwrap();
    fs::create_dir_all(at("other")).unwrap();
    fs::write(at("other/CURRENT"), "EVENCUR5").unwrap();
    fs::create_dir_all(at("backups/000001")).unwrap();
    fs::write(at("backups/LOCK"), "").unwrap();
    fs::write(at("backups/000001/BACKUP-LIST"), "").unwrap();
    std::os::unix::fs::symlink("db", at("link")).unwrap();
    for (inside, around) in [
        ("db/x", "db"),
        ("db/x/y", "db"),
        ("link/x", "db"),
        ("other/../db/x", "db"),
        ("other/x", "other"),
        ("backups/x", "backups"),
    ] {
        let error = tiny().open(at(inside)).err().expect(inside);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        for path in [inside, around] {
            let path = at(path);
            assert!(
                error.to_string().contains(path.to_str().unwrap()),
                "{error}"
            );
        }
        assert!(!at(inside).exists(), "{inside}");
    }
    tiny().open(at("beside")).unwrap();
}

#[test]
fn a_reader_changes_nothing_and_reads_tables_and_log() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny().open(dir.path()).unwrap();
    for number in 0..500 {
        db.put(key(number), "a value").unwrap();
    }
    db.flush().unwrap();
    db.put("only in the log", "there").unwrap();
    db.keyspace("more").unwrap().put("a", "1").unwrap();
    db.close().unwrap();

    let before = files(dir.path());
    let open = || tiny().read_only(true).open(dir.path());
    let (one, other) = (open().unwrap(), open().unwrap());
    for db in [&one, &other] {
        assert_eq!(db.iter().count(), 501);
        assert_eq!(db.get("only in the log").unwrap().unwrap(), "there");
        let more = db.keyspace("more").unwrap();
        assert_eq!(more.get("a").unwrap().unwrap(), "1");
        let refused = [
            db.put("a", "1"),
            db.batch().commit(),
            db.persist(),
            db.flush(),
            db.settle_debt(),
            db.compact().map(drop),
            db.keyspace("another").map(drop),
            db.drop_keyspace("more"),
        ];
        for outcome in refused {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ReadOnly);
        }
    }
    let writer = tiny().open(dir.path()).err().unwrap();
    assert_eq!(writer.kind(), ErrorKind::Locked);
    one.close().unwrap();
    drop(other);
    assert_eq!(files(dir.path()), before);

    let db = tiny().open(dir.path()).unwrap();
    assert_eq!(open().err().unwrap().kind(), ErrorKind::Locked);
    assert_eq!(db.iter().count(), 501);
}

/// Without a log, a reader's records wait for a flush, and a reader has no thread that flushes.
#[test]
fn a_reader_at_the_relaxed_level_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny().open(dir.path()).unwrap();
    db.put("a", "1").unwrap();
    db.close().unwrap();
    let relaxed = tiny().durability(Durability::Relaxed).read_only(true);
    let db = relaxed.open(dir.path()).unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), "1");
    db.close().unwrap();
}

#[test]
fn a_missing_database_is_made_only_where_that_is_wanted() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("db");
    let without = || Options::new().create_if_missing(false);
    for options in [without(), Options::new().read_only(true)] {
        let error = options.open(&path).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(!path.exists());
    }
    Options::new().error_if_exists(true).open(&path).unwrap();
    let error = Options::new().error_if_exists(true).open(&path).err();
    assert_eq!(error.unwrap().kind(), ErrorKind::AlreadyExists);
    without().open(&path).unwrap();

    // Without CURRENT the remaining files are a damaged database, not a missing one.
    fs::remove_file(path.join("CURRENT")).unwrap();
    let error = without().open(&path).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

#[test]
fn a_database_of_the_other_engine_is_neither_opened_nor_removed() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("CURRENT"), "EVENCUR5 and what it says").unwrap();
    fs::write(dir.path().join("MANIFEST-000001"), "x").unwrap();
    let before = files(dir.path());
    let opened = Db::open(dir.path()).err();
    let read = Options::new().read_only(true).open(dir.path()).err();
    for error in [opened, read, destroy(dir.path()).err()] {
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(
            error.to_string().contains("EvenDB's engine evendb"),
            "{error}"
        );
    }
    assert_eq!(files(dir.path()), before);
}

#[test]
fn a_removed_database_leaves_nothing_but_files_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny().open(dir.path()).unwrap();
    for number in 0..500 {
        db.put(key(number), "a value").unwrap();
    }
    db.flush().unwrap();
    assert_eq!(destroy(dir.path()).unwrap_err().kind(), ErrorKind::Locked);
    db.close().unwrap();
    fs::write(dir.path().join("notes.txt"), "kept").unwrap();
    destroy(dir.path()).unwrap();
    assert_eq!(
        files(dir.path()).into_keys().collect::<Vec<_>>(),
        ["notes.txt"]
    );
    fs::remove_file(dir.path().join("notes.txt")).unwrap();
    destroy(dir.path()).unwrap();
    assert!(!dir.path().exists());
}

#[test]
fn a_compaction_leaves_one_run_a_guard_and_nothing_that_nobody_reads() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny().open(dir.path()).unwrap();
    for round in 0..4 {
        for number in 0..1000 {
            db.put(key(number), format!("value {round} of {number}"))
                .unwrap();
        }
    }
    for number in (0..1000).filter(|number| number % 4 > 0) {
        db.delete(key(number)).unwrap();
    }
    let done = db.compact().unwrap();
    assert!(
        done.jobs > 0 && done.bytes_after < done.bytes_before,
        "{done:?}"
    );
    let stats = db.stats();
    assert_eq!(stats.runs, [0, 0, 0, 0, 0, 0, 1]);
    let last = stats.level_bytes[6];
    assert_eq!((last, stats.memory_bytes), (done.bytes_after, 0));
    assert!(db.tables().iter().all(|table| table.level == 6));
    let size = db.default_keyspace().approximate_size::<&str>(..).unwrap();
    assert_eq!((size.records, size.disk_bytes), (250, last));
    assert_eq!(db.iter().count(), 250);
    assert_eq!(db.get(key(8)).unwrap().unwrap(), "value 3 of 8");

    // A snapshot keeps what it sees, and a compaction ends all the same.
    let snapshot = db.snapshot().unwrap();
    for number in 0..1000 {
        db.delete(key(number)).unwrap();
    }
    db.compact().unwrap();
    assert_eq!(snapshot.iter(db.default_keyspace()).count(), 250);
    assert_eq!(db.iter().count(), 0);
    drop(snapshot);
    assert_eq!(db.compact().unwrap().bytes_after, 0);
}

#[test]
fn a_compaction_of_a_range_leaves_the_rest_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny().open(dir.path()).unwrap();
    for number in 0..2000 {
        db.put(key(number), "a value of some length").unwrap();
    }
    db.compact().unwrap();
    let before = db.tables();
    for number in 100..200 {
        db.put(key(number), "another value").unwrap();
    }
    let keyspace = db.default_keyspace();
    keyspace.compact_range(key(100)..key(200)).unwrap();
    let after = db.tables();
    let kept = before.iter().filter(|table| after.contains(table)).count();
    assert!(
        kept > before.len() / 2 && kept < before.len(),
        "{kept} of {}",
        before.len()
    );
    assert!(after.iter().all(|table| table.level == 6));
    assert_eq!(keyspace.compact_range("z"..).unwrap().jobs, 0);
}

#[test]
fn sizes_are_about_those_of_the_range() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny().open(dir.path()).unwrap();
    let size = |low: u32, high: u32| {
        let keyspace = db.default_keyspace();
        keyspace.approximate_size(key(low)..key(high)).unwrap()
    };
    for number in 0..2000 {
        db.put(key(number), [b'v'; 92]).unwrap();
    }
    db.compact().unwrap();
    let all = size(0, 2000);
    assert_eq!((all.records, all.bytes), (2000, 200_000));
    let some = size(500, 1000);
    assert!((480..=520).contains(&some.records), "{some:?}");
    assert!(some.disk_bytes < all.disk_bytes / 3, "{some:?}");
    assert_eq!(size(1000, 500), Default::default());
    assert_eq!(size(5000, 9000), Default::default());
    // Records in memory are counted, and have no bytes on disk.
    db.put("memory", [b'v'; 94]).unwrap();
    let keyspace = db.default_keyspace();
    let more = keyspace.approximate_size("m"..).unwrap();
    assert_eq!((more.records, more.bytes, more.disk_bytes), (1, 100, 0));
}

/// All records of a batch count together, and a batch that is too large leaves no record.
#[test]
fn a_batch_that_is_too_large_is_refused_whole() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny().open(dir.path()).unwrap();
    let mut batch = db.batch();
    for number in 0..300 {
        batch.put(db.default_keyspace(), key(number), [7; 1000]);
    }
    let refused = batch.commit().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BatchTooLarge);
    assert_eq!(db.iter().count(), 0);
}

/// A scan of a dropped keyspace fails, also by a handle that was made before the drop.
#[test]
fn a_scan_of_a_dropped_keyspace_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny().open(dir.path()).unwrap();
    let doomed = db.keyspace("doomed").unwrap();
    doomed.put("key", "value").unwrap();
    db.drop_keyspace("doomed").unwrap();
    let first = doomed.iter().next().unwrap();
    assert_eq!(first.unwrap_err().kind(), ErrorKind::KeyspaceDropped);
}
