//! Second openers, read-only opens, threads that cannot be started, a lock whose file is gone.

use crate::{in_another_process, kind_of, small};
use evendb::ErrorKind;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[test]
fn one_opener_at_a_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = small().open(dir.path()).expect("opens");
    db.put("key", "value").expect("puts");
    assert_eq!(kind_of(small().open(dir.path())), Some(ErrorKind::Locked));
    in_another_process("refused", dir.path());
    in_another_process("reader refused", dir.path());
    db.close().expect("closes");
    in_another_process("admitted", dir.path());
    // Dropping the last handle releases it too, however it is reached.
    let db = small().open(dir.path()).expect("opens");
    let keyspace = db.default_keyspace().clone();
    drop(db);
    assert_eq!(kind_of(small().open(dir.path())), Some(ErrorKind::Locked));
    drop(keyspace);
    in_another_process("admitted", dir.path());
}

#[test]
fn a_closed_database_is_free_while_handles_live() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = small().open(dir.path()).expect("opens");
    let (other, keyspace) = (db.clone(), db.default_keyspace().clone());
    db.close().expect("closes");
    let again = small().open(dir.path()).expect("opens again");
    assert_eq!(kind_of(other.put("a", "b")), Some(ErrorKind::Closed));
    assert_eq!(kind_of(keyspace.get("a")), Some(ErrorKind::Closed));
    assert_eq!(kind_of(other.snapshot()), Some(ErrorKind::Closed));
    assert_eq!(kind_of(other.flush()), Some(ErrorKind::Closed));
    assert!(other.close().is_ok(), "closing twice is no error");
    drop(keyspace);
    again.put("a", "b").expect("the second life goes on");
}

fn file_contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(dir).expect("lists");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .map(|path| (path.clone(), std::fs::read(path).expect("reads")))
        .collect()
}

#[test]
fn readers_write_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let missing = dir.path().join("missing");
    assert_eq!(
        kind_of(small().read_only(true).open(&missing)),
        Some(ErrorKind::NotFound)
    );
    assert!(!missing.exists());
    let db = small().open(dir.path()).expect("opens");
    for number in 0..1000 {
        db.put(format!("{number:04}"), vec![1; 50]).expect("puts");
    }
    db.settle_debt().expect("settles");
    // These are only in the commit log when the directory is copied.
    for number in 1000..1100 {
        db.put(format!("{number:04}"), vec![2; 50]).expect("puts");
    }
    let copy = tempfile::tempdir().expect("a directory");
    for (path, bytes) in file_contents(dir.path()) {
        let name = path.file_name().expect("a file");
        std::fs::write(copy.path().join(name), bytes).expect("copies");
    }
    db.close().expect("closes");
    for dir in [dir.path(), copy.path()] {
        let before = file_contents(dir);
        let reader = small().read_only(true).open(dir).expect("opens");
        let second = small().read_only(true).open(dir).expect("beside a reader");
        assert_eq!(second.iter().filter_map(Result::ok).count(), 1100);
        assert_eq!(kind_of(small().open(dir)), Some(ErrorKind::Locked));
        assert_eq!(kind_of(reader.put("a", "b")), Some(ErrorKind::ReadOnly));
        assert_eq!(kind_of(reader.flush()), Some(ErrorKind::ReadOnly));
        assert_eq!(kind_of(reader.keyspace("new")), Some(ErrorKind::ReadOnly));
        assert_eq!(
            kind_of(reader.drop_keyspace("new")),
            Some(ErrorKind::ReadOnly)
        );
        assert_eq!(reader.iter().rev().filter_map(Result::ok).count(), 1100);
        reader.close().expect("closes");
        drop(second);
        assert!(before == file_contents(dir), "a reader changed a file");
        assert_eq!(small().open(dir).expect("opens").iter().count(), 1100);
    }
}

/// The size of stacks: the address space, made small, has room for one such stack or for none.
pub const STACK_BYTES: u64 = 256 << 20;

