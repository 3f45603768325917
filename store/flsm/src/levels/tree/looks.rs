//! [`Looks`]: how often seeks looked into tables. A merge of the guard would have spared them these
//! looks.
//!
//! ```text
//!   level               a seek looks into          a job spares
//!   level 0             each table                 all of these looks
//!   a middle level      each run of one guard      all of these looks
//!   the last level      each run of one guard      all except one
//! ```
//! Looks pay for a job, each with a part of its own cost ([`are_due`]). If each look paid with all
//! of its cost, this would be like renting until the rent has reached the price: the total is never
//! much more than twice the best choice, whatever comes. But if writes bring new runs soon, the
//! merge helps only for a short while. So the merge is done when the rent has reached a multiple of
//! the price (docs/flsm.md has the figures).
//!
//! All trees in which a guard has the same tables or more share its counter: tables that come down
//! do not change what was paid. The counter begins anew when tables go. Counts are estimates
//! ([`Tree::note_seek`] gets a sample of the seeks), and order nothing else.

use super::{Guards, Tree};
use crate::tables::TableFile;
use crate::types::{LEVELS, Level};
use evendb_base::sync::Arc;
use evendb_base::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Looks(Arc<AtomicU64>);

impl Looks {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Counts `looks` looks into tables of `bytes` bytes. Returns whether they have paid for a
    /// merge, or for another one.
    fn add(&self, looks: u64, bytes: u64, look_bytes: u64) -> bool {
        if looks == 0 {
            return false;
        }
        let before = self.0.fetch_add(looks, Relaxed);
        // A job that was not taken is reported again. Its guard was busy, or the picker computes
        // another price.
        let paid = |looks: u64| looks.saturating_mul(look_bytes) / bytes.max(1);
        paid(before) < paid(before.saturating_add(looks))
    }
}

/// Whether `looks` looks have paid for a merge of `bytes` bytes, if each pays for `look_bytes`
/// bytes.
pub(crate) fn are_due(looks: u64, bytes: u64, look_bytes: u64) -> bool {
    looks > 0 && looks.saturating_mul(look_bytes) >= bytes
}

fn bytes_of(tables: &[Arc<TableFile>]) -> u64 {
    tables.iter().map(|table| table.meta.len).sum()
}

impl Tree {
    /// Notes that `weight` seeks went to `key`; `None`: to the last key. Returns whether a job has
    /// become due.
    pub(crate) fn note_seek(&self, key: Option<&[u8]>, weight: u64, look_bytes: u64) -> bool {
        let tables = self.level0.len() as u64;
        let mut is_due = self
            .level0_looks
            .add(tables * weight, bytes_of(&self.level0), look_bytes);
        for level in Tree::guarded_levels() {
            is_due |= note_in(self.guards(level), level, key, weight, look_bytes);
        }
        is_due
    }
}

fn note_in(
    guards: &Guards,
    level: Level,
    key: Option<&[u8]>,
    weight: u64,
    look_bytes: u64,
) -> bool {
    let guard = match key {
        Some(key) => guards.of(key),
        None => &guards.all()[guards.all().len() - 1],
    };
    let stays = u64::from(usize::from(level.0) == LEVELS - 1);
    let spared = (guard.runs().count() as u64).saturating_sub(stays);
    let bytes = bytes_of(&guard.tables);
    guard.looks.add(spared * weight, bytes, look_bytes)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{bare, guard};
    use super::super::{TreeEdit, looks};
    use super::*;

    fn add(level: u8, tables: &[(u64, u64, &str, &str)]) -> TreeEdit {
        let table = |&(number, age, min, max): &(u64, u64, &str, &str)| bare(number, age, min, max);
        TreeEdit {
            added: tables
                .iter()
                .map(|own| (Level(level), table(own)))
                .collect(),
            ..TreeEdit::default()
        }
    }

    fn counts(tree: &Tree, level: u8) -> Vec<u64> {
        let guards = tree.guards(Level(level)).all().iter();
        guards.map(|guard| guard.looks.count()).collect()
    }

    /// Tables of [`bare`] have 100 bytes.
    #[test]
    fn what_a_merge_would_spare_is_counted_where_it_is() {
        let mut tree = Tree::default();
        tree.apply(&TreeEdit {
            guards: vec![guard("m", 5)],
            ..TreeEdit::default()
        })
        .unwrap();
        tree.apply(&add(0, &[(9, 9, "a", "z"), (8, 8, "a", "z")]))
            .unwrap();
        tree.apply(&add(5, &[(7, 7, "a", "c")])).unwrap();
        tree.apply(&add(
            6,
            &[(1, 1, "a", "c"), (2, 2, "a", "c"), (3, 3, "n", "z")],
        ))
        .unwrap();
        assert!(!tree.note_seek(Some(b"b"), 4, 1));
        assert_eq!(tree.level0_looks.count(), 8);
        assert_eq!(counts(&tree, 5), [4, 0]);
        assert_eq!(counts(&tree, 6), [4, 0]);
        assert!(!tree.note_seek(None, 3, 1));
        assert_eq!(tree.level0_looks.count(), 14);
        assert_eq!(counts(&tree, 5), [4, 0]);
        assert_eq!(counts(&tree, 6), [4, 0], "one run cannot be fewer");
        // 100 bytes of level 5 are paid by the 100th look, and again by the 200th.
        tree.level0_looks = Looks::default();
        assert!(!tree.note_seek(Some(b"b"), 95, 1));
        assert!(tree.note_seek(Some(b"b"), 1, 1));
        assert_eq!(counts(&tree, 5), [100, 0]);
        assert!(!tree.note_seek(Some(b"b"), 1, 0));
    }

    #[test]
    fn a_count_goes_on_when_tables_come_and_begins_anew_when_they_go() {
        let mut tree = Tree::default();
        tree.apply(&add(6, &[(1, 1, "a", "c"), (2, 2, "a", "c")]))
            .unwrap();
        tree.apply(&add(0, &[(3, 3, "a", "c")])).unwrap();
        let before = tree.clone();
        tree.note_seek(Some(b"b"), 5, 1);
        assert_eq!(counts(&before, 6), [5], "clones share it");
        let newer = add(6, &[(4, 4, "a", "b")]);
        tree.apply(&newer).unwrap();
        assert_eq!(counts(&tree, 6), [5]);
        let removed = newer.added[0].clone();
        tree.apply(&TreeEdit {
            removed: vec![removed],
            ..TreeEdit::default()
        })
        .unwrap();
        assert_eq!(counts(&tree, 6), [0]);
        assert_eq!(counts(&before, 6), [5]);
        let level0 = (Level(0), tree.level0()[0].clone());
        tree.apply(&TreeEdit {
            removed: vec![level0],
            ..TreeEdit::default()
        })
        .unwrap();
        assert_eq!(tree.level0_looks.count(), 0);
    }

    #[test]
    fn what_costs_nothing_is_never_due() {
        assert!(!looks::are_due(0, 0, 1) && !looks::are_due(0, 0, 0));
        assert!(!looks::are_due(99, 100, 1) && looks::are_due(100, 100, 1));
        assert!(!looks::are_due(u64::MAX, 100, 0));
        assert!(looks::are_due(u64::MAX, u64::MAX, u64::MAX));
    }
}
