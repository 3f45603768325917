//! Hostile surroundings: second openers, a lock whose file is gone, strange paths, directories that
//! cannot be written, newer formats, foreign files, threads that cannot be started, sizes and
//! ranges at their limits. Each case ends in a typed error or works.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::privileges::without_privileges;
use common::{DIR, tiny, tiny_on};
use evendb_flsm::inspect::{self, Dump, DumpOptions, InspectOptions};
use evendb_flsm::vfs::SimVfs;
use evendb_flsm::{Db, Durability, ErrorKind, Options, Result};
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const ROLE_VARIABLE: &str = "EVENDB_HOSTILE_ROLE";
const DIR_VARIABLE: &str = "EVENDB_HOSTILE_DIR";
/// Bytes of a stack that is too large for the address space, which the test makes small.
const STACK_BYTES: u64 = 256 << 20;

fn kind_of<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Runs this binary again in a role. The other process checks the expected result itself.
fn in_another_process(role: &str, dir: &Path) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["other_process", "--exact", "--nocapture"])
        .env(ROLE_VARIABLE, role)
        .env(DIR_VARIABLE, dir)
        .env("RUST_MIN_STACK", STACK_BYTES.to_string())
        .status();
    assert!(status.unwrap().success(), "{role}");
}

/// Not a test of its own: [`in_another_process`] runs it.
#[test]
fn other_process() {
    let Some(dir) = std::env::var_os(DIR_VARIABLE) else {
        return;
    };
    match std::env::var(ROLE_VARIABLE).unwrap().as_str() {
        "refused" => {
            for options in [tiny(1), tiny(1).read_only(true)] {
                assert_eq!(kind_of(options.open(&dir)), Some(ErrorKind::Locked));
            }
        }
        "relative" => {
            std::env::set_current_dir(&dir).unwrap();
            let db = tiny(1).open("relative/db").unwrap();
            db.put("key", "value").unwrap();
            std::env::set_current_dir("/").unwrap();
            for number in 0..2000 {
                db.put(format!("{number}"), [7; 100]).unwrap();
            }
            db.settle_debt().unwrap();
            db.close().unwrap();
            assert!(!Path::new("/relative").exists());
        }
        "threads that cannot be started" => threads_that_cannot_be_started(Path::new(&dir)),
        role => panic!("no such role: {role}"),
    }
}

#[test]
fn one_opener_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny(1).open(dir.path()).unwrap();
    assert_eq!(kind_of(tiny(1).open(dir.path())), Some(ErrorKind::Locked));
    in_another_process("refused", dir.path());
    // The last handle releases it, whichever it is.
    let keyspace = db.default_keyspace().clone();
    drop(db);
    assert_eq!(kind_of(tiny(1).open(dir.path())), Some(ErrorKind::Locked));
    drop(keyspace);
    tiny(1).open(dir.path()).unwrap().close().unwrap();
}

/// The directory is locked, too: deleting the lock's file lets no second opener in, and the first
/// one loses nothing.
#[test]
fn a_deleted_lock_file_lets_nobody_in() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny(1).open(dir.path()).unwrap();
    db.put("a", "1").unwrap();
    std::fs::remove_file(dir.path().join("LOCK")).unwrap();
    assert_eq!(kind_of(tiny(1).open(dir.path())), Some(ErrorKind::Locked));
    db.flush().unwrap();
    db.put("b", "2").unwrap();
    db.close().unwrap();
    let db = tiny(1).open(dir.path()).unwrap();
    assert_eq!(db.iter().map(Result::unwrap).count(), 2);
}

/// The path of an open database may lead to another database: the first one must notice it, and
/// stop writing before it names a table.
#[test]
fn a_directory_that_is_moved_stops_the_writer() {
    type Call = fn(&Db) -> Result<()>;
    let by_flush: Call = |db| db.flush();
    let by_creating: Call = |db| db.keyspace("new").map(drop);
    let by_dropping: Call = |db| db.drop_keyspace("edges");
    for call in [by_flush, by_creating, by_dropping] {
        let parent = tempfile::tempdir().unwrap();
        let (dir, moved) = (parent.path().join("db"), parent.path().join("moved"));
        let db = tiny(1).open(&dir).unwrap();
        db.keyspace("edges").unwrap();
        db.put("a", "1").unwrap();
        std::fs::rename(&dir, &moved).unwrap();
        assert_eq!(kind_of(tiny(1).open(&moved)), Some(ErrorKind::Locked));
        let current = std::fs::read(moved.join("CURRENT")).unwrap();
        let refused = kind_of(call(&db));
        assert!(
            matches!(refused, Some(ErrorKind::Locked | ErrorKind::Latched)),
            "{refused:?}"
        );
        assert!(db.put("b", "2").is_err());
        let cause = db.close().unwrap_err();
        assert!(cause.to_string().contains("LOCK"), "{cause}");
        assert_eq!(std::fs::read(moved.join("CURRENT")).unwrap(), current);
        assert!(!dir.exists(), "nothing is made where it was");
        let db = tiny(1).open(&moved).unwrap();
        assert_eq!(db.get("a").unwrap().unwrap(), "1");
        assert!(db.keyspace_exists("edges") && !db.keyspace_exists("new"));
    }
}

