//! Values that cannot be compressed, or only in part, and that say whether they are the right ones.
//!
//! ```text
//!   bytes 0..8    record number   (u64, little endian)
//!   bytes 8..16   generation      (u64, little endian): distinguishes the writes of one record
//!   bytes 16..    word i = noise[(start + i) mod words] xor mask
//!                 where start and mask come from (record, generation)
//!                 and, in the part that can be compressed, word i = mask
//! ```
//! The last word may be cut. The noise is one seeded buffer of 256 KiB for the whole process, small
//! enough to stay in the CPU's second-level cache. The mask differs for every value, so two values
//! share no bytes even if they read the same noise, and no compressor finds a repetition. Making an
//! 800-byte value costs some 20 ns.
//!
//! Checking is exact about the header and the length, and compares either some spots or the whole
//! body. It finds a value of another record, a torn value, and a value that was never written. It
//! cannot find an *older* generation, since concurrent writers have no common order; a worker that
//! remembers its own puts can ([`generation_of`]).

use std::fmt;
use std::sync::Arc;

use crate::random::{Random, mix64};

const NOISE_WORDS: usize = 32 * 1024;
const HEADER_BYTES: usize = 16;

/// The smallest value that can carry its header.
pub const VALUE_BYTES_MIN: usize = HEADER_BYTES;

/// The part of a value's body that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoroughness {
    /// Header, length, the last bytes and three words in the body.
    Spots,
    /// Every byte.
    Whole,
}

/// What was wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueFault {
    /// The length differs from the configured one.
    Length {
        /// Bytes found.
        found: usize,
        /// Bytes expected.
        expected: usize,
    },
    /// The value names another record.
    Record {
        /// The record number found.
        found: u64,
    },
    /// A byte of the body is wrong.
    Body {
        /// Offset of the first difference found.
        offset: usize,
    },
}

impl fmt::Display for ValueFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found, expected } => {
                write!(f, "the value has {found} bytes instead of {expected}")
            }
            Self::Record { found } => write!(f, "the value belongs to record {found}"),
            Self::Body { offset } => write!(f, "the value's bytes differ at offset {offset}"),
        }
    }
}

/// Makes and checks values of one size. Cheap to clone; clones share the noise.
#[derive(Clone)]
pub struct Values {
    noise: Arc<[u64]>,
    value_bytes: usize,
    /// The percentage of a value's body, at its end, that can be compressed.
    compressible: usize,
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values")
            .field("value_bytes", &self.value_bytes)
            .finish_non_exhaustive()
    }
}

impl Values {
    /// Values of `value_bytes` bytes under this seed.
    ///
    /// # Panics
    /// If `value_bytes` is below [`VALUE_BYTES_MIN`].
    #[must_use]
    pub fn new(value_bytes: usize, seed: u64) -> Self {
        assert!(
            value_bytes >= VALUE_BYTES_MIN,
            "a value must hold its header"
        );
        let mut random = Random::new(seed, 0x76616c);
        let noise = (0..NOISE_WORDS).map(|_| random.next_u64()).collect();
        Self {
            noise,
            value_bytes,
            compressible: 0,
        }
    }

    /// The same values with this percentage that compresses to next to nothing; at most 100.
    #[must_use]
    pub fn compressible(mut self, percent: u8) -> Self {
        self.compressible = usize::from(percent.min(100));
        self
    }

    /// The number of words that have noise, in a body of `words` words.
    fn noisy(&self, words: usize) -> usize {
        words - words * self.compressible / 100
    }

    /// The noise in word `index` of a body of `words`.
    fn noise(&self, start: usize, index: usize, words: usize) -> u64 {
        match index < self.noisy(words) {
            true => self.noise[(start + index) % NOISE_WORDS],
            false => 0,
        }
    }

    /// The size of every value.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Replaces `target` by the value of this record and generation.
    pub fn fill(&self, record: u64, generation: u64, target: &mut Vec<u8>) {
        self.fill_sized(record, generation, self.value_bytes, target);
    }

    /// Replaces `target` by the value of this record and generation with another size, which may be
    /// less than the header's. It passes the check of values of that size.
    pub fn fill_sized(&self, record: u64, generation: u64, bytes: usize, target: &mut Vec<u8>) {
        let words = bytes.saturating_sub(HEADER_BYTES).div_ceil(8);
        // A buffer that is used again keeps its length, so nothing is zeroed first.
        target.resize(HEADER_BYTES + words * 8, 0);
        target[..8].copy_from_slice(&record.to_le_bytes());
        target[8..HEADER_BYTES].copy_from_slice(&generation.to_le_bytes());
        let (start, mask) = stream(record, generation);
        let noisy = self.noisy(words);
        let (body, plain) = target[HEADER_BYTES..].split_at_mut(noisy * 8);
        let (before_wrap, wrapped) = (&self.noise[start..], self.noise.iter().cycle().take(noisy));
        let (head, tail) = body.split_at_mut(before_wrap.len().min(noisy) * 8);
        let put = |(bytes, word): (&mut [u8], &u64)| {
            bytes.copy_from_slice(&(word ^ mask).to_le_bytes());
        };
        head.chunks_exact_mut(8).zip(before_wrap).for_each(put);
        tail.chunks_exact_mut(8).zip(wrapped).for_each(put);
        for word in plain.chunks_exact_mut(8) {
            word.copy_from_slice(&mask.to_le_bytes());
        }
        target.truncate(bytes);
    }

