//! Makes one table of level 0 of a memory table, and chooses guards among its keys.
//!
//! Of each key the versions are left out that nobody can read any more. Deletes stay: what they hide lies below.
//! Flushes of a keyspace are shown in the order of its memory tables.

use super::rewrite::{Making, Rewrite, Rewritten, Stopped};
use super::visibility::Horizon;
use crate::cursor::EntryCursor;
use crate::tree::Tree;
use crate::tree::choose::Chooser;
use crate::types::Level;

/// Writes the records of `cursor`. `tree` is the keyspace's at hand, which knows some guards. Nothing is to be changed if there
/// are no records.
pub(crate) fn flush(
    making: &Making,
    tree: &Tree,
    last_guard_bytes: u64,
    cursor: &mut dyn EntryCursor,
    horizon: &Horizon,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Rewritten, Stopped> {
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
    Ok(Rewritten {
        removed: Vec::new(),
        moved: Vec::new(),
        to: Level(0),
        age: None,
        finished,
        guards: chooser.finish(),
    })
}
