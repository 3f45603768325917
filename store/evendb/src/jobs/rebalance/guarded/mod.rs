//! The jobs of a chunk with guards: tables go down the tree, and the runs of a guard are merged.
//!
//! ```text
//!   tree and runs --shape--> Shape --picker, pure--> Job --> Plan --> new tables, an edit
//! ```
//! [`maintain`] does the next job that is due. [`sweep`] brings all of a range of keys to the last
//! level, whether it is due or not: for calls that ask for it, and for range deletions that hide
//! much.
//!
//! Invariants: a job replaces the tables of its plan and nothing else, so runs that checkpoints
//! publish meanwhile stay. A record is dropped by the rules of every merge (I14); a tombstone only
//! if no older table meets the keys of the job (I15). The job's new tables get an age above all
//! others, or, if they stay in their guard, the greatest age of the tables that they replace.
//!
//! Damage: a table that a job cannot read is marked, and the job fails. The next job is planned
//! around it (`guards/picker`), so each such table costs one job in vain and stops no other guard's
//! jobs. The marks are in RAM: after an opening the tables are tried again.
//!
//! Thread safety: the holder of the chunk's token; there is one job of a chunk at a time. Not here:
//! which job is due (`guards/picker`), which tables it takes (`plan`), and how they are written
//! (`compaction`).

pub(crate) mod compaction;
mod publish;
#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;

use crate::catalog::KeyspaceState;
use crate::chunk::{Chunk, View};
use crate::engine::JobContext;
use crate::engine::core::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::funk::Funk;
use crate::guards::picker::{self, Job, Limits, Shape};
use crate::guards::plan::sweep::Sweep;
use crate::guards::plan::{self, Plan};
use crate::guards::tree::{Fragment, Guard, Tree};
use crate::manifest::{KeyspaceId, Level};
use crate::rebalance::rewrite::remove_tables;
use crate::rebalance::{covered_tables, expired_tables, jobs};
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, thread};
use crate::tables::TableHandle;
use crate::version::clock::checkpoint_of;
use compaction::Compacting;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::time::Duration;

/// A part of the chunk's bytes: if range deletions hide more, their ranges are swept.
const HIDDEN_PART: u64 = 4;
/// The rest before this thread asks again for a token that a job holds.
const TOKEN_REST: Duration = Duration::from_millis(1);

/// All keys.
const ALL: (&[u8], Option<&[u8]>) = (&[], None);

/// The last error of a table that could not be read, in work that goes on with other tables.
type Failure = Cell<Option<Error>>;

/// The limits of the picker for a keyspace, by the options.
pub(crate) fn limits(core: &Core, keyspace: KeyspaceId) -> Limits {
    let (guards, run_bytes) = (&core.options.advanced.guards, core.options.run_bytes());
    Limits::of(guards, run_bytes, core.table_options(keyspace).block_bytes)
}

/// The runs of the log, newest first.
fn level0(funk: &Funk) -> Vec<Arc<TableHandle>> {
    let runs = funk.runs.iter().rev();
    runs.map(|run| run.table.clone()).collect()
}

fn shape(tree: &Tree, funk: &Funk) -> Shape {
    plan::shape(tree, &level0(funk))
}

/// The next job of the chunk, if one is due.
fn next_plan(core: &Core, keyspace: KeyspaceId, funk: &Funk) -> Option<Plan> {
    let tree = funk.tree.as_ref()?;
    let limits = limits(core, keyspace);
    let job = picker::pick(&shape(tree, funk), &limits)?;
    Some(Plan::of(tree, &level0(funk), job, &limits))
}

/// The next job, if level 0 is to go down: between two jobs of a long call. A checkpoint that finds
/// level 0 full waits for the token, and all puts wait for the checkpoint.
fn level0_first(core: &Core, keyspace: KeyspaceId, funk: &Funk) -> Option<Plan> {
    let due = core.options.advanced.guards.level0_runs.0;
    let is_due = funk.has_sorted_runs(due);
    is_due.then(|| next_plan(core, keyspace, funk)).flatten()
}

