//! [`Plan`]: the tables of a job, and where the result goes. [`shape`]: a tree as the picker sees it.

use super::picker::{GuardShape, Job, Shape};
use crate::tables::TableFile;
use crate::tree::{Guard, Tree};
use crate::types::{LEVELS, Level};
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
    /// The runs, newest first: sorted tables that do not overlap.
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
        match job {
            Job::FromLevel0 { to } => Plan {
                from: Level(0),
                to,
                runs: tree
                    .level0()
                    .iter()
                    .map(|table| vec![table.clone()])
                    .collect(),
            },
            Job::Down { level, guard } => {
                let to = Level(level.0 + 1);
                debug_assert!(usize::from(to.0) < LEVELS);
                Plan::in_guard(tree, level, guard, to, usize::MAX)
            }
            Job::Within { level, guard, runs } => Plan::in_guard(tree, level, guard, level, runs),
        }
    }

    fn in_guard(tree: &Tree, from: Level, guard: usize, to: Level, count: usize) -> Plan {
        let runs = tree.guards(from).all()[guard].runs();
        Plan {
            from,
            to,
            runs: runs.take(count).map(<[_]>::to_vec).collect(),
        }
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
