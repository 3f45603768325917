//! [`Plan`]: the tables of a job, and where its result goes. [`shape`]: a tree as the picker sees
//! it.
//!
//! * [`older`] - which keys may have older records than a job's, for its deletes.
//! * [`sweep`] - which jobs bring a whole range to the last level.
//!
//! All of it is pure. Level 0 is given by the tables of its runs, newest first
//! ([`runs_of_log`]). Not here: doing a job.

pub(crate) mod older;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod simulation;
pub(crate) mod sweep;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod walk;

use super::picker::{GuardShape, Job, Limits, Shape};
use super::tree::{Fragment, Guard, Guards, Tree, TreeEdit};
use crate::manifest::{Age, Level};
use crate::sync::Arc;
use crate::tables::TableHandle;
use evendb_storage::TableId;
use evendb_storage::table::TableMeta;
use std::collections::HashSet;

/// The tables of a job.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The level where they are. Level 0: they are runs of the log.
    pub(crate) from: Level,
    /// The level to which the result goes.
    pub(crate) to: Level,
    /// The tables that are rewritten, by run, newest first. The tables of each run are sorted and
    /// do not overlap. Those of level 0 have the age 0, which says nothing.
    pub(crate) runs: Vec<Vec<Fragment>>,
    /// Tables that are moved unchanged to their new place in the order, sorted. Such a table
    /// overlaps no other table of the job, straddles no guard of its new level, and has no deletes,
    /// because deletes may be useless there. So keys that come in ascending order are not written
    /// again. A run that could not be read is moved, too, whatever it straddles: nothing else moves
    /// then. If a guard is merged in place, crumbs ([`Limits::crumb_bytes`]) are not moved but
    /// rewritten: otherwise data that comes in small pieces would stay in small tables.
    pub(crate) moved: Vec<Fragment>,
}

/// A tree and the runs of level 0, newest first, as the picker sees them.
pub(crate) fn shape(tree: &Tree, level0: &[Arc<TableHandle>]) -> Shape {
    let put_bytes = bytes_of_a_put(tree, level0);
    let hidden = |deletes: u64| deletes.saturating_mul(put_bytes);
    let bytes = |meta: &TableMeta| meta.len.saturating_add(hidden(meta.deletes));
    let run_bytes = |run: &[Fragment]| sum(run.iter().map(|own| bytes(own.meta())));
    let run_hidden = |run: &[Fragment]| hidden(sum(run.iter().map(|own| own.meta().deletes)));
    let guard_shape = |guard: &Arc<Guard>| {
        let hidden: Vec<u64> = guard.free_runs().map(run_hidden).collect();
        GuardShape {
            runs: guard.free_runs().map(run_bytes).collect(),
            is_stuck: guard.is_stuck(),
            hidden: sum(hidden.iter().rev().skip(1).copied()),
            looks: guard.looks.count(),
        }
    };
    Shape {
        level0_runs: runs_of_log(level0).count(),
        level0_bytes: sum(level0.iter().map(|table| bytes(&table.part.meta))),
        level0_looks: tree.level0_looks(),
        level0_is_stuck: is_stuck(level0),
        levels: std::array::from_fn(|at| {
            let guards = tree.guards(Level(at as u8 + 1)).all();
            guards.iter().map(guard_shape).collect()
        }),
    }
}

/// The runs of level 0, newest first. The tables that one checkpoint wrote are one run: they are
/// disjoint. An ingested table, which no checkpoint wrote, is a run of its own.
pub(crate) fn runs_of_log(
    level0: &[Arc<TableHandle>],
) -> impl Iterator<Item = &[Arc<TableHandle>]> {
    let checkpoint = |table: &Arc<TableHandle>| table.part.checkpoint;
    level0.chunk_by(move |a, b| checkpoint(a) > 0 && checkpoint(a) == checkpoint(b))
}

