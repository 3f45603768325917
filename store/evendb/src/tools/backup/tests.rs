//! Backups on simulated files: which files they share, damage, crashes and faults at every
//! operation.

use super::*;
use crate::ingest::tests::options;
use crate::plant::Plant;
use crate::{Db, ExportWriter};
use evendb_storage::vfs::{CrashMode, Fault, FaultKind, FaultOn, SimVfs};
use std::collections::BTreeMap;

pub(super) const DIR: &str = "/db";
pub(super) const BACKUPS: &str = "/backups";

pub(super) type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(vfs: &SimVfs, dir: &str) -> Db {
    options(vfs, Plant::Nothing).open(dir).expect("opens")
}

pub(super) fn backups(vfs: &SimVfs) -> Backups {
    Backups::at(BACKUPS).vfs(Arc::new(vfs.clone()))
}

pub(super) fn try_contents(db: &Db) -> Result<Map> {
    let owned = |(key, value): (crate::Value, crate::Value)| (key.to_vec(), value.to_vec());
    db.iter().map(|item| item.map(owned)).collect()
}

pub(super) fn contents(db: &Db) -> Map {
    try_contents(db).expect("reads")
}

pub(super) fn put(db: &Db, range: std::ops::Range<usize>, value: u8) {
    for number in range {
        db.put(format!("k{number:04}"), vec![value; 60]).unwrap();
    }
}

/// The records of a backup, by restoring it; the directory is removed.
pub(super) fn restored(vfs: &SimVfs, number: Option<u64>) -> Result<Map> {
    let machine = vfs.fork_state();
    backups(&machine).restore(number, "/restored")?;
    let db = open(&machine, "/restored");
    let map = try_contents(&db);
    db.close().unwrap();
    map
}

pub(super) fn numbers(vfs: &SimVfs) -> Vec<u64> {
    let list = backups(vfs).list().expect("lists");
    list.iter().map(|info| info.number).collect()
}

