//! A compaction, from choosing it to showing the result.

use super::making;
use super::show::commit;
use crate::compaction;
use crate::compaction::picker::{Limits, pick};
use crate::compaction::plan::{Plan, shape};
use crate::compaction::rewrite::Stopped;
use crate::engine::Engine;
use crate::error::Error;
use crate::keyspace::KeyspaceState;
use crate::manifest::state::Edit;
use crate::plant::planted;
use crate::tables::TableFile;
use crate::tree::deserted::deserted;
use crate::tree::{Tree, TreeEdit};
use crate::types::{Age, Level};
use evendb_base::ballast::Need;
use evendb_base::sync::Arc;
use evendb_base::sync::atomic::Ordering::Relaxed;
use evendb_storage::TableId;
use std::collections::HashSet;

/// Once in this many compactions, guards that hold nothing are removed.
const TIDY_EVERY: u64 = 16;

/// A job whose tables no other job has.
pub(super) struct Job {
    keyspace: Arc<KeyspaceState>,
    tree: Arc<Tree>,
    plan: Plan,
}

impl Job {
    pub(super) fn new(keyspace: Arc<KeyspaceState>, tree: Arc<Tree>, plan: Plan) -> Job {
        Job {
            keyspace,
            tree,
            plan,
        }
    }

    pub(super) fn tables(&self) -> Vec<TableId> {
        self.plan.tables().map(|table| table.number).collect()
    }
}

pub(super) fn limits(engine: &Engine) -> Limits {
    Limits {
        write_buffer_bytes: engine.options.write_buffer_bytes(),
        level0_tables: engine.options.advanced.level0.compact,
        max_files_per_guard: engine.options.advanced.max_files_per_guard,
        look_bytes: engine.options.look_bytes(),
    }
}

/// Takes a job that is due.
pub(super) fn take(engine: &Engine) -> Option<Job> {
    let keyspaces = engine.keyspaces();
    let limits = limits(engine);
    engine.work.take_job(|busy| {
        let mut jobs = keyspaces.into_iter();
        let job = jobs.find_map(|keyspace| due(keyspace, &limits, busy))?;
        let tables = job.tables();
        Some((job, tables))
    })
}

/// Looks at the tree while `busy` is held: a new tree without the tables is shown before they are
/// free.
fn due(keyspace: Arc<KeyspaceState>, limits: &Limits, busy: &HashSet<TableId>) -> Option<Job> {
    if keyspace.is_dropped() {
        return None;
    }
    let tree = keyspace.view.load_full().tree.clone();
    let job = pick(&shape(&tree, busy), limits)?;
    let plan = Plan::of(&tree, job, limits);
    Some(Job::new(keyspace, tree, plan))
}

/// The end of a job that did not stop.
pub(super) enum Ended {
    Done,
    /// It found damage, and its tables are left as they are.
    SetAside(Error),
}

/// Does the job, unless `is_given_up` says that nobody wants it any more. The job is over after
/// this call, whatever the result is. With `kept_back` it may use the room that is kept back for a
/// full disk. A job that a call waits for may do that, and any job once puts are refused. Earlier,
/// jobs would use that room up while the disk fills.
pub(super) fn run(
    engine: &Engine,
    job: &Job,
    kept_back: bool,
    is_given_up: &dyn Fn() -> bool,
) -> Result<Ended, Stopped> {
    let mut underway = Underway {
        engine,
        job,
        damage: None,
    };
    let rewrite = || rewrite(engine, job, is_given_up);
    let rewritten = match kept_back {
        true => engine.full_disk.with(Need::Jobs, rewrite),
        false => rewrite(),
    };
    match rewritten {
        Ok(()) => Ok(Ended::Done),
        // A job of level 0 cannot be set aside: later writes would pile up behind it.
        Err(Stopped::Failed(error))
            if is_damage(&error)
                && job.plan.from != Level(0)
                && !planted!(engine.options, DamageLatches) =>
        {
            let error = Error::from(error);
            underway.damage = Some(error.clone());
            Ok(Ended::SetAside(error))
        }
        Err(stopped) => Err(stopped),
    }
}

