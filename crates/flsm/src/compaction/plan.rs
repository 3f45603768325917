//! [`Plan`]: the tables of a job, and where the result goes. [`shape`]: a tree as the picker sees it.

use super::picker::{GuardShape, Job, Shape};
use crate::tables::TableFile;
use crate::tree::{Guard, Guards, Tree};
use crate::types::Level;
use evendb_storage::TableId;
use std::collections::HashSet;
use std::sync::Arc;

/// The tables of a job.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Where they are.
    pub(crate) from: Level,
    /// Where the result goes.
    pub(crate) to: Level,
    /// What is rewritten: sorted tables that do not overlap, each.
    pub(crate) runs: Vec<Vec<Arc<TableFile>>>,
    /// What goes down as it is, sorted: tables that overlap no other of the job, straddle no guard of the next level, and have no
    /// deletes, which may be of no use there. So what comes in ascending order is not written again.
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

/// On average, of key and value.
fn bytes_of_a_put(tree: &Tree) -> u64 {
    let (mut bytes, mut puts) = (0u64, 0u64);
    for (_, table) in tree.tables() {
        bytes = bytes.saturating_add(table.meta.data_bytes);
        puts = puts.saturating_add(table.meta.entries.saturating_sub(table.meta.deletes));
    }
    bytes.checked_div(puts).unwrap_or(0)
}

impl Plan {
    /// Of a job that was picked for the shape of this very tree.
    pub(crate) fn of(tree: &Tree, job: Job) -> Plan {
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
        if from != to {
            plan.find_moved(tree.guards(to));
        }
        plan
    }

    /// Takes from the runs what can go down as it is.
    fn find_moved(&mut self, targets: &Guards) {
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
            if is_alone && fits {
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

    /// Where what is rewritten is cut: at guards of the level it goes to, and around tables that are moved.
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

    /// Least and greatest key of its tables. `None` if there are none.
    pub(crate) fn limits(&self) -> Option<(&[u8], &[u8])> {
        let min = self.tables().map(|table| &*table.meta.min_key).min()?;
        let max = self.tables().map(|table| &*table.meta.max_key).max()?;
        Some((min, max))
    }
}
