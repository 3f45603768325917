//! F2: a full generation goes to the flusher, and its table replaces its memory table. F3: writers
//! stop until level 0 was compacted. F4: readers register beside rewrites. F5: tables are removed
//! beside readers of them.

use super::explore;
use super::world::{FULL, Floors, World, join};
use crate::plant::Plant;

/// F2: each put fills a generation. Acknowledged writes are seen all the time, and survive
/// `kill -9` at any moment.
pub(super) fn flushes(plant: Plant) {
    let world = World::new(8, plant);
    let writer = world.spawn(|world| {
        for _ in 0..3 {
            world.put(&[0], FULL);
        }
    });
    let reader = world.spawn(|world| {
        let mut floors = Floors::default();
        for _ in 0..6 {
            world.get(0, &mut floors);
        }
    });
    let killer = world.spawn(|world| {
        let floors = world.floors();
        world.check_killed(&floors);
    });
    join([writer, reader, killer]);
    world.finish();
}

/// F3: writers stop at this number of tables in level 0, so that they wait for a compaction. With
/// one table they wait after each flush.
pub(super) fn stops(tables: usize, plant: Plant) {
    let world = World::new(tables, plant);
    // A flush goes to level 0 if the last level has its keys.
    world.put(&[0, 1], FULL);
    world.db().flush().expect("flushes");
    let writers = [0, 1].map(|own| {
        world.spawn(move |world| {
            for _ in 0..2 {
                world.put(&[own], FULL);
            }
        })
    });
    join(writers);
    world.finish();
}

/// F4: versions that a snapshot sees stay, whenever it is taken beside a flush or a compaction.
pub(super) fn snapshots(plant: Plant) {
    let world = World::new(2, plant);
    world.put(&[0], 8);
    let reader = world.spawn(|world| {
        let mut floors = Floors::default();
        let (snapshot, seen) = world.snapshot(&mut floors);
        world.check_snapshot(&snapshot, &seen);
        world.check_snapshot(&snapshot, &seen);
    });
    let writer = world.spawn(|world| {
        world.put(&[0], 8);
        world.db().flush().expect("flushes");
    });
    join([reader, writer]);
    world.finish();
}

/// F5: scans beside compactions that replace the tables of the scans.
fn scans() {
    let world = World::new(2, Plant::Nothing);
    world.put(&[0, 1], FULL);
    let reader = world.spawn(|world| {
        let mut floors = Floors::default();
        for _ in 0..2 {
            let (snapshot, seen) = world.snapshot(&mut floors);
            world.check_snapshot(&snapshot, &seen);
        }
    });
    let writer = world.spawn(|world| {
        world.put(&[0], FULL);
        world.put(&[1], FULL);
    });
    let settler = world.spawn(|world| world.db().settle_debt().expect("settles"));
    join([reader, writer, settler]);
    world.finish();
}

#[test]
fn shuttle_f2_flushes() {
    explore(500, || flushes(Plant::Nothing));
}

#[test]
fn shuttle_f3_stops() {
    explore(1_000, || stops(1, Plant::Nothing));
}

#[test]
fn shuttle_f4_snapshots() {
    explore(1_500, || snapshots(Plant::Nothing));
}

#[test]
fn shuttle_f5_scans() {
    explore(500, scans);
}
