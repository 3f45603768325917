//! Counts records whose key an earlier record of the same input had, in bounded memory.
//!
//! At most [`HASHES_MAX`] hashes of keys are kept. Up to that number of records the count is exact.
//! Beyond it, only keys whose hash ends with a number of zero bits are kept, with all their
//! records, and the count is multiplied.

use std::hash::{BuildHasher, RandomState};

/// The highest number of hashes that are kept: 32 MiB.
const HASHES_MAX: usize = 4 << 20;

/// Counts keys that were there before.
pub struct Duplicates {
    hasher: RandomState,
    hashes: Vec<u64>,
    most: usize,
    /// Only hashes that end with this number of zero bits are kept.
    zeros: u32,
}

/// The number of records that replaced an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    pub records: u64,
    pub is_exact: bool,
}

impl Duplicates {
    pub fn new() -> Duplicates {
        Duplicates::keeping(HASHES_MAX)
    }

    fn keeping(most: usize) -> Duplicates {
        Duplicates {
            hasher: RandomState::new(),
            hashes: Vec::new(),
            most,
            zeros: 0,
        }
    }

    /// Counts a record with this key.
    pub fn push(&mut self, key: &[u8]) {
        let hash = self.hasher.hash_one(key);
        if !self.is_kept(hash) {
            return;
        }
        self.hashes.push(hash);
        while self.hashes.len() > self.most && self.zeros < u64::BITS {
            self.zeros += 1;
            let mut hashes = std::mem::take(&mut self.hashes);
            hashes.retain(|&hash| self.is_kept(hash));
            self.hashes = hashes;
        }
    }

    fn is_kept(&self, hash: u64) -> bool {
        hash.trailing_zeros() >= self.zeros
    }

    /// The number of records with a key of an earlier one.
    pub fn replaced(mut self) -> Replaced {
        let records = self.hashes.len();
        self.hashes.sort_unstable();
        self.hashes.dedup();
        let repeated = (records - self.hashes.len()) as u64;
        Replaced {
            records: repeated.checked_shl(self.zeros).unwrap_or(u64::MAX),
            is_exact: self.zeros == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_keys_are_counted_and_beyond_the_memory_estimated() {
        let count = |most: usize, keys: u32, times: u32| {
            let mut duplicates = Duplicates::keeping(most);
            for key in (0..times).flat_map(|_| 0..keys) {
                duplicates.push(&key.to_le_bytes());
                assert!(duplicates.hashes.len() <= most);
            }
            duplicates.replaced()
        };
        let exact = |records| Replaced {
            records,
            is_exact: true,
        };
        assert_eq!(count(100_000, 1000, 1), exact(0));
        assert_eq!(count(100_000, 1000, 3), exact(2000));
        assert_eq!(Duplicates::new().replaced(), exact(0));
        let estimate = count(10_000, 50_000, 3);
        assert!(!estimate.is_exact);
        // Some 3,000 of 50,000 keys are kept: the estimate's standard deviation is below 2 percent.
        assert!(
            (80_000..120_000).contains(&estimate.records),
            "{estimate:?}"
        );
        assert_eq!(count(1000, 50_000, 1).records, 0);
    }
}