/// Makes a range of the chunk as small as it can be, and returns whether anything was written: all
/// of it goes to the last level, and each guard there is written again if that leaves fewer
/// records. The error of a table that cannot be read comes when all else is done. The caller has
/// the token.
pub(crate) fn compact(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
    (low, high): (&[u8], Option<&[u8]>),
) -> Result<bool> {
    let failure = Failure::new(None);
    let range = (low.to_vec(), high.map(<[u8]>::to_vec));
    let mut worked = sweep(context, keyspace, chunk, range, &failure)?;
    let is_filtered = keyspace.filter.lock().is_some();
    let view = chunk.view.load_full();
    let meets = |own: &Fragment| own.meta().overlaps(low, high);
    let spent = SpentCovers::of(context.core, &view);
    let is_hidden = |own: &Fragment| {
        spent
            .as_ref()
            .is_some_and(|spent| spent.may_hide_some_of(&own.table))
    };
    let is_due = |guard: &Guard| {
        let is_asked = guard.fragments.iter().any(meets);
        let is_hidden = guard.fragments.iter().any(is_hidden);
        let shrinks = || compaction::would_shrink(context, keyspace, &view, guard);
        Ok(is_asked && (is_filtered || is_hidden || shrinks()?))
    };
    worked |= rewrite_guards(context, keyspace, chunk, &is_due, &failure)?;
    worked |= covered_tables::drop_covered(context, keyspace, chunk)?;
    failure.take().map_or(Ok(worked), Err)
}

/// An error if jobs leave out tables with keys of the range, because one could not read them.
pub(crate) fn check_none_left_out(chunk: &Chunk, range: (&[u8], Option<&[u8]>)) -> Result<()> {
    match left_out(chunk, range) {
        0 => Ok(()),
        tables => {
            let what = format!("{tables} tables are left as they are: they could not be read");
            Err(Error::new(ErrorKind::Corruption, what))
        }
    }
}

/// The number of tables with keys of the range that jobs leave out, because one could not read
/// them.
fn left_out(chunk: &Chunk, (low, high): (&[u8], Option<&[u8]>)) -> usize {
    let view = chunk.view.load_full();
    let tables = view
        .funk
        .tables()
        .filter(|table| table.is_damaged() && table.part.meta.overlaps(low, high));
    tables.count()
}

/// Writes each guard of the last level again that is due and can be read. Each is asked for once.
fn rewrite_guards(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
    is_due: &dyn Fn(&Guard) -> Result<bool>,
    failure: &Failure,
) -> Result<bool> {
    let mut worked = false;
    let asked = RefCell::new(HashSet::new());
    loop {
        let fatal = Cell::new(None);
        let next = |funk: &Funk, tree: &Tree| {
            if let Some(plan) = level0_first(context.core, keyspace.id, funk) {
                return Some(plan);
            }
            let mut guards = tree.guards(Level::LAST).all().iter();
            let guard = guards.find(|guard| {
                let is_new = asked.borrow_mut().insert(guard.low.clone());
                is_new
                    && !guard.is_stuck()
                    && is_due(guard).unwrap_or_else(|error| {
                        match guard.is_stuck() {
                            true => failure.set(Some(error)),
                            false => fatal.set(Some(error)),
                        }
                        false
                    })
            })?;
            Some(Plan::rewriting(Level::LAST, guard))
        };
        let done = run_past_damage(context, keyspace, chunk, &next, failure)?;
        if let Some(error) = fatal.take() {
            return Err(error);
        }
        if !done {
            return Ok(worked);
        }
        context.core.health.check_healthy()?;
        worked = true;
    }
}

/// The most bytes that the next job would read, if one is due.
pub(crate) fn debt(core: &Core, keyspace: KeyspaceId, view: &View) -> u64 {
    let Some(tree) = &view.funk.tree else {
        return 0;
    };
    let level0 = level0(&view.funk);
    let job = picker::pick(&plan::shape(tree, &level0), &limits(core, keyspace));
    job.map_or(0, |job| plan::bytes_of_job(tree, &level0, job).max(1))
}

