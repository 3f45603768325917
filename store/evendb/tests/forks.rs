//! `Db::fork(path)`: what a fork shares, and how parent and fork go apart. The tests say in front
//! which trouble of other stores they are about; what breaks in the middle is in `forks_crash.rs`.
//! (Forks of a process are in `fork.rs`.)

mod common;

use common::oracle::{Map, contents};
use common::skipped::skipped;
use common::workload::{self, Runner};
use common::{DIR, LEVELS, inspecting, keys, on_sim, tiny};
use evendb::inspect::{RepairOptions, repair, verify};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Backups, Db, Durability, ErrorKind, ForkOptions, KeyspaceOptions, Layout, Options};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const FORK: &str = "/elsewhere/fork";

type Contents = BTreeMap<String, Map>;

fn everything(db: &Db) -> Contents {
    let names = db.keyspace_names().into_iter();
    let each = names.map(|name| (name.clone(), contents(db, &name).expect("reads")));
    each.collect()
}

/// Shares containers however few runs they have.
fn sharing() -> ForkOptions {
    ForkOptions::new().copied_log_bytes(0)
}

/// Shares containers, or copies their runs: the two ways in which a fork gets runs.
fn both_ways() -> [ForkOptions; 2] {
    [sharing(), ForkOptions::new()]
}

fn open(vfs: &SimVfs, dir: &str) -> Db {
    on_sim(vfs, Durability::Process, 0)
        .create_if_missing(false)
        .open(dir)
        .expect("opens")
}

/// A database with tables, runs, deltas, values apart and in extents, range deletions and merges.
fn filled(vfs: &SimVfs, level: Durability, seed: u64) -> Runner {
    workload::filled(vfs, level, seed, (150, 60))
}

fn assert_sound(vfs: &SimVfs, dir: &str) {
    let report = verify(dir, inspecting(vfs)).expect("verifies");
    assert!(report.is_sound(), "{dir}: {report:?}");
}

/// Puts and deletes that touch everything, with jobs.
fn work(db: &Db, seed: u8) {
    for number in 0..300_u32 {
        let key = format!("k{:03}", number * 7 % 70);
        db.put(key, vec![seed; 40 + number as usize % 90])
            .expect("puts");
    }
    db.delete_prefix(format!("k00{}", seed % 10))
        .expect("deletes");
    db.put("large", vec![seed; 20_000]).expect("puts");
    db.settle_debt().expect("settles");
    db.put("the last", [seed]).expect("puts");
}

/// C2, C3: all kinds of files come along; each side then changes everything, and the other side is
/// the same; both outlive the other.
#[test]
fn a_fork_is_the_same_and_goes_its_own_way() {
    let mut kinds = [false; 3];
    for level in LEVELS {
        for (seed, how) in (4..).zip(both_ways()) {
            let vfs = SimVfs::new(1);
            let runner = filled(&vfs, level, seed);
            let db = runner.db();
            let then = everything(db);
            let summary = db.fork_with(FORK, &how).expect("forks");
            assert!(summary.files_linked > 0, "{summary:?}");
            let names = vfs.file_names(Path::new(FORK));
            let has = |end: &str| names.iter().any(|name| name.contains(end));
            kinds = [
                kinds[0] | has(".sst"),
                kinds[1] | has(".values"),
                kinds[2] | has("CHUNK-LOGS-0"),
            ];
            assert!(!has("COMMIT-LOG") && !has("UNFINISHED"), "{names:?}");
            assert_sound(&vfs, FORK);

            let fork = on_sim(&vfs, level, 0).open(FORK).expect("opens");
            assert_eq!(everything(&fork), then);
            work(db, 1);
            let parent_now = everything(db);
            assert_eq!(everything(&fork), then);
            work(&fork, 2);
            let fork_now = everything(&fork);
            assert_ne!(fork_now, parent_now);
            assert_eq!(everything(db), parent_now);
            fork.close().expect("closes");
            db.persist().expect("persists");

            let vfs = vfs.crash(CrashMode::PowerLossNothing);
            assert_sound(&vfs, FORK);
            assert_sound(&vfs, DIR);
            let fork = on_sim(&vfs, level, 0).open(FORK).expect("opens");
            assert_eq!(everything(&fork), fork_now);
            let parent = on_sim(&vfs, level, 0).open(DIR).expect("opens");
            assert_eq!(everything(&parent), parent_now);
            // A fork of a fork; both of its ancestors can go.
            fork.fork_with("/third", &how).expect("forks");
            fork.close().expect("closes");
            parent.close().expect("closes");
            for dir in [FORK, DIR] {
                for name in vfs.file_names(Path::new(dir)) {
                    vfs.remove_file(&Path::new(dir).join(name));
                }
            }
            assert_sound(&vfs, "/third");
            assert_eq!(everything(&open(&vfs, "/third")), fork_now);
        }
    }
    assert_eq!(kinds, [true; 3], "tables, value files, sealed containers");
}

