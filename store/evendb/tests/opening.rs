//! Which processes may open which database where, and the errors for those that may not: read-only
//! openings, second openers, directories that were moved or copied, and the texts of errors.

mod common;

use common::damage::inspect_options;
use common::oracle::contents;
use common::{DIR, on_sim, tiny};
use evendb::inspect::verify;
use evendb::vfs::{CrashMode, Fault, FaultKind, FaultOn, SimVfs};
use evendb::{Db, Durability, Error, ErrorKind, Options};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const HOLD_VARIABLE: &str = "EVENDB_HOLD_DIR";

fn small() -> Options {
    tiny(Durability::Process, 1)
}

fn fill(db: &Db) {
    for number in (0..500).map(|number| number * 7_919 % 500) {
        db.put(format!("{number:04}"), vec![1; 50]).expect("puts");
    }
    db.settle_debt().expect("settles");
    for number in 500..600 {
        db.put(format!("{number:04}"), vec![2; 50]).expect("puts");
    }
}

fn refused(options: Options, dir: &Path) -> Error {
    options.open(dir).expect_err("it is refused")
}

/// Every error says what happened; these also say where, and what to do.
fn says(error: &Error, kind: ErrorKind, parts: &[&str]) {
    assert_eq!(error.kind(), kind, "{error:?}");
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

/// Not a test of its own: a process that holds a database until its input ends.
#[test]
fn holding_process() {
    let Ok(dir) = std::env::var(HOLD_VARIABLE) else {
        return;
    };
    let db = small().open(dir).expect("opens");
    println!("\nopen");
    let _ = std::io::stdin().read_line(&mut String::new());
    drop(db);
}

#[test]
fn a_second_opener_is_told_who_the_first_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().display().to_string();
    let db = small().open(dir.path()).expect("opens");
    let own = std::process::id().to_string();
    let error = refused(small(), dir.path());
    says(&error, ErrorKind::Locked, &[&path, &own, "in this process"]);
    let error = refused(small().read_only(true), dir.path());
    says(&error, ErrorKind::Locked, &[&path, &own]);
    db.close().expect("closes");

    let reader = small().read_only(true).open(dir.path()).expect("opens");
    let error = refused(small(), dir.path());
    says(&error, ErrorKind::Locked, &[&path, "for reading"]);
    assert!(!error.to_string().contains(&own), "{error}");
    drop(reader);

    let mut child = Command::new(std::env::current_exe().expect("the test binary"))
        .args(["holding_process", "--exact", "--nocapture"])
        .env(HOLD_VARIABLE, dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    while lines.next().expect("it opens").expect("reads") != "open" {}
    let holder = format!("in process {}", child.id());
    says(
        &refused(small(), dir.path()),
        ErrorKind::Locked,
        &[&path, &holder],
    );
    // The killed process leaves its number in the file; that must not mislead anybody.
    child.kill().expect("it runs");
    child.wait().expect("it was started");
    let left = std::fs::read_to_string(dir.path().join("LOCK")).expect("reads");
    assert_eq!(left.trim(), child.id().to_string());
    let reader = small().read_only(true).open(dir.path()).expect("opens");
    let error = refused(small(), dir.path());
    says(&error, ErrorKind::Locked, &["for reading"]);
    assert!(!error.to_string().contains(left.trim()), "{error}");
    drop(reader);
    let db = small().open(dir.path()).expect("opens after a kill");
    // As in a container, where the holder's number means nothing.
    let mut file = std::fs::File::create(dir.path().join("LOCK")).expect("opens");
    file.write_all(b"4194999\n").expect("writes");
    let error = refused(small(), dir.path());
    says(
        &error,
        ErrorKind::Locked,
        &["4194999", "cannot be seen from here"],
    );
    db.close().expect("closes");
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("creates");
    for entry in std::fs::read_dir(from).expect("lists") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, to.join(path.file_name().expect("a file"))).expect("copies");
    }
}

