//! F1: groups of writes. Which thread leads, where the others wait, and which part of a group is
//! seen.

use super::explore;
use super::oracle;
use super::world::{Floors, World, join};
use crate::plant::Plant;

/// Threads that put once or twice, and end: no later thread would wake a thread that still waits.
pub(super) fn writers_that_end(plant: Plant) {
    let world = World::new(8, plant);
    let writers: Vec<_> = (0..3)
        .map(|own| {
            world.spawn(move |world| {
                for _ in 0..2 {
                    world.put(&[own], 8);
                }
            })
        })
        .collect();
    join(writers);
    world.finish();
}

/// Batches of two keys beside snapshots. A snapshot sees both keys or none.
pub(super) fn whole_batches(plant: Plant) {
    let world = World::new(8, plant);
    let writers = [[0, 1], [2, 3]].map(|keys| {
        world.spawn(move |world| {
            for _ in 0..2 {
                world.put(&keys, 8);
            }
        })
    });
    let reader = world.spawn(|world| {
        let mut floors = Floors::default();
        for _ in 0..3 {
            let (snapshot, seen) = world.snapshot(&mut floors);
            oracle!(
                seen[0] == seen[1] && seen[2] == seen[3],
                "half of a batch: {seen:?}"
            );
            world.check_snapshot(&snapshot, &seen);
        }
    });
    join(writers.into_iter().chain([reader]));
    world.finish();
}

#[test]
fn shuttle_f1_writers_that_end() {
    explore(3_000, || writers_that_end(Plant::Nothing));
}

#[test]
fn shuttle_f1_whole_batches() {
    explore(1_500, || whole_batches(Plant::Nothing));
}