/// C2: keyspaces of both layouts, dropped and emptied on one side; records that expire do so on
/// both.
#[test]
fn both_layouts_with_range_deletions_and_expiry() {
    for how in both_ways() {
        let vfs = SimVfs::new(2);
        let db = on_sim(&vfs, Durability::Process, 0)
            .open(DIR)
            .expect("opens");
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(5_000_000_000);
        for (name, layout) in [("c", Layout::Chunks), ("g", Layout::Guards)] {
            let options = KeyspaceOptions::new().layout(layout).values_apart_from(300);
            let keyspace = db.keyspace_with(name, &options).expect("makes");
            for number in (0..600_u32).map(|number| number * 7 % 600) {
                let len = if number % 9 == 0 { 400 } else { 60 };
                let key = format!("{number:04}");
                keyspace.put(&key, vec![1; len]).expect("puts");
            }
            db.settle_debt().expect("settles");
            keyspace.delete_range("0100".."0200").expect("deletes");
            keyspace
                .put_expiring_at("0150", "for long", far)
                .expect("puts");
            keyspace
                .put_with_ttl("0160", "not for long", Duration::from_millis(1))
                .expect("puts");
        }
        std::thread::sleep(Duration::from_millis(3));
        let then = everything(&db);
        db.fork_with(FORK, &how).expect("forks");
        let fork = open(&vfs, FORK);
        assert_eq!(everything(&fork), then);
        for name in ["c", "g"] {
            let found = fork.keyspace(name).expect("is there");
            assert_eq!(found.get("0150").expect("gets").expect("is"), b"for long");
            assert_eq!(found.get("0160").expect("gets"), None);
            assert_eq!(found.get("0120").expect("gets"), None);
        }
        fork.drop_keyspace("c").expect("drops");
        db.drop_keyspace("g").expect("drops");
        let only = |db: &Db, name: &str| db.keyspace(name).expect("is there").clone();
        only(&db, "c").delete_range("0300"..).expect("deletes");
        only(&fork, "g").delete_range(.."0300").expect("deletes");
        for side in [&db, &fork] {
            side.compact().expect("compacts");
        }
        let of = |map: &Map, from: &[u8], to: &[u8]| -> Map {
            let inside = |key: &&Vec<u8>| from <= &key[..] && &key[..] < to;
            let each = map.iter().filter(|(key, _)| inside(key));
            each.map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        assert_eq!(everything(&db)["c"], of(&then["c"], b"", b"0300"));
        assert_eq!(everything(&fork)["g"], of(&then["g"], b"0300", b"9"));
        for db in [db, fork] {
            db.close().expect("closes");
        }
        assert_sound(&vfs, DIR);
        assert_sound(&vfs, FORK);
    }
}

fn on_disk() -> Options {
    tiny(Durability::Process, 0).stats_interval(Duration::ZERO)
}

/// Records in no order, large values among them; some are in tables, some in runs.
fn fill(db: &Db, seed: u8) {
    for number in (0..900_u32).map(|number| number * 7 % 900) {
        let len = if number % 10 == 0 { 700 } else { 60 };
        let key = format!("k{number:04}");
        db.put(key, vec![seed; len]).expect("puts");
    }
    db.settle_debt().expect("settles");
    for number in 0..40 {
        db.put(format!("k{number:04}"), vec![seed + 1; 50])
            .expect("puts");
    }
}

/// The files that two directories share, by inode.
fn shared(a: &Path, b: &Path) -> Vec<String> {
    let inode = |path: PathBuf| fs::metadata(path).ok().map(|meta| meta.ino());
    let names = fs::read_dir(b).expect("lists").map(|entry| {
        let name = entry.expect("lists").file_name();
        name.into_string().expect("text")
    });
    let same = |name: &String| inode(a.join(name)) == inode(b.join(name));
    let mut found: Vec<String> = names.filter(same).collect();
    found.sort();
    found
}

/// C5: only files that never change are linked; after everything that writes, on both sides, each
/// of them has the bytes that it had.
#[test]
fn linked_files_are_never_written_to() {
    let dir = tempfile::tempdir().expect("a directory");
    let (parent, fork) = (dir.path().join("parent"), dir.path().join("fork"));
    let options = || {
        on_disk().advanced(|advanced| {
            advanced
                .values_apart_from(Some(500))
                .value_file_bytes(8192)
                .keep_changes_bytes(64 << 10)
        })
    };
    let db = options().open(&parent).expect("opens");
    fill(&db, 1);
    let summary = db.fork_with(&fork, &sharing()).expect("forks");
    let linked = shared(&parent, &fork);
    assert_eq!(linked.len() as u64, summary.files_linked, "{linked:?}");
    let is_of = |name: &str, kinds: &[&str]| kinds.iter().any(|kind| name.contains(kind));
    let kinds = [".sst", ".values", "CHUNK-LOGS"];
    for kind in kinds {
        let found = linked.iter().any(|name| is_of(name, &[kind]));
        assert!(found || kind == ".sst", "no {kind} in {linked:?}");
    }
    assert!(linked.iter().all(|name| is_of(name, &kinds)), "{linked:?}");
    let kept = dir.path().join("kept");
    fs::create_dir(&kept).expect("creates");
    let before: Vec<Vec<u8>> = linked
        .iter()
        .map(|name| {
            fs::hard_link(fork.join(name), kept.join(name)).expect("links");
            fs::read(kept.join(name)).expect("reads")
        })
        .collect();

    let other = options().open(&fork).expect("opens");
    for (round, side) in [&db, &other].into_iter().enumerate() {
        fill(side, 10 + round as u8);
        side.delete_range("k0100".."k0300").expect("deletes");
        side.flush().expect("flushes");
        side.settle_debt().expect("settles");
        side.compact().expect("compacts");
        side.backup(dir.path().join(format!("backups{}", round % 2)))
            .expect("backs up");
        side.fork_with(dir.path().join(format!("later{round}")), &sharing())
            .expect("forks");
    }
    for (db, path) in [(db, &parent), (other, &fork)] {
        db.close().expect("closes");
        let db = options().open(path).expect("opens");
        fill(&db, 30);
        db.close().expect("closes");
        options()
            .read_only(true)
            .open(path)
            .expect("opens")
            .close()
            .expect("closes");
    }
    for (name, bytes) in linked.iter().zip(&before) {
        let now = fs::read(kept.join(name)).expect("reads");
        assert!(now == *bytes, "{name} was written to");
    }
}

/// C13: nothing in a fork names a place outside of it: it is moved, its parent is moved and
/// removed, and it is opened through a link.
#[test]
fn a_fork_names_no_place_outside_of_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let name = "a parent of this name";
    let parent = dir.path().join(name);
    let db = on_disk().open(&parent).expect("opens");
    fill(&db, 1);
    let then = everything(&db);
    let fork = dir.path().join("fork");
    db.fork_with(&fork, &sharing()).expect("forks");
    for entry in fs::read_dir(&fork).expect("lists") {
        let bytes = fs::read(entry.expect("lists").path()).expect("reads");
        let found = bytes.windows(name.len()).any(|at| at == name.as_bytes());
        assert!(!found, "the parent's name");
    }
    // While the parent is still open, and after it has gone.
    let moved = dir.path().join("moved");
    fs::rename(&fork, &moved).expect("renames");
    let open = |path: &Path| on_disk().create_if_missing(false).open(path);
    let opened = open(&moved).expect("opens");
    assert_eq!(everything(&opened), then);
    opened.close().expect("closes");
    db.close().expect("closes");
    fs::rename(&parent, dir.path().join("renamed")).expect("renames");
    fs::remove_dir_all(dir.path().join("renamed")).expect("removes");
    std::os::unix::fs::symlink(&moved, dir.path().join("link")).expect("links");
    let opened = open(&dir.path().join("link")).expect("opens");
    assert_eq!(everything(&opened), then);
    fill(&opened, 5);
    opened.close().expect("closes");
}