#[test]
fn generations_share_tables_and_each_is_a_state_that_was() {
    for links in [true, false] {
        let vfs = SimVfs::new(1);
        vfs.allow_links(links);
        let db = open(&vfs, DIR);
        // Records that are put in order lie in the logs' file, which is copied.
        let all = (0..600).map(|number| (format!("k{number:04}"), [1; 60]));
        db.ingest(all).unwrap();
        let mut states = vec![contents(&db)];
        let first = db.backup(BACKUPS).unwrap();
        assert_eq!((first.number, first.bytes_shared), (1, 0));
        put(&db, 100..120, 2);
        db.settle_debt().unwrap();
        put(&db, 590..610, 3);
        states.push(contents(&db));
        let second = db.backup(BACKUPS).unwrap();
        assert_eq!(second.number, 2);
        if links {
            assert!(second.bytes_shared > second.bytes / 2, "{second:?}");
        } else {
            assert_eq!(second.bytes_shared, 0);
        }
        states.push(contents(&db));
        let third = db.backup(BACKUPS).unwrap();
        assert!(third.bytes_shared >= second.bytes_shared, "{third:?}");
        let listed = backups(&vfs).list().unwrap();
        assert_eq!(numbers(&vfs), [1, 2, 3]);
        assert_eq!(listed[1].bytes, second.bytes);
        assert_eq!(listed[1].bytes_shared, second.bytes_shared);
        // The source goes on.
        put(&db, 0..600, 9);
        db.settle_debt().unwrap();
        db.compact().unwrap();
        for (index, state) in states.iter().enumerate() {
            let number = Some(index as u64 + 1);
            assert_eq!(backups(&vfs).verify(number).unwrap(), index as u64 + 1);
            assert!(restored(&vfs, number).unwrap() == *state, "{number:?}");
        }
        assert_eq!(backups(&vfs).prune(2).unwrap(), 1);
        assert_eq!(numbers(&vfs), [2, 3]);
        assert!(restored(&vfs, Some(2)).unwrap() == states[1]);
        assert!(restored(&vfs, None).unwrap() == states[2]);
        let error = restored(&vfs, Some(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(backups(&vfs).prune(0).is_err());
        assert_eq!(db.backup(BACKUPS).unwrap().number, 4);
    }
}

/// Whether each backup of two databases that were one has the records of its own source.
fn lives_part(plant: Plant) -> bool {
    let vfs = SimVfs::new(2);
    let open = |vfs: &SimVfs, dir| options(vfs, plant).open(dir).expect("opens");
    let db = open(&vfs, DIR);
    put(&db, 0..300, 1);
    db.settle_debt().unwrap();
    db.backup(BACKUPS).unwrap();
    db.close().unwrap();
    backups(&vfs).restore(None, "/other").unwrap();
    // From here on both give out the same ids, also to tables of equal length.
    let (db, other) = (open(&vfs, DIR), open(&vfs, "/other"));
    for (db, value) in [(&db, 2), (&other, 3)] {
        let all = (300..900).map(|number| (format!("k{number:04}"), [value; 60]));
        db.ingest(all).unwrap();
    }
    db.backup(BACKUPS).unwrap();
    other.backup(BACKUPS).unwrap();
    let tables = |dir| {
        let names = vfs.file_names(Path::new(dir)).into_iter();
        let tables = names.filter(|name| name.ends_with(".sst"));
        tables.collect::<Vec<_>>()
    };
    let both = tables("/other");
    assert!(tables(DIR).iter().any(|name| both.contains(name)));
    let is_of = |number, db: &Db| restored(&vfs, Some(number)).is_ok_and(|map| map == contents(db));
    is_of(2, &db) && is_of(3, &other)
}

#[test]
fn a_restored_database_that_goes_on_backs_up_beside_its_origin() {
    assert!(lives_part(Plant::Nothing));
}

#[test]
fn p90_a_table_that_is_shared_by_its_name_is_noticed() {
    assert!(!lives_part(Plant::BackupSharesByName));
}

#[test]
fn damage_is_told_by_verify_and_by_restore() {
    let vfs = SimVfs::new(3);
    let db = open(&vfs, DIR);
    put(&db, 0..300, 1);
    db.settle_debt().unwrap();
    put(&db, 0..9, 2);
    db.backup(BACKUPS).unwrap();
    let dir = Path::new(BACKUPS).join("000001");
    for name in vfs.file_names(&dir) {
        if name == LOCK {
            continue;
        }
        let path = dir.join(&name);
        let bytes = vfs.read_file(&path);
        for at in [0, bytes.len() / 2, bytes.len() - 1] {
            let machine = vfs.fork_state();
            let file = machine.open(&path, true).unwrap();
            file.write_at(&[bytes[at] ^ 4], at as u64).unwrap();
            let error = backups(&machine).verify(None).unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported),
                "{name} {at}: {error}"
            );
            assert!(error.to_string().contains(&name), "{error}");
            let error = restored(&machine, None).unwrap_err();
            assert!(error.to_string().contains(&name), "{error}");
            assert!(!machine.exists(Path::new("/restored")).unwrap());
        }
        let machine = vfs.fork_state();
        machine.remove(&path).unwrap();
        assert!(backups(&machine).verify(None).is_err(), "without {name}");
    }
    let listed = vfs.fork_state();
    let file = listed.open(&dir.join(LIST), true).unwrap();
    file.write_at(&[0], 9).unwrap();
    assert!(backups(&listed).list().unwrap()[0].damage.is_some());
}

#[test]
fn a_directory_that_holds_something_is_refused() {
    let vfs = SimVfs::new(4);
    let db = open(&vfs, DIR);
    db.backup(BACKUPS).unwrap();
    let error = backups(&vfs).restore(None, DIR).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    put(&db, 0..3, 1);
    let error = Backups::at("/nowhere").vfs(Arc::new(vfs.clone())).list();
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NotFound);
}

/// A database with a backup of its first state, in its second state.
fn with_one_backup(vfs: &SimVfs, plant: Plant) -> (Db, Map, Map) {
    let db = options(vfs, plant).open(DIR).unwrap();
    put(&db, 0..200, 1);
    db.settle_debt().unwrap();
    let first = contents(&db);
    db.backup(BACKUPS).unwrap();
    put(&db, 150..260, 2);
    db.settle_debt().unwrap();
    put(&db, 3..9, 3);
    let second = contents(&db);
    (db, first, second)
}

