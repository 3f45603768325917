//! Foreign files are left alone. All commands run with links, pipes, directories and foreign files
//! at every place where they would read, write or remove. The world around is compared before and
//! after.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use common::{Outcome, Place, evendb, skipped};
use rustix::fs::{CWD, FileType, Mode, makedev};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Ends a command that waits for something. No command does.
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
    // The output here is shorter than a pipe.
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("{arguments:?} waits for something");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Outcome::of(child.wait_with_output().unwrap())
}

/// For a longer file (a commit log, which is mostly holes) only its length, space and time are
/// compared.
const READ_MAX: u64 = 1 << 20;

/// The content below a directory: each name with its kind, its mode, and its bytes or the place
/// that a link leads to.
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

/// A foreign object at the place of a file of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Planted {
    LinkToFile,
    LinkToDirectory,
    Dangling,
    Pipe,
    Socket,
    /// As `/dev/null`, at a place where no device is expected.
    Device,
    Directory,
    Foreign,
}

use Planted::{Dangling, Device, Directory, Foreign, LinkToDirectory, LinkToFile, Pipe, Socket};

/// Without a device: a file that is written anew cannot lose anything of a device.
const ALL: [Planted; 7] = [
    LinkToFile,
    LinkToDirectory,
    Dangling,
    Pipe,
    Socket,
    Directory,
    Foreign,
];
/// Objects that are never a file of ours, with any content.
const NO_FILES: [Planted; 7] = [
    LinkToFile,
    LinkToDirectory,
    Dangling,
    Pipe,
    Socket,
    Device,
    Directory,
];

/// A directory of somebody else, beside the command's own place.
fn around(place: &Place) -> PathBuf {
    let around = place.path("around");
    fs::create_dir_all(around.join("inner")).unwrap();
    fs::write(around.join("photo"), b"pixels").unwrap();
    fs::write(around.join("inner/CURRENT"), b"MANIFEST-000001\n").unwrap();
    fs::write(around.join("inner/letter"), b"words").unwrap();
    fs::set_permissions(around.join("photo"), fs::Permissions::from_mode(0o640)).unwrap();
    around
}

/// Whether it could be planted: devices need the administrator, and not all file systems have them.
fn plant(planted: Planted, at: &Path, around: &Path) -> bool {
    match planted {
        LinkToFile => symlink(around.join("photo"), at).unwrap(),
        LinkToDirectory => symlink(around.join("inner"), at).unwrap(),
        Dangling => symlink(around.join("nothing"), at).unwrap(),
        Pipe => rustix::fs::mkfifoat(CWD, at, Mode::RUSR | Mode::WUSR).unwrap(),
        // The name of a socket is short, and stays when nobody listens any more.
        Socket => {
            let short = around.join("socket");
            drop(UnixListener::bind(&short).unwrap());
            fs::rename(short, at).unwrap();
        }
        Device => {
            let (kind, mode) = (FileType::CharacterDevice, Mode::RUSR | Mode::WUSR);
            if let Err(error) = rustix::fs::mknodat(CWD, at, kind, mode, makedev(1, 3)) {
                skipped::skipped("foreign files: devices", error);
                return false;
            }
        }
        Directory => {
            fs::create_dir(at).unwrap();
            fs::write(at.join("letter"), b"words").unwrap();
        }
        Foreign => fs::write(at, b"a letter of somebody").unwrap(),
    }
    true
}

fn remove(at: &Path) {
    match at.symlink_metadata().unwrap().is_dir() {
        true => fs::remove_dir_all(at).unwrap(),
        false => fs::remove_file(at).unwrap(),
    }
}

/// A command with its arguments.
type Line = &'static [&'static str];

/// The command with `db` instead of `DB`.
fn on<'a>(line: &[&'a str], db: &'a str) -> Vec<&'a str> {
    let words = line.iter();
    words
        .map(|&word| if word == "DB" { db } else { word })
        .collect()
}