fn is_damaged(run: &[Arc<TableHandle>]) -> bool {
    run.iter().any(|table| table.is_damaged())
}

/// Whether the oldest run of level 0 could not be read.
fn is_stuck(level0: &[Arc<TableHandle>]) -> bool {
    runs_of_log(level0).last().is_some_and(is_damaged)
}

/// The runs of level 0 that are older than each run that could not be read, newest first.
fn free_runs_of_log(level0: &[Arc<TableHandle>]) -> Vec<&[Arc<TableHandle>]> {
    let mut runs: Vec<_> = runs_of_log(level0).collect();
    let free = runs.iter().rposition(|run| is_damaged(run));
    runs.split_off(free.map_or(0, |at| at + 1))
}

/// The bytes of the tables that a job takes, which was picked for this tree and these runs. It
/// writes no more than that.
pub(crate) fn bytes_of_job(tree: &Tree, level0: &[Arc<TableHandle>], job: Job) -> u64 {
    let guard_of = |level, guard: usize| &tree.guards(level).all()[guard];
    let lens =
        |runs: &mut dyn Iterator<Item = &[Fragment]>| sum(runs.flatten().map(|own| own.meta().len));
    match job {
        Job::FromLevel0 { .. } => {
            let tables = free_runs_of_log(level0).into_iter().flatten();
            sum(tables.map(|table| table.part.meta.len))
        }
        Job::Unread { .. } => 0,
        Job::Down { level, guard } => lens(&mut guard_of(level, guard).runs()),
        Job::Within { level, guard, runs } => lens(&mut guard_of(level, guard).runs().take(runs)),
    }
}

/// The average bytes of a put, key and value.
fn bytes_of_a_put(tree: &Tree, level0: &[Arc<TableHandle>]) -> u64 {
    let runs = level0.iter().map(|table| &*table.part.meta);
    let all = runs.chain(tree.fragments().map(|(_, fragment)| fragment.meta()));
    let (mut bytes, mut puts) = (0u64, 0u64);
    for meta in all {
        bytes = bytes.saturating_add(meta.data_bytes);
        puts = puts.saturating_add(meta.entries.saturating_sub(meta.deletes));
    }
    bytes.checked_div(puts).unwrap_or(0)
}

fn sum(figures: impl Iterator<Item = u64>) -> u64 {
    figures.fold(0, u64::saturating_add)
}

impl Plan {
    /// The plan of a job that was picked for the shape of this very tree and these runs.
    pub(crate) fn of(tree: &Tree, level0: &[Arc<TableHandle>], job: Job, limits: &Limits) -> Plan {
        let in_guard = |level: Level, guard: usize| tree.guards(level).all()[guard].runs();
        let of_log = |run: &[Arc<TableHandle>]| {
            let age = Age::default();
            let fragments = run.iter().cloned().map(|table| Fragment { age, table });
            let mut fragments: Vec<Fragment> = fragments.collect();
            fragments.sort_by(|a, b| a.meta().min_key.cmp(&b.meta().min_key));
            fragments
        };
        let (from, to, runs): (_, _, Vec<Vec<_>>) = match job {
            Job::FromLevel0 { to } => {
                let runs = free_runs_of_log(level0).into_iter();
                (Level(0), to, runs.map(of_log).collect())
            }
            Job::Unread { to } => {
                return Plan {
                    from: Level(0),
                    to,
                    runs: Vec::new(),
                    moved: runs_of_log(level0).last().map(of_log).unwrap_or_default(),
                };
            }
            Job::Down { level, guard } => {
                let runs = in_guard(level, guard).map(<[_]>::to_vec);
                (level, Level(level.0 + 1), runs.collect())
            }
            Job::Within { level, guard, runs } => {
                let runs = in_guard(level, guard).take(runs).map(<[_]>::to_vec);
                (level, level, runs.collect())
            }
        };
        let mut plan = Plan {
            from,
            to,
            runs,
            moved: Vec::new(),
        };
        let bytes_min = if from == to { limits.crumb_bytes() } else { 0 };
        plan.find_moved(tree.guards(to), bytes_min);
        plan
    }

