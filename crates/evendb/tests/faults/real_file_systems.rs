//! Full file systems of several kinds, as their kernels make them: each in an image that is mounted for the test.
//!
//! What fills one is another process, so that a signal that ends it is seen: where a file system copies on write, a write through a
//! mapping finds no room, and the system has no other word for that.

use crate::common::{count_from_env, skipped::skipped};
use crate::real_disk::{Mounted, failure};
use evendb::{Durability, ErrorKind, Options};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// The kinds, and how each is made. The last one takes a minute a round, and comes where more than one round is asked for.
const KINDS: [(&str, &[&str]); 5] = [
    ("ext2", &["-q", "-F"]),
    ("ext4", &["-q", "-F"]),
    ("xfs", &["-q", "-f"]),
    ("btrfs", &["-q", "-f"]),
    ("ext3", &["-q", "-F"]),
];
const IMAGE_BYTES: u64 = 320 << 20;
/// What the test leaves free.
const FREE_BYTES: u64 = 26 << 20;
const WRITERS: usize = 4;
const ROLE: &str = "EVENDB_FULL_FILE_SYSTEM";

fn options() -> Options {
    Options::new()
        .memory_budget(64 << 20)
        .durability(Durability::Process)
}

fn key(writer: usize, number: u64) -> String {
    format!("{writer}-{number:08}")
}

/// Puts until the disk is full, and says how many puts of each writer were acknowledged.
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
    // Reads go on; the process ends without closing.
    assert!(db.get(key(0, 0)).expect("gets").is_some());
    std::process::exit(0);
}

/// Mounts a file system of this kind and leaves little free; or says why it cannot be.
fn mounted(kind: &str, arguments: &[&str], place: &Path) -> Result<Mounted, String> {
    let image = place.join("image");
    File::create(&image)
        .and_then(|file| file.set_len(IMAGE_BYTES))
        .map_err(|error| error.to_string())?;
    let mut make = Command::new(format!("mkfs.{kind}"));
    make.args(arguments).arg(&image);
    failure(make)?;
    let dir = place.join("mounted");
    fs::create_dir(&dir).map_err(|error| error.to_string())?;
    let mut mount = Command::new("mount");
    mount.args(["-t", kind, "-o", "loop"]).args([&image, &dir]);
    failure(mount)?;
    Ok(Mounted(dir))
}

/// Takes the room but for [`FREE_BYTES`].
fn take_room(dir: &Path) {
    let file = File::create(dir.join("taken")).expect("creates");
    let piece = vec![7; 1 << 20];
    let mut at = 0;
    loop {
        let system = rustix::fs::statvfs(dir).expect("is asked");
        if system.f_bavail * system.f_frsize <= FREE_BYTES {
            break;
        }
        std::os::unix::fs::FileExt::write_all_at(&file, &piece, at).expect("writes");
        at += piece.len() as u64;
        if at.is_multiple_of(8 << 20) {
            file.sync_all().expect("syncs");
        }
    }
    file.sync_all().expect("syncs");
}

fn round(kind: &str, arguments: &[&str]) -> Result<(), String> {
    let place = tempfile::tempdir().expect("a directory");
    let mount = mounted(kind, arguments, place.path())?;
    take_room(&mount.0);
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
    // On the full disk, as it was left. Btrfs may have no room for what it notes of files itself.
    let taken = mount.0.join("taken");
    let mut db = options().open(mount.0.join("db"));
    if kind == "btrfs"
        && db
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::NoSpace)
    {
        fs::remove_file(&taken).expect("gives room back");
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
    let kinds = if rounds > 1 { &KINDS[..] } else { &KINDS[..4] };
    for &(kind, arguments) in kinds {
        for _ in 0..rounds {
            if let Err(why) = round(kind, arguments) {
                skipped(&format!("full_file_systems_of_all_kinds, {kind}"), why);
                break;
            }
        }
    }
}
