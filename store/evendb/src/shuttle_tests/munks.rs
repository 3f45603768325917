//! S3: gets and rows x load, absorb, evict, checkpoint. S6: snapshots x every collector.

use super::explore;
use super::world::{World, check_rounds, join, oracle};
use crate::plant::Plant;
use crate::rebalance::tending;
use crate::worker;

/// A munk is loaded and evicted while deltas become durable.
pub(super) fn munks_and_checkpoints(plant: Plant) {
    let world = World::filled(2, plant);
    let writer = world.spawn(|world| world.put_rounds(&[0, 1], 3));
    let checkpoints = world.spawn(|world| {
        world.checkpoint();
        world.checkpoint();
    });
    let munk = world.spawn(|world| {
        world.load(0);
        world.absorb(0);
        world.evict(0);
        world.load(0);
    });
    let reader = world.spawn(|world| {
        let mut floors = world.floors();
        for turn in 0..3 {
            world.get_all(&mut floors);
            check_rounds(world.scan(turn, &mut floors).into_iter());
        }
    });
    join([writer, checkpoints, munk, reader]);
    world.evict(0);
    world.finish();
}

/// Spans are loaded and evicted one by one while deltas become durable, and the chunk is split and
/// rewritten.
pub(super) fn spans_and_checkpoints(plant: Plant) {
    let world = World::filled(3, plant);
    let writer = world.spawn(|world| world.put_rounds(&[0, 1, 2], 3));
    let checkpoints = world.spawn(|world| {
        world.checkpoint();
        world.checkpoint();
    });
    let munk = world.spawn(|world| {
        world.load_span(1);
        world.load_span(0);
        world.absorb(0);
        world.evict_span(1);
        world.load_span(2);
        world.absorb(0);
        world.load_span(1);
    });
    let layout = world.spawn(|world| {
        world.split(1);
        world.checkpoint();
        world.rebalance(1);
    });
    let reader = world.spawn(|world| {
        let mut floors = world.floors();
        for turn in 0..3 {
            world.get_all(&mut floors);
            check_rounds(world.scan(turn, &mut floors).into_iter());
        }
    });
    join([writer, checkpoints, munk, layout, reader]);
    let mut floors = world.floors();
    world.get_all(&mut floors);
    for index in 0..3 {
        world.evict_span(index);
    }
    world.finish();
}

#[test]
fn shuttle_s3_spans_and_checkpoints() {
    explore(3000, || spans_and_checkpoints(Plant::Nothing));
}

/// A chunk with one span in RAM is split while deltas become durable, so that one part has no span.
pub(super) fn parts_and_checkpoints(plant: Plant) {
    let world = World::filled(3, plant);
    world.load_span(0);
    let writer = world.spawn(|world| world.put_rounds(&[0, 1, 2], 3));
    let layout = world.spawn(|world| {
        world.checkpoint();
        world.split(1);
        world.checkpoint();
    });
    let reader = world.spawn(|world| {
        let mut floors = world.floors();
        for turn in 0..3 {
            world.get_all(&mut floors);
            check_rounds(world.scan(turn, &mut floors).into_iter());
        }
    });
    join([writer, layout, reader]);
    let mut floors = world.floors();
    world.get_all(&mut floors);
    world.finish();
}

#[test]
fn shuttle_s3_parts_and_checkpoints() {
    explore(2000, || parts_and_checkpoints(Plant::Nothing));
}

/// Gets fill rows while checkpoints, splits and munks go on.
pub(super) fn rows(plant: Plant) {
    let world = World::filled(2, plant);
    let writer = world.spawn(|world| {
        world.put(1);
        world.checkpoint();
        world.put(1);
    });
    let layout = world.spawn(|world| {
        world.load(0);
        world.evict(0);
        world.split(1);
        world.checkpoint();
    });
    let readers: Vec<_> = (0..2)
        .map(|_| {
            world.spawn(|world| {
                let mut floors = world.floors();
                for _ in 0..3 {
                    world.get(1, &mut floors);
                }
            })
        })
        .collect();
    join([writer, layout].into_iter().chain(readers));
    world.checkpoint();
    let mut floors = world.floors();
    world.get_all(&mut floors);
    world.finish();
}

/// One get reads a record; then its chunk is split, the key put again, and the put checkpointed;
/// then the get fills a row. This is the shortest case in which a check of the old chunk alone
/// would keep a stale row.
pub(super) fn row_across_a_split(plant: Plant) {
    let world = World::filled(2, plant);
    let reader = world.spawn(|world| {
        world.get(1, &mut world.floors());
    });
    world.split(1);
    world.put(1);
    world.checkpoint();
    join([reader]);
    world.get(1, &mut world.floors());
    world.close();
}

/// A row of a chunk that has a munk for a while.
pub(super) fn rows_beside_a_munk(plant: Plant) {
    let world = World::filled(1, plant);
    let reader = world.spawn(|world| {
        let mut floors = world.floors();
        for _ in 0..3 {
            world.get(0, &mut floors);
        }
    });
    let munk = world.spawn(|world| {
        world.load(0);
        world.put(0);
        world.checkpoint();
        world.evict(0);
    });
    join([reader, munk]);
    world.finish();
}