/// C4: parent and fork in one process have tables, runs and rows of the same numbers; each reads
/// its own.
#[test]
fn tables_of_one_number_in_parent_and_fork_are_told_apart() {
    let vfs = SimVfs::new(3);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    fill(&db, 1);
    db.fork_with(FORK, &sharing()).expect("forks");
    // From here on both are in the same epoch, and count alike.
    db.close().expect("closes");
    let sides = [(open(&vfs, DIR), 50), (open(&vfs, FORK), 90)];
    for (db, seed) in &sides {
        fill(db, *seed);
        db.compact().expect("compacts");
        fill(db, *seed + 2);
    }
    let tables = |dir: &str| {
        let mut names = vfs.file_names(Path::new(dir));
        names.retain(|name| name.ends_with(".sst"));
        names
    };
    let of_fork = tables(FORK);
    let same = tables(DIR)
        .into_iter()
        .filter(|name| of_fork.contains(name));
    let differ = |name: &String| {
        let bytes = |dir: &str| vfs.read_file(&Path::new(dir).join(name));
        bytes(DIR) != bytes(FORK)
    };
    assert!(same.filter(differ).count() > 0, "no number in common");
    for _ in 0..3 {
        for (db, seed) in &sides {
            for number in (0..900_u32).step_by(7) {
                let found = db.get(format!("k{number:04}")).expect("gets");
                let expected = if number < 40 { *seed + 3 } else { *seed + 2 };
                assert_eq!(found.expect("is there")[0], expected, "k{number:04}");
            }
        }
    }
}

