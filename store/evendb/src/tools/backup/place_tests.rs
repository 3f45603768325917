//! Places where no backup, copy, export, trace or database is made; and files in a directory of
//! backups that must not be removed.

use super::*;
use crate::inspect::{InspectOptions, RepairOptions, repair};
use crate::{Db, ExportWriter, TraceOptions};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

fn open(path: &Path) -> Result<Db> {
    crate::Options::new()
        .memory_budget(1 << 20)
        .workers(0)
        .open(path)
}

/// All names below a directory, with the contents of files.
fn all_in(dir: &Path) -> BTreeSet<(PathBuf, Vec<u8>)> {
    let mut all = BTreeSet::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                dirs.push(entry.path());
            }
            let bytes = match kind.is_file() {
                true => fs::read(entry.path()).unwrap(),
                false => Vec::new(),
            };
            all.insert((entry.path(), bytes));
        }
    }
    all
}

struct World {
    place: tempfile::TempDir,
    db: Db,
}

impl World {
    /// A database, backups of it, and links to both.
    fn new() -> World {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let db = open(&at("files/db")).unwrap();
        db.put("key", "value").unwrap();
        db.backup(at("backups")).unwrap();
        fs::create_dir(at("else")).unwrap();
        symlink(at("files/db"), at("else/link")).unwrap();
        symlink(at("backups"), at("else/link to backups")).unwrap();
        World { place, db }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }
}

#[track_caller]
fn refused(call: Result<impl Sized>, path: &Path, around: &str) {
    let error = call.err().expect("it is refused");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let text = error.to_string();
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    assert!(text.contains(around), "{text}");
}

#[test]
fn nothing_is_made_inside_of_a_database_or_of_backups() {
    let world = World::new();
    let look = || InspectOptions::new();
    let broken = world.at("broken");
    world.db.copy_to(&broken).unwrap();
    let before = all_in(world.place.path());
    let inside = [
        ("files/db/x", "files/db"),
        ("files/db/x/y", "files/db"),
        ("files/../files/db/x", "files/db"),
        ("else/link/x", "files/db"),
        ("backups/x", "backups"),
        ("backups/000009", "backups"),
        ("backups/000001/x", "backups/000001"),
        ("else/link to backups/x", "backups"),
    ];
    for (name, around) in inside {
        let path = world.at(name);
        let db = &world.db;
        refused(open(&path), &path, around);
        refused(db.copy_to(&path), &path, around);
        refused(db.backup(&path), &path, around);
        refused(db.default_keyspace().export(&path), &path, around);
        refused(ExportWriter::create(&path), &path, around);
        refused(db.start_trace(TraceOptions::new(&path)), &path, around);
        refused(
            Backups::at(world.at("backups")).restore(None, &path),
            &path,
            around,
        );
        refused(
            repair(&broken, &path, RepairOptions::default(), look()),
            &path,
            around,
        );
    }
    assert!(all_in(world.place.path()) == before);
    // A database without its mark is found by the call that reads it.
    fs::remove_file(broken.join("CURRENT")).unwrap();
    let path = broken.join("x");
    refused(
        repair(&broken, &path, RepairOptions::default(), look()),
        &path,
        "broken",
    );
    assert!(!path.exists());
    open(&world.at("else/db")).unwrap();
}

#[test]
fn a_backup_is_read_and_neither_written_nor_destroyed() {
    let world = World::new();
    world.db.put("key", "value").unwrap();
    world.db.backup(world.at("backups")).unwrap();
    let before = all_in(&world.at("backups"));
    for name in ["backups/000002", "else/link to backups/000002", "backups"] {
        let path = world.at(name);
        refused(open(&path), &path, "evendb restore");
        refused(crate::destroy(&path), &path, "evendb restore");
    }
    let path = world.at("backups/000002");
    let read = crate::Options::new().read_only(true).open(&path).unwrap();
    assert_eq!(read.get("key").unwrap().unwrap(), "value");
    read.close().unwrap();
    assert!(all_in(&world.at("backups")) == before);
    Backups::at(world.at("backups")).verify(Some(2)).unwrap();
}

#[test]
fn an_export_has_the_properties_of_its_keyspace_but_not_its_options() {
    let world = World::new();
    let options = crate::KeyspaceOptions::new().row_cache(false);
    let events = world.db.keyspace_with("events", &options).unwrap();
    events.put("key", "value").unwrap();
    events.set_property("schema", "app,time").unwrap();
    events.set_property("evendb.key-types", "str").unwrap();
    events.export(world.at("exported")).unwrap();
    let found = crate::exported_properties(world.at("exported")).unwrap();
    let expected = [("evendb.key-types", "str"), ("schema", "app,time")];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
    assert!(found.into_iter().eq(expected));
    // They are no records, and an import leaves the keyspace's own properties.
    let other = world.db.keyspace("other").unwrap();
    assert_eq!(other.import(world.at("exported")).unwrap().records, 1);
    assert_eq!(other.property("schema").unwrap(), None);
    // Each flipped bit is noticed.
    let path = world.at("exported/PROPERTIES");
    let bytes = fs::read(&path).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, flipped).unwrap();
        let error = crate::exported_properties(world.at("exported")).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Corruption, "bit {bit}");
    }
    other.export(world.at("plain")).unwrap();
    assert!(!world.at("plain/PROPERTIES").exists());
    let none = crate::exported_properties(world.at("plain")).unwrap();
    assert!(none.is_empty());
}

