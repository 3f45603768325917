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

mod gather;
pub(crate) mod joining;
pub(crate) mod table;
#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;

use crate::chunk::covers::Covers;
use crate::chunk::{Chunk, Frozen, RunStage, View};
use crate::commit_log::Lsn;
use crate::engine::caches::Caches;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::engine::flow::Flow;
use crate::engine::log::Log;
use crate::engine::{Engine, JobContext};
use crate::error::{Error, Result};
use crate::files::{CONTAINER, LOCK};
use crate::full_disk::Need;
use crate::funk::tables::are_worth_naming;
use crate::funk::{Funk, Run, SearchSettings};
use crate::kept_changes::RingToKeep;
use crate::manifest::edit::{Change, CoverRecord, Part, Place, Role};
use crate::memory_shares;
use crate::merge::count::Count;
use crate::merge::{Merge, RecordSource, Source};
use crate::pace::{self, Rest};
use crate::plant::planted;
use crate::sync::atomic::Ordering;
use crate::sync::yielding::Yielder;
use crate::sync::{Arc, Weak, reclaim};
use crate::trace;
use crate::version::clock::checkpoint_of;
use crate::version::horizon::Horizon;
use crate::visibility::Dropping;
use evendb_storage::Version;
use evendb_storage::key_hash::RamHash;
use gather::Gatherer;
use joining::Joining;
use std::time::Instant;
use table::{BuiltTable, TableShape, build_table};

/// The smallest table size, in bytes, to which runs are cut on a full disk to fit the container's
/// holes.
const PIECE_BYTES_MIN: u64 = 512;

/// One table of a chunk's run, written but not yet published.
struct NewTable {
    part: Part,
    /// Hash and block of each key, for the log index.
    keys: Vec<(RamHash, usize)>,
}

/// A chunk's part of a checkpoint.
struct PendingRun {
    /// The checkpoint.
    number: u64,
    chunk: Arc<Chunk>,
    /// The frozen deltas that the run holds, newest first.
    deltas: Vec<Frozen>,
    tables: Vec<NewTable>,
    /// The range deletions that become durable with the run.
    covers: Vec<CoverRecord>,
    /// Whether tables whose keys lie above the base may join it.
    may_join_base: bool,
}

/// What all runs of one checkpoint share.
struct Runs<'e> {
    core: &'e Core,
    disk: &'e Disk,
    search: &'e SearchSettings,
    /// This checkpoint, and the next one.
    number: u64,
    next: u64,
    horizon: Horizon,
}

/// How far the writing of a chunk's run has come.
struct RunProgress {
    /// The last key that was written.
    last: Option<Vec<u8>>,
    /// About the most bytes of a table. It is smaller where the disk has no room for such a table.
    bytes_max: u64,
    /// Records that came in, and the records of the tables that found room.
    count: Count,
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
        core,
        disk,
        log,
        flow,
        ..
    } = engine;
    core.health.check_healthy()?;
    let claimed = engine.claim.check(&disk.dir.join(LOCK));
    claimed.map_err(|error| core.health.latch(error))?;
    let started = Instant::now();
    let job = trace::job!("checkpoint");
    let replay_from = log.replay_position();
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
        disk,
        search: &engine.caches.search_settings,
        number,
        next: number + 1,
        horizon,
    };
    let mut runs = Vec::new();
    let written = write_runs(&of, flow, &mut runs);
    if planted!(core.options, EarlyTail) {
        move_tail(core, log, replay_from);
    }
    if written.is_ok() {
        keep_changes(log, replay_from);
    }
    // The runs refer to these values, so they are synced before an edit names the runs.
    let written = written.and_then(|()| match planted!(core.options, ValuesNotSynced) {
        true => Ok(()),
        false => Ok(core.value_files.sync()?),
    });
    let completed = written.and_then(|()| complete(core, disk, number, replay_from, &runs));
    if let Err(error) = completed {
        core.value_files.give_up_checkpoint(value_bytes);
        return Err(give_up(&engine.jobs(), error, runs));
    }
    move_tail(core, log, replay_from);
    log.value_extents.drop_below(replay_from);
    trace::event!(
        DEBUG,
        "checkpoint",
        number = number,
        chunks = runs.len(),
        bytes = runs
            .iter()
            .flat_map(|run| &run.tables)
            .map(|table| table.part.meta.len)
            .sum::<u64>(),
        duration_micros = job.micros()
    );
    let mut rest = Rest::new(core);
    for run in runs {
        publish_run(&engine.jobs(), &engine.caches, run);
        rest.take_if_due(core, pace::checkpoint_rest(core));
    }
    // Everything that an earlier life left is below the new replay position.
    log.inherits.store(false, Ordering::Release);
    core.value_files.note_completed(number);
    *flow.completed.lock() = number;
    flow.progress.notify_all();
    disk.full_disk.note_room(&engine.catalog);
    core.metrics.checkpoints.add(1);
    let nanos = started.elapsed().as_nanos() as u64;
    core.metrics.checkpoint_nanos.add(nanos);
    Ok(())
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
fn move_tail(core: &Core, log: &Log, replay_from: Lsn) {
    if let Some(log) = &log.commit_log {
        core.admission.ring_tail_moved(log.set_tail(replay_from));
    }
}

