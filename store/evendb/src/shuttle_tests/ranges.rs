//! S11: range deletions x splits, merges, rewrites, checkpoints, rows, spans and batches.

use super::explore;
use super::world::{World, both_ends, join, key, options, oracle};
use crate::plant::Plant;
use crate::sync::{Arc, Mutex};
use evendb_storage::vfs::CrashMode;

const KEYS: usize = 4;

fn value(world: &World, index: usize) -> Option<u64> {
    let value = world.db().get(key(index)).expect("gets")?;
    Some(u64::from_le_bytes(
        value[..8].try_into().expect("eight bytes"),
    ))
}

/// All keys as numbers, read by one iterator from one end.
fn scanned(world: &World, backward: bool) -> Vec<u64> {
    let number = |item: crate::Result<(crate::Value, crate::Value)>| {
        let (_, value) = item.expect("scans");
        u64::from_le_bytes(value[..8].try_into().expect("eight bytes"))
    };
    match backward {
        true => world.db().iter().rev().map(number).collect(),
        false => world.db().iter().map(number).collect(),
    }
}

/// Asserts that these values are there, in the order of keys, now and after the end of the process.
fn end(world: Arc<World>, expected: &[u64]) {
    let seen = scanned(&world, false);
    oracle!(seen == expected, "in the end {seen:?}, not {expected:?}");
    let disk = world.vfs.fork_state().crash(CrashMode::Process);
    let db = options(&disk).open("/db").expect("opens");
    let seen = both_ends(db.iter(), 0);
    oracle!(seen == expected, "after a crash {seen:?}, not {expected:?}");
    db.close().expect("closes");
    world.close();
}

fn reorganise(world: &World) {
    world.checkpoint();
    world.split(1);
    world.rebalance(0);
    world.checkpoint();
    world.merge(0);
    world.rebalance(2);
}

/// One thread puts, and deletes everything: after the deletion has returned, no record is there; a
/// key that a read found gone stays gone; and no moment shows a part of the deletion.
pub(super) fn deleted_at_once(plant: Plant) {
    let world = World::filled(KEYS, plant);
    world.split(2);
    let writer = world.spawn(|world| {
        // Without the deletion's own precaution, these puts would have its version.
        world.put(0);
        world.put(3);
        world.db().delete_range("a".."e").expect("deletes");
        for index in 0..KEYS {
            let left = value(world, index);
            oracle!(left.is_none(), "key {index} is {left:?} after its deletion");
        }
    });
    let layout = world.spawn(reorganise);
    let gets = world.spawn(|world| {
        let mut gone = false;
        for index in [0, 2, 1, 3, 0, 3] {
            let here = value(world, index);
            oracle!(!(gone && here.is_some()), "key {index} came back: {here:?}");
            gone |= here.is_none();
        }
    });
    let moments = world.spawn(|world| {
        for backward in [false, true] {
            let seen = scanned(world, backward);
            oracle!([0, KEYS].contains(&seen.len()), "half a deletion: {seen:?}");
        }
    });
    join([writer, layout, gets, moments]);
    nothing_is_left(&world);
    end(world, &[]);
}

/// Asserts that nothing is left, now and after two reorganisations.
fn nothing_is_left(world: &World) {
    for round in 0..3 {
        for index in 0..KEYS {
            let left = value(world, index);
            oracle!(left.is_none(), "round {round}: key {index} is {left:?}");
        }
        let seen = scanned(world, round == 1);
        oracle!(seen.is_empty(), "round {round}: a scan shows {seen:?}");
        reorganise(world);
    }
}

/// Cached rows beside a deletion: no get brings a row back, whether it began before the deletion or
/// later.
pub(super) fn rows_beside_a_deletion(plant: Plant) {
    let world = World::filled(KEYS, plant);
    let deletes = world.spawn(|world| {
        value(world, 1);
        world.db().delete_prefix("b").expect("deletes");
        for _ in 0..2 {
            let left = value(world, 1);
            oracle!(left.is_none(), "a row of key 1 shows {left:?}");
            // From now on the chunk has newer data on disk; a get reads that, and the rows
            // before it.
            world.put(2);
            world.checkpoint();
        }
        let left = value(world, 1);
        oracle!(left.is_none(), "a row of key 1 shows {left:?} in the end");
    });
    let gets = world.spawn(|world| {
        let seen: Vec<bool> = (0..4).map(|_| value(world, 1).is_some()).collect();
        oracle!(seen.is_sorted_by(|a, b| a >= b), "it came back: {seen:?}");
    });
    let layout = world.spawn(|world| {
        world.checkpoint();
        world.split(2);
        world.checkpoint();
    });
    join([deletes, gets, layout]);
    oracle!(value(&world, 1).is_none(), "it came back in the end");
    end(world, &[1, 3, 1]);
}

