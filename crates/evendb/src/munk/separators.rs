//! Separators: keys in order that cut a key range into parts, and the search for the part of a key.
//!
//! Separators are the shortest keys that lie between neighbouring parts. The prefix that all of
//! them share is cut off (keys of a chunk have most of their first bytes in common), and the next
//! eight bytes of each are kept as integers side by side: a search touches a few lines of them.
//! Only separators whose eight bytes are equal are compared in full, and those lie side by side
//! too, so no part is touched before the right one.
//!
//! Invariants: ascending; the first part has no lower bound, so its separator is empty.
//! Thread safety: immutable. Not here: what the parts are.

use crate::memory::allocated_bytes;

/// See the module.
#[derive(Clone)]
pub(super) struct Separators {
    /// `heads[i]` belongs to part `i + 1`: the first one has no lower bound.
    heads: Box<[u64]>,
    bytes: Box<[u8]>,
    /// Where the separator of part `i` ends; the first one is empty.
    ends: Box<[usize]>,
    prefix_len: usize,
}

/// Eight bytes as an integer that compares like them; zeros stand for what is missing.
#[inline]
fn head_of(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk::<8>() {
        return u64::from_le_bytes(*first).swap_bytes();
    }
    let mut head = 0;
    for (index, &byte) in bytes.iter().enumerate() {
        head |= u64::from(byte) << (56 - 8 * index);
    }
    head
}

fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    left.iter()
        .zip(right)
        .take_while(|(left, right)| left == right)
        .count()
}

/// The shortest key `> left` and `<= right`; `left < right`.
pub(super) fn shortest_separator<'a>(left: &[u8], right: &'a [u8]) -> &'a [u8] {
    debug_assert!(left < right);
    &right[..common_prefix(left, right) + 1]
}

impl Separators {
    /// How many parts there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The lower bound of part `index`; empty for the first one.
    #[inline]
    pub(super) fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    /// Where part `index` ends: the lower bound of the next one, if there is one.
    pub(super) fn upper(&self, index: usize) -> Option<&[u8]> {
        (index + 1 < self.len()).then(|| self.get(index + 1))
    }

    /// The part whose range holds `key`; 0 if there are none.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> usize {
        if self.heads.is_empty() {
            return 0;
        }
        let prefix = &self.bytes[..self.prefix_len];
        if !key.starts_with(prefix) {
            return if key < prefix { 0 } else { self.heads.len() };
        }
        let head = head_of(&key[self.prefix_len..]);
        let mut low = self.heads.partition_point(|&other| other < head);
        // Before `low` all separators are below the key; where heads are equal the rest decides.
        if self.heads.get(low) == Some(&head) {
            let mut high = low + self.heads[low..].partition_point(|&other| other <= head);
            while low < high {
                let middle = low + (high - low) / 2;
                if self.get(middle + 1) <= key {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
        }
        low
    }

    /// Memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        allocated_bytes(size_of_val(&*self.heads))
            + allocated_bytes(self.bytes.len())
            + allocated_bytes(size_of_val(&*self.ends))
    }
}

/// Collects separators in order.
#[derive(Default)]
pub(super) struct SeparatorsBuilder {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl SeparatorsBuilder {
    pub(super) fn with_capacity(parts: usize) -> SeparatorsBuilder {
        SeparatorsBuilder {
            bytes: Vec::new(),
            ends: Vec::with_capacity(parts),
        }
    }

    /// Appends a part whose keys are `>= separator`. The first takes whatever lies below it.
    pub(super) fn push(&mut self, separator: &[u8]) {
        if !self.ends.is_empty() {
            self.bytes.extend_from_slice(separator);
        }
        self.ends.push(self.bytes.len());
    }

    pub(super) fn finish(self) -> Separators {
        let mut separators = Separators {
            heads: Box::default(),
            bytes: self.bytes.into_boxed_slice(),
            ends: self.ends.into_boxed_slice(),
            prefix_len: 0,
        };
        let last = separators.len().saturating_sub(1);
        if last > 0 {
            // In order, so what the first and the last share all share.
            let prefix_len = common_prefix(separators.get(1), separators.get(last));
            separators.prefix_len = prefix_len;
            separators.heads = (1..=last)
                .map(|index| head_of(&separators.get(index)[prefix_len..]))
                .collect();
        }
        separators
    }
}
