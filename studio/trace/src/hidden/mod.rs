//! Traces with hidden keys, which can be published: each key becomes another one, everywhere the
//! same.
//!
//! | form | stays | is lost |
//! |---|---|---|
//! | [`HashedKeys`] | which keys are equal; rounded lengths | order, prefixes, ends |
//! | [`OrderedKeys`] | which keys are equal, their order, common prefixes and lengths | the bytes |
//!
//! "Ends" are the ends of ranges. Lengths are rounded up to a multiple of 16. In both forms, values
//! and their hashes are removed ([`hide_values`]), and keyspaces have numbers for names
//! ([`hide_names`]). Everything else stays: kinds, results, sizes, times, threads, groups. An empty
//! key stays empty: it is the place of the first of all keys, and belongs to nobody. Names of calls
//! without a key ([`Kind::Other`]) stay: they are the store's names.
//!
//! **Hashed** keys are 128 bits of SipHash-2-4 under a secret key, filled up with zeros. Without
//! the secret key nobody can try out keys. Two traces that are hidden by one secret key can be
//! compared.
//!
//! **Ordered** keys need no secret. All keys are gathered first, and sorted. Where keys part after
//! a common prefix, their next bytes become bytes that are evenly spaced, in the same order; all
//! other bytes become 0x80. So a hidden key is a function of what stays, and tells nothing more:
//! the lengths of keys, where they part, and in how many ways. That may be much: if a prefix goes
//! on with all 256 bytes, or all ten digits, their order says which they are. Keys that are counted
//! without gaps can be counted again. For such keys use hashes.
//!
//! Memory: for the ordered form, twice the bytes of all different keys, within a limit.

use crate::error::{Error, ErrorKind, Result};
use crate::frame::Header;
use crate::operation::{Kind, Operation, Outcome};
use std::collections::BTreeMap;
use std::hash::Hasher;

/// The length of a hashed key is a multiple of this number of bytes.
const HASHED_BYTES: usize = 16;

/// Whether the key of such an operation is a key of the application.
fn has_key(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::Other | Kind::Begin | Kind::Commit | Kind::Abort | Kind::BatchCommit
    )
}

/// Removes what an operation says of values, except their lengths.
pub fn hide_values(operation: &mut Operation) {
    operation.value = None;
    if let Outcome::Present { hash, .. } = &mut operation.outcome {
        *hash = None;
    }
}

/// The header of a trace with hidden keys.
#[must_use]
pub fn hide_names(header: &Header) -> Header {
    let numbered = |number: &u32| (*number, hidden_name(*number));
    Header {
        has_values: false,
        has_hashes: false,
        source: "hidden keys".to_owned(),
        keyspaces: header.keyspaces.keys().map(numbered).collect(),
        ..header.clone()
    }
}

/// The name of a keyspace in such a trace.
#[must_use]
pub fn hidden_name(number: u32) -> String {
    format!("keyspace-{number}")
}

/// Hides keys by a secret key. See the module.
pub struct HashedKeys {
    secret: [u64; 2],
}

impl HashedKeys {
    /// By this secret key.
    #[must_use]
    pub fn new(secret: [u64; 2]) -> HashedKeys {
        HashedKeys { secret }
    }

    /// Hides the key and the values of an operation. The end of its range is removed.
    pub fn hide(&self, operation: &mut Operation) {
        hide_values(operation);
        operation.end_key = None;
        if has_key(operation.kind) && !operation.key.is_empty() {
            operation.key = self.hidden(&operation.key);
        }
    }

    fn hidden(&self, key: &[u8]) -> Vec<u8> {
        let mut hidden = vec![0; key.len().next_multiple_of(HASHED_BYTES)];
        for half in [0, 1] {
            let hash = self.half(half as u8, key);
            hidden[8 * half..8 * half + 8].copy_from_slice(&hash.to_le_bytes());
        }
        hidden
    }

    fn half(&self, half: u8, key: &[u8]) -> u64 {
        #[expect(
            deprecated,
            reason = "the standard library's SipHash-2-4 with a key of one's own; only its name is out of favour"
        )]
        let mut hasher = std::hash::SipHasher::new_with_keys(self.secret[0], self.secret[1]);
        hasher.write(&[half]);
        hasher.write(key);
        hasher.finish()
    }
}

/// Distinct keys of a keyspace. Some of them may still be there twice.
#[derive(Default)]
struct Gathered {
    keys: Vec<Box<[u8]>>,
    bytes: usize,
    /// This number of them, from the beginning, are sorted and differ.
    distinct: usize,
}

/// The bytes that a key costs beside its own, twice: a pointer, a length, and the allocator's.
const KEY_OVERHEAD: usize = 32;

impl Gathered {
    fn add(&mut self, key: &[u8]) {
        self.keys.push(key.into());
        self.bytes += key.len() + KEY_OVERHEAD;
        // Seldom enough to be cheap, and often enough that at most half of the keys are repeated.
        if self.keys.len() >= 1024 + 2 * self.distinct {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.keys.sort();
        self.keys.dedup();
        self.distinct = self.keys.len();
        self.bytes = self.keys.iter().map(|key| key.len() + KEY_OVERHEAD).sum();
    }
}

/// Gathers all keys of a trace, for [`OrderedKeys`].
pub struct KeyGatherer {
    by_keyspace: BTreeMap<u32, Gathered>,
    bytes_max: usize,
    bytes: usize,
}

impl KeyGatherer {
    /// Takes at most this number of bytes of keys. [`OrderedKeys`] takes the same number once more.
    #[must_use]
    pub fn new(bytes_max: usize) -> KeyGatherer {
        KeyGatherer {
            by_keyspace: BTreeMap::new(),
            bytes_max,
            bytes: 0,
        }
    }

