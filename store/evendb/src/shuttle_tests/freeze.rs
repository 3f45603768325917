//! S1: put, get, scan x freeze, checkpoint. S9: ring full, memory full x checkpoint.

use super::explore;
use super::world::{World, check_rounds, join};
use crate::Durability;
use crate::plant::Plant;
use evendb_storage::vfs::CrashMode;

/// Three keys in two chunks, put in turn, beside gets, scans and checkpoints.
pub(super) fn puts_and_checkpoints(plant: Plant) {
    let world = World::filled(3, plant);
    world.split(2);
    let writer = world.spawn(|world| world.put_rounds(&[0, 1, 2], 3));
    let checkpoints = world.spawn(|world| {
        world.checkpoint();
        world.checkpoint();
    });
    let reader = world.spawn(|world| {
        let mut floors = world.floors();
        for turn in 0..3 {
            // Read against the order of the puts: each key may be ahead of the key before.
            let later = world.get(2, &mut floors);
            let earlier = world.get(0, &mut floors);
            super::world::oracle!(
                earlier >= later,
                "get {later}, then {earlier} put before it"
            );
            check_rounds(world.scan(turn, &mut floors).into_iter());
        }
        let (snapshot, values) = world.snapshot(&mut floors);
        check_rounds(values.iter().copied());
        world.check_snapshot(&snapshot, &values, 1);
    });
    join([writer, checkpoints, reader]);
    world.finish();
}

/// Relaxed level: a power loss leaves one moment, with every put of the checkpoint.
pub(super) fn recovery_to_a_checkpoint(plant: Plant) {
    let world = World::empty(2, |mut options| {
        options.plant = plant;
        options.durability(Durability::Relaxed)
    });
    world.split(1);
    world.put_rounds(&[0, 1], 1);
    let writer = world.spawn(|world| world.put_rounds(&[0, 1], 2));
    let crasher = world.spawn(|world| {
        let floors = world.floors();
        world.checkpoint();
        world.check_crash(CrashMode::PowerLossNothing, &floors, &[0, 1]);
    });
    join([writer, crasher]);
    let floors = world.floors();
    world.checkpoint();
    world.check_crash(CrashMode::PowerLossNothing, &floors, &[0, 1]);
    world.close();
}

/// A crash in the middle of puts and checkpoints loses nothing that the level promises, and leaves
/// a prefix.
pub(super) fn killed_at_any_time(plant: Plant, durability: Durability, value_bytes: usize) {
    let world = World::with_values_of(value_bytes, 2, |mut options| {
        options.plant = plant;
        options.durability(durability)
    });
    world.split(1);
    world.put_rounds(&[0, 1], 1);
    world.checkpoint();
    let safe = world.floors();
    let writer = world.spawn(|world| world.put_rounds(&[0, 1], 3));
    let checkpoints = world.spawn(|world| {
        world.checkpoint();
        world.checkpoint();
    });
    let killer = world.spawn(move |world| {
        let (disk, acknowledged) = world.image_at_some_time();
        let after_power_loss = match durability {
            Durability::Sync => &acknowledged,
            _ => &safe,
        };
        let after_kill = match durability {
            Durability::Relaxed => &safe,
            _ => &acknowledged,
        };
        world.check_image(&disk, CrashMode::Process, after_kill, &[0, 1]);
        for mode in [CrashMode::PowerLossNothing, CrashMode::PowerLossRandom(7)] {
            world.check_image(&disk, mode, after_power_loss, &[0, 1]);
        }
    });
    join([writer, checkpoints, killer]);
    match durability {
        Durability::Relaxed => world.close(),
        _ => world.finish(),
    }
}

#[test]
fn shuttle_s1_puts_and_checkpoints() {
    explore(700, || puts_and_checkpoints(Plant::Nothing));
}

#[test]
fn shuttle_s1_recovery_to_a_checkpoint() {
    explore(500, || recovery_to_a_checkpoint(Plant::Nothing));
}

#[test]
fn shuttle_s1_killed_at_any_time() {
    for durability in [Durability::Relaxed, Durability::Process, Durability::Sync] {
        explore(500, move || {
            killed_at_any_time(Plant::Nothing, durability, 8)
        });
    }
}

/// The same scenario with values in extents of their own.
#[test]
fn shuttle_s1_killed_with_value_extents() {
    for durability in [Durability::Process, Durability::Sync] {
        explore(300, move || {
            killed_at_any_time(Plant::Nothing, durability, 20 << 10)
        });
    }
}

/// Puts that fill ring and delta memory: each put holds nothing while it waits for room, and makes
/// room itself.
#[test]
fn shuttle_s9_full_ring_and_memory() {
    explore(300, || {
        let world = World::empty(2, |options| options);
        let writers: Vec<_> = (0..2)
            .map(|own| {
                world.spawn(move |world| {
                    let big = vec![own as u8; 12 << 10];
                    for _ in 0..4 {
                        world.db().put([b'x', own as u8], &big).expect("puts");
                        world.put(own);
                    }
                })
            })
            .collect();
        let checkpoints = world.spawn(World::checkpoint);
        join(writers.into_iter().chain([checkpoints]));
        for own in 0..2u8 {
            let value = world
                .db()
                .get([b'x', own])
                .expect("gets")
                .expect("is there");
            super::world::oracle!(*value == vec![own; 12 << 10][..], "another value");
        }
        let mut floors = world.floors();
        world.get_all(&mut floors);
        world.close();
    });
}