/// C17: forks of forks lie side by side: the same files, and a manifest of the same size, at every
/// depth.
#[test]
fn forks_of_forks_are_as_flat_as_the_first() {
    let depth = common::count_from_env("EVENDB_FORKS", 300);
    for how in both_ways() {
        let vfs = SimVfs::new(4);
        let mut dir = DIR.to_owned();
        let mut db = on_sim(&vfs, Durability::Process, 0)
            .open(&dir)
            .expect("opens");
        let mut model = BTreeMap::new();
        let mut sizes = Vec::new();
        for generation in 0..depth {
            for number in 0..3 {
                let key = format!("k{:02}", (generation * 3 + number) % 40);
                let value = format!("{generation}");
                db.put(&key, &value).expect("puts");
                model.insert(key.into_bytes(), value.into_bytes());
            }
            db.settle_debt().expect("settles");
            let next = format!("/forks/{generation}");
            db.fork_with(&next, &how).expect("forks");
            drop(db);
            for name in vfs.file_names(Path::new(&dir)) {
                vfs.remove_file(&Path::new(&dir).join(name));
            }
            dir = next;
            let files = vfs.file_names(Path::new(&dir));
            let manifest = vfs.read_file(&Path::new(&dir).join("MANIFEST-000001"));
            sizes.push((files.len(), manifest.len()));
            db = open(&vfs, &dir);
        }
        assert_eq!(everything(&db)["default"], model);
        let most = |of: fn(&(usize, usize)) -> usize| {
            let (early, late) = sizes.split_at(30.min(sizes.len() / 2));
            let most = |sizes: &[(usize, usize)]| sizes.iter().map(of).max();
            (most(early).expect("some"), most(late).expect("some"))
        };
        let (files, bytes) = (most(|size| size.0), most(|size| size.1));
        assert!(files.1 <= files.0 + 3, "files: {files:?} of {sizes:?}");
        assert!(bytes.1 <= 2 * bytes.0, "bytes: {bytes:?} of {sizes:?}");
    }
}

