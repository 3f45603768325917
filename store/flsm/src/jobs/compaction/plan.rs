//! [`Plan`]: the tables of a job, and where its result goes. [`shape`]: a tree as the picker sees
//! it.

use super::picker::{GuardShape, Job, Limits, Shape};
use crate::tables::TableFile;
use crate::tree::{Guard, Guards, Tree};
use crate::types::Level;
use evendb_storage::TableId;
use std::collections::HashSet;
use std::sync::Arc;

/// The tables of a job.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The level where they are.
    pub(crate) from: Level,
    /// The level to which the result goes.
    pub(crate) to: Level,
    /// The tables that are rewritten. The tables of each run are sorted and do not overlap.
    pub(crate) runs: Vec<Vec<Arc<TableFile>>>,
    /// Tables that are moved unchanged to their new place in the order, sorted. Such a table
    /// overlaps no other table of the job, straddles no guard of its new level, and has no deletes,
    /// because deletes may be useless there. So keys that come in ascending order are not written
    /// again. If a guard is merged in place, crumbs ([`Limits::crumb_bytes`]) are not moved but
    /// rewritten: otherwise data that comes in small pieces would stay in small tables.
    pub(crate) moved: Vec<Arc<TableFile>>,
}

/// A tree as the picker sees it, while jobs have the tables in `busy`.
pub(crate) fn shape(tree: &Tree, busy: &HashSet<TableId>) -> Shape {
    let is_busy = |table: &Arc<TableFile>| busy.contains(&table.number);
    let put_bytes = bytes_of_a_put(tree);
    let hidden = |run: &[Arc<TableFile>]| -> u64 {
        let deletes: u64 = run.iter().map(|table| table.meta.deletes).sum();
        deletes.saturating_mul(put_bytes)
    };
    let bytes = |run: &[Arc<TableFile>]| -> u64 {
        let len: u64 = run.iter().map(|table| table.meta.len).sum();
        len.saturating_add(hidden(run))
    };
    let guard_shape = |guard: &Arc<Guard>| GuardShape {
        runs: guard.runs().map(bytes).collect(),
        hidden: guard.runs().rev().skip(1).map(hidden).sum(),
        looks: guard.looks.count(),
        busy: guard.tables.iter().any(is_busy),
    };
    let level0 = tree.level0();
    Shape {
        level0_tables: level0.len(),
        level0_bytes: bytes(level0),
        level0_looks: tree.level0_looks(),
        level0_busy: level0.iter().any(is_busy),
        levels: std::array::from_fn(|at| {
            let guards = tree.guards(Level(at as u8 + 1)).all();
            guards.iter().map(guard_shape).collect()
        }),
    }
}

/// The average bytes of a put, key and value.
fn bytes_of_a_put(tree: &Tree) -> u64 {
    let (mut bytes, mut puts) = (0u64, 0u64);
    for (_, table) in tree.tables() {
        bytes = bytes.saturating_add(table.meta.data_bytes);
        puts = puts.saturating_add(table.meta.entries.saturating_sub(table.meta.deletes));
    }
    bytes.checked_div(puts).unwrap_or(0)
}

impl Plan {
    /// The plan of a job that was picked for the shape of this very tree.
    pub(crate) fn of(tree: &Tree, job: Job, limits: &Limits) -> Plan {
        let in_guard = |level: Level, guard: usize| tree.guards(level).all()[guard].runs();
        let (from, to, runs): (_, _, Vec<Vec<_>>) = match job {
            Job::FromLevel0 { to } => {
                let tables = tree.level0().iter().cloned();
                (Level(0), to, tables.map(|table| vec![table]).collect())
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

    /// Takes from the runs the tables that can be moved unchanged.
    fn find_moved(&mut self, targets: &Guards, bytes_min: u64) {
        let mut all: Vec<Arc<TableFile>> = self.runs.iter().flatten().cloned().collect();
        all.sort_by(|a, b| a.meta.min_key.cmp(&b.meta.min_key));
        let mut reached: Option<&[u8]> = None;
        for (at, table) in all.iter().enumerate() {
            let (min, max) = (&*table.meta.min_key, &*table.meta.max_key);
            let next = all.get(at + 1);
            let is_alone = reached.is_none_or(|reached| reached < min)
                && next.is_none_or(|next| max < &*next.meta.min_key);
            reached = reached.max(Some(max));
            let fits = table.meta.deletes == 0 && targets.keys_within(min, max).is_empty();
            if is_alone && fits && table.meta.len >= bytes_min {
                self.moved.push(table.clone());
            }
        }
        let moved: HashSet<TableId> = self.moved.iter().map(|table| table.number).collect();
        for run in &mut self.runs {
            run.retain(|table| !moved.contains(&table.number));
        }
        self.runs.retain(|run| !run.is_empty());
    }

    /// All of its tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableFile>> {
        self.runs.iter().flatten().chain(&self.moved)
    }

    /// The keys before which the new tables end: guards of the target level, and the first keys of
    /// moved tables.
    pub(crate) fn cuts(&self, tree: &Tree) -> Vec<Arc<[u8]>> {
        let Some((min, max)) = self.limits() else {
            return Vec::new();
        };
        let mut cuts = tree.guards(self.to).keys_within(min, max);
        let moved = self.moved.iter();
        cuts.extend(moved.map(|table| Arc::from(&*table.meta.min_key)));
        cuts.sort_unstable();
        cuts
    }

    /// The least and the greatest key of its tables. `None` if there are no tables.
    pub(crate) fn limits(&self) -> Option<(&[u8], &[u8])> {
        let min = self.tables().map(|table| &*table.meta.min_key).min()?;
        let max = self.tables().map(|table| &*table.meta.max_key).max()?;
        Some((min, max))
    }
}