    /// The plan that writes all tables of a guard of this level again.
    pub(crate) fn rewriting(level: Level, guard: &Guard) -> Plan {
        Plan {
            from: level,
            to: level,
            runs: guard.runs().map(<[_]>::to_vec).collect(),
            moved: Vec::new(),
        }
    }

    /// Takes from the runs the tables that can be moved unchanged.
    fn find_moved(&mut self, targets: &Guards, bytes_min: u64) {
        let mut all: Vec<&Fragment> = self.runs.iter().flatten().collect();
        all.sort_by(|a, b| a.meta().min_key.cmp(&b.meta().min_key));
        let mut moved = Vec::new();
        let mut reached: Option<&[u8]> = None;
        for (at, fragment) in all.iter().enumerate() {
            let meta = fragment.meta();
            let (min, max) = (&*meta.min_key, &*meta.max_key);
            let next = all.get(at + 1);
            let is_alone = reached.is_none_or(|reached| reached < min)
                && next.is_none_or(|next| max < &*next.meta().min_key);
            reached = reached.max(Some(max));
            let fits = meta.deletes == 0 && targets.keys_within(min, max).is_empty();
            if is_alone && fits && meta.len >= bytes_min {
                moved.push((*fragment).clone());
            }
        }
        self.moved = moved;
        let moved: HashSet<TableId> = self.moved.iter().map(Fragment::id).collect();
        for run in &mut self.runs {
            run.retain(|fragment| !moved.contains(&fragment.id()));
        }
        self.runs.retain(|run| !run.is_empty());
    }

    /// All of its tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Fragment> {
        self.runs.iter().flatten().chain(&self.moved)
    }

    /// The keys before which the new tables end: guards of the target level, and the first keys of
    /// moved tables. Sorted.
    pub(crate) fn cuts(&self, tree: &Tree) -> Vec<Arc<[u8]>> {
        let Some((min, max)) = self.limits() else {
            return Vec::new();
        };
        let mut cuts = tree.guards(self.to).keys_within(min, max);
        let moved = self.moved.iter();
        cuts.extend(moved.map(|fragment| Arc::from(&*fragment.meta().min_key)));
        cuts.sort_unstable();
        cuts
    }

    /// The least and the greatest key of its tables. `None` if there are no tables.
    pub(crate) fn limits(&self) -> Option<(&[u8], &[u8])> {
        let min = self.tables().map(|own| &*own.meta().min_key).min()?;
        let max = self.tables().map(|own| &*own.meta().max_key).max()?;
        Some((min, max))
    }

    /// The greatest age of its tables. Of level 0: the age 0.
    fn newest(&self) -> Age {
        let ages = self.tables().map(|fragment| fragment.age);
        ages.max().unwrap_or_default()
    }

    /// The edit that shows the job's result: `new` takes the place of the tables that were
    /// rewritten. `tree` is the tree to which it will be applied. Runs of level 0 are none of the
    /// tree: the caller removes them from the log.
    pub(crate) fn edit(&self, tree: &Tree, new: Vec<Arc<TableHandle>>) -> TreeEdit {
        // What is merged in place stays older than what came to the guard meanwhile.
        let age = match self.from == self.to {
            true => self.newest(),
            false => tree.next_age(),
        };
        let moved = self.moved.iter().map(|fragment| fragment.table.clone());
        let added = new.into_iter().chain(moved);
        let removed = self.tables().filter(|_| self.from > Level(0));
        TreeEdit {
            removed: removed.map(|own| (self.from, own.clone())).collect(),
            added: added
                .map(|table| (self.to, Fragment { age, table }))
                .collect(),
            guards: Vec::new(),
            level0_went: self.from == Level(0),
        }
    }
}
