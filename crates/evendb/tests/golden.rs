//! A whole database of format version 2, as bytes, that every later version must open and read.
//! One of version 1, which was never released, is refused by its version's number.
//!
//! `tests/golden/database_v2.txt` holds the files of a database whose process was killed: tables of
//! both kinds, a commit log that is still needed, a value extent. The text is a dump of 16-byte
//! rows; `*` repeats the row before, and rows left out are zeros. If the format changes on purpose,
//! keep the file and add another; only a mistake in the fixture itself is a reason for
//! `EVENDB_BLESS=1 cargo test -p evendb --test golden`.

mod common;

use common::oracle::{Map, contents};
use common::{DIR, on_sim};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Db, Durability, ErrorKind};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const ROW_BYTES: usize = 16;

/// One fixed write; `None` deletes.
type Entry = (&'static str, String, Option<Vec<u8>>);

fn entries(part: u32) -> Vec<Entry> {
    let put = |name, number: u32, len: usize| {
        let mut value = format!("{part}-{number}:").into_bytes();
        value.resize(value.len() + len, b'a' + (number % 26) as u8);
        (name, format!("key{number:04}"), Some(value))
    };
    match part {
        // Rewritten into tables of their own by a rebalance.
        0 => (0..80).map(|n| put("default", n * 7 % 80, 16)).collect(),
        // A run in the chunks' logs, with deletions over older records.
        1 => (0..10)
            .map(|n| put("default", n * 9, 5))
            .chain((20..25).map(|n| ("default", format!("key{n:04}"), None)))
            .chain((0..5).map(|n| put("other", n, 3)))
            .collect(),
        // Only in the commit log; the last one in a value extent.
        _ => (40..45)
            .map(|n| put("default", n, 9))
            .chain([("default", "key0050".to_owned(), None)])
            .chain([("other", String::new(), Some(b"empty key".to_vec()))])
            .chain([put("other", 77, 8_300)])
            .collect(),
    }
}

fn expected() -> BTreeMap<&'static str, Map> {
    let mut maps = BTreeMap::from([("default", Map::new()), ("other", Map::new())]);
    for (name, key, value) in (0..3).flat_map(entries) {
        let map = maps.get_mut(name).expect("one of the two");
        match value {
            Some(value) => drop(map.insert(key.into_bytes(), value)),
            None => drop(map.remove(key.as_bytes())),
        }
    }
    maps
}

fn write_part(db: &Db, part: u32) {
    for (name, key, value) in entries(part) {
        let keyspace = db.keyspace(name).expect("creates");
        match value {
            Some(value) => keyspace.put(key, value).expect("puts"),
            None => keyspace.delete(key).expect("deletes"),
        }
    }
}

/// The files of a database made by the fixed workload.
fn make() -> SimVfs {
    let vfs = SimVfs::new(1);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    // Twice, so that there is something to merge.
    write_part(&db, 0);
    db.flush().expect("a checkpoint");
    write_part(&db, 0);
    db.settle_debt().expect("settles");
    write_part(&db, 1);
    db.flush().expect("a checkpoint");
    write_part(&db, 2);
    let machine = vfs.crash(CrashMode::Process);
    drop(db);
    machine
}

fn dump(vfs: &SimVfs) -> String {
    let mut text = String::from("# A database of format version 2; see tests/golden.rs.\n");
    for name in vfs.file_names(Path::new(DIR)) {
        let bytes = vfs.read_file(&Path::new(DIR).join(&name));
        writeln!(text, "file {name} {}", bytes.len()).expect("writes to memory");
        let mut last: Option<(usize, &[u8])> = None;
        for (index, row) in bytes.chunks(ROW_BYTES).enumerate() {
            if row.iter().all(|&byte| byte == 0) {
                continue;
            }
            if last == Some((index.wrapping_sub(1), row)) {
                text += "*\n";
            } else {
                let hex: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
                let line = writeln!(text, "{:06x} {}", index * ROW_BYTES, hex.join(" "));
                line.expect("writes to memory");
            }
            last = Some((index, row));
        }
    }
    text
}

fn load(text: &str) -> SimVfs {
    let vfs = SimVfs::new(1);
    evendb::vfs::Vfs::create_dir_all(&vfs, Path::new(DIR)).expect("creates");
    let mut file: Option<(PathBuf, Vec<u8>)> = None;
    let mut at = 0;
    let mut row: Vec<u8> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "file" {
            if let Some((path, bytes)) = file.take() {
                vfs.write_file(&path, bytes);
            }
            let len: usize = words[2].parse().expect("a length");
            file = Some((Path::new(DIR).join(words[1]), vec![0; len]));
            continue;
        }
        if words[0] == "*" {
            at += ROW_BYTES;
        } else {
            at = usize::from_str_radix(words[0], 16).expect("an offset");
            let byte = |hex: &&str| u8::from_str_radix(hex, 16).expect("a byte");
            row = words[1..].iter().map(byte).collect();
        }
        let (_, bytes) = file.as_mut().expect("a file line first");
        bytes[at..at + row.len()].copy_from_slice(&row);
    }
    if let Some((path, bytes)) = file {
        vfs.write_file(&path, bytes);
    }
    vfs
}

fn check(vfs: &SimVfs, read_only: bool) {
    let options = on_sim(vfs, Durability::Process, 0).create_if_missing(false);
    let db = options.read_only(read_only).open(DIR).expect("opens");
    assert_eq!(db.keyspace_names(), ["default", "other"]);
    for (name, map) in expected() {
        assert!(contents(&db, name).expect("reads") == map, "{name}");
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

#[test]
fn version_1_is_refused() {
    let vfs = load(include_str!("golden/database_v1.txt"));
    for read_only in [true, false] {
        let options = on_sim(&vfs, Durability::Process, 0).read_only(read_only);
        let refused = options
            .open(DIR)
            .expect_err("its commit log cannot be read");
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    }
}

#[test]
fn version_2_opens() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/database_v2.txt");
    if std::env::var_os("EVENDB_BLESS").is_some() {
        std::fs::write(&path, dump(&make())).expect("writes the fixture");
    }
    let text = std::fs::read_to_string(&path).expect("reads the fixture");
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
    let vfs = load(&text);
    check(&vfs, true);
    check(&vfs, false);
    check(&vfs, false);
}

/// What is made today is read today, so the fixture's workload is what it is taken for.
#[test]
fn the_workload_gives_the_contents() {
    let vfs = make();
    let copy = load(&dump(&vfs));
    for name in vfs.file_names(Path::new(DIR)) {
        let path = Path::new(DIR).join(name);
        assert!(
            vfs.read_file(&path) == copy.read_file(&path),
            "{}",
            path.display()
        );
    }
    check(&vfs, false);
}
