//! Real file systems of a few megabytes that are full.

use crate::common::mounts::{Mounted, failure, mount_memory};
use crate::common::skipped::skipped;
use crate::common::{self, choice_from_env, count_from_env};
use crate::room::fill_until_full;
use crate::waiting::in_time;
use evendb::{Durability, ErrorKind};
use std::path::Path;
use std::process::Command;

/// A small real file system.
fn mounted(dir: &Path, megabytes: u64) -> Mounted {
    mount_memory(Command::new("mount"), dir, megabytes).expect("mounts as it did before");
    Mounted(dir.to_owned())
}

/// On nearly every system, a user who may not mount may do so in a namespace of his own.
fn in_a_namespace() -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount"]);
    unshare
}

/// Real file systems of a few megabytes, with background threads.
#[test]
fn a_real_full_disk() {
    let probe = tempfile::tempdir().expect("a directory");
    let Err(why) = mount_memory(Command::new("mount"), probe.path(), 1) else {
        drop(Mounted(probe.path().to_owned()));
        return fill_real_disks();
    };
    let mut there = in_a_namespace();
    there.arg("mount");
    if mount_memory(there, probe.path(), 1).is_err() {
        return skipped(
            "a_real_full_disk",
            format!("no file system can be mounted here: {why}"),
        );
    }
    let mut again = in_a_namespace();
    again.arg(std::env::current_exe().expect("the test binary"));
    again.args(["real_disk::a_real_full_disk", "--exact", "--nocapture"]);
    failure(again).unwrap_or_else(|told| panic!("in a namespace of its own: {told}"));
}

fn fill_real_disks() {
    let only = choice_from_env("EVENDB_REAL_LEVEL", &["Process", "Sync", "Relaxed"]);
    let rounds = count_from_env("EVENDB_REAL_ROUNDS", 1);
    let levels = [
        (6, Durability::Process),
        (16, Durability::Sync),
        (16, Durability::Relaxed),
    ];
    let chosen = levels
        .iter()
        .filter(|(_, level)| only.contains(&&*format!("{level:?}")));
    for (megabytes, level) in (0..rounds).flat_map(|_| chosen.clone().copied()) {
        let dir = tempfile::tempdir().expect("a directory");
        let _mount = mounted(dir.path(), megabytes);
        let dir = dir.path().to_owned();
        let place = format!("{megabytes} MiB {level:?}");
        in_time(&place.clone(), move || fill_and_empty(&dir, level, &place));
    }
}

/// The files on a real disk, for messages: names, lengths and blocks.
fn real_files_of(dir: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir.join("db"));
    let all = entries.into_iter().flatten().filter_map(|entry| {
        let entry = entry.ok()?;
        let meta = entry.metadata().ok()?;
        let name = entry.file_name().to_string_lossy().into_owned();
        Some((meta.blocks() / 2, meta.len(), name))
    });
    let mut all: Vec<_> = all.collect();
    all.sort();
    let sum: u64 = all.iter().map(|(blocks, ..)| blocks).sum();
    let largest = all.iter().rev().take(8);
    let shown = largest.map(|(blocks, len, name)| format!("{name}: {len} bytes, {blocks} KiB"));
    let sum = format!("{} files, {sum} KiB", all.len());
    shown.chain([sum]).collect()
}

fn fill_and_empty(dir: &Path, level: Durability, place: &str) {
    let path = dir.join("db");
    let open = || {
        common::tiny(level, 1)
            .advanced(|advanced| advanced.chunk_bytes(32 << 10))
            .open(&path)
            .expect("opens")
    };
    let count_of = |db: &evendb::Db| {
        let counted = db.iter().map(|item| item.map(|_| 1_usize));
        let counted: evendb::Result<usize> = counted.sum();
        counted.unwrap_or_else(|error| panic!("{place}: {error:?}"))
    };
    let db = open();
    fill_until_full(&db, 999_999);
    let count = count_of(&db);
    assert!(count > 1_000);
    // Another file takes the remaining room, and the database opens all the same.
    let other = dir.join("other");
    let filled = std::fs::write(&other, vec![1; 32 << 20]);
    assert!(filled.is_err(), "{place}: the disk is full");
    // If there was no room for a checkpoint, the commit log has the records; without a log, all are
    // in the runs by now.
    drop(db);
    let db = open();
    if level != Durability::Relaxed {
        assert_eq!(count_of(&db), count, "{place}");
    }
    let error = (0..200_000).find_map(|number| db.put(format!("m{number}"), [0; 100]).err());
    let error = error.expect("there is no room for all values");
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{place}: {error:?}");
    std::fs::remove_file(other).expect("removes");
    db.delete_prefix("k").unwrap_or_else(|error| {
        let state = (db.stats().space, real_files_of(dir));
        panic!("{place}: deleting: {error:?}; {state:#?}")
    });
    assert_eq!(db.prefix("k").count(), 0);
    db.put("after", "room")
        .unwrap_or_else(|error| panic!("{place}: putting: {error:?}"));
    db.close()
        .unwrap_or_else(|error| panic!("{place}: closing: {error:?}"));
}