/// C14: a linked table that is missing is an error where its records lie, named by `verify`; the
/// rest is read and written, and space comes back.
#[test]
fn a_missing_shared_file_costs_its_own_records_alone() {
    let vfs = SimVfs::new(5);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    for number in (0..900_u32).map(|number| number * 7 % 900) {
        db.put(format!("k{number:04}"), vec![1; 60]).expect("puts");
    }
    db.settle_debt().expect("settles");
    db.compact().expect("compacts");
    let then = everything(&db);
    db.fork_with(FORK, &sharing()).expect("forks");
    let tables = |dir: &str| {
        let mut names = vfs.file_names(Path::new(dir));
        names.retain(|name| name.ends_with(".sst"));
        names
    };
    let lost = tables(FORK)[0].clone();
    vfs.remove_file(&Path::new(FORK).join(&lost));
    let report = verify(FORK, inspecting(&vfs)).expect("verifies");
    assert!(format!("{report:?}").contains(&lost), "{report:?}");
    let fork = open(&vfs, FORK);
    let (mut read, mut failed) = (0, 0);
    for (key, value) in &then["default"] {
        match fork.get(key) {
            Ok(found) => {
                assert_eq!(found.expect("is there"), value[..]);
                read += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                assert!(error.to_string().contains(&lost), "{error}");
                failed += 1;
            }
        }
    }
    assert!(read > failed && failed > 0, "{read} and {failed}");
    // Both go on: what they no longer need goes.
    for side in [&db, &fork] {
        let before = tables(if std::ptr::eq(side, &db) { DIR } else { FORK });
        for round in 2..5 {
            for number in 700..900_u32 {
                side.put(format!("k{number:04}"), vec![round; 60])
                    .expect("puts");
            }
        }
        let keyspace = side.default_keyspace();
        keyspace.compact_range("k0700"..).expect("compacts");
        side.flush().expect("flushes");
        let after = tables(if std::ptr::eq(side, &db) { DIR } else { FORK });
        let gone = before.iter().filter(|name| !after.contains(name)).count();
        assert!(gone > 0, "no table went: {before:?} {after:?}");
    }
    assert_eq!(db.get("k0000").expect("gets").expect("is"), vec![1; 60]);
}

/// C19: positions of changes from after the fork are refused on the other side; those from before
/// it are gone.
#[test]
fn positions_after_the_fork_are_refused_by_the_other_side() {
    let vfs = SimVfs::new(6);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    db.put("k", "before").expect("puts");
    let early = db.position().expect("a position");
    db.put("k", "before, too").expect("puts");
    db.fork(FORK).expect("forks");
    let fork = open(&vfs, FORK);
    let kind = |db: &Db, position: &evendb::Position| {
        let mut feed = match db.changes_since(position) {
            Ok(feed) => feed,
            Err(error) => return Some(error.kind()),
        };
        feed.next()?.err().map(|error| error.kind())
    };
    for (side, other) in [(&db, &fork), (&fork, &db)] {
        side.put("k", "after").expect("puts");
        let later = side.position().expect("a position");
        assert_eq!(kind(other, &later), Some(ErrorKind::ChangesLost));
        assert_eq!(kind(side, &later), None);
    }
    assert_eq!(kind(&fork, &early), Some(ErrorKind::ChangesGone));
    assert_eq!(kind(&db, &early), None);
    // The numbers of lives are the same in both from the next opening on; their seeds are not.
    fork.close().expect("closes");
    db.close().expect("closes");
    let (db, fork) = (open(&vfs, DIR), open(&vfs, FORK));
    for (side, other) in [(&db, &fork), (&fork, &db)] {
        side.put("k", "in a new life").expect("puts");
        let later = side.position().expect("a position");
        assert_eq!(kind(other, &later), Some(ErrorKind::ChangesLost));
    }
}

/// C19: a fork that is backed up among its parent's backups shares only what is the same, byte by
/// byte; each backup is what was backed up.
#[test]
fn a_fork_may_be_backed_up_beside_its_parent() {
    let vfs = SimVfs::new(7);
    let backups = Path::new("/backups");
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    fill(&db, 1);
    db.backup(backups).expect("backs up");
    db.fork_with(FORK, &sharing()).expect("forks");
    db.close().expect("closes");
    let sides = [open(&vfs, DIR), open(&vfs, FORK)];
    let mut expected = Vec::new();
    for round in 0..2 {
        for (which, side) in sides.iter().enumerate() {
            fill(side, 20 + 40 * which as u8 + 4 * round);
            side.backup(backups).expect("backs up");
            expected.push(everything(side));
        }
    }
    let all = match keys() {
        Some(keys) => Backups::at(backups).encryption(keys),
        None => Backups::at(backups),
    };
    let all = all.vfs(Arc::new(vfs.clone()));
    for (number, expected) in (2..).zip(&expected) {
        all.verify(Some(number)).expect("verifies");
        let restored = format!("/restored{number}");
        all.restore(Some(number), &restored).expect("restores");
        assert_eq!(everything(&open(&vfs, &restored)), *expected);
    }
}