/// Does the next job of the chunk, if one is due, and drops what may go unread. Returns whether it
/// did anything; then it may be asked again. After the error of a table that cannot be read, too:
/// the chunk is looked at again. The caller has the token.
pub(crate) fn maintain(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
) -> Result<bool> {
    let core = context.core;
    let mut worked = covered_tables::drop_covered(context, keyspace, chunk)?;
    worked |= expired_tables::drop_expired(context, keyspace, chunk)?;
    let view = chunk.view.load_full();
    if hides_much(core, &view) && sweep_hidden(context, keyspace, chunk, &view)? {
        return Ok(true);
    }
    let next = |funk: &Funk, tree: &Tree| {
        let due = next_plan(core, keyspace.id, funk);
        due.or_else(|| moving(context, keyspace.id, funk, tree))
    };
    Ok(run_one(context, keyspace, chunk, &next)? || worked)
}

/// The plan that moves values out of a file that is being emptied, or tables out of a container
/// that is, if there are some. A job of level 0 may move a table as it is; then the table's guard
/// is written again by a later job.
fn moving(
    context: &JobContext<'_>,
    keyspace: KeyspaceId,
    funk: &Funk,
    tree: &Tree,
) -> Option<Plan> {
    let core = context.core;
    let values = &core.value_files;
    let segments = context.disk.container.segments();
    if !values.is_any_to_be_emptied() && !segments.has_thin() {
        return None;
    }
    let names_one = |table: &Arc<TableHandle>| {
        values.is_one_to_be_emptied(&table.part.meta.value_files)
            || segments.is_in_thin(table.part.place)
    };
    let names_one_of = |guard: &&Arc<Guard>| {
        !guard.is_stuck() && guard.fragments.iter().any(|own| names_one(&own.table))
    };
    let mut guards = Tree::guarded_levels().filter_map(|level| {
        let guard = tree.guards(level).all().iter().find(names_one_of)?;
        Some(Plan::rewriting(level, guard))
    });
    guards.next().or_else(|| {
        let limits = limits(core, keyspace);
        let is_in_log = funk.runs.iter().any(|run| names_one(&run.table));
        let job = is_in_log.then(|| picker::down_from_level0(&shape(tree, funk), &limits))?;
        Some(Plan::of(tree, &level0(funk), job, &limits))
    })
}

/// Does the job that `next` plans for the chunk. Returns whether there is one.
fn run_one(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
    next: &dyn Fn(&Funk, &Tree) -> Option<Plan>,
) -> Result<bool> {
    let core = context.core;
    // It is read before the view: the view has all range deletions of completed checkpoints.
    let completed = *context.flow.completed.lock();
    let view = chunk.view.load_full();
    let Some(tree) = &view.funk.tree else {
        return Ok(false);
    };
    let Some(plan) = next(&view.funk, tree) else {
        return Ok(false);
    };
    let from = Compacting {
        completed,
        view: &view,
        tree,
        plan: &plan,
    };
    let compacted = compaction::compact(context, keyspace, &from).inspect_err(|error| {
        if note_damage(&plan, error) {
            context.work.push_maintenance(chunk);
        }
    })?;
    publish::publish(context, keyspace, chunk, &plan, &compacted)
        .inspect_err(|_| remove_tables(context, &compacted.parts))?;
    core.metrics.rebalances.add(1);
    jobs::finish_layout(context, std::slice::from_ref(chunk))?;
    if context.disk.full_disk.is_owed() {
        // The next job needs the room of the tables that this one has replaced.
        drop((plan, view));
        jobs::flush_manifest(context)?;
        context.disk.collect(&core.health);
    }
    Ok(true)
}

/// [`run_one`]; when tables turn out that cannot be read, the next plan, which leaves them out, is
/// done instead, and the error is noted.
fn run_past_damage(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
    next: &dyn Fn(&Funk, &Tree) -> Option<Plan>,
    failure: &Failure,
) -> Result<bool> {
    loop {
        let before = left_out(chunk, ALL);
        match run_one(context, keyspace, chunk, next) {
            Err(error) if left_out(chunk, ALL) > before => failure.set(Some(error)),
            done => return done,
        }
    }
}

