//! The database's own work: checkpoints, reorganisation, copies, reopenings, crashes.

use super::{Call, call};
use crate::common::{keys, varied};
use crate::world::{Outcome, World};
use evendb::{CopyCheck, CopyOptions, ErrorKind};
use std::ops::Bound;
use std::path::Path;

pub const CALLS: &[Call] = &[
    call("flush", 20, flush),
    call("persist", 12, persist),
    call("settle debt", 8, settle_debt),
    call("an idle pass", 4, idle_pass),
    call("compact", 4, compact),
    call("copy", 5, copy),
    call("look at figures", 4, stats),
    call("encrypt the key again", 2, rotate_key),
    call("close and open", 10, World::reopen),
    call("crash at once", 6, crash_at_once),
    call("crash in a call to come", 10, crash_soon),
];

fn flush(world: &mut World) -> Outcome {
    world.did("Db::flush");
    world.db().flush()?;
    world.all_is_durable();
    Ok(())
}

fn persist(world: &mut World) -> Outcome {
    world.did("Db::persist");
    world.db().persist()?;
    world.all_is_durable();
    Ok(())
}

/// Rotates to the same key. A database that is not encrypted refuses it.
fn rotate_key(world: &mut World) -> Outcome {
    world.did("Db::rotate_key");
    let rotated = world.db().rotate_key();
    if keys().is_some() {
        return rotated;
    }
    let refused = rotated.expect_err("there is no key");
    let is_right = refused.kind() == ErrorKind::NotEncrypted;
    assert!(is_right || world.vfs.crashed(), "{refused:?}");
    Ok(())
}

fn settle_debt(world: &mut World) -> Outcome {
    world.did("Db::settle_debt");
    world.db().settle_debt()?;
    world.all_is_durable();
    Ok(())
}

fn idle_pass(world: &mut World) -> Outcome {
    world.did("Db::idle_pass");
    world.db().idle_pass()?;
    world.all_is_durable();
    Ok(())
}

fn compact(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let (form, bounds, prefix) = (
        world.dice.below(4),
        world.dice.bounds(),
        world.dice.prefix(),
    );
    world.did(
        [
            "Db::compact",
            "Keyspace::compact",
            "Keyspace::compact_range",
            "Keyspace::compact_prefix",
        ][form as usize],
    );
    match form {
        0 => world.db().compact()?,
        1 => keyspace.compact()?,
        2 => keyspace.compact_range(bounds)?,
        _ => keyspace.compact_prefix(&prefix)?,
    };
    world.all_is_durable();
    let nothing_is_kept = world.snapshots.is_empty() && world.transactions.is_empty();
    if form < 2 && nothing_is_kept && world.is_without_threads() {
        let all = (Bound::<Vec<u8>>::Unbounded, Bound::Unbounded);
        let size = keyspace.approximate_size(all)?;
        let there = world.map(generation).len() as u64;
        // If keys are merged, it is only about right. Operands over a value that will expire stay
        // apart from it, and count too; and if two chunks share a table, each one's part of it is
        // estimated.
        match world.merges(generation) {
            true => assert!((size.records > 0) >= (there > 0), "{size:?}"),
            false => assert_eq!(size.records, there, "{size:?}"),
        }
    }
    Ok(())
}

/// A copy holds the acknowledged writes, opens, and refuses positions that it cannot continue from.
fn copy(world: &mut World) -> Outcome {
    world.copies += 1;
    let dir = format!("/copies/{}", world.copies);
    match world.dice.below(2) {
        0 => {
            world.did("Db::copy_to");
            world.db().copy_to(&dir)?;
        }
        _ => {
            world.did("Db::copy_to_with");
            let how = CopyOptions::new().verify(CopyCheck::Nothing);
            world.db().copy_to_with(&dir, &how)?;
        }
    }
    world.all_is_durable();
    if world.vfs.crashed() {
        return Ok(());
    }
    let vfs = world.vfs.fork_state();
    vfs.set_crash_at(u64::MAX);
    let options = varied(&vfs, world.level, world.dice.below(64));
    let other = options.clone().read_only(true).open(&dir)?;
    world.compare(&other, "a copy to read")?;
    drop(other);
    let other = options.open(&dir)?;
    world.compare(&other, "a copy")?;
    other.put("only", "in the copy")?;
    for consumer in &world.consumers {
        consumer.follow_in_a_copy(&other, &world.oracle)?;
    }
    drop(other);
    for name in world.vfs.file_names(Path::new(&dir)) {
        world.vfs.remove_file(&Path::new(&dir).join(name));
    }
    Ok(())
}

fn stats(world: &mut World) -> Outcome {
    world.did("Db::stats");
    let stats = world.db().stats();
    assert!(stats.chunks > 0, "{stats:?}");
    Ok(())
}

fn crash_at_once(world: &mut World) -> Outcome {
    world.did("Options::open");
    world.crash();
    Ok(())
}

fn crash_soon(world: &mut World) -> Outcome {
    if world.is_without_threads() {
        let operations = 1 << (1 + world.dice.below(8));
        let at = world.vfs.op_count() + world.dice.below(operations);
        world.tell(|| format!("the machine stops at operation {at}"));
        world.vfs.set_crash_at(at);
    }
    Ok(())
}
