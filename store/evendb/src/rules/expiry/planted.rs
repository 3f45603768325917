//! Planted faults of records that expire and of single deletes: each scenario holds without its
//! fault, and fails with it.

use super::tests::Hands;
use crate::plant::Plant;
use crate::{Db, KeyspaceOptions, Merges, Options};
use evendb_storage::vfs::SimVfs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn open(plant: Plant) -> (Db, Arc<Hands>) {
    let hands = Arc::new(Hands(AtomicU64::new(100)));
    let mut options = Options::new()
        .vfs(Arc::new(SimVfs::new(1)))
        .workers(0)
        .memory_budget(1 << 20)
        .advanced(|advanced| advanced.wall_clock(hands.clone()));
    options.plant = plant;
    (options.open("/db").unwrap(), hands)
}

/// Asserts that the scenario holds, and that it fails with the fault.
fn assert_noticed(scenario: impl Fn(Plant) -> bool, fault: Plant) {
    assert!(scenario(Plant::Nothing), "without a fault");
    assert!(!scenario(fault), "{fault:?} was not noticed");
}

/// P10 with an expired record in place of a tombstone: a checkpoint that drops it shows an older
/// record again.
#[test]
fn p10_an_expired_record_is_a_tombstone_until_nothing_is_below_it() {
    let scenario = |plant| {
        let (db, hands) = open(plant);
        let keyspace = db.default_keyspace();
        db.put("k", "older").unwrap();
        db.settle_debt().unwrap();
        keyspace
            .put_with_ttl("k", "newer", Duration::from_secs(5))
            .unwrap();
        hands.0.store(105, Ordering::Relaxed);
        db.flush().unwrap();
        db.get("k").unwrap().is_none()
    };
    assert_noticed(scenario, Plant::NoTombstonesInRuns);
}

/// P41: the clock that readers are told goes back.
#[test]
fn p41_what_has_expired_does_not_come_back() {
    let scenario = |plant| {
        let (db, hands) = open(plant);
        let keyspace = db.default_keyspace();
        keyspace
            .put_with_ttl("k", "v", Duration::from_secs(5))
            .unwrap();
        hands.0.store(105, Ordering::Relaxed);
        assert!(db.get("k").unwrap().is_none());
        hands.0.store(50, Ordering::Relaxed);
        db.get("k").unwrap().is_none() && db.iter().count() == 0
    };
    assert_noticed(scenario, Plant::TimeGoesBack);
}

/// P42: a put takes the place of a single delete of the same version.
#[test]
fn p42_a_single_delete_waits_for_its_put() {
    let scenario = |plant| {
        let (db, _) = open(plant);
        let keyspace = db.default_keyspace();
        db.put("k", "first").unwrap();
        db.settle_debt().unwrap();
        keyspace.single_delete("k").unwrap();
        db.put("k", "second").unwrap();
        // Moves GV on, as any snapshot does.
        drop(db.snapshot().unwrap());
        keyspace.single_delete("k").unwrap();
        // The last two writes meet here, and the first put lies below them.
        db.flush().unwrap();
        db.get("k").unwrap().is_none()
    };
    assert_noticed(scenario, Plant::SingleSharesVersion);
}

/// P44: operands are folded into a value above the first put, and a single delete removes only that
/// value.
#[test]
fn p44_an_operator_that_comes_between_makes_a_plain_delete() {
    let scenario = |plant| {
        let (db, _) = open(plant);
        let keyspace = db.default_keyspace();
        db.put("k", "put").unwrap();
        let mut batch = db.batch();
        batch.single_delete(keyspace, "k");
        let merging = KeyspaceOptions::new().merge_operator(Merges::Append);
        keyspace.set_options(&merging).unwrap();
        // Moves GV on, as any snapshot does.
        drop(db.snapshot().unwrap());
        keyspace.merge("k", "+operand").unwrap();
        batch.commit().unwrap();
        db.flush().unwrap();
        db.get("k").unwrap().is_none()
    };
    assert_noticed(scenario, Plant::SingleAsCalled);
}

/// P93: a checkpoint treats an expired record as a tombstone although a snapshot still reads it.
#[test]
fn p93_a_snapshot_reads_on_what_has_expired_since() {
    let scenario = |plant| {
        let (db, hands) = open(plant);
        let keyspace = db.default_keyspace();
        keyspace
            .put_with_ttl("k", "v", Duration::from_secs(5))
            .unwrap();
        let snapshot = db.snapshot().unwrap();
        hands.0.store(105, Ordering::Relaxed);
        db.flush().unwrap();
        let seen = snapshot.get(keyspace, "k").unwrap();
        db.get("k").unwrap().is_none() && seen.is_some_and(|seen| seen == "v")
    };
    assert_noticed(scenario, Plant::ExpiryWithoutSnapshots);
}
