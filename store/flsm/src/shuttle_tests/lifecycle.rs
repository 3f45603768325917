//! F6: a keyspace is dropped beside everything else. F7: closing in the midst of everything.

use super::explore;
use super::files;
use super::oracle;
use super::world::{DIR, FULL, World, join, options};
use crate::api::keyspace::Keyspace;
use crate::error::{ErrorKind, Result};
use crate::plant::Plant;
use evendb_base::sync::{Arc, thread};
use std::sync::Mutex;

/// Whether it was refused. It may be refused only for this reason.
fn is_refused(result: Result<()>, reason: ErrorKind) -> bool {
    match result {
        Ok(()) => false,
        Err(error) => {
            oracle!(error.kind() == reason, "{error}");
            true
        }
    }
}

/// F6: a snapshot that could read a keyspace once can do so for ever.
pub(super) fn snapshot_beside_a_drop(plant: Plant) {
    let world = World::new(8, plant);
    let doomed = world.db().keyspace("doomed").expect("a keyspace");
    doomed.put("k", "1").expect("puts");
    let reader = world.spawn(move |world| read_twice(world, &doomed));
    let dropper = world.spawn(|world| {
        world.db().drop_keyspace("doomed").expect("drops");
    });
    join([reader, dropper]);
    world.finish();
}

fn read_twice(world: &World, doomed: &Keyspace) {
    let snapshot = world.db().snapshot().expect("a snapshot");
    let read = || {
        let found = snapshot.get(doomed, "k")?;
        oracle!(found.as_deref() == Some(b"1"), "{found:?} in a snapshot");
        Ok(())
    };
    let before = is_refused(read(), ErrorKind::KeyspaceDropped);
    thread::yield_now();
    let after = is_refused(read(), ErrorKind::KeyspaceDropped);
    oracle!(
        before == after,
        "a snapshot that is refused changes its mind"
    );
}

/// F6: writers to another keyspace, jobs and a settle go on beside a drop.
fn drop_beside_jobs() {
    let world = World::new(2, Plant::Nothing);
    let doomed = world.db().keyspace("doomed").expect("a keyspace");
    doomed.put("k", [7; FULL]).expect("puts");
    let writer = world.spawn(move |world| {
        let _ = is_refused(doomed.put("k", [8; FULL]), ErrorKind::KeyspaceDropped);
        world.put(&[0], FULL);
        world.put(&[0], FULL);
    });
    let settler = world.spawn(|world| world.db().settle_debt().expect("settles"));
    let dropper = world.spawn(|world| {
        world.db().drop_keyspace("doomed").expect("drops");
    });
    join([writer, settler, dropper]);
    world.finish();
}

/// F7: acknowledged writes survive. After closing nobody writes to the directory or removes a file,
/// whatever was running.
fn close_beside_everything() {
    let world = World::new(2, Plant::Nothing);
    world.put(&[0], FULL);
    let put = world.spawn(|world| {
        for _ in 0..2 {
            let put = world.db().put("other", [7; FULL]);
            if is_refused(put, ErrorKind::Closed) {
                return;
            }
        }
    });
    let settle = world.spawn(|world| {
        is_refused(world.db().settle_debt(), ErrorKind::Closed);
    });
    let create = world.spawn(|world| {
        is_refused(world.db().keyspace("new").map(drop), ErrorKind::Closed);
    });
    let close = world.spawn(|world| {
        world.db().clone().close().expect("closes");
        let (left, floors) = (files(&world.vfs, DIR), world.floors());
        for _ in 0..20 {
            thread::yield_now();
        }
        oracle!(
            files(&world.vfs, DIR) == left,
            "something was written after closing"
        );
        world.check_killed(&floors);
    });
    join([put, settle, create, close]);
    world.close();
}

/// F7: two threads flush when the database is closed, and it is opened again at once. The writes of
/// the second life survive, and no flush of the first life changes a file after that.
pub(super) fn opened_again_beside_flushes(plant: Plant) {
    let world = World::new(8, plant);
    world.put(&[0], 8);
    let flushers = [1, 2].map(|key| {
        world.spawn(move |world| {
            for _ in 0..2 {
                let put = world.db().put([key], "value");
                let done = put.and_then(|()| world.db().flush());
                if is_refused(done, ErrorKind::Closed) {
                    return;
                }
            }
        })
    });
    let left = Arc::new(Mutex::new(Vec::new()));
    let close = world.spawn({
        let left = left.clone();
        move |world| {
            world.db().clone().close().expect("closes");
            let error = second_life(world).err();
            oracle!(error.is_none(), "the second life: {error:?}");
            *left.lock().expect("nobody panicked") = files(&world.vfs, DIR);
        }
    });
    join(flushers.into_iter().chain([close]));
    let is_left = files(&world.vfs, DIR) == *left.lock().expect("nobody panicked");
    oracle!(is_left, "something was written after closing");
    world.close();
}

/// Opens the database, puts, and checks in a third life that the record is there.
fn second_life(world: &World) -> Result<()> {
    let again = options(&world.vfs, 8, Plant::Nothing).open(DIR)?;
    again.put("second", "life")?;
    again.flush()?;
    again.close()?;
    let third = options(&world.vfs, 8, Plant::Nothing).open(DIR)?;
    let found = third.get("second")?;
    oracle!(
        found.is_some_and(|value| value == "life"),
        "it is not there"
    );
    third.close()
}

/// F7: a snapshot that exists when the database is closed gets the error.
fn close_beside_a_reader() {
    let world = World::new(2, Plant::Nothing);
    world.put(&[0], FULL);
    let reader = world.spawn(|world| {
        let read = || -> Result<()> {
            for item in world.db().iter() {
                item?;
            }
            Ok(())
        };
        for _ in 0..2 {
            if is_refused(read(), ErrorKind::Closed) {
                return;
            }
        }
    });
    let close = world.spawn(|world| world.db().clone().close().expect("closes"));
    join([reader, close]);
    world.close();
}

#[test]
fn shuttle_f6_snapshot_beside_a_drop() {
    explore(2_000, || snapshot_beside_a_drop(Plant::Nothing));
}

#[test]
fn shuttle_f6_drop_beside_jobs() {
    explore(500, drop_beside_jobs);
}

#[test]
fn shuttle_f7_close_beside_everything() {
    explore(500, close_beside_everything);
}

#[test]
fn shuttle_f7_opened_again_beside_flushes() {
    explore(500, || opened_again_beside_flushes(Plant::Nothing));
}

#[test]
fn shuttle_f7_close_beside_a_reader() {
    explore(500, close_beside_a_reader);
}
