//! A disk that is completely full, so that nobody gets another byte: the database opens, and
//! deletes and compactions give room back, with either engine. It runs on each kind of file system
//! that can be mounted here.

use super::mounts::{Mounted, mount_image, mount_memory, take_room};
use super::skipped::skipped;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Success, or the message of a failure for want of room. Any other failure panics.
pub type Done<T = ()> = Result<T, String>;

/// The calls of an engine that this test needs.
pub trait Store: Sized {
    fn put(&self, key: &str, value: &[u8]) -> Done;
    fn delete(&self, key: &str) -> Done;
    fn compact(&self) -> Done;
    fn has(&self, key: &str) -> bool;
    fn close(self);
}

/// Makes an engine's `Db` a [`Store`], and makes the function `or_no_room`, which takes its errors:
/// both engines have the same calls.
#[allow(unused_macros, reason = "one test binary of an engine uses it")]
macro_rules! store {
    ($db:ty, $error:ty, $no_space:path) => {
        impl emptied::Store for $db {
            fn put(&self, key: &str, value: &[u8]) -> emptied::Done {
                or_no_room(<$db>::put(self, key, value))
            }

            fn delete(&self, key: &str) -> emptied::Done {
                or_no_room(<$db>::delete(self, key))
            }

            fn compact(&self) -> emptied::Done {
                or_no_room(<$db>::compact(self).map(drop))
            }

            fn has(&self, key: &str) -> bool {
                self.contains_key(key).expect("reads")
            }

            fn close(self) {
                <$db>::close(self).expect("closes");
            }
        }

        fn or_no_room<T>(done: Result<T, $error>) -> emptied::Done<T> {
            done.map_err(|error| {
                assert_eq!(error.kind(), $no_space, "{error:?}");
                error.to_string()
            })
        }
    };
}

#[allow(unused_imports, reason = "one test binary of an engine uses it")]
pub(crate) use store;

/// A full file system that copies on write may have no room for its own notes about files: nothing
/// is promised there.
const KINDS: [&str; 4] = ["tmpfs", "ext2", "ext4", "xfs"];
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
pub fn on_all_file_systems<S: Store>(test: &str, open: &dyn Fn(&Path) -> Done<S>) {
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
                fill_and_empty(kind, &mounted.0, open);
            }
            Err(why) => skipped(&format!("{test}, {kind}"), why),
        }
    }
}

fn fill_and_empty<S: Store>(kind: &str, disk: &Path, open: &dyn Fn(&Path) -> Done<S>) {
    let dir = disk.join("db");
    let db = open(&dir).expect("there is room");
    let refused = (0..1_000_000).find(|number| db.put(&key(*number), &[7; VALUE_BYTES]).is_err());
    let count = refused.expect("the disk is full at some time");
    assert!(count > 3_000, "{kind}: only {count} puts");
    drop(db);
    // Another file takes the remaining room, and the database is opened anew.
    let rest = disk.join("rest");
    let filled = fs::write(&rest, vec![1; 2 * FREE_BYTES as usize]);
    assert!(filled.is_err(), "{kind}: the disk is full");
    let db = open(&dir).unwrap_or_else(|why| panic!("{kind}: opening: {why}"));
    let mut compactions = 0;
    for number in (0..count).filter(|number| !is_kept(*number)) {
        let mut refused = db.delete(&key(number));
        for _ in 0..5 {
            let Err(why) = refused else { break };
            compactions += 1;
            let place = format!("{kind}: {number} of {count}, {why}");
            assert!(compactions < 200, "{place}: {:?}", what_is_there(&dir));
            db.compact()
                .unwrap_or_else(|why| panic!("{place}: {why}; {:?}", what_is_there(&dir)));
            refused = db.delete(&key(number));
        }
        refused.unwrap_or_else(|why| panic!("{kind}: {why}; {:?}", what_is_there(&dir)));
    }
    println!("{kind}: {count} keys, {compactions} compactions");
    db.compact().unwrap_or_else(|why| {
        panic!(
            "{kind}: the last compaction: {why}; {:?}",
            what_is_there(&dir)
        )
    });
    for number in 0..1_000 {
        let put = db.put(&format!("again{number}"), &[8; VALUE_BYTES]);
        put.unwrap_or_else(|why| panic!("{kind}: put {number} behind it: {why}"));
    }
    check(kind, &db, count);
    db.close();
    let db = open(&dir).expect("opens again");
    check(kind, &db, count);
    db.close();
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

fn check<S: Store>(kind: &str, db: &S, count: u64) {
    for number in 0..count {
        assert_eq!(db.has(&key(number)), is_kept(number), "{kind}: {number}");
    }
    assert!((0..1_000).all(|number| db.has(&format!("again{number}"))));
}
