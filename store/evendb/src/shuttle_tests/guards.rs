//! S13: a keyspace of guards: puts, gets and scans beside checkpoints and compactions.

use super::explore;
use super::world::{World, check_rounds, join, oracle};
use crate::options::Layout;
use crate::plant::Plant;

/// One compaction has runs above tables of guards, while two checkpoints bring further runs.
pub(super) fn checkpoints_beside_compactions(plant: Plant) {
    let world = World::empty(3, |mut options| {
        options.plant = plant;
        let options = options.layout(Layout::Guards);
        options.advanced(|advanced| {
            advanced.guards(|guards| guards.last_guard_bytes(20).table_bytes_max(64))
        })
    });
    world.put_rounds(&[0, 1, 2], 1);
    world.checkpoint();
    world.rebalance(0);
    world.put_rounds(&[0, 1, 2], 1);
    world.checkpoint();
    let (snapshot, seen) = world.snapshot(&mut world.floors());
    let writer = world.spawn(|world| {
        world.put_rounds(&[0, 1, 2], 1);
        world.checkpoint();
        world.put_rounds(&[0, 1, 2], 1);
    });
    let compacts = world.spawn(|world| {
        world.rebalance(0);
        world.checkpoint();
        world.rebalance(0);
    });
    let reader = world.spawn(|world| {
        let mut floors = world.floors();
        for turn in 0..2 {
            world.get_all(&mut floors);
            check_rounds(world.scan(turn, &mut floors).into_iter());
        }
    });
    join([writer, compacts, reader]);
    world.check_snapshot(&snapshot, &seen, 1);
    drop(snapshot);
    world.checkpoint();
    world.rebalance(0);
    let records = world.records();
    oracle!(records == 3, "{records} records of three keys");
    world.finish();
}

#[test]
fn shuttle_guards_checkpoints_beside_compactions() {
    explore(2_000, || checkpoints_beside_compactions(Plant::Nothing));
}
