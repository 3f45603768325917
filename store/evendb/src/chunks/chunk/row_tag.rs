//! The tag under which cached rows of a chunk are filed, in place of its keyspace.
//!
//! A row has no version, so a range deletion could not tell that it is hidden. Instead each range
//! deletion gives the chunks that it overlaps a tag that was never used: their rows are out of
//! reach at once, and are evicted in their turn. Parts of a chunk that is split keep its tag.
//! Chunks that are merged keep it if they have the same one.
//!
//! Invariant: two views have the same tag only if they are of one keyspace and no range deletion
//! came between them.
//!
//! Thread safety: an atomic counter. Tags run out after four thousand million range deletions in
//! one life of the database; the affected chunks then have no rows.

use crate::sync::atomic::{AtomicU32, Ordering};

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowTag(u32);

impl RowTag {
    /// The chunk has no rows.
    pub(crate) const NONE: RowTag = RowTag(u32::MAX);

    /// The number under which rows are filed, if the chunk may have rows.
    #[inline]
    pub(crate) fn number(self) -> Option<u32> {
        (self != RowTag::NONE).then_some(self.0)
    }
}

/// Gives tags out, each once.
#[derive(Default)]
pub(crate) struct RowTags(AtomicU32);

impl RowTags {
    pub(crate) fn fresh(&self) -> RowTag {
        // Relaxed: it matters only that the tags differ.
        let next = |last: u32| (last < u32::MAX).then_some(last.wrapping_add(1));
        let given = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        given.map_or(RowTag::NONE, RowTag)
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn each_tag_is_given_out_once_and_in_the_end_there_is_none() {
        let tags = RowTags(AtomicU32::new(u32::MAX - 2));
        let last = [tags.fresh(), tags.fresh()];
        assert!(last[0] != last[1] && last.iter().all(|tag| tag.number().is_some()));
        for _ in 0..3 {
            assert_eq!(tags.fresh(), RowTag::NONE);
        }
    }
}
