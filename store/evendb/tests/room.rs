//! Room on the disk: a new database takes little, says what it takes, and takes nothing where it
//! cannot be created; the room that it keeps back follows the data.
//!
//! `EVENDB_ROOM_STRIDE` sets the pages between two sizes of a disk (default 1).

mod common;

use common::{LEVELS, count_from_env};
use evendb::vfs::{CrashMode, Fault, FaultKind, FaultOn, SimVfs, Vfs};
use evendb::{Db, Durability, ErrorKind, Options};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The bytes of the files, as `du` counts them.
fn blocks(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).expect("lists");
    let bytes = |entry: std::io::Result<std::fs::DirEntry>| {
        let metadata = entry.expect("lists").metadata();
        metadata.expect("is there").blocks() * 512
    };
    entries.map(bytes).sum()
}

/// Waits for removals. A pinned thread of another test that gets no processor keeps files that
/// nothing names any more, and a compaction waits for it only for a while.
fn wait_for_removals(db: &Db) {
    for _ in 0..12_000 {
        if db.stats().space.deletion_pending_bytes == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never removed: {:?}", db.stats().space);
}

/// The default memory budget, on a real file system.
#[test]
fn a_database_of_one_record_takes_little_and_says_how_much() {
    for level in LEVELS {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("db");
        let options = || {
            common::options()
                .durability(level)
                .stats_interval(Duration::ZERO)
        };
        let db = options().open(&path).expect("opens");
        db.put("key", "value").expect("puts");
        // Upkeep may be reserving at this moment: the figures are asked for until nothing changes.
        let said = (0..1_000).find_map(|_| {
            let before = blocks(&path);
            let said = db.stats().space;
            (blocks(&path) == before).then_some((said, before))
        });
        let (said, there) = said.expect("it comes to rest");
        assert_eq!(said.disk_bytes, there, "{level:?}: {said:?}");
        assert!(there <= 3 << 19, "{level:?}: {there} bytes while open");
        db.close().expect("closes");
        let there = blocks(&path);
        assert!(there <= 3 << 19, "{level:?}: {there} bytes");
        let reader = options().read_only(true).open(&path).expect("opens");
        let said = reader.stats().space;
        assert_eq!(said.disk_bytes, there, "{level:?}: {said:?}");
        assert!(said.live_bytes > 0 && said.ballast_bytes > 0, "{said:?}");
        assert_eq!(
            said.commit_log_bytes > 0,
            level != Durability::Relaxed,
            "{said:?}"
        );
    }
}

/// Room that much data needed goes when a caller asks for the least, and the next life begins
/// small.
#[test]
fn what_was_kept_for_much_data_goes_with_it() {
    for level in LEVELS {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("db");
        let open = || {
            let options = common::options().memory_budget(64 << 20).durability(level);
            options.open(&path).expect("opens")
        };
        let db = open();
        for number in 0..150_u32 {
            let mut batch = db.batch();
            for part in 0..100 {
                let key = (number * 100 + part)
                    .wrapping_mul(2_654_435_761)
                    .to_le_bytes();
                batch.put(db.default_keyspace(), key, [7; 1_000]);
            }
            batch.commit().expect("commits");
        }
        db.settle_debt().expect("settles");
        let grown = db.stats().space;
        assert!(grown.ballast_bytes > 4 << 20, "{level:?}: {grown:?}");
        if level != Durability::Relaxed {
            assert!(grown.commit_log_bytes > 1 << 20, "{level:?}: {grown:?}");
        }
        db.delete_prefix("").expect("deletes");
        db.put("left", "over").expect("puts");
        db.compact().expect("compacts");
        wait_for_removals(&db);
        db.close().expect("closes");
        let there = blocks(&path);
        assert!(there <= 3 << 19, "{level:?}: {there} bytes");
        let db = open();
        assert_eq!(db.get("left").expect("gets").as_deref(), Some(&b"over"[..]));
        assert_eq!(db.iter().count(), 1);
        for number in 0..20_000_u32 {
            db.put(number.to_le_bytes(), [8; 500]).expect("puts");
        }
        drop(db);
        assert_eq!(open().iter().count(), 20_001, "{level:?}");
    }
}

fn on_disk(vfs: &SimVfs, level: Durability, budget: u64) -> Options {
    let options = common::options().memory_budget(budget).durability(level);
    options.workers(0).vfs(Arc::new(vfs.clone()))
}

/// The number in "needs 123 KiB".
fn needed(message: &str) -> u64 {
    let rest = message.split("needs ").nth(1).expect("says what it needs");
    let number = rest.split(" KiB").next().expect("in KiB");
    number.parse::<u64>().expect("a number") << 10
}

/// A disk that is too small for a new database is left unchanged, and the message says how large it
/// must be.
#[test]
fn a_creation_that_finds_no_room_leaves_nothing() {
    let stride = count_from_env("EVENDB_ROOM_STRIDE", 1) << 12;
    let mut needs = Vec::new();
    for budget in [512 << 20, 64 << 20, 1 << 20] {
        for level in LEVELS {
            let mut refused = 0;
            let mut capacity = 0;
            loop {
                let place = format!("{level:?} budget {budget} capacity {capacity}");
                let vfs = SimVfs::new(capacity);
                let there = capacity % (2 * stride) == 0;
                if there {
                    vfs.create_dir_all(Path::new("/a/db")).expect("creates");
                }
                vfs.set_capacity(capacity);
                match on_disk(&vfs, level, budget).open("/a/db") {
                    Ok(_) => break,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::NoSpace, "{place}: {error}");
                        let message = error.to_string();
                        assert!(message.contains("smaller one"), "{message}");
                        assert!(!message.contains("delete keys"), "{message}");
                        assert_eq!(vfs.used_bytes(), 0, "{place}");
                        let exists = vfs.exists(Path::new("/a")).expect("looks");
                        assert_eq!(exists, there, "{place}");
                        if there {
                            let left = vfs.list(Path::new("/a/db")).expect("lists");
                            assert!(left.is_empty(), "{place}: {left:?}");
                        }
                        let needed = needed(&message);
                        if refused == 0 {
                            needs.push(needed);
                            vfs.set_capacity(needed);
                            let db = on_disk(&vfs, level, budget).open("/a/db");
                            let db = db.expect("there is as much room as it says");
                            db.put("key", "value").expect("there is room to use it");
                            db.close().expect("closes");
                        }
                        refused += 1;
                    }
                }
                capacity += stride;
            }
            assert!(refused > 0);
        }
    }
    // The relaxed level has no log; at a level with a log, smaller budgets need less.
    assert!(needs[1] > needs[4] && needs[4] > needs[7], "{needs:?}");
}

