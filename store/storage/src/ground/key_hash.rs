//! Three hashes of a key: [`RamHash`] for tables in RAM, [`FilterHash`] for filters on disk, and
//! [`KeyedHash`] for choices that a file's secret decides.
//!
//! A user who may write to a database may choose its keys. If the user can compute their hashes,
//! the user can choose a million keys with one hash, and every table that is kept by hash becomes a
//! list. So tables in RAM use a hash with a secret of this process. Another process must be able to
//! read a filter on disk, so its hash has no secret. There the worst result of chosen keys is a
//! block that is read in vain. A choice that is kept on disk, and that is made again by a later
//! process, has a secret of its own, which is kept beside it. None of these hashes can be made from
//! another one.
//! ```text
//!   key   = blocks of 128 bytes, and the last one of 1 to 128
//!   block = (w0 + k0) * (w1 + k1) + (w2 + k2) * (w3 + k3) + ... + 2^64 * length   mod 2^128
//!           w: words of the key; k: secret
//!   early = Horner's rule over the 32-bit parts of all blocks except the last, at a secret point,
//!           mod 2^61 - 1
//!   sum   = upper half of  a + b * low(block) + c * high(block) + d * early   mod 2^128
//!           block: the last; a to d: secret
//!           for a key of up to 16 bytes: upper half of  a[length] + b * w0 + c * w1   mod 2^128
//!   hash  = sum, mixed by a bijection
//! ```
//! **What is promised.** Take any two different keys that are chosen without the secret. Each bit
//! of their hashes, and any bits together, are equal as often as the bits of two random numbers,
//! except in one case in 2^50. The block is the hash NH of UMAC: two different blocks, or two keys
//! of different lengths, agree in one case in 2^64. The polynomial agrees in n cases in 2^61, where
//! n is the number of its terms. The sum is strongly universal (multilinear hashing): it makes two
//! independent numbers from two different inputs, and a bijection keeps them independent. The sum
//! is linear, so the sums of keys that follow each other lie evenly or, for a few secrets, in a
//! heap. The bijection takes that away. A hash that is computed without a secret and mixed with one
//! afterwards promises none of this: keys that collide before the mixing collide after it.
//!
//! It is no cipher: anyone who sees hashes can compute the secret. No part of the store gives them
//! out. Thread safety: any.

use crate::codec::hash_key;
use crate::random;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

const BLOCK_BYTES: usize = 128;
/// 2^61 - 1, a prime.
const PRIME: u64 = (1 << 61) - 1;

/// A key's hash for filters on disk, the same for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilterHash(pub(crate) u64);

impl FilterHash {
    /// The hash of a key.
    #[inline]
    #[must_use]
    pub fn of(key: &[u8]) -> FilterHash {
        FilterHash(hash_key(key))
    }
}

/// A key's hash for tables in RAM. Another process computes another hash. It is computed once for
/// each operation, and all tables of this process share it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RamHash(u64);

impl RamHash {
    /// The hash of a key.
    #[inline]
    #[must_use]
    pub fn of(key: &[u8]) -> RamHash {
        // A model runs a schedule again, and then everything must be as before.
        match cfg!(any(evendb_loom, evendb_shuttle)) {
            true => RamHash(hash_key(key)),
            false => RamHash(SECRET.get_or_init(Secret::of_process).hash(key)),
        }
    }

    /// A hash from its kept bits. Bits that were not kept are 0.
    #[inline]
    #[must_use]
    pub const fn of_bits(bits: u64) -> RamHash {
        RamHash(bits)
    }

    /// All bits are equally good.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// A hash whose secret is made from a number that is kept: a later process computes the same hash.
/// It promises what [`RamHash`] promises, as long as those who choose keys do not know the number.
#[derive(Debug)]
pub struct KeyedHash(Secret);

impl KeyedHash {
    /// The hash of this seed, the same for ever.
    #[must_use]
    pub fn of_seed(seed: u64) -> KeyedHash {
        KeyedHash(Secret::of(seed))
    }

    /// The hash of a key. All bits are equally good.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.0.hash(key)
    }
}

static SECRET: OnceLock<Secret> = OnceLock::new();

/// See the module.
#[derive(Debug)]
struct Secret {
    words: [[u64; 2]; BLOCK_BYTES / 16],
    last: [u128; 4],
    /// Replaces the first of these numbers for short keys: one number for each length up to 16.
    short: [u128; 17],
    point: u64,
}

impl Secret {
    /// The secret of a process. With debug assertions, as in tests, it is always the same: the
    /// memory that puts take depends on it, and so do the places where chunks begin, and a seed
    /// must give the same steps again.
    #[cold]
    fn of_process() -> Secret {
        match cfg!(debug_assertions) {
            true => Secret::of(1),
            false => Secret::random(),
        }
    }

    fn random() -> Secret {
        Secret::of_numbers(|at| {
            // If the system gives no more random numbers, the standard library's are better
            // than nothing.
            random::number().unwrap_or_else(|_| RandomState::new().hash_one(at))
        })
    }

