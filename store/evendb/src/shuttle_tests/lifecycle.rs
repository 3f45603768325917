//! S7: a keyspace is dropped beside iterators, batches and a replay. S8: failures, a full disk,
//! closing, a panicking worker.

use super::world::{World, join, options, oracle};
use super::{explore, files};
use crate::api::keyspace::Keyspace;
use crate::error::ErrorKind;
use crate::plant::Plant;
use crate::rebalance::rewrite;
use crate::sync::thread;
use crate::{Durability, checkpoint, worker};
use evendb_storage::vfs::{CrashMode, Fault, FaultKind, FaultOn};
use shuttle::rand::Rng;

/// A keyspace with three records: a checkpoint has written two of them.
fn doomed(world: &World) -> Keyspace {
    let doomed = world.db().keyspace("doomed").expect("a keyspace");
    doomed.put("a", "1").expect("puts");
    doomed.put("b", "1").expect("puts");
    world.checkpoint();
    doomed.put("c", "1").expect("puts");
    doomed
}

fn is_gone(result: crate::Result<()>) -> bool {
    match result {
        Ok(()) => false,
        Err(error) => {
            oracle!(error.kind() == ErrorKind::KeyspaceDropped, "{error}");
            true
        }
    }
}

/// S7: a drop beside puts, batches, an iterator, a job and a checkpoint; then the log is replayed.
fn drop_among_everything() {
    let world = World::filled(1, Plant::Nothing);
    let keyspace = doomed(&world);
    let batches = world.spawn({
        let keyspace = keyspace.clone();
        move |world| {
            for _ in 0..2 {
                let mut batch = world.db().batch();
                let n = world.begin(0);
                batch.put(world.keyspace(), "a", n.to_le_bytes());
                batch.put(&keyspace, "d", n.to_le_bytes());
                if is_gone(batch.commit()) {
                    return;
                }
                world.acknowledge(0, n);
            }
        }
    });
    let reader = world.spawn({
        let keyspace = keyspace.clone();
        move |world| read_among_drops(world, &keyspace)
    });
    let job = world.spawn({
        let keyspace = keyspace.clone();
        move |world| {
            let engine = world.engine();
            let chunk = keyspace.state.index.load_full().find(b"a").clone();
            if let Some(_token) = chunk.try_token() {
                let done = rewrite::rewrite(
                    &engine.jobs(),
                    &keyspace.state,
                    std::slice::from_ref(&chunk),
                );
                is_gone(done.map(drop));
                engine.disk.manifest().flush(Vec::new()).expect("flushes");
                engine.disk.collect(&engine.core.health);
            }
        }
    });
    let dropper = world.spawn(|world| {
        world.db().drop_keyspace("doomed").expect("drops");
        world.db().keyspace("doomed").expect("another of the name");
    });
    let checkpoint = world.spawn(World::checkpoint);
    join([batches, reader, job, dropper, checkpoint]);
    drop(keyspace);
    check_dropped(&world);
    world.finish();
}

/// S7: writes to a keyspace that is being dropped, and a split in it, leave nothing that a
/// checkpoint would name.
pub(super) fn writes_beside_a_drop(plant: Plant) {
    let world = World::filled(1, plant);
    let keyspace = doomed(&world);
    keyspace.delete_range("b".."c").expect("deletes");
    let writer = world.spawn({
        let keyspace = keyspace.clone();
        move |_| {
            for _ in 0..3 {
                is_gone(keyspace.put("b", "2"));
            }
        }
    });
    let job = world.spawn({
        let keyspace = keyspace.clone();
        move |world| world.split_of(&keyspace.state, b"b")
    });
    let dropper = world.spawn(|world| {
        world.db().drop_keyspace("doomed").expect("drops");
    });
    let checkpoint = world.spawn(World::checkpoint);
    join([writer, job, dropper, checkpoint]);
    oracle!(is_gone(keyspace.put("b", "3")), "a put after the drop");
    drop(keyspace);
    world.checkpoint();
    check_dropped(&world);
    world.finish();
}

/// S7: a snapshot is taken while its keyspace is being dropped.
pub(super) fn snapshot_beside_a_drop(plant: Plant) {
    let world = World::filled(1, plant);
    let keyspace = doomed(&world);
    let reader = world.spawn(move |world| read_among_drops(world, &keyspace));
    let dropper = world.spawn(|world| {
        world.db().drop_keyspace("doomed").expect("drops");
    });
    join([reader, dropper]);
    world.finish();
}