/// After a job that failed: returns whether it was because of tables that it could not read. Its
/// sources have marked these. Where damage is none of a table's own bytes, all tables of the plan
/// are marked, so that the job is not tried again and again.
fn note_damage(plan: &Plan, error: &Error) -> bool {
    let mut rewritten = plan.runs.iter().flatten();
    if error.kind() == ErrorKind::Corruption && !rewritten.clone().any(Fragment::is_damaged) {
        for own in rewritten.clone() {
            own.table.note_damage();
        }
    }
    rewritten.any(Fragment::is_damaged)
}

/// Whether spent range deletions hide a large part of the chunk, or are many.
fn hides_much(core: &Core, view: &View) -> bool {
    if view.covers.is_none() {
        return false;
    }
    let hidden = covered_tables::hidden(&core.clock, view);
    let all: u64 = view
        .funk
        .tables()
        .map(|table| table.part.meta.data_bytes)
        .sum();
    hidden.pieces as usize > covered_tables::PIECES_MAX || hidden.bytes > all / HIDDEN_PART
}

/// The spent range deletions of a view: from their first key to their last, and the last checkpoint
/// of one of them.
struct SpentCovers {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    newest: u64,
}

impl SpentCovers {
    /// `None` if there are none.
    fn of(core: &Core, view: &View) -> Option<SpentCovers> {
        let (covers, limit) = covered_tables::spent_limit(&core.clock, view)?;
        let spent = covers.stretches();
        let spent = spent.filter_map(|stretch| Some((stretch.newest_up_to(limit)?, stretch)));
        let spent: Vec<_> = spent.collect();
        let ((_, first), (_, last)) = (spent.first()?, spent.last()?);
        Some(SpentCovers {
            low: first.low.to_vec(),
            high: last.high.map(<[u8]>::to_vec),
            newest: spent
                .iter()
                .map(|(newest, _)| checkpoint_of(*newest))
                .max()?,
        })
    }

    /// `None` also if they were swept since the newest of them was spent.
    fn to_sweep(core: &Core, chunk: &Chunk, view: &View) -> Option<SpentCovers> {
        // Relaxed: only the holder of the token acts on it, and it alone changes it.
        let swept_to = chunk.swept_to.load(Ordering::Relaxed);
        SpentCovers::of(core, view).filter(|spent| spent.newest > swept_to)
    }

    /// Whether they may hide records of a table.
    fn may_hide_some_of(&self, table: &TableHandle) -> bool {
        table.part.meta.overlaps(&self.low, self.high.as_deref())
            && covered_tables::cleared_to(table) < self.newest
    }
}

/// The bytes of the tables that [`sweep_hidden`] would write again, or zero if it would do nothing.
pub(crate) fn bytes_to_sweep(core: &Core, chunk: &Chunk, view: &View) -> u64 {
    let Some(spent) = SpentCovers::to_sweep(core, chunk, view) else {
        return 0;
    };
    let tables = view.funk.tables();
    let met = tables.filter(|table| spent.may_hide_some_of(table) && !table.is_damaged());
    met.map(|table| table.part.meta.data_bytes).sum()
}

/// Brings the ranges of spent range deletions to the last level, without what they hide, and drops
/// those that hide nothing any more. Returns whether anything was done. The caller has the token.
pub(crate) fn sweep_hidden(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
    view: &View,
) -> Result<bool> {
    let failure = Failure::new(None);
    let worked = apply_covers(context, keyspace, chunk, view, &failure)?;
    if worked {
        covered_tables::drop_covered_since(context, keyspace, chunk, Some(view))?;
    }
    failure.take().map_or(Ok(worked), Err)
}

