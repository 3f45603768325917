//! A seeded random permutation of `0..size` in constant memory.
//!
//! Hot ranks must be scattered over the key range without a table of 80 million entries and without
//! the collisions of a hash. A Feistel network is a bijection with any round function:
//!
//! ```text
//!   number = [ left: a bits | right: b bits ]      a + b = bits of (size - 1)
//!   even round:  left  ^= mix(right, round)        odd round:  right ^= mix(left, round)
//! ```
//!
//! A result outside `0..size` is sent through again ("cycle walking"), which keeps the map a
//! bijection of `0..size`. The domain is less than twice the size, so on average less than one
//! extra walk is needed.

use crate::random::mix64;

const ROUNDS: u64 = 6;

/// A bijection of `0..size`; immutable, so it may be shared between threads.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    size: u64,
    seed: u64,
    right_bits: u32,
    left_mask: u64,
    right_mask: u64,
}

impl Permutation {
    /// The permutation of `0..size` for this seed.
    ///
    /// # Panics
    /// If `size` is zero: the empty range has nothing to permute.
    #[must_use]
    pub fn new(size: u64, seed: u64) -> Self {
        assert!(size > 0, "a permutation needs at least one number");
        let bits = (64 - (size - 1).leading_zeros()).max(2);
        let right_bits = bits / 2;
        let left_bits = bits - right_bits;
        Self {
            size,
            seed: mix64(seed),
            right_bits,
            left_mask: (1u64 << left_bits) - 1,
            right_mask: (1u64 << right_bits) - 1,
        }
    }

    /// Where `number` (below the size) is sent.
    #[must_use]
    pub fn apply(&self, number: u64) -> u64 {
        debug_assert!(number < self.size, "number outside the permuted range");
        let mut result = self.walk(number);
        while result >= self.size {
            result = self.walk(result);
        }
        result
    }

    fn walk(&self, number: u64) -> u64 {
        let mut left = number >> self.right_bits;
        let mut right = number & self.right_mask;
        for round in 0..ROUNDS {
            let salt = self.seed.wrapping_add(round << 56);
            if round % 2 == 0 {
                left ^= mix64(right ^ salt) & self.left_mask;
            } else {
                right ^= mix64(left ^ salt) & self.right_mask;
            }
        }
        (left << self.right_bits) | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_a_bijection_of_every_small_range() {
        for size in (1..70).chain([255, 256, 257, 1000, 4096, 10_007]) {
            let permutation = Permutation::new(size, size * 31);
            let mut seen = vec![false; size as usize];
            for number in 0..size {
                let target = permutation.apply(number) as usize;
                assert!(
                    !std::mem::replace(&mut seen[target], true),
                    "{size}: {target} twice"
                );
            }
        }
    }

    #[test]
    fn neighbours_are_scattered_and_seeds_differ() {
        let (first, second) = (
            Permutation::new(1_000_000, 1),
            Permutation::new(1_000_000, 2),
        );
        let far = (0..1000)
            .filter(|&n| first.apply(n).abs_diff(first.apply(n + 1)) > 10_000)
            .count();
        assert!(
            far > 950,
            "only {far} of 1000 neighbours were sent far apart"
        );
        let same = (0..1000)
            .filter(|&n| first.apply(n) == second.apply(n))
            .count();
        assert!(same < 5, "{same} of 1000 equal under two seeds");
    }
}