/// A key that is deleted stays deleted through checkpoints, loads and rewrites.
pub(super) fn deleted(plant: Plant) {
    let world = World::filled(2, plant);
    let gone = |world: &World| {
        oracle!(
            world.db().get("b").expect("gets").is_none(),
            "a deleted key is back"
        );
    };
    let deleter = world.spawn(move |world| {
        world.db().delete("b").expect("deletes");
        gone(world);
        world.checkpoint();
        gone(world);
    });
    let jobs = world.spawn(|world| {
        world.load(0);
        world.absorb(0);
        world.rebalance(0);
        world.checkpoint();
        world.evict(0);
    });
    let reader = world.spawn(|world| {
        let mut there = true;
        for _ in 0..4 {
            let now = world.db().get("b").expect("gets").is_some();
            oracle!(there || !now, "a deleted key came back");
            there = now;
        }
    });
    join([deleter, jobs, reader]);
    gone(&world);
    world.rebalance(0);
    gone(&world);
    world.close();
}

#[test]
fn shuttle_s3_deleted() {
    explore(2000, || deleted(Plant::Nothing));
}

/// S6: a snapshot's state never changes, through run writing, absorbing, loading, rewriting,
/// splitting and merging.
pub(super) fn snapshots_and_collectors() {
    let world = World::filled(3, Plant::Nothing);
    let writer = world.spawn(|world| world.put_rounds(&[0, 1, 2], 3));
    let collectors = world.spawn(|world| {
        world.checkpoint();
        world.rebalance(0);
        world.load(0);
        world.checkpoint();
        world.absorb(0);
    });
    let layout = world.spawn(|world| {
        world.split(1);
        world.checkpoint();
        world.rebalance(1);
        world.merge(0);
    });
    let reader = world.spawn(|world| {
        let mut floors = world.floors();
        let (first, seen) = world.snapshot(&mut floors);
        check_rounds(seen.iter().copied());
        for turn in 0..2 {
            let (second, later) = world.snapshot(&mut floors);
            check_rounds(later.iter().copied());
            world.check_snapshot(&first, &seen, turn);
            world.check_snapshot(&second, &later, 2);
        }
        world.check_snapshot(&first, &seen, 3);
    });
    join([writer, collectors, layout, reader]);
    world.finish();
}

/// S6: without snapshots a rewrite leaves one record per key.
fn versions_stay_bounded() {
    let world = World::filled(2, Plant::Nothing);
    let writer = world.spawn(|world| world.put_rounds(&[0, 1], 3));
    let reader = world.spawn(|world| {
        let mut floors = world.floors();
        for turn in 0..3 {
            world.scan(turn, &mut floors);
        }
    });
    let checkpoints = world.spawn(World::checkpoint);
    join([writer, reader, checkpoints]);
    world.checkpoint();
    world.rebalance(0);
    let records = world.records();
    oracle!(records == 2, "{records} records of two keys");
    world.finish();
}

/// Deltas kept for a munk are absorbed in the end, even if the thread that should have absorbed
/// them found the chunk at work: otherwise puts would wait for their memory for ever.
fn nothing_left_for_a_munk() {
    let world = World::filled(2, Plant::Nothing);
    let loader = world.spawn(|world| world.load(0));
    let checkpoints = world.spawn(|world| {
        world.put(0);
        world.checkpoint();
    });
    let worker = world.spawn(|world| {
        for _ in 0..3 {
            worker::run_queued_jobs(world.engine());
            crate::sync::thread::yield_now();
        }
    });
    join([loader, checkpoints, worker]);
    let engine = world.engine();
    tending::memory_round(&engine.jobs());
    worker::run_queued_jobs(engine);
    for (_, chunk) in engine.catalog.chunks() {
        let view = chunk.view.load_full();
        oracle!(
            !view.frozen.iter().any(|frozen| frozen.durable),
            "a durable delta is left"
        );
    }
    world.finish();
}

#[test]
fn shuttle_s3_nothing_left_for_a_munk() {
    explore(1000, nothing_left_for_a_munk);
}

#[test]
fn shuttle_s3_munks_and_checkpoints() {
    explore(2000, || munks_and_checkpoints(Plant::Nothing));
}

#[test]
fn shuttle_s3_rows() {
    explore(3000, || rows(Plant::Nothing));
}

#[test]
fn shuttle_s3_row_across_a_split() {
    explore(2000, || row_across_a_split(Plant::Nothing));
}

#[test]
fn shuttle_s3_rows_beside_a_munk() {
    explore(2000, || rows_beside_a_munk(Plant::Nothing));
}

#[test]
fn shuttle_s6_snapshots_and_collectors() {
    explore(2000, snapshots_and_collectors);
}

#[test]
fn shuttle_s6_versions_stay_bounded() {
    explore(1000, versions_stay_bounded);
}