/// Programs give some threads small stacks.
#[test]
fn calls_fit_a_stack_of_128_kib() {
    let bytes = 128 << 10;
    let use_it = || {
        let dir = tempfile::tempdir().unwrap();
        for life in 0..3 {
            let db = tiny(life).open(dir.path()).unwrap();
            for number in 0..500 {
                db.put(format!("{number:03}"), [1; 100]).unwrap();
            }
            let mut batch = db.batch();
            batch.delete(db.default_keyspace(), "007");
            batch.commit().unwrap();
            db.settle_debt().unwrap();
            db.compact().unwrap();
            assert_eq!(db.iter().rev().count(), 499);
            assert!(db.get("400").unwrap().is_some());
            assert!(!db.stats().to_string().is_empty());
            match life {
                0 => drop(db),
                _ => db.close().unwrap(),
            }
        }
    };
    let thread = std::thread::Builder::new().stack_size(bytes);
    let done = thread.name(format!("{bytes} bytes of stack")).spawn(use_it);
    done.unwrap().join().unwrap();
}

/// A read of a table that is not open yet looks for it at the old place. If the whole directory is
/// missing there, that is no damage.
#[test]
fn reads_in_a_directory_that_is_moved_name_it_and_do_not_say_damage() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, moved) = (parent.path().join("db"), parent.path().join("moved"));
    let db = tiny(1).open(&dir).unwrap();
    for number in 0..200 {
        db.put(format!("{number:03}"), [1; 100]).unwrap();
    }
    db.settle_debt().unwrap();
    db.close().unwrap();
    let db = tiny(1).open(&dir).unwrap();
    std::fs::rename(&dir, &moved).unwrap();
    let by_iterator = db.iter().find_map(Result::err);
    for error in [db.get("100").unwrap_err(), by_iterator.unwrap()] {
        assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&dir.display().to_string()), "{text}");
        assert!(text.contains("moved or removed"), "{text}");
    }
    std::fs::rename(&moved, &dir).unwrap();
    assert_eq!(db.get("100").unwrap().unwrap(), vec![1; 100]);
}

#[test]
fn strange_paths() {
    let dir = tempfile::tempdir().unwrap();
    in_another_process("relative", dir.path());
    let db = tiny(1).open(dir.path().join("relative/db")).unwrap();
    assert_eq!(db.iter().map(Result::unwrap).count(), 2001);
    drop(db);
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let db = tiny(1).open(&link).unwrap();
    db.put("key", "value").unwrap();
    assert_eq!(kind_of(tiny(1).open(&real)), Some(ErrorKind::Locked));
    db.close().unwrap();
    // Moved while it was closed.
    let moved = dir.path().join("moved");
    std::fs::rename(&real, &moved).unwrap();
    let db = tiny(1).open(&moved).unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), "value");
    drop(db);
    let strange = OsString::from_vec(vec![b'x', 0xff, 0xfe, b' ', b'\n']);
    let strange = dir.path().join(strange);
    for _ in 0..2 {
        let db = tiny(1).open(&strange).unwrap();
        db.put("key", "value").unwrap();
        db.settle_debt().unwrap();
        db.close().unwrap();
    }
    let db = tiny(1).open(&strange).unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), "value");
}

#[test]
fn a_read_only_directory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    tiny(1).open(&path).unwrap().put("key", "value").unwrap();
    let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
    mode(0o555).unwrap();
    let own = path.clone();
    without_privileges(move || {
        std::fs::write(own.join("probe"), "").expect_err("nobody may write here");
        let reader = tiny(1).read_only(true).open(&own).unwrap();
        assert_eq!(reader.get("key").unwrap().unwrap(), "value");
        drop(reader);
        assert_eq!(kind_of(tiny(1).open(&own)), Some(ErrorKind::Io));
    });
    mode(0o755).unwrap();
    let db = tiny(1).open(&path).unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), "value");
}

/// A database on a simulated disk, closed.
fn closed_database() -> SimVfs {
    let vfs = SimVfs::new(1);
    let db = tiny_on(&vfs, Durability::Process, 0).open(DIR).unwrap();
    for number in 0..200 {
        db.put(format!("{number:03}"), [1; 40]).unwrap();
    }
    db.settle_debt().unwrap();
    db.close().unwrap();
    vfs
}