pub fn threads_that_cannot_be_started(dir: &Path) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let threads = || std::fs::read_dir("/proc/self/task").expect("lists").count();
    let (limit, before) = (getrlimit(Resource::As), threads());
    let sizes = std::fs::read_to_string("/proc/self/statm").expect("reads");
    let pages = sizes.split(' ').next().expect("a size").parse::<u64>();
    let used = pages.expect("a number") * rustix::param::page_size() as u64;
    let limited = |stacks: f64| {
        let little = rustix::process::Rlimit {
            current: Some(used + (stacks * STACK_BYTES as f64) as u64),
            maximum: limit.maximum,
        };
        setrlimit(Resource::As, little).expect("sets the limit");
    };
    limited(0.8);
    let error = small()
        .workers(12)
        .open(dir)
        .expect_err("no room for a stack");
    setrlimit(Resource::As, limit).expect("takes the limit back");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let message = error.to_string();
    assert!(message.contains("evendb-"), "{message}");
    assert!(message.contains("raise that limit"), "{message}");
    // No thread continues, and nothing is held.
    assert_eq!(threads(), before);
    // The one thread that a database needs does the others' work.
    limited(1.8);
    let db = small().workers(12).open(dir).expect("opens");
    for number in 0..20_000 {
        db.put(format!("{:05}", number % 2_000), [1; 100])
            .expect("puts");
    }
    db.settle_debt().expect("settles");
    assert!(db.stats().checkpoints > 1);
    assert!(threads() <= before + 1, "no room for more");
    db.close().expect("closes");
    setrlimit(Resource::As, limit).expect("takes the limit back");
    let db = small().workers(2).open(dir).expect("opens now");
    assert_eq!(db.get("key").expect("gets").as_deref(), Some(&b"value"[..]));
    db.close().expect("closes");
}

#[test]
fn threads_that_cannot_be_started_are_an_error_of_opening() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = small().open(dir.path()).expect("opens");
    db.put("key", "value").expect("puts");
    db.close().expect("closes");
    in_another_process("threads that cannot be started", dir.path());
}

/// The directory is locked too: deleting the lock's file lets no second opener in, and the first
/// loses nothing.
#[test]
fn a_deleted_lock_file_lets_nobody_in() {
    let dir = tempfile::tempdir().expect("a directory");
    let open = || crate::common::options().workers(0).open(dir.path());
    let db = open().expect("opens");
    db.put("a", "1").expect("puts");
    std::fs::remove_file(dir.path().join("LOCK")).expect("removes the lock file");
    let error = open().expect_err("it is open");
    assert_eq!(error.kind(), evendb::ErrorKind::Locked);
    db.flush().expect("it is still the only one");
    db.put("b", "2").expect("puts");
    db.close().expect("closes");
    let db = open().expect("opens");
    assert_eq!(db.iter().count(), 2);
}

/// The path of an open database may lead to another one: the first must notice and stop writing.
#[test]
fn a_directory_that_is_moved_stops_the_writer() {
    let parent = tempfile::tempdir().expect("a directory");
    let (dir, moved) = (parent.path().join("db"), parent.path().join("moved"));
    let options = crate::common::options().workers(0);
    let db = options.clone().open(&dir).expect("opens");
    db.put("a", "1").expect("puts");
    db.flush().expect("a checkpoint");
    std::fs::rename(&dir, &moved).expect("moves");
    let error = options.clone().open(&moved).expect_err("it is open");
    assert_eq!(error.kind(), evendb::ErrorKind::Locked);
    let error = db.flush().expect_err("it is not its place any more");
    assert_eq!(error.kind(), evendb::ErrorKind::Locked);
    let error = db.put("b", "2").expect_err("latched");
    assert_eq!(error.kind(), evendb::ErrorKind::Latched);
    assert_eq!(db.get("a").expect("reads go on").expect("is there"), "1");
    assert!(!dir.exists(), "nothing is made where it was");
    drop(db);
    assert_eq!(options.open(&moved).expect("opens").iter().count(), 1);
}
