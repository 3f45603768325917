//! Files with right checksums that no EvenDB wrote: numbers that nothing reaches, files that claim
//! to be long, large numbers of edits. Each case ends in a typed error or works, nothing panics,
//! and memory stays near the bytes that the files really have.
//!
//! This is a binary of its own, because it counts the bytes that the allocator is asked for.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

#[path = "../../storage/tests/forged.rs"]
mod forged;
#[path = "../../../proof/fuzz/src/memory.rs"]
#[expect(unsafe_code, reason = "an allocator that counts")]
mod memory;

use evendb_flsm::inspect::{self, InspectOptions};
use evendb_flsm::{ErrorKind, Options, Result};
use forged::{append_edits, change};
use memory::peak_of;
use std::fs;
use std::path::{Path, PathBuf};

const MIB: usize = 1 << 20;
/// The offset of the manifest's number in `CURRENT`.
const NUMBER_AT: usize = 12;
const CREATE_KEYSPACE: u64 = 2;
const NEXT_FILE: u64 = 4;
const NEXT_KEYSPACE: u64 = 5;
const LAST_VERSION: u64 = 6;
const LOG_NUMBER: u64 = 7;
const ADD_TABLE: u64 = 8;
const REMOVE_TABLE: u64 = 9;
const GUARD_SECRET: u64 = 12;

fn options() -> Options {
    let options = Options::new().memory_budget(4 << 20);
    options.advanced(|advanced| advanced.compaction_threads(1))
}

fn database() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let db = options().open(dir.path()).unwrap();
    for number in 0..100 {
        db.put(format!("{number:03}"), [1; 40]).unwrap();
    }
    db.settle_debt().unwrap();
    db.close().unwrap();
    dir
}

fn manifest(dir: &Path) -> PathBuf {
    let current = fs::read(dir.join("CURRENT")).unwrap();
    dir.join(format!(
        "MANIFEST-{:06}",
        forged::number_at(&current, NUMBER_AT)
    ))
}

fn forge(dir: &Path, edits: &[Vec<u8>]) {
    let mut current = fs::read(dir.join("CURRENT")).unwrap();
    let mut bytes = fs::read(manifest(dir)).unwrap();
    append_edits(&mut current, NUMBER_AT, &mut bytes, edits);
    fs::write(manifest(dir), bytes).unwrap();
    fs::write(dir.join("CURRENT"), current).unwrap();
}

/// Opens for reading and for writing, puts, and closes.
fn use_it(dir: &Path) -> Result<()> {
    options().read_only(true).open(dir)?.get("001")?;
    let db = options().open(dir)?;
    db.put("new", "value")?;
    db.settle_debt()?;
    db.close()
}

