//! [`Sweep`]: which jobs bring all of a key range to the last level, with one run in each guard. It
//! serves calls that ask for a compaction. The picker finds the jobs that are due by themselves.
//!
//! ```text
//!   level 0 -> the first level with tables -> ... level by level, guard by guard ...
//!           -> the last level -> each guard merged
//! ```
//! A level is begun when the level above it is done, so a guard goes down once. The sweep takes
//! each guard once, and only the tables of level 0 that existed when it began. So it ends, however
//! much is written meanwhile. Deletes and old versions that a reader still needs stay.
//!
//! The picker's rule for jobs side by side holds here too: nothing is taken from a guard while
//! another job has one of its tables. A sweep belongs to one thread. Not here: doing the jobs,
//! waiting for other jobs.

use super::picker::{Job, LAST};
use crate::tables::TableFile;
use crate::tree::{Guard, Tree};
use crate::types::{FileNumber, LEVELS, Level};
use evendb_storage::TableId;
use std::collections::HashSet;
use std::sync::Arc;

/// The next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Do this job.
    Job(Job),
    /// Wait: another job has tables that the sweep needs.
    Wait,
    /// Nothing is left to do.
    Over,
}

/// See the module.
pub(crate) struct Sweep {
    low: Vec<u8>,
    /// The end of the range, exclusive.
    high: Option<Vec<u8>>,
    /// Tables of level 0 with this number or a greater one came after the beginning.
    begun_at: FileNumber,
    level: usize,
    /// Guards of the current level that were taken, by their first keys.
    taken: HashSet<Arc<[u8]>>,
}

impl Sweep {
    /// A sweep of the keys from `low` to below `high`. Files with numbers from `begun_at` on are
    /// newer.
    pub(crate) fn new(low: Vec<u8>, high: Option<Vec<u8>>, begun_at: FileNumber) -> Sweep {
        Sweep {
            low,
            high,
            begun_at,
            level: 0,
            taken: HashSet::new(),
        }
    }

    /// The next step in this tree, while jobs have the tables in `busy`. A job that it returns
    /// counts as done.
    pub(crate) fn next(&mut self, tree: &Tree, busy: &HashSet<TableId>) -> Step {
        if self.level == 0 {
            match self.step_of_level0(tree, busy) {
                Step::Over => self.level = 1,
                step => return step,
            }
        }
        while self.level < LEVELS {
            match self.step_of_level(tree, busy) {
                Step::Over => {
                    self.level += 1;
                    self.taken.clear();
                }
                step => return step,
            }
        }
        Step::Over
    }

    fn step_of_level0(&self, tree: &Tree, busy: &HashSet<TableId>) -> Step {
        let tables = tree.level0();
        let is_old = |table: &&Arc<TableFile>| table.number.0 < self.begun_at.0;
        if !tables
            .iter()
            .filter(is_old)
            .any(|table| self.touches(table))
        {
            return Step::Over;
        }
        if tables.iter().any(|table| busy.contains(&table.number)) {
            return Step::Wait;
        }
        let has_tables = |level: &Level| {
            let guards = tree.guards(*level).all();
            guards.iter().any(|guard| !guard.tables.is_empty())
        };
        let first = Tree::guarded_levels().find(has_tables);
        let to = first.unwrap_or(Level(LAST as u8));
        Step::Job(Job::FromLevel0 { to })
    }

    fn step_of_level(&mut self, tree: &Tree, busy: &HashSet<TableId>) -> Step {
        let level = Level(self.level as u8);
        let is_busy = |guard: &Guard| {
            guard
                .tables
                .iter()
                .any(|table| busy.contains(&table.number))
        };
        let mut waits = false;
        for (at, guard) in tree.guards(level).all().iter().enumerate() {
            if self.taken.contains(&guard.low) || !self.is_due(guard) {
                continue;
            }
            if is_busy(guard) {
                waits = true;
                continue;
            }
            self.taken.insert(guard.low.clone());
            return Step::Job(match self.level {
                LAST => Job::Within {
                    level,
                    guard: at,
                    runs: guard.runs().count(),
                },
                _ => Job::Down { level, guard: at },
            });
        }
        match waits {
            true => Step::Wait,
            false => Step::Over,
        }
    }

    /// Whether a guard of the current level needs a job.
    fn is_due(&self, guard: &Guard) -> bool {
        let touches = guard.tables.iter().any(|table| self.touches(table));
        let has_deletes = || guard.tables.iter().any(|table| table.meta.deletes > 0);
        touches && (self.level < LAST || guard.runs().nth(1).is_some() || has_deletes())
    }

    fn touches(&self, table: &TableFile) -> bool {
        let begins_before = |high: &Vec<u8>| *table.meta.min_key < **high;
        *table.meta.max_key >= *self.low && self.high.as_ref().is_none_or(begins_before)
    }
}
