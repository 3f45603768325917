//! What is not ours is left alone: all commands, with links, pipes, directories and foreign files wherever they would read,
//! write or remove, and the world around before and after.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use common::{Outcome, Place, evendb};
use rustix::fs::{CWD, Mode};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Ends a command that waits for something, which none does.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the command in the place's directory; it is killed, and the test fails, if it does not end.
fn run(place: &Place, arguments: &[&str]) -> Outcome {
    let mut command = evendb();
    command.args(arguments).current_dir(place.0.path());
    ended(command, arguments)
}

fn ended(mut command: Command, arguments: &[&str]) -> Outcome {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    // What is printed here is shorter than a pipe.
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("{arguments:?} waits for something");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Outcome::of(child.wait_with_output().unwrap())
}

/// Of a longer file (a commit log, which is mostly holes) its length, room and time are compared.
const READ_MAX: u64 = 1 << 20;

/// What lies below a directory: each name with its kind, mode, and bytes or the place that a link leads to.
fn world(dir: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut all = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        let there = path.symlink_metadata().unwrap();
        let kind = there.file_type();
        let bytes = if kind.is_symlink() {
            fs::read_link(&path)
                .unwrap()
                .into_os_string()
                .into_encoded_bytes()
        } else if kind.is_file() && there.len() > READ_MAX {
            format!(
                "{} {} {:?}",
                there.len(),
                there.blocks(),
                there.modified().unwrap()
            )
            .into_bytes()
        } else if kind.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        if kind.is_dir() {
            left.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
        all.push((path, there.permissions().mode(), bytes));
    }
    all.sort();
    all
}

/// What lies where a file of ours is expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Planted {
    LinkToFile,
    LinkToDirectory,
    Dangling,
    Pipe,
    Directory,
    Foreign,
}

use Planted::{Dangling, Directory, Foreign, LinkToDirectory, LinkToFile, Pipe};

const ALL: [Planted; 6] = [
    LinkToFile,
    LinkToDirectory,
    Dangling,
    Pipe,
    Directory,
    Foreign,
];
/// What has none of our kinds, whatever it holds.
const NO_FILES: [Planted; 5] = [LinkToFile, LinkToDirectory, Dangling, Pipe, Directory];

/// A directory that is somebody else's, beside what a command works on.
fn around(place: &Place) -> PathBuf {
    let around = place.path("around");
    fs::create_dir_all(around.join("inner")).unwrap();
    fs::write(around.join("photo"), b"pixels").unwrap();
    fs::write(around.join("inner/CURRENT"), b"MANIFEST-000001\n").unwrap();
    fs::write(around.join("inner/letter"), b"words").unwrap();
    fs::set_permissions(around.join("photo"), fs::Permissions::from_mode(0o640)).unwrap();
    around
}

fn plant(planted: Planted, at: &Path, around: &Path) {
    match planted {
        LinkToFile => symlink(around.join("photo"), at).unwrap(),
        LinkToDirectory => symlink(around.join("inner"), at).unwrap(),
        Dangling => symlink(around.join("nothing"), at).unwrap(),
        Pipe => rustix::fs::mkfifoat(CWD, at, Mode::RUSR | Mode::WUSR).unwrap(),
        Directory => {
            fs::create_dir(at).unwrap();
            fs::write(at.join("letter"), b"words").unwrap();
        }
        Foreign => fs::write(at, b"a letter of somebody").unwrap(),
    }
}

fn remove(at: &Path) {
    match at.symlink_metadata().unwrap().is_dir() {
        true => fs::remove_dir_all(at).unwrap(),
        false => fs::remove_file(at).unwrap(),
    }
}

/// Plants each of these in `name` and runs the command: it fails, names the path, and changes nothing at all.
fn refuses(place: &Place, name: &str, kinds: &[Planted], arguments: &[&str]) {
    let around = around(place);
    for &planted in kinds {
        let at = place.path(name);
        plant(planted, &at, &around);
        let before = world(place.0.path());
        let outcome = run(place, arguments);
        let what = format!("{arguments:?} with {planted:?} in {name}: {outcome:?}");
        assert!(matches!(outcome.code, Some(1 | 2 | 5)), "{what}");
        assert!(outcome.error.contains(name), "{what}");
        assert!(world(place.0.path()) == before, "{what}");
        remove(&at);
    }
}

