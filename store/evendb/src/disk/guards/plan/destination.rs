//! [`Destination`]: where the records of a delta go.
//!
//! ```text
//!   tables   [ a .. c ]     [ f ...... k ] of level 0, or of the tree
//!   delta                d .. e            overlaps nothing: to the last level, cut at its guards
//!   delta             b ........... g      overlaps a table: a run of level 0
//! ```
//! Keys that come in ascending order, or into an empty place, go directly to the level where they
//! stay, and are not written again. This is correct: where no table lies around the keys, no table
//! holds older records of them, and a running job brings only keys of tables that exist. For the
//! same reason it does not matter how new the other tables of the guard are.

use crate::guards::tree::Tree;
use crate::manifest::{GuardKey, LEVELS, Level};
use crate::sync::Arc;
use crate::tables::TableHandle;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Destination {
    /// A run of level 0.
    Log,
    /// A level of the tree. The new tables are one run there.
    Tree {
        to: Level,
        /// Keys before which a table ends, ascending.
        cuts: Vec<Arc<[u8]>>,
    },
}

impl Destination {
    /// The destination of records between `min` and `max`, which bring the guards `guards`. They
    /// are newer than `tree` and the runs of level 0, and go there one after the other.
    pub(crate) fn of(
        tree: &Tree,
        level0: &[Arc<TableHandle>],
        (min, max): (&[u8], &[u8]),
        guards: &[GuardKey],
    ) -> Destination {
        let meets = |table: &Arc<TableHandle>| table.part.meta.meets(min, max);
        if level0.iter().any(meets) || tree.tables_between(min, max).next().is_some() {
            return Destination::Log;
        }
        let to = Level(LEVELS as u8 - 1);
        let mut cuts = tree.guards(to).keys_within(min, max);
        // A guard of any level is also a guard of the last level.
        cuts.extend(guards.iter().map(|guard| guard.key.clone()));
        cuts.sort_unstable();
        cuts.dedup();
        Destination::Tree { to, cuts }
    }
}