/// The first backup is whole, and the second one is either whole or missing. Returns whether it is
/// there.
fn look(vfs: &SimVfs, first: &Map, second: &Map, place: &str) -> std::result::Result<bool, String> {
    let listed = numbers(vfs);
    let is_there = match listed[..] {
        [1] => false,
        [1, 2] => true,
        _ => return Err(format!("{place}: {listed:?}")),
    };
    for (number, state) in [(1, first), (2, second)] {
        if number == 2 && !is_there {
            break;
        }
        let verified = backups(vfs).verify(Some(number));
        verified.map_err(|error| format!("{place}: backup {number}: {error}"))?;
        let map = restored(vfs, Some(number));
        let map = map.map_err(|error| format!("{place}: restoring {number}: {error}"))?;
        if map != *state {
            return Err(format!("{place}: backup {number} is another state"));
        }
    }
    Ok(is_there)
}

/// Crashes at each operation of a second backup.
fn crash_everywhere(plant: Plant) -> std::result::Result<(u64, u64), String> {
    let (mut states, mut there) = (0, 0);
    for at in 0.. {
        let vfs = SimVfs::new(5);
        let (db, first, second) = with_one_backup(&vfs, plant);
        vfs.set_crash_at(vfs.op_count() + at);
        let done = db.backup(BACKUPS).is_ok() && !vfs.crashed();
        drop(db);
        for mode in [
            CrashMode::Process,
            CrashMode::PowerLossNothing,
            CrashMode::PowerLossAll,
            CrashMode::PowerLossRandom(at),
        ] {
            let place = format!("operation {at}, {mode:?}");
            let machine = vfs.crash(mode);
            let is_there = look(&machine, &first, &second, &place)?;
            if done && !is_there {
                return Err(format!("{place}: a backup that returned is gone"));
            }
            states += 1;
            there += u64::from(is_there);
            if at % 5 == 0 {
                // The next backup works: the remains are removed.
                let db = open(&machine, DIR);
                put(&db, 0..5, 7);
                let number = db
                    .backup(BACKUPS)
                    .map_err(|error| format!("{place}: {error}"))?;
                let map = restored(&machine, Some(number.number)).unwrap();
                if map != contents(&db) {
                    return Err(format!("{place}: the next backup is another state"));
                }
            }
        }
        if done {
            return Ok((states, there));
        }
    }
    unreachable!("a backup ends")
}

#[test]
fn a_backup_that_is_cut_off_leaves_those_before_whole() {
    let (states, there) = crash_everywhere(Plant::Nothing).unwrap();
    assert!(
        states > 100 && there >= 4 && there < states / 2,
        "{states} {there}"
    );
}

#[test]
fn p32_a_list_that_is_not_synced_is_noticed() {
    crash_everywhere(Plant::BackupNotSynced).unwrap_err();
}

#[test]
fn a_fault_is_typed_and_leaves_those_before_whole() {
    for at in 0.. {
        let vfs = SimVfs::new(6);
        let (db, first, second) = with_one_backup(&vfs, Plant::Nothing);
        vfs.inject(Fault {
            at,
            on: FaultOn::Change,
            kind: [FaultKind::Eio, FaultKind::NoSpace][(at % 2) as usize],
            sticky: false,
            path_contains: Some(BACKUPS.to_owned()),
        });
        let result = db.backup(BACKUPS);
        vfs.clear_faults();
        let place = format!("operation {at}");
        if let Err(error) = &result {
            let kind = error.kind();
            assert!(
                matches!(kind, ErrorKind::Io | ErrorKind::NoSpace),
                "{error}"
            );
        }
        let is_there = look(&vfs, &first, &second, &place).unwrap();
        assert!(is_there || result.is_err(), "{place}");
        db.put("goes on", "1").expect("it is not latched");
        db.backup(BACKUPS).expect("the next one");
        if result.is_ok() && at > 20 {
            return;
        }
    }
}

#[test]
fn prunings_that_are_cut_off_are_ended_later() {
    for at in 0.. {
        let vfs = SimVfs::new(7);
        let (db, _, second) = with_one_backup(&vfs, Plant::Nothing);
        db.backup(BACKUPS).unwrap();
        vfs.set_crash_at(vfs.op_count() + at);
        let done = backups(&vfs).prune(1).is_ok() && !vfs.crashed();
        drop(db);
        for mode in [CrashMode::Process, CrashMode::PowerLossRandom(at)] {
            let machine = vfs.crash(mode);
            for info in backups(&machine).list().unwrap() {
                assert_eq!(info.damage, None);
                backups(&machine).verify(Some(info.number)).expect("whole");
            }
            assert!(restored(&machine, Some(2)).unwrap() == second);
            backups(&machine).prune(1).unwrap();
            assert_eq!(numbers(&machine), [2]);
            assert!(!machine.exists(Path::new("/backups/000001")).unwrap());
        }
        if done {
            return;
        }
    }
}