#[test]
fn moved_renamed_and_copied_directories_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let (first, second) = (dir.path().join("first"), dir.path().join("a/b/second"));
    let db = small().open(&first).expect("opens");
    fill(&db);
    let all = contents(&db, "default").expect("reads");
    // In the middle of its life, as a crash would leave it.
    let copied = dir.path().join("copied");
    copy_dir(&first, &copied);
    db.close().expect("closes");
    std::fs::create_dir_all(second.parent().expect("has one")).expect("creates");
    std::fs::rename(&first, &second).expect("moves");
    for place in [&second, &copied] {
        let reader = small().read_only(true).open(place).expect("opens");
        assert_eq!(contents(&reader, "default").expect("reads"), all);
        drop(reader);
        let db = small().open(place).expect("opens");
        assert_eq!(contents(&db, "default").expect("reads"), all);
        fill(&db);
        db.close().expect("closes");
    }
    // No file contains a path.
    for entry in std::fs::read_dir(&second).expect("lists") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("reads");
        let needle = dir.path().as_os_str().as_encoded_bytes();
        let found = bytes.windows(needle.len()).any(|window| window == needle);
        assert!(!found, "a path is stored");
    }
    // By a relative path too.
    assert!(small().open("relative/../relative").is_ok());
    std::fs::remove_dir_all("relative").expect("removes");
}

/// Moved while open: files that are opened later are looked for at the old place. The error says
/// where, the next checkpoint notices and stops all writes, and nothing is lost.
#[test]
fn a_directory_moved_while_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let db = tiny(Durability::Process, 0).open(&first).expect("opens");
    fill(&db);
    std::fs::rename(&first, &second).expect("moves");
    let error = db.flush().expect_err("the lock's name is gone");
    says(
        &error,
        ErrorKind::Locked,
        &[&first.display().to_string(), "LOCK"],
    );
    assert_eq!(
        db.put("a", "b").expect_err("latched").kind(),
        ErrorKind::Latched
    );
    assert!(db.close().is_err());
    let db = small().open(&second).expect("opens");
    assert_eq!(db.iter().count(), 600);
}

/// Programs give some threads small stacks. Without threads of the database all work is done in the
/// calls, on that stack.
#[test]
fn calls_fit_a_stack_of_128_kib() {
    let bytes = 128 << 10;
    let use_it = |workers: usize, level: Durability| {
        let dir = tempfile::tempdir().expect("a directory");
        for life in 0..3 {
            let db = tiny(level, workers).open(dir.path()).expect("opens");
            fill(&db);
            let mut batch = db.batch();
            batch.put(db.default_keyspace(), "batch", [1; 100]);
            batch.delete_range(db.default_keyspace(), "0100".."0200");
            batch.commit().expect("commits");
            let mut transaction = db.transaction().expect("begins");
            assert!(
                transaction
                    .contains_key(db.default_keyspace(), "0300")
                    .expect("reads")
            );
            let put = transaction.put(db.default_keyspace(), "0300", [life; 50]);
            put.expect("puts");
            transaction.commit().expect("commits");
            assert_eq!(db.iter().rev().count(), 501);
            assert!(db.get("0400").expect("reads").is_some());
            db.compact().expect("compacts");
            assert!(!db.stats().to_string().is_empty());
            match life {
                0 => drop(db),
                _ => db.close().expect("closes"),
            }
        }
    };
    for (workers, level) in [
        (0, Durability::Relaxed),
        (0, Durability::Process),
        (2, Durability::Process),
    ] {
        let thread = std::thread::Builder::new().stack_size(bytes);
        let thread = thread.name(format!("{bytes} bytes of stack, {workers} workers"));
        let done = thread.spawn(move || use_it(workers, level));
        done.expect("starts").join().expect("no panic");
    }
}