    fn of(seed: u64) -> Secret {
        Secret::of_numbers(|at| hash_key(&[seed, at].map(u64::to_le_bytes).concat()))
    }

    fn of_numbers(mut number: impl FnMut(u64) -> u64) -> Secret {
        let mut at = 0;
        let mut next = || {
            at += 1;
            number(at)
        };
        Secret {
            words: std::array::from_fn(|_| [next(), next()]),
            last: std::array::from_fn(|_| u128::from(next()) << 64 | u128::from(next())),
            short: std::array::from_fn(|_| u128::from(next()) << 64 | u128::from(next())),
            point: next() % PRIME,
        }
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        let [first, low, high, early] = self.last;
        let of_block = |block: u128| {
            let block = block.wrapping_add((key.len() as u128) << 64);
            [block as u64, (block >> 64) as u64]
        };
        let (first, words) = match key.len() {
            len @ 0..=16 => (self.short[len], short_words(key)),
            17..=BLOCK_BYTES => (first, of_block(self.block(key, key))),
            _ => {
                let (last, of_others) = self.long(key);
                let of_others = early.wrapping_mul(u128::from(of_others));
                (first.wrapping_add(of_others), of_block(last))
            }
        };
        let sum = first
            .wrapping_add(low.wrapping_mul(u128::from(words[0])))
            .wrapping_add(high.wrapping_mul(u128::from(words[1])));
        mixed((sum >> 64) as u64)
    }

    /// The hash of a block, the last one of a key of more than 16 bytes. The key's last 16 bytes
    /// fill it up.
    #[inline]
    fn block(&self, block: &[u8], key: &[u8]) -> u128 {
        let (pairs, rest) = block.as_chunks::<16>();
        let mut sum = 0u128;
        for (pair, &secret) in pairs.iter().zip(&self.words) {
            sum = sum.wrapping_add(product(words(pair), secret));
        }
        if let Some(&secret) = self.words.get(pairs.len())
            && let Some(end) = key.last_chunk::<16>()
            && !rest.is_empty()
        {
            sum = sum.wrapping_add(product(words(end), secret));
        }
        sum
    }

    /// The last block of a long key, and the polynomial over all other blocks.
    #[cold]
    #[inline(never)]
    fn long(&self, key: &[u8]) -> (u128, u64) {
        let (mut early, mut left) = (0, key);
        while left.len() > BLOCK_BYTES {
            let (block, behind) = left.split_at(BLOCK_BYTES);
            let block = self.block(block, block);
            for part in [block, block >> 32, block >> 64, block >> 96] {
                early = times_plus(early, self.point, u64::from(part as u32));
            }
            left = behind;
        }
        (self.block(left, key), early)
    }
}

