//! The records of a measurement: how keys look, how large values are, how many there are.
//!
//! ```text
//!   key:  [ "user" ][ ten decimal digits ]        14 bytes, as in YCSB and in the paper
//! ```
//! Record number `n` has the `n`-th key in byte order, so a data set that was loaded is dense: a
//! scan from record `n` must yield `n, n + 1, n + 2, ...`, and this is checked.

use crate::value::Values;

const PREFIX: &[u8; 4] = b"user";
const DIGITS: usize = 10;

/// The bytes of every key.
pub const KEY_BYTES: usize = PREFIX.len() + DIGITS;

/// The largest number of records: their numbers have ten digits.
pub const RECORDS_MAX: u64 = 10_000_000_000;

/// Writes the key of this record.
#[must_use]
pub fn key_of(record: u64) -> [u8; KEY_BYTES] {
    debug_assert!(
        record < RECORDS_MAX,
        "the record number needs more than ten digits"
    );
    let mut key = [0; KEY_BYTES];
    key[..PREFIX.len()].copy_from_slice(PREFIX);
    let mut rest = record;
    for digit in key[PREFIX.len()..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// The record number of a key. `None` if the bytes are no key of a data set.
#[must_use]
pub fn record_of(key: &[u8]) -> Option<u64> {
    let digits = key.strip_prefix(PREFIX)?;
    if digits.len() != DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(
        digits
            .iter()
            .fold(0, |number, digit| number * 10 + u64::from(digit - b'0')),
    )
}

/// A dense set of records.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Records loaded at the start, numbered from zero.
    pub records: u64,
    /// Makes and checks values.
    pub values: Values,
    /// Seeds everything that is random.
    pub seed: u64,
}

impl Dataset {
    /// A data set of `records` records.
    #[must_use]
    pub fn new(records: u64, value_bytes: usize, seed: u64) -> Self {
        Self {
            records,
            values: Values::new(value_bytes, seed),
            seed,
        }
    }

    /// A data set of about `data_bytes` bytes of keys and values, with at least one record.
    #[must_use]
    pub fn of_size(data_bytes: u64, value_bytes: usize, seed: u64) -> Self {
        let records = data_bytes / (KEY_BYTES + value_bytes) as u64;
        Self::new(records.clamp(1, RECORDS_MAX / 2), value_bytes, seed)
    }

    /// Bytes of one record's key and value.
    #[must_use]
    pub fn record_bytes(&self) -> u64 {
        (KEY_BYTES + self.values.value_bytes()) as u64
    }

    /// Bytes of all keys and values.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.records * self.record_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_papers_shape_and_order() {
        assert_eq!(&key_of(0), b"user0000000000");
        assert_eq!(&key_of(4_294_967_295), b"user4294967295");
        for record in [0, 1, 9, 10, 999_999, RECORDS_MAX - 1] {
            assert_eq!(record_of(&key_of(record)), Some(record));
        }
        assert!((0..2000).all(|record| key_of(record) < key_of(record + 1)));
    }

    #[test]
    fn foreign_keys_have_no_record() {
        for key in [
            &b""[..],
            b"user",
            b"user000000000",
            b"user00000000001",
            b"user00000x0000",
        ] {
            assert_eq!(record_of(key), None);
        }
        assert_eq!(record_of(b"User0000000000"), None);
    }

    #[test]
    fn size_counts_keys_and_values() {
        let dataset = Dataset::of_size(814 * 10 + 5, 800, 0);
        assert_eq!((dataset.records, dataset.data_bytes()), (10, 8140));
    }
}