/// A table that is not open yet is looked for at the old place. It is no damage that the whole
/// directory is not there.
#[test]
fn reads_in_a_directory_moved_while_open_name_it_and_do_not_say_damage() {
    let dir = tempfile::tempdir().expect("a directory");
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let options = || {
        tiny(Durability::Process, 0).advanced(|advanced| advanced.values_apart_from(Some(1 << 10)))
    };
    let db = options().open(&first).expect("opens");
    fill(&db);
    db.put("large", vec![3; 4 << 10]).expect("puts");
    db.close().expect("closes");
    let db = options().open(&first).expect("opens");
    std::fs::rename(&first, &second).expect("moves");
    let name = first.display().to_string();
    for key in ["0000", "large"] {
        let error = db.get(key).expect_err("its file is not found");
        says(&error, ErrorKind::Io, &[&name, "moved or removed"]);
        let mut cause: &dyn std::error::Error = &error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let system = cause.downcast_ref::<std::io::Error>().expect("says why");
        assert_eq!(system.kind(), std::io::ErrorKind::NotFound);
    }
    let error = db.iter().find_map(Result::err).expect("finds no table");
    says(&error, ErrorKind::Io, &[&name]);
    // A single missing file is damage, as usual.
    std::fs::rename(&second, &first).expect("moves back");
    assert_eq!(
        db.get("large").expect("reads").map(|value| value.len()),
        Some(4 << 10)
    );
    for entry in std::fs::read_dir(&first).expect("lists") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ending| ending == "sst") {
            std::fs::remove_file(path).expect("removes");
        }
    }
    let error = db.get("0000").expect_err("its file is missing");
    says(&error, ErrorKind::Corruption, &["missing"]);
}

#[test]
fn reading_a_directory_in_which_nothing_can_be_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("db");
    let db = small().open(&path).expect("opens");
    fill(&db);
    let copy = dir.path().join("copy");
    db.copy_to(&copy).expect("copies");
    db.close().expect("closes");
    for place in [&path, &copy] {
        for with_lock in [true, false] {
            if !with_lock {
                std::fs::remove_file(place.join("LOCK")).expect("removes");
            }
            let set_mode = |mode| {
                let mode = std::fs::Permissions::from_mode(mode);
                std::fs::set_permissions(place, mode).expect("sets");
            };
            set_mode(0o555);
            let reader = small().read_only(true).open(place).expect("opens");
            let second = small().read_only(true).open(place).expect("beside it");
            assert_eq!(reader.iter().count(), 600);
            assert_eq!(second.iter().rev().count(), 600);
            let error = reader.put("a", "b").expect_err("a reader");
            let place = place.display().to_string();
            says(&error, ErrorKind::ReadOnly, &[&place, "read_only"]);
            set_mode(0o755);
        }
    }
}

/// In a closed directory of a writer, each reader sees the same as the others, and the commit log
/// of a crash is replayed only in memory.
#[test]
fn readers_after_a_crash() {
    let vfs = SimVfs::new(1);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    fill(&db);
    let vfs = vfs.crash(CrashMode::Process);
    let before = vfs.op_count();
    let readers: Vec<Db> = (0..3)
        .map(|_| {
            let options = on_sim(&vfs, Durability::Process, 0);
            options.read_only(true).open(DIR).expect("opens")
        })
        .collect();
    for reader in &readers {
        assert_eq!(reader.iter().count(), 600);
    }
    drop(readers);
    assert_eq!(vfs.op_count(), before, "a reader changed something");
}