fn open_kind(vfs: &SimVfs) -> Option<ErrorKind> {
    kind_of(tiny_on(vfs, Durability::Process, 0).open(DIR))
}

#[test]
fn a_missing_or_empty_current_is_damage_and_costs_nothing() {
    let vfs = closed_database();
    let current = Path::new(DIR).join("CURRENT");
    vfs.remove_file(&current);
    let before = vfs.file_names(Path::new(DIR));
    assert_eq!(open_kind(&vfs), Some(ErrorKind::Corruption));
    assert_eq!(
        vfs.file_names(Path::new(DIR)),
        before,
        "nothing was removed"
    );
    vfs.write_file(&current, Vec::new());
    assert_eq!(open_kind(&vfs), Some(ErrorKind::Corruption));
}

#[test]
fn a_newer_format_is_told_from_damage() {
    let vfs = closed_database();
    let path = Path::new(DIR).join("CURRENT");
    let mut bytes = vfs.read_file(&path);
    assert_eq!(bytes[8], 1, "the version");
    bytes[8] += 1;
    // The layout may be another one, too.
    bytes.push(0);
    vfs.write_file(&path, bytes);
    assert_eq!(open_kind(&vfs), Some(ErrorKind::Unsupported));
}

#[test]
fn files_of_other_programs_stay() {
    let vfs = SimVfs::new(1);
    let dir = Path::new(DIR);
    let open = || tiny_on(&vfs, Durability::Process, 0).open(DIR).unwrap();
    open().close().unwrap();
    let names = [
        "notes.txt",
        "b.sst",
        "MANIFEST",
        "CURRENT.bak",
        "000001.txt",
    ];
    for name in names {
        vfs.write_file(&dir.join(name), b"foreign".to_vec());
    }
    let db = open();
    for number in 0..500 {
        db.put(format!("{number:03}"), [1; 40]).unwrap();
    }
    db.settle_debt().unwrap();
    db.close().unwrap();
    open().close().unwrap();
    for name in names {
        assert_eq!(vfs.read_file(&dir.join(name)), b"foreign");
    }
}

fn threads_that_cannot_be_started(dir: &Path) {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages = sizes.split(' ').next().unwrap().parse::<u64>().unwrap();
    let used = pages * rustix::param::page_size() as u64;
    let limit = rustix::process::getrlimit(rustix::process::Resource::As);
    let little = rustix::process::Rlimit {
        current: Some(used + STACK_BYTES * 4 / 5),
        maximum: limit.maximum,
    };
    let set = |limit| rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
    let many = || tiny(1).advanced(|advanced| advanced.compaction_threads(4));
    set(little);
    let refused = many().open(dir).err();
    set(limit);
    let refused = refused.expect("no room for a stack");
    assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
    // No thread runs on, and nothing is held.
    assert_eq!(threads(), before);
    let db = many().open(dir).unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), "value");
    db.close().unwrap();
    assert_eq!(threads(), before);
}

#[test]
fn threads_that_cannot_be_started_are_an_error_of_opening() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny(1).open(dir.path()).unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    in_another_process("threads that cannot be started", dir.path());
}

#[test]
fn keys_and_values_at_the_limits() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options::new().memory_budget(4 << 20);
    let db = options().open(dir.path()).unwrap();
    let (longest, larger) = (vec![b'k'; 65_535], vec![b'k'; 65_536]);
    // A quarter of the budget, less the bytes that a record counts beside its own.
    let most = vec![1; (1 << 20) - 64 - 1];
    for key in [&b""[..], &longest] {
        db.put(key, "value").unwrap();
    }
    db.put("v", &most).unwrap();
    db.put("w", "").unwrap();
    assert_eq!(kind_of(db.put(&larger, "")), Some(ErrorKind::KeyTooLarge));
    assert_eq!(kind_of(db.delete(&larger)), Some(ErrorKind::KeyTooLarge));
    let over = [&most[..], &[1]].concat();
    assert_eq!(kind_of(db.put("v", &over)), Some(ErrorKind::ValueTooLarge));
    let mut batch = db.batch();
    batch.put(db.default_keyspace(), "x", "1");
    batch.put(db.default_keyspace(), &larger, "");
    assert_eq!(kind_of(batch.commit()), Some(ErrorKind::KeyTooLarge));
    // A key that no record can have is looked up like any other key.
    assert!(db.get(&larger).unwrap().is_none());
    db.settle_debt().unwrap();
    db.close().unwrap();
    let db = options().open(dir.path()).unwrap();
    assert_eq!(db.iter().map(Result::unwrap).count(), 4);
    assert_eq!(db.get("").unwrap().unwrap(), "value");
    assert_eq!(db.get(&longest).unwrap().unwrap(), "value");
    assert_eq!(db.get("v").unwrap().unwrap(), most);
    assert_eq!(db.get("w").unwrap().unwrap(), "");
}