#[test]
fn targets_that_are_refused() {
    let vfs = SimVfs::new(8);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    db.put("a", "b").expect("puts");
    let kind = |dir: &str| db.fork(dir).err().map(|error| error.kind());
    assert_eq!(kind(DIR), Some(ErrorKind::AlreadyExists));
    assert_eq!(kind("/db/inside"), Some(ErrorKind::InvalidArgument));
    assert_eq!(kind(FORK), None);
    assert_eq!(kind(FORK), Some(ErrorKind::AlreadyExists));
    let reader = on_sim(&vfs, Durability::Process, 0)
        .read_only(true)
        .open(FORK)
        .expect("opens");
    let refused = reader.fork("/other").expect_err("a reader");
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    let other = db.clone();
    db.close().expect("closes");
    let refused = other.fork("/other").expect_err("closed");
    assert_eq!(refused.kind(), ErrorKind::Closed);
}

/// A directory on another file system than this one, if one can be had.
fn elsewhere(than: &Path) -> Option<tempfile::TempDir> {
    let device = |dir: &Path| fs::metadata(dir).map(|meta| meta.dev()).ok();
    let places = [
        "/dev/shm",
        "/run",
        "/tmp",
        "/var/tmp",
        env!("CARGO_TARGET_TMPDIR"),
    ];
    let made = places.iter().map(tempfile::tempdir_in);
    made.flatten()
        .find(|made| device(made.path()) != device(than))
}

/// C16: between two file systems no link is possible, and nothing is copied unless asked for.
#[test]
fn a_fork_on_another_file_system() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(other) = elsewhere(dir.path()) else {
        let why = "there is one file system for the usual temporary directories";
        return skipped("a_fork_on_another_file_system", why);
    };
    let db = on_disk().open(dir.path()).expect("opens");
    fill(&db, 1);
    let target = other.path().join("fork");
    let error = db.fork(&target).expect_err("another file system");
    assert_eq!(error.kind(), ErrorKind::CannotLink, "{error}");
    assert!(!target.exists(), "left behind");
    let copying = sharing().copy_if_needed(true);
    let summary = db.fork_with(&target, &copying).expect("copies");
    assert!(summary.bytes_copied > 0 && summary.files_linked == 0);
    let then = everything(&db);
    db.close().expect("closes");
    drop(dir);
    let fork = on_disk().open(target).expect("opens");
    assert_eq!(everything(&fork), then);
}

/// A parent that is forked often gives the room of its sealed containers back.
#[test]
fn sealed_containers_go_with_their_last_run() {
    let vfs = SimVfs::new(10);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    let containers = || {
        let mut names = vfs.file_names(Path::new(DIR));
        names.retain(|name| name.starts_with("CHUNK-LOGS"));
        names
    };
    let mut most = 0;
    for round in 0..6_u8 {
        fill(&db, round);
        db.fork_with(format!("/forks/{round}"), &sharing())
            .expect("forks");
        most = most.max(containers().len());
    }
    db.compact().expect("compacts");
    db.flush().expect("flushes");
    db.settle_debt().expect("settles");
    let left = containers();
    assert!(most >= 2, "nothing was sealed");
    assert!(left.len() < most, "{left:?} of {most}");
    assert!(!left.contains(&"CHUNK-LOGS".to_owned()), "{left:?}");
    let then = everything(&db);
    db.close().expect("closes");
    let db = open(&vfs, DIR);
    assert_eq!(everything(&db), then);
    // The first fork still has what it was.
    let first = open(&vfs, "/forks/0");
    assert_eq!(first.get("k0500").expect("gets").expect("is")[0], 0);
    drop((db, first));
    assert_sound(&vfs, DIR);
    assert_sound(&vfs, "/forks/0");
}

