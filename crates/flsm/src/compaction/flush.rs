//! Makes one table of level 0 of a memory table, and chooses guards among its keys.
//!
//! Of each key the versions are left out that nobody can read any more. Deletes stay: what they hide lies below.
//! Flushes of a keyspace happen one after the other, in the order of its memory tables: the table's number is its age.

use super::rewrite::{Making, Rewrite, Stopped};
use super::visibility::Horizon;
use crate::cursor::EntryCursor;
use crate::tree::choose::Chooser;
use crate::tree::{Tree, TreeEdit};
use crate::types::{Age, Level};

/// Writes the records of `cursor`. `tree` is the keyspace's at hand, which knows some guards. The edit is empty if there are
/// no records; else it names a new table, whose file is synced and whose name is not.
pub(crate) fn flush(
    making: &Making,
    tree: &Tree,
    last_guard_bytes: u64,
    cursor: &mut dyn EntryCursor,
    horizon: &Horizon,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<TreeEdit, Stopped> {
    let whole = Making {
        table_bytes_max: u64::MAX,
        ..making.clone()
    };
    let rewrite = Rewrite {
        making: &whole,
        cuts: Vec::new(),
        horizon,
        is_cancelled,
    };
    let mut chooser = Chooser::new(tree, last_guard_bytes);
    let finished = rewrite.run(
        cursor,
        |_| false,
        |entry| chooser.look_at(entry.key, entry.value),
    )?;
    let added = finished.into_iter().map(|table| {
        let age = Age(table.number().0);
        (Level(0), table.keep(age))
    });
    Ok(TreeEdit {
        removed: Vec::new(),
        added: added.collect(),
        guards: chooser.finish(),
    })
}
