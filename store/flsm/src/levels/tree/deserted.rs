//! Guards whose records are gone: they were deleted, or the written keys ascend with time.
//!
//! An empty guard does no harm to a read, which passes it by one step of a search. But keys that
//! ascend for ever would leave guards behind for ever. So now and then the guards that hold nothing
//! at all are removed. If their range is written again, the same keys are chosen again.

use super::{Guard, GuardChange, Guards, Tree};
use crate::types::{LEVELS, Level};
use std::sync::Arc;

/// The guards that hold nothing in any level. A range that overlaps a table of level 0 is in use:
/// its guards may be new.
pub(crate) fn deserted(tree: &Tree) -> Vec<GuardChange> {
    let deepest = tree.guards(Level(LEVELS as u8 - 1)).all();
    let next = deepest[1..].iter().map(Some).skip(1).chain([None]);
    let ranges = deepest[1..].iter().zip(next);
    ranges
        .filter(|(guard, next)| !is_below_level0(tree, guard, next.map(|next| &**next)))
        .filter(|(guard, _)| {
            Tree::guarded_levels().all(|level| is_empty(tree.guards(level), guard))
        })
        .map(|(guard, _)| GuardChange {
            key: guard.low.clone(),
            from: None,
        })
        .collect()
}

/// Whether a table of level 0 overlaps the guard's range.
fn is_below_level0(tree: &Tree, guard: &Arc<Guard>, next: Option<&Guard>) -> bool {
    tree.level0().iter().any(|table| {
        *guard.low <= *table.meta.max_key && next.is_none_or(|next| *table.meta.min_key < *next.low)
    })
}

/// Whether a level has no guard of this key, or an empty one.
fn is_empty(guards: &Guards, guard: &Guard) -> bool {
    let own = guards.of(&guard.low);
    let is_committed = own.low == guard.low;
    match is_committed {
        true => own.tables.is_empty(),
        false => !guards.chosen().contains(&guard.low),
    }
}
