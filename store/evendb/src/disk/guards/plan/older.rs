//! [`Older`]: where records older than a job's tables may lie.
//!
//! A delete is dropped when no older record of its key is left anywhere. Older records can be in
//! the tables of deeper levels, and in the older tables of the guard. These tables are looked up
//! once, in the tree for which the job was planned. Nothing older can get there later: no other job
//! runs beside it, and a checkpoint brings only newer records.

use super::Plan;
use crate::guards::tree::Tree;
use crate::manifest::{Age, Level};
use evendb_storage::TableId;
use std::collections::HashSet;

/// See the module.
pub(crate) struct Older<'t> {
    /// The least and greatest keys of tables, sorted, without overlaps.
    ranges: Vec<(&'t [u8], &'t [u8])>,
}

impl<'t> Older<'t> {
    /// Where records older than those of `plan` lie, which was made for this tree.
    pub(crate) fn than(tree: &'t Tree, plan: &Plan) -> Older<'t> {
        let own: HashSet<TableId> = plan.tables().map(|fragment| fragment.id()).collect();
        let newest = plan.newest();
        let is_older =
            |level: Level, age: Age| level > plan.from || level == plan.from && age <= newest;
        let mut ranges: Vec<(&[u8], &[u8])> = tree
            .fragments()
            .filter(|(level, other)| is_older(*level, other.age) && !own.contains(&other.id()))
            .map(|(_, other)| (&*other.meta().min_key, &*other.meta().max_key))
            .collect();
        ranges.sort_unstable();
        ranges.dedup_by(|next, last| {
            let overlaps = next.0 <= last.1;
            if overlaps {
                last.1 = last.1.max(next.1);
            }
            overlaps
        });
        Older { ranges }
    }

    /// Whether one of the ranges may have a key from `min` to `max`, both included.
    pub(crate) fn meets(&self, min: &[u8], max: &[u8]) -> bool {
        let first = self.ranges.partition_point(|(_, end)| *end < min);
        let next = self.ranges.get(first);
        next.is_some_and(|(begin, _)| *begin <= max)
    }
}
