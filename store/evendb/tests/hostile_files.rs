//! Files with right checksums that no EvenDB wrote: numbers that nothing reaches, files that claim
//! to be long, very many edits. Each ends in a typed error or works, nothing panics, and memory
//! stays near the bytes that the files really have.
//!
//! This is a binary of its own, because it counts the requests to the allocator.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

#[path = "../../storage/tests/forged.rs"]
mod forged;
#[path = "common/layout.rs"]
mod layout;
#[path = "hostile_files/lists.rs"]
mod lists;
#[path = "../../../proof/fuzz/src/memory.rs"]
#[expect(unsafe_code, reason = "an allocator that counts")]
mod memory;

use evendb::inspect::{self, InspectOptions, RepairOptions};
use evendb::{Backups, Durability, ErrorKind, Options, Result};
use forged::{append_edits, change};
use memory::peak_of;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

const MIB: usize = 1 << 20;
/// The offset of the manifest's number in `CURRENT`.
const NUMBER_AT: usize = 8;
const FORMAT: u64 = 1;
const EPOCH: u64 = 2;
const REMOVE_CHUNK: u64 = 6;
const CHECKPOINT: u64 = 8;
/// A checkpoint later than all checkpoints of the databases here.
const LATER: u64 = 1 << 20;

fn options() -> Options {
    let options = layout::tiny_guards(layout::options())
        .memory_budget(1 << 20)
        .workers(0);
    let options = options.durability(Durability::Process);
    options.advanced(|advanced| advanced.commit_log_bytes(64 << 10).chunk_bytes(2048))
}

/// A closed database with some records.
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

fn files(dir: &Path) -> Vec<(OsString, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let read = entries.map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()));
    let mut files: Vec<_> = read.filter(|(name, _)| name != "LOCK").collect();
    files.sort();
    files
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

/// Numbers of this kind make each opening fail, and nothing is changed; an inspection says what is
/// wrong.
fn refuses(edits: &[Vec<u8>]) {
    let dir = database();
    forge(dir.path(), edits);
    let before = files(dir.path());
    let kind = kind_of(use_it(dir.path()));
    assert_eq!(kind, Some(ErrorKind::Corruption), "{edits:?}");
    assert!(files(dir.path()) == before, "{edits:?}");
    let report = inspect::verify(dir.path(), InspectOptions::new()).unwrap();
    assert!(!report.is_sound(), "{edits:?}");
}

#[test]
fn a_ring_of_a_size_that_none_has_is_damage() {
    for bytes in [1, 4096, 8192, 16_384, 32_768, 65_537, 1 << 63, !4095] {
        refuses(&[change(&[FORMAT, bytes])]);
    }
}

#[test]
fn a_replay_position_that_no_log_reaches_is_damage() {
    for position in [u64::MAX, u64::MAX - 7, 1 << 63, (1 << 62) + 8, 12_345] {
        refuses(&[change(&[CHECKPOINT, LATER, position])]);
    }
}

fn epoch(number: u64) -> Vec<u8> {
    change(&[EPOCH, number, 7, 0, 0, 0, 0])
}

#[test]
fn an_epoch_that_no_database_reaches_is_damage() {
    for number in [1 << 32, 1 << 63, u64::MAX] {
        refuses(&[epoch(number)]);
    }
    let of_start = [EPOCH, 1000, 7, u64::MAX, 0, 0, 0];
    let of_end = [EPOCH, 1000, 7, 0, 1 << 63, 0, 0];
    refuses(&[change(&of_start)]);
    refuses(&[change(&of_end)]);
}

