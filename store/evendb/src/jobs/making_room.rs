//! Makes room on a full disk. The reserve for a full disk: [`crate::full_disk`].
//!
//! ```text
//!   put     needs new room -> ballast whole again -> makes room, if enough was deleted -> refused
//!   delete  needs new room -> the deletes' part of the ballast -> makes room -> refused
//!   waiting for a checkpoint that found no room: room is made; if that fails too, refused
//!
//!   making room:  checkpoint -> chunks with garbage, smallest writes first, one by one:
//!                 rewrite, edit durable, wait until the old tables are really gone -> checkpoint
//! ```
//! Each step of making room leaves more than it took, so the ballast that it began with is there
//! for the next step. It ends when the requested room is there, or when no chunk gets smaller any
//! more.
//!
//! Tables that a job dropped are deleted when the last view that names them is gone, and views go
//! when no pin of that moment is left, of any database in the process. Pins are short (I17), so
//! that takes microseconds to milliseconds, but it is not done when the job is. A thread that needs
//! the room waits for it, for a bounded time ([`collect_for_room`]), because open iterators keep
//! tables for as long as they like.
//!
//! No thread waits for ever: if a checkpoint found no room, even after all of this, threads that
//! wait for it are refused ([`refuse_waiting`]) with an error of kind `NoSpace` that names the
//! file.
//!
//! Thread safety: any thread. One thread at a time makes room; its mutex is taken holding nothing,
//! before the checkpoint mutex. The error's mutex is a leaf.

use crate::catalog::KeyspaceState;
use crate::checkpoint;
use crate::chunk::Chunk;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::full_disk::{Need, is_full};
use crate::rebalance::jobs::{self, output_bytes, will_shrink};
use crate::rebalance::{munks, rewrite, space};
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Weak, thread};
use std::time::Duration;

/// The largest number of passes, as long as each gets further.
const PASSES_MAX: usize = 8;
/// The longest wait for other threads' jobs, which may give room back.
const JOBS_WAIT: Duration = Duration::from_secs(1);
/// A range deletion counts as this many deletions: it may have hidden any number of records.
const RANGE_COUNTS: u64 = 1024;
/// The largest number of looks whether dropped tables are gone: the first looks come without a
/// rest, the later looks with a rest before each.
const LOOKS_MAX: usize = 64;
const LOOKS_WITHOUT_REST: usize = 24;
const REST: Duration = Duration::from_millis(1);

/// Makes sure that the deltas' runs will find room on the disk, before anything is logged. A full
/// disk refuses puts; `deletes` may use the reserve for them.
pub(crate) fn reserve_disk(engine: &Engine, delta_bytes: u64, deletes: bool) -> Result<()> {
    let full_disk = &engine.disk.full_disk;
    let need = || engine.core.admission.delta_to_write() + delta_bytes;
    let step = || room_step(engine);
    let needed = need();
    if full_disk.has_room_for(needed) {
        return Ok(());
    }
    if deletes {
        let reserved = full_disk.reserve_for_deletes(&engine.catalog, needed, &step);
        return match is_full(&reserved) {
            true => make_room_for(engine, delta_bytes),
            false => reserved,
        };
    }
    let ensure = |bytes| full_disk.reserve_for_puts(&engine.catalog, bytes, &step);
    let reserved = ensure(needed);
    // Room of records deleted since the last attempt may not have been given back.
    let metrics = &engine.core.metrics;
    let deletes = metrics.deletes.get() + RANGE_COUNTS * metrics.range_deletes.get();
    if is_full(&reserved) && full_disk.refusals.is_promising(deletes) {
        let made = make_room(engine, &|| ensure(need()));
        match made.is_ok() {
            true => full_disk.refusals.note_success(),
            false => full_disk.refusals.note_failure(deletes),
        }
        return made;
    }
    reserved
}

/// Whether the room that [`reserve_disk`] asks for is there already.
pub(crate) fn has_disk(engine: &Engine, delta_bytes: u64) -> bool {
    let needed = engine.core.admission.delta_to_write() + delta_bytes;
    engine.disk.full_disk.has_room_for(needed)
}

fn room_step(engine: &Engine) -> u64 {
    space::room_step(&engine.jobs())
}

/// For a delete on a full disk that has used up the reserve for deletes: frees space until there is
/// room.
pub(crate) fn make_room_for(engine: &Engine, delta_bytes: u64) -> Result<()> {
    let (catalog, full_disk) = (&engine.catalog, &engine.disk.full_disk);
    let need = || engine.core.admission.delta_to_write() + delta_bytes;
    let made = make_room(engine, &|| {
        full_disk.reserve_for_deletes(catalog, need(), &|| room_step(engine))
    });
    if !is_full(&made) {
        return made;
    }
    // Jobs have nothing left to do, so the delete takes any room that there is, and the reserve for
    // jobs. It gives jobs something to do.
    checkpoint_for_room(engine)?;
    full_disk.reserve_at_last(catalog, need())
}