/// A database is not made among foreign files, and an attempt leaves nothing there.
#[test]
fn no_database_is_created_among_foreign_files() {
    let foreign = ["notes.txt", "a.sst", "MANIFEST-old", "data"];
    let tolerated = [
        ".DS_Store",
        ".Trash-1000",
        "lost+found",
        // Files of a creation that was cut short.
        "LOCK",
        "CURRENT.tmp",
        "MANIFEST-000001",
        "CHUNK-LOGS",
        "COMMIT-LOG",
        "BALLAST",
        "STATS",
    ];
    let dir = tempfile::tempdir().expect("a directory");
    let list = |place: &Path| -> BTreeSet<String> {
        let entries = std::fs::read_dir(place).expect("lists");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().into_string().ok()
        };
        entries.filter_map(name).collect()
    };
    for (number, name) in foreign.iter().enumerate() {
        let place = dir.path().join(number.to_string());
        std::fs::create_dir(&place).expect("creates");
        std::fs::write(place.join(name), "").expect("writes");
        let text = place.display().to_string();
        let error = refused(small(), &place);
        says(
            &error,
            ErrorKind::AlreadyExists,
            &[&text, name, "empty or not there"],
        );
        let error = refused(small().read_only(true), &place);
        says(&error, ErrorKind::NotFound, &["no database"]);
        let error = refused(small().create_if_missing(false), &place);
        says(&error, ErrorKind::NotFound, &["no database"]);
        assert_eq!(list(&place), BTreeSet::from([(*name).to_owned()]));
    }
    let place = dir.path().join("many");
    std::fs::create_dir(&place).expect("creates");
    for number in 0..5 {
        std::fs::write(place.join(number.to_string()), "").expect("writes");
    }
    let error = refused(small(), &place);
    says(
        &error,
        ErrorKind::AlreadyExists,
        &["\"0\", \"1\", \"2\" and 2 more"],
    );

    let place = dir.path().join("tolerated");
    std::fs::create_dir_all(place.join("lost+found")).expect("creates");
    for name in tolerated {
        if name != "lost+found" {
            std::fs::write(place.join(name), "").expect("writes");
        }
    }
    let db = small().open(&place).expect("it is created");
    db.put("a", "1").expect("puts");
    // Files that the user adds later are allowed.
    std::fs::write(place.join("notes.txt"), "").expect("writes");
    db.close().expect("closes");
    assert!(small().open(&place).is_ok());
}

/// Records that a crash leaves in the commit log replace each other if a key was put again. Only
/// those that stay are charged: otherwise puts would wait for room that never comes.
#[test]
fn what_is_replayed_is_charged_as_what_stays() {
    let options = |vfs: &SimVfs| {
        let options = on_sim(vfs, Durability::Process, 0).memory_budget(8 << 20);
        options.advanced(|advanced| advanced.commit_log_bytes(4 << 20))
    };
    let vfs = SimVfs::new(1);
    let db = options(&vfs).open(DIR).expect("opens");
    for number in 0..30_u8 {
        db.put("long, then short", vec![number; 30_000])
            .expect("puts");
        db.put("long, then short", [number]).expect("puts");
        db.put("long, then gone", vec![number; 30_000])
            .expect("puts");
        db.delete("long, then gone").expect("deletes");
    }
    assert_eq!(db.stats().checkpoints, 0, "all is in the log");
    let vfs = vfs.crash(CrashMode::Process);
    let db = options(&vfs).open(DIR).expect("opens");
    let charged = db.stats().memory.deltas;
    assert!(charged > 0 && charged < 10_000, "{charged} bytes");
    assert_eq!(
        db.get("long, then short").expect("gets").as_deref(),
        Some(&[29][..])
    );
    assert_eq!(db.iter().count(), 1);
}