/// Plants each of these at `name`, and meanwhile moves away what has that name. Then runs `tried`.
fn with_each(place: &Place, name: &str, kinds: &[Planted], tried: impl Fn(Planted)) {
    let around = around(place);
    let (at, kept) = (place.path(name), place.path("kept"));
    let was_there = fs::rename(&at, &kept).is_ok();
    for &planted in kinds {
        if plant(planted, &at, &around) {
            tried(planted);
            remove(&at);
        }
    }
    if was_there {
        fs::rename(&kept, &at).unwrap();
    }
}

/// With each of these in `name` the command fails, names the path, and changes nothing at all.
fn refuses(place: &Place, name: &str, kinds: &[Planted], arguments: &[&str]) {
    with_each(place, name, kinds, |planted| {
        let before = world(place.0.path());
        let outcome = run(place, arguments);
        let what = format!("{arguments:?} with {planted:?} in {name}: {outcome:?}");
        assert!(matches!(outcome.code, Some(1 | 2 | 5)), "{what}");
        assert!(outcome.error.contains(name), "{what}");
        assert!(world(place.0.path()) == before, "{what}");
    });
}

/// With each of these at `name` the command ends, and everything is unchanged, except below `own`,
/// where it works. What it made is removed. Returns how it ended.
fn leaves(
    place: &Place,
    name: &str,
    (kinds, own): (&[Planted], &str),
    arguments: &[&str],
    ended: impl Fn(&Outcome) -> bool,
) {
    with_each(place, name, kinds, |planted| {
        let is_others = |path: &Path| own.is_empty() || !path.starts_with(place.path(own));
        let others = || {
            let mut all = world(place.0.path());
            all.retain(|(path, ..)| is_others(path));
            all
        };
        let before = others();
        let outcome = run(place, arguments);
        let what = format!("{arguments:?} with {planted:?} in {name}: {outcome:?}");
        assert!(outcome.code.is_some() && ended(&outcome), "{what}");
        let there: BTreeSet<&PathBuf> = before.iter().map(|(path, ..)| path).collect();
        let is_old = |(path, ..): &(PathBuf, u32, Vec<u8>)| there.contains(path);
        let (old, new): (Vec<_>, Vec<_>) = others().into_iter().partition(is_old);
        assert!(old == before, "{what}");
        for (path, ..) in new.iter().rev() {
            match path.symlink_metadata().unwrap().is_dir() {
                true => fs::remove_dir(path).unwrap(),
                false => fs::remove_file(path).unwrap(),
            }
        }
    });
}

/// Commands that write a file anew, with the name `out`.
const WRITES_A_FILE: [Line; 10] = [
    &["trace", "convert", "own.trace", "out"],
    &[
        "experiment",
        "mixgraph-statistics",
        "zippydb",
        "--scale=0.0001",
        "--operations=2000",
        "--page",
        "out",
    ],
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
    &[
        "mixgraph",
        "zippydb",
        "--only-trace",
        "--trace",
        "new",
        "--trace-keys",
        "out",
    ],
    &["mixgraph", "zippydb", "--json", "out"],
];

/// Commands that make a directory with the name `out`.
const MAKES_A_DIRECTORY: [Line; 8] = [
    &["restore", "bk", "out"],
    &["export", "db", "out"],
    &["repair", "db", "--into", "out"],
    &["put", "out", "key", "value"],
    &["import", "out", "lines.tsv"],
    &["ingest", "out", "sorted.tsv"],
    &["bench", "--quick", "--dir", "out"],
    &["replay", "own.trace", "--dir", "out"],
];

/// Commands that write to a database.
const WRITES_TO_A_DATABASE: [Line; 8] = [
    &["put", "DB", "key", "value"],
    &["import", "DB", "lines.tsv"],
    &["ingest", "DB", "sorted.tsv"],
    &["merge", "DB", "key", "operand"],
    &["delete", "DB", "k1"],
    &["pop", "DB"],
    &["compact", "DB"],
    &[
        "keyspaces",
        "DB",
        "--keyspace",
        "new",
        "--compression",
        "lz4",
    ],
];

