//! A damaged database, and the five commands of backups: no damaged database is backed up as a
//! sound one, and good backups stay. And places where nothing is made: inside of a database's
//! directory, or of one with backups.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use common::{Outcome, Place, evendb};
use evendb::inspect::{InspectOptions, verify};
use evendb::{Db, Durability, Key, KeyRing, Options};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KEY: [u8; 32] = [7; 32];

fn run(place: &Place, arguments: &[&str]) -> Outcome {
    let mut command = evendb();
    command.args(arguments).current_dir(place.0.path());
    Outcome::of(command.output().unwrap())
}

/// A place with a database that has all kinds of files, as a killed process leaves it.
struct Damaged {
    place: Place,
    encrypted: bool,
}

impl Damaged {
    fn new(encrypted: bool) -> Damaged {
        let place = Place::new();
        place.file("key", KEY);
        let options = Options::new()
            .memory_budget(8 << 20)
            .workers(0)
            .durability(Durability::Process)
            .advanced(|advanced| {
                let advanced = advanced
                    .commit_log_bytes(256 << 10)
                    .chunk_bytes(4096)
                    .values_apart_from(Some(2000))
                    .keep_changes_bytes(1 << 20);
                match encrypted {
                    true => advanced.encryption(Arc::new(KeyRing::new(Key::new(KEY)))),
                    false => advanced,
                }
            });
        let db = options.open(place.path("open")).unwrap();
        let all = (0..300).map(|number| (format!("k{number:04}"), [1; 60]));
        db.ingest(all).unwrap();
        for number in 0..3 {
            db.put(format!("large{number}"), vec![number; 4000])
                .unwrap();
        }
        put(&db, 0..40, 2);
        db.settle_debt().unwrap();
        put(&db, 100..140, 3);
        db.flush().unwrap();
        put(&db, 200..210, 4);
        let mut batch = db.batch();
        for number in 0..2500 {
            let key = format!("b{number:04}");
            batch.put(db.default_keyspace(), key, [5; 90]);
        }
        batch.commit().unwrap();
        // Records before these are damaged: this is no end of the log.
        put(&db, 210..220, 6);
        copy_dir(&place.path("open"), &place.path("db"));
        db.close().unwrap();
        Damaged { place, encrypted }
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        let key = ["--key-file", "key"];
        let key = if self.encrypted { &key[..] } else { &[] };
        run(&self.place, &[arguments, key].concat())
    }

    fn fresh(&self) {
        for name in ["trial", "backups", "restored"] {
            let _ = fs::remove_dir_all(self.place.path(name));
        }
        copy_dir(&self.place.path("db"), &self.place.path("trial"));
        copy_dir(&self.place.path("good"), &self.place.path("backups"));
    }

    /// The bytes that have a meaning, by file.
    fn live(&self) -> BTreeMap<String, Vec<std::ops::Range<u64>>> {
        let look = InspectOptions::new();
        let look = match self.encrypted {
            true => look.encryption(Arc::new(KeyRing::new(Key::new(KEY)))),
            false => look,
        };
        verify(self.place.path("db"), look).unwrap().live
    }
}

