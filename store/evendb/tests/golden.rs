//! Whole databases, as bytes, that every later version must open and read: one for each format
//! version from 2 on. One of version 1, which was never released, is refused by its version's
//! number.
//!
//! `tests/golden/database_v2.txt` holds the files of a database whose process was killed: tables of
//! both kinds, a commit log that is still needed, a value extent. The form of the text is that of
//! `common/dumped.rs`. From version 3 on a database has range deletions as well, in its manifest
//! and in its commit log; from version 4 on records that expire and single deletes, in tables and
//! in its commit log; from version 5 on separately stored values, which tables and its commit log
//! name; from version 7 on a keyspace of guards.
//!
//! If the format changes on purpose, its version does too, and `EVENDB_BLESS=1 cargo test -p evendb
//! --test golden` adds the database of the new version. It never replaces an existing one: that one
//! shows that databases of the past can be read.

mod common;
#[path = "golden/contents.rs"]
mod contents;

use common::dumped::{dump, load};
use common::oracle::Map;
use common::oracle::contents as contents_of;
use common::{DIR, flag_from_env, on_sim};
use contents::{GUARDS, STAYS_SECONDS, apart, entries, expected, guarded_part};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Db, Durability, ErrorKind, KeyspaceOptions, Layout, Options};
#[cfg(feature = "encryption")]
use evendb::{Key, KeyRing};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
#[cfg(feature = "encryption")]
use std::sync::Arc;
use std::time::{Duration, SystemTime};

fn write_part(db: &Db, part: u32) {
    for (name, key, value) in entries(part) {
        let keyspace = db.keyspace(name).expect("creates");
        match value {
            Some(value) => keyspace.put(key, value).expect("puts"),
            None => keyspace.delete(key).expect("deletes"),
        }
    }
}

fn write_guarded(db: &Db, part: u32) {
    let keyspace = db.keyspace(GUARDS).expect("is there");
    for (key, value) in guarded_part(part) {
        keyspace.put(key, value).expect("puts");
    }
}

/// Some keys that are all deleted again.
fn write_gone(db: &Db) {
    for number in 0..5 {
        db.put(format!("gone/{number}"), "x").expect("puts");
    }
}

/// A value that stays for some thousand years, an expired one, and a single delete of a key that
/// was put before.
fn write_expiring(db: &Db, place: &str) {
    let keyspace = db.default_keyspace();
    let far = SystemTime::UNIX_EPOCH + Duration::from_secs(STAYS_SECONDS);
    let put = |key: String, value, at| keyspace.put_expiring_at(key, value, at).expect("puts");
    put(format!("until/{place}"), "stays", far);
    put(format!("past/{place}"), "gone", SystemTime::UNIX_EPOCH);
    let deleted = keyspace.single_delete(format!("single/{place}"));
    deleted.expect("deletes");
}

/// The files of a database made by the fixed workload.
fn make() -> SimVfs {
    make_by(&on_sim)
}

/// Options of tests, for a database on the simulated disk.
type OptionsOf<'a> = &'a dyn Fn(&SimVfs, Durability, usize) -> Options;

fn make_by(options: OptionsOf<'_>) -> SimVfs {
    let vfs = SimVfs::new(1);
    // Larger than all other values, except those of value extents.
    let db = options(&vfs, Durability::Process, 0)
        .advanced(|advanced| advanced.values_apart_from(Some(600)))
        .advanced(|advanced| advanced.guards(|guards| guards.last_guard_bytes(200)))
        .open(DIR)
        .expect("opens");
    let never = KeyspaceOptions::new().values_apart_from(u32::MAX);
    db.keyspace_with("other", &never).expect("creates");
    let guards = KeyspaceOptions::new()
        .layout(Layout::Guards)
        .values_apart_from(u32::MAX);
    db.keyspace_with(GUARDS, &guards).expect("creates");
    let [in_table, in_log] = apart();
    db.put(in_table.0, in_table.1).expect("puts");
    // Twice, so that there is something to merge.
    write_part(&db, 0);
    db.flush().expect("a checkpoint");
    write_part(&db, 0);
    write_guarded(&db, 0);
    db.flush().expect("a checkpoint");
    db.keyspace(GUARDS)
        .and_then(|guards| guards.compact())
        .expect("compacts");
    db.settle_debt().expect("settles");
    for place in ["in a table", "in the log"] {
        db.put(format!("single/{place}"), "gone").expect("puts");
    }
    db.flush().expect("a checkpoint");
    write_guarded(&db, 1);
    write_part(&db, 1);
    write_gone(&db);
    write_expiring(&db, "in a table");
    db.flush().expect("a checkpoint");
    // One in the manifest, over a run; and one in the commit log.
    db.delete_prefix("gone/").expect("deletes");
    db.flush().expect("a checkpoint");
    write_part(&db, 2);
    write_gone(&db);
    db.delete_range("gone/".."gone/9").expect("deletes");
    write_expiring(&db, "in the log");
    db.put(in_log.0, in_log.1).expect("puts");
    write_guarded(&db, 2);
    let machine = vfs.crash(CrashMode::Process);
    drop(db);
    machine
}

