//! Checks of a tree. [`check`] checks its structure, in memory. [`verify`], for tests, reads all of
//! its tables, and looks for each record as a reader does (`crate::inspect` does this by a merge,
//! in one pass).

use super::{Guards, Tree};
use crate::tables::TableFile;
use std::collections::HashSet;
use std::sync::Arc;
#[cfg(test)]
use {
    crate::types::Level,
    evendb_storage::table::{ReadAhead, TableCursor},
    evendb_storage::{Error, Result, key_hash::FilterHash},
};

/// The number of blocks that one read of a pass fetches.
#[cfg(test)]
const PASS_BLOCKS: usize = 64;

/// Checks the contract of the tree. The error says what breaks it.
pub(crate) fn check(tree: &Tree) -> std::result::Result<(), &'static str> {
    if !tree
        .level0
        .is_sorted_by(|newer, older| newer.age > older.age)
    {
        return Err("level 0 is not sorted by age");
    }
    let mut numbers = HashSet::new();
    if !tree.tables().all(|(_, table)| numbers.insert(table.number)) {
        return Err("a table at two places");
    }
    for level in Tree::guarded_levels() {
        check_guards(tree.guards(level))?;
    }
    let nested = Tree::guarded_levels()
        .zip(Tree::guarded_levels().skip(1))
        .all(|(upper, lower)| {
            let mut keys = tree.guards(upper).keys().into_iter();
            keys.all(|key| tree.guards(lower).knows(&key))
        });
    match nested {
        true => Ok(()),
        false => Err("a guard that is none of a deeper level"),
    }
}

fn check_guards(guards: &Guards) -> std::result::Result<(), &'static str> {
    let all = guards.all();
    if all.first().is_none_or(|first| !first.low.is_empty()) {
        return Err("a level without a first guard");
    }
    if !all.is_sorted_by(|guard, next| guard.low < next.low) {
        return Err("guards are not sorted");
    }
    for (at, guard) in all.iter().enumerate() {
        let next = all.get(at + 1);
        let within = |table: &Arc<TableFile>| {
            *guard.low <= *table.meta.min_key
                && next.is_none_or(|next| *table.meta.max_key < *next.low)
        };
        if !guard.tables.iter().all(within) {
            return Err("a table outside of its guard");
        }
        let in_order = guard.tables.is_sorted_by(|first, second| {
            first.age > second.age
                || first.age == second.age && first.meta.max_key < second.meta.min_key
        });
        if !in_order {
            return Err("the tables of a guard are not in order");
        }
    }
    let waits = |key: &Arc<[u8]>| {
        let guard = guards.of(key);
        guard.low != *key
            && guard
                .tables
                .iter()
                .any(|table| super::guards::straddles(table, key))
    };
    match guards.chosen().iter().all(waits) {
        true => Ok(()),
        false => Err("a chosen guard that could be committed"),
    }
}

/// Reads all tables, and tells `each` for every table what is wrong with it. It checks blocks,
/// order, filter, index, and the numbers against the table's properties and the manifest. It also
/// checks whether a reader finds each record: no table that is asked before has an older record of
/// the same key.
#[cfg(test)]
pub(crate) fn verify(tree: &Tree, each: &mut dyn FnMut(Level, &TableFile, Result<()>)) {
    for (level, table) in tree.tables() {
        let verified = table
            .open()
            .and_then(|opened| opened.verify())
            .and_then(|()| verify_order(tree, table));
        each(level, table, verified);
    }
}

/// Checks that no table that a reader asks before this one has an older record of a key.
#[cfg(test)]
fn verify_order(tree: &Tree, table: &TableFile) -> Result<()> {
    let mut cursor = TableCursor::new(table.open()?, ReadAhead::from(PASS_BLOCKS));
    cursor.seek_first()?;
    while cursor.valid() {
        let entry = cursor.entry();
        let hash = FilterHash::of(entry.key);
        for before in tree.tables_for(entry.key) {
            if before.number == table.number {
                break;
            }
            let before = before.open()?;
            if !before.may_contain(hash) {
                continue;
            }
            // A reader at this record's version finds this record in a table that is asked before.
            if before.get(entry.key, entry.version)?.is_some() {
                let detail = "a record that an older one hides, of a table that counts as newer";
                return Err(Error::corruption(&table.path(), 0, detail));
            }
        }
        cursor.next()?;
    }
    Ok(())
}
