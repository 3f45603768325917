//! Encrypted databases: no plaintext can be found in any file, the key is asked for before anything
//! is touched, and bytes that somebody moved or made are refused.

#![cfg(feature = "encryption")]
#![expect(
    clippy::unwrap_used,
    reason = "tests, which fail where something is not as they expect"
)]

mod common;

use common::{DIR, scramble};
use evendb::inspect::{
    Dump, DumpItem, DumpOptions, InspectOptions, RepairOptions, dump, repair, verify,
};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{
    Backups, Db, Durability, ErrorKind, Key, KeyError, KeyProvider, KeyRing, KeyspaceOptions,
    Merges, Options,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// A text in every key, value, name and property of these tests.
const MARK: &[u8] = b"plaintext";

fn keys(byte: u8) -> Arc<KeyRing> {
    Arc::new(KeyRing::new(Key::new([byte; 32])))
}

fn plain_options(vfs: &SimVfs, level: Durability) -> Options {
    common::options()
        .memory_budget(1 << 20)
        .advanced(|advanced| {
            advanced
                .commit_log_bytes(64 << 10)
                .chunk_bytes(2048)
                .block_bytes(256)
                .keep_changes_bytes(64 << 10)
        })
        .durability(level)
        .workers(0)
        .vfs(Arc::new(vfs.clone()))
}

fn options(vfs: &SimVfs, level: Durability) -> Options {
    with(plain_options(vfs, level), 1)
}

fn with(options: Options, key: u8) -> Options {
    options.advanced(|advanced| advanced.encryption(keys(key)))
}

fn inspecting(vfs: &SimVfs, key: u8) -> InspectOptions<'static> {
    InspectOptions::new()
        .vfs(Arc::new(vfs.clone()))
        .encryption(keys(key))
}

/// Every file below `dir`, with its bytes.
fn files(vfs: &SimVfs, dir: &str) -> BTreeMap<String, Vec<u8>> {
    let names = vfs.file_names(Path::new(dir)).into_iter();
    let read = |name: String| {
        let bytes = vfs.read_file(&Path::new(dir).join(&name));
        (name, bytes)
    };
    names.map(read).collect()
}

/// The files that have the mark in them.
fn marked(files: &BTreeMap<String, Vec<u8>>) -> Vec<&str> {
    let has = |bytes: &[u8]| bytes.windows(MARK.len()).any(|window| window == MARK);
    let marked = files.iter().filter(|(_, bytes)| has(bytes));
    marked.map(|(name, _)| &**name).collect()
}

/// A value that begins with the mark, and repeats it.
fn value(number: u64, bytes: usize) -> Vec<u8> {
    let text = format!("plaintext {number} {} ", scramble(number));
    text.bytes().cycle().take(bytes.max(9)).collect()
}

fn key(number: u64) -> String {
    format!("plaintext key {:04}", number % 500)
}

/// Uses every call that puts bytes into files.
fn write_everything(db: &Db) -> evendb::Result<()> {
    let named = db.keyspace("plaintext name")?;
    named.set_property("plaintext property", "plaintext text")?;
    let merging = KeyspaceOptions::new().merge_operator(Merges::Append);
    let merging = db.keyspace_with("plaintext merges", &merging)?;
    let apart = KeyspaceOptions::new().values_apart_from(200);
    let apart = db.keyspace_with("plaintext apart", &apart)?;
    for number in 0..40 {
        apart.put(key(number), value(number, 300))?;
    }
    for number in 0..600 {
        db.put(key(scramble(number)), value(number, 60))?;
        if number % 7 == 0 {
            let mut batch = db.batch();
            batch.put(&named, key(number), value(number, 30));
            batch.delete(db.default_keyspace(), key(number + 1));
            batch.commit()?;
        }
        if number % 11 == 0 {
            merging.merge(key(number), "plaintext operand")?;
        }
        if number % 150 == 0 {
            db.delete_range(key(number)..key(number + 3))?;
        }
        if number % 100 == 99 {
            db.flush()?;
        }
    }
    // A value extent that a checkpoint takes into a table, and one that stays.
    db.put("plaintext large", value(1, 100_000))?;
    db.settle_debt()?;
    let mut ingest = named.begin_ingest()?;
    for number in 0..200 {
        ingest.put(format!("plaintext ingested {number:04}"), value(number, 50))?;
    }
    ingest.finish()?;
    let _ = db.range::<&[u8]>(..).count();
    for number in 0..40 {
        db.put(key(number), value(number, 80))?;
    }
    db.put("plaintext large too", value(2, 20_000))?;
    Ok(())
}