/// A snapshot from before the drop reads the records; a snapshot from after it is refused.
fn read_among_drops(world: &World, keyspace: &Keyspace) {
    let snapshot = world.db().snapshot().expect("a snapshot");
    for turn in 0..2 {
        let read: crate::Result<Vec<_>> = snapshot
            .iter(keyspace)
            .map(|item| Ok(item?.0.to_vec()))
            .collect();
        let keys = match read {
            Ok(keys) => keys,
            // Only a snapshot from after the drop is refused, and that at its first read.
            Err(error) => {
                oracle!(
                    is_gone(Err(error)) && turn == 0,
                    "a snapshot's keyspace went"
                );
                return;
            }
        };
        oracle!(
            keys.starts_with(&[b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]),
            "{keys:?}"
        );
    }
}

/// After the process ended, and after a power loss, the dropped keyspace's records are gone.
fn check_dropped(world: &World) {
    for mode in [CrashMode::Process, CrashMode::PowerLossAll] {
        let vfs = world.vfs.fork_state().crash(mode);
        let db = match options(&vfs).open("/db") {
            Ok(db) => db,
            Err(error) => panic!("{}does not reopen: {error}", super::world::ORACLE),
        };
        let again = db.keyspace("doomed").expect("is there");
        oracle!(
            again.iter().next().is_none(),
            "a dropped keyspace's records are back"
        );
        db.close().expect("closes");
    }
}

/// S7: a copy of A to B followed by a drop of A never loses both, at level relaxed and at level
/// process.
fn copy_and_drop() {
    for durability in [Durability::Relaxed, Durability::Process] {
        let world = World::empty(1, |options| options.durability(durability));
        let keyspace = doomed(&world);
        let copier = world.spawn(move |world| {
            let record = keyspace.get("a").expect("gets").expect("is there");
            world.db().put("copy", record).expect("puts");
            drop(keyspace);
            world.db().drop_keyspace("doomed").expect("drops");
        });
        let crasher = world.spawn(move |world| {
            let (disk, _) = world.image_at_some_time();
            let vfs = disk.crash(CrashMode::PowerLossNothing);
            let db = options(&vfs)
                .durability(durability)
                .open("/db")
                .expect("reopens");
            let original = db
                .keyspace("doomed")
                .expect("is there")
                .get("a")
                .expect("gets");
            let copy = db.get("copy").expect("gets");
            oracle!(original.is_some() || copy.is_some(), "both are lost");
            db.close().expect("closes");
        });
        let checkpoint = world.spawn(World::checkpoint);
        join([copier, crasher, checkpoint]);
        world.close();
    }
}

/// Two keys, at the default level or at level sync, where one writer syncs for others.
fn filled_at_some_level() -> std::sync::Arc<World> {
    if shuttle::rand::thread_rng().gen_bool(0.5) {
        return World::filled(2, Plant::Nothing);
    }
    let world = World::empty(2, |options| options.durability(Durability::Sync));
    world.put_rounds(&[0, 1], 1);
    world
}

/// S8: a close beside puts, scans, checkpoints and jobs; acknowledged writes are there afterwards.
fn close_among_everything() {
    let world = filled_at_some_level();
    let closed = |error: &crate::Error| error.kind() == ErrorKind::Closed;
    let writer = world.spawn(move |world| {
        for _ in 0..3 {
            let n = world.begin(0);
            match world.db().put("a", n.to_le_bytes()) {
                Ok(()) => world.acknowledge(0, n),
                Err(error) => oracle!(closed(&error), "{error}"),
            }
        }
    });
    let other = world.spawn(move |world| {
        let n = world.begin(1);
        match world.db().put("b", n.to_le_bytes()) {
            Ok(()) => world.acknowledge(1, n),
            Err(error) => oracle!(closed(&error), "{error}"),
        }
    });
    let reader = world.spawn(move |world| {
        for item in world.db().iter() {
            if let Err(error) = item {
                oracle!(closed(&error), "{error}");
                break;
            }
        }
        if let Err(error) = world.db().get("a") {
            oracle!(closed(&error), "{error}");
        }
    });
    let jobs = world.spawn(|world| {
        world.load(0);
        world.evict(0);
    });
    let closer = world.spawn(|world| world.db().clone().close().expect("closes"));
    join([writer, other, reader, jobs, closer]);
    for mode in [CrashMode::Process, CrashMode::PowerLossNothing] {
        world.check_crash(mode, &world.floors(), &[]);
    }
    world.close();
}

