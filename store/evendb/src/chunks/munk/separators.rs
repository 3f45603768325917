//! Separators: keys in order that cut a key range into parts, and the search for the part of a key.
//!
//! Separators are the shortest keys that lie between neighbouring parts. Their heads lie side by
//! side ([`crate::key_heads`]), and so do the separators themselves, so no part is touched before
//! the right one.
//!
//! Invariants: ascending; the first part has no lower bound, so its separator is empty.
//! Thread safety: immutable. Not here: what the parts are.

use crate::key_heads::{Head, common_prefix, count_before};
use crate::memory::allocated_bytes;

/// See the module.
#[derive(Clone)]
pub(super) struct Separators {
    /// `heads[i]` belongs to part `i + 1`: the first one has no lower bound.
    heads: Box<[u64]>,
    bytes: Box<[u8]>,
    /// The end of the separator of part `i`; the first separator is empty.
    ends: Box<[usize]>,
    prefix_len: usize,
}

/// The shortest key `> left` and `<= right`; `left < right`.
pub(super) fn shortest_separator<'a>(left: &[u8], right: &'a [u8]) -> &'a [u8] {
    debug_assert!(left < right);
    &right[..common_prefix(left, right) + 1]
}

impl Separators {
    /// The number of parts.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The lower bound of part `index`; empty for the first one.
    #[inline]
    pub(super) fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    /// The end of part `index`: the lower bound of the next part, if there is one.
    pub(super) fn upper(&self, index: usize) -> Option<&[u8]> {
        (index + 1 < self.len()).then(|| self.get(index + 1))
    }

    /// The part whose range holds `key`; 0 if there are none.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> usize {
        let prefix = &self.bytes[..self.prefix_len];
        count_before(prefix, &self.heads, key, |at| self.get(at + 1) <= key)
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

    /// Appends a part whose keys are `>= separator`. The first part also takes all keys below it.
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
            // They are in order, so a prefix that the first and the last share is shared by all.
            let prefix_len = common_prefix(separators.get(1), separators.get(last));
            separators.prefix_len = prefix_len;
            separators.heads = (1..=last)
                .map(|index| Head::of(&separators.get(index)[prefix_len..]))
                .collect();
        }
        separators
    }
}