fn contents(db: &Db) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    for name in db.keyspace_names() {
        let keyspace = db.keyspace(&name).unwrap();
        for item in keyspace.range::<&[u8]>(..) {
            let (key, value) = item.unwrap();
            all.push((name.clone(), key.to_vec(), value.to_vec()));
        }
    }
    all
}

/// Parts of the names of all files that hold written data.
const KINDS: [&str; 7] = [
    "COMMIT-LOG",
    "CHUNK-LOGS",
    "MANIFEST-",
    ".sst",
    ".val",
    ".values",
    "CHANGES-",
];

const LEVELS: [Durability; 3] = [Durability::Relaxed, Durability::Process, Durability::Sync];

#[test]
fn nothing_that_was_written_can_be_found_in_any_file() {
    for level in LEVELS {
        let vfs = SimVfs::new(1);
        let db = options(&vfs, level).open(DIR).unwrap();
        write_everything(&db).unwrap();
        let written = contents(&db);
        assert!(written.len() > 500, "{}", written.len());
        // The files after the process's death, with the records that no checkpoint has.
        let killed = vfs.crash(CrashMode::Process);
        let found = files(&killed, DIR);
        assert_eq!(marked(&found), [""; 0], "{level:?}");
        for kind in KINDS.into_iter().chain(["KEYS"]) {
            let logged = !["COMMIT-LOG", ".val", "CHANGES-"].contains(&kind);
            let there = found.keys().any(|name| name.contains(kind));
            assert!(
                there || (level == Durability::Relaxed && !logged),
                "{kind} at {level:?}"
            );
        }
        drop(db);
        if level > Durability::Relaxed {
            let db = options(&killed, level).open(DIR).unwrap();
            assert_eq!(contents(&db), written, "{level:?}");
            db.close().unwrap();
            assert_eq!(marked(&files(&killed, DIR)), [""; 0], "{level:?}, closed");
            let report = verify(DIR, inspecting(&killed, 1)).unwrap();
            assert!(report.is_sound(), "{:?}", report.findings);
        }
    }
}

/// The search of the test above finds plaintext that is there.
#[test]
fn what_is_written_without_a_key_is_found() {
    let vfs = SimVfs::new(1);
    let db = plain_options(&vfs, Durability::Process).open(DIR).unwrap();
    write_everything(&db).unwrap();
    let found = files(&vfs, DIR);
    for kind in KINDS {
        let marked = marked(&found);
        assert!(marked.iter().any(|name| name.contains(kind)), "{kind}");
    }
}

#[test]
fn compressed_tables_are_encrypted_after_that() {
    let vfs = SimVfs::new(1);
    let lz4 = options(&vfs, Durability::Process).compression(evendb::Compression::Lz4);
    let db = lz4.clone().open(DIR).unwrap();
    write_everything(&db).unwrap();
    let written = contents(&db);
    db.close().unwrap();
    assert_eq!(marked(&files(&vfs, DIR)), [""; 0]);
    assert_eq!(contents(&lz4.open(DIR).unwrap()), written);
    assert!(verify(DIR, inspecting(&vfs, 1)).unwrap().is_sound());
}

/// On the system's files, with threads: `HEAT`, `STATS` and the mapped log too.
#[test]
fn files_of_a_database_with_threads_show_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        common::options()
            .memory_budget(4 << 20)
            .stats_interval(std::time::Duration::from_millis(1))
            .advanced(|advanced| advanced.encryption(keys(1)).chunk_bytes(64 << 10))
            .open(dir.path())
            .unwrap()
    };
    let mut rounds_with_heat = 0;
    // Which spans are hot at a closing depends on the progress of the threads: nearly all rounds
    // leave the file, and some do not.
    for round in 0..20 {
        if rounds_with_heat == 2 {
            return;
        }
        let db = open();
        write_everything(&db).unwrap();
        db.settle_debt().unwrap();
        for _ in 0..3 {
            let _ = db.range::<&[u8]>(..).count();
        }
        // Warm reopening has nothing left to load, so the close writes the hot spans.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let _ = db.get("plaintext").unwrap();
        db.close().unwrap();
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            found.insert(name, std::fs::read(entry.path()).unwrap());
        }
        assert_eq!(marked(&found), [""; 0], "round {round}");
        rounds_with_heat += u32::from(found.contains_key("HEAT"));
    }
    panic!("HEAT was there {rounds_with_heat} times in 20 rounds");
}

