//! A disk that is completely full, so that nobody gets another byte: the database opens, and
//! deletes and compactions give room back. Where the file system copies on write, they may fail
//! until a file of somebody else is removed; nothing is lost. It runs on each kind of file system
//! that can be mounted here.

use super::mounts::{Mounted, TAKEN, mount_image, mount_memory, take_room};
use super::skipped::skipped;
use evendb::{Db, ErrorKind};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Success, or why not.
pub type Done<T = ()> = Result<T, Refused>;

/// A failure, with its message.
#[derive(Debug)]
pub enum Refused {
    /// There is no room, and the call can be tried again.
    NoRoom(String),
    /// Anything else.
    Failed(String),
}

/// What came of a call, with the error that the engine gives where there is no room told apart.
pub fn or_no_room<T>(done: evendb::Result<T>) -> Done<T> {
    done.map_err(|error| match error.kind() {
        ErrorKind::NoSpace => Refused::NoRoom(error.to_string()),
        _ => Refused::Failed(format!("{error:?}")),
    })
}

fn put(db: &Db, key: &str, value: &[u8]) -> Done {
    or_no_room(db.put(key, value))
}

fn delete(db: &Db, number: u64) -> Done {
    or_no_room(db.delete(key(number)))
}

fn compact(db: &Db) -> Done {
    or_no_room(db.compact().map(drop))
}

fn has(db: &Db, key: &str) -> bool {
    db.contains_key(key).expect("reads")
}

/// A full file system of the last kind copies on write, and may have no room for what is
/// overwritten.
const KINDS: [&str; 6] = ["tmpfs", "ext2", "ext3", "ext4", "xfs", "btrfs"];
const FREE_BYTES: u64 = 24 << 20;
/// The smallest image in which XFS can be made.
const IMAGE_BYTES: u64 = 320 << 20;
const VALUE_BYTES: usize = 400;