#[test]
fn backups_of_a_database_are_not_made_at_it_nor_around_it() {
    let world = World::new();
    let other = open(&world.at("other")).unwrap();
    let before = all_in(world.place.path());
    for name in [
        "files/db",
        "files/db/",
        "files/db/../db",
        "else/link",
        "files",
        ".",
        "else/..",
    ] {
        let path = world.at(name);
        refused(world.db.backup(&path), &path, "files/db");
    }
    for name in ["other", "backups/000001"] {
        let path = world.at(name);
        refused(world.db.backup(&path), &path, name);
    }
    assert!(all_in(world.place.path()) == before);
    drop(other);
    world.db.backup(world.at("else/link to backups")).unwrap();
    assert_eq!(Backups::at(world.at("backups")).list().unwrap().len(), 2);
}

/// Makes something at a path.
type Make<'m> = &'m dyn Fn(&Path);

#[test]
fn what_is_not_ours_in_a_directory_of_backups_stays() {
    let world = World::new();
    let backups = world.at("backups");
    let foreign: [(&str, Make<'_>); 6] = [
        ("20240101", &|path| {
            fs::create_dir(path).unwrap();
            fs::write(path.join("photo"), "sea").unwrap();
        }),
        ("20240102", &|path| {
            fs::create_dir(path).unwrap();
            fs::write(path.join("photo"), "sea").unwrap();
            fs::write(path.join("BACKUP-LIST.tmp"), "").unwrap();
        }),
        ("000002", &|path| symlink(world.at("else"), path).unwrap()),
        ("000003", &|path| {
            symlink(world.at("missing"), path).unwrap()
        }),
        ("000004", &|path| fs::write(path, "a file").unwrap()),
        ("000005", &|path| {
            fs::create_dir(path).unwrap();
            fs::write(path.join("CHUNK-LOGS"), "of a database without a mark").unwrap();
        }),
    ];
    fs::write(world.at("else/BACKUP-LIST.tmp"), "").unwrap();
    for (name, make) in foreign {
        let path = backups.join(name);
        make(&path);
        let before = all_in(world.place.path());
        let files = Backups::at(&backups);
        let errors = [world.db.backup(&backups).err(), files.prune(1).err()];
        for error in errors {
            let error = error.unwrap_or_else(|| panic!("{name} is told"));
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{name}: {error}");
            assert!(
                error.to_string().contains(path.to_str().unwrap()),
                "{error}"
            );
        }
        assert!(all_in(world.place.path()) == before, "{name}");
        files.verify(None).unwrap();
        match path.is_dir() && !path.is_symlink() {
            true => fs::remove_dir_all(&path).unwrap(),
            false => fs::remove_file(&path).unwrap(),
        }
    }
    // Also in a generation that counts.
    fs::write(backups.join("000001/photo"), "sea").unwrap();
    world.db.backup(&backups).unwrap();
    let error = Backups::at(&backups).prune(1).unwrap_err();
    assert!(error.to_string().contains("photo"), "{error}");
    Backups::at(&backups).verify(Some(1)).unwrap();
    fs::remove_file(backups.join("000001/photo")).unwrap();
    assert_eq!(Backups::at(&backups).prune(1).unwrap(), 1);
    // A directory that we left before it had a mark, and a number that no other one follows.
    fs::create_dir(backups.join("000007")).unwrap();
    fs::write(backups.join("000007/LOCK"), "").unwrap();
    world.db.backup(&backups).unwrap();
    assert!(!backups.join("000007").exists());
    let last = backups.join(u64::MAX.to_string());
    fs::create_dir(&last).unwrap();
    fs::write(last.join("BACKUP-LIST"), "").unwrap();
    let error = world.db.backup(&backups).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(
        error.to_string().contains(last.to_str().unwrap()),
        "{error}"
    );
}

#[test]
fn a_list_that_names_what_no_database_has_restores_nothing() {
    let world = World::new();
    let backups = Backups::at(world.at("backups"));
    let list = backups.read_list(1).unwrap();
    for name in [".bashrc", "LOCK", "BACKUP-LIST", "x"] {
        let mut files: Vec<_> = list.files().collect();
        files[0].name = name.to_owned();
        let planted = BackupList::new(list.seconds, &files);
        fs::write(world.at("backups/000001").join(name), "planted").unwrap();
        fs::write(world.at("backups/000001/BACKUP-LIST"), planted.encode()).unwrap();
        let into = world.at("restored");
        let error = backups.restore(None, &into).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains(name), "{error}");
        assert!(!into.exists());
    }
}