/// S8: the database is closed while calls write in their own threads, and is opened again at once.
/// Everything that the second life writes is there in the third, and no call of the first life
/// changes a file after the close.
pub(super) fn opened_again_beside_calls(plant: Plant) {
    let world = World::filled(2, plant);
    world.put(0);
    let ended = |done: crate::Result<()>| {
        if let Err(error) = done {
            oracle!(error.kind() == ErrorKind::Closed, "{error}");
        }
    };
    let flusher = world.spawn(move |world| {
        for _ in 0..3 {
            ended(world.db().flush());
        }
    });
    let other = world.spawn(move |world| {
        let of = world.keyspace();
        ended(match shuttle::rand::thread_rng().gen_range(0..5) {
            0 => world.db().keyspace("other").map(drop),
            1 => of.set_property("name", "value"),
            2 => world.db().persist(),
            3 => of.ingest([("x", "y")]).map(drop),
            _ => world.db().settle_debt(),
        });
    });
    let left = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let closer = world.spawn({
        let left = left.clone();
        move |world| {
            world.db().clone().close().expect("closes");
            let found = second_life(world);
            let error = found.as_ref().err().map(ToString::to_string);
            let found = found.ok().flatten();
            oracle!(found.is_some_and(|value| value == "life"), "{error:?}");
            *left.lock().expect("nobody panicked") = files(&world.vfs, "/db");
        }
    });
    join([flusher, other, closer]);
    let is_left = files(&world.vfs, "/db") == *left.lock().expect("nobody panicked");
    oracle!(is_left, "something was written after closing");
    world.close();
}

/// Opens the database and puts. Returns the value that a third life finds.
fn second_life(world: &World) -> crate::Result<Option<crate::Value>> {
    let again = options(&world.vfs).open("/db")?;
    again.put("second", "life")?;
    again.flush()?;
    again.close()?;
    let third = options(&world.vfs).open("/db")?;
    let found = third.get("second");
    third.close()?;
    found
}

/// S8: several threads close at once, and each returns after the directory is free.
fn closed_by_two() {
    let world = World::filled(1, Plant::Nothing);
    let closes = |world: &World| {
        world.db().clone().close().expect("closes");
        match options(&world.vfs).open("/db") {
            Ok(again) => again.close().expect("closes"),
            // The other thread has opened it.
            Err(error) => oracle!(error.kind() == ErrorKind::Locked, "{error}"),
        }
    };
    let both = [world.spawn(closes), world.spawn(closes)];
    join(both);
    world.close();
}

/// Whether the error is right: the caller that meets the failure gets its kind, later callers get
/// `Latched`.
fn refused(error: &crate::Error) -> bool {
    matches!(error.kind(), ErrorKind::Latched | ErrorKind::Io)
}

/// S8: the disk fails for good at some write or sync. Nothing that was acknowledged before is lost,
/// waiters return, later writes are refused, and reads go on.
fn failing_disk(kind: FaultKind, on: FaultOn) {
    let world = filled_at_some_level();
    let breaker = world.spawn(move |world| {
        world.vfs.inject(Fault {
            at: 2,
            on,
            kind,
            sticky: true,
            path_contains: None,
        });
    });
    let writers: Vec<_> = (0..2)
        .map(|own| {
            world.spawn(move |world| {
                for _ in 0..2 {
                    let n = world.begin(own);
                    let mut batch = world.db().batch();
                    batch.put(world.keyspace(), super::world::key(own), n.to_le_bytes());
                    batch.durability(Durability::Sync);
                    match batch.commit() {
                        Ok(()) => world.acknowledge(own, n),
                        Err(error) => oracle!(refused(&error), "{error}"),
                    }
                }
            })
        })
        .collect();
    let checkpoints = world.spawn(move |world| {
        for _ in 0..2 {
            if let Err(error) = checkpoint::checkpoint(world.engine()) {
                oracle!(refused(&error), "{error}");
            }
        }
    });
    let reader = world.spawn(|world| {
        let mut floors = world.floors();
        world.get_all(&mut floors);
        world.scan(1, &mut floors);
    });
    join(writers.into_iter().chain([breaker, checkpoints, reader]));
    let floors = world.floors();
    world.vfs.clear_faults();
    world.check_crash(CrashMode::PowerLossNothing, &floors, &[]);
    world.check_crash(CrashMode::Process, &floors, &[]);
    world.close();
}

