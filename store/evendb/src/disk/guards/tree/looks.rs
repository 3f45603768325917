//! [`Looks`]: how often seeks looked into tables. A merge of the guard would have spared them these
//! looks.
//!
//! ```text
//!   level               a seek looks into          a job spares
//!   level 0             each run                   all of these looks
//!   a middle level      each run of one guard      all of these looks
//!   the last level      each run of one guard      all except one
//! ```
//! Looks pay for a job, each with a part of its own cost ([`are_due`]). If each look paid with all
//! of its cost, this would be like renting until the rent has reached the price: the total is never
//! much more than twice the best choice, whatever comes. But if writes bring new runs soon, the
//! merge helps only for a short while. So the merge is done when the rent has reached a multiple of
//! the price (decision 0085 has the figures).
//!
//! All trees in which a guard has the same tables or more share its counter: tables that come down
//! do not change what was paid. The counter begins anew when tables go. Counts are estimates
//! ([`Tree::note_seek`] gets a sample of the seeks), and order nothing else.

use super::{Fragment, Guards, Tree};
use crate::manifest::{LEVELS, Level};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The runs of level 0, which are none of the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Level0 {
    pub(crate) runs: usize,
    pub(crate) bytes: u64,
}

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
        // A job that was not taken is reported again: the picker computes another price.
        let paid = |looks: u64| looks.saturating_mul(look_bytes) / bytes.max(1);
        paid(before) < paid(before.saturating_add(looks))
    }
}

/// Whether `looks` looks have paid for a merge of `bytes` bytes, if each pays for `look_bytes`
/// bytes.
pub(crate) fn are_due(looks: u64, bytes: u64, look_bytes: u64) -> bool {
    looks > 0 && looks.saturating_mul(look_bytes) >= bytes
}

fn bytes_of(fragments: &[Fragment]) -> u64 {
    let bytes = fragments.iter().map(|fragment| fragment.meta().len);
    bytes.fold(0, u64::saturating_add)
}

impl Tree {
    /// Notes that `weight` seeks went to `key`; `None`: to the last key. `level0` has the figures
    /// of the runs that they looked into, too. Returns whether a job has become due.
    pub(crate) fn note_seek(
        &self,
        key: Option<&[u8]>,
        weight: u64,
        level0: Level0,
        look_bytes: u64,
    ) -> bool {
        let looks = (level0.runs as u64).saturating_mul(weight);
        let mut is_due = self.level0_looks.add(looks, level0.bytes, look_bytes);
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
    let bytes = bytes_of(&guard.fragments);
    guard
        .looks
        .add(spared.saturating_mul(weight), bytes, look_bytes)
}

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests {
    use super::super::bare::bare;
    use super::super::tests::guard;
    use super::super::{TreeEdit, looks};
    use super::*;

    const NONE: Level0 = Level0 { runs: 0, bytes: 0 };
    const TWO: Level0 = Level0 {
        runs: 2,
        bytes: 200,
    };

    fn add(level: u8, tables: &[(u64, u64, &str, &str)]) -> TreeEdit {
        let table = |&(id, age, min, max): &(u64, u64, &str, &str)| bare(id, age, min, max);
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
        tree.apply(&add(5, &[(7, 7, "a", "c")])).unwrap();
        tree.apply(&add(
            6,
            &[(1, 1, "a", "c"), (2, 2, "a", "c"), (3, 3, "n", "z")],
        ))
        .unwrap();
        assert!(!tree.note_seek(Some(b"b"), 4, TWO, 1));
        assert_eq!(tree.level0_looks(), 8);
        assert_eq!(counts(&tree, 5), [4, 0]);
        assert_eq!(counts(&tree, 6), [4, 0]);
        assert!(!tree.note_seek(None, 3, TWO, 1));
        assert_eq!(tree.level0_looks(), 14);
        assert_eq!(counts(&tree, 5), [4, 0]);
        assert_eq!(counts(&tree, 6), [4, 0], "one run cannot be fewer");
        // 100 bytes of level 5 are paid by the 100th look, and again by the 200th.
        assert!(!tree.note_seek(Some(b"b"), 95, NONE, 1));
        assert!(tree.note_seek(Some(b"b"), 1, NONE, 1));
        assert_eq!(counts(&tree, 5), [100, 0]);
        assert!(!tree.note_seek(Some(b"b"), 1, NONE, 0));
        // 200 bytes of level 0 are paid by the 200th look.
        assert!(!tree.note_seek(None, 92, TWO, 1));
        assert!(tree.note_seek(None, 1, TWO, 1));
        assert_eq!(tree.level0_looks(), 200);
    }

    #[test]
    fn a_count_goes_on_when_tables_come_and_begins_anew_when_they_go() {
        let mut tree = Tree::default();
        tree.apply(&add(6, &[(1, 1, "a", "c"), (2, 2, "a", "c")]))
            .unwrap();
        let before = tree.clone();
        tree.note_seek(Some(b"b"), 5, TWO, 1);
        assert_eq!(counts(&before, 6), [5], "clones share it");
        let newer = add(6, &[(4, 4, "a", "b")]);
        tree.apply(&newer).unwrap();
        assert_eq!(counts(&tree, 6), [5]);
        tree.apply(&TreeEdit {
            removed: newer.added,
            ..TreeEdit::default()
        })
        .unwrap();
        assert_eq!(counts(&tree, 6), [0]);
        assert_eq!(counts(&before, 6), [5]);
        assert_eq!(tree.level0_looks(), 10);
        tree.apply(&TreeEdit {
            level0_went: true,
            ..TreeEdit::default()
        })
        .unwrap();
        assert_eq!((tree.level0_looks(), before.level0_looks()), (0, 10));
    }

    #[test]
    fn what_costs_nothing_is_never_due() {
        assert!(!looks::are_due(0, 0, 1) && !looks::are_due(0, 0, 0));
        assert!(!looks::are_due(99, 100, 1) && looks::are_due(100, 100, 1));
        assert!(!looks::are_due(u64::MAX, 100, 0));
        assert!(looks::are_due(u64::MAX, u64::MAX, u64::MAX));
    }
}
