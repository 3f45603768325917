//! Which keys become guards. Their hashes decide, so the choice follows the data and needs no
//! memory.
//!
//! ```text
//!   hash of the key, as a part of 2^64:   0 ..... 1/64 ......... 1/16 ................. 1
//!                                         | level 4 | level 5    | level 6     | no guard
//!     (for a record that is 1/16 of last_guard_bytes; a guard is also a guard of deeper levels)
//! ```
//! The probability is the record's bytes divided by the bytes that should lie between two guards of
//! a level. These are [`GUARD_FANOUT`] times the bytes of the next level. So guards are spaced by
//! bytes, whatever the sizes of keys and values. A key that is written again is chosen again, at no
//! cost. The chosen guards are on disk. So a change of the hash or of these numbers only changes
//! which keys are chosen later.

use super::{GuardChange, Tree};
use crate::types::{LEVELS, Level};
use evendb_storage::codec::hash_key;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A level has this many guards for each guard of the level above.
pub(crate) const GUARD_FANOUT: u64 = 4;

/// The least level in which a key becomes a guard. Its record has `record_bytes` bytes, and guards
/// of the last level should have `last_guard_bytes` bytes.
pub(crate) fn guard_level(hash: u64, record_bytes: u64, last_guard_bytes: u64) -> Option<Level> {
    Tree::guarded_levels().find(|level| {
        let above_last = LEVELS as u32 - 1 - u32::from(level.0);
        let spacing = u128::from(last_guard_bytes) * u128::from(GUARD_FANOUT).pow(above_last);
        // hash / 2^64 < record_bytes / spacing
        u128::from(hash).saturating_mul(spacing) < u128::from(record_bytes) << 64
    })
}

/// Collects the guards among the records of a new table.
#[derive(Debug)]
pub(crate) struct Chooser<'t> {
    tree: &'t Tree,
    last_guard_bytes: u64,
    found: BTreeMap<Arc<[u8]>, Level>,
}

impl<'t> Chooser<'t> {
    /// A chooser for a tree, which knows some keys already.
    pub(crate) fn new(tree: &'t Tree, last_guard_bytes: u64) -> Chooser<'t> {
        Chooser {
            tree,
            last_guard_bytes,
            found: BTreeMap::new(),
        }
    }

    /// Looks at a record of the table.
    pub(crate) fn look_at(&mut self, key: &[u8], value: &[u8]) {
        let record_bytes = (key.len() + value.len()) as u64;
        let level = guard_level(hash_key(key), record_bytes, self.last_guard_bytes);
        let Some(level) = level.filter(|_| !key.is_empty()) else {
            return;
        };
        let known = self.found.get(key).copied();
        let known = known.or_else(|| self.tree.guard_level(key));
        if known.is_none_or(|known| level < known) {
            self.found.insert(key.into(), level);
        }
    }

    /// The guards that the tree did not know.
    pub(crate) fn finish(self) -> Vec<GuardChange> {
        let change = |(key, level)| GuardChange {
            key,
            from: Some(level),
        };
        self.found.into_iter().map(change).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: u64 = 100_000;
    const RECORD_BYTES: u64 = 100;

    fn counts(last_guard_bytes: u64) -> [u64; LEVELS] {
        let mut counts = [0; LEVELS];
        for number in 0..KEYS {
            let hash = hash_key(format!("key {number}").as_bytes());
            let least = guard_level(hash, RECORD_BYTES, last_guard_bytes);
            let least = least.map_or(LEVELS, |level| usize::from(level.0));
            counts[least..].iter_mut().for_each(|count| *count += 1);
        }
        counts
    }

    /// Hundreds of guards match the number that the bytes demand, within a third.
    #[test]
    fn guards_are_spaced_by_bytes_and_each_level_has_a_part_of_the_next() {
        let counts = counts(2_500);
        for (level, expected) in [(6, 4000), (5, 1000), (4, 250)] {
            let found = counts[level];
            assert!(
                found > expected * 2 / 3 && found < expected * 4 / 3,
                "level {level}: {found} guards, {expected} expected"
            );
        }
        assert!(counts.is_sorted());
        assert_eq!(counts[0], 0);
    }

    #[test]
    fn a_record_larger_than_a_guard_is_one_of_the_last_level() {
        assert_eq!(guard_level(u64::MAX, 100, 99), Some(Level(6)));
        assert_eq!(guard_level(u64::MAX, 99, 99), Some(Level(6)));
        assert_eq!(guard_level(u64::MAX, 98, 99), None);
        assert_eq!(guard_level(0, 1, u64::MAX), Some(Level(1)));
        assert_eq!(guard_level(0, 0, 1), None);
    }

    #[test]
    fn keys_that_are_known_are_not_chosen_again_and_deeper_ones_rise() {
        let mut tree = Tree::default();
        let choose = |tree: &mut Tree, value: &[u8]| {
            let mut chooser = Chooser::new(tree, 50);
            chooser.look_at(b"a key", value);
            chooser.look_at(b"", &[0; 100]);
            let changes = chooser.finish();
            tree.apply(&crate::tree::TreeEdit {
                guards: changes.clone(),
                ..Default::default()
            })
            .unwrap();
            changes.iter().map(|change| change.from).collect::<Vec<_>>()
        };
        assert_eq!(choose(&mut tree, &[0; 45]), [Some(Level(6))]);
        assert_eq!(choose(&mut tree, &[0; 45]), []);
        assert_eq!(choose(&mut tree, &[0; 195]), [Some(Level(5))]);
        assert_eq!(choose(&mut tree, &[0; 45]), []);
        assert_eq!(tree.guard_keys(), [(b"a key"[..].into(), Level(5))]);
    }
}
