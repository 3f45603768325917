//! A damaged database: backups and copies of it fail, or hold the records that were put.

use super::tests::{BACKUPS, DIR, Map, backups, contents, numbers, put, restored, try_contents};
use super::*;
use crate::copy::check::CopyCheck;
use crate::ingest::tests::options;
use crate::inspect::{self, InspectOptions};
use crate::plant::Plant;
use crate::{Compression, Db, Options};
use evendb_storage::vfs::SimVfs;
use std::collections::BTreeMap;

/// The kind of tables and files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Plain,
    Compressed,
    #[cfg(feature = "encryption")]
    Encrypted,
}

impl Kind {
    const ALL: &[Kind] = &[
        Kind::Plain,
        Kind::Compressed,
        #[cfg(feature = "encryption")]
        Kind::Encrypted,
    ];

    #[cfg(feature = "encryption")]
    fn keys(self) -> Option<Arc<dyn KeyProvider>> {
        let key = crate::Key::new([7; 32]);
        (self == Kind::Encrypted).then(|| Arc::new(crate::KeyRing::new(key)) as _)
    }

    #[cfg(not(feature = "encryption"))]
    fn keys(self) -> Option<Arc<dyn KeyProvider>> {
        None
    }

    fn options(self, vfs: &SimVfs) -> Options {
        let keys = self.keys();
        let options = options(vfs, Plant::Nothing).advanced(|advanced| {
            let advanced = advanced.values_apart_from(Some(200)).value_file_bytes(4096);
            match keys {
                Some(keys) => advanced.encryption(keys),
                None => advanced,
            }
        });
        match self {
            Kind::Compressed => options.compression(Compression::Lz4),
            _ => options,
        }
    }

    fn backups(self, vfs: &SimVfs) -> Backups {
        match self.keys() {
            Some(keys) => backups(vfs).encryption(keys),
            None => backups(vfs),
        }
    }
}

/// A database with ingested and rewritten tables, runs, values apart and a commit log, and a backup
/// of it that is a little older.
fn with_a_backup(vfs: &SimVfs, kind: Kind) -> Db {
    let db = kind.options(vfs).open(DIR).unwrap();
    let all = (0..200).map(|number| (format!("k{number:04}"), [1; 60]));
    db.ingest(all).unwrap();
    put(&db, 0..40, 2);
    db.put("large", [3; 500]).unwrap();
    db.settle_debt().unwrap();
    db.backup(BACKUPS).unwrap();
    put(&db, 20..70, 4);
    db.settle_debt().unwrap();
    for number in 0..4 {
        db.put(format!("large{number}"), [number; 700]).unwrap();
    }
    put(&db, 150..170, 5);
    db.flush().unwrap();
    put(&db, 190..192, 6);
    db
}

/// All files below the directory of backups.
fn all_of_backups(vfs: &SimVfs) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for number in backups(vfs).find().unwrap() {
        let dir = backups(vfs).path_of(number.number);
        for name in vfs.file_names(&dir) {
            let path = dir.join(name);
            all.insert(path.clone(), vfs.read_file(&path));
        }
    }
    all
}

/// The files of the open database, without retired ones that a pin keeps: opening a copy of the
/// disk removes those.
fn files_in_use(vfs: &SimVfs, kind: Kind) -> Vec<String> {
    let opened = vfs.fork_state();
    drop(kind.options(&opened).open(DIR).unwrap());
    let mut names = vfs.file_names(Path::new(DIR));
    names.retain(|name| opened.exists(&Path::new(DIR).join(name)).unwrap());
    names
}

fn flip(vfs: &SimVfs, path: &Path, at: usize) {
    let byte = vfs.read_file(path)[at] ^ 0x10;
    let file = vfs.open(path, true).unwrap();
    file.write_at(&[byte], at as u64).unwrap();
}

/// The records of the database in `dir`, which is sound.
fn sound_contents(vfs: &SimVfs, kind: Kind, dir: &str) -> Map {
    let look = InspectOptions::new().vfs(Arc::new(vfs.clone()));
    let look = match kind.keys() {
        Some(keys) => look.encryption(keys),
        None => look,
    };
    let report = inspect::verify(dir, look).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    contents(&kind.options(&vfs.fork_state()).open(dir).unwrap())
}

