//! How often each key was accessed, within a bound of memory.
//!
//! As long as all keys fit, counts are exact. When they do not, the keys with the lowest counts are
//! dropped until half of the memory is free, and the highest dropped count is added to
//! [`Popularity::short_by`]: no count is higher than the true one, and none is lower by more than
//! that. The number of different keys then comes from the smallest hashes, with an error of about a
//! hundredth.

use std::collections::{BTreeSet, HashMap};

use evendb_trace::value_hash;

/// Bytes that keys and their counts may take.
const BYTES_MAX: usize = 256 << 20;
/// What a key costs beside its bytes.
const OVERHEAD: usize = 64;
/// The number of smallest hashes that are kept.
const HASHES: usize = 1 << 14;

/// See the module.
#[derive(Debug)]
pub(super) struct Popularity {
    counts: HashMap<Vec<u8>, u64>,
    bytes: usize,
    bytes_max: usize,
    short_by: u64,
    accesses: u64,
    smallest: BTreeSet<u64>,
}

impl Default for Popularity {
    fn default() -> Popularity {
        Popularity::within(BYTES_MAX)
    }
}

impl Popularity {
    pub(super) fn within(bytes_max: usize) -> Popularity {
        Popularity {
            counts: HashMap::new(),
            bytes: 0,
            bytes_max,
            short_by: 0,
            accesses: 0,
            smallest: BTreeSet::new(),
        }
    }

    /// Counts an access.
    pub(super) fn add(&mut self, key: &[u8]) {
        self.accesses += 1;
        self.note_hash(value_hash(key));
        if let Some(count) = self.counts.get_mut(key) {
            *count += 1;
            return;
        }
        self.bytes += key.len() + OVERHEAD;
        self.counts.insert(key.to_vec(), 1);
        if self.bytes > self.bytes_max {
            self.drop_rare();
        }
    }

    fn note_hash(&mut self, hash: u64) {
        let is_small =
            self.smallest.len() < HASHES || self.smallest.last().is_some_and(|last| hash < *last);
        if is_small && self.smallest.insert(hash) && self.smallest.len() > HASHES {
            self.smallest.pop_last();
        }
    }

    fn drop_rare(&mut self) {
        let mut counts: Vec<u64> = self.counts.values().copied().collect();
        counts.sort_unstable();
        let highest = counts[counts.len() / 2];
        self.short_by += highest;
        self.counts.retain(|_, count| *count > highest);
        // What stays may miss what was dropped of it before: its count stays too low, not too high.
        self.bytes = self.counts.keys().map(|key| key.len() + OVERHEAD).sum();
    }

    /// All accesses.
    pub(super) fn accesses(&self) -> u64 {
        self.accesses
    }

    /// No count is lower than the true one by more than this. 0: all are exact.
    pub(super) fn short_by(&self) -> u64 {
        self.short_by
    }

    /// The number of different keys.
    pub(super) fn keys(&self) -> u64 {
        match (self.short_by, self.smallest.last()) {
            (0, _) => self.counts.len() as u64,
            (_, Some(last)) if self.smallest.len() == HASHES => {
                ((HASHES - 1) as f64 / (*last as f64 / u64::MAX as f64)).round() as u64
            }
            _ => self.smallest.len() as u64,
        }
    }

    /// The accesses of a key, as far as they are known.
    pub(super) fn of(&self, key: &[u8]) -> u64 {
        self.counts.get(key).copied().unwrap_or(0)
    }

    /// The hottest keys, the hottest first; of equally hot ones the least first.
    pub(super) fn hottest(&self, count: usize) -> Vec<(&[u8], u64)> {
        let mut all: Vec<(&[u8], u64)> = self
            .counts
            .iter()
            .map(|(key, count)| (&key[..], *count))
            .collect();
        let order =
            |one: &(&[u8], u64), other: &(&[u8], u64)| other.1.cmp(&one.1).then(one.0.cmp(other.0));
        if all.len() > count {
            all.select_nth_unstable_by(count, order);
            all.truncate(count);
        }
        all.sort_unstable_by(order);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::Popularity;

    #[test]
    fn counts_are_exact_while_keys_fit() {
        let mut popularity = Popularity::default();
        for number in 0..100_u32 {
            for _ in 0..=number % 7 {
                popularity.add(&number.to_le_bytes());
            }
        }
        assert_eq!((popularity.keys(), popularity.short_by()), (100, 0));
        let hottest: Vec<_> = popularity
            .hottest(2)
            .into_iter()
            .map(|(key, count)| (key.to_vec(), count))
            .collect();
        // Of keys with the same count, the first in their order.
        assert_eq!(hottest, [(vec![6, 0, 0, 0], 7), (vec![13, 0, 0, 0], 7)]);
        assert_eq!(popularity.of(&5_u32.to_le_bytes()), 6);
        assert_eq!(popularity.hottest(1000).len(), 100);
    }

    /// Many keys that come once, and some that come often: the hot ones stay, and their counts are
    /// short by no more than is said.
    #[test]
    fn hot_keys_stay_where_not_all_keys_fit() {
        let mut popularity = Popularity::within(100_000);
        for number in 0..200_000_u32 {
            popularity.add(&number.to_le_bytes());
            if number % 10 == 0 {
                popularity.add(&(number / 10 % 20).to_le_bytes()[..3]);
            }
        }
        let short_by = popularity.short_by();
        assert!(short_by > 0);
        let hottest = popularity.hottest(20);
        assert!(
            hottest
                .iter()
                .all(|(key, count)| key.len() == 3 && *count <= 1000 && *count + short_by >= 1000),
            "{hottest:?} {short_by}"
        );
        let keys = popularity.keys() as f64;
        assert!((keys / 200_020.0 - 1.0).abs() < 0.03, "{keys}");
    }
}