/// A database whose `CURRENT` is gone is damaged, for every caller and wherever its data lies.
#[test]
fn a_database_without_current_is_damaged() {
    for flushed in [false, true] {
        for id in [1, 2] {
            let vfs = SimVfs::new(1);
            let db = on_sim(&vfs, Durability::Process, 0)
                .open(DIR)
                .expect("opens");
            db.put("a", "1").expect("puts");
            if flushed {
                db.flush().expect("flushes");
            }
            let vfs = vfs.crash(CrashMode::Process);
            let path = |name: &str| Path::new(DIR).join(name);
            vfs.remove_file(&path("CURRENT"));
            if id == 2 {
                // Only the manifest's number shows that there was a database.
                vfs.remove_file(&path("COMMIT-LOG"));
                vfs.remove_file(&path("CHUNK-LOGS"));
                let manifest = vfs.read_file(&path("MANIFEST-000001"));
                vfs.remove_file(&path("MANIFEST-000001"));
                vfs.write_file(&path("MANIFEST-000002"), manifest);
            }
            let before = vfs.file_names(Path::new(DIR));
            let options = || on_sim(&vfs, Durability::Process, 0);
            for options in [
                options(),
                options().create_if_missing(false),
                options().read_only(true),
            ] {
                says(
                    &refused(options, Path::new(DIR)),
                    ErrorKind::Corruption,
                    &["/db/CURRENT", "CURRENT is missing"],
                );
            }
            assert_eq!(vfs.file_names(Path::new(DIR)), before);
        }
    }
}

/// A file that opening needs is missing: that is damage, and the file is named.
#[test]
fn missing_files_are_damage() {
    for name in ["COMMIT-LOG", "CHUNK-LOGS", "MANIFEST-000001"] {
        let vfs = SimVfs::new(1);
        let db = on_sim(&vfs, Durability::Process, 0)
            .open(DIR)
            .expect("opens");
        fill(&db);
        db.close().expect("closes");
        vfs.remove_file(&Path::new(DIR).join(name));
        for read_only in [false, true] {
            let options = on_sim(&vfs, Durability::Process, 0).read_only(read_only);
            let error = refused(options, Path::new(DIR));
            says(&error, ErrorKind::Corruption, &[name, "missing"]);
        }
    }
    let vfs = SimVfs::new(1);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    fill(&db);
    db.close().expect("closes");
    let names = vfs.file_names(Path::new(DIR));
    let table = names.iter().find(|name| name.ends_with(".sst"));
    let table = table.expect("there is a table");
    vfs.remove_file(&Path::new(DIR).join(table));
    let options = on_sim(&vfs, Durability::Process, 0).read_only(true);
    let db = options.open(DIR).expect("no table is read by opening");
    let error = db.iter().find_map(Result::err).expect("it is missing");
    says(&error, ErrorKind::Corruption, &[table, "missing"]);
}

/// Whatever moment of a database's creation a crash hits, `verify` and a reader find no database or
/// an empty one, and change nothing.
#[test]
fn readers_of_a_creation_cut_short() {
    let mut outcomes = BTreeSet::new();
    for level in [Durability::Relaxed, Durability::Process] {
        for op in 1.. {
            let vfs = SimVfs::new(1);
            vfs.set_crash_at(op);
            let created = on_sim(&vfs, level, 0).open(DIR);
            if !vfs.crashed() {
                break;
            }
            drop(created);
            let vfs = vfs.crash(CrashMode::Process);
            let before = vfs.op_count();
            let verified = verify(DIR, inspect_options(&vfs));
            match on_sim(&vfs, level, 0).read_only(true).open(DIR) {
                Ok(db) => {
                    assert!(verified.expect("verifies").is_sound(), "{op}");
                    assert_eq!(db.iter().count(), 0);
                    assert_eq!(db.keyspace_names(), ["default"]);
                    let error = db.put("a", "1").expect_err("a reader");
                    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
                    outcomes.insert("empty");
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NotFound, "{op}: {error}");
                    let report = verified.map(|report| report.findings);
                    let error = report.expect_err("there is nothing to verify");
                    assert_eq!(error.kind(), ErrorKind::NotFound, "{op}: {error}");
                    outcomes.insert("none");
                }
            }
            // The lock's file is made if it is missing, and nothing else.
            assert!(vfs.op_count() <= before + 1, "{op}: a reader wrote");
            on_sim(&vfs, level, 0).open(DIR).expect("a writer goes on");
        }
    }
    assert_eq!(outcomes, BTreeSet::from(["empty", "none"]));
}