/// The tools for closed databases know sealed containers: damage of one is named, by the file and
/// its place, and a repair saves all else.
#[test]
fn damage_of_a_shared_container_is_named_and_the_rest_saved() {
    let vfs = SimVfs::new(11);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    fill(&db, 1);
    let then = everything(&db);
    db.fork_with(FORK, &sharing()).expect("forks");
    db.close().expect("closes");
    let fork = Path::new(FORK);
    let whole = "/whole";
    let how = RepairOptions::default();
    let told = repair(FORK, whole, how, inspecting(&vfs)).expect("saves");
    assert!(told.is_complete(), "{told:?}");
    assert_eq!(everything(&open(&vfs, whole)), then);

    let report = verify(FORK, inspecting(&vfs)).expect("verifies");
    let at = report.live["CHUNK-LOGS"][0].start as usize;
    let mut bytes = vfs.read_file(&fork.join("CHUNK-LOGS"));
    bytes[at + 3] ^= 1;
    vfs.remove_file(&fork.join("CHUNK-LOGS"));
    vfs.write_file(&fork.join("CHUNK-LOGS"), bytes);
    let report = verify(FORK, inspecting(&vfs)).expect("verifies");
    let named = report.findings.iter();
    let named: Vec<&str> = named.map(|found| &*found.file).collect();
    assert!(!named.is_empty() && named.iter().all(|file| *file == "CHUNK-LOGS"));
    let told = repair(FORK, "/saved", how, inspecting(&vfs)).expect("saves");
    assert!(!told.is_complete(), "{told:?}");
    let saved = everything(&open(&vfs, "/saved"))["default"].len();
    let all = then["default"].len();
    assert!(saved > all / 2 && saved <= all, "{saved} of {all}");
    // Without the file, all else is there.
    vfs.remove_file(&fork.join("CHUNK-LOGS"));
    let report = verify(FORK, inspecting(&vfs)).expect("verifies");
    assert!(!report.is_sound());
    repair(FORK, "/without", how, inspecting(&vfs)).expect("saves");
    assert_sound(&vfs, DIR);
}

/// The space of a parent comes back to a fork's side although a few cold runs of the parent are
/// never written again: a sealed container is emptied when less than half of it is live.
#[test]
fn a_thin_sealed_container_is_emptied() {
    const HOT: u32 = 600;
    for layout in [Layout::Chunks, Layout::Guards] {
        let vfs = SimVfs::new(10);
        let options = |dir: &str| {
            let options = on_sim(&vfs, Durability::Process, 0).layout(layout);
            let options = common::layout::tiny_guards(options);
            let options = options.advanced(|advanced| advanced.chunk_bytes(8 << 10));
            options.open(dir).expect("opens")
        };
        let put = |db: &Db, number: u32, value: u8| {
            db.put(format!("k{number:05}"), [value; 200]).expect("puts");
        };
        let db = options(DIR);
        (0..HOT + 100).for_each(|number| put(&db, number * 11 % (HOT + 100), 1));
        db.compact().expect("compacts");
        // Beyond the hot keys, a few records in the log.
        (0..HOT).for_each(|number| put(&db, number, 2));
        (HOT..HOT + 100)
            .step_by(40)
            .for_each(|number| put(&db, number, 2));
        db.flush().expect("flushes");
        db.fork_with("/forks/a", &sharing()).expect("forks");
        let fork = options("/forks/a");
        let has_sealed = |dir: &str| {
            let names = vfs.file_names(Path::new(dir));
            names.iter().any(|name| name == "CHUNK-LOGS")
        };
        assert!(has_sealed("/forks/a"), "it shares the container");
        for round in 3..5 {
            (0..HOT).for_each(|number| put(&fork, number, round));
            fork.flush().expect("flushes");
            fork.settle_debt().expect("settles");
        }
        assert!(!has_sealed("/forks/a"), "{layout:?}");
        assert!(has_sealed(DIR), "the parent's own is as it was");
        for number in 0..HOT + 100 {
            let value = fork.get(format!("k{number:05}"));
            let value = value.expect("gets").expect("is there")[0];
            let expected = match number.checked_sub(HOT) {
                None => 4,
                Some(beyond) if beyond % 40 == 0 => 2,
                Some(_) => 1,
            };
            assert_eq!(value, expected, "{number}");
        }
        fork.close().expect("closes");
        drop(db);
        assert_sound(&vfs, "/forks/a");
        assert_sound(&vfs, DIR);
    }
}