/// A batch deletes everything and puts one key again: that key is never away, and no reader sees
/// the deletion without the put.
pub(super) fn deleted_and_put_by_a_batch(plant: Plant) {
    const NEW: u64 = 77;
    let world = World::filled(KEYS, plant);
    world.split(2);
    let writer = world.spawn(|world| {
        let mut batch = world.db().batch();
        batch.put(world.keyspace(), key(0), 5u64.to_le_bytes());
        batch.delete_range(world.keyspace(), "a".."z");
        batch.put(world.keyspace(), key(3), NEW.to_le_bytes());
        batch.commit().expect("commits");
    });
    let pairs = Arc::new(Mutex::new(Vec::new()));
    let gets = {
        let pairs = pairs.clone();
        world.spawn(move |world| {
            for (a, b) in [(0, 3), (3, 0), (1, 3)] {
                let (first, second) = (value(world, a), value(world, b));
                pairs.lock().push(((a, first), (b, second)));
            }
        })
    };
    let moments = world.spawn(|world| {
        for backward in [false, true] {
            let seen = scanned(world, backward);
            let whole = seen == [NEW] || seen.len() == KEYS && !seen.contains(&NEW);
            oracle!(whole, "half a batch: {seen:?}");
        }
    });
    let layout = world.spawn(reorganise);
    join([writer, gets, moments, layout]);
    for &pair in pairs.lock().iter() {
        let is_new = |(index, value): (usize, Option<u64>)| match index {
            3 => {
                oracle!(value.is_some(), "the key that was put is away: {pair:?}");
                value == Some(NEW)
            }
            _ => value.is_none(),
        };
        let (first, second) = (is_new(pair.0), is_new(pair.1));
        oracle!(first <= second, "seen and then not: {pair:?}");
    }
    end(world, &[NEW]);
}

/// Deletions and puts beside snapshots, loading, absorbing and checkpoints of single spans.
fn snapshots_and_spans() {
    let world = World::filled(KEYS, Plant::Nothing);
    world.load_span(1);
    world.load_span(2);
    let writer = world.spawn(|world| {
        for round in 0..2u64 {
            world.db().delete_range("b".."d").expect("deletes");
            oracle!(
                value(world, 1).is_none() && value(world, 2).is_none(),
                "left"
            );
            world
                .db()
                .put(key(2), (10 + round).to_le_bytes())
                .expect("puts");
        }
    });
    let spans = world.spawn(|world| {
        world.checkpoint();
        world.absorb(1);
        world.load_span(0);
        world.evict_span(1);
        world.checkpoint();
        world.rebalance(0);
        world.load_span(1);
    });
    let snapshots = world.spawn(|world| {
        for backward in [false, true] {
            let snapshot = world.db().snapshot().expect("a snapshot");
            let look = || -> Vec<Option<Vec<u8>>> {
                let get = |index| snapshot.get(world.keyspace(), key(index)).expect("gets");
                (0..KEYS)
                    .map(|index| get(index).map(|value| value.to_vec()))
                    .collect()
            };
            let first = look();
            let count = match backward {
                true => snapshot.iter(world.keyspace()).rev().count(),
                false => snapshot.iter(world.keyspace()).count(),
            };
            oracle!(first == look(), "a snapshot changed: {first:?}");
            let there = first.iter().flatten().count();
            oracle!(count == there, "a scan of {count} beside {first:?}");
        }
    });
    join([writer, spans, snapshots]);
    oracle!(
        value(&world, 1).is_none() && value(&world, 2) == Some(11),
        "in the end"
    );
    reorganise(&world);
    end(world, &[1, 11, 1]);
}

#[test]
fn shuttle_s11_deleted_at_once() {
    explore(1500, || deleted_at_once(Plant::Nothing));
}

#[test]
fn shuttle_s11_rows_beside_a_deletion() {
    explore(1500, || rows_beside_a_deletion(Plant::Nothing));
}

#[test]
fn shuttle_s11_deleted_and_put_by_a_batch() {
    explore(1500, || deleted_and_put_by_a_batch(Plant::Nothing));
}

#[test]
fn shuttle_s11_snapshots_and_spans() {
    explore(1500, snapshots_and_spans);
}
