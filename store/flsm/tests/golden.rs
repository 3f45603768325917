//! A whole database, as bytes, that every later version must open and read: one for each format
//! version.
//!
//! `tests/golden/database_v1.txt` holds the files of a database whose process was killed: tables of
//! level 0 and of deeper levels, of two keyspaces, guards, deletes over older records, and a log
//! that is still needed. The text has the form of `common/dumped.rs`.
//!
//! If the format changes on purpose, its version must change too. Then
//! `EVENDB_BLESS=1 cargo test -p evendb-flsm --test golden` adds the database of the new version.
//! It never overwrites an existing one: that one shows that databases of the past can be read.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;
#[path = "golden/contents.rs"]
mod contents;

use common::dumped::{dump, load};
use common::{DIR, flag_from_env};
use contents::{entries, expected};
use evendb_flsm::vfs::{CrashMode, SimVfs};
use evendb_flsm::{Compression, Db, Options};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn options(vfs: &SimVfs) -> Options {
    Options::new()
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(1 << 20)
        .advanced(|advanced| {
            advanced
                .last_guard_bytes(100)
                .block_bytes(128)
                .compression(Compression::Lz4)
        })
}

/// A part of several records is one batch.
fn write_part(db: &Db, part: u32) {
    let mut batch = db.batch();
    for (name, key, value) in entries(part) {
        let keyspace = db.keyspace(name).unwrap();
        match value {
            Some(value) => batch.put(&keyspace, key, value),
            None => batch.delete(&keyspace, key),
        };
    }
    batch.commit().unwrap();
}

/// The files of a database made by the fixed workload.
fn make() -> SimVfs {
    let vfs = SimVfs::new(1);
    // Each flush goes down at once.
    let eager = options(&vfs).advanced(|advanced| advanced.level0_tables(1, 2, 3));
    let db = eager.open(DIR).unwrap();
    for part in 0..2 {
        write_part(&db, part);
        db.settle_debt().unwrap();
    }
    db.close().unwrap();
    let db = options(&vfs).open(DIR).unwrap();
    for part in 2..4 {
        write_part(&db, part);
        db.flush().unwrap();
    }
    write_part(&db, 4);
    let machine = vfs.crash(CrashMode::Process);
    drop(db);
    machine
}

/// The format version of a database, from its `CURRENT`.
fn version_of(vfs: &SimVfs) -> u32 {
    let current = vfs.read_file(&Path::new(DIR).join("CURRENT"));
    u32::from_le_bytes(current[8..12].try_into().unwrap())
}

fn kept(dir: &Path, version: u32) -> PathBuf {
    dir.join(format!("database_v{version}.txt"))
}

fn kept_databases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Adds the database that this build makes to the databases in `dir`. Returns whether its version
/// was missing there.
fn bless(dir: &Path) -> bool {
    let made = make();
    let version = version_of(&made);
    match File::create_new(kept(dir, version)) {
        Ok(mut file) => {
            let head = format!("A database of format version {version}; see tests/golden.rs.");
            let text = dump(&made, DIR, &head);
            file.write_all(text.as_bytes()).unwrap();
            true
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
        Err(error) => panic!("{error}"),
    }
}

/// Opens it and compares everything, and does the same once more after settling it.
fn check(vfs: &SimVfs) {
    for is_settled in [false, true] {
        let db = options(vfs).open(DIR).unwrap();
        assert_eq!(db.keyspace_names(), ["default", "other"]);
        for (name, map) in expected() {
            let keyspace = db.keyspace(name).unwrap();
            let pairs = keyspace.iter().map(|item| {
                let (key, value) = item.unwrap();
                (key.to_vec(), value.to_vec())
            });
            assert!(pairs.eq(map.clone()), "{name}");
            for (key, value) in &map {
                assert_eq!(keyspace.get(key).unwrap().as_deref(), Some(&value[..]));
            }
        }
        assert_eq!(db.get("key0050").unwrap(), None);
        let stats = db.stats();
        assert!(stats.guards[6] > 3, "{:?}", stats.guards);
        assert!(stats.tables[6] > 3, "{:?}", stats.tables);
        assert!(is_settled || stats.tables[0] >= 3, "{:?}", stats.tables);
        db.settle_debt().unwrap();
        db.close().unwrap();
    }
}

fn check_text(text: &str) {
    for wanted in ["CURRENT", "MANIFEST-", "LOG-", "TABLE-"] {
        let has = |line: &str| line.starts_with("file ") && line.contains(wanted);
        assert!(text.lines().any(has), "no {wanted}");
    }
    check(&load(text, DIR));
}

#[test]
fn every_kept_database_opens() {
    if flag_from_env("EVENDB_BLESS") {
        bless(&kept_databases());
    }
    for version in 1..=version_of(&make()) {
        let path = kept(&kept_databases(), version);
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}; EVENDB_BLESS=1 adds it", path.display()));
        check_text(&text);
    }
}

#[test]
fn blessing_adds_what_is_missing_and_changes_nothing_that_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    assert!(bless(dir.path()));
    let path = kept(dir.path(), version_of(&make()));
    check_text(&std::fs::read_to_string(&path).unwrap());
    std::fs::write(&path, "kept from the past").unwrap();
    assert!(!bless(dir.path()));
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "kept from the past"
    );
}
