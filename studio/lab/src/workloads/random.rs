//! Small, fast, seeded random numbers whose sequence never changes between releases.
//!
//! A measurement names its seed; the same seed must give the same operations years later, so the
//! generator is ours (xoshiro256++, seeded through SplitMix64) and not a library's "standard" one.
//! It costs about a nanosecond a number and is not meant to be unpredictable.

/// One step of SplitMix64's mixing: a bijection of the 64-bit numbers that scatters all bits.
#[must_use]
pub fn mix64(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A xoshiro256++ generator. One per thread; not shared.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// A generator for this seed and this stream; different streams are independent.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut position = mix64(seed) ^ mix64(!stream);
        let state = std::array::from_fn(|_| {
            position = position.wrapping_add(0x9E37_79B9_7F4A_7C15);
            mix64(position)
        });
        Self { state }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s0.wrapping_add(*s3).rotate_left(23).wrapping_add(*s0);
        let shifted = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= shifted;
        *s3 = s3.rotate_left(45);
        result
    }

    /// A number in `0..bound`; `bound` must not be zero. (Lemire's multiplication. Its bias of at
    /// most `bound / 2^64` does not matter here.)
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0, "an empty range has no member");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Fills `target` with random bytes.
    pub fn fill(&mut self, target: &mut [u8]) {
        for part in target.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        unit_from(self.next_u64())
    }
}

/// The upper 53 bits as a number in `[0, 1)`.
#[must_use]
pub fn unit_from(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_sequence_other_stream_other_sequence() {
        let take = |seed, stream| {
            let mut random = Random::new(seed, stream);
            (0..8).map(|_| random.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(take(1, 2), take(1, 2));
        assert_ne!(take(1, 2), take(1, 3));
        assert_ne!(take(1, 2), take(2, 2));
        assert_ne!(take(1, 2), take(2, 1));
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut random = Random::new(7, 0);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(
            counts.iter().all(|&count| (9_500..10_500).contains(&count)),
            "{counts:?}"
        );
    }

    #[test]
    fn unit_stays_below_one() {
        assert!(unit_from(u64::MAX) < 1.0);
        assert_eq!(unit_from(0), 0.0);
    }
}
