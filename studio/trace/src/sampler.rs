//! Which keys are recorded: one in a number of keys, by the hash of the key.
//!
//! All operations of a sampled key are recorded, so a key is used as often, and after the same
//! intervals, as in the whole. The choice is the same in every trace, and the keys of a sparser
//! sample are among those of a denser one. Each key of a batch, transaction or multi-get is chosen
//! by itself. A deletion of a range and a pop are chosen by the lower end of their range, a scan by
//! the key at which it begins.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Differs from the hash that stores use for their own choices.
const SEED: u64 = 0x7472_6163_655f_6b65;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    one_in: u64,
    highest: u64,
}

impl Sampler {
    /// One key in `one_in`; 0 and 1 are all keys.
    #[must_use]
    pub fn new(one_in: u64) -> Sampler {
        let one_in = one_in.max(1);
        Sampler {
            one_in,
            highest: u64::MAX / one_in,
        }
    }

    /// The number of keys behind a recorded key.
    #[must_use]
    pub fn one_in(&self) -> u64 {
        self.one_in
    }

    /// Keys with a hash up to this one are recorded: [`is_up_to`] needs nothing else.
    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// Whether operations of this key are recorded.
    #[inline]
    #[must_use]
    pub fn takes(&self, key: &[u8]) -> bool {
        is_up_to(self.highest, key)
    }
}

/// Whether a sampler with this highest hash takes the key.
#[inline]
pub(crate) fn is_up_to(highest: u64, key: &[u8]) -> bool {
    highest == u64::MAX || xxh3_64_with_seed(key, SEED) <= highest
}

#[cfg(test)]
mod tests {
    use super::Sampler;

    #[test]
    fn one_key_in_so_many_and_the_sparser_within_the_denser() {
        let key = |number: u32| format!("user{number:010}").into_bytes();
        for one_in in [1_u64, 10, 100] {
            let sampler = Sampler::new(one_in);
            let taken = (0..200_000).filter(|&n| sampler.takes(&key(n))).count() as f64;
            let expected = 200_000.0 / one_in as f64;
            assert!(
                (taken - expected).abs() < 4.0 * expected.sqrt() + 1.0,
                "{taken} of {expected}"
            );
        }
        let (dense, sparse) = (Sampler::new(10), Sampler::new(100));
        assert!((0..100_000).all(|n| !sparse.takes(&key(n)) || dense.takes(&key(n))));
    }
}
