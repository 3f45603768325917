//! Checkpoints: every delta of completed versions is written, as one sorted run for each chunk,
//! into the chunk's log, and an edit of the manifest records that the checkpoint is complete.
//!
//! Order of steps; each needs the one before it (docs/concurrency.md, checkpoint):
//! 1. `replay_from` = head of the commit log, before GV moves: records below it have an older
//!    version.
//! 2. GV moves to the next checkpoint. The checkpoint waits for pending puts of older versions.
//! 3. Each dirty chunk: freeze, take the frozen deltas and the new range deletions, mark the run as
//!    under way; merge, write. Then one sync of the container. The changes that are kept beyond the
//!    commit log are appended, and synced ([`crate::kept_changes`]).
//! 4. Each run is marked as named. A manifest edit with the runs, the range deletions of the same
//!    chunks, and `replay_from` is synced: the checkpoint is complete.
//! 5. The commit log's tail moves.
//! 6. Log indexes and cached rows take the runs' keys, also in chunks with a munk: their rows would
//!    otherwise be stale once the munk is evicted.
//! 7. Each chunk gets its new view: the run is in the funk; the deltas leave, or stay for the munk.
//!
//! While puts have plenty of room a checkpoint rests between chunks, so that its work is spread
//! over time.
//!
//! On a full disk a checkpoint gives up without loss and without latching: the deltas stay frozen
//! for the next checkpoint. A failed write or sync latches.
//!
//! Thread safety: one checkpoint at a time, under its mutex, beside all other calls. Not here: the
//! run of one chunk (`run`), its writes (`gather`), and what it changes in its chunk (`publish`).

mod deltas;
mod gather;
pub(crate) mod joining;
mod publish;
mod run;
pub(crate) mod table;
#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;

use crate::chunk::{Chunk, RunStage};
use crate::commit_log::Lsn;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::engine::flow::Flow;
use crate::engine::log::Log;
use crate::engine::{Engine, JobContext};
use crate::error::{Error, Result};
use crate::files::LOCK;
use crate::full_disk::Need;
use crate::funk::Funk;
use crate::guards::tree::choose::GuardRule;
use crate::kept_changes::RingToKeep;
use crate::manifest::edit::{Change, Place};
use crate::memory_policy::MemoryPolicy;
use crate::pace::Rest;
use crate::plant::planted;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Weak};
use crate::trace;
use crate::version::clock::checkpoint_of;
use crate::version::horizon::Horizon;
pub(crate) use deltas::delta_sources;
use gather::Gatherer;
use publish::publish_run;
use run::{PendingRun, begin_run, write_run};
use std::time::Instant;

/// What all runs of one checkpoint share.
struct Runs<'e> {
    core: &'e Core,
    disk: &'e Disk,
    memory: &'e MemoryPolicy,
    /// This checkpoint, and the next one.
    number: u64,
    next: u64,
    horizon: Horizon,
}

impl Runs<'_> {
    /// What decides which keys of a chunk with guards become guards.
    fn guard_rule(&self, funk: &Funk) -> Option<GuardRule> {
        let tree = funk.tree.as_ref()?;
        let bytes = self.core.options.last_guard_bytes();
        Some(GuardRule::new(bytes, tree.seed()))
    }
}

/// Runs a checkpoint that takes the records that an earlier life left in the commit log, unless one
/// has run already.
pub(crate) fn take_inherited(engine: &Engine) -> Result<()> {
    // Pairs with the Release of the checkpoint that took these records.
    if engine.log.inherits.load(Ordering::Acquire) {
        let _one_at_a_time = engine.flow.checkpoint_mutex.lock();
        // Another call may have run it while this one waited.
        if engine.log.inherits.load(Ordering::Acquire) {
            checkpoint_locked(engine)?;
        }
    }
    Ok(())
}

/// Runs one checkpoint: when it returns, everything put before the call survives power loss.
pub(crate) fn checkpoint(engine: &Engine) -> Result<()> {
    let _one_at_a_time = engine.flow.checkpoint_mutex.lock();
    checkpoint_locked(engine)
}

/// [`checkpoint`] for a caller that holds the checkpoint mutex.
pub(crate) fn checkpoint_locked(engine: &Engine) -> Result<()> {
    // Writes wait for the checkpoint, so it may use room that is kept from jobs.
    let full_disk = &engine.disk.full_disk;
    full_disk.with(Need::Jobs, || {
        full_disk.with(Need::Deletes, || try_checkpoint(engine))
    })?;
    tend_full_disk(engine);
    engine.log.is_stuck.store(false, Ordering::Relaxed);
    Ok(())
}

