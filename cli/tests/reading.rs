//! Subcommands that only read: on media that cannot be written, as another user, several at once,
//! and beside a writer.
//!
//! A read-only medium is a read-only bind mount in a mount namespace of its own (`unshare`).
//! Another user is `nobody` (`setpriv`), which takes root. A way that is not possible is listed as
//! skipped, and the test goes on with the other ways. In each way the directory's own permission to
//! write is taken away, too.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

#[path = "../../store/evendb/tests/common/skipped.rs"]
mod skipped;

use evendb::{Db, Options};
use skipped::skipped;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const EVENDB: &str = env!("CARGO_BIN_EXE_evendb");

/// Each subcommand that only reads, with text that it must print.
const READERS: &[(&str, &str)] = &[
    ("get DB key00007", "value 7"),
    ("scan DB --count", "320"),
    ("scan DB --reverse --limit 1", "key00319"),
    ("size DB", "about 320 records"),
    ("keyspaces DB", "about 320 records"),
    ("changes DB --output json", ""),
    ("changes DB --position", "01"),
    ("stats DB", "keyspaces: default"),
    ("verify-import DB in.tsv", "320 keys"),
    ("verify DB", "sound"),
    ("dump DB manifest", "epoch"),
    ("dump DB commit-log", "commit-log"),
];

/// A directory with `in.tsv`, with `db`, which was closed well, and with `killed`, whose owner
/// died. Some of the killed one's records are in tables, some in runs, some in the commit log
/// alone, one in a file of its own.
struct Place(tempfile::TempDir);

fn options() -> Options {
    Options::new().memory_budget(2 << 20).workers(0)
}

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        // Everybody may pass through.
        fs::set_permissions(place.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut lines = String::new();
        let first = place.path("first");
        let db = options().open(&first).unwrap();
        let mut put = |numbers: std::ops::Range<u32>| {
            for number in numbers {
                let (key, value) = (format!("key{number:05}"), format!("value {number}"));
                db.put(&key, &value).unwrap();
                writeln!(lines, "{key}\t{value}").unwrap();
            }
        };
        put(0..200);
        db.flush().unwrap();
        put(200..300);
        db.compact().unwrap();
        put(300..310);
        db.flush().unwrap();
        put(310..319);
        let large = "x".repeat(300 << 10);
        db.put("key00319", &large).unwrap();
        writeln!(lines, "key00319\t{large}").unwrap();
        copy(&first, &place.path("killed"));
        db.close().unwrap();
        copy(&first, &place.path("db"));
        fs::write(place.path("in.tsv"), lines).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// Name, inode, size, times and mode of everything in a directory, and of itself.
fn traces(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut all: Vec<String> = entries
        .chain([dir.to_owned()])
        .map(|path| {
            let data = fs::metadata(&path).unwrap();
            let times = (
                data.mtime(),
                data.mtime_nsec(),
                data.ctime(),
                data.ctime_nsec(),
            );
            let place = path.display();
            format!(
                "{place} {} {} {} {times:?} {:o}",
                data.ino(),
                data.len(),
                data.blocks(),
                data.mode()
            )
        })
        .collect();
    all.sort();
    all
}

fn arguments(line: &str, db: &str) -> Vec<String> {
    line.split(' ').map(|word| word.replace("DB", db)).collect()
}

#[track_caller]
fn check(what: &str, output: &Output, expected: &str) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains(expected),
        "{what}: {:?} {}\n{:.300}",
        output.status.code(),
        String::from_utf8_lossy(&output.stderr),
        text
    );
}

/// How the readers are run: a prefix of the command line.
struct Way {
    name: &'static str,
    prefix: Vec<String>,
    lock_missing: bool,
}

/// Every way that is possible here. Prints which ways are not.
fn ways(place: &Place) -> Vec<Way> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let dir = place.0.path().display().to_string();
    let mount = format!("mount --bind {dir} {dir} && mount -o remount,ro,bind {dir} && cd {dir}");
    let script = format!("{mount} && ! touch {dir}/db/probe 2>/dev/null && exec \"$@\"");
    // A user who is not root may mount in a user namespace of their own, on nearly all systems.
    let mounted = |unshare| {
        [
            words(unshare),
            words("sh -c"),
            vec![script.clone(), "sh".to_owned()],
        ]
        .concat()
    };
    let mounts = [
        mounted("unshare -m"),
        mounted("unshare -m --user --map-root-user"),
    ];
    let nobody = words("setpriv --reuid=65534 --regid=65534 --clear-groups");
    let mut ways = vec![Way {
        name: "as the owner",
        prefix: Vec::new(),
        lock_missing: false,
    }];
    let can_be_had = |prefix: &&Vec<String>| {
        let probe = Command::new(&prefix[0])
            .args(&prefix[1..])
            .arg("true")
            .output();
        probe.is_ok_and(|probe| probe.status.success())
    };
    for (name, prefixes) in [
        ("on a read-only mount", &mounts[..]),
        ("as nobody", &[nobody][..]),
    ] {
        let Some(prefix) = prefixes.iter().find(can_be_had) else {
            let what = format!("readers {name}");
            skipped(
                &what,
                "it takes root, with unshare and setpriv of util-linux",
            );
            continue;
        };
        for lock_missing in [false, true] {
            ways.push(Way {
                name,
                prefix: prefix.clone(),
                lock_missing,
            });
        }
    }
    ways
}

