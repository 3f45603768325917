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
use evendb_storage::table::TableMeta;
use std::collections::HashSet;

/// See the module.
pub(crate) struct Older<'t>(Vec<&'t TableMeta>);

impl<'t> Older<'t> {
    /// Where records older than those of `plan` lie, which was made for this tree.
    pub(crate) fn than(tree: &'t Tree, plan: &Plan) -> Older<'t> {
        let own: HashSet<TableId> = plan.tables().map(|fragment| fragment.id()).collect();
        let newest = plan.newest();
        let is_older =
            |level: Level, age: Age| level > plan.from || level == plan.from && age <= newest;
        let others = tree.fragments();
        let others = others
            .filter(|(level, other)| is_older(*level, other.age) && !own.contains(&other.id()));
        Older(others.map(|(_, other)| other.meta()).collect())
    }

    /// Whether one of the tables may have a key from `min` to `max`, both included.
    pub(crate) fn meets(&self, min: &[u8], max: &[u8]) -> bool {
        self.0.iter().any(|meta| meta.meets(min, max))
    }
}