/// For each kind of file: how many bytes were flipped, and how often the copy failed.
fn flips(kind: Kind) -> BTreeMap<String, (u64, u64)> {
    let vfs = SimVfs::new(11);
    // While this pin is held, retired tables keep their files. They are removed during the first
    // backups, as happens where another thread has a pin.
    let pin = crate::sync::reclaim::pin();
    let db = with_a_backup(&vfs, kind);
    drop(pin);
    let expected = contents(&db);
    let before = all_of_backups(&vfs);
    let mut counted = BTreeMap::<String, (u64, u64)>::new();
    for name in files_in_use(&vfs, kind) {
        let path = Path::new(DIR).join(&name);
        let len = vfs.read_file(&path).len();
        let ends = name.rsplit('.').next().unwrap_or_default();
        let counts = counted.entry(ends.to_owned()).or_default();
        // The larger part of the chunks' logs is room without runs.
        let steps = if ends == "CHUNK-LOGS" { 50 } else { 5 };
        for step in 0..steps {
            let Some(at) = (len * step / steps + step).checked_sub(usize::from(step > 2)) else {
                continue;
            };
            if at >= len {
                continue;
            }
            flip(&vfs, &path, at);
            let place = format!("{kind:?}: {name} at {at}");
            let copy = format!("/copy-{name}-{step}");
            let (backed_up, copied) = (db.backup(BACKUPS), db.copy_to(&copy));
            flip(&vfs, &path, at);
            let noticed = |error: &Error| {
                // The flipped byte may be the format version of the keys.
                let is_told = match error.kind() {
                    ErrorKind::Corruption => true,
                    other => name == "KEYS" && other == ErrorKind::Unsupported,
                };
                assert!(is_told, "{place}: {error:?}");
                let text = error.to_string();
                assert!(text.contains(path.to_str().unwrap()), "{place}: {text}");
            };
            counts.0 += 1;
            match &copied {
                Err(error) => {
                    counts.1 += 1;
                    noticed(error);
                    assert!(!vfs.exists(Path::new(&copy)).unwrap(), "{place}");
                }
                Ok(_) => {
                    let found = sound_contents(&vfs.fork_state(), kind, &copy);
                    assert!(found == expected, "{place}");
                }
            }
            match &backed_up {
                Err(error) => {
                    noticed(error);
                    assert!(copied.is_err(), "{place}");
                }
                // The backup may take a sound copy of the damaged file from the backup before.
                Ok(done) => {
                    kind.backups(&vfs).verify(Some(done.number)).expect(&place);
                    let machine = vfs.fork_state();
                    backups(&machine).restore(None, "/restored").expect(&place);
                    let found = sound_contents(&machine, kind, "/restored");
                    assert!(found == expected, "{place}");
                    backups(&vfs).remove(done.number).unwrap();
                }
            }
            assert!(all_of_backups(&vfs) == before, "{place}");
        }
    }
    let again = db.backup(BACKUPS).unwrap();
    assert!(again.bytes_shared > 0, "{again:?}");
    counted
}

#[test]
fn a_byte_that_is_flipped_fails_backup_and_copy_or_harms_neither() {
    for &kind in Kind::ALL {
        let counted = flips(kind);
        for needed in ["sst", "CHUNK-LOGS", "values"] {
            assert!(counted[needed].1 > 0, "{kind:?}: {counted:?}");
        }
        for named in ["sst", "values"] {
            let (tried, noticed) = counted[named];
            assert!(2 * noticed > tried, "{kind:?}: {counted:?}");
        }
        // A backup writes `CURRENT` and the manifest anew from memory, and copies no commit log.
        for harmless in ["CURRENT", "MANIFEST-000001", "COMMIT-LOG"] {
            assert_eq!(counted[harmless].1, 0, "{kind:?}: {counted:?}");
        }
        #[cfg(feature = "encryption")]
        if kind == Kind::Encrypted {
            let (tried, noticed) = counted["KEYS"];
            assert_eq!(tried, noticed, "{counted:?}");
        }
    }
}

/// Damages a table of the newest state that the backup before does not have.
fn damage_a_new_table(vfs: &SimVfs, kind: Kind) -> PathBuf {
    let old = vfs.file_names(&Path::new(BACKUPS).join("000001"));
    let names = files_in_use(vfs, kind);
    let mut new = names.iter().filter(|name| name.ends_with(".sst"));
    let new = new.find(|name| !old.contains(name));
    let path = Path::new(DIR).join(new.expect("a new table"));
    flip(vfs, &path, 20);
    path
}