fn kind_of(opened: evendb::Result<Db>) -> ErrorKind {
    opened.map(|_| ()).unwrap_err().kind()
}

fn kinds_of_inspection(
    vfs: &SimVfs,
    given: impl Fn() -> InspectOptions<'static>,
) -> [ErrorKind; 3] {
    let mut stop = |_: DumpItem| ControlFlow::Break(());
    let dumped = dump(
        DIR,
        &Dump::Manifest,
        &DumpOptions::default(),
        given(),
        &mut stop,
    );
    let repaired = repair(DIR, "/repaired", RepairOptions::default(), given());
    assert!(vfs.file_names(Path::new("/repaired")).is_empty());
    [
        verify(DIR, given()).unwrap_err().kind(),
        dumped.unwrap_err().kind(),
        repaired.map(|_| ()).unwrap_err().kind(),
    ]
}

#[test]
fn another_key_is_refused_before_anything_is_touched() {
    for closed in [false, true] {
        let vfs = SimVfs::new(1);
        let db = options(&vfs, Durability::Process).open(DIR).unwrap();
        write_everything(&db).unwrap();
        match closed {
            true => db.close().unwrap(),
            false => std::mem::forget(db),
        }
        let vfs = vfs.crash(CrashMode::Process);
        let before = files(&vfs, DIR);
        let bare = || plain_options(&vfs, Durability::Process);
        for (opened, wanted) in [
            (with(bare(), 2), ErrorKind::WrongKey),
            (with(bare(), 2).read_only(true), ErrorKind::WrongKey),
            (bare(), ErrorKind::NeedsKey),
            (bare().read_only(true), ErrorKind::NeedsKey),
        ] {
            assert_eq!(kind_of(opened.open(DIR)), wanted);
            assert!(files(&vfs, DIR) == before, "files have changed: {wanted:?}");
        }
        let wrong = || inspecting(&vfs, 2);
        assert_eq!(kinds_of_inspection(&vfs, wrong), [ErrorKind::WrongKey; 3]);
        let none = || InspectOptions::new().vfs(Arc::new(vfs.clone()));
        assert_eq!(kinds_of_inspection(&vfs, none), [ErrorKind::NeedsKey; 3]);
        assert!(files(&vfs, DIR) == before, "files have changed");
        assert!(options(&vfs, Durability::Process).open(DIR).is_ok());
    }
}

#[test]
fn a_key_for_a_plain_database_is_refused_before_anything_is_touched() {
    let vfs = SimVfs::new(1);
    let db = plain_options(&vfs, Durability::Process).open(DIR).unwrap();
    write_everything(&db).unwrap();
    db.close().unwrap();
    let before = files(&vfs, DIR);
    let opened = options(&vfs, Durability::Process).open(DIR);
    assert_eq!(kind_of(opened), ErrorKind::NotEncrypted);
    let given = || inspecting(&vfs, 1);
    assert_eq!(
        kinds_of_inspection(&vfs, given),
        [ErrorKind::NotEncrypted; 3]
    );
    assert!(files(&vfs, DIR) == before, "files have changed");
    let db = plain_options(&vfs, Durability::Process).open(DIR).unwrap();
    assert_eq!(db.rotate_key().unwrap_err().kind(), ErrorKind::NotEncrypted);
}

/// A provider without a key, and one that fails.
struct Failing(bool);

impl KeyProvider for Failing {
    fn current(&self) -> Result<String, KeyError> {
        Ok("plaintext id".to_owned())
    }
    fn key(&self, _: &str) -> Result<Option<Key>, KeyError> {
        match self.0 {
            true => Err("the key server does not answer".into()),
            false => Ok(None),
        }
    }
}