/// A database of each engine with a few records, of which a table is on the disk; a trace; a backup; an export.
fn made() -> Place {
    let place = Place::new();
    let lines: String = (0..50)
        .map(|number| format!("k{number}\tv{number}\n"))
        .collect();
    place.file("lines.tsv", lines);
    place.file("bad.tsv", "one column\n");
    for (db, engine) in [("db", "evendb"), ("fl", "flsm")] {
        run(&place, &["import", db, "lines.tsv", "--engine", engine]).expect_code(0);
    }
    place.file("foreign.csv", "0,k,1,5,1,set,0\n");
    run(
        &place,
        &[
            "trace",
            "convert",
            "foreign.csv",
            "own.trace",
            "--from-format",
            "twitter",
        ],
    )
    .expect_code(0);
    run(&place, &["backup", "db", "bk"]).expect_code(0);
    run(&place, &["export", "db", "ex"]).expect_code(0);
    place
}

#[test]
fn no_file_that_a_command_is_to_write_takes_the_place_of_another() {
    let place = made();
    let cases: [&[&str]; 7] = [
        &["trace", "convert", "own.trace", "out"],
        &["bench", "--quick", "--trace", "out"],
        &["bench", "--quick", "--json", "out"],
        &["replay", "own.trace", "--json", "out"],
        &["calibrate", "--seconds", "0.1", "--json", "out"],
        &[
            "import",
            "db",
            "bad.tsv",
            "--value-column",
            "2",
            "--bad-lines",
            "out",
        ],
        &["mixgraph", "zippydb", "--only-trace", "--trace", "out"],
    ];
    for arguments in cases {
        refuses(&place, "out", &ALL, arguments);
    }
    // A device that holds nothing is no file to be lost.
    run(&place, &["replay", "own.trace", "--json", "/dev/null"]).expect_code(0);
}

#[test]
fn no_directory_that_a_command_is_to_make_takes_the_place_of_another() {
    let place = made();
    let filled = [
        LinkToFile,
        LinkToDirectory,
        Dangling,
        Pipe,
        Directory,
        Foreign,
    ];
    let cases: [&[&str]; 5] = [
        &["restore", "bk", "out"],
        &["export", "db", "out"],
        &["repair", "db", "--into", "out"],
        &["put", "out", "key", "value"],
        &["put", "out", "key", "value", "--engine", "flsm"],
    ];
    for arguments in cases {
        refuses(&place, "out", &filled, arguments);
    }
    for name in ["out/advice.json", "out/page.html", "out/exhaustive.json"] {
        fs::create_dir(place.path("out")).unwrap();
        let advise = ["advise", "own.trace", "--memory-mib", "4", "--out", "out"];
        refuses(&place, name, &ALL, &advise);
        fs::remove_dir(place.path("out")).unwrap();
    }
}

#[test]
fn no_name_of_a_database_makes_a_foreign_thing_ours() {
    let place = made();
    let writing: [&[&str]; 3] = [
        &["put", "DB", "key", "value"],
        &["import", "DB", "lines.tsv"],
        &["compact", "DB"],
    ];
    let names = [
        "0000000100000001.sst",
        "00000000000000aa.values",
        "MANIFEST-999999",
        "CURRENT.tmp",
    ];
    let flsm = [
        "TABLE-999999",
        "LOG-999998",
        "MANIFEST-999997",
        "CURRENT.tmp",
    ];
    for (db, names) in [("db", names), ("fl", flsm)] {
        for name in names {
            for arguments in writing {
                let arguments: Vec<&str> = arguments
                    .iter()
                    .map(|&word| if word == "DB" { db } else { word })
                    .collect();
                refuses(&place, &format!("{db}/{name}"), &NO_FILES, &arguments);
            }
        }
    }
}