#[test]
fn odd_ranges_and_iterators_across_a_close() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny(1).open(dir.path()).unwrap();
    for number in 0..300 {
        db.put(format!("{number:03}"), [1; 40]).unwrap();
    }
    let count = |low: &str, high: &str| db.range(low..high).map(Result::unwrap).count();
    assert_eq!(count("200", "100"), 0);
    assert_eq!(count("100", "100"), 0);
    assert_eq!(db.range("100"..="100").count(), 1);
    assert_eq!(db.range::<&[u8]>(..).rev().count(), 300);
    assert_eq!(db.prefix([0xff; 3]).count(), 0);
    assert_eq!(db.prefix("").count(), 300);
    let (mut iter, mut cursor) = (db.iter(), db.cursor::<&str>(..));
    iter.next().unwrap().unwrap();
    db.close().unwrap();
    // The error is an iterator's last item. A cursor returns it from then on.
    assert_eq!(kind_of(iter.next().unwrap()), Some(ErrorKind::Closed));
    assert!(iter.next().is_none() && iter.next_back().is_none());
    assert_eq!(kind_of(cursor.next()), Some(ErrorKind::Closed));
    assert_eq!(kind_of(cursor.next_back()), Some(ErrorKind::Closed));
}

/// Locking would write to its lock file, or make one.
#[test]
fn a_directory_with_the_current_of_another_program_is_left_before_it_is_locked() {
    for (name, bytes) in [("LOCK", ""), ("IDENTITY", "of somebody")] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("CURRENT"), "MANIFEST-000002\n").unwrap();
        std::fs::write(dir.path().join(name), bytes).unwrap();
        let errors = [
            tiny(1).open(dir.path()).map(drop),
            tiny(1).read_only(true).open(dir.path()).map(drop),
            inspect::verify(dir.path(), InspectOptions::new()).map(drop),
            evendb_flsm::destroy(dir.path()),
        ];
        for refused in errors {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
        let mut left: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["CURRENT", name]);
        assert_eq!(
            std::fs::read(dir.path().join(name)).unwrap(),
            bytes.as_bytes()
        );
    }
}

/// Links to a file, to a directory and to nothing, a directory, a pipe: a database makes none of
/// these.
#[test]
fn names_of_ours_that_are_no_files_refuse_each_call_that_would_remove_them() {
    let dir = tempfile::tempdir().unwrap();
    let (path, around) = (dir.path().join("db"), dir.path().join("around"));
    std::fs::create_dir(&around).unwrap();
    std::fs::write(around.join("photo"), "pixels").unwrap();
    tiny(1).open(&path).unwrap().close().unwrap();
    let names_in = |dir: &Path| {
        let told = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry.unwrap();
            let there = entry.metadata().unwrap();
            let kind = (there.file_type(), there.len(), there.permissions());
            (entry.file_name(), format!("{kind:?}"))
        };
        let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(told).collect();
        names.sort();
        names
    };
    let link = |to: &Path, at: &Path| std::os::unix::fs::symlink(to, at).unwrap();
    for name in [
        "TABLE-000777",
        "LOG-000776",
        "MANIFEST-000775",
        "CURRENT.tmp",
    ] {
        let at = path.join(name);
        for number in 0..5 {
            match number {
                0 => link(&around.join("photo"), &at),
                1 => link(&around, &at),
                2 => link(&around.join("nothing"), &at),
                3 => std::fs::create_dir(&at).unwrap(),
                _ => assert!(Command::new("mkfifo").arg(&at).status().unwrap().success()),
            }
            let before = (names_in(&path), names_in(&around));
            // These calls only look, and pass over files that they cannot read.
            let looked = inspect::verify(&path, InspectOptions::new());
            looked.unwrap();
            let each = &mut |_| ControlFlow::Continue(());
            let how = DumpOptions::default();
            inspect::dump(&path, &Dump::Trees, &how, InspectOptions::new(), each).unwrap();
            let opened = tiny(1).open(&path).map(drop);
            for error in [opened, evendb_flsm::destroy(&path)].map(Result::unwrap_err) {
                assert_eq!(error.kind(), ErrorKind::Io, "{name} {number}: {error}");
                assert!(error.to_string().contains(name), "{number}: {error}");
            }
            assert!(
                (names_in(&path), names_in(&around)) == before,
                "{name} {number}"
            );
            match number {
                3 => std::fs::remove_dir(&at).unwrap(),
                _ => std::fs::remove_file(&at).unwrap(),
            }
        }
    }
    let other = dir.path().join("link");
    link(&path, &other);
    let before = names_in(&path);
    let error = evendb_flsm::destroy(&other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(names_in(&path) == before);
    evendb_flsm::destroy(&path).unwrap();
    assert!(!path.exists());
}