/// Rewrites what spent range deletions may hide records of: all of their ranges goes to the last
/// level, where each guard is written again, unless that was done since. Returns whether anything
/// was done. It is tried once for the spent range deletions of a checkpoint: what is left then are
/// those that hide records of a table that cannot be read, or that a snapshot needs in part, and
/// it would be left again.
fn apply_covers(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
    view: &View,
    failure: &Failure,
) -> Result<bool> {
    let Some(spent) = SpentCovers::to_sweep(context.core, chunk, view) else {
        return Ok(false);
    };
    let range = (spent.low.clone(), spent.high.clone());
    let swept = sweep(context, keyspace, chunk, range, failure)?;
    let is_due = |guard: &Guard| {
        let mut fragments = guard.fragments.iter();
        Ok(fragments.any(|own| spent.may_hide_some_of(&own.table)))
    };
    let rewritten = rewrite_guards(context, keyspace, chunk, &is_due, failure)?;
    // Relaxed: only the holder of the token acts on it.
    chunk.swept_to.store(spent.newest, Ordering::Relaxed);
    Ok(rewritten || swept)
}

/// The bytes of the runs of level 0 that should have gone down, and the most that there may be of
/// them; puts are slowed by their relation.
pub(crate) fn late_bytes(core: &Core, funk: &Funk) -> (u64, u64) {
    if !funk.is_guarded() {
        return (0, 0);
    }
    let (compact, stop) = core.options.advanced.guards.level0_runs;
    let runs = core.options.run_bytes();
    let late = funk.sorted_runs().saturating_sub(compact) as u64;
    (
        late.saturating_mul(runs),
        (stop - compact).max(1) as u64 * runs,
    )
}

/// Before a checkpoint: where level 0 of a chunk with guards has as many runs as it may have, and
/// the checkpoint would add one, this thread compacts it. If puts are faster than the workers, puts
/// wait for this.
pub(crate) fn relieve_level0(context: &JobContext<'_>) -> Result<()> {
    let stop = context.core.options.advanced.guards.level0_runs.1;
    for chunk in context.flow.dirty_chunks() {
        let is_full = || {
            let funk = chunk.view.load_full().funk.clone();
            funk.is_guarded() && funk.has_sorted_runs(stop)
        };
        while is_full() {
            context.core.health.check_healthy()?;
            let Some(keyspace) = context.catalog.keyspace_of(&chunk) else {
                break;
            };
            let Some(_token) = chunk.try_token() else {
                thread::sleep(TOKEN_REST);
                continue;
            };
            // An ingest has replaced it meanwhile, by a chunk that has its runs.
            if chunk.latch.lock().retired {
                break;
            }
            let before = left_out(&chunk, ALL);
            match maintain(context, &keyspace, &chunk) {
                // The next job leaves out what this one could not read.
                Err(_) if left_out(&chunk, ALL) > before => {}
                // A full disk, a dropped keyspace: the checkpoint goes on without it.
                Err(_) if context.core.health.failure().is_none() => break,
                worked => {
                    if !worked? {
                        break;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Brings all records of a range to the last level, and merges them there with one run in each
/// guard. Records that come meanwhile are left. The caller has the token.
fn sweep(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
    range: (Vec<u8>, Option<Vec<u8>>),
    failure: &Failure,
) -> Result<bool> {
    let core = context.core;
    let begun_at = chunk.view.load_full().funk.run_end;
    let sweep = RefCell::new(Sweep::new(range.0, range.1));
    let next = |funk: &Funk, tree: &Tree| {
        if let Some(plan) = level0_first(core, keyspace.id, funk) {
            return Some(plan);
        }
        let early = funk.runs.iter().rev().filter(|run| run.ordinal < begun_at);
        let early: Vec<_> = early.map(|run| run.table.clone()).collect();
        let job = loop {
            let job = sweep.borrow_mut().next(tree, &early)?;
            // A run with deletes that somebody still needs is left as it is.
            let in_vain = match job {
                Job::Within {
                    level,
                    guard,
                    runs: 1,
                } => {
                    let guard = &tree.guards(level).all()[guard];
                    let view = chunk.view.load_full();
                    let shrinks = compaction::would_shrink(context, keyspace, &view, guard);
                    shrinks.is_ok_and(|yes| !yes)
                }
                _ => false,
            };
            if !in_vain {
                break job;
            }
        };
        Some(Plan::of(tree, &early, job, &limits(core, keyspace.id)))
    };
    let mut worked = false;
    while run_past_damage(context, keyspace, chunk, &next, failure)? {
        context.core.health.check_healthy()?;
        worked = true;
    }
    Ok(worked)
}