#[test]
fn a_provider_that_fails_creates_and_touches_nothing() {
    let vfs = SimVfs::new(1);
    let bare = || plain_options(&vfs, Durability::Process);
    let failing = |fails: bool| {
        let keys = Arc::new(Failing(fails));
        bare().advanced(|advanced| advanced.encryption(keys))
    };
    assert_eq!(kind_of(failing(true).open(DIR)), ErrorKind::NeedsKey);
    assert_eq!(kind_of(failing(false).open(DIR)), ErrorKind::WrongKey);
    assert!(files(&vfs, DIR).is_empty(), "{:?}", files(&vfs, DIR).keys());
    options(&vfs, Durability::Process)
        .open(DIR)
        .unwrap()
        .close()
        .unwrap();
    let before = files(&vfs, DIR);
    let error = failing(true).open(DIR).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NeedsKey);
    assert!(error.to_string().contains("does not answer"), "{error}");
    assert!(files(&vfs, DIR) == before, "files have changed");
}

#[test]
fn a_changed_key_opens_and_the_one_before_does_not() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs, Durability::Process).open(DIR).unwrap();
    write_everything(&db).unwrap();
    let written = contents(&db);
    db.close().unwrap();
    let before = files(&vfs, DIR);
    let both = KeyRing::new(Key::new([2; 32])).with_former(Key::new([1; 32]));
    let bare = || plain_options(&vfs, Durability::Process);
    let db = bare().advanced(|advanced| advanced.encryption(Arc::new(both)));
    let db = db.open(DIR).unwrap();
    db.rotate_key().unwrap();
    db.close().unwrap();
    assert!(files(&vfs, DIR)["KEYS"] != before["KEYS"]);
    assert_eq!(kind_of(with(bare(), 1).open(DIR)), ErrorKind::WrongKey);
    let db = with(bare(), 2).open(DIR).unwrap();
    assert_eq!(contents(&db), written);
}

/// Every operation of a change of the key at which power may fail: one of the two keys opens it.
#[test]
fn a_crash_while_the_key_changes_leaves_one_that_opens() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs, Durability::Sync).open(DIR).unwrap();
    db.put("plaintext", "plaintext").unwrap();
    db.close().unwrap();
    let mut opened_by = [0, 0];
    for at in 0..60 {
        let machine = vfs.fork_state();
        let both = KeyRing::new(Key::new([2; 32])).with_former(Key::new([1; 32]));
        let bare = plain_options(&machine, Durability::Sync);
        let db = bare.advanced(|advanced| advanced.encryption(Arc::new(both)));
        let Ok(db) = db.open(DIR) else { continue };
        machine.set_crash_at(machine.op_count() + at);
        let _ = db.rotate_key();
        drop(db);
        let after = machine.crash(CrashMode::PowerLossRandom(at));
        let of = |key| with(plain_options(&after, Durability::Sync), key).open(DIR);
        let opened = [1, 2].map(|key| match of(key) {
            Ok(db) => {
                assert_eq!(db.get("plaintext").unwrap().unwrap(), "plaintext");
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WrongKey, "{error}");
                false
            }
        });
        assert_ne!(opened[0], opened[1], "at {at}");
        opened_by[usize::from(opened[1])] += 1;
    }
    assert!(opened_by[0] > 0 && opened_by[1] > 0, "{opened_by:?}");
}

#[test]
fn copies_and_backups_are_encrypted_and_open_by_the_same_key() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs, Durability::Process).open(DIR).unwrap();
    write_everything(&db).unwrap();
    let written = contents(&db);
    db.copy_to("/copy").unwrap();
    db.backup("/backups").unwrap();
    db.put("plaintext more", "plaintext").unwrap();
    db.backup("/backups").unwrap();
    let backups = Backups::at("/backups").vfs(Arc::new(vfs.clone()));
    backups.verify(Some(1)).unwrap();
    backups.restore(Some(1), "/restored").unwrap();
    backups.prune(1).unwrap();
    for dir in ["/copy", "/restored", "/backups/000002"] {
        let found = files(&vfs, dir);
        assert!(found.contains_key("KEYS"), "{dir}");
        assert_eq!(marked(&found), [""; 0], "{dir}");
        let bare = || plain_options(&vfs, Durability::Process);
        let read = bare().read_only(true).open(dir);
        assert_eq!(kind_of(read), ErrorKind::NeedsKey, "{dir}");
        if dir != "/backups/000002" {
            let copy = with(bare(), 1).open(dir).unwrap();
            assert_eq!(contents(&copy), written, "{dir}");
            // The two continue separately.
            copy.put("plaintext apart", value(3, 500)).unwrap();
            copy.close().unwrap();
            assert_eq!(marked(&files(&vfs, dir)), [""; 0], "{dir}");
        }
    }
}