/// Whatever operation of a creation fails, once: nothing is left, or the database is created all
/// the same.
#[test]
fn a_creation_that_fails_leaves_nothing() {
    for level in LEVELS {
        for kind in [
            FaultKind::Eio,
            FaultKind::NoSpace,
            FaultKind::ShortWrite,
            FaultKind::SyncFailsThenClean,
        ] {
            let operations = {
                let vfs = SimVfs::new(1);
                let _db = on_disk(&vfs, level, 1 << 20).open("/a/db").expect("opens");
                vfs.op_count()
            };
            let mut failed = 0;
            for at in 0..operations {
                let vfs = SimVfs::new(at);
                vfs.inject(Fault {
                    at,
                    on: FaultOn::Change,
                    kind,
                    sticky: false,
                    path_contains: None,
                });
                let opened = on_disk(&vfs, level, 1 << 20).open("/a/db");
                let Err(error) = opened else { continue };
                failed += 1;
                let place = format!("{level:?} {kind:?} at {at}: {error}");
                // A lock's file that was made and not locked cannot be told from a foreign one.
                let exists = vfs.exists(Path::new("/a")).expect("looks");
                assert!(!exists, "{place}: {:?}", vfs.file_names(Path::new("/a/db")));
                // After a power loss nothing prevents a creation either.
                for mode in [CrashMode::PowerLossNothing, CrashMode::PowerLossRandom(at)] {
                    let vfs = vfs.crash(mode);
                    let db = on_disk(&vfs, level, 1 << 20).open("/a/db");
                    let db = db.unwrap_or_else(|error| panic!("{place} then {mode:?}: {error}"));
                    assert_eq!(db.iter().count(), 0);
                }
            }
            assert!(failed > 3, "{level:?} {kind:?}: {failed} of {operations}");
        }
    }
}

/// The machine stops in the middle of a creation: the next opening completes or replaces it.
#[test]
fn a_creation_that_was_cut_short_is_done_again() {
    for level in LEVELS {
        let operations = {
            let vfs = SimVfs::new(1);
            let _db = on_disk(&vfs, level, 1 << 20).open("/db").expect("opens");
            vfs.op_count()
        };
        for at in 0..operations {
            let vfs = SimVfs::new(at);
            vfs.set_crash_at(at);
            let opened = on_disk(&vfs, level, 1 << 20).open("/db");
            for mode in [
                CrashMode::Process,
                CrashMode::PowerLossNothing,
                CrashMode::PowerLossRandom(at),
            ] {
                let next = vfs.crash(mode);
                let db = on_disk(&next, level, 1 << 20).open("/db");
                let db = db.unwrap_or_else(|error| panic!("{level:?} {at} {mode:?}: {error}"));
                db.put("key", "value").expect("puts");
                db.close().expect("closes");
            }
            drop(opened);
        }
    }
}

/// The room kept back follows the data, and is there when the disk is full: all existing records
/// can be deleted, and then something can be put.
#[test]
fn what_is_kept_back_is_enough_for_the_data_there_is() {
    let mut sizes = std::collections::BTreeSet::new();
    for level in LEVELS {
        for capacity in [1_500_u64, 2_000, 3_000, 4_500, 7_000, 11_000] {
            let place = format!("{level:?} {capacity} KiB");
            let vfs = SimVfs::new(capacity);
            vfs.set_capacity(capacity << 10);
            // Chunks of 1 MiB: at most two of them are kept back.
            let open = || on_disk(&vfs, level, 16 << 20).open("/db");
            let db = open().expect("opens");
            let mut count = 0;
            let full = (0..200_000_u32).find_map(|number| {
                let key = number.wrapping_mul(2_654_435_761).to_le_bytes();
                let put = db.put(key, [number as u8; 100]);
                count += u32::from(put.is_ok());
                put.err()
            });
            let full = full.expect("the disk is full at some time");
            assert_eq!(full.kind(), ErrorKind::NoSpace, "{place}: {full}");
            sizes.insert(db.stats().space.ballast_bytes);
            assert_eq!(db.iter().count() as u32, count, "{place}");
            let deleted = db.delete_prefix("");
            deleted.unwrap_or_else(|error| panic!("{place}: {error}"));
            assert_eq!(db.iter().count(), 0, "{place}");
            db.put("after", "room")
                .unwrap_or_else(|error| panic!("{place}: put: {error}"));
            db.close()
                .unwrap_or_else(|error| panic!("{place}: close: {error}"));
            assert_eq!(open().expect("opens").iter().count(), 1, "{place}");
        }
    }
    assert!(sizes.len() > 3, "{sizes:?}");
}
