//! [`Sweep`]: which jobs bring all of a key range to the last level, with one run in each guard. It
//! serves calls that ask for a compaction. The picker finds the jobs that are due by themselves.
//!
//! ```text
//!   level 0 -> the first level with tables -> ... level by level, guard by guard ...
//!           -> the last level -> each guard merged
//! ```
//! Level 0 goes down once; where a run of it could not be read, in steps. A level is begun when the
//! level above it is done, so a guard goes down once. So the sweep ends, however much is written
//! meanwhile. Deletes and old versions that a reader still needs stay.
//!
//! A sweep belongs to one thread. Other jobs may be done between two of its steps. Not here: doing
//! the jobs.

use super::{is_damaged, is_stuck};
use crate::guards::picker::{Job, LAST, out_of_level0};
use crate::guards::tree::{Guard, Tree};
use crate::manifest::{LEVELS, Level};
use crate::sync::Arc;
use crate::tables::TableHandle;
use evendb_storage::table::TableMeta;
use std::collections::HashSet;

/// See the module.
pub(crate) struct Sweep {
    low: Vec<u8>,
    /// The end of the range, exclusive.
    high: Option<Vec<u8>>,
    level: usize,
    /// Guards of the current level that were taken, by their first keys.
    taken: HashSet<Arc<[u8]>>,
}

impl Sweep {
    /// A sweep of the keys from `low` to below `high`.
    pub(crate) fn new(low: Vec<u8>, high: Option<Vec<u8>>) -> Sweep {
        Sweep {
            low,
            high,
            level: 0,
            taken: HashSet::new(),
        }
    }

    /// The next job in this tree below these runs of level 0; `None`: nothing is left to do. A job
    /// that it returns counts as done.
    pub(crate) fn next(&mut self, tree: &Tree, level0: &[Arc<TableHandle>]) -> Option<Job> {
        if self.level == 0 {
            // Runs that come meanwhile are left to others. Only those that could not be read take
            // more than one step, and none of these comes anew.
            let touches = level0.iter().any(|table| self.touches(&table.part.meta));
            if !(touches && is_damaged(level0)) {
                self.level = 1;
            }
            if touches {
                return Some(level0_down(tree, level0));
            }
        }
        while self.level < LEVELS {
            if let Some(job) = self.next_of_level(tree) {
                return Some(job);
            }
            self.level += 1;
            self.taken.clear();
        }
        None
    }

    fn next_of_level(&mut self, tree: &Tree) -> Option<Job> {
        let level = Level(self.level as u8);
        let all = tree.guards(level).all().iter();
        let mut due = all.zip(0..).filter(|(guard, _)| self.is_due(guard));
        let (own, guard) = due.find(|(guard, _)| !self.taken.contains(&guard.low))?;
        self.taken.insert(own.low.clone());
        let runs = own.free_runs().count();
        Some(match self.level == LAST || own.is_stuck() {
            true => Job::Within { level, guard, runs },
            false => Job::Down { level, guard },
        })
    }

    /// Whether a guard of the current level needs a job.
    fn is_due(&self, guard: &Guard) -> bool {
        let mut all = guard.fragments.iter().map(|fragment| fragment.meta());
        let touches = all.clone().any(|meta| self.touches(meta));
        let mut has_deletes = || all.any(|meta| meta.deletes > 0);
        let is_several = || guard.free_runs().nth(1).is_some();
        touches
            && match guard.is_stuck() {
                true => is_several(),
                false => self.level < LAST || is_several() || has_deletes(),
            }
    }

    fn touches(&self, meta: &TableMeta) -> bool {
        meta.overlaps(&self.low, self.high.as_deref())
    }
}

/// Level 0 goes to the first level with tables: nothing may come to lie below what is older.
fn level0_down(tree: &Tree, level0: &[Arc<TableHandle>]) -> Job {
    let used = tree.fragments().next().map(|(level, _)| level);
    out_of_level0(used.unwrap_or(Level(LAST as u8)), is_stuck(level0))
}
