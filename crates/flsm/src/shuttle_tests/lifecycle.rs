//! F6: a keyspace that is dropped beside everything. F7: closing in the midst of everything.

use super::explore;
use super::oracle;
use super::world::{DIR, FULL, World, join};
use crate::api::keyspace::Keyspace;
use crate::error::{ErrorKind, Result};
use crate::plant::Plant;
use evendb_base::sync::thread;
use std::path::Path;

/// Whether it was refused, which may be for this reason alone.
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

fn files(world: &World) -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(DIR);
    let names = world.vfs.file_names(dir).into_iter();
    names
        .map(|name| (name.clone(), world.vfs.read_file(&dir.join(name))))
        .collect()
}

/// F7: what was acknowledged is there, and after closing nobody writes to the directory or removes a file, whatever was under way.
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
        let (left, floors) = (files(world), world.floors());
        for _ in 0..20 {
            thread::yield_now();
        }
        oracle!(files(world) == left, "something was written after closing");
        world.check_killed(&floors);
    });
    join([put, settle, create, close]);
    world.close();
}

/// F7: a snapshot that is there when the database is closed is told so.
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
fn shuttle_f7_close_beside_a_reader() {
    explore(500, close_beside_a_reader);
}