#[test]
fn a_restoring_that_is_cut_off_leaves_no_database_or_all_of_it() {
    let vfs = SimVfs::new(9);
    let (db, first, _) = with_one_backup(&vfs, Plant::Nothing);
    drop(db);
    for at in 0.. {
        let machine = vfs.fork_state();
        machine.set_crash_at(machine.op_count() + at);
        let restored = backups(&machine).restore(Some(1), "/restored");
        let done = restored.is_ok() && !machine.crashed();
        let seeds = (0..24).map(|seed| CrashMode::PowerLossRandom(100 * at + seed));
        let modes = [CrashMode::Process, CrashMode::PowerLossNothing];
        for mode in modes.into_iter().chain(seeds) {
            let left = machine.fork_state().crash(mode);
            let options = options(&left, Plant::Nothing).create_if_missing(false);
            match options.open("/restored") {
                Ok(db) => assert!(contents(&db) == first, "operation {at}, {mode:?}"),
                Err(error) => {
                    let kind = error.kind();
                    assert_eq!(
                        kind,
                        ErrorKind::NotFound,
                        "operation {at}, {mode:?}: {error}"
                    );
                    assert!(!done, "operation {at}, {mode:?}: it is gone");
                }
            }
        }
        if done {
            assert!(at > 10, "{at} operations");
            return;
        }
    }
}

#[test]
fn records_that_do_not_ascend_are_no_export_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("files");
    for second in ["b", "a"] {
        let mut export = ExportWriter::create(&path).unwrap();
        export.put("b", "1").unwrap();
        let error = export.put(second, "2").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsorted);
        drop(export);
        assert!(!path.exists(), "the export had made it");
    }
    let mut export = ExportWriter::create(&path).unwrap();
    let long = vec![b'k'; 65_536];
    assert_eq!(
        export.put(&long, "").unwrap_err().kind(),
        ErrorKind::KeyTooLarge
    );
    export.put("", "of the empty key").unwrap();
    assert_eq!(export.finish().unwrap().records, 1);
    let error = ExportWriter::create(&path).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 2);
}

#[test]
fn an_export_is_imported_by_another_database() {
    let vfs = SimVfs::new(8);
    let db = open(&vfs, DIR);
    let many = db.keyspace("many").unwrap();
    for number in 0..3000 {
        many.put(format!("k{number:05}"), vec![number as u8; 40])
            .unwrap();
    }
    let exported = many.export("/files").unwrap();
    assert_eq!(exported.records, 3000);
    assert_eq!(
        many.export("/files").unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    let other = open(&vfs, "/other");
    let keyspace = other.keyspace("copy").unwrap();
    keyspace.put("k00001", "older").unwrap();
    keyspace.put("a", "stays").unwrap();
    assert_eq!(keyspace.import("/files").unwrap().records, 3000);
    assert_eq!(keyspace.iter().count(), 3001);
    assert_eq!(keyspace.get("k00001").unwrap().unwrap()[..], [1; 40]);
    assert_eq!(
        keyspace.import(DIR).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    // Damage of any file is noticed, and nothing of it is imported.
    let empty = other.keyspace("empty").unwrap();
    assert_eq!(empty.export("/nothing").unwrap().tables, 0);
    assert_eq!(empty.import("/nothing").unwrap().records, 0);
    for name in vfs.file_names(Path::new("/files")) {
        let path = Path::new("/files").join(&name);
        let bytes = vfs.read_file(&path);
        for at in [0, bytes.len() / 2, bytes.len() - 1] {
            let file = vfs.open(&path, true).unwrap();
            file.write_at(&[bytes[at] ^ 4], at as u64).unwrap();
            let error = empty.import("/files").unwrap_err();
            assert!(error.to_string().contains(&name), "{name} {at}: {error}");
            assert_eq!(empty.iter().count(), 0);
            file.write_at(&bytes[at..=at], at as u64).unwrap();
        }
    }
    // A failing disk leaves no part of an export.
    vfs.inject(Fault {
        at: 2,
        on: FaultOn::Change,
        kind: FaultKind::NoSpace,
        sticky: false,
        path_contains: Some("/again".to_owned()),
    });
    assert_eq!(
        many.export("/again").unwrap_err().kind(),
        ErrorKind::NoSpace
    );
    assert!(vfs.file_names(Path::new("/again")).is_empty());
}