fn put(db: &Db, range: std::ops::Range<usize>, value: u8) {
    for number in range {
        db.put(format!("k{number:04}"), [value; 60]).unwrap();
    }
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_dir(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// All files below a directory, by their paths from there. Lock files hold the process that was
/// there last.
fn all_in(dir: &Path) -> BTreeSet<(PathBuf, Vec<u8>)> {
    let mut all = BTreeSet::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(inner) = dirs.pop() {
        for entry in fs::read_dir(inner).unwrap() {
            let path = entry.unwrap().path();
            let from_here = path.strip_prefix(dir).unwrap().to_owned();
            let bytes = match path.is_dir() || path.ends_with("LOCK") {
                true => Vec::new(),
                false => fs::read(&path).unwrap(),
            };
            all.insert((from_here, bytes));
            if path.is_dir() && !path.is_symlink() {
                dirs.push(path);
            }
        }
    }
    all
}

/// The kind of a file: its name without its number.
fn kind_of(name: &str) -> String {
    let end = name.rsplit('.').next().unwrap_or_default();
    end.trim_end_matches(|c: char| c.is_ascii_digit())
        .to_owned()
}

/// Flips a byte in a file of each kind, and runs the five commands. Returns the kinds that the
/// backup noticed, and the others.
fn five_commands(encrypted: bool) -> (BTreeSet<String>, BTreeSet<String>) {
    let world = Damaged::new(encrypted);
    let scanned = {
        copy_dir(&world.place.path("db"), &world.place.path("whole"));
        world.run(&["scan", "whole"]).text(0)
    };
    // Two good backups, of a database with other tables: the tables of the damaged one are all new
    // to them.
    for _ in 0..2 {
        world.run(&["put", "early", "early", "1"]).expect_code(0);
        world.run(&["backup", "early", "good"]).expect_code(0);
    }
    let live = world.live();
    let (mut noticed, mut others) = (BTreeSet::new(), BTreeSet::new());
    let mut tried = BTreeMap::<String, u32>::new();
    let entries = fs::read_dir(world.place.path("db")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    // Files with a meaning come first: the others are no part of the database any more.
    names.sort_by_key(|name| (!live.contains_key(name), name.clone()));
    for name in names {
        let kind = kind_of(&name);
        let times = tried.entry(kind.clone()).or_default();
        *times += 1;
        if *times > 1 {
            continue;
        }
        let len = fs::metadata(world.place.path("db").join(&name))
            .unwrap()
            .len();
        let of_live = live
            .get(&name)
            .and_then(|ranges| ranges.get(ranges.len() / 2));
        let of_live = of_live.map(|range| (range.start + range.end) / 2);
        let places: BTreeSet<u64> = of_live.into_iter().chain([len / 3]).collect();
        for at in places.into_iter().filter(|at| *at < len) {
            world.fresh();
            let path = world.place.path("trial").join(&name);
            let mut bytes = fs::read(&path).unwrap();
            bytes[at as usize] ^= 0x10;
            fs::write(&path, bytes).unwrap();
            let place = format!("{name} at {at}");
            let backed_up = world.run(&["backup", "trial", "backups", "--keep", "2"]);
            let verified = world.run(&["backups", "backups", "--verify"]);
            let text = verified.text(0);
            assert_eq!(text.lines().count(), 1 + 2, "{place}: {text}");
            match backed_up.code {
                Some(0) => {
                    others.insert(kind.clone());
                    assert!(text.contains("\n2\t"), "{place}: {text}");
                    assert!(!text.contains("\n1\t"), "{place}: {text}");
                    world
                        .run(&["restore", "backups", "restored"])
                        .expect_code(0);
                    world.run(&["verify", "restored"]).expect_code(0);
                    let found = world.run(&["scan", "restored"]).text(0);
                    assert!(found == scanned, "{place}");
                }
                Some(5) => {
                    noticed.insert(kind.clone());
                    // If an edit of the manifest is lost, a gap in the log may tell it.
                    let is_named = backed_up.error.contains(&name) || kind == "MANIFEST-";
                    assert!(is_named, "{place}: {backed_up:?}");
                    assert!(text.contains("\n1\t"), "{place}: {text}");
                    let (good, left) = (world.place.path("good"), world.place.path("backups"));
                    assert!(all_in(&good) == all_in(&left), "{place}");
                    for number in ["1", "2"] {
                        world
                            .run(&["restore", "backups", number, "--number", number])
                            .expect_code(0);
                        world.run(&["verify", number]).expect_code(0);
                        fs::remove_dir_all(world.place.path(number)).unwrap();
                    }
                }
                _ => panic!("{place}: {backed_up:?}"),
            }
        }
    }
    (noticed, others)
}

#[test]
fn a_flipped_byte_in_each_kind_of_file_is_noticed_by_the_five_commands_or_harmless() {
    let (noticed, others) = five_commands(false);
    for kind in [
        "sst",
        "CHUNK-LOGS",
        "values",
        "val",
        "COMMIT-LOG",
        "MANIFEST-",
        "CURRENT",
    ] {
        assert!(noticed.contains(kind), "{kind}: {noticed:?}, {others:?}");
    }
    assert!(others.contains("LOCK"), "{noticed:?}, {others:?}");
}

#[cfg(feature = "encryption")]
#[test]
fn a_flipped_byte_in_each_kind_of_encrypted_file_is_noticed_by_the_five_commands_or_harmless() {
    let (noticed, others) = five_commands(true);
    for kind in [
        "sst",
        "CHUNK-LOGS",
        "values",
        "val",
        "COMMIT-LOG",
        "KEYS",
        "CURRENT",
    ] {
        assert!(noticed.contains(kind), "{kind}: {noticed:?}, {others:?}");
    }
}

/// The generations are those of one database that is backed up again and again.
#[test]
fn good_backups_stay_when_a_damaged_database_is_backed_up_in_turns() {
    let world = Damaged::new(false);
    for _ in 0..3 {
        world
            .run(&["backup", "db", "backups", "--keep", "3"])
            .expect_code(0);
    }
    // A table that the backups have is taken from them; so damage one that they do not have.
    let old = all_in(&world.place.path("db"));
    world.run(&["put", "db", "zz", "1"]).expect_code(0);
    world.run(&["compact", "db"]).expect_code(0);
    let new = all_in(&world.place.path("db"))
        .into_iter()
        .find(|(path, _)| {
            let is_known = old.iter().any(|(known, _)| known == path);
            path.extension().is_some_and(|end| end == "sst") && !is_known
        });
    let (path, mut bytes) = new.expect("a new table");
    let path = world.place.path("db").join(path);
    bytes[30] ^= 1;
    fs::write(&path, bytes).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let before = world.run(&["backups", "backups", "--verify"]).text(0);
    for _ in 0..4 {
        let failed = world.run(&["backup", "db", "backups", "--keep", "3"]);
        failed.complains(5, name);
        assert_eq!(
            world.run(&["backups", "backups", "--verify"]).text(0),
            before
        );
    }
    // Without verification the damage gets in, if that is asked for. Then it is told, and no good
    // backup is removed.
    world
        .run(&["backup", "db", "backups", "--verify", "nothing"])
        .expect_code(0);
    let kept = world.run(&["backups", "backups", "--verify", "--keep", "1"]);
    assert!(kept.error.contains("none is removed"), "{kept:?}");
    let text = kept.text(5);
    assert_eq!(text.lines().count(), 1 + 4, "{text}");
    assert!(text.contains(name), "{text}");
    let listed = run(&world.place, &["backups", "backups"]).text(0);
    assert!(listed.contains("nor verified when it was made"), "{listed}");
    run(&world.place, &["restore", "backups", "restored"]).complains(5, name);
    let saved = ["repair", "backups/000004", "--into", "saved"];
    assert!(matches!(run(&world.place, &saved).code, Some(0 | 5)));
    let kept = run(
        &world.place,
        &["backups", "backups", "--verify", "--keep", "5"],
    );
    kept.expect_code(5);
}

#[test]
fn nothing_is_made_inside_of_a_database_or_of_backups() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect(0, "");
    // A database of an engine of an earlier release.
    fs::create_dir(place.path("flsm")).unwrap();
    place.file("flsm/CURRENT", "EVENCURF");
    run(&place, &["backup", "db", "backups"]).expect_code(0);
    std::os::unix::fs::symlink("db", place.path("link")).unwrap();
    place.file("bad.tsv", "a\tb\tc\n");
    place.file("load.trace", "");
    let before = all_in(&place.path("backups"));
    for inside in ["db/x", "link/x", "./flsm/x", "backups/x", "backups/../db/x"] {
        let around = match inside {
            "./flsm/x" => "flsm",
            "backups/x" => "backups",
            _ => "db",
        };
        let around = place.0.path().canonicalize().unwrap().join(around);
        let around = around.to_str().unwrap();
        let commands: [&[&str]; 8] = [
            &["put", inside, "a", "1"],
            &["backup", "db", inside],
            &["restore", "backups", inside],
            &["export", "db", inside],
            &["repair", "db", "--into", inside],
            &["import", "db", "bad.tsv", "--bad-lines", inside],
            &["calibrate", "--json", inside],
            &["advise", "zippydb", "--memory-mib", "4", "--out", inside],
        ];
        for command in commands {
            let outcome = run(&place, command);
            assert!(
                matches!(outcome.code, Some(1 | 2)),
                "{command:?}: {outcome:?}"
            );
            for path in [inside.trim_start_matches("./"), around] {
                assert!(outcome.error.contains(path), "{command:?}: {outcome:?}");
            }
        }
    }
    for at in ["db", "db/", "link", ".", "../"] {
        run(&place, &["backup", "db", at]).complains(2, "the directory of the database in");
    }
    assert!(all_in(&place.path("backups")) == before);
    for name in ["db/x", "flsm/x", "000001", "db/000001"] {
        assert!(!place.path(name).exists(), "{name}");
    }
}
