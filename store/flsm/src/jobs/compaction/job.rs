//! Does a job: the tables of a [`Plan`] become new ones.
//!
//! A tombstone is dropped when no older record of its key is left anywhere. Older records can be in
//! the tables of deeper levels, and in the older tables of the guard. These tables are looked up
//! once, in the tree for which the job was planned. Nothing older can get there later: the inputs
//! are busy, so no other job takes anything past them ([`super::picker`]).

use super::plan::Plan;
use super::rewrite::{Rewrite, Rewritten, Stopped};
use crate::cursor::MergeCursor;
use crate::cursor::level::run_cursor;
use crate::plant::planted;
use crate::tables::Making;
use crate::tree::Tree;
use crate::types::{Age, Level};
use crate::visibility::Horizon;
use evendb_storage::TableId;
use evendb_storage::table::ReadAhead;
use std::collections::HashSet;

/// Bytes that one read of an input fetches, if its blocks have the size that was asked for.
const READ_BYTES: usize = 512 << 10;

/// Does the job of `plan`, which was made from `tree`.
pub(crate) fn run(
    making: &Making,
    tree: &Tree,
    plan: &Plan,
    horizon: &Horizon,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Rewritten, Stopped> {
    let rewrite = Rewrite {
        making,
        cuts: plan.cuts(tree),
        horizon,
        is_cancelled,
    };
    let readahead = ReadAhead::from(READ_BYTES / making.form.options.block_bytes.max(1));
    let runs = plan.runs.iter();
    let runs = runs.map(|run| run_cursor(run.clone(), readahead)).collect();
    let mut older = Older::than(tree, plan);
    if planted!(making, TombstoneEarly) {
        older.ranges.clear();
    }
    let finished = rewrite.run(&mut MergeCursor::new(runs), |key| !older.covers(key))?;
    Ok(Rewritten {
        removed: plan
            .runs
            .iter()
            .flatten()
            .map(|table| (plan.from, table.clone()))
            .collect(),
        moved: plan
            .moved
            .iter()
            .map(|table| (plan.from, table.clone()))
            .collect(),
        to: plan.to,
        age: match plan.from == plan.to {
            true => plan.tables().map(|table| table.age).max(),
            false => None,
        },
        finished,
        guards: Vec::new(),
    })
}

/// The places where records older than a job's tables may lie.
struct Older<'t> {
    /// The least and greatest keys of tables, sorted, without overlaps.
    ranges: Vec<(&'t [u8], &'t [u8])>,
    /// How many of `ranges` lie below the key that was asked for last.
    passed: usize,
}

impl<'t> Older<'t> {
    fn than(tree: &'t Tree, plan: &Plan) -> Older<'t> {
        let own: HashSet<TableId> = plan.tables().map(|table| table.number).collect();
        let newest = plan.tables().map(|table| table.age).max();
        let is_older = |level: Level, age: Age| {
            level > plan.from || level == plan.from && newest.is_some_and(|newest| age <= newest)
        };
        let mut ranges: Vec<(&[u8], &[u8])> = tree
            .tables()
            .filter(|(level, table)| is_older(*level, table.age) && !own.contains(&table.number))
            .map(|(_, table)| (&*table.meta.min_key, &*table.meta.max_key))
            .collect();
        ranges.sort_unstable();
        ranges.dedup_by(|next, last| {
            let overlaps = next.0 <= last.1;
            if overlaps {
                last.1 = last.1.max(next.1);
            }
            overlaps
        });
        Older { ranges, passed: 0 }
    }

    /// Whether one of the ranges may have the key. Keys ascend from call to call.
    fn covers(&mut self, key: &[u8]) -> bool {
        while let Some((_, max)) = self.ranges.get(self.passed)
            && *max < key
        {
            self.passed += 1;
        }
        let next = self.ranges.get(self.passed);
        next.is_some_and(|(min, _)| *min <= key)
    }
}
