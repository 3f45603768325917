//! Which keys become guards. Their hashes decide, so the choice follows the data and needs no
//! memory. The hash has a secret, which the manifest keeps: a person who chooses keys cannot choose
//! guards.
//!
//! ```text
//!   hash of the key, as a part of 2^64:   0 ..... 1/64 ......... 1/16 ................. 1
//!                                         | level 4 | level 5    | level 6     | no guard
//!     (for a record that is 1/16 of last_guard_bytes; a guard is also a guard of deeper levels)
//! ```
//! The probability is the record's bytes divided by the bytes that should lie between two guards of
//! a level. These are [`GUARD_FANOUT`] times the bytes of the next level. So guards are spaced by
//! bytes, whatever the sizes of keys and values. A key that is written again is chosen again, at no
//! cost. The chosen guards are on disk. So a change of the secret, of the hash or of these numbers
//! only changes which keys are chosen later.

use super::Tree;
use crate::manifest::{GuardKey, LEVELS, Level};
use crate::sync::Arc;
use evendb_storage::key_hash::KeyedHash;
use std::collections::BTreeMap;

/// A level has this many guards for each guard of the level above.
const GUARD_FANOUT: u64 = 4;

/// The least level in which a key becomes a guard. Its record has `record_bytes` bytes, and guards
/// of the last level should have `last_guard_bytes` bytes.
fn guard_level(hash: u64, record_bytes: u64, last_guard_bytes: u64) -> Option<Level> {
    Tree::guarded_levels().find(|level| {
        let above_last = LEVELS as u32 - 1 - u32::from(level.0);
        let spacing = u128::from(last_guard_bytes) * u128::from(GUARD_FANOUT).pow(above_last);
        // hash / 2^64 < record_bytes / spacing
        u128::from(hash).saturating_mul(spacing) < u128::from(record_bytes) << 64
    })
}

/// What decides which keys become guards.
#[derive(Debug)]
pub(crate) struct GuardRule {
    /// The bytes that should lie between two guards of the last level.
    last_guard_bytes: u64,
    hash: KeyedHash,
}

impl GuardRule {
    /// The rule with this secret.
    pub(crate) fn new(last_guard_bytes: u64, secret: u64) -> GuardRule {
        let hash = KeyedHash::of_seed(secret);
        GuardRule {
            last_guard_bytes,
            hash,
        }
    }

    /// The least level in which a key becomes a guard.
    fn level(&self, key: &[u8], value: &[u8]) -> Option<Level> {
        let record_bytes = (key.len() + value.len()) as u64;
        guard_level(self.hash.hash(key), record_bytes, self.last_guard_bytes)
    }
}

/// Collects the guards among the records of a new table.
pub(crate) struct Chooser<'t> {
    tree: &'t Tree,
    rule: &'t GuardRule,
    found: BTreeMap<Arc<[u8]>, Level>,
    /// The guards of the last level that the tree knows, and the number of them that lie at or
    /// below the key that was asked for last.
    known: Vec<Arc<[u8]>>,
    passed: usize,
}

