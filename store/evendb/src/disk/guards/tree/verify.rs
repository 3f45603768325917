//! [`check`]: whether a tree keeps its contract, by what is in memory.

use super::guards::straddles;
use super::{Chain, Fragment, Guards, Tree};
use crate::sync::Arc;
use evendb_storage::TableId;
use std::collections::HashSet;

/// Checks the contract of the tree. The error says what breaks it.
pub(super) fn check(tree: &Tree) -> Result<(), &'static str> {
    let mut ids = HashSet::new();
    if !tree.fragments().all(|(_, own)| ids.insert(own.id())) {
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
        true => check_chains(tree, &ids),
        false => Err("a guard that is none of a deeper level"),
    }
}

/// Checks that each table is in exactly one chain, and that chains ascend.
fn check_chains(tree: &Tree, ids: &HashSet<TableId>) -> Result<(), &'static str> {
    let all = tree.chains().iter().flat_map(|chain| chain.iter());
    let chained: HashSet<TableId> = all.clone().map(|table| table.part.table).collect();
    if chained != *ids || all.count() != ids.len() {
        return Err("the chains have other tables than the tree");
    }
    let ascends =
        |chain: &Chain| chain.is_sorted_by(|a, b| a.part.meta.max_key < b.part.meta.min_key);
    match tree.chains().iter().all(ascends) {
        true => Ok(()),
        false => Err("a chain that does not ascend"),
    }
}

fn check_guards(guards: &Guards) -> Result<(), &'static str> {
    let all = guards.all();
    if all.first().is_none_or(|first| !first.low.is_empty()) {
        return Err("a level without a first guard");
    }
    if !all.is_sorted_by(|guard, next| guard.low < next.low) {
        return Err("guards are not sorted");
    }
    for (at, guard) in all.iter().enumerate() {
        let next = all.get(at + 1);
        let within = |table: &Fragment| {
            *guard.low <= *table.meta().min_key
                && next.is_none_or(|next| *table.meta().max_key < *next.low)
        };
        if !guard.fragments.iter().all(within) {
            return Err("a table outside of its guard");
        }
        let in_order = guard.fragments.is_sorted_by(|first, second| {
            first.age > second.age
                || first.age == second.age && first.meta().max_key < second.meta().min_key
        });
        if !in_order {
            return Err("the tables of a guard are not in order");
        }
    }
    let waits = |key: &Arc<[u8]>| {
        let guard = guards.of(key);
        guard.low != *key && guard.fragments.iter().any(|table| straddles(table, key))
    };
    match guards.chosen().iter().all(waits) {
        true => Ok(()),
        false => Err("a chosen guard that could be committed"),
    }
}