    /// Adds the keys of an operation.
    ///
    /// # Errors
    /// `TooLarge` if there is no room for more keys.
    pub fn add(&mut self, operation: &Operation) -> Result<()> {
        if !has_key(operation.kind) {
            return Ok(());
        }
        let gathered = self.by_keyspace.entry(operation.keyspace).or_default();
        let before = gathered.bytes;
        gathered.add(&operation.key);
        if let Some(end) = &operation.end_key {
            gathered.add(end);
        }
        self.bytes = self.bytes - before + gathered.bytes;
        if self.bytes <= self.bytes_max {
            return Ok(());
        }
        self.by_keyspace.values_mut().for_each(Gathered::settle);
        self.bytes = self.by_keyspace.values().map(|it| it.bytes).sum();
        // If the room were nearly used up, every further key would cost a pass over all.
        if self.bytes <= self.bytes_max - self.bytes_max / 8 {
            return Ok(());
        }
        let message = format!(
            "the keys of the trace take more than {} bytes; hide them by hashes, which need no memory",
            self.bytes_max
        );
        Err(Error::new(ErrorKind::TooLarge, message))
    }

    /// The hidden form of each key.
    #[must_use]
    pub fn finish(self) -> OrderedKeys {
        let of_keyspace = |(keyspace, mut gathered): (u32, Gathered)| {
            gathered.settle();
            let hidden = hidden_in_order(&gathered.keys);
            (keyspace, (gathered.keys, hidden))
        };
        OrderedKeys {
            by_keyspace: self.by_keyspace.into_iter().map(of_keyspace).collect(),
        }
    }
}

/// Keys in order, and the hidden form of each.
type Mapped = (Vec<Box<[u8]>>, Vec<Box<[u8]>>);

/// Hides keys, and keeps their order. See the module; made by [`KeyGatherer`].
pub struct OrderedKeys {
    by_keyspace: BTreeMap<u32, Mapped>,
}

impl OrderedKeys {
    /// Hides the keys and values of an operation.
    ///
    /// # Errors
    /// `Damaged` if it has a key that was not gathered: the trace has changed between the two
    /// passes.
    pub fn hide(&self, operation: &mut Operation) -> Result<()> {
        hide_values(operation);
        if !has_key(operation.kind) {
            operation.end_key = None;
            return Ok(());
        }
        let keyspace = operation.keyspace;
        self.replace(keyspace, &mut operation.key)?;
        match &mut operation.end_key {
            Some(end) => self.replace(keyspace, end),
            None => Ok(()),
        }
    }

    fn replace(&self, keyspace: u32, key: &mut Vec<u8>) -> Result<()> {
        let mapped = self.by_keyspace.get(&keyspace);
        let hidden = mapped.and_then(|(keys, hidden)| {
            let at = keys
                .binary_search_by(|other| (**other).cmp(&key[..]))
                .ok()?;
            hidden.get(at)
        });
        let message = "a key that was not there when the trace was read before: it has changed";
        let hidden = hidden.ok_or_else(|| Error::new(ErrorKind::Damaged, message))?;
        key.clear();
        key.extend_from_slice(hidden);
        Ok(())
    }
}

/// The hidden forms of keys that are sorted and differ. A byte stays in its place, so that lengths
/// and common prefixes stay.
fn hidden_in_order(keys: &[Box<[u8]>]) -> Vec<Box<[u8]>> {
    let blank = |len| vec![spaced(0, 1); len].into();
    let mut hidden: Vec<Box<[u8]>> = keys.iter().map(|key| blank(key.len())).collect();
    // Ranges of keys with the length of their common first bytes.
    let mut left = vec![(0..keys.len(), 0)];
    while let Some((range, known)) = left.pop() {
        let [first, .., last] = &keys[range.clone()] else {
            continue;
        };
        let rest = first[known..].iter().zip(&last[known..]);
        let at = known + rest.take_while(|(one, other)| one == other).count();
        // A key that ends where the others go on is the first of them, and has no byte there.
        let start = range.start + usize::from(first.len() == at);
        let parts = keys[start..range.end].chunk_by(|one, other| one[at] == other[at]);
        let count = parts.clone().count();
        let mut begin = start;
        for (number, part) in parts.enumerate() {
            let part = begin..begin + part.len();
            begin = part.end;
            for key in &mut hidden[part.clone()] {
                key[at] = spaced(number, count);
            }
            left.push((part, at + 1));
        }
    }
    hidden
}

/// One of `count` bytes, evenly spaced.
fn spaced(number: usize, count: usize) -> u8 {
    match count {
        256 => number as u8,
        _ => ((number + 1) * 256 / (count + 1)) as u8,
    }
}

#[cfg(test)]
mod tests;