impl<'t> Chooser<'t> {
    /// A chooser for a tree, which knows some keys already.
    pub(crate) fn new(tree: &'t Tree, rule: &'t GuardRule) -> Chooser<'t> {
        Chooser {
            tree,
            rule,
            found: BTreeMap::new(),
            known: tree.guards(Level::LAST).keys(),
            passed: 0,
        }
    }

    /// Whether a table should end before this record: a guard of the last level lies behind the
    /// record that was looked at last, or begins with this one. Then the table lies within one
    /// guard, and can go down as it is. Keys ascend from call to call.
    pub(crate) fn parts(&mut self, key: &[u8], value: &[u8]) -> bool {
        let passes = self.pass(key);
        passes || self.rule.level(key, value).is_some()
    }

    /// Passes the known guards up to `key`, and returns whether there were any.
    fn pass(&mut self, key: &[u8]) -> bool {
        let before = self.passed;
        while self
            .known
            .get(self.passed)
            .is_some_and(|guard| **guard <= *key)
        {
            self.passed += 1;
        }
        self.passed > before
    }

    /// Looks at a record of the table.
    pub(crate) fn look_at(&mut self, key: &[u8], value: &[u8]) {
        self.pass(key);
        let level = self.rule.level(key, value);
        let Some(level) = level.filter(|_| !key.is_empty()) else {
            return;
        };
        let known = self.found.get(key).copied();
        let known = known.or_else(|| self.tree.guard_level(key));
        if known.is_none_or(|known| level < known) {
            self.found.insert(key.into(), level);
        }
    }

    /// The guards that the tree did not know, or knew in deeper levels only. Sorted by key.
    pub(crate) fn finish(self) -> Vec<GuardKey> {
        let guard = |(key, level)| GuardKey { key, level };
        self.found.into_iter().map(guard).collect()
    }
}

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests {
    use super::super::TreeEdit;
    use super::*;
    use evendb_storage::codec::hash_key;

    const KEYS: u64 = 100_000;
    const RECORD_BYTES: usize = 100;
    const VALUE: [u8; RECORD_BYTES] = [0; RECORD_BYTES];

    fn counts(last_guard_bytes: u64) -> [u64; LEVELS] {
        let mut counts = [0; LEVELS];
        let rule = GuardRule::new(last_guard_bytes, 1);
        for number in 0..KEYS {
            let key = format!("key {number}");
            let least = rule.level(key.as_bytes(), &VALUE[key.len()..]);
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

    /// With a hash that has no secret each of these keys would be a guard of level 4.
    #[test]
    fn keys_that_are_chosen_by_a_hash_without_a_secret_are_no_more_guards_than_others() {
        let all = (0..1_000_000u32).map(|number| format!("key {number}").into_bytes());
        let low = |key: &Vec<u8>| hash_key(key) < u64::MAX / 1000;
        let chosen: Vec<_> = all.filter(low).collect();
        assert!(chosen.len() > 800, "{} keys", chosen.len());
        let spacing = 2_000;
        let without_secret = |key: &Vec<u8>| guard_level(hash_key(key), 100, spacing);
        let is_high = |key| without_secret(key).is_some_and(|level| level <= Level(4));
        assert!(chosen.iter().all(is_high));
        // One in 20 keys is a guard: about 50 of them. 42 keys are six standard deviations.
        for secret in 0..10 {
            let rule = GuardRule::new(spacing, secret);
            let guards = chosen
                .iter()
                .filter(|key| rule.level(key, &VALUE[key.len()..]).is_some());
            let guards = guards.count();
            let expected = chosen.len() / 20;
            assert!(
                guards.abs_diff(expected) < 42,
                "secret {secret}: {guards} of {expected}"
            );
        }
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
        let (mut tree, rule) = (Tree::default(), GuardRule::new(50, 1));
        let choose = |tree: &mut Tree, value: &[u8]| {
            let mut chooser = Chooser::new(tree, &rule);
            chooser.look_at(b"a key", value);
            chooser.look_at(b"", &[0; 100]);
            let guards = chooser.finish();
            let levels: Vec<u8> = guards.iter().map(|guard| guard.level.0).collect();
            let edit = TreeEdit {
                guards,
                ..TreeEdit::default()
            };
            tree.apply(&edit).unwrap();
            levels
        };
        assert_eq!(choose(&mut tree, &[0; 45]), [6]);
        assert_eq!(choose(&mut tree, &[0; 45]), []);
        assert_eq!(choose(&mut tree, &[0; 195]), [5]);
        assert_eq!(choose(&mut tree, &[0; 45]), []);
        let (key, level) = (b"a key"[..].into(), Level(5));
        assert_eq!(tree.guard_keys(), [GuardKey { key, level }]);
    }
}