/// Reserves the bytes that are kept for a full disk, where there is room for them. When room has
/// come back, jobs that found none are looked at again.
pub(crate) fn tend_full_disk(engine: &Engine) {
    let (disk, catalog) = (&engine.disk, &engine.catalog);
    if engine.core.health.failure().is_none() && disk.full_disk.tend(catalog) {
        for (_, chunk) in catalog.chunks() {
            engine.work.push_maintenance(&chunk);
        }
    }
}

fn try_checkpoint(engine: &Engine) -> Result<()> {
    let Engine {
        core, disk, log, ..
    } = engine;
    core.health.check_healthy()?;
    let claimed = engine.claim.check(&disk.dir.join(LOCK));
    claimed.map_err(|error| core.health.latch(error))?;
    let started = Instant::now();
    let job = trace::job!("checkpoint");
    let replay_from = log.replay_position();
    let (of, value_bytes) = move_version(engine);
    let mut runs = Vec::new();
    if let Err(error) = write_and_name(engine, &of, replay_from, &mut runs) {
        core.value_files.give_up_checkpoint(value_bytes);
        return Err(give_up(&engine.jobs(), error, runs));
    }
    move_tail(engine, replay_from);
    log.value_extents.drop_below(replay_from);
    trace::event!(
        DEBUG,
        "checkpoint",
        number = of.number,
        chunks = runs.len(),
        bytes = runs.iter().map(PendingRun::bytes).sum::<u64>(),
        duration_micros = job.micros()
    );
    let mut rest = Rest::of_checkpoint(core);
    for run in runs {
        publish_run(&engine.jobs(), run);
        rest.take_if_due();
    }
    note_completed(engine, of.number);
    core.metrics.checkpoints.add(1);
    let nanos = started.elapsed().as_nanos() as u64;
    core.metrics.checkpoint_nanos.add(nanos);
    Ok(())
}

/// Step 2. Returns what the runs share, and the bytes of values that have been written since the
/// checkpoint before.
fn move_version(engine: &Engine) -> (Runs<'_>, u64) {
    let core = &engine.core;
    // Before the version moves: what comes in between counts for the next checkpoint too, which
    // does no harm.
    core.admission.covers_taken();
    let value_bytes = core.value_files.begin_checkpoint();
    let boundary = core.clock.advance_checkpoint();
    let number = checkpoint_of(boundary) - 1;
    let mut horizon = core.clock.horizon();
    if planted!(core.options, ExpiryWithoutSnapshots) {
        horizon.times.clear();
    }
    let of = Runs {
        core,
        disk: &engine.disk,
        memory: &engine.memory,
        number,
        next: number + 1,
        horizon,
    };
    (of, value_bytes)
}

/// Steps 3 and 4. After an error `runs` has the runs that were begun.
fn write_and_name(
    engine: &Engine,
    of: &Runs<'_>,
    replay_from: Lsn,
    runs: &mut Vec<PendingRun>,
) -> Result<()> {
    let (core, log) = (&engine.core, &engine.log);
    let written = write_runs(of, &engine.flow, runs);
    if planted!(core.options, EarlyTail) {
        move_tail(engine, replay_from);
    }
    written?;
    keep_changes(log, replay_from);
    // The runs refer to these values, so they are synced before an edit names the runs.
    if !planted!(core.options, ValuesNotSynced) {
        core.value_files.sync()?;
    }
    complete(of, replay_from, runs)
}

/// Behind step 7: tells those who wait for this checkpoint, or for room.
fn note_completed(engine: &Engine, number: u64) {
    let flow = &engine.flow;
    // Everything that an earlier life left is below the new replay position.
    engine.log.inherits.store(false, Ordering::Release);
    engine.core.value_files.note_completed(number);
    *flow.completed.lock() = number;
    flow.progress.notify_all();
    engine.disk.full_disk.note_room(&engine.catalog);
}

/// Before step 4: keeps the changes that readers of changes need and that the tail is going to
/// pass.
fn keep_changes(log: &Log, replay_from: Lsn) {
    let history = &log.history;
    if let (Some(kept), Some(file), Some(ring)) = (&history.kept, &history.file, &log.commit_log) {
        let source = RingToKeep {
            file: &**file,
            capacity: history.capacity,
            log: ring,
            lives: &history.lives,
        };
        kept.keep(&source, replay_from);
    }
}

/// Step 5.
fn move_tail(engine: &Engine, replay_from: Lsn) {
    if let Some(log) = &engine.log.commit_log {
        engine
            .core
            .admission
            .ring_tail_moved(log.set_tail(replay_from));
    }
}

