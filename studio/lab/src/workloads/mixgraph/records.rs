//! Keys and values of a model's pairs, and their check.
//!
//! ```text
//!   key:   [ pair number: 8 digits to the base 32 ][ digits that the number makes ]
//!          keys sort as their numbers do
//!   value: as `crate::value`, cut to its size; of a counter, 8 bytes that count
//! ```
//! A store of the lab has one keyspace. If a load has several, each key has its keyspace's number
//! before it there, as a replay has it: four bytes that sort. A trace has the keys without them.
//! The number in a value is that of the pair and of its keyspace, so a value that belongs to
//! another keyspace is found:
//!
//! ```text
//!   number in a value: [ keyspace: 24 bits ][ pair: 40 bits ]
//! ```
//!
//! The size of a key follows from its number alone, that of a value from number and generation: a
//! reader knows the size that they must have. A value that is too short for its generation is
//! checked by its number only.

use evendb_model::Model;
use evendb_model::model::{COUNTER_BYTES, KEY_BYTES_MIN, PAIRS_MAX};
use evendb_model::sizes::Sizes;

use crate::random::{mix64, unit_from};
use crate::stores::keyspaces;
use crate::value::{Thoroughness, VALUE_BYTES_MIN, Values, generation_of};

const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
const DIGIT_BITS: u32 = 5;
const NUMBER_BYTES: usize = KEY_BYTES_MIN as usize;

/// Makes the draw of a key's size differ from that of a value's.
const OF_KEYS: u64 = 0x6b65_7973;
const OF_VALUES: u64 = 0x7661_6c75;

/// Keys and values. Cheap to share.
#[derive(Clone, Debug)]
pub struct Records {
    keys: Sizes,
    put: Sizes,
    loaded: Sizes,
    values: Values,
    counters: bool,
    seed: u64,
    /// What keys have before them in a store.
    prefix: Vec<u8>,
    /// The number of the keyspace, at its place in the number of a record.
    keyspace: u64,
}

/// The bits of a record's number that are the pair's.
const PAIR_BITS: u32 = PAIRS_MAX.ilog2();

/// Values under a seed, which the records of all keyspaces of a load share.
#[must_use]
pub fn values(seed: u64) -> Values {
    Values::new(VALUE_BYTES_MIN, seed)
}

impl Records {
    /// Keys and values of a model under a seed, in a store of one keyspace.
    #[must_use]
    pub fn new(model: &Model, seed: u64) -> Self {
        Self::with_values(model, &values(seed), seed)
    }

    /// As [`new`](Self::new), with values that are there.
    #[must_use]
    pub fn with_values(model: &Model, values: &Values, seed: u64) -> Self {
        Self {
            keys: model.keys.clone(),
            put: model.values.sizes.clone(),
            loaded: model.values.loaded.clone(),
            values: values.clone().compressible(model.values.compressible),
            counters: model.counts(),
            seed,
            prefix: Vec::new(),
            keyspace: 0,
        }
    }

    /// The same in a store that has several keyspaces in one, as the one with this number.
    #[must_use]
    pub fn of_keyspace(mut self, number: u32) -> Self {
        self.prefix = keyspaces::prefix(number).to_vec();
        self.keyspace = u64::from(number) << PAIR_BITS;
        self
    }

    /// What the keys of the keyspace have before them in a store.
    #[must_use]
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The number of a pair's record. No record of another keyspace has it.
    #[must_use]
    pub fn number(&self, pair: u64) -> u64 {
        self.keyspace | pair
    }

    /// The key of a pair.
    #[must_use]
    pub fn key(&self, pair: u64) -> Vec<u8> {
        let mut key = Vec::new();
        self.write_key(pair, &mut key);
        key
    }

    /// Replaces `key` by the key of a pair in a store.
    pub fn write_key(&self, pair: u64, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(&self.prefix);
        self.add_key(pair, key);
    }

    /// Replaces `key` by the key of a pair in its keyspace.
    pub fn write_key_in_keyspace(&self, pair: u64, key: &mut Vec<u8>) {
        key.clear();
        self.add_key(pair, key);
    }

    fn add_key(&self, pair: u64, key: &mut Vec<u8>) {
        let digit = |bits: u64| DIGITS[bits as usize % DIGITS.len()];
        for place in (0..NUMBER_BYTES as u32).rev() {
            key.push(digit(pair >> (place * DIGIT_BITS)));
        }
        let mixed = mix64(pair ^ self.seed ^ OF_KEYS);
        let bytes = self.keys.quantile(unit_from(mixed)) as usize;
        for place in 0..bytes.saturating_sub(NUMBER_BYTES) as u32 {
            key.push(digit(mixed >> (place % 12 * DIGIT_BITS)));
        }
    }

    /// The pair of a key. `None` if the bytes are no key of this model.
    #[must_use]
    pub fn pair_of(&self, key: &[u8]) -> Option<u64> {
        let mut pair = 0;
        let own = key.strip_prefix(&self.prefix[..])?;
        for byte in own.get(..NUMBER_BYTES)? {
            let digit = DIGITS.iter().position(|digit| digit == byte)?;
            pair = pair << DIGIT_BITS | digit as u64;
        }
        (self.key(pair) == key).then_some(pair)
    }

    /// The size of a value. Generation 0 is what was loaded.
    #[must_use]
    pub fn value_bytes(&self, pair: u64, generation: u64) -> u64 {
        let sizes = if generation == 0 {
            &self.loaded
        } else {
            &self.put
        };
        let mixed = mix64(mix64(pair ^ self.seed ^ OF_VALUES) ^ mix64(generation));
        sizes.quantile(unit_from(mixed))
    }

    /// Replaces `value` by that of a pair and a generation. Counters begin at zero in every
    /// generation.
    pub fn write_value(&self, pair: u64, generation: u64, value: &mut Vec<u8>) {
        if self.counters {
            value.clear();
            value.resize(COUNTER_BYTES as usize, 0);
            return;
        }
        let bytes = self.value_bytes(pair, generation) as usize;
        let number = self.number(pair);
        self.values.fill_sized(number, generation, bytes, value);
    }

    /// Whether `value` is one of this pair's. Returns its generation, if the value is long enough
    /// to hold it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(
        &self,
        pair: u64,
        value: &[u8],
        thoroughness: Thoroughness,
    ) -> Result<Option<u64>, String> {
        let wrong_size =
            |expected: u64| format!("the value has {} bytes instead of {expected}", value.len());
        if self.counters {
            let sound = value.len() as u64 == COUNTER_BYTES;
            return sound
                .then_some(None)
                .ok_or_else(|| wrong_size(COUNTER_BYTES));
        }
        let (known, number) = (value.len().min(8), self.number(pair));
        if value[..known] != number.to_le_bytes()[..known] {
            return Err("the value belongs to another pair".to_owned());
        }
        if value.len() < VALUE_BYTES_MIN {
            let bytes = value.len() as u64;
            let may_be = self.put.share(bytes) > 0.0 || self.loaded.share(bytes) > 0.0;
            return may_be
                .then_some(None)
                .ok_or_else(|| "no value has this size".to_owned());
        }
        let generation = generation_of(value);
        let expected = self.value_bytes(pair, generation);
        if value.len() as u64 != expected {
            return Err(wrong_size(expected));
        }
        let content = self.values.check_content(number, value, thoroughness);
        content
            .map(|()| Some(generation))
            .map_err(|fault| fault.to_string())
    }
}