/// A reader with little memory replays the commit log of a writer that had much: the reader can run
/// no checkpoint, so it takes the memory.
#[test]
fn a_reader_with_less_memory_than_it_must_replay() {
    let dir = tempfile::tempdir().expect("a directory");
    let writer = || Options::new().memory_budget(64 << 20).workers(0);
    let db = writer().open(dir.path()).expect("opens");
    let value = vec![7; 1 << 10];
    for number in 0..6_000 {
        db.put(format!("{number:05}"), &value).expect("puts");
    }
    let copied = tempfile::tempdir().expect("a directory");
    // As a crash would leave it.
    copy_dir(dir.path(), copied.path());
    let options = Options::new().memory_budget(1 << 20).read_only(true);
    let reader = options.open(copied.path()).expect("opens");
    assert_eq!(reader.iter().count(), 6_000);
    assert_eq!(
        *reader.get("05999").expect("gets").expect("is there"),
        value
    );
    let held = reader.stats().memory.deltas;
    assert!(held > 1 << 20, "{held} bytes: replayed from the log");
}

#[test]
fn texts_of_errors() {
    let vfs = SimVfs::new(1);
    let options = || on_sim(&vfs, Durability::Process, 0);
    let error = options()
        .create_if_missing(false)
        .open(DIR)
        .expect_err("none");
    says(
        &error,
        ErrorKind::NotFound,
        &["no database in /db", "create_if_missing"],
    );
    let error = options().read_only(true).open(DIR).expect_err("none");
    says(&error, ErrorKind::NotFound, &["/db", "read-only"]);
    let db = options().open(DIR).expect("opens");
    fill(&db);
    let error = options()
        .error_if_exists(true)
        .open(DIR)
        .expect_err("is there");
    says(
        &error,
        ErrorKind::AlreadyExists,
        &["/db", "another directory"],
    );

    vfs.set_capacity(0);
    let full = (0..100_000).find_map(|number| db.put(format!("n{number}"), [0; 90]).err());
    let error = full.expect("it is full at last");
    says(
        &error,
        ErrorKind::NoSpace,
        &[
            "/db/",
            "nothing of the operation took effect",
            "delete keys",
        ],
    );
    vfs.set_capacity(u64::MAX);
    db.put("room", "again").expect("puts");

    vfs.inject(Fault {
        at: 0,
        on: FaultOn::Sync,
        kind: FaultKind::Eio,
        sticky: false,
        path_contains: Some("COMMIT-LOG".into()),
    });
    let cause = db.persist().expect_err("the sync fails");
    says(
        &cause,
        ErrorKind::Io,
        &["sync the commit log", "/db/COMMIT-LOG"],
    );
    let latched = db.put("a", "b").expect_err("latched");
    let parts = [
        "stopped all writes",
        "/db/COMMIT-LOG",
        "reopen the database after fixing",
    ];
    says(&latched, ErrorKind::Latched, &parts);
    let source = std::error::Error::source(&latched).expect("the cause");
    assert_eq!(source.to_string(), cause.to_string());
    let error = db.copy_to("/copy").expect_err("latched");
    assert_eq!(error.kind(), ErrorKind::Latched);
    let other = db.clone();
    says(
        &db.close().expect_err("tells"),
        ErrorKind::Latched,
        &["/db/COMMIT-LOG"],
    );
    says(
        &other.put("a", "b").expect_err("closed"),
        ErrorKind::Closed,
        &["open it again"],
    );

    let table = vfs
        .file_names(Path::new(DIR))
        .into_iter()
        .find(|name| name.ends_with(".sst"))
        .expect("there is a table");
    let path = Path::new(DIR).join(&table);
    let mut bytes = vfs.read_file(&path);
    bytes[10] ^= 1;
    vfs.write_file(&path, bytes);
    let db = options().open(DIR).expect("opens");
    let error = db.iter().find_map(Result::err).expect("it is damaged");
    says(
        &error,
        ErrorKind::Corruption,
        &[&table, "at byte", "restore from a copy"],
    );
    drop(db);

    let current = Path::new(DIR).join("CURRENT");
    let mut bytes = vfs.read_file(&current);
    bytes[7] = b'9';
    vfs.write_file(&current, bytes);
    let error = options().open(DIR).expect_err("another version");
    says(&error, ErrorKind::Unsupported, &["CURRENT", "version"]);
}

