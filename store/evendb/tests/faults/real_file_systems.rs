//! Full file systems of several kinds, as their kernels make them: each in an image that is mounted
//! for the test.
//!
//! Another process fills each one, so that the test sees a signal that ends it: if a file system
//! copies on write, a write through a mapping may find no room, and a signal is the system's only
//! way to report that.

use crate::common::mounts::{IMAGES, TAKEN, mount_image, take_room};
use crate::common::{count_from_env, emptied, skipped::skipped};
use evendb::{Durability, ErrorKind, Options};
use std::fs;
use std::path::Path;
use std::process::Command;

const IMAGE_BYTES: u64 = 320 << 20;
/// The bytes that the test leaves free.
const FREE_BYTES: u64 = 26 << 20;
const WRITERS: usize = 4;
const ROLE: &str = "EVENDB_FULL_FILE_SYSTEM";

fn options() -> Options {
    crate::common::options()
        .memory_budget(64 << 20)
        .durability(Durability::Process)
}

fn key(writer: usize, number: u64) -> String {
    format!("{writer}-{number:08}")
}

/// Puts until the disk is full, and prints each writer's number of acknowledged puts.
fn fill(dir: &Path) {
    let db = options().open(dir.join("db")).expect("opens");
    let acknowledged: Vec<u64> = std::thread::scope(|scope| {
        let writers = [0, 1, 2, 3].map(|writer| {
            let db = &db;
            scope.spawn(move || {
                for number in 0.. {
                    if let Err(error) = db.put(key(writer, number), [writer as u8; 400]) {
                        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error:?}");
                        return number;
                    }
                }
                0
            })
        });
        writers.map(|writer| writer.join().expect("ends")).to_vec()
    });
    println!("acknowledged {acknowledged:?}");
    // Reads continue; the process ends without closing.
    assert!(db.get(key(0, 0)).expect("gets").is_some());
    std::process::exit(0);
}

fn round(kind: &str) -> Result<(), String> {
    let place = tempfile::tempdir().expect("a directory");
    let mount = mount_image(kind, IMAGE_BYTES, place.path())?;
    take_room(&mount.0, FREE_BYTES);
    let mut other = Command::new(std::env::current_exe().expect("the test binary"));
    other.env(ROLE, &mount.0).args([
        "real_file_systems::full_file_systems_of_all_kinds",
        "--exact",
        "--nocapture",
    ]);
    let output = other.output().expect("runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{kind}: {}: {told} {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let counts = told.split("acknowledged [").nth(1);
    let counts = counts
        .and_then(|rest| rest.split(']').next())
        .expect("counts");
    let counts: Vec<u64> = counts
        .split(", ")
        .map(|count| count.parse().expect("a count"))
        .collect();
    assert_eq!(counts.len(), WRITERS);
    assert!(counts.iter().sum::<u64>() > 1_000, "{kind}: {counts:?}");
    // Still on the full disk. Btrfs may have no room for what an opening overwrites.
    let taken = mount.0.join(TAKEN);
    let mut db = options().open(mount.0.join("db"));
    if kind == "btrfs" && db.is_err() {
        fs::remove_file(&taken).expect("gives room back");
        rustix::fs::sync();
        db = options().open(mount.0.join("db"));
    }
    let db = db.unwrap_or_else(|error| panic!("{kind}: opening: {error:?}"));
    for (writer, count) in counts.into_iter().enumerate() {
        for number in 0..count {
            let found = db.get(key(writer, number)).expect("gets");
            assert!(found.is_some(), "{kind}: {} is lost", key(writer, number));
        }
    }
    if taken.exists() {
        fs::remove_file(&taken).expect("gives room back");
    }
    db.put("after", "room").expect("puts");
    db.close().expect("closes");
    Ok(())
}

#[test]
fn full_file_systems_of_all_kinds() {
    if let Some(dir) = std::env::var_os(ROLE) {
        return fill(Path::new(&dir));
    }
    let rounds = count_from_env("EVENDB_REAL_ROUNDS", 1);
    for (kind, _) in IMAGES {
        for _ in 0..rounds {
            if let Err(why) = round(kind) {
                skipped(&format!("full_file_systems_of_all_kinds, {kind}"), why);
                break;
            }
        }
    }
}

#[test]
fn deletes_and_compactions_empty_full_file_systems_of_all_kinds() {
    let open = |dir: &Path| emptied::or_no_room(options().open(dir));
    let test = "deletes_and_compactions_empty_full_file_systems_of_all_kinds";
    emptied::on_all_file_systems(test, &open);
}
