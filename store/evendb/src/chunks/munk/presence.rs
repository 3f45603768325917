//! Which spans of a munk are present: one bit each, so that the end of a stretch of them is found
//! without touching the spans.
//!
//! ```text
//!   word 0: spans 0..64, the lowest bit first | word 1: spans 64..128 | ...
//! ```
//! Bits behind the last span are zero. Thread safety: immutable. Not here: the spans.

/// See the module.
#[derive(Clone)]
pub(super) struct Presence {
    words: Box<[u64]>,
    len: usize,
}

impl Presence {
    /// Made from the spans in order.
    pub(super) fn new(present: impl ExactSizeIterator<Item = bool>) -> Presence {
        let len = present.len();
        let mut words = vec![0; len.div_ceil(64)].into_boxed_slice();
        for (index, _) in present.enumerate().filter(|(_, present)| *present) {
            words[index / 64] |= 1 << (index % 64);
        }
        Presence { words, len }
    }

    /// Whether span `index` is present.
    #[inline]
    pub(super) fn get(&self, index: usize) -> bool {
        self.words[index / 64] >> (index % 64) & 1 != 0
    }

    /// A word with ones for the spans whose presence is not `present`.
    #[inline]
    fn others(&self, word: usize, present: bool) -> u64 {
        match present {
            true => !self.words[word],
            false => self.words[word],
        }
    }

    /// The first span after `index` whose presence differs from that of span `index`.
    pub(super) fn other_after(&self, index: usize) -> Option<usize> {
        let present = self.get(index);
        let mut word = index / 64;
        let mut others = self.others(word, present) & (u64::MAX << (index % 64));
        while others == 0 {
            word += 1;
            if word == self.words.len() {
                return None;
            }
            others = self.others(word, present);
        }
        let found = word * 64 + others.trailing_zeros() as usize;
        (found < self.len).then_some(found)
    }

    /// The last span before `index` whose presence differs from that of span `index`.
    pub(super) fn other_before(&self, index: usize) -> Option<usize> {
        let present = self.get(index);
        let mut word = index / 64;
        let mut others = self.others(word, present) & (u64::MAX >> (63 - index % 64));
        while others == 0 {
            word = word.checked_sub(1)?;
            others = self.others(word, present);
        }
        Some(word * 64 + 63 - others.leading_zeros() as usize)
    }

    /// Bytes of the words.
    pub(super) fn word_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }
}

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stretches_end_where_a_walk_says(
            stretches in prop::collection::vec((any::<bool>(), 1usize..90), 1..8),
        ) {
            let spans: Vec<bool> = stretches
                .iter()
                .flat_map(|&(present, len)| std::iter::repeat_n(present, len))
                .collect();
            let presence = Presence::new(spans.iter().copied());
            for (index, &present) in spans.iter().enumerate() {
                prop_assert_eq!(presence.get(index), present);
                let after = (index..spans.len()).find(|&other| spans[other] != present);
                prop_assert_eq!(presence.other_after(index), after);
                let before = (0..index).rev().find(|&other| spans[other] != present);
                prop_assert_eq!(presence.other_before(index), before);
            }
        }
    }
}
