//! [`Plan`]: the tables of a job, and where the result goes. [`shape`]: a tree as the picker sees it.

use super::picker::{GuardShape, Job, Shape};
use crate::tables::TableFile;
use crate::tree::{Guard, Tree};
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
    /// Sorted tables that do not overlap, each.
    pub(crate) runs: Vec<Vec<Arc<TableFile>>>,
}

/// A tree as the picker sees it, while jobs have the tables in `busy`.
pub(crate) fn shape(tree: &Tree, busy: &HashSet<TableId>) -> Shape {
    let is_busy = |table: &Arc<TableFile>| busy.contains(&table.number);
    let guard_shape = |guard: &Arc<Guard>| GuardShape {
        runs: guard.runs().map(bytes_of).collect(),
        busy: guard.tables.iter().any(is_busy),
    };
    let level0 = tree.level0();
    Shape {
        level0: level0.iter().map(|table| table.meta.len).collect(),
        level0_busy: level0.iter().any(is_busy),
        levels: std::array::from_fn(|at| {
            let guards = tree.guards(Level(at as u8 + 1)).all();
            guards.iter().map(guard_shape).collect()
        }),
    }
}

fn bytes_of(run: &[Arc<TableFile>]) -> u64 {
    run.iter().map(|table| table.meta.len).sum()
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
        Plan { from, to, runs }
    }

    /// All of its tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableFile>> {
        self.runs.iter().flatten()
    }

    /// Least and greatest key of its tables. `None` if there are none.
    pub(crate) fn limits(&self) -> Option<(&[u8], &[u8])> {
        let min = self.tables().map(|table| &*table.meta.min_key).min()?;
        let max = self.tables().map(|table| &*table.meta.max_key).max()?;
        Some((min, max))
    }
}
