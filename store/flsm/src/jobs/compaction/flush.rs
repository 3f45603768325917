//! Makes tables from a memory table, and chooses guards among its keys.
//!
//! ```text
//!   tree     [ a .. c ]     [ f ...... k ] limits of its tables, in any level
//!   memory               d .. e            overlaps nothing: to the last level, cut at its guards
//!   memory            b ........... g      overlaps a table: one table of level 0
//! ```
//! Keys that come in ascending order, or into an empty place, go directly to the level where they
//! stay, and are not written again. This is correct: where no table lies around the keys, no table
//! holds older records of them, and running jobs bring only keys of tables that exist. For the same
//! reason it does not matter how new the other tables of the guard are.
//!
//! Versions that nobody can read any more are left out. In level 0 deletes stay, because what they
//! hide lies below. Flushes of a keyspace are shown in the order of its memory tables.

use super::picker::LAST;
use super::rewrite::{Rewrite, Rewritten, Stopped};
use crate::cursor::EntryCursor;
use crate::plant::planted;
use crate::tables::Making;
use crate::tree::choose::{Chooser, GuardRule};
use crate::tree::{GuardChange, Tree};
use crate::types::Level;
use crate::visibility::Horizon;
use std::sync::Arc;

/// The level to which the records of a memory table go.
pub(super) struct Destination {
    pub(super) to: Level,
    /// Keys before which a table ends, ascending.
    pub(super) cuts: Vec<Arc<[u8]>>,
}

impl Destination {
    /// The destination in `tree` of records between `min` and `max`, which bring the guards
    /// `guards`.
    pub(super) fn of(tree: &Tree, (min, max): (&[u8], &[u8]), guards: &[GuardChange]) -> Self {
        if tree.tables_between(min, max).next().is_some() {
            return Destination {
                to: Level(0),
                cuts: Vec::new(),
            };
        }
        let to = Level(LAST as u8);
        let mut cuts = tree.guards(to).keys_within(min, max);
        // A guard of any level is also a guard of the last level.
        cuts.extend(guards.iter().map(|guard| guard.key.clone()));
        cuts.sort_unstable();
        cuts.dedup();
        Destination { to, cuts }
    }
}

/// Writes the records of `cursor`. `tree` is the keyspace's current tree, which already has some of
/// the guards. If there are no records, the result changes nothing.
pub(crate) fn flush(
    making: &Making,
    tree: &Tree,
    guards: &GuardRule,
    cursor: &mut dyn EntryCursor,
    horizon: &Horizon,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Rewritten, Stopped> {
    cursor.seek_last()?;
    if !cursor.valid() {
        return Ok(Rewritten::default());
    }
    let max = cursor.entry().key.to_vec();
    cursor.seek_first()?;
    let min = cursor.entry().key.to_vec();
    let mut chooser = Chooser::new(tree, guards);
    while cursor.valid() {
        let entry = cursor.entry();
        chooser.look_at(entry.key, entry.value);
        cursor.next()?;
    }
    let guards = chooser.finish();
    let none = Tree::default();
    let met = match planted!(making, FlushedBelow) {
        true => &none,
        false => tree,
    };
    let Destination { to, cuts } = Destination::of(met, (&min, &max), &guards);
    let is_bottom = to != Level(0);
    let whole = Making {
        table_bytes_max: u64::MAX,
        ..making.clone()
    };
    let rewrite = Rewrite {
        making: if is_bottom { making } else { &whole },
        cuts,
        horizon,
        is_cancelled,
    };
    let deletes_go = is_bottom || planted!(making, DeletesNotFlushed);
    let finished = rewrite.run(cursor, |_| deletes_go)?;
    Ok(Rewritten {
        finished,
        to,
        guards,
        ..Rewritten::default()
    })
}
