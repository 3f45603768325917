//! A process that may have few files open.

use crate::common::has_chunks;
use crate::{in_another_process, small};
use evendb::{Error, ErrorKind};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;

/// Limits the number of files that this process may have open from now on.
fn limit_to(files: u64) {
    let limit = Rlimit {
        current: Some(files),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    setrlimit(Resource::Nofile, limit).expect("sets the limit");
}

fn key(number: usize) -> String {
    format!("{number:06}")
}

const KEYS: usize = 20_000;
/// More keys than the memory holds, in few chunks: a job that finds no descriptor waits a little
/// for each.
const FEW_KEYS: usize = 4_000;

/// Many more tables than the process may have open, read by many threads: a closed table keeps its
/// descriptor until no reader can have it any more.
pub fn many_readers(dir: &Path) {
    limit_to(300);
    let db = small().workers(2).open(dir).expect("opens");
    for number in 0..KEYS {
        db.put(key(number), [7; 100]).expect("puts");
    }
    db.settle_debt().expect("settles");
    let chunks = db.stats().chunks;
    assert!(chunks > 400 || !has_chunks(), "{chunks}");
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let db = &db;
            scope.spawn(move || {
                for step in 0..2_500 {
                    let number = (step * 7_919 + thread * 1_237) % KEYS;
                    let found = db.get(key(number)).expect("gets");
                    assert!(found.is_some_and(|value| value.len() == 100));
                }
            });
        }
    });
    db.compact().expect("compacts");
    db.close().expect("closes");
}

/// The rest of the process takes all descriptors: calls that need one more fail with an error of
/// their own, nothing counts as damaged, and all is as before when there are descriptors again.
pub fn none_left(dir: &Path) {
    limit_to(160);
    let open = || {
        // Without munks: a worker that loads spans before the descriptors are gone would spare all
        // reads.
        small()
            .workers(1)
            .advanced(|advanced| {
                let advanced = advanced.open_files_max(1).chunk_bytes(64 << 10);
                advanced.munks(false)
            })
            .open(dir)
    };
    let db = open().expect("opens");
    for number in 0..FEW_KEYS {
        db.put(key(number), [7; 500]).expect("puts");
    }
    // Into tables, which are files.
    db.compact().expect("compacts");
    db.close().expect("closes");
    let db = open().expect("opens");
    let mut taken = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file);
    }
    let refused = |error: &Error| error.kind() == ErrorKind::TooManyFiles;
    let failed = (0..FEW_KEYS)
        .step_by(7)
        .find_map(|at| db.get(key(at)).err());
    let failed = failed.expect("no descriptor for a table");
    assert!(refused(&failed), "{failed:?}");
    assert!(failed.to_string().contains("limit of open files"));
    let failed = db.iter().find_map(Result::err).expect("a scan fails, too");
    assert!(refused(&failed), "{failed:?}");
    let failed = db.compact().expect_err("a rewrite fails, too");
    assert!(refused(&failed), "{failed:?}");
    drop(taken);
    db.put("more", "room").expect("puts");
    assert_eq!(db.iter().filter(Result::is_ok).count(), FEW_KEYS + 1);
    db.compact().expect("compacts");
    db.close().expect("closes");
    assert_eq!(open().expect("opens").iter().count(), FEW_KEYS + 1);
}

#[test]
fn many_readers_of_more_tables_than_there_are_descriptors() {
    let dir = tempfile::tempdir().expect("a directory");
    in_another_process("many readers", dir.path());
}

#[test]
fn without_a_descriptor_nothing_is_damaged_and_nothing_latches() {
    let dir = tempfile::tempdir().expect("a directory");
    in_another_process("no descriptor left", dir.path());
}