/// An export is plain; it is the way from a plain database to an encrypted one, and back.
#[test]
fn an_export_is_plain_and_comes_in_encrypted() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs, Durability::Process).open(DIR).unwrap();
    write_everything(&db).unwrap();
    db.default_keyspace().export("/export").unwrap();
    assert!(!marked(&files(&vfs, "/export")).is_empty());
    let plain = plain_options(&vfs, Durability::Process)
        .open("/plain")
        .unwrap();
    plain.default_keyspace().import("/export").unwrap();
    let other = with(plain_options(&vfs, Durability::Process), 3);
    let other = other.open("/other").unwrap();
    other.default_keyspace().import("/export").unwrap();
    let wanted: Vec<_> = db
        .range::<&[u8]>(..)
        .map(|item| item.unwrap().0.to_vec())
        .collect();
    for imported in [plain, other] {
        let keys = imported
            .range::<&[u8]>(..)
            .map(|item| item.unwrap().0.to_vec());
        assert!(keys.collect::<Vec<_>>() == wanted);
    }
    assert_eq!(marked(&files(&vfs, "/other")), [""; 0]);
}

#[test]
fn changes_are_read_back() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs, Durability::Process).open(DIR).unwrap();
    let begin = db.oldest_position().unwrap();
    for number in 0..300 {
        db.put(key(number), value(number, 100)).unwrap();
        if number % 90 == 89 {
            db.flush().unwrap();
        }
    }
    let mut seen = 0;
    for change in db.changes_since(&begin).unwrap() {
        for write in change.unwrap().writes() {
            assert_eq!(write.key, key(seen).as_bytes());
            assert_eq!(write.value, Some(&*value(seen, 100)));
            seen += 1;
        }
    }
    assert_eq!(seen, 300);
}

#[test]
fn repair_saves_into_an_encrypted_database() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs, Durability::Process).open(DIR).unwrap();
    write_everything(&db).unwrap();
    let written = contents(&db);
    db.close().unwrap();
    vfs.remove_file(&Path::new(DIR).join("CURRENT"));
    repair(
        DIR,
        "/repaired",
        RepairOptions::default(),
        inspecting(&vfs, 1),
    )
    .unwrap();
    assert_eq!(marked(&files(&vfs, "/repaired")), [""; 0]);
    let repaired = with(plain_options(&vfs, Durability::Process), 1);
    let repaired = repaired.open("/repaired").unwrap();
    assert_eq!(contents(&repaired).len(), written.len());
}

/// Records that no checkpoint has, and a value extent, are saved too.
#[test]
fn repair_reads_the_commit_log_of_a_killed_database() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs, Durability::Process).open(DIR).unwrap();
    write_everything(&db).unwrap();
    let written = contents(&db);
    let killed = vfs.crash(CrashMode::Process);
    let repaired = repair(
        DIR,
        "/repaired",
        RepairOptions::default(),
        inspecting(&killed, 1),
    );
    let repaired = repaired.unwrap();
    assert!(repaired.is_complete(), "{:?}", repaired.losses);
    assert_eq!(marked(&files(&killed, "/repaired")), [""; 0]);
    let repaired = with(plain_options(&killed, Durability::Process), 1);
    assert!(contents(&repaired.open("/repaired").unwrap()) == written);
    let report = verify(DIR, inspecting(&killed, 1)).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    assert!(report.checked.value_extents > 0);
    let mut records = 0;
    let mut count = |item: DumpItem| {
        records += u64::from(item.kind == "log-record");
        assert_ne!(item.kind, "damage");
        ControlFlow::Continue(())
    };
    let all = DumpOptions::default();
    for what in [Dump::CommitLog, Dump::Manifest, Dump::KeptChanges] {
        dump(DIR, &what, &all, inspecting(&killed, 1), &mut count).unwrap();
    }
    assert!(records > 0);
}