#[test]
fn damage_that_a_backup_was_not_to_look_for_is_told_by_verify_and_by_restore() {
    for &kind in Kind::ALL {
        let vfs = SimVfs::new(12);
        let pin = crate::sync::reclaim::pin();
        let db = with_a_backup(&vfs, kind);
        db.compact().unwrap();
        drop(pin);
        let damaged = damage_a_new_table(&vfs, kind);
        let name = damaged.file_name().unwrap().to_str().unwrap();
        let unseen = CopyOptions::new().verify(CopyCheck::Nothing);
        let made = db.backup_with(BACKUPS, &unseen).unwrap();
        assert_eq!((made.number, made.bytes_verified), (2, 0));
        let listed = backups(&vfs).list().unwrap();
        let verified: Vec<bool> = listed.iter().map(|info| info.verified).collect();
        assert_eq!(verified, [true, false], "{kind:?}");
        let with_key = kind.backups(&vfs);
        with_key.verify(Some(1)).unwrap();
        let told = [
            with_key.verify(Some(2)).unwrap_err(),
            with_key.restore(Some(2), "/restored").unwrap_err(),
        ];
        for error in told {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert!(error.to_string().contains(name), "{error}");
            assert!(error.to_string().contains("000002"), "{error}");
        }
        assert!(!vfs.exists(Path::new("/restored")).unwrap());
        if kind.keys().is_some() {
            // Without the key only the lists are verified, and they do not show this damage.
            backups(&vfs).verify(Some(1)).unwrap();
            let error = backups(&vfs).verify(Some(2)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NeedsKey, "{error}");
            backups(&vfs).restore(Some(2), "/restored").unwrap();
        }
        // A backup that verifies shares no file with an unverified one.
        let error = db.backup(BACKUPS).unwrap_err();
        assert!(
            error.to_string().contains(damaged.to_str().unwrap()),
            "{error}"
        );
        flip(&vfs, &damaged, 20);
        let good = db.backup(BACKUPS).unwrap();
        assert_eq!(good.bytes_shared, made.bytes_shared, "{kind:?}");
        kind.backups(&vfs).verify(None).unwrap();
        assert_eq!(numbers(&vfs), [1, 2, 3]);
    }
}

#[test]
fn a_backup_verifies_what_is_new_alone_and_takes_anew_what_has_rotted_if_it_is_to_look_at_all() {
    let vfs = SimVfs::new(13);
    let db = with_a_backup(&vfs, Kind::Plain);
    let expected = contents(&db);
    let first = db.backup(BACKUPS).unwrap();
    let second = db.backup(BACKUPS).unwrap();
    assert!(second.bytes_shared > first.bytes_shared, "{second:?}");
    assert!(second.bytes_verified < first.bytes_verified, "{second:?}");
    // A file rots in the directory of the backups: in all generations that share it.
    let dir = Path::new(BACKUPS).join(format!("{:06}", second.number));
    let names = vfs.file_names(&dir);
    let table = names.iter().find(|name| name.ends_with(".sst")).unwrap();
    flip(&vfs, &dir.join(table), 20);
    let shared = db.backup(BACKUPS).unwrap();
    let error = backups(&vfs).verify(Some(shared.number)).unwrap_err();
    assert!(error.to_string().contains(table), "{error}");
    let all = CopyOptions::new().verify(CopyCheck::All);
    let good = db.backup_with(BACKUPS, &all).unwrap();
    assert!(good.bytes_shared > 0 && good.bytes_shared < shared.bytes_shared);
    backups(&vfs).verify(Some(good.number)).unwrap();
    assert!(restored(&vfs, Some(good.number)).unwrap() == expected);
    backups(&vfs).verify(Some(shared.number)).unwrap_err();
}

#[test]
fn pruning_counts_no_backup_whose_list_is_damaged() {
    let vfs = SimVfs::new(14);
    let db = with_a_backup(&vfs, Kind::Plain);
    for _ in 0..3 {
        db.backup(BACKUPS).unwrap();
    }
    for number in [3, 4] {
        flip(&vfs, &backups(&vfs).path_of(number).join(LIST), 9);
    }
    assert_eq!(backups(&vfs).prune(2).unwrap(), 0);
    assert_eq!(backups(&vfs).prune(1).unwrap(), 1);
    assert_eq!(numbers(&vfs), [2, 3, 4]);
    backups(&vfs).verify(Some(2)).unwrap();
}

#[test]
fn an_export_of_a_damaged_database_fails_or_holds_what_was_put() {
    for &kind in Kind::ALL {
        let vfs = SimVfs::new(15);
        let db = with_a_backup(&vfs, kind);
        let expected = contents(&db);
        drop(db);
        let mut failed = 0;
        for name in vfs.file_names(Path::new(DIR)) {
            let path = Path::new(DIR).join(&name);
            for part in [1, 3] {
                let machine = vfs.fork_state();
                let at = vfs.read_file(&path).len() * part / 4;
                if at == vfs.read_file(&path).len() {
                    continue;
                }
                flip(&machine, &path, at);
                let exported = kind.options(&machine).open(DIR).and_then(|db| {
                    db.default_keyspace().export("/files")?;
                    Ok(db)
                });
                match exported {
                    Err(error) => {
                        failed += 1;
                        let kind = error.kind();
                        assert_eq!(kind, ErrorKind::Corruption, "{name} {at}: {error}");
                        let left = machine.list(Path::new("/files")).unwrap_or_default();
                        assert!(left.is_empty(), "{name} {at}");
                    }
                    Ok(_) => {
                        let other = Kind::Plain.options(&machine).open("/other").unwrap();
                        other.default_keyspace().import("/files").unwrap();
                        let imported = try_contents(&other).unwrap();
                        assert!(imported == expected, "{kind:?}: {name} {at}");
                    }
                }
            }
        }
        assert!(failed > 5, "{kind:?}: {failed}");
    }
}