/// `data` below the directory of a long run is removed with all that it holds, by its mark alone.
#[test]
fn no_run_of_an_experiment_takes_a_directory_of_somebody_for_its_own() {
    let place = made();
    fs::create_dir(place.path("out")).unwrap();
    for run in ["paper", "flsm-claims"] {
        let arguments = ["experiment", run, "--out", "out"];
        for name in ["out/data", "out/results.jsonl", "out/report.md"] {
            refuses(&place, name, &ALL, &arguments);
        }
        refuses(&place, "out/lock", &NO_FILES, &arguments);
    }
    fs::remove_dir(place.path("out")).unwrap();
    refuses(
        &place,
        "out",
        &[LinkToFile, Dangling, Pipe, Foreign],
        &["experiment", "paper", "--out", "out"],
    );
}

/// The files without which there is no database, in turn: what reads them refuses what is none, and what is foreign.
#[test]
fn no_command_reads_what_is_no_file_of_a_database() {
    let place = made();
    let commands: [&[&str]; 13] = [
        &["get", "DB", "key"],
        &["put", "DB", "key", "value"],
        &["delete", "DB", "k1"],
        &["pop", "DB"],
        &["scan", "DB"],
        &["size", "DB"],
        &["stats", "DB"],
        &["keyspaces", "DB"],
        &["compact", "DB"],
        &["export", "DB", "new"],
        &["verify", "DB"],
        &["backup", "DB", "new"],
        &["changes", "DB"],
    ];
    let around = around(&place);
    for (db, name) in [
        ("db", "CURRENT"),
        ("db", "LOCK"),
        ("db", "CHUNK-LOGS"),
        ("fl", "CURRENT"),
        ("fl", "LOCK"),
    ] {
        let at = place.path(&format!("{db}/{name}"));
        let kept = place.path("kept");
        fs::rename(&at, &kept).unwrap();
        for planted in NO_FILES {
            for arguments in commands {
                let arguments: Vec<&str> = arguments
                    .iter()
                    .map(|&word| if word == "DB" { db } else { word })
                    .collect();
                plant(planted, &at, &around);
                let before = world(place.0.path());
                let outcome = run(&place, &arguments);
                let what = format!("{arguments:?} with {planted:?} in {db}/{name}: {outcome:?}");
                assert!(matches!(outcome.code, Some(1 | 2 | 5)), "{what}");
                assert!(
                    outcome.error.contains(db) || !outcome.out.is_empty(),
                    "{what}"
                );
                assert!(world(place.0.path()) == before, "{what}");
                remove(&at);
            }
        }
        fs::rename(&kept, &at).unwrap();
    }
}

/// A pipe is not among them: a program may well hand its output to a command by one.
#[test]
fn what_a_command_is_to_read_stays_as_it_is() {
    let place = made();
    let kinds = [LinkToDirectory, Dangling, Directory];
    let cases: [&[&str]; 11] = [
        &["import", "new", "out"],
        &["ingest", "new", "out"],
        &["verify-import", "db", "out"],
        &["trace", "info", "out"],
        &["trace", "print", "out"],
        &["trace", "convert", "out", "new"],
        &["replay", "out"],
        &["advise", "out", "--memory-mib", "4", "--out", "new"],
        &["model", "out"],
        &["restore", "out", "new"],
        &["mixgraph", "out"],
    ];
    let around = around(&place);
    for arguments in cases {
        for planted in kinds {
            let at = place.path("out");
            plant(planted, &at, &around);
            let before = world(place.0.path());
            let outcome = run(&place, arguments);
            let what = format!("{arguments:?} with {planted:?}: {outcome:?}");
            assert!(outcome.code.is_some_and(|code| code > 0), "{what}");
            // What the command made for itself is no part of what was there.
            let mut after = world(place.0.path());
            let is_new = |path: &Path| before.iter().all(|(there, ..)| there != path);
            after.retain(|(path, ..)| !is_new(path));
            assert!(after == before, "{what}");
            if place.path("new").exists() {
                fs::remove_dir_all(place.path("new")).unwrap();
            }
            remove(&at);
        }
    }
}