/// Step 3: writes the runs of all dirty chunks and syncs them.
fn write_runs(of: &Runs<'_>, flow: &Flow, runs: &mut Vec<PendingRun>) -> Result<()> {
    let &Runs {
        core, disk, number, ..
    } = of;
    let mut writer = Gatherer::new(core, &disk.container);
    let mut rest = Rest::new(core);
    while let Some(mut queue) = take_due(core, flow, number) {
        // The runs are written in key order, so neighbours in the key space are neighbours in the
        // file.
        queue.sort_by(|a, b| (a.0.keyspace, &a.0.range.low).cmp(&(b.0.keyspace, &b.0.range.low)));
        for (index, (chunk, _)) in queue.iter().enumerate() {
            rest.take_if_due(core, pace::checkpoint_rest(core));
            let Some(run) = begin_run(core, chunk, number, of.next) else {
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
fn take_due(core: &Core, flow: &Flow, number: u64) -> Option<Vec<(Arc<Chunk>, u64)>> {
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

/// Takes the deltas of a chunk that belong to checkpoint `number`. From here to the end of the
/// checkpoint no layout change takes effect on the chunk.
fn begin_run(core: &Core, chunk: &Arc<Chunk>, number: u64, next: u64) -> Option<PendingRun> {
    let mut writer = chunk.latch.lock();
    if writer.retired || writer.run != RunStage::None {
        return None;
    }
    if writer.active.checkpoint() <= number {
        chunk.freeze(&mut writer, next, &core.admission);
    }
    let view = chunk.view.load_full();
    chunk.assert_view(&view, "to be flushed");
    let deltas: Vec<Frozen> = view
        .frozen
        .iter()
        .filter(|frozen| !frozen.durable && frozen.delta.checkpoint() <= number)
        .cloned()
        .collect();
    let covers = match &view.covers {
        Some(covers) if covers.durable_to() < number => {
            covers.records(&chunk.range, covers.durable_to(), number)
        }
        _ => Vec::new(),
    };
    if deltas.is_empty() && covers.is_empty() {
        return None;
    }
    let may_join_base = !writer.rebalancing
        && view.funk.base.len() < memory_shares::base_tables_max(core)
        && !deltas.is_empty()
        && reaches_above(chunk, &deltas, &view.funk);
    writer.run = match may_join_base {
        true => RunStage::ForBase,
        false => RunStage::ForLog,
    };
    Some(PendingRun {
        number,
        chunk: chunk.clone(),
        deltas,
        tables: Vec::new(),
        covers,
        may_join_base,
    })
}

/// Whether the deltas have a key of the chunk above all keys of the base.
fn reaches_above(chunk: &Chunk, deltas: &[Frozen], funk: &Funk) -> bool {
    let Some(last) = funk.base.last() else {
        return true;
    };
    let greatest = &*last.part.meta.max_key;
    let pin = reclaim::pin();
    deltas.iter().any(|frozen| {
        let range = frozen.limits.as_deref().unwrap_or(&chunk.range);
        let mut cursor = frozen.delta.cursor(&pin);
        cursor.seek(greatest.max(&*range.low));
        if cursor.valid() && cursor.key() == greatest {
            cursor.next();
        }
        cursor.valid() && range.contains(cursor.key())
    })
}

/// Merges a chunk's deltas and writes them as one table, or as several tables if they are too large
/// for one, or if a part of them may join the base.
fn write_run(of: &Runs<'_>, run: &mut PendingRun, writer: &mut Gatherer<'_>) -> Result<()> {
    let &Runs {
        core, disk, number, ..
    } = of;
    let funk = run.chunk.view.load_full().funk.clone();
    let mut ordinal = funk.run_end;
    let mut joining = run.may_join_base.then(|| Joining::new(of, &funk));
    let mut progress = RunProgress {
        last: None,
        bytes_max: core.options.chunk_bytes_max() * 7 / 10,
        count: Count::default(),
    };
    let dropping = Dropping {
        horizon: &of.horizon,
        bottom: planted!(core.options, NoTombstonesInRuns),
        zero_below: Version::MAX,
    };
    loop {
        // One table at a time is in RAM. It is built under a pin and written without one, because
        // no pin is held across I/O. The deltas are frozen, so the next table continues after the
        // last key.
        let from = writer.begin()?;
        let joins = joining.as_ref();
        let next = next_table(of, run, dropping, joins, &progress, writer.buffer())?;
        let Some(built) = next.built else {
            progress.count = next.counted;
            break;
        };
        let BuiltTable { id, meta, keys } = built;
        let offset = match disk.container.allocate(meta.len) {
            // Free room may be in small pieces, into which smaller tables fit.
            Err(error)
                if error.kind() == evendb_storage::ErrorKind::NoSpace
                    && progress.bytes_max > PIECE_BYTES_MIN =>
            {
                writer.buffer().truncate(from);
                progress.bytes_max = progress.bytes_max.min(meta.len) / 2;
                continue;
            }
            allocated => allocated?,
        };
        // A table counts only now: one that found no room is built again, smaller.
        progress.count = next.counted;
        progress.last = Some(meta.max_key.clone());
        let joins = joining.as_mut();
        let role = match joins.is_some_and(|joining| joining.takes(&meta, &keys)) {
            true => Role::Base,
            false => Role::Run { ordinal },
        };
        ordinal += u32::from(role != Role::Base);
        let len = meta.len;
        run.tables.push(NewTable {
            part: Part {
                table: id,
                place: Place::Extent { offset },
                role,
                epoch: disk.epoch,
                checkpoint: number,
                meta: Arc::new(meta),
            },
            keys,
        });
        core.metrics.bytes_log.add(len);
        if role != Role::Base {
            let logged = &run.chunk.heat.logged;
            logged.fetch_add(len, Ordering::Relaxed);
        }
        writer.place(from, offset);
        if next.is_last {
            break;
        }
    }
    // The caller latches this error.
    progress
        .count
        .check(|| run_and_file(disk, &run.chunk, number))
}

/// Names a run, for an error.
fn run_and_file(disk: &Disk, chunk: &Chunk, number: u64) -> String {
    let (chunk, file) = (chunk.id.0, disk.dir.join(CONTAINER));
    let file = file.display();
    format!("a run of checkpoint {number} of chunk {chunk} ({file}) lost or made records")
}

/// A table of a run, with the count of its records.
struct NextTable {
    /// `None` if nothing is to be written.
    built: Option<BuiltTable>,
    counted: Count,
    /// No table follows it.
    is_last: bool,
}

/// Appends the next table of a run to `buffer`. Records that may join the base get a table of their
/// own.
fn next_table(
    of: &Runs<'_>,
    run: &PendingRun,
    dropping: Dropping<'_>,
    joining: Option<&Joining<'_>>,
    progress: &RunProgress,
    buffer: &mut Vec<u8>,
) -> Result<NextTable> {
    let &Runs { core, disk, .. } = of;
    let mut yielder = pace::yielder(core);
    let pin = reclaim::pin();
    let after = progress.last.as_deref();
    let sources = delta_sources(&run.deltas, &run.chunk, after, &pin, &mut yielder);
    // The range deletions of this checkpoint are named by the same edit.
    let view = run.chunk.view.load_full();
    let covering = Covers::covering(view.covers.as_ref(), of.number);
    let operator = core.choices.operator(run.chunk.keyspace);
    let mut merge = Merge::folding(sources, dropping, covering, operator)?.yielding_by(yielder);
    let mut count = progress.count.clone();
    count.begin(&merge);
    let Some(entry) = merge.current() else {
        count.add(&merge, std::iter::empty());
        return Ok(NextTable {
            built: None,
            counted: count,
            is_last: true,
        });
    };
    let first = entry.key.to_vec();
    let ends = |key: &[u8]| joining.is_some_and(|joining| joining.parts(&first, key));
    let records = run.deltas.iter().map(|frozen| frozen.delta.len() as u64);
    let bytes = run
        .deltas
        .iter()
        .map(|frozen| frozen.delta.data_bytes() as u64);
    let shape = TableShape {
        bytes_max: progress.bytes_max,
        ends: &ends,
        is_keyed: joining.is_none() && are_worth_naming(records.sum(), bytes.sum()),
    };
    let table = build_table(core, disk, run.chunk.keyspace, &mut merge, buffer, &shape)?;
    count.add(&merge, std::iter::once(&table.meta));
    Ok(NextTable {
        built: Some(table),
        counted: count,
        is_last: merge.current().is_none(),
    })
}

/// Step 4.
fn complete(
    core: &Core,
    disk: &Disk,
    number: u64,
    replay_from: Lsn,
    runs: &[PendingRun],
) -> Result<()> {
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
        if !run.covers.is_empty() {
            let covers = run.covers.clone();
            changes.push(Change::AddCovers { id, covers });
        }
    }
    changes.push(Change::Checkpoint {
        number,
        replay_from,
    });
    let bytes = disk.manifest().flush(changes)?;
    core.metrics.bytes_manifest.add(bytes);
    Ok(())
}

/// Steps 6 and 7 for one chunk.
fn publish_run(context: &JobContext<'_>, caches: &Caches, run: PendingRun) {
    let &JobContext {
        core,
        disk,
        flow,
        work,
    } = context;
    let chunk = &run.chunk;
    let funk = chunk.view.load_full().funk.clone();
    let new_funk = Arc::new(extended_funk(disk, caches, &funk, &run.tables));
    if !(planted!(core.options, NoRowsWithMunk) && chunk.view.load_full().munk.is_some()) {
        let oldest_last = planted!(core.options, OlderRowStays);
        update_rows(caches, &run, oldest_last);
    }
    for frozen in &run.deltas {
        frozen.delta.note_durable();
    }
    let mut writer = chunk.latch.lock();
    let mut view: View = (*chunk.view.load_full()).clone();
    debug_assert!(Arc::ptr_eq(&view.funk, &funk), "a run was under way");
    view.funk = new_funk;
    if let Some(covers) = &view.covers {
        let durable = covers.durable_from(run.number, &core.clock.horizon(), core.ledger());
        view.covers = Some(Arc::new(durable));
    }
    let kept_for_load = writer.loading && !planted!(core.options, NotKeptForLoad);
    let for_munk = view.munk_holds_any() || kept_for_load;
    let flushed = |frozen: &Frozen| {
        run.deltas
            .iter()
            .any(|delta| Arc::ptr_eq(&delta.delta, &frozen.delta))
    };
    if for_munk {
        for frozen in &mut view.frozen {
            frozen.durable |= flushed(frozen);
        }
    } else {
        view.frozen.retain(|frozen| !flushed(frozen));
    }
    let absorbs = view.munk_holds_any();
    chunk.publish(view);
    writer.run = RunStage::None;
    drop(writer);
    flow.clear_run();
    let mut parts = run.tables.iter().map(|table| &table.part);
    if let Some(joined) = parts.find(|part| part.role == Role::Base) {
        chunk.joined_at.store(joined.checkpoint, Ordering::Relaxed);
    }
    let view = chunk.view.load_full();
    let many = memory_shares::log_runs_merge(core, chunk, &view);
    if view.funk.has_sorted_runs(many) {
        work.push_merge(chunk, false);
    }
    match absorbs {
        true => work.push_absorb(chunk),
        false => work.push_maintenance(chunk),
    }
}

fn extended_funk(disk: &Disk, caches: &Caches, funk: &Funk, tables: &[NewTable]) -> Funk {
    let mut base = funk.base.clone();
    let mut runs = funk.runs.clone();
    let mut run_end = funk.run_end;
    let mut search = funk.extensible_search(&caches.search_settings);
    let mut shared = funk.search_shared;
    for table in tables {
        let handle = disk.tables.acquire(&table.part);
        match table.part.role {
            Role::Base => base.push(handle),
            Role::Run { ordinal } => {
                runs.push(Run {
                    ordinal,
                    table: handle,
                });
                run_end = ordinal + 1;
                search = search.map(|search| {
                    let len = table.part.meta.len;
                    Arc::new(search.with_run(ordinal, len, &table.keys, shared))
                });
                shared = false;
            }
        }
    }
    let new_funk = Funk::new(base, runs, run_end);
    // While there is no run, a kept index would only cost memory.
    if let Some(search) = search
        && !new_funk.runs.is_empty()
    {
        new_funk.search.set(search);
    }
    Funk {
        search_shared: shared && new_funk.search.is_set(),
        ..new_funk
    }
}

/// Gives cached rows of the run's keys their new value, or removes them. (`oldest_last` is a
/// planted fault.)
fn update_rows(caches: &Caches, run: &PendingRun, oldest_last: bool) {
    let Some(rows) = caches.row_cache.as_ref().filter(|rows| rows.len() > 0) else {
        return;
    };
    // A range deletion that comes meanwhile leaves no row of these keys: while a delta has these
    // keys, no row is filled.
    let Some(tag) = run.chunk.view.load_full().row_tag.number() else {
        return;
    };
    let pin = reclaim::pin();
    // Oldest delta first, so that the newest delta's value stays. Until then no reader gets an
    // older delta's value: while the deltas are in the view, the newest of them answers.
    let mut deltas: Vec<&Frozen> = run.deltas.iter().rev().collect();
    if oldest_last {
        deltas.reverse();
    }
    for frozen in deltas {
        // A delta that a split shared holds keys of other chunks too, for which it may no longer
        // be the newest.
        let range = frozen.limits.as_deref().unwrap_or(&run.chunk.range);
        let mut cursor = frozen.delta.cursor(&pin);
        cursor.seek(&range.low);
        while cursor.valid() && range.contains(cursor.key()) {
            let key = cursor.key();
            if let Some(record) = cursor.versions().next() {
                // An expired value stays expired: the get that finds the row looks at the time. The
                // row of a merged key is removed, since it has the value from before the merge.
                let value = record
                    .kind()
                    .is_put()
                    .then(|| (record.kind(), record.value()));
                rows.update_stored(tag, key, RamHash::of(key), value);
            }
            cursor.next();
        }
    }
}

/// Gives up a checkpoint that cannot be completed: none of its runs counts. After a full disk it is
/// tried again later; any other failure latches.
fn give_up(context: &JobContext<'_>, error: Error, runs: Vec<PendingRun>) -> Error {
    let &JobContext {
        core,
        disk,
        flow,
        work,
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

/// The deltas' records as sources, newest delta first, within the chunk and each delta's limits.
/// With `after`, only records of greater keys.
pub(crate) fn delta_sources<'g>(
    deltas: &'g [Frozen],
    chunk: &Chunk,
    after: Option<&[u8]>,
    pin: &'g reclaim::Guard,
    yielder: &mut Yielder,
) -> Vec<Box<dyn Source + 'g>> {
    deltas
        .iter()
        .map(|frozen| {
            let range = frozen.limits.as_deref().unwrap_or(&chunk.range);
            let mut records = Vec::new();
            let mut cursor = frozen.delta.cursor(pin);
            cursor.seek(after.map_or(&*range.low, |key| key.max(&range.low)));
            if cursor.valid() && Some(cursor.key()) == after {
                cursor.next();
            }
            while cursor.valid() && range.contains(cursor.key()) {
                if chunk.range.contains(cursor.key()) {
                    records.extend(cursor.versions());
                }
                yielder.yield_if_due();
                cursor.next();
            }
            Box::new(RecordSource { records, at: 0 }) as Box<dyn Source + 'g>
        })
        .collect()
}