    /// Whether `value` is one of this record's values.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(
        &self,
        record: u64,
        value: &[u8],
        thoroughness: Thoroughness,
    ) -> Result<(), ValueFault> {
        if value.len() != self.value_bytes {
            return Err(ValueFault::Length {
                found: value.len(),
                expected: self.value_bytes,
            });
        }
        self.check_content(record, value, thoroughness)
    }

    /// Whether the bytes are one of this record's values of that length, which is at least the
    /// header's.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_content(
        &self,
        record: u64,
        value: &[u8],
        thoroughness: Thoroughness,
    ) -> Result<(), ValueFault> {
        if value.len() < HEADER_BYTES {
            return Err(ValueFault::Length {
                found: value.len(),
                expected: HEADER_BYTES,
            });
        }
        let found = word_at(value, 0);
        if found != record {
            return Err(ValueFault::Record { found });
        }
        let generation = word_at(value, 8);
        let (start, mask) = stream(record, generation);
        let body = &value[HEADER_BYTES..];
        let words = body.len().div_ceil(8);
        match thoroughness {
            Thoroughness::Whole => {
                let differs = |(index, word): (usize, &[u8; 8])| {
                    let noise = self.noise(start, index, words);
                    u64::from_le_bytes(*word) != noise ^ mask
                };
                // The last word may be incomplete. This slow comparison also tells the exact place.
                let (full, _) = body.as_chunks::<8>();
                let first = full
                    .iter()
                    .enumerate()
                    .position(differs)
                    .unwrap_or(full.len());
                (first..words).try_for_each(|index| self.check_word(body, start, mask, index))
            }
            Thoroughness::Spots if words == 0 => Ok(()),
            Thoroughness::Spots => {
                let spot = mix64(mask) as usize;
                [0, spot % words, (spot >> 20) % words, words - 1]
                    .into_iter()
                    .try_for_each(|index| self.check_word(body, start, mask, index))
            }
        }
    }

    fn check_word(
        &self,
        body: &[u8],
        start: usize,
        mask: u64,
        index: usize,
    ) -> Result<(), ValueFault> {
        let words = body.len().div_ceil(8);
        let expected = (self.noise(start, index, words) ^ mask).to_le_bytes();
        let from = index * 8;
        let found = &body[from..body.len().min(from + 8)];
        if found == &expected[..found.len()] {
            return Ok(());
        }
        let wrong = found
            .iter()
            .zip(expected)
            .position(|(&a, b)| a != b)
            .unwrap_or(0);
        Err(ValueFault::Body {
            offset: HEADER_BYTES + from + wrong,
        })
    }
}

/// Where a value's noise starts, and its mask.
fn stream(record: u64, generation: u64) -> (usize, u64) {
    let mask = mix64(mix64(record) ^ generation.rotate_left(32));
    (mix64(mask) as usize % NOISE_WORDS, mask)
}

/// The generation of a value that was checked.
///
/// # Panics
/// If it is shorter than its header.
#[must_use]
pub fn generation_of(value: &[u8]) -> u64 {
    word_at(value, 8)
}

/// The little-endian word at `offset`; the caller has checked the length.
fn word_at(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_size_pass_their_own_check() {
        for size in (VALUE_BYTES_MIN..60).chain([800, 1_000_003]) {
            let values = Values::new(size, 1);
            let mut value = Vec::new();
            for record in [0, 1, u64::MAX] {
                for generation in 0..3 {
                    values.fill(record, generation, &mut value);
                    assert_eq!(value.len(), size);
                    assert_eq!(values.check(record, &value, Thoroughness::Spots), Ok(()));
                    assert_eq!(values.check(record, &value, Thoroughness::Whole), Ok(()));
                }
            }
        }
    }

    #[test]
    fn a_part_can_be_compressed_and_every_flipped_bit_of_it_counts() {
        let values = Values::new(816, 1).compressible(50);
        let mut value = Vec::new();
        values.fill(5, 9, &mut value);
        let plain = &value[HEADER_BYTES + 400..];
        assert!(plain.chunks(8).all(|word| word == &plain[..8]));
        assert!(
            value[HEADER_BYTES..HEADER_BYTES + 400]
                .chunks(8)
                .all(|word| word != &plain[..8])
        );
        assert_eq!(values.check(5, &value, Thoroughness::Whole), Ok(()));
        assert_eq!(values.check(5, &value, Thoroughness::Spots), Ok(()));
        for bit in HEADER_BYTES * 8..816 * 8 {
            value[bit / 8] ^= 1 << (bit % 8);
            assert!(
                values.check(5, &value, Thoroughness::Whole).is_err(),
                "bit {bit}"
            );
            value[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn every_flipped_bit_is_found_by_the_whole_check() {
        let values = Values::new(100, 1);
        let mut value = Vec::new();
        values.fill(5, 9, &mut value);
        for bit in 0..800 {
            value[bit / 8] ^= 1 << (bit % 8);
            assert!(
                values.check(5, &value, Thoroughness::Whole).is_err(),
                "bit {bit}"
            );
            value[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn faults_are_named() {
        let values = Values::new(800, 1);
        let mut value = Vec::new();
        values.fill(5, 0, &mut value);
        let check = |record, value: &[u8]| values.check(record, value, Thoroughness::Spots);
        assert_eq!(check(6, &value), Err(ValueFault::Record { found: 5 }));
        assert_eq!(
            check(5, &value[1..]),
            Err(ValueFault::Length {
                found: 799,
                expected: 800
            })
        );
        value[799] ^= 1;
        assert_eq!(check(5, &value), Err(ValueFault::Body { offset: 799 }));
    }

    #[test]
    fn values_share_no_words() {
        let values = Values::new(800, 1);
        let mut seen = std::collections::HashSet::new();
        let mut value = Vec::new();
        for record in 0..400 {
            values.fill(record, 0, &mut value);
            for word in value[HEADER_BYTES..].chunks(8) {
                assert!(
                    seen.insert(word.to_vec()),
                    "a word of record {record} repeats"
                );
            }
        }
    }
}