/// A database whose gets read the disk.
fn without_caches(vfs: &SimVfs) -> Db {
    let options = Options::new().vfs(Arc::new(vfs.clone())).workers(0);
    let options = options.memory_budget(16 << 20);
    let options = options.advanced(|advanced| advanced.munks(false).row_cache(false));
    options.open("/db").expect("opens")
}

fn key_of(number: u32) -> String {
    format!("{number:06}")
}

/// A chunk with a base and a log of three runs: records of 500 bytes make keyed runs of 100
/// records, and smaller records make runs that have a filter. Every tenth key is deleted by the
/// last run.
fn with_a_log(vfs: &SimVfs, value_bytes: usize, records: u32) -> Db {
    let db = without_caches(vfs);
    for number in 0..20 * records {
        db.put(key_of(number), vec![0; value_bytes]).expect("puts");
    }
    db.compact().expect("compacts");
    for round in 1..=3 {
        for number in (round..20 * records).step_by(20) {
            db.put(key_of(number), vec![round as u8; value_bytes])
                .expect("puts");
        }
        if round == 3 {
            for number in (0..20 * records).step_by(200) {
                db.delete(key_of(number)).expect("deletes");
            }
        }
        db.flush().expect("flushes");
    }
    db
}

/// Once, the first get in a chunk after an opening read all of the chunk's log, for the log's
/// index. With 16 GiB of data, 2 GiB of logs were read in the first six seconds, in which gets did
/// a hundredth of their rate.
#[test]
fn gets_after_an_opening_ask_the_runs_of_a_log_and_do_not_read_the_log() {
    for (value_bytes, records) in [(500, 100), (100, 1000)] {
        let vfs = SimVfs::new(1);
        let db = with_a_log(&vfs, value_bytes, records);
        db.close().expect("closes");
        let db = without_caches(&vfs);
        assert!(db.stats().log_runs >= 3, "{}", db.stats().log_runs);
        let gets = 20 * records;
        for number in 0..gets {
            let found = db.get(key_of(number)).expect("gets");
            let expected = match number {
                number if number % 200 == 0 => None,
                number if (1..=3).contains(&(number % 20)) => Some((number % 20) as u8),
                _ => Some(0),
            };
            let expected = expected.map(|byte| vec![byte; value_bytes]);
            assert_eq!(found.as_deref(), expected.as_deref(), "record {number}");
        }
        let stats = db.stats();
        assert_eq!(stats.memory.log_indexes, 0, "the logs were read");
        // A filter is wrong once in 300 questions; there are three runs.
        let reads = stats.block_reads as f64 / f64::from(gets);
        assert!(reads < 1.03, "{reads} blocks a get of {value_bytes} bytes");
    }
}

/// Sixteen threads open one path at which nothing is. One of them makes the database; what the
/// others see of it while it is made is no directory of somebody else's.
#[test]
fn many_openings_of_a_new_path_at_once() {
    for _ in 0..25 {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("new");
        let begin = std::sync::Barrier::new(16);
        let open = || {
            begin.wait();
            let at_once = |all: evendb::Advanced| all.wait_for_lock(Duration::ZERO);
            small().advanced(at_once).open(&path)
        };
        let opened = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(open)).collect();
            let opened = threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"));
            opened.collect::<Vec<_>>()
        });
        let mut databases = 0;
        for opened in &opened {
            match opened {
                Ok(_) => databases += 1,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Locked, "{error}"),
            }
        }
        assert_eq!(databases, 1);
    }
}
