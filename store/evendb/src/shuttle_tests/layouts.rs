//! S2: everything x split, merge, stale roots. S4: rebalance x checkpoint x split. S10: iterators
//! both ways x split, merge, rebalance.

use super::explore;
use super::world::{World, check_rounds, join, key, oracle};
use crate::plant::Plant;
use crate::rebalance::tending;
use crate::worker;

/// Puts, gets and scans while the chunks below them are split and merged.
pub(super) fn puts_and_splits() {
    let world = World::filled(4, Plant::Nothing);
    let writer = world.spawn(|world| world.put_rounds(&[0, 1, 2, 3], 2));
    let layout = world.spawn(|world| {
        world.split(2);
        world.merge(0);
        world.split(1);
    });
    let reader = world.spawn(|world| {
        let mut floors = world.floors();
        for turn in 0..2 {
            world.get_all(&mut floors);
            check_rounds(world.scan(turn * 2, &mut floors).into_iter());
        }
        world.get_all(&mut floors);
    });
    join([writer, layout, reader]);
    world.finish();
}

/// Puts, gets and scans with munks and checkpoints; two threads change the layout.
fn all_at_once() {
    let world = World::filled(4, Plant::Nothing);
    world.load(0);
    let writer = world.spawn(|world| world.put_rounds(&[0, 1, 2, 3], 2));
    let layout = world.spawn(|world| {
        world.split(2);
        world.rebalance(2);
        world.merge(0);
        world.load(0);
    });
    let other = world.spawn(|world| {
        world.checkpoint();
        world.split(3);
        world.evict(0);
        world.checkpoint();
        world.merge(2);
    });
    let reader = world.spawn(|world| {
        let mut floors = world.floors();
        for turn in 0..2 {
            world.get_all(&mut floors);
            check_rounds(world.scan(turn * 3, &mut floors).into_iter());
        }
    });
    join([writer, layout, other, reader]);
    world.finish();
}

/// S4: two checkpoints against a rebalance, a split and a merge of the same chunks.
pub(super) fn rebalance_and_checkpoint(plant: Plant) {
    let world = World::filled(4, plant);
    world.put_rounds(&[0, 1, 2, 3], 1);
    let writer = world.spawn(|world| world.put_rounds(&[3, 2, 1, 0], 1));
    let checkpoints = world.spawn(|world| {
        world.checkpoint();
        world.checkpoint();
    });
    let layout = world.spawn(|world| {
        world.rebalance(0);
        world.split(2);
        world.rebalance(2);
        world.merge(0);
    });
    join([writer, checkpoints, layout]);
    world.finish();
}

/// S4: a checkpoint finds queued only chunks that are replaced before it looks at them.
pub(super) fn replaced_under_a_checkpoint(plant: Plant) {
    let world = World::filled(2, plant);
    world.put_rounds(&[0, 1], 1);
    let checkpoint = world.spawn(World::checkpoint);
    let layout = world.spawn(|world| world.split(1));
    join([checkpoint, layout]);
    world.finish();
}

/// S4: a half is split again while its checkpoint runs: the shared delta's records of the other
/// half's keys must not reach the rows of those keys.
fn rows_of_shared_deltas() {
    let world = World::filled(4, Plant::Nothing);
    let mut floors = world.floors();
    world.get_all(&mut floors);
    world.put_rounds(&[0, 1, 2, 3], 1);
    world.split(2);
    world.put_rounds(&[2, 3], 1);
    let checkpoint = world.spawn(World::checkpoint);
    let layout = world.spawn(|world| world.split(1));
    let reader = world.spawn(|world| {
        let mut floors = world.floors();
        world.get_all(&mut floors);
        world.get_all(&mut floors);
    });
    join([checkpoint, layout, reader]);
    world.finish();
}

/// S4: one thread compacts all chunks, each under its token, while other threads split, merge, put
/// and flush. In the end no chunk that the others left alone meanwhile has a log.
fn compaction() {
    let world = World::filled(4, Plant::Nothing);
    world.put_rounds(&[0, 1, 2, 3], 1);
    let (snapshot, seen) = world.snapshot(&mut world.floors());
    let writer = world.spawn(|world| {
        world.put_rounds(&[3, 1], 1);
        world.checkpoint();
    });
    let layout = world.spawn(|world| {
        world.split(2);
        world.rebalance(2);
    });
    let compacts = world.spawn(|world| {
        world.db().compact().expect("compacts");
    });
    join([writer, layout, compacts]);
    world.check_snapshot(&snapshot, &seen, 1);
    drop(snapshot);
    world.db().compact().expect("compacts");
    let records: u64 = world.records();
    oracle!(records == 4, "{records} records of four keys");
    world.finish();
}

/// S4: idle work while the database is not idle: chunks are made smaller and room is given back,
/// while other threads put, flush and split.
fn idle_work() {
    let world = World::filled(4, Plant::Nothing);
    world.put_rounds(&[0, 1, 2, 3], 2);
    let writer = world.spawn(|world| {
        world.put_rounds(&[3, 1], 1);
        world.checkpoint();
    });
    let layout = world.spawn(|world| {
        world.split(2);
        world.put_rounds(&[0], 1);
    });
    let idle = world.spawn(|world| {
        for _ in 0..2 {
            world.db().idle_pass().expect("nothing fails");
        }
    });
    let reader = world.spawn(|world| world.get_all(&mut world.floors()));
    join([writer, layout, idle, reader]);
    world.db().idle_pass().expect("nothing fails");
    world.finish();
}