fn kind_of(result: Result<()>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn numbers_that_no_database_reaches_are_damage() {
    let dir = database();
    let state = fs::read(manifest(dir.path())).unwrap();
    let current = fs::read(dir.path().join("CURRENT")).unwrap();
    let table = |place: usize, number: u64| {
        let mut numbers = [ADD_TABLE, 0, 0, 1000, 1000, 1000, 10, 0, 1000, 5, 0, 0, 0];
        numbers[place] = number;
        change(&numbers)
    };
    for number in [(1 << 62) + 1, 1 << 63, u64::MAX] {
        let of_one = [NEXT_FILE, NEXT_KEYSPACE, LAST_VERSION, LOG_NUMBER];
        let mut edits: Vec<_> = of_one.map(|tag| change(&[tag, number])).into();
        edits.push(change(&[NEXT_KEYSPACE, u32::MAX.into()]));
        edits.push(change(&[CREATE_KEYSPACE, u32::MAX.into(), 0]));
        edits.extend((1..9).map(|place| table(place, number)));
        // The manifest has a secret already.
        edits.push(change(&[GUARD_SECRET, number]));
        for edit in edits {
            fs::write(manifest(dir.path()), &state).unwrap();
            fs::write(dir.path().join("CURRENT"), &current).unwrap();
            forge(dir.path(), std::slice::from_ref(&edit));
            let kind = kind_of(use_it(dir.path()));
            assert_eq!(kind, Some(ErrorKind::Corruption), "{edit:?}");
            let report = inspect::verify(dir.path(), InspectOptions::new()).unwrap();
            assert!(!report.is_sound(), "{edit:?}");
        }
    }
    // A file of another program, whose name leaves no next number.
    fs::write(manifest(dir.path()), &state).unwrap();
    fs::write(dir.path().join("CURRENT"), &current).unwrap();
    let foreign = dir.path().join(format!("LOG-{}", u64::MAX));
    fs::write(&foreign, "foreign").unwrap();
    use_it(dir.path()).unwrap();
    assert_eq!(fs::read(foreign).unwrap(), b"foreign");
}

#[test]
fn a_sparse_manifest_or_log_takes_no_memory() {
    let dir = database();
    let (used, plain) = peak_of(|| use_it(dir.path()));
    used.unwrap();
    for len in [3_u64 << 30, 1 << 40] {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(manifest(dir.path()));
        if file.unwrap().set_len(len).is_err() {
            eprintln!("a_sparse_manifest: skipped {len}, this file system has no files that long");
            continue;
        }
        let (report, bytes) = peak_of(|| inspect::verify(dir.path(), InspectOptions::new()));
        assert!(report.unwrap().is_sound());
        assert!(bytes < 16 * MIB, "{bytes}");
        let (used, bytes) = peak_of(|| use_it(dir.path()));
        used.unwrap();
        assert!(bytes < plain + 16 * MIB, "{bytes}, plain {plain}");
    }
}

/// A removal takes three bytes in the file, and many more as a decoded change.
#[test]
fn an_edit_of_many_removals_takes_the_memory_of_its_bytes() {
    let dir = database();
    let (_, plain) = peak_of(|| use_it(dir.path()));
    let report = inspect::verify(dir.path(), InspectOptions::new()).unwrap();
    assert!(report.is_sound());
    let tables = fs::read_dir(dir.path()).unwrap();
    let names = tables.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut numbers = names.filter_map(|name| name.strip_prefix("TABLE-")?.parse::<u64>().ok());
    // A table that exists, again and again.
    let known = numbers.next().unwrap();
    let removals = change(&[REMOVE_TABLE, 0, known]).repeat(3 << 20);
    let len = removals.len();
    forge(dir.path(), &[removals]);
    let (used, bytes) = peak_of(|| use_it(dir.path()));
    assert_eq!(kind_of(used), Some(ErrorKind::Corruption));
    assert!(bytes < plain + len + 16 * MIB, "{bytes}, plain {plain}");
    let (report, bytes) = peak_of(|| inspect::verify(dir.path(), InspectOptions::new()));
    assert!(!report.unwrap().is_sound());
    assert!(bytes < len + 16 * MIB, "{bytes}");
}

/// The memory of tables whose names in the edit are as short as possible.
#[test]
fn tables_take_a_bounded_multiple_of_their_bytes() {
    let dir = database();
    let (_, plain) = peak_of(|| use_it(dir.path()));
    let table = |number: u64| change(&[ADD_TABLE, 0, 0, number, 1, 1, 1, 0, 1, 0, 0, 0, 0]);
    let tables: Vec<u8> = (0..200_000).flat_map(|at| table(1_000_000 + at)).collect();
    let len = tables.len();
    forge(dir.path(), &[tables]);
    let (used, bytes) = peak_of(|| use_it(dir.path()));
    assert_eq!(kind_of(used), Some(ErrorKind::Corruption));
    assert!(bytes < plain + 22 * len, "{bytes} of {len}");
    let (report, bytes) = peak_of(|| inspect::verify(dir.path(), InspectOptions::new()));
    assert!(bytes < 22 * len, "{bytes} of {len}");
    assert!(!report.unwrap().is_sound());
}

#[test]
fn a_report_on_many_wrong_edits_is_short() {
    let dir = database();
    let edits = vec![change(&[REMOVE_TABLE, 0, 99_999]); 200_000];
    forge(dir.path(), &edits);
    let (report, bytes) = peak_of(|| inspect::verify(dir.path(), InspectOptions::new()));
    assert!(bytes < 32 * MIB, "{bytes}");
    let findings = report.unwrap().findings;
    assert!(findings.len() <= 10_000, "{}", findings.len());
    assert!(
        findings
            .iter()
            .any(|finding| finding.what.contains("than a report lists"))
    );
}