/// Commands that write files of fixed names in the directory `out`, which they may have made
/// before.
const GOES_ON_IN_A_DIRECTORY: [Line; 2] = [
    &["experiment", "paper", "--out", "out"],
    &["experiment", "flsm-claims", "--out", "out"],
];
const REPORT: Line = &["experiment", "report", "out"];
const ADVISE: Line = &["advise", "own.trace", "--memory-mib", "4", "--out", "out"];
const ANALYZE: Line = &["analyze", "own.trace", "--out", "out"];
const PROFILE: Line = &["profile", "own.trace", "--out", "out"];

/// Commands that open a database. They fail if an object that a database needs is no file.
const OPENS: [Line; 18] = [
    &["get", "DB", "key"],
    &["put", "DB", "key", "value"],
    &["merge", "DB", "key", "operand"],
    &["delete", "DB", "k1"],
    &["pop", "DB"],
    &["scan", "DB"],
    &["size", "DB"],
    &["stats", "DB"],
    &["keyspaces", "DB"],
    &["compact", "DB"],
    &["export", "DB", "new"],
    &["verify", "DB"],
    &["verify-import", "DB", "lines.tsv"],
    &["backup", "DB", "new"],
    &["fork", "DB", "new"],
    &["changes", "DB"],
    &["import", "DB", "lines.tsv"],
    &["rotate-key", "DB", "--new-key-file", "a.key"],
];

/// Commands that look into the files of a database. Some of them may succeed.
const LOOKS: [Line; 9] = [
    &["dump", "DB", "current"],
    &["dump", "DB", "manifest"],
    &["dump", "DB", "trees"],
    &["dump", "DB", "chunk", "4294967298"],
    &["dump", "DB", "sstable", "0000000100000007.sst"],
    &["dump", "DB", "log", "4294967298"],
    &["dump", "DB", "commit-log"],
    &["dump", "DB", "kept-changes"],
    &["repair", "DB", "--into", "new"],
];

/// Commands that work on a directory of backups.
const OF_BACKUPS: [Line; 5] = [
    &["backups", "bk"],
    &["backups", "bk", "--verify"],
    &["backups", "bk", "--keep", "1"],
    &["backup", "db", "bk"],
    &["restore", "bk", "new"],
];

/// Commands that read a file or directory with the name `out`.
const READS: [Line; 20] = [
    &["import", "new", "out"],
    &["ingest", "new", "out"],
    &["verify-import", "db", "out"],
    &["trace", "info", "out"],
    &["trace", "print", "out"],
    &["trace", "convert", "out", "new"],
    &["trace", "compare", "own.trace", "out"],
    &[
        "trace",
        "convert",
        "own.trace",
        "new",
        "--hide-keys",
        "hashed",
        "--secret-file",
        "out",
    ],
    &["replay", "out"],
    &["advise", "out", "--memory-mib", "4", "--out", "new"],
    &["model", "out"],
    &["profile", "out", "--out", "new"],
    &["profile", "own.trace", "--keys", "out", "--out", "new"],
    &["analyze", "out", "--out", "new"],
    &["restore", "out", "new"],
    &["backups", "out"],
    &["mixgraph", "out"],
    &[
        "experiment",
        "mixgraph-statistics",
        "zippydb",
        "--scale=0.0001",
        "--operations=2000",
        "--page",
        "new",
        "--beside",
        "out",
    ],
    &["put", "new", "key", "value", "--key-file", "out"],
    &["rotate-key", "db", "--new-key-file", "out"],
];

/// Commands without an argument that is a path.
const TAKES_NO_PATH: [&str; 1] = ["options"];

fn toured() -> Vec<Line> {
    let all: [&[Line]; 9] = [
        &WRITES_A_FILE,
        &MAKES_A_DIRECTORY,
        &WRITES_TO_A_DATABASE,
        &GOES_ON_IN_A_DIRECTORY,
        &[REPORT, ADVISE, ANALYZE, PROFILE],
        &OPENS,
        &LOOKS,
        &OF_BACKUPS,
        &READS,
    ];
    all.concat()
}