/// The format version of a database: the last byte of the magic number of its `CURRENT`.
fn version_of(vfs: &SimVfs) -> char {
    char::from(vfs.read_file(&Path::new(DIR).join("CURRENT"))[7])
}

fn kept_databases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Adds the database that this build makes to those in `dir`. Returns whether there was none of its
/// version.
fn bless(dir: &Path) -> bool {
    bless_made(dir, "database", &make())
}

fn bless_made(dir: &Path, name: &str, made: &SimVfs) -> bool {
    let path = dir.join(format!("{name}_v{}.txt", version_of(made)));
    match File::create_new(&path) {
        Ok(mut file) => {
            let version = version_of(made);
            let head = format!("A database of format version {version}; see tests/golden.rs.");
            let written = file.write_all(dump(made, DIR, &head).as_bytes());
            written.expect("writes the database");
            true
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

fn check(vfs: &SimVfs, version: char, read_only: bool) {
    check_by(&on_sim, vfs, version, read_only);
}

fn check_by(options: OptionsOf<'_>, vfs: &SimVfs, version: char, read_only: bool) {
    let options = options(vfs, Durability::Process, 0).create_if_missing(false);
    let db = options.read_only(read_only).open(DIR).expect("opens");
    let expected = expected(version);
    assert!(db.keyspace_names().iter().eq(expected.keys()));
    for (name, map) in expected {
        assert!(contents_of(&db, name).expect("reads") == map, "{name}");
        let keyspace = db.keyspace(name).expect("is there");
        for (key, value) in &map {
            assert_eq!(
                keyspace.get(key).expect("gets").as_deref(),
                Some(&value[..])
            );
        }
    }
    assert_eq!(db.get("key0050").expect("gets"), None);
    if !read_only {
        db.settle_debt().expect("settles");
        db.close().expect("closes");
    }
}

/// The bytes of annotated hex: the part before `#` in each line.
fn bytes_of(text: &str) -> Vec<u8> {
    text.lines()
        .flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace())
        .map(|hex| u8::from_str_radix(hex, 16).expect("hex"))
        .collect()
}

/// The operations of one batch before the long value, in the order of keyspace and key.
const OPERATIONS: &str = "
01                          # u8 kind: put
00 00 00 00                 # u32 keyspace 0, default
01 00 00 00                 # u32 length of the key
02 00 00 00                 # u32 length of the value
61 76 31                    # key a, value v1
00                          # u8 kind: delete
00 00 00 00                 # u32 keyspace 0
04 00 00 00                 # u32 length of the key
00 00 00 00                 # u32 length of the value
67 6f 6e 65                 # key gone
01                          # u8 kind: put
01 00 00 00                 # u32 keyspace 1, other
01 00 00 00                 # u32 length of the key
LENGTH                      # u32 length of the value
6b                          # key k
";

/// The operation behind the long value.
const LAST_OPERATION: &str = "
01 01 00 00 00              # put, keyspace 1
01 00 00 00 01 00 00 00     # lengths of key and value
7a 21                       # key z, value !
";

/// Writes the batch of [`OPERATIONS`] and [`LAST_OPERATION`], kills the process; returns the disk
/// and these bytes.
fn one_batch(level: Durability, long: &[u8]) -> (SimVfs, Vec<u8>) {
    let len = (long.len() as u32)
        .to_le_bytes()
        .map(|b| format!("{b:02x}"));
    let mut bytes = bytes_of(&OPERATIONS.replace("LENGTH", &len.join(" ")));
    bytes.extend_from_slice(long);
    bytes.extend(bytes_of(LAST_OPERATION));
    let vfs = SimVfs::new(1);
    let options = on_sim(&vfs, level, 0).memory_budget(4 << 20);
    let db = options.open(DIR).expect("opens");
    let (default, other) = (
        db.default_keyspace(),
        db.keyspace("other").expect("creates"),
    );
    let mut batch = db.batch();
    batch.put(&other, "z", "!").put(&other, "k", long);
    batch.delete(default, "gone").put(default, "a", "v1");
    batch.commit().expect("commits");
    let machine = vfs.crash(CrashMode::Process);
    drop(db);
    (machine, bytes)
}

/// The only file whose name has this end.
fn only_file(vfs: &SimVfs, end: &str) -> Option<(String, Vec<u8>)> {
    let names = vfs.file_names(Path::new(DIR));
    let mut names = names.into_iter().filter(|name| name.ends_with(end));
    let name = names.next()?;
    assert_eq!(names.next(), None);
    let bytes = vfs.read_file(&Path::new(DIR).join(&name));
    Some((name, bytes))
}

fn reads_one_batch(vfs: &SimVfs, long: &[u8]) {
    let db = on_sim(vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    let wanted = |pairs: &[(&str, &[u8])]| -> Map {
        let pair = |&(key, value): &(&str, &[u8])| (key.into(), value.to_vec());
        pairs.iter().map(pair).collect()
    };
    assert!(contents_of(&db, "default").expect("reads") == wanted(&[("a", b"v1")]));
    let other = wanted(&[("k", long), ("z", b"!")]);
    assert!(contents_of(&db, "other").expect("reads") == other);
}

#[test]
fn a_batch_in_the_commit_log() {
    let long = [0xab; 3];
    let (vfs, bytes) = one_batch(Durability::Process, &long);
    assert_eq!(only_file(&vfs, ".val"), None);
    let (_, log) = only_file(&vfs, "COMMIT-LOG").expect("is there");
    // Behind the header of the log's first record.
    assert_eq!(log[40..40 + bytes.len()], bytes);
    reads_one_batch(&vfs, &long);
}

/// A value extent has the bytes that the commit log would have. Its checksum continues over the
/// pieces in which it was written: the records before the long value, that value, and the rest.
fn check_value_extent(level: Durability, name_in_log: &str) {
    let long = vec![0xab; (256 << 10) + 3];
    let (vfs, bytes) = one_batch(level, &long);
    let (name, extent) = only_file(&vfs, ".val").expect("is there");
    assert_eq!(name, "0000000100000002.val");
    assert!(extent == bytes, "{} bytes", extent.len());
    let (_, log) = only_file(&vfs, "COMMIT-LOG").expect("is there");
    assert_eq!(log[40..61], bytes_of(name_in_log));
    // A changed bit of any piece is noticed.
    for at in [5, 1 << 10, 200 << 10, extent.len() - 1] {
        let damaged = vfs.fork_state();
        let mut bytes = extent.clone();
        bytes[at] ^= 1;
        damaged.write_file(&Path::new(DIR).join(&name), bytes);
        let options = on_sim(&damaged, Durability::Process, 0);
        let refused = options.open(DIR).expect_err("a bit is wrong");
        assert_eq!(refused.kind(), ErrorKind::Corruption, "{at}: {refused}");
    }
    reads_one_batch(&vfs, &long);
}

#[test]
fn a_value_extent_that_was_synced_first() {
    check_value_extent(Durability::Sync, &format!("ff {EXTENT_NAME}"));
}

#[test]
fn a_value_extent_that_was_not() {
    check_value_extent(Durability::Process, &format!("fe {EXTENT_NAME}"));
}

/// The extent's name in the commit log, behind the byte of its kind: 0xff if the extent was synced
/// before the record was written, 0xfe if not.
const EXTENT_NAME: &str = "
02 00 00 00 01 00 00 00     # u64 file: 0000000100000002.val
41 00 04 00 00 00 00 00     # u64 length of the file
b5 d8 47 f2                 # u32 crc32c of its contents, begun with the file's number
";

#[test]
fn version_1_is_refused() {
    let vfs = load(include_str!("golden/database_v1.txt"), DIR);
    for read_only in [true, false] {
        let options = on_sim(&vfs, Durability::Process, 0).read_only(read_only);
        let refused = options
            .open(DIR)
            .expect_err("its commit log cannot be read");
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    }
}

/// The databases from version 2 to the version of this build; each must be there.
#[test]
fn every_kept_database_opens() {
    if flag_from_env("EVENDB_BLESS") {
        bless(&kept_databases());
    }
    // Only encrypted databases had version 6.
    for version in ('2'..=version_of(&make())).filter(|&version| version != '6') {
        let path = kept_databases().join(format!("database_v{version}.txt"));
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}; EVENDB_BLESS=1 adds it", path.display()));
        kept_database_opens(version, &text);
    }
}

/// The encrypted databases of version 5, in which separately stored values had their offsets as
/// nonces, and of later versions.
#[cfg(feature = "encryption")]
#[test]
fn every_kept_encrypted_database_opens_and_is_raised_to_this_version() {
    let keys = || Arc::new(KeyRing::new(Key::new([7; 32])));
    let options = |vfs: &SimVfs, level, workers| {
        on_sim(vfs, level, workers).advanced(|advanced| advanced.encryption(keys()))
    };
    let made = make_by(&options);
    if flag_from_env("EVENDB_BLESS") {
        bless_made(&kept_databases(), "encrypted", &made);
    }
    for version in '5'..=version_of(&made) {
        let path = kept_databases().join(format!("encrypted_v{version}.txt"));
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}; EVENDB_BLESS=1 adds it", path.display()));
        let vfs = load(&text, DIR);
        assert_eq!(version_of(&vfs), version);
        check_by(&options, &vfs, version, true);
        assert_eq!(version_of(&vfs), version);
        for _ in 0..2 {
            check_by(&options, &vfs, version, false);
            assert_eq!(version_of(&vfs), version_of(&made));
        }
        // All values are moved into a file of this version, and read from there.
        let moving = options(&vfs, Durability::Process, 0)
            .advanced(|advanced| advanced.value_file_live_percent(90));
        let db = moving.open(DIR).expect("opens");
        let names = || {
            let mut names = vfs.file_names(Path::new(DIR));
            names.retain(|name| name.ends_with(".values"));
            names
        };
        let before = names();
        db.delete(apart()[0].0.as_bytes()).expect("deletes");
        let [in_table, _] = apart();
        db.put(in_table.0, in_table.1).expect("puts");
        db.compact().expect("compacts");
        db.close().expect("closes");
        assert!(before.iter().all(|name| !names().contains(name)));
        check_by(&options, &vfs, version, true);
    }
}

fn kept_database_opens(version: char, text: &str) {
    for wanted in [
        "CURRENT",
        "MANIFEST-",
        "COMMIT-LOG",
        "CHUNK-LOGS",
        ".sst",
        ".val",
    ] {
        let has = |line: &str| line.starts_with("file ") && line.contains(wanted);
        assert!(text.lines().any(has), "no {wanted}");
    }
    let vfs = load(text, DIR);
    assert_eq!(version_of(&vfs), version);
    check(&vfs, version, true);
    check(&vfs, version, false);
    check(&vfs, version, false);
}

#[test]
fn blessing_adds_what_is_missing_and_changes_nothing_that_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(bless(dir.path()));
    let version = version_of(&make());
    let path = dir.path().join(format!("database_v{version}.txt"));
    let made = std::fs::read_to_string(&path).expect("is there");
    kept_database_opens(version, &made);
    std::fs::write(&path, "kept from the past").expect("writes");
    assert!(!bless(dir.path()));
    assert_eq!(
        std::fs::read_to_string(&path).expect("is there"),
        "kept from the past"
    );
}

/// Databases made today are read today, so the fixture's workload makes the expected contents.
#[test]
fn the_workload_gives_the_contents() {
    let vfs = make();
    let copy = load(&dump(&vfs, DIR, "made today"), DIR);
    for name in vfs.file_names(Path::new(DIR)) {
        let path = Path::new(DIR).join(name);
        assert!(
            vfs.read_file(&path) == copy.read_file(&path),
            "{}",
            path.display()
        );
    }
    check(&vfs, version_of(&vfs), false);
}