/// S10: iterators that stop in the middle while the layout below them changes.
fn iterators_and_layouts() {
    let world = World::filled(6, Plant::Nothing);
    let writer = world.spawn(|world| world.put_rounds(&[0, 1, 2, 3, 4, 5], 1));
    let layout = world.spawn(|world| {
        world.split(3);
        world.checkpoint();
        world.split(1);
        world.rebalance(3);
        world.merge(0);
    });
    let readers: Vec<_> = [1, 4]
        .into_iter()
        .map(|from_end| {
            world.spawn(move |world| {
                let mut floors = world.floors();
                let (snapshot, values) = world.snapshot(&mut floors);
                check_rounds(values.iter().copied());
                let mut iter = snapshot.iter(world.keyspace());
                let first = iter.next().expect("six records").expect("no error");
                let last = iter.next_back().expect("six records").expect("no error");
                oracle!(
                    *first.0 == key(0) && *last.0 == key(5),
                    "the ends are elsewhere"
                );
                world.check_snapshot(&snapshot, &values, from_end);
                let rest = super::world::both_ends(iter, from_end);
                oracle!(rest == values[1..5], "{rest:?} left of {values:?}");
                check_rounds(world.scan(from_end, &mut floors).into_iter());
            })
        })
        .collect();
    join([writer, layout].into_iter().chain(readers));
    world.finish();
}

/// The picker decides: chunks that grow are split, the munk policy loads and evicts.
fn as_workers_do() {
    let world = World::with_values_of(90, 6, |options| {
        options.advanced(|advanced| advanced.chunk_bytes(256))
    });
    world.put_rounds(&[0, 1, 2, 3, 4, 5], 1);
    world.checkpoint();
    let writer = world.spawn(|world| {
        world.put_rounds(&[0, 1, 2, 3, 4, 5], 1);
        world.checkpoint();
        world.put_rounds(&[0, 1, 2, 3, 4, 5], 1);
    });
    let workers: Vec<_> = (0..2)
        .map(|own| {
            world.spawn(move |world| {
                for turn in 0..3 {
                    world.maintain(own + turn);
                    let engine = world.engine();
                    tending::memory_round(&engine.jobs());
                    worker::run_queued_jobs(engine);
                    engine.disk.collect(&engine.core.health);
                }
            })
        })
        .collect();
    let reader = world.spawn(|world| {
        let mut floors = world.floors();
        for turn in 0..3 {
            world.get_all(&mut floors);
            check_rounds(world.scan(turn * 2, &mut floors).into_iter());
        }
    });
    join([writer, reader].into_iter().chain(workers));
    worker::settle_debt(world.engine()).expect("settles");
    oracle!(world.chunks() > 1, "no split");
    world.finish();
}

/// S4: values apart are overwritten, moved and read, and their files are removed.
fn values_that_move() {
    let world = World::with_values_of(1500, 4, |options| {
        options.advanced(|advanced| {
            advanced
                .values_apart_from(Some(1000))
                .value_file_bytes(4096)
                .value_file_live_percent(90)
        })
    });
    world.put_rounds(&[0, 1, 2, 3], 1);
    world.checkpoint();
    let writer = world.spawn(|world| {
        for _ in 0..3 {
            world.put_rounds(&[1, 3], 1);
            world.checkpoint();
        }
    });
    let worker = world.spawn(|world| {
        for _ in 0..3 {
            worker::settle_debt(world.engine()).expect("settles");
        }
    });
    let reader = world.spawn(|world| {
        let mut floors = world.floors();
        for turn in 0..3 {
            world.get_all(&mut floors);
            world.scan(turn, &mut floors);
        }
    });
    join([writer, worker, reader]);
    worker::settle_debt(world.engine()).expect("settles");
    let values = &world.engine().core.value_files;
    oracle!(values.removed.get() > 0, "no file went");
    oracle!(values.moved.get() > 0, "nothing was moved");
    world.finish();
}

#[test]
fn shuttle_s4_values_that_move() {
    explore(400, values_that_move);
}

#[test]
fn shuttle_s2_as_workers_do() {
    explore(1000, as_workers_do);
}

#[test]
fn shuttle_s2_puts_and_splits() {
    explore(2000, puts_and_splits);
}

#[test]
fn shuttle_s2_all_at_once() {
    explore(2000, all_at_once);
}

#[test]
fn shuttle_s4_rebalance_and_checkpoint() {
    explore(2000, || rebalance_and_checkpoint(Plant::Nothing));
}

#[test]
fn shuttle_s4_replaced_under_a_checkpoint() {
    explore(2000, || replaced_under_a_checkpoint(Plant::Nothing));
}

#[test]
fn shuttle_s4_rows_of_shared_deltas() {
    explore(2000, rows_of_shared_deltas);
}

#[test]
fn shuttle_s4_compaction() {
    explore(1000, compaction);
}

#[test]
fn shuttle_s4_idle_work() {
    explore(1000, idle_work);
}

#[test]
fn shuttle_s10_iterators_and_layouts() {
    explore(2000, iterators_and_layouts);
}