/// Step 3: writes the runs of all dirty chunks and syncs them.
fn write_runs(of: &Runs<'_>, flow: &Flow, runs: &mut Vec<PendingRun>) -> Result<()> {
    let &Runs { core, disk, .. } = of;
    let mut writer = Gatherer::new(core, &disk.container);
    let mut rest = Rest::of_checkpoint(core);
    while let Some(mut queue) = take_due(of, flow) {
        // The runs are written in key order, so neighbours in the key space are neighbours in the
        // file.
        queue.sort_by(|a, b| (a.0.keyspace, &a.0.range.low).cmp(&(b.0.keyspace, &b.0.range.low)));
        for (index, (chunk, _)) in queue.iter().enumerate() {
            rest.take_if_due();
            let Some(run) = begin_run(of, chunk) else {
                continue;
            };
            runs.push(run);
            let run = runs.last_mut().expect("just pushed");
            if let Err(error) = write_run(of, run, &mut writer) {
                // Chunks that were not reached stay dirty.
                let left = queue[index + 1..].iter();
                let left = left.map(|(chunk, number)| (Arc::downgrade(chunk), *number));
                flow.dirty.lock().extend(left);
                return Err(error);
            }
        }
    }
    writer.finish()?;
    if !runs.is_empty() {
        disk.container.sync()?;
    }
    Ok(())
}

/// Takes the chunks that the dirty queue has for checkpoint `number` or an earlier one; `None` once
/// there are none.
///
/// A layout change queues the chunks that take over before the old ones can go. So a queue whose
/// chunks are all gone is not the end: other chunks have been queued since.
fn take_due(of: &Runs<'_>, flow: &Flow) -> Option<Vec<(Arc<Chunk>, u64)>> {
    let &Runs { core, number, .. } = of;
    let due: Vec<_> = {
        let mut dirty = flow.dirty.lock();
        dirty
            .extract_if(.., |(_, checkpoint)| *checkpoint <= number)
            .collect()
    };
    let found = due.len();
    if cfg!(evendb_shuttle) {
        // `Weak::upgrade` is no step of a model's schedule, so reading the clock is one. (A yield
        // would also change priorities.)
        let _ = core.clock.now();
    }
    let upgraded = |(chunk, checkpoint): (Weak<Chunk>, u64)| Some((chunk.upgrade()?, checkpoint));
    let there: Vec<_> = due.into_iter().filter_map(upgraded).collect();
    let is_end = match planted!(core.options, GoneIsTheEnd) {
        true => there.is_empty(),
        false => found == 0,
    };
    (!is_end).then_some(there)
}

/// Step 4.
fn complete(of: &Runs<'_>, replay_from: Lsn, runs: &[PendingRun]) -> Result<()> {
    // A rewrite that took effect before this has queued its edit, so that edit is before the runs'
    // edit. From here on no rewrite takes effect until the run is in the view.
    for run in runs {
        run.chunk.latch.lock().run = RunStage::Named;
    }
    let mut changes: Vec<Change> = Vec::with_capacity(runs.len() + 1);
    for run in runs {
        let id = run.chunk.id;
        if !run.tables.is_empty() {
            let parts = run.tables.iter().map(|table| table.part.clone()).collect();
            changes.push(Change::AddParts { id, parts });
        }
        if !run.guards.is_empty() {
            changes.push(Change::EditFragments {
                id,
                gone: Vec::new(),
                parts: Vec::new(),
                guards: run.guards.clone(),
            });
        }
        if !run.covers.is_empty() {
            let covers = run.covers.clone();
            changes.push(Change::AddCovers { id, covers });
        }
    }
    changes.push(Change::Checkpoint {
        number: of.number,
        replay_from,
    });
    let bytes = of.disk.manifest().flush(changes)?;
    of.core.metrics.bytes_manifest.add(bytes);
    Ok(())
}

/// Gives up a checkpoint that cannot be completed: none of its runs counts. After a full disk it is
/// tried again later; any other failure latches.
fn give_up(context: &JobContext<'_>, error: Error, runs: Vec<PendingRun>) -> Error {
    let &JobContext {
        core,
        disk,
        flow,
        work,
        ..
    } = context;
    let out_of_room = error.kind().is_for_want();
    let mut dirty = Vec::new();
    for run in runs {
        if out_of_room {
            for table in &run.tables {
                if let Place::Extent { offset } = table.part.place {
                    disk.container.free(offset, table.part.meta.len);
                }
            }
        }
        run.chunk.latch.lock().run = RunStage::None;
        let checkpoints = run.deltas.iter().map(|frozen| frozen.delta.checkpoint());
        // Entries that are only in the list of range deletions belong to some checkpoint up to this
        // one.
        dirty.push((Arc::downgrade(&run.chunk), checkpoints.max().unwrap_or(0)));
    }
    flow.dirty.lock().extend(dirty);
    work.stir();
    flow.clear_run();
    disk.full_disk.limit_room(0);
    if out_of_room {
        disk.container.find_punched();
        error
    } else {
        core.health.latch(error)
    }
}