/// Reads everything, and returns whether anything was refused; no value may differ from the written
/// one.
fn is_refused(vfs: &SimVfs, written: &[(String, Vec<u8>, Vec<u8>)]) -> bool {
    let db = match options(vfs, Durability::Process).open(DIR) {
        Ok(db) => db,
        Err(error) => {
            let told = [
                ErrorKind::Corruption,
                ErrorKind::Unsupported,
                ErrorKind::NeedsKey,
            ];
            assert!(told.contains(&error.kind()), "{error}");
            return true;
        }
    };
    let mut refused = false;
    for (name, key, value) in written {
        match db.keyspace(name).and_then(|keyspace| keyspace.get(key)) {
            Ok(found) => {
                let found = found.map(|found| found.to_vec());
                assert!(
                    refused || found.as_ref() == Some(value),
                    "another value of {key:?}"
                );
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                refused = true;
            }
        }
    }
    refused
}

/// A table's file of another database that has the same key, and of the same database under another
/// name.
#[test]
fn tables_of_other_databases_and_places_are_refused() {
    let make = |vfs: &SimVfs, dir: &str| {
        let db = options(vfs, Durability::Process).open(dir).unwrap();
        for name in 0..4 {
            let records = (0..100).map(|number| (key(number), value(number + name, 60)));
            let keyspace = db.keyspace(&format!("plaintext {name}")).unwrap();
            keyspace.ingest(records).unwrap();
        }
        let written = contents(&db);
        db.close().unwrap();
        written
    };
    let vfs = SimVfs::new(1);
    let written = make(&vfs, DIR);
    make(&vfs, "/other");
    let tables = |dir: &str| {
        let mut names = vfs.file_names(Path::new(dir));
        names.retain(|name| name.ends_with(".sst"));
        names
    };
    let (own, others) = (tables(DIR), tables("/other"));
    // The same writes in the same order give common names, but other bytes.
    let common = own.iter().filter(|name| others.contains(name)).count();
    assert!(own.len() > 1 && common > 0, "{own:?}, {others:?}");
    assert!(!is_refused(&vfs.fork_state(), &written));
    for (name, next) in own.iter().zip(&own[1..]) {
        let place = Path::new(DIR).join(name);
        for from in [Path::new("/other").join(name), Path::new(DIR).join(next)] {
            if from.starts_with("/other") && !others.contains(name) {
                continue;
            }
            let moved = vfs.fork_state();
            assert!(moved.read_file(&from) != moved.read_file(&place));
            moved.write_file(&place, moved.read_file(&from));
            assert!(
                is_refused(&moved, &written),
                "{name} from {}",
                from.display()
            );
        }
    }
    // The other database's container, manifest and logs.
    for name in ["CHUNK-LOGS", "MANIFEST-000001", "COMMIT-LOG", "KEYS"] {
        let moved = vfs.fork_state();
        let from = Path::new("/other").join(name);
        if moved.read_file(&from).iter().any(|byte| *byte != 0) {
            moved.write_file(&Path::new(DIR).join(name), moved.read_file(&from));
            let _ = is_refused(&moved, &written);
        }
    }
}

/// Any bit of the file of keys: it is reported as damage, and not as a wrong key, except in the
/// bytes of the key's id.
#[test]
fn a_damaged_file_of_keys_is_corruption() {
    let vfs = SimVfs::new(1);
    options(&vfs, Durability::Process)
        .open(DIR)
        .unwrap()
        .close()
        .unwrap();
    let path = Path::new(DIR).join("KEYS");
    let bytes = vfs.read_file(&path);
    let open = |bytes: Vec<u8>| {
        vfs.write_file(&path, bytes);
        options(&vfs, Durability::Process).open(DIR)
    };
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let kind = kind_of(open(bad));
        let wanted = match bit / 8 {
            7 => ErrorKind::Unsupported,
            _ => ErrorKind::Corruption,
        };
        assert_eq!(kind, wanted, "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert_eq!(
            kind_of(open(bytes[..len].to_vec())),
            ErrorKind::Corruption,
            "length {len}"
        );
    }
    assert!(open(bytes).is_ok());
}

#[test]
fn keys_are_in_no_text() {
    let key = Key::new([0xab; 32]);
    let ring = KeyRing::new(key.clone()).with_former(Key::new([0xcd; 32]));
    let options =
        common::options().advanced(|advanced| advanced.encryption(Arc::new(ring.clone())));
    for text in [
        format!("{key:?}"),
        format!("{ring:?}"),
        format!("{options:?}"),
    ] {
        let text = text.to_lowercase();
        for shown in ["171", "205", "ab, ", "abab", "cdcd"] {
            assert!(!text.contains(shown), "{text}");
        }
    }
}
