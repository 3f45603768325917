//! All public calls that take a path, with foreign files at that path: each call is refused or
//! finds nothing, and the world around is unchanged.

use crate::small;
use evendb::inspect::{self, Dump, DumpOptions, InspectOptions, RepairOptions};
use evendb::{
    Backups, CopyOptions, Db, ExportWriter, ForkOptions, LiveStats, Result, TraceOptions,
};
use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// A call: its place in the sources (the file, the function, and which of its paths), and the call
/// itself. It gets an open database and a directory of backups, with the path that is occupied.
struct Call {
    name: &'static str,
    call: fn(&World, &Path) -> Result<()>,
}

struct World {
    dir: tempfile::TempDir,
    db: Db,
    /// Another database, which is closed.
    closed: PathBuf,
    backups: PathBuf,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        for name in ["db", "closed"] {
            let db = small().open(at(name)).expect("opens");
            db.put("key", "value").expect("puts");
            db.close().expect("closes");
        }
        let around = at("around");
        fs::create_dir(&around).expect("creates");
        fs::write(around.join("photo"), "pixels").expect("writes");
        fs::write(around.join("CURRENT"), "MANIFEST-000001\n").expect("writes");
        let db = small().open(at("db")).expect("opens");
        db.backup(at("backups")).expect("backs up");
        World {
            closed: at("closed"),
            backups: at("backups"),
            db,
            dir,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// Calls that make something at the path.
const MAKES: [Call; 12] = [
    Call {
        name: "open",
        call: |_, path| small().open(path)?.close(),
    },
    Call {
        name: "TraceOptions::new",
        call: |world, path| world.db.start_trace(TraceOptions::new(path)).map(drop),
    },
    Call {
        name: "copy_to",
        call: |world, path| world.db.copy_to(path).map(drop),
    },
    Call {
        name: "copy_to_with",
        call: |world, path| world.db.copy_to_with(path, &CopyOptions::new()).map(drop),
    },
    Call {
        name: "fork",
        call: |world, path| world.db.fork(path).map(drop),
    },
    Call {
        name: "fork_with",
        call: |world, path| world.db.fork_with(path, &ForkOptions::new()).map(drop),
    },
    Call {
        name: "export",
        call: |world, path| world.db.default_keyspace().export(path).map(drop),
    },
    Call {
        name: "ExportWriter::create",
        call: |_, path| ExportWriter::create(path)?.finish().map(drop),
    },
    Call {
        name: "backup",
        call: |world, path| world.db.backup(path).map(drop),
    },
    Call {
        name: "backup_with",
        call: |world, path| world.db.backup_with(path, &CopyOptions::new()).map(drop),
    },
    Call {
        name: "repair into",
        call: |world, path| {
            let (how, inspect) = (RepairOptions::default(), InspectOptions::new());
            inspect::repair(&world.closed, path, how, inspect).map(drop)
        },
    },
    Call {
        name: "restore",
        call: |world, path| {
            let backups = Backups::at(&world.backups);
            backups.restore(None, path).map(drop)
        },
    },
];

/// Calls that read or remove something at the path.
const TAKES: [Call; 13] = [
    Call {
        name: "open",
        call: |_, path| small().read_only(true).open(path).map(drop),
    },
    Call {
        name: "open_beside_writer",
        call: |_, path| small().open_beside_writer(path).map(drop),
    },
    Call {
        name: "destroy",
        call: |_, path| evendb::destroy(path),
    },
    Call {
        name: "verify",
        call: |_, path| inspect::verify(path, InspectOptions::new()).map(drop),
    },
    Call {
        name: "dump",
        call: |_, path| {
            let each = &mut |_| ControlFlow::Continue(());
            let (how, inspect) = (DumpOptions::default(), InspectOptions::new());
            inspect::dump(path, &Dump::Current, &how, inspect, each)
        },
    },
    Call {
        name: "repair",
        call: |world, path| {
            let (how, inspect) = (RepairOptions::default(), InspectOptions::new());
            inspect::repair(path, world.at("new"), how, inspect).map(drop)
        },
    },
    Call {
        name: "import",
        call: |world, path| world.db.default_keyspace().import(path).map(drop),
    },
    Call {
        name: "exported_properties",
        call: |_, path| evendb::exported_properties(path).map(drop),
    },
    Call {
        name: "Backups::at, list",
        call: |_, path| Backups::at(path).list().map(drop),
    },
    Call {
        name: "Backups::at, verify",
        call: |_, path| Backups::at(path).verify(None).map(drop),
    },
    Call {
        name: "Backups::at, prune",
        call: |_, path| Backups::at(path).prune(1).map(drop),
    },
    Call {
        name: "Backups::at, restore",
        call: |world, path| {
            let backups = Backups::at(path);
            backups.restore(None, world.at("new")).map(drop)
        },
    },
    Call {
        name: "LiveStats::read",
        call: |_, path| LiveStats::read(path).map(drop),
    },
];

/// A way to put something foreign at a path. The second path is a directory of another user.
type Plant = fn(&Path, &Path);

/// The plants before this index are not directories.
const DIRECTORIES_FROM: usize = 5;
const PLANTS: [Plant; 7] = [
    |at, around| symlink(around.join("photo"), at).expect("links"),
    |at, around| symlink(around.join("nothing"), at).expect("links"),
    |at, _| {
        let status = std::process::Command::new("mkfifo").arg(at).status();
        assert!(status.expect("runs").success(), "mkfifo");
    },
    |at, _| drop(UnixListener::bind(at).expect("a socket")),
    |at, _| fs::write(at, "a letter of somebody").expect("writes"),
    |at, around| symlink(around, at).expect("links"),
    |at, _| {
        fs::create_dir(at).expect("creates");
        fs::write(at.join("letter"), "words").expect("writes");
    },
];

/// Everything below a directory except the open database, with the system's attributes and the
/// contents of files.
fn world(world: &World) -> Vec<(PathBuf, String, Vec<u8>)> {
    let (mut all, mut left) = (Vec::new(), vec![world.dir.path().to_owned()]);
    while let Some(path) = left.pop() {
        let there = path.symlink_metadata().expect("looks");
        let told = format!("{:?} {:o} {}", there.file_type(), there.mode(), there.len());
        let bytes = match there.is_file() {
            true => fs::read(&path).expect("reads"),
            false => Vec::new(),
        };
        if there.is_dir() {
            let entries = fs::read_dir(&path).expect("lists");
            left.extend(entries.map(|entry| entry.expect("lists").path()));
        }
        // A directory's length depends on the file system.
        let told = if there.is_dir() { String::new() } else { told };
        all.push((path, told, bytes));
    }
    all.retain(|(path, ..)| !path.starts_with(world.at("db")));
    all.sort();
    all
}

/// Tries the call of the path `given` with each plant at `at`, and puts away what was there.
fn tour(
    own: &World,
    (call, plants): (&Call, &[Plant]),
    [at, given]: [&Path; 2],
    ends: impl Fn(&Result<()>) -> bool,
) {
    let kept = own.at("kept");
    let was_there = fs::rename(at, &kept).is_ok();
    for (number, plant) in plants.iter().enumerate() {
        plant(at, &own.at("around"));
        let before = world(own);
        let ended = (call.call)(own, given);
        let what = format!("{} with {number} at {}: {ended:?}", call.name, at.display());
        assert!(ends(&ended), "{what}");
        assert!(world(own) == before, "{what}");
        match at.symlink_metadata().expect("looks").is_dir() {
            true => fs::remove_dir_all(at).expect("removes"),
            false => fs::remove_file(at).expect("removes"),
        }
    }
    if was_there {
        fs::rename(&kept, at).expect("renames");
    }
}

/// These calls report about existing objects, or remove old ones; there may be no such object.
fn may_find_nothing(call: &Call) -> bool {
    let names = [
        "LiveStats::read",
        "destroy",
        "Backups::at, list",
        "Backups::at, prune",
    ];
    names.contains(&call.name)
}

#[test]
fn no_call_that_makes_something_takes_the_place_of_something_else() {
    let own = World::new();
    let out = own.at("out");
    for call in &MAKES {
        // A directory of backups may have other files, and may be reached by a link.
        let plants = match call.name.starts_with("backup") {
            true => &PLANTS[..DIRECTORIES_FROM],
            false => &PLANTS[..],
        };
        tour(&own, (call, plants), [&out, &out], |ended| {
            let told = ended.as_ref().map_err(ToString::to_string);
            told.is_err_and(|told| told.contains("out"))
        });
    }
}

#[test]
fn no_call_takes_something_else_for_ours() {
    let own = World::new();
    let out = own.at("out");
    for call in &TAKES {
        let ends = |ended: &Result<()>| ended.is_err() || may_find_nothing(call);
        tour(&own, (call, &PLANTS), [&out, &out], ends);
    }
}

/// The files that identify a closed database, a backup and an export, and the figures of an open
/// database. An inspection reports damage, and does not fail.
#[test]
fn no_call_reads_or_removes_what_lies_in_the_place_of_a_file_of_ours() {
    let own = World::new();
    let export = own.at("export");
    let exported = own.db.default_keyspace().export(&export);
    exported.expect("exports");
    let of_backups = ["verify", "restore"].map(|name| format!("Backups::at, {name}"));
    let of_backups = of_backups.each_ref().map(String::as_str);
    let looks_at_backups = ["Backups::at, list", "Backups::at, prune"];
    let places: [(&Path, &str, &[&str], &[&str]); 5] = [
        (
            &own.closed,
            "CURRENT",
            &["open", "destroy"],
            &["verify", "dump"],
        ),
        (&own.backups, "000001", &of_backups, &looks_at_backups),
        (
            &own.backups,
            "000001/BACKUP-LIST",
            &of_backups,
            &looks_at_backups,
        ),
        (
            &export,
            "EXPORT-LIST",
            &["import", "exported_properties"],
            &[],
        ),
        (&export, "STATS", &["LiveStats::read"], &[]),
    ];
    for (dir, name, fail, look) in places {
        for call in MAKES.iter().chain(&TAKES) {
            let (fails, looks) = (fail.contains(&call.name), look.contains(&call.name));
            if fails || looks {
                let ends = |ended: &Result<()>| ended.is_err() || looks;
                tour(&own, (call, &PLANTS), [&dir.join(name), dir], ends);
            }
        }
    }
}

/// A call that takes a path must be in one of the lists above, or this fails.
#[test]
fn every_call_that_takes_a_path_is_in_the_tour() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut found, mut left) = (BTreeSet::new(), vec![sources]);
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("lists");
            left.extend(entries.map(|entry| entry.expect("lists").path()));
            continue;
        }
        let text = fs::read_to_string(&path).expect("reads");
        let mut function = String::new();
        for line in text.lines().map(str::trim) {
            if let Some(head) = line.strip_prefix("pub fn ") {
                function = head.split(['(', '<']).next().unwrap_or_default().to_owned();
            }
            if line.contains("impl AsRef<Path>") && !line.starts_with("//") {
                found.insert(function.clone());
            }
        }
    }
    // The text behind the name of a type, if there is one, and before further words.
    let names = MAKES.iter().chain(&TAKES).map(|call| call.name);
    let toured: BTreeSet<String> = names
        .map(|name| name.split([' ', ',']).next().unwrap_or_default())
        .map(|name| name.rsplit("::").next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(found, toured);
}