/// S8: the disk is full for a while. Writes are refused, nothing acknowledged is lost, nothing
/// latches, and writes go on when there is room.
fn full_disk() {
    let world = World::filled(2, Plant::Nothing);
    world.put(0);
    let no_space = |error: &crate::Error| error.kind() == ErrorKind::NoSpace;
    let filler = world.spawn(|world| {
        let room = shuttle::rand::thread_rng().gen_range(0..8) * 512;
        world.vfs.set_capacity(world.vfs.used_bytes() + room);
        for _ in 0..shuttle::rand::thread_rng().gen_range(0..400) {
            thread::yield_now();
        }
        world.vfs.set_capacity(u64::MAX);
    });
    let writer = world.spawn(move |world| {
        for _ in 0..3 {
            let n = world.begin(0);
            match world.db().put("a", n.to_le_bytes()) {
                Ok(()) => world.acknowledge(0, n),
                Err(error) => oracle!(no_space(&error), "put: {error}"),
            }
        }
    });
    let checkpoints = world.spawn(move |world| {
        for _ in 0..2 {
            if let Err(error) = checkpoint::checkpoint(world.engine()) {
                oracle!(no_space(&error), "checkpoint: {error}");
            }
        }
    });
    let layout = world.spawn(move |world| {
        for _ in 0..2 {
            let chunk = world.state().index.load_full().find(b"a").clone();
            if let Some(_token) = chunk.try_token()
                && let Err(error) = rewrite::rewrite(
                    &world.engine().jobs(),
                    world.state(),
                    std::slice::from_ref(&chunk),
                )
            {
                oracle!(no_space(&error), "rebalance: {error}");
            }
        }
    });
    let reader = world.spawn(|world| {
        let mut floors = world.floors();
        world.get_all(&mut floors);
        world.scan(1, &mut floors);
    });
    join([filler, writer, checkpoints, layout, reader]);
    oracle!(
        world.engine().core.health.failure().is_none(),
        "a full disk latched"
    );
    world.check_crash(CrashMode::Process, &world.floors(), &[]);
    let lost = world.floors();
    world.put(1);
    world.checkpoint();
    world.check_crash(CrashMode::PowerLossNothing, &lost, &[]);
    world.close();
}

/// S8: a panic in a worker latches the database; no thread waits for ever.
fn latched_by_a_worker() {
    let world = World::filled(2, Plant::Nothing);
    let worker = world.spawn(|world| {
        let cause = crate::Error::new(ErrorKind::Io, "a reorganising thread panicked");
        world.engine().core.health.latch(cause);
    });
    let writer = world.spawn(|world| {
        for _ in 0..2 {
            let n = world.begin(0);
            match world.db().put("a", n.to_le_bytes()) {
                Ok(()) => world.acknowledge(0, n),
                Err(error) => oracle!(refused(&error), "{error}"),
            }
        }
        let _ = world.db().persist();
    });
    let checkpoint = world.spawn(|world| {
        if let Err(error) = checkpoint::checkpoint(world.engine()) {
            oracle!(refused(&error), "{error}");
        }
    });
    let jobs = world.spawn(|world| {
        world.load(0);
        world.evict(0);
    });
    join([worker, writer, checkpoint, jobs]);
    let mut floors = world.floors();
    world.get_all(&mut floors);
    world.check_crash(CrashMode::Process, &world.floors(), &[]);
    world.close();
}

/// S8: the engine's own threads: checkpoints, flushes and jobs are asked for, done, and stopped.
fn own_threads() {
    let world = World::with_values_of(90, 3, |options| {
        options
            .advanced(|advanced| advanced.chunk_bytes(256))
            .workers(1)
            .durability(Durability::Sync)
    });
    let writers: Vec<_> = [&[0, 1][..], &[2]]
        .into_iter()
        .map(|keys| world.spawn(move |world| world.put_rounds(keys, 2)))
        .collect();
    let reader = world.spawn(|world| {
        let mut floors = world.floors();
        world.get_all(&mut floors);
        world.multi_get(&mut floors);
    });
    let debt_payer = world.spawn(|world| worker::settle_debt(world.engine()).expect("settles"));
    join(writers.into_iter().chain([reader, debt_payer]));
    world.check();
    world.check_crash(CrashMode::PowerLossNothing, &world.floors(), &[]);
    world.close();
}

#[test]
fn shuttle_s8_full_disk() {
    explore(1000, full_disk);
}

#[test]
fn shuttle_s8_own_threads() {
    explore(300, own_threads);
}

#[test]
fn shuttle_s7_drop_among_everything() {
    explore(2000, drop_among_everything);
}

#[test]
fn shuttle_s7_writes_beside_a_drop() {
    explore(1000, || writes_beside_a_drop(Plant::Nothing));
}

#[test]
fn shuttle_s7_snapshot_beside_a_drop() {
    explore(1000, || snapshot_beside_a_drop(Plant::Nothing));
}

#[test]
fn shuttle_s7_copy_and_drop() {
    explore(1000, copy_and_drop);
}

#[test]
fn shuttle_s8_close_among_everything() {
    explore(2000, close_among_everything);
}

#[test]
fn shuttle_s8_opened_again_beside_calls() {
    explore(1000, || opened_again_beside_calls(Plant::Nothing));
}

#[test]
fn shuttle_s8_closed_by_two() {
    explore(500, closed_by_two);
}

#[test]
fn shuttle_s8_failing_sync() {
    explore(1000, || {
        failing_disk(FaultKind::SyncFailsThenClean, FaultOn::Sync)
    });
}

#[test]
fn shuttle_s8_failing_writes() {
    explore(1000, || {
        failing_disk(FaultKind::ShortWrite, FaultOn::Change)
    });
}

#[test]
fn shuttle_s8_latched_by_a_worker() {
    explore(1000, latched_by_a_worker);
}