/// The names below `Commands:` in the help of a command.
fn commands_of(place: &Place, command: &[&str]) -> Vec<String> {
    let outcome = run(place, &[command, &["--help"]].concat());
    if command == ["analyze"] {
        // Another program prints this help. It may not be built, and has commands only in a
        // distributed form.
        return Vec::new();
    }
    let help = outcome.text(0);
    let names = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = names.take_while(|line| !line.is_empty());
    let names = names.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// The experiments that write a file anew, with the same options.
fn experiments_with_a_file(place: &Place) -> Vec<String> {
    let mut names = commands_of(place, &["experiment"]);
    names.retain(|name| {
        let help = run(place, &["experiment", name, "--help"]).text(0);
        help.contains("--json <JSON>")
    });
    names
}

/// A new command must be put into one of the lists above, or this fails.
#[test]
fn every_command_that_help_names_is_in_the_tour() {
    let (place, lines) = (Place::new(), toured());
    let mut left = BTreeSet::new();
    for command in commands_of(&place, &[]) {
        let mut of_it = lines.iter().filter(|line| line[0] == command).peekable();
        let inner = commands_of(&place, &[&command]);
        if inner.is_empty() && of_it.peek().is_none() {
            left.insert(command.clone());
        }
        let of_it: Vec<_> = of_it.collect();
        let inner = inner.into_iter();
        let inner = inner.filter(|inner| !of_it.iter().any(|line| line.contains(&&**inner)));
        left.extend(inner.map(|inner| format!("{command} {inner}")));
    }
    for name in experiments_with_a_file(&place) {
        left.remove(&format!("experiment {name}"));
    }
    for name in TAKES_NO_PATH {
        assert!(left.remove(name), "{name} is no command, or is toured");
        let words: Vec<_> = name.split(' ').chain(["--help"]).collect();
        let help = run(&place, &words).text(0);
        for path in ["<DIR", "<FILE", "<PATH", "<JSON", "<OUT", "<TRACE", "<DB"] {
            assert!(!help.contains(path), "{name}: {help}");
        }
    }
    assert!(left.is_empty(), "not toured: {left:?}");
}

/// A database with a few records and a table on the disk; a trace; a backup; an
/// export.
fn made() -> Place {
    let place = Place::new();
    let lines: String = (0..50)
        .map(|number| format!("k{number}\tv{number}\n"))
        .collect();
    place.file("lines.tsv", lines);
    place.file("bad.tsv", "one column\n");
    place.file("sorted.tsv", "k1\tv\nk2\tv\n");
    let key = place.file("a.key", [7; 32]);
    fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
    run(&place, &["import", "db", "lines.tsv"]).expect_code(0);
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
    for arguments in WRITES_A_FILE {
        refuses(&place, "out", &ALL, arguments);
    }
    let experiments = experiments_with_a_file(&place);
    assert!(experiments.len() > 10, "{experiments:?}");
    for name in experiments {
        let arguments = ["experiment", &name, "--quick", "--json", "out"];
        refuses(&place, "out", &ALL, &arguments);
    }
    // A device that holds nothing cannot lose anything.
    run(&place, &["replay", "own.trace", "--json", "/dev/null"]).expect_code(0);
}

#[test]
fn no_directory_that_a_command_is_to_make_takes_the_place_of_another() {
    let place = made();
    for arguments in MAKES_A_DIRECTORY {
        refuses(&place, "out", &ALL, arguments);
        refuses(&place, "out", &[Device], arguments);
    }
    for name in ["out/advice.json", "out/page.html", "out/exhaustive.json"] {
        fs::create_dir(place.path("out")).unwrap();
        refuses(&place, name, &ALL, ADVISE);
        fs::remove_dir(place.path("out")).unwrap();
    }
    // The program that these need may not be built. It has tests of its own.
    for arguments in [ANALYZE, PROFILE] {
        leaves(&place, "out", (&ALL, ""), arguments, |outcome| {
            outcome.code != Some(0)
        });
    }
}

#[test]
fn no_name_of_a_database_makes_a_foreign_thing_ours() {
    let place = made();
    let names = [
        "0000000100000001.sst",
        "00000000000000aa.values",
        "MANIFEST-999999",
        "CURRENT.tmp",
    ];
    for name in names {
        for arguments in WRITES_TO_A_DATABASE {
            let (name, line) = (format!("db/{name}"), on(arguments, "db"));
            refuses(&place, &name, &NO_FILES, &line);
        }
    }
}

/// Only a mark allows that `data` below the directory of a long run is removed with its content.
#[test]
fn no_run_of_an_experiment_takes_a_directory_of_somebody_for_its_own() {
    let place = made();
    fs::create_dir(place.path("out")).unwrap();
    for arguments in GOES_ON_IN_A_DIRECTORY {
        for name in ["out/data", "out/results.jsonl", "out/report.md"] {
            refuses(&place, name, &ALL, arguments);
        }
        refuses(&place, "out/lock", &NO_FILES, arguments);
    }
    refuses(&place, "out/results.jsonl", &ALL, REPORT);
    refuses(&place, "out/report.md", &ALL, REPORT);
    fs::remove_dir(place.path("out")).unwrap();
    let no_directories = [LinkToFile, Dangling, Pipe, Socket, Device, Foreign];
    for arguments in GOES_ON_IN_A_DIRECTORY {
        refuses(&place, "out", &no_directories, arguments);
    }
}

/// The directory and the files that a database needs, in turn: commands that read them refuse an
/// object that is no file, and a foreign file.
#[test]
fn no_command_reads_what_is_no_file_of_a_database() {
    let place = made();
    for name in ["db", "db/CURRENT", "db/LOCK", "db/CHUNK-LOGS"] {
        let db = &name[..2];
        for arguments in OPENS {
            leaves(
                &place,
                name,
                (&NO_FILES, ""),
                &on(arguments, db),
                |outcome| {
                    let names_it = outcome.error.contains(db) || !outcome.out.is_empty();
                    matches!(outcome.code, Some(1 | 2 | 5)) && names_it
                },
            );
        }
        for arguments in LOOKS {
            leaves(&place, name, (&NO_FILES, ""), &on(arguments, db), |_| true);
        }
    }
}

/// The directory of backups, that of a backup, a list and a file of one in turn, and an object with
/// the name of one.
#[test]
fn no_command_takes_what_is_no_backup_for_one() {
    let place = made();
    let names = [
        "bk",
        "bk/LOCK",
        "bk/000001",
        "bk/000001/BACKUP-LIST",
        "bk/000001/CURRENT",
        "bk/000002",
    ];
    for name in names {
        for arguments in OF_BACKUPS {
            let own = if arguments[0] == "backup" { "db" } else { "" };
            leaves(&place, name, (&NO_FILES, own), arguments, |_| true);
        }
        for arguments in [
            &["backups", "bk", "--keep", "1"][..],
            &["backup", "db", "bk"],
        ] {
            leaves(&place, name, (&[Foreign], "db"), arguments, |_| true);
        }
    }
    // Meanwhile nothing of it was lost.
    run(&place, &["backups", "bk", "--verify"]).expect_code(0);
}

/// Without a pipe: a program may well pass its output to a command by one.
#[test]
fn what_a_command_is_to_read_stays_as_it_is() {
    let place = made();
    let kinds = [LinkToDirectory, Dangling, Socket, Directory];
    for arguments in READS {
        // A directory without backups has none.
        let may_be_nothing = arguments[0] == "backups";
        leaves(&place, "out", (&kinds, ""), arguments, |outcome| {
            outcome.code.is_some_and(|code| code > 0 || may_be_nothing)
        });
    }
}