#[test]
fn readers_need_no_permission_to_write_and_write_nothing() {
    let place = Place::new();
    let program = place.path("evendb");
    fs::copy(EVENDB, &program).unwrap();
    for way in ways(&place) {
        let command_line: Vec<String> = way
            .prefix
            .iter()
            .cloned()
            .chain([program.display().to_string()])
            .collect();
        for db in ["db", "killed"] {
            if way.lock_missing {
                let _ = fs::remove_file(place.path(db).join("LOCK"));
            }
            let mode = |mode| fs::set_permissions(place.path(db), fs::Permissions::from_mode(mode));
            mode(0o555).unwrap();
            let before = traces(&place.path(db));
            for (line, expected) in READERS {
                let mut command = Command::new(&command_line[0]);
                command.current_dir(place.0.path()).args(&command_line[1..]);
                let output = command.args(arguments(line, db)).output().unwrap();
                let what = format!(
                    "{}, lock missing: {}: {line} of {db}",
                    way.name, way.lock_missing
                );
                check(&what, &output, expected);
                assert_eq!(traces(&place.path(db)), before, "{what} changed something");
            }
            mode(0o755).unwrap();
        }
    }
}

#[test]
fn many_readers_at_once() {
    let place = Place::new();
    // A reader that stays: it waits for its output to be read.
    let holder = options()
        .read_only(true)
        .open(place.path("killed"))
        .unwrap();
    let mut children = Vec::new();
    for round in 0..3 {
        for (line, expected) in READERS {
            let mut command = Command::new(EVENDB);
            command
                .current_dir(place.0.path())
                .args(arguments(line, "killed"));
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            children.push((round, line, expected, command.spawn().unwrap()));
        }
    }
    for (round, line, expected, child) in children {
        let output = child.wait_with_output().unwrap();
        check(&format!("{line}, round {round}"), &output, expected);
    }
    // Writers are told why they must wait.
    for line in [
        "put DB a 1",
        "delete DB a",
        "import DB in.tsv",
        "compact DB",
    ] {
        let told = refused(&place, line, "killed");
        assert!(
            told.contains("is open for reading elsewhere"),
            "{line}: {told}"
        );
        assert!(
            told.contains("One process at a time writes"),
            "{line}: {told}"
        );
    }
    drop(holder);
}

/// Runs a subcommand that must be refused. Returns what it prints.
fn refused(place: &Place, line: &str, db: &str) -> String {
    let mut command = Command::new(EVENDB);
    command
        .current_dir(place.0.path())
        .args(arguments(line, db));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{line}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn beside_a_writer_readers_are_told_what_works() {
    let place = Place::new();
    let writer: Db = Options::new()
        .memory_budget(4 << 20)
        .open(place.path("db"))
        .unwrap();
    let id = format!("in process {}", std::process::id());
    for (line, _) in READERS {
        if line.starts_with("stats") {
            continue;
        }
        let told = refused(&place, line, "db");
        for words in [&id, "`evendb stats db --watch`", "Db::copy_to"] {
            assert!(told.contains(words), "{line}: {words} in {told}");
        }
    }
    for line in [
        "put DB a 1",
        "delete DB a",
        "import DB in.tsv",
        "compact DB",
    ] {
        let told = refused(&place, line, "db");
        assert!(told.contains(&id), "{line}: {told}");
        assert!(
            told.contains("One process at a time writes"),
            "{line}: {told}"
        );
    }
    // The offered way works.
    let mut stats = Command::new(EVENDB);
    stats
        .arg("stats")
        .arg(place.path("db"))
        .args(["--watch", "--count", "1"]);
    while evendb::LiveStats::read(place.path("db")).unwrap().is_none() {
        std::thread::yield_now();
    }
    check("stats --watch", &stats.output().unwrap(), "puts/s");
    writer.copy_to(place.path("copy")).unwrap();
    let mut scan = Command::new(EVENDB);
    scan.arg("scan").arg(place.path("copy")).arg("--count");
    check("the copy", &scan.output().unwrap(), "320");
    writer.close().unwrap();
}