/// Frees space until `enough` succeeds, or until nothing frees any more.
pub(crate) fn make_room(engine: &Engine, enough: &dyn Fn() -> Result<()>) -> Result<()> {
    let _one_at_a_time = engine.disk.full_disk.making_room.lock();
    for _ in 0..PASSES_MAX {
        engine.core.health.check_readable()?;
        shrink_manifest(engine)?;
        // Deltas ask for more room than their runs take. If there is no room for the runs, either,
        // jobs come first.
        let written = checkpoint_for_room(engine);
        if written.is_err() && !is_full(&written) {
            return written;
        }
        if written.is_ok() && enough().is_ok() {
            return Ok(());
        }
        let worked = give_back_garbage(engine, &|| written.is_ok() && enough().is_ok())?;
        // Another thread's jobs may have given room back just now.
        let waited = !engine.core.manual() && engine.work.wait_idle_for(JOBS_WAIT);
        collect_for_room(engine);
        if !worked && !waited {
            break;
        }
    }
    checkpoint_for_room(engine)?;
    enough()
}

/// A checkpoint, for which the container gives room back.
fn checkpoint_for_room(engine: &Engine) -> Result<()> {
    or_in_surplus(engine, &|| checkpoint::checkpoint(engine))
}

/// An attempt. If there is no room for it, the container gives its surplus back, and it is made
/// once more.
fn or_in_surplus(engine: &Engine, attempt: &dyn Fn() -> Result<()>) -> Result<()> {
    let done = attempt();
    match is_full(&done) && shrink_container(engine) {
        true => attempt(),
        false => done,
    }
}

/// Gives back the container's free bytes beyond the need of the deltas. They are of no use to
/// deletes while edits and tables find no room, and edits and tables free more. Returns whether
/// there were any.
fn shrink_container(engine: &Engine) -> bool {
    let (core, disk) = (&engine.core, &engine.disk);
    let kept = core.admission.delta_to_write();
    let given = disk.container.give_all_back(kept) > 0;
    disk.full_disk.note_room(&engine.catalog);
    given
}