/// A database at the last epoch but one is written and stays sound; at the last epoch it is read
/// and not written to.
#[test]
fn behind_the_last_epoch_a_database_is_read_and_not_opened_for_writing() {
    let dir = database();
    let last = u64::from(u32::MAX);
    forge(dir.path(), &[epoch(last - 1)]);
    use_it(dir.path()).unwrap();
    let report = inspect::verify(dir.path(), InspectOptions::new()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    let before = files(dir.path());
    let refused = options().open(dir.path()).map(drop);
    assert_eq!(kind_of(refused), Some(ErrorKind::Unsupported));
    assert!(files(dir.path()) == before);
    let reader = options().read_only(true).open(dir.path()).unwrap();
    assert_eq!(reader.get("new").unwrap().unwrap(), "value");
}

#[test]
fn a_manifest_and_kept_changes_of_the_greatest_number_are_no_panic() {
    let dir = database();
    let (path, current) = (dir.path().join("CURRENT"), manifest(dir.path()));
    fs::write(dir.path().join("CHANGES-18446744073709551615"), "").unwrap();
    let keeping = || options().advanced(|advanced| advanced.keep_changes_bytes(1 << 20));
    keeping().open(dir.path()).unwrap().close().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    forged::set_number(&mut bytes, NUMBER_AT, u64::MAX);
    fs::write(&path, bytes).unwrap();
    let named = dir.path().join(format!("MANIFEST-{}", u64::MAX));
    fs::rename(current, named).unwrap();
    assert_eq!(kind_of(use_it(dir.path())), Some(ErrorKind::Corruption));
}

/// Reserved room can be of any length, and so can a file with a hole in it.
#[test]
fn a_sparse_manifest_takes_no_memory() {
    let dir = database();
    let (used, plain) = peak_of(|| use_it(dir.path()));
    used.unwrap();
    let file = fs::OpenOptions::new()
        .write(true)
        .open(manifest(dir.path()));
    let file = file.unwrap();
    for len in [3_u64 << 30, 1 << 40] {
        if file.set_len(len).is_err() {
            eprintln!("a_sparse_manifest: skipped {len}, this file system has no files that long");
            continue;
        }
        let (used, bytes) = peak_of(|| use_it(dir.path()));
        used.unwrap();
        assert!(bytes < plain + 16 * MIB, "{bytes}, plain {plain}");
        let (report, bytes) = peak_of(|| inspect::verify(dir.path(), InspectOptions::new()));
        assert!(report.unwrap().is_sound());
        assert!(bytes < 16 * MIB, "{bytes}");
    }
}

/// Each removal takes two bytes in the file, and many more as a change: they are taken one by one,
/// and one finding stands for all.
#[test]
fn an_edit_of_many_removals_takes_the_memory_of_its_bytes() {
    let _chunks = layout::is_about_chunks();
    let dir = database();
    let (_, plain) = peak_of(|| use_it(dir.path()));
    let removals = change(&[REMOVE_CHUNK, 99]).repeat(4 << 20);
    let len = removals.len();
    forge(dir.path(), &[removals]);
    let (used, bytes) = peak_of(|| use_it(dir.path()));
    assert_eq!(kind_of(used), Some(ErrorKind::Corruption));
    assert!(bytes < plain + len + 16 * MIB, "{bytes}, plain {plain}");
    let (report, bytes) = peak_of(|| inspect::verify(dir.path(), InspectOptions::new()));
    assert!(bytes < len + 16 * MIB, "{bytes}");
    let contradictions = report.unwrap().findings;
    let told = |finding: &&inspect::Finding| finding.what.contains("unknown chunk");
    assert_eq!(contradictions.iter().filter(told).count(), 1);
}

/// The memory of a table that is named in as few bytes as possible.
#[test]
fn tables_take_a_bounded_multiple_of_their_bytes() {
    let _chunks = layout::is_about_chunks();
    let dir = database();
    let (_, plain) = peak_of(|| use_it(dir.path()));
    // A chunk behind the others, and its tables: number, place, role, epoch, checkpoint, then
    // lengths, counts and keys.
    let tables = change(&[5, 1 << 40, 0, 1, 0x7a]);
    let count = 300_000;
    let table = |number| change(&[number, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 0]);
    let named = (0..count).flat_map(|at| table(1_000_000 + at)).collect();
    let edit = [tables, change(&[count]), named].concat();
    let len = edit.len();
    forge(dir.path(), &[edit]);
    let (used, bytes) = peak_of(|| use_it(dir.path()));
    assert_eq!(kind_of(used), Some(ErrorKind::Corruption));
    assert!(bytes < plain + 32 * len, "{bytes} of {len}");
    let (report, bytes) = peak_of(|| inspect::verify(dir.path(), InspectOptions::new()));
    assert!(bytes < 32 * len, "{bytes} of {len}");
    assert!(!report.unwrap().is_sound());
}

/// The same with many edits that are each wrong by itself: a full report says that it is full.
#[test]
fn a_report_on_many_wrong_edits_is_short() {
    let _chunks = layout::is_about_chunks();
    let dir = database();
    let edits = vec![change(&[REMOVE_CHUNK, 99]); 200_000];
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

#[test]
fn a_sparse_list_of_a_backup_takes_no_memory() {
    let (dir, backups) = (database(), tempfile::tempdir().unwrap());
    let db = options().open(dir.path()).unwrap();
    db.backup(backups.path().join("all")).unwrap();
    let entries = fs::read_dir(backups.path().join("all")).unwrap();
    let lists = entries.map(|entry| entry.unwrap().path().join("BACKUP-LIST"));
    let list = lists.filter(|list| list.exists()).last().unwrap();
    let file = fs::OpenOptions::new().write(true).open(list).unwrap();
    for len in [512 << 20, 1 << 36] {
        file.set_len(len).unwrap();
        let backups = backups.path().join("all");
        let (listed, bytes) = peak_of(|| Backups::at(&backups).verify(None));
        assert_eq!(kind_of(listed.map(drop)), Some(ErrorKind::Corruption));
        assert!(bytes < 16 * MIB, "{bytes}");
    }
}

/// A checkpoint forgets epochs one by one. Once, each of these took one step for every epoch that
/// stayed.
#[test]
fn a_million_epochs_are_forgotten_in_a_million_steps() {
    let dir = database();
    let count = 1_000_000;
    let epochs = (0..count).flat_map(|at| change(&[EPOCH, 1000 + at, 7, 8 * at, 8 * at, 0, 0]));
    let forgotten = (0..count).flat_map(|at| change(&[CHECKPOINT, LATER + at, 8 * at]));
    forge(dir.path(), &[epochs.collect(), forgotten.collect()]);
    use_it(dir.path()).unwrap();
    let report = inspect::verify(dir.path(), InspectOptions::new()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}

/// Nothing opens such a database, since the file is shorter; the existing records are saved.
#[test]
fn a_repair_does_not_look_through_a_ring_that_is_not_there() {
    let dir = database();
    forge(dir.path(), &[change(&[FORMAT, 1 << 50])]);
    let kind = kind_of(use_it(dir.path()));
    assert_eq!(kind, Some(ErrorKind::Corruption));
    let report = inspect::verify(dir.path(), InspectOptions::new()).unwrap();
    assert!(!report.is_sound());
    let (repair, saved) = (RepairOptions::default(), tempfile::tempdir().unwrap());
    let into = saved.path().join("saved");
    inspect::repair(dir.path(), &into, repair, InspectOptions::new()).unwrap();
    let db = options().open(&into).unwrap();
    assert_eq!(db.get("001").unwrap().unwrap(), [1; 40]);
}