fn is_damage(error: &evendb_storage::Error) -> bool {
    error.kind() == evendb_storage::ErrorKind::Corruption
}

/// A job that ends when this is dropped, also by a panic.
struct Underway<'j> {
    engine: &'j Engine,
    job: &'j Job,
    damage: Option<Error>,
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        let work = &self.engine.work;
        let damage = self.damage.take();
        let tables = match planted!(self.engine.options, SetAsideGivenFree) && damage.is_none() {
            true => self.job.tree.tables().map(|(_, own)| own.number).collect(),
            false => self.job.tables(),
        };
        work.end_job(&tables, damage);
    }
}

fn rewrite(engine: &Engine, job: &Job, is_given_up: &dyn Fn() -> bool) -> Result<(), Stopped> {
    let horizon = engine.clock.horizon();
    let is_cancelled = || {
        engine.work.is_stopping()
            || is_given_up()
            || engine.health.check_latched().is_err()
            || job.keyspace.is_dropped()
    };
    let (making, plan) = (making(engine), &job.plan);
    let rewritten = compaction::job::run(&making, &job.tree, plan, &horizon, &is_cancelled)?;
    let mut written = 0;
    if planted!(engine.options, InputsRemovedEarly) {
        remove(engine, plan.runs.iter().flatten());
    }
    show(engine, &job.keyspace, |_| {
        let mut edit = rewritten.edit(&making.numbers);
        if planted!(engine.options, FragmentLost) && edit.added.len() > 1 {
            edit.added.pop();
        }
        if planted!(engine.options, CountsAsOlder) {
            let age = Age((1 << 40) - making.numbers.take().0);
            for (_, table) in &mut edit.added {
                *table = table.with_age(age);
            }
        }
        written = edit.added.iter().map(|(_, table)| table.meta.len).sum();
        edit
    })?;
    if planted!(engine.options, RemovedUnderReaders) {
        remove(engine, plan.runs.iter().flatten());
    }
    let read = plan.runs.iter().flatten().map(|table| table.meta.len).sum();
    let figures = &engine.figures;
    let count = figures.compactions.fetch_add(1, Relaxed) + 1;
    figures.compaction_read_bytes.fetch_add(read, Relaxed);
    let counter = match plan.from == plan.to {
        true => &figures.merged_bytes,
        false => &figures.moved_bytes,
    };
    counter.fetch_add(written, Relaxed);
    match count.is_multiple_of(TIDY_EVERY) {
        true => remove_deserted(engine, &job.keyspace),
        false => Ok(()),
    }
}

/// Removes files that are still needed, for planted faults.
fn remove<'t>(engine: &Engine, tables: impl Iterator<Item = &'t Arc<TableFile>>) {
    for table in tables {
        let _ = engine.options.vfs.remove(&table.path());
    }
}

/// Removes guards that hold nothing any more.
fn remove_deserted(engine: &Engine, keyspace: &Arc<KeyspaceState>) -> Result<(), Stopped> {
    show(engine, keyspace, |tree| TreeEdit {
        guards: deserted(tree),
        ..TreeEdit::default()
    })
}

/// Changes a keyspace's tree as `make` says, unless the keyspace was dropped.
fn show(
    engine: &Engine,
    keyspace: &Arc<KeyspaceState>,
    make: impl FnOnce(&Tree) -> TreeEdit,
) -> Result<(), Stopped> {
    commit(engine, std::slice::from_ref(keyspace), None, |state| {
        let edit = make(&state.keyspaces().get(&keyspace.id)?.tree);
        (!edit.is_empty()).then(|| Edit {
            trees: vec![(keyspace.id, edit)],
            ..Edit::default()
        })
    })
}

/// Bytes of the tables of level 0, over all keyspaces whose level 0 is due to go down.
pub(crate) fn level0_due_bytes(engine: &Engine) -> u64 {
    let trees = engine.keyspaces();
    let trees = trees
        .iter()
        .map(|keyspace| keyspace.view.load_full().tree.clone());
    let due = trees.filter(|tree| tree.level0().len() >= engine.options.advanced.level0.compact);
    due.map(|tree| {
        tree.level0()
            .iter()
            .map(|table| table.meta.len)
            .sum::<u64>()
    })
    .sum()
}