/// Keys in no order.
fn key(number: u64) -> String {
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn is_kept(number: u64) -> bool {
    number.is_multiple_of(10)
}

/// Runs the test on each kind of file system.
pub fn on_all_file_systems(test: &str, open: &dyn Fn(&Path) -> Done<Db>) {
    for kind in KINDS {
        let place = tempfile::tempdir().expect("a directory");
        let mounted = match kind {
            "tmpfs" => mount_memory(Command::new("mount"), place.path(), FREE_BYTES >> 20)
                .map(|()| Mounted(place.path().to_owned())),
            _ => mount_image(kind, IMAGE_BYTES, place.path()),
        };
        match mounted {
            Ok(mounted) => {
                if kind != "tmpfs" {
                    take_room(&mounted.0, FREE_BYTES);
                }
                match kind {
                    "btrfs" => fill_and_make_room(&mounted.0, open),
                    _ => fill_and_empty(kind, &mounted.0, open),
                }
            }
            Err(why) => skipped(&format!("{test}, {kind}"), why),
        }
    }
}

/// Fills the disk by puts, and what is left by another file, which is returned with the number of
/// keys.
fn fill(kind: &str, disk: &Path, open: &dyn Fn(&Path) -> Done<Db>) -> (u64, PathBuf) {
    let db = open(&disk.join("db")).expect("there is room");
    let is_refused = |number: &u64| match put(&db, &key(*number), &[7; VALUE_BYTES]) {
        Ok(()) => false,
        Err(Refused::Failed(why)) if kind != "btrfs" => panic!("{kind}: put {number}: {why}"),
        Err(_) => true,
    };
    let refused = (0..1_000_000).find(is_refused);
    let count = refused.expect("the disk is full at some time");
    assert!(count > 3_000, "{kind}: only {count} puts");
    drop(db);
    let rest = disk.join("rest");
    let filled = fs::write(&rest, vec![1; 2 * FREE_BYTES as usize]);
    assert!(filled.is_err(), "{kind}: the disk is full");
    (count, rest)
}

fn fill_and_empty(kind: &str, disk: &Path, open: &dyn Fn(&Path) -> Done<Db>) {
    let (count, _) = fill(kind, disk, open);
    let dir = disk.join("db");
    let db = open(&dir).unwrap_or_else(|why| panic!("{kind}: opening: {why:?}"));
    let mut compactions = 0;
    for number in (0..count).filter(|number| !is_kept(*number)) {
        let mut refused = delete(&db, number);
        for _ in 0..5 {
            let Err(why) = refused else { break };
            compactions += 1;
            let place = format!("{kind}: {number} of {count}, {why:?}");
            assert!(matches!(why, Refused::NoRoom(_)), "{place}");
            assert!(compactions < 200, "{place}: {:?}", what_is_there(&dir));
            compact(&db)
                .unwrap_or_else(|why| panic!("{place}: {why:?}; {:?}", what_is_there(&dir)));
            refused = delete(&db, number);
        }
        refused.unwrap_or_else(|why| panic!("{kind}: {why:?}; {:?}", what_is_there(&dir)));
    }
    println!("{kind}: {count} keys, {compactions} compactions");
    finish(kind, db, &dir, count, open);
}

/// Like [`fill_and_empty`], and after the first failure other files are removed, and the database
/// is opened again.
fn fill_and_make_room(disk: &Path, open: &dyn Fn(&Path) -> Done<Db>) {
    let (count, rest) = fill("btrfs", disk, open);
    let dir = disk.join("db");
    let empty = |db: &Db| -> Done {
        let mut deleted = (0..count).filter(|number| !is_kept(*number));
        deleted.try_for_each(|number| delete(db, number))?;
        compact(db)
    };
    let full = open(&dir).and_then(|db| empty(&db));
    println!("btrfs: {count} keys, {full:?}");
    for file in [rest, disk.join(TAKEN)] {
        fs::remove_file(file).expect("a file is removed");
    }
    // The file system gives room back with its next commit.
    rustix::fs::sync();
    let db = open(&dir).unwrap_or_else(|why| panic!("{full:?}, then {why:?}"));
    empty(&db).unwrap_or_else(|why| panic!("{full:?}, then {why:?}"));
    finish("btrfs", db, &dir, count, open);
}

/// What holds once the deletes are made: a compaction, puts behind it, and all that was kept.
fn finish(kind: &str, db: Db, dir: &Path, count: u64, open: &dyn Fn(&Path) -> Done<Db>) {
    compact(&db).unwrap_or_else(|why| {
        panic!(
            "{kind}: the last compaction: {why:?}; {:?}",
            what_is_there(dir)
        )
    });
    for number in 0..1_000 {
        // XFS gives the room of removed files back a little later.
        let is_put = |_| match put(&db, &format!("again{number}"), &[8; VALUE_BYTES]) {
            Ok(()) => true,
            Err(Refused::NoRoom(_)) => {
                std::thread::sleep(Duration::from_millis(1));
                false
            }
            Err(why) => panic!("{kind}: put {number} behind it: {why:?}"),
        };
        assert!((0..5000).any(is_put), "{kind}: put {number} behind it");
    }
    check(kind, &db, count);
    db.close().expect("closes");
    let db = open(dir).expect("opens again");
    check(kind, &db, count);
    db.close().expect("closes");
}

/// Free blocks, and files with their lengths and blocks, for messages.
fn what_is_there(dir: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let system = rustix::fs::statvfs(dir).expect("is asked");
    let free = format!("{} KiB free", (system.f_bfree * system.f_frsize) >> 10);
    let files = fs::read_dir(dir).expect("lists").flatten().map(|entry| {
        let (name, meta) = (entry.file_name(), entry.metadata());
        meta.map_or_else(
            |_| String::new(),
            |meta| format!("{name:?} {} {} KiB", meta.len(), meta.blocks() / 2),
        )
    });
    [free].into_iter().chain(files).collect()
}

fn check(kind: &str, db: &Db, count: u64) {
    for number in 0..count {
        assert_eq!(has(db, &key(number)), is_kept(number), "{kind}: {number}");
    }
    assert!((0..1_000).all(|number| has(db, &format!("again{number}"))));
}
