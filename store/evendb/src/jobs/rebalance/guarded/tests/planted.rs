//! Faults that are planted in compactions of guards. Each is noticed by what the database answers.

use super::{compact_beside, key, options, put, shown, view};
use crate::options::Options;
use crate::plant::Plant;
use crate::{Db, checkpoint};
use evendb_storage::vfs::{CrashMode, SimVfs};
use std::mem::ManuallyDrop;

fn with(plant: Plant, vfs: &SimVfs) -> Options {
    let mut options = options(vfs);
    options.plant = plant;
    options
}

fn open(plant: Plant) -> Db {
    with(plant, &SimVfs::new(1)).open("/db").expect("opens")
}

/// The number of keys that are there after half of 2,000 were deleted. The tables with the deletes
/// go down above the tables with the records.
fn left_by_deletes(plant: Plant) -> usize {
    let db = open(plant);
    let keyspace = db.default_keyspace();
    put(keyspace, 0..2_000, "v");
    db.compact().expect("compacts");
    for number in (0..2_000).step_by(2) {
        keyspace.delete(key(number)).expect("deletes");
    }
    db.compact().expect("compacts");
    shown(keyspace)
}

#[test]
fn p102_tombstones_dropped_above_older_tables_are_caught() {
    assert_eq!(left_by_deletes(Plant::Nothing), 1_000);
    assert!(left_by_deletes(Plant::BottomAssumed) > 1_000);
}

/// The numbers of gets and of records of a scan that answer with the newest of two values, of 500
/// keys. Both values are in guards, in different runs.
fn newest_of_two(plant: Plant) -> (usize, usize) {
    let options = with(plant, &SimVfs::new(1));
    let options = options
        .advanced(|advanced| advanced.guards(|own| own.max_files_per_guard(4).level0_runs(1, 8)));
    let db = options.open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    for value in ["a", "b"] {
        put(keyspace, 0..500, value);
        db.settle_debt().expect("pays its debt");
    }
    let funk = view(keyspace).funk.clone();
    assert!(funk.chain_count() > 1 && funk.runs.is_empty());
    let is_newest = |value: &[u8]| value == "b".repeat(20).as_bytes();
    let gets = (0..500).map(|number| keyspace.get(key(number)).expect("gets"));
    let gets = gets.filter(|value| value.as_ref().is_some_and(|value| is_newest(value)));
    let scanned = keyspace.iter().map(|pair| pair.expect("reads").1);
    (
        gets.count(),
        scanned.filter(|value| is_newest(value)).count(),
    )
}

#[test]
fn p103_chains_that_stand_oldest_first_are_caught() {
    assert_eq!(newest_of_two(Plant::Nothing), (500, 500));
    let (gets, scanned) = newest_of_two(Plant::ChainsOldestFirst);
    assert!(gets < 500 && scanned < 500, "{gets}, {scanned}");
}

/// The number of keys that are there after a range deletion whose records a snapshot kept, when the
/// snapshot is gone; and the number that should be there.
fn left_by_a_range_deletion(plant: Plant) -> (usize, usize) {
    let db = open(plant);
    let keyspace = db.default_keyspace();
    put(keyspace, 0..2_000, "v");
    db.compact().expect("compacts");
    let snapshot = db.snapshot().expect("a snapshot");
    keyspace.delete_range("4".."c").expect("deletes");
    put(keyspace, (0..2_000).step_by(10), "w");
    // All tables of the range are written again, with what the snapshot sees.
    db.compact().expect("compacts");
    drop(snapshot);
    db.settle_debt().expect("pays its debt");
    let stays = |&number: &u32| !("4".."c").contains(&&*key(number)) || number.is_multiple_of(10);
    (shown(keyspace), (0..2_000).filter(stays).count())
}

#[test]
fn p104_a_range_deletion_that_leaves_early_is_caught() {
    let (left, expected) = left_by_a_range_deletion(Plant::Nothing);
    assert_eq!(left, expected);
    let (left, expected) = left_by_a_range_deletion(Plant::ClearedAlways);
    assert!(left > expected, "{left} of {expected}");
}

/// The number of keys that are there after all were deleted as a range, and put again. The range
/// deletion stays: one of its checkpoint is newer than a snapshot.
fn left_above_a_range_deletion(plant: Plant) -> usize {
    let db = open(plant);
    let keyspace = db.default_keyspace();
    put(keyspace, 0..1_000, "old");
    db.compact().expect("compacts");
    keyspace.delete_range::<&str>(..).expect("deletes");
    put(keyspace, 0..1_000, "new");
    let _snapshot = db.snapshot().expect("a snapshot");
    keyspace.delete_range("x".."z").expect("deletes");
    db.compact().expect("compacts");
    assert!(view(keyspace).covers.is_some(), "it does not stay");
    shown(keyspace)
}

#[test]
fn p105_version_zero_under_a_range_deletion_is_caught() {
    assert_eq!(left_above_a_range_deletion(Plant::Nothing), 1_000);
    assert_eq!(left_above_a_range_deletion(Plant::ZeroesUnderCovers), 0);
}

/// The number of keys that are there after a compaction and a crash. They came in order, so their
/// tables are moved.
fn left_by_moves(plant: Plant) -> usize {
    let vfs = SimVfs::new(1);
    let db = with(plant, &vfs).open("/db").expect("opens");
    for number in 0..2_000 {
        db.put(format!("{number:08}"), [1; 20]).expect("puts");
    }
    db.compact().expect("compacts");
    assert_eq!(shown(db.default_keyspace()), 2_000);
    left_by_a_crash(db, &vfs)
}

/// The number of keys that are there when the process is killed. (An audit at closing compares the
/// manifest with the view, and would notice some faults first. So the database is not closed.)
fn left_by_a_crash(db: Db, vfs: &SimVfs) -> usize {
    let _open = ManuallyDrop::new(db);
    let crashed = vfs.crash(CrashMode::Process);
    let again = options(&crashed).open("/db").expect("opens");
    shown(again.default_keyspace())
}

#[test]
fn p106_a_moved_table_that_the_edit_forgets_is_caught() {
    assert_eq!(left_by_moves(Plant::Nothing), 2_000);
    assert!(left_by_moves(Plant::MovedForgotten) < 2_000);
}

/// The number of keys that are there after a checkpoint in the middle of a compaction, before and
/// after a crash.
fn left_beside_a_checkpoint(plant: Plant) -> (usize, usize) {
    let vfs = SimVfs::new(1);
    let db = with(plant, &vfs).open("/db").expect("opens");
    put(db.default_keyspace(), 0..1_000, "v");
    compact_beside(&db, |asked, keyspace, engine| {
        if asked == 0 {
            put(keyspace, 1_000..1_100, "w");
            checkpoint::checkpoint(engine).expect("a checkpoint");
        }
    });
    (shown(db.default_keyspace()), left_by_a_crash(db, &vfs))
}

/// (Also `shuttle_tests/guards.rs`.) The manifest has the run: only this life misses it.
#[test]
fn p107_runs_that_leave_with_others_are_caught() {
    assert_eq!(left_beside_a_checkpoint(Plant::Nothing), (1_100, 1_100));
    let planted = left_beside_a_checkpoint(Plant::RunsLeaveWithOthers);
    assert_eq!(planted, (1_000, 1_100));
}
