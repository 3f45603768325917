//! S5: batches over chunks and keyspaces x split, checkpoint, multi_get.

use super::explore;
use super::world::{World, join, oracle};
use crate::plant::Plant;
use crate::sync::{Arc, Mutex};

/// Two keys of two chunks, always put together: no read sees one put without the other.
pub(super) fn whole_batches(plant: Plant) {
    let world = World::filled(2, plant);
    world.split(1);
    let writer = world.spawn(|world| {
        for _ in 0..3 {
            world.put_both(0, 1);
        }
    });
    let layout = world.spawn(|world| {
        world.checkpoint();
        world.merge(0);
        world.split(1);
    });
    let gets = world.spawn(|world| {
        let mut floors = world.floors();
        for (a, b) in [(0, 1), (1, 0), (0, 1)] {
            let first = world.get(a, &mut floors);
            let second = world.get(b, &mut floors);
            oracle!(
                first <= second,
                "a batch seen by one get and not by the next: {first}, {second}"
            );
        }
    });
    let moments = world.spawn(|world| {
        let mut floors = world.floors();
        for turn in 0..2 {
            for values in [world.multi_get(&mut floors), world.scan(turn, &mut floors)] {
                oracle!(values[0] == values[1], "half a batch: {values:?}");
            }
        }
    });
    join([writer, layout, gets, moments]);
    world.finish();
}

/// A put on one key of a batch. If the put comes last, every reader that sees it sees the batch.
pub(super) fn put_upon_a_batch(plant: Plant) {
    const PUT: u64 = 9;
    const BATCH: u64 = 5;
    let world = World::empty(0, |mut options| {
        options.plant = plant;
        options
    });
    world.split(1);
    let get = |world: &World, key: &str| {
        let value = world.db().get(key).expect("gets").expect("is there");
        u64::from_le_bytes(value[..].try_into().expect("eight bytes"))
    };
    for key in ["a", "b"] {
        world.db().put(key, 1u64.to_le_bytes()).expect("puts");
    }
    let batch = world.spawn(|world| {
        let mut batch = world.db().batch();
        batch.put(world.keyspace(), "a", BATCH.to_le_bytes());
        batch.put(world.keyspace(), "b", BATCH.to_le_bytes());
        batch.commit().expect("commits");
    });
    let put = world.spawn(|world| world.db().put("a", PUT.to_le_bytes()).expect("puts"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let reader = {
        let seen = seen.clone();
        world.spawn(move |world| {
            for _ in 0..3 {
                let pair = (get(world, "a"), get(world, "b"));
                seen.lock().push(pair);
            }
        })
    };
    join([batch, put, reader]);
    let last = (get(&world, "a"), get(&world, "b"));
    oracle!(
        last.1 == BATCH && [PUT, BATCH].contains(&last.0),
        "in the end {last:?}"
    );
    for &(a, b) in seen.lock().iter() {
        let put_is_last = last.0 == PUT;
        oracle!(
            !(put_is_last && a == PUT && b == 1),
            "a put above a batch that was not there"
        );
        oracle!(!(put_is_last && a == BATCH && b == 1), "half a batch");
        oracle!(!(!put_is_last && a == BATCH && b == 1), "half a batch");
    }
    world.close();
}

/// Batches over two keyspaces, and snapshots of both; a chunk of one keyspace is split.
fn over_keyspaces() {
    let world = World::filled(2, Plant::Nothing);
    let other = world.db().keyspace("other").expect("a keyspace");
    let writer = world.spawn({
        let other = other.clone();
        move |world| {
            for _ in 0..3 {
                let n = world.begin(0);
                let mut batch = world.db().batch();
                batch.put(world.keyspace(), "a", n.to_le_bytes());
                batch.put(&other, "a", n.to_le_bytes());
                batch.commit().expect("commits");
                world.acknowledge(0, n);
            }
        }
    });
    let layout = world.spawn(|world| {
        world.split(1);
        world.checkpoint();
        world.rebalance(0);
    });
    let reader = world.spawn({
        let other = other.clone();
        move |world| {
            for _ in 0..3 {
                let snapshot = world.db().snapshot().expect("a snapshot");
                let here = snapshot
                    .get(world.keyspace(), "a")
                    .expect("gets")
                    .map(|v| v.to_vec());
                let there = snapshot.get(&other, "a").expect("gets").map(|v| v.to_vec());
                let first = here.as_deref() == Some(&1u64.to_le_bytes()[..]);
                oracle!(
                    here == there || (first && there.is_none()),
                    "{here:?} and {there:?}"
                );
            }
        }
    });
    join([writer, layout, reader]);
    drop(other);
    world.finish();
}

#[test]
fn shuttle_s5_whole_batches() {
    explore(3000, || whole_batches(Plant::Nothing));
}

#[test]
fn shuttle_s5_put_upon_a_batch() {
    explore(3000, || put_upon_a_batch(Plant::Nothing));
}

#[test]
fn shuttle_s5_over_keyspaces() {
    explore(2000, over_keyspaces);
}