/// A bijection of 64 bits that is not linear.
#[inline]
fn mixed(sum: u64) -> u64 {
    let upper = (sum ^ sum >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    upper ^ upper >> 32
}

/// `by * point + plus` modulo [`PRIME`].
fn times_plus(by: u64, point: u64, plus: u64) -> u64 {
    let product = u128::from(by) * u128::from(point) + u128::from(plus);
    let folded = (product as u64 & PRIME) + (product >> 61) as u64;
    match folded >= PRIME {
        true => folded - PRIME,
        false => folded,
    }
}

#[inline]
fn product(words: [u64; 2], secret: [u64; 2]) -> u128 {
    let factor = |at: usize| u128::from(words[at].wrapping_add(secret[at]));
    factor(0) * factor(1)
}

#[inline]
fn words(pair: &[u8; 16]) -> [u64; 2] {
    let both = u128::from_le_bytes(*pair);
    [both as u64, (both >> 64) as u64]
}

/// All bytes of a key of up to 16 bytes: two different keys of one length never have the same
/// words.
#[inline]
fn short_words(key: &[u8]) -> [u64; 2] {
    if let (Some(begin), Some(end)) = (key.first_chunk(), key.last_chunk()) {
        [u64::from_le_bytes(*begin), u64::from_le_bytes(*end)]
    } else if let (Some(begin), Some(end)) = (key.first_chunk(), key.last_chunk()) {
        let [begin, end] = [begin, end].map(|half: &[u8; 4]| u64::from(u32::from_le_bytes(*half)));
        [begin | end << 32, 0]
    } else if let (Some(&begin), Some(&end)) = (key.first(), key.last()) {
        let middle = key[key.len() / 2];
        let all = u64::from(begin) | u64::from(middle) << 8 | u64::from(end) << 16;
        [all, 0]
    } else {
        [0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Keys of all important lengths, each with keys that differ from it in one bit.
    fn neighbours() -> Vec<Vec<u8>> {
        let lengths =
            (0..=40).chain([63, 64, 65, 127, 128, 129, 130, 143, 144, 145, 255, 256, 257]);
        let mut keys = Vec::new();
        for len in lengths.chain([384, 1000, 65_535]) {
            let key = vec![0; len];
            // All bits of short keys; for long keys some bits all over, and the bits near the end.
            let at = (0..len).filter(|at| len <= 257 || at % 97 == 0 || len - at < 20);
            for at in at {
                let mut other = key.clone();
                other[at] = 1 << (at % 8);
                keys.push(other);
            }
            keys.push(key);
        }
        keys
    }

    #[test]
    fn keys_that_differ_by_a_bit_or_by_their_length_have_other_hashes() {
        let keys = neighbours();
        for seed in 0..20 {
            let secret = Secret::of(seed);
            let hashes: HashSet<u64> = keys.iter().map(|key| secret.hash(key)).collect();
            assert_eq!(hashes.len(), keys.len());
        }
    }

    /// Each bit of two hashes is equal for half of all secrets, whatever the keys are.
    #[test]
    fn each_bit_is_even_over_secrets_for_any_two_keys() {
        const SECRETS: u64 = 4000;
        let long = |last: u8| [vec![7; 300], vec![last]].concat();
        let pairs = [
            (vec![], vec![0]),
            (b"a".to_vec(), b"b".to_vec()),
            (b"key 0001".to_vec(), b"key 0002".to_vec()),
            (vec![0; 16], vec![0; 15]),
            ([vec![0; 20], vec![1]].concat(), vec![0; 21]),
            (long(0), long(128)),
            (vec![0; 300], [vec![1], vec![0; 299]].concat()),
        ];
        for (one, other) in pairs {
            let mut equal = [0u64; 64];
            for seed in 0..SECRETS {
                let secret = Secret::of(seed);
                let differ = secret.hash(&one) ^ secret.hash(&other);
                for (bit, equal) in equal.iter_mut().enumerate() {
                    *equal += !differ >> bit & 1;
                }
            }
            // This is six standard deviations.
            let even = SECRETS / 2 - 190..SECRETS / 2 + 190;
            assert!(equal.iter().all(|equal| even.contains(equal)), "{equal:?}");
        }
    }

    /// For keys in order, no place of a table has more keys than by chance. Tables use these parts
    /// of hashes as places.
    #[test]
    fn no_place_of_a_table_has_more_keys_than_by_chance() {
        const KEYS: u64 = 1 << 17;
        let keys: Vec<[u8; 8]> = (0..KEYS)
            .map(|key| u64::swap_bytes(key * 8).to_le_bytes())
            .collect();
        for (shift, places) in [
            (56, 256usize),
            (0, 256),
            (40, 64),
            (47, 1 << 17),
            (0, 1 << 17),
        ] {
            let mut count = vec![0u64; places];
            for key in &keys {
                count[(RamHash::of(key).bits() >> shift) as usize % places] += 1;
            }
            let mean = KEYS as f64 / places as f64;
            let most = count.into_iter().max().unwrap_or(0) as f64;
            assert!(most <= mean + 7.0 * mean.sqrt() + 8.0, "{most} of {mean}");
        }
    }

    /// In a page of a hundred keys in order, one pair in 256 of the 4,950 pairs has the same byte,
    /// for every secret.
    #[test]
    fn keys_in_order_share_bytes_by_chance_alone() {
        for seed in 0..300 {
            let secret = Secret::of(seed);
            let mut equal = [0u32; 4];
            for page in 0..10u64 {
                let hashes: Vec<u64> = (0..100)
                    .map(|at| secret.hash(&u64::swap_bytes(page * 100 + at).to_le_bytes()))
                    .collect();
                for (at, one) in hashes.iter().enumerate() {
                    for other in &hashes[..at] {
                        for (shift, equal) in [0, 24, 40, 56].into_iter().zip(&mut equal) {
                            *equal += u32::from((one ^ other) >> shift & 255 == 0);
                        }
                    }
                }
            }
            // 193 of 49,500 pairs, and six standard deviations.
            assert!(
                equal.iter().all(|equal| (110..277).contains(equal)),
                "{seed}: {equal:?}"
            );
        }
    }

    #[test]
    fn the_hash_of_filters_is_the_one_on_disk() {
        assert_eq!(FilterHash::of(b"key").0, hash_key(b"key"));
    }

    /// A change of these numbers changes which keys existing databases choose from then on.
    #[test]
    fn a_keyed_hash_is_the_same_for_ever() {
        let keys = [&b""[..], b"key", &[7; 100], &[7; 1000]];
        let hashes = keys.map(|key| KeyedHash::of_seed(1).hash(key));
        let of_seed_1 = [
            16_660_697_953_435_260_913,
            3_404_691_371_015_847_533,
            14_207_770_443_480_741_367,
            13_007_704_768_209_905_506,
        ];
        assert_eq!(hashes, of_seed_1);
        let of_other_seed = keys.map(|key| KeyedHash::of_seed(2).hash(key));
        assert!(
            hashes
                .iter()
                .zip(of_other_seed)
                .all(|(one, other)| *one != other)
        );
    }

    #[test]
    fn two_secrets_have_other_hashes_and_one_has_the_same() {
        let [one, other] = [(), ()].map(|()| Secret::random());
        assert_ne!(one.hash(b"key"), other.hash(b"key"));
        assert_eq!(RamHash::of(b"key"), RamHash::of(b"key"));
    }
}