/// Rewrites chunks that give room back, until `enough`. Returns whether anything was done.
fn give_back_garbage(engine: &Engine, enough: &dyn Fn() -> bool) -> Result<bool> {
    let mut worked = false;
    for also_unneeded in [false, true] {
        let named = |chunk: &Arc<Chunk>| {
            let bytes = output_bytes(&chunk.view.load_full());
            (bytes, Arc::downgrade(chunk))
        };
        // Weak pointers: chunks that are replaced meanwhile must go.
        let mut chunks: Vec<(u64, Weak<Chunk>)> = {
            let chunks = engine.catalog.chunks();
            chunks.iter().map(|(_, chunk)| named(chunk)).collect()
        };
        // The chunks that take least room come first: the room that they free serves the others.
        chunks.sort_by_key(|(bytes, _)| *bytes);
        for chunk in chunks.iter().filter_map(|(_, chunk)| chunk.upgrade()) {
            engine.core.health.check_readable()?;
            let done = match also_unneeded {
                false => maintain_on_full_disk(engine, chunk),
                true => rewrite_for_room(engine, chunk),
            };
            match done {
                Ok(done) => {
                    worked |= done;
                    if done && enough() {
                        return Ok(true);
                    }
                }
                // Another chunk may need less, or may still exist.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::NoSpace | ErrorKind::Corruption | ErrorKind::KeyspaceDropped
                    ) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(worked)
}

/// [`jobs::maintain`]; if there is no room for it, once more with further room: files that queued
/// edits drop, and, if the chunk will shrink, the reserve. Other jobs do not get the reserve,
/// because they would use it up while the disk fills.
pub(crate) fn maintain_on_full_disk(engine: &Engine, chunk: Arc<Chunk>) -> Result<bool> {
    let maintain = || jobs::maintain(&engine.jobs(), &chunk);
    let mut done = maintain();
    if is_full(&done) {
        give_room_back(engine)?;
        // The view is not kept during the job: it names the tables that the job drops.
        let shrinks = will_shrink(&chunk.view.load_full());
        done = match shrinks {
            true => engine.disk.full_disk.with(Need::Jobs, maintain),
            false => maintain(),
        };
        if shrinks && is_full(&done) && shrink_container(engine) {
            done = maintain();
        }
    }
    // If the chunk was replaced, its tables can go only now.
    drop(chunk);
    if engine.disk.full_disk.is_owed() && done.as_ref().is_ok_and(|&worked| worked) {
        take_room_back(engine)?;
    }
    done
}

/// Rewrites a chunk that does not need it, if that gives room back: on a full disk no room may lie
/// idle. Returns whether it did.
fn rewrite_for_room(engine: &Engine, chunk: Arc<Chunk>) -> Result<bool> {
    let (Some(keyspace), Some(token)) = (engine.catalog.keyspace_of(&chunk), chunk.try_token())
    else {
        return Ok(false);
    };
    let view = chunk.view.load_full();
    let all: u64 = view.funk.tables().map(|table| table.part_len()).sum();
    let useful = output_bytes(&view) * 4 / 3 < all;
    drop(view);
    let damaged = chunk.damaged.load(Ordering::Relaxed);
    if !useful || damaged || chunk.latch.lock().retired {
        return Ok(false);
    }
    munks::absorb(&engine.core, &chunk);
    let rewritten = rewrite_with_kept(engine, &keyspace, &chunk);
    drop(token);
    drop(chunk);
    take_room_back(engine)?;
    rewritten.map(|()| true)
}

/// Rewrites a chunk that gets smaller by it; on a full disk with the reserve. The caller has its
/// token and has absorbed its deltas, and calls [`take_room_back`] when it has let go of the chunk.
pub(crate) fn rewrite_with_kept(
    engine: &Engine,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
) -> Result<()> {
    let rewrite = || {
        let parts = rewrite::rewrite(&engine.jobs(), keyspace, std::slice::from_ref(chunk))?;
        jobs::finish_layout(&engine.jobs(), &parts)
    };
    with_kept(engine, &rewrite)
}

/// Does a job that gives room back; on a full disk with the reserve.
pub(crate) fn with_kept(engine: &Engine, job: &dyn Fn() -> Result<()>) -> Result<()> {
    or_in_surplus(engine, &|| engine.disk.full_disk.with(Need::Jobs, job))
}

/// After a rewrite: the room that it gave back is there, and the reserve that was given up for it
/// is laid down again.
pub(crate) fn take_room_back(engine: &Engine) -> Result<()> {
    give_room_back(engine)?;
    checkpoint::tend_full_disk(engine);
    Ok(())
}

/// Makes queued edits durable, deletes the files that they drop, and gives the container's surplus
/// to the file system.
fn give_room_back(engine: &Engine) -> Result<()> {
    shrink_manifest(engine)?;
    jobs::flush_manifest(&engine.jobs())?;
    collect_for_room(engine);
    engine.disk.full_disk.give_back_if_owed();
    Ok(())
}

/// Old edits of the manifest are garbage, too.
fn shrink_manifest(engine: &Engine) -> Result<()> {
    let Engine { core, disk, .. } = engine;
    let shrink = || Ok(disk.manifest().shrink()?);
    match disk.full_disk.with(Need::Jobs, shrink) {
        Err(error) if !error.kind().is_for_want() => Err(core.health.latch(error)),
        _ => Ok(()),
    }
}

/// Collects until every table that no edit names is gone, or for a bounded time.
pub(crate) fn collect_for_room(engine: &Engine) {
    let Engine { core, disk, .. } = engine;
    for look in 0..LOOKS_MAX {
        disk.collect(&core.health);
        if disk.tables.pending_bytes() == 0 || core.health.failure().is_some() {
            break;
        }
        match look < LOOKS_WITHOUT_REST {
            true => thread::yield_now(),
            false => thread::sleep(REST),
        }
    }
}

/// Called when a checkpoint found no room. If a thread waits for one, room is made; returns whether
/// the checkpoint is complete now.
pub(crate) fn retry_checkpoint(engine: &Engine, awaited: bool) -> bool {
    (awaited || engine.core.admission.is_waited_for()) && make_room(engine, &|| Ok(())).is_ok()
}

/// Nothing more can be done for threads that wait for a checkpoint, or for the room that it would
/// make: they get the error.
pub(crate) fn refuse_waiting(engine: &Engine, error: &Error) {
    let Engine { disk, flow, .. } = engine;
    disk.full_disk.refusals.because_of(error);
    engine.core.admission.dismiss();
    let _completed = flow.completed.lock();
    disk.full_disk.refusals.refuse();
    flow.progress.notify_all();
}

/// Looks at all chunks and does their jobs, until nothing is owed. A chunk for which there is no
/// room on the disk is looked at again as long as others give some back.
pub(crate) fn maintain_all(engine: &Engine) -> Result<()> {
    loop {
        let mut worked = false;
        let mut out_of_room = Ok(());
        // They are not held all together: chunks that are replaced meanwhile must go.
        let chunks: Vec<_> = {
            let chunks = engine.catalog.chunks();
            let each = chunks.iter();
            each.map(|(_, chunk)| Arc::downgrade(chunk)).collect()
        };
        for chunk in chunks.iter().filter_map(Weak::upgrade) {
            // Closing does not wait for all of them.
            engine.core.health.check_readable()?;
            match maintain_on_full_disk(engine, chunk) {
                Ok(done) => worked |= done,
                Err(error) if error.kind() == ErrorKind::KeyspaceDropped => {}
                Err(error) if error.kind() == ErrorKind::NoSpace => out_of_room = Err(error),
                Err(error) => return Err(error),
            }
        }
        engine.disk.collect(&engine.core.health);
        if !worked {
            return out_of_room;
        }
    }
}
