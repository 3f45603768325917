//! Allocator of extents in the container file of logs: which bytes are used, in memory only.
//!
//! ```text
//! 0                                                   end
//! | used |  hole  | used | used |     hole     | used |      beyond: the file must grow
//! ```
//!
//! Offsets and lengths are multiples of [`GRANULE`] bytes, a sector: a torn sector never holds
//! bytes of two logs. The manifest names the used extents; opening marks them with
//! [`Extents::mark_used`], and everything else is a hole.
//!
//! Policy: go on where the last allocation ended, or in the next hole that fits (a checkpoint
//! writes thousands of runs; neighbours make few, long writes). Otherwise take the smallest hole
//! that fits, lowest address first. Otherwise grow the end, which takes in a last hole.
//!
//! Invariants: holes are disjoint, not empty, never adjacent, and end at or before `end`;
//! `used + sum of holes = end`.
//!
//! Thread safety: none; its owner locks it, and holds the lock while it preallocates or cuts the
//! file (see "Locks" in ARCHITECTURE.md). This module touches no file: the owner grows, cuts,
//! preallocates and punches, and keeps the order of I13 (an extent is freed when the edit that
//! drops it is durable and no view names it).

use std::collections::{BTreeMap, BTreeSet};

/// Unit of allocation in bytes.
pub(crate) const GRANULE: u64 = 512;

/// An extent of at least [`PAGED_LEAST`] bytes begins at a page, if there is such room.
const PAGE: u64 = evendb_storage::table::PAGE_BYTES as u64;
const PAGED_LEAST: u64 = 32 << 10;

/// The number of holes behind the last allocation that are examined before the smallest that fits
/// is taken: this bounds the work under the lock.
const NEXT_FIT_HOLES: usize = 64;
/// The number of the smallest holes that are tried for a hole in which a page begins at the right
/// place.
const PAGED_HOLES: usize = 8;

/// A contiguous piece of the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Extent {
    /// First byte, a multiple of [`GRANULE`].
    pub(crate) offset: u64,
    /// Bytes, a multiple of [`GRANULE`].
    pub(crate) len: u64,
}

impl Extent {
    /// The first byte behind it.
    pub(crate) fn end(self) -> u64 {
        self.offset + self.len
    }
}

/// An extent that is in use already, is not aligned, or has no valid end: a bad manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlap(
    /// The extent refused.
    pub(crate) Extent,
);

/// The allocator; see the head of this file.
#[derive(Debug)]
pub(crate) struct Extents {
    /// Length by offset.
    holes: BTreeMap<u64, u64>,
    /// The same holes as (length, offset).
    by_len: BTreeSet<(u64, u64)>,
    end: u64,
    used: u64,
    /// The end of the last allocation.
    cursor: u64,
}

impl Extents {
    /// A container of `end` bytes (rounded up), all of them free.
    pub(crate) fn new(end: u64) -> Extents {
        let mut extents = Extents {
            holes: BTreeMap::new(),
            by_len: BTreeSet::new(),
            end: 0,
            used: 0,
            cursor: 0,
        };
        extents.reserve_end(end);
        extents
    }

    /// Takes an extent of at least `len` bytes; its length is rounded up. The end may grow.
    pub(crate) fn allocate(&mut self, len: u64) -> Extent {
        let len = round_up(len.max(1));
        let unit = match len {
            PAGED_LEAST.. => PAGE,
            _ => GRANULE,
        };
        let hole = self
            .next_fit(len, unit)
            .or_else(|| self.best_fit_at(len, unit))
            .or_else(|| self.best_fit(len));
        let offset = match hole {
            Some(offset) => offset,
            None => {
                let last = self.last_hole();
                let offset = last.map_or(self.end, |hole| hole.offset);
                let offset = offset.next_multiple_of(unit);
                self.reserve_end(offset + len - self.end);
                offset
            }
        };
        let extent = Extent { offset, len };
        self.take(extent);
        self.cursor = extent.end();
        extent
    }

    /// Gives an extent back, or an aligned part of one. Freeing free bytes is a programming error;
    /// without debug assertions the extent is left as it is, which loses room, not data.
    pub(crate) fn free(&mut self, extent: Extent) {
        let Some((offset, end)) = aligned(extent) else {
            debug_assert!(false, "not an extent of this allocator: {extent:?}");
            return;
        };
        let double = end > self.end || self.hole_in(offset, end);
        debug_assert!(!double, "freed what is not in use: {extent:?}");
        if !double {
            self.used -= end - offset;
            self.add_hole(offset, end - offset);
        }
    }

    /// Marks an extent that the manifest names as used. The end grows to include it.
    pub(crate) fn mark_used(&mut self, extent: Extent) -> Result<(), Overlap> {
        let (offset, end) = aligned(extent).ok_or(Overlap(extent))?;
        if end > self.end {
            // Only the part before the old end can be in use.
            let known = Extent {
                offset,
                len: self.end.saturating_sub(offset),
            };
            if known.len > 0 && !self.is_hole(known) {
                return Err(Overlap(extent));
            }
            self.reserve_end(end - self.end);
        }
        let extent_rounded = Extent {
            offset,
            len: end - offset,
        };
        if !self.is_hole(extent_rounded) {
            return Err(Overlap(extent));
        }
        self.take(extent_rounded);
        Ok(())
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Length that the file must have.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The holes, in order of address: room that may be punched.
    #[cfg(test)]
    pub(crate) fn holes(&self) -> impl Iterator<Item = Extent> + '_ {
        let holes = self.holes.iter();
        holes.map(|(&offset, &len)| Extent { offset, len })
    }

    /// Grows the container by `bytes` (rounded up) of free room, and returns the room. The owner
    /// has preallocated it, or does so before the next allocation.
    pub(crate) fn reserve_end(&mut self, bytes: u64) -> Extent {
        let (offset, len) = (self.end, round_up(bytes));
        self.end += len;
        if len > 0 {
            self.add_hole(offset, len);
        }
        Extent { offset, len }
    }

    /// Drops up to `bytes` (rounded down) of a hole at the end, if there is one, and returns the
    /// new end: the file may be cut there.
    pub(crate) fn trim_end(&mut self, bytes: u64) -> u64 {
        if let Some(hole) = self.last_hole() {
            let cut = (bytes / GRANULE * GRANULE).min(hole.len);
            self.remove_hole(hole.offset, hole.len);
            if cut < hole.len {
                self.insert_hole(hole.offset, hole.len - cut);
            }
            self.end -= cut;
            self.cursor = self.cursor.min(self.end);
        }
        self.end
    }

    /// Takes the largest hole that lies before the end, or its part between multiples of `unit`, of
    /// at least `least` bytes. If it has no such part, the next smaller hole that has one is taken.
    /// The owner then gives its blocks back. It counts as used until it is freed.
    pub(crate) fn take_largest(&mut self, unit: u64, least: u64, most: u64) -> Option<Extent> {
        // The hole at the end is cut, not punched.
        let last = self.last_hole().map(|hole| (hole.len, hole.offset));
        let least = least.max(1);
        let part = |&(len, offset): &(u64, u64)| {
            let low = offset.next_multiple_of(unit);
            let high = ((offset + len) / unit * unit).min(low + most / unit * unit);
            let len = high.saturating_sub(low);
            (len >= least).then_some(Extent { offset: low, len })
        };
        let holes = self.by_len.range((least, 0)..).rev();
        let extent = holes.filter(|hole| Some(**hole) != last).find_map(part)?;
        self.take(extent);
        Some(extent)
    }

    /// Takes the holes for which `keep` returns false.
    pub(crate) fn take_unless(&mut self, keep: &dyn Fn(Extent) -> bool) -> Vec<Extent> {
        let holes = self
            .holes
            .iter()
            .map(|(&offset, &len)| Extent { offset, len });
        let taken: Vec<Extent> = holes.filter(|hole| !keep(*hole)).collect();
        for hole in &taken {
            self.take(*hole);
        }
        taken
    }

    /// Whether an allocation of `len` bytes finds a hole, so that the end need not grow.
    pub(crate) fn fits(&self, len: u64) -> bool {
        self.best_fit(round_up(len.max(1))).is_some()
    }

    /// Within the hole at the cursor or one of the next few behind it, if one fits.
    fn next_fit(&self, len: u64, unit: u64) -> Option<u64> {
        let mut behind = self.holes.range(self.cursor..).take(NEXT_FIT_HOLES);
        behind.find_map(|(&offset, &hole)| fit_at(offset, hole, len, unit))
    }

    /// Within one of the smallest holes that fit, at a multiple of `unit`.
    fn best_fit_at(&self, len: u64, unit: u64) -> Option<u64> {
        let at = |&(hole, offset): &(u64, u64)| fit_at(offset, hole, len, unit);
        let smallest = self.by_len.range((len, 0)..).take(PAGED_HOLES);
        // In these holes it fits, wherever they begin.
        let surely = self.by_len.range((len + unit - GRANULE, 0)..).take(1);
        smallest.chain(surely).find_map(at)
    }

    fn best_fit(&self, len: u64) -> Option<u64> {
        self.by_len.range((len, 0)..).next().map(|hole| hole.1)
    }

    fn last_hole(&self) -> Option<Extent> {
        let (&offset, &len) = self.holes.last_key_value()?;
        (offset + len == self.end).then_some(Extent { offset, len })
    }

    /// Whether all of `extent` is free.
    fn is_hole(&self, extent: Extent) -> bool {
        let hole = self.holes.range(..=extent.offset).next_back();
        hole.is_some_and(|(offset, len)| offset + len >= extent.end())
    }

    /// Whether any byte from `offset` to `end` is free.
    fn hole_in(&self, offset: u64, end: u64) -> bool {
        let hole = self.holes.range(..end).next_back();
        hole.is_some_and(|(hole, len)| hole + len > offset)
    }

    /// Uses `extent`, which lies within one hole.
    fn take(&mut self, extent: Extent) {
        let hole = self.holes.range(..=extent.offset).next_back();
        let (&offset, &len) = hole.expect("an extent is taken out of a hole");
        assert!(extent.end() <= offset + len, "within the hole");
        self.remove_hole(offset, len);
        if offset < extent.offset {
            self.insert_hole(offset, extent.offset - offset);
        }
        if extent.end() < offset + len {
            self.insert_hole(extent.end(), offset + len - extent.end());
        }
        self.used += extent.len;
    }

    /// Adds a hole and joins it with its neighbours.
    fn add_hole(&mut self, mut offset: u64, mut len: u64) {
        if let Some((&before, &before_len)) = self.holes.range(..offset).next_back()
            && before + before_len == offset
        {
            self.remove_hole(before, before_len);
            (offset, len) = (before, before_len + len);
        }
        if let Some(&after_len) = self.holes.get(&(offset + len)) {
            self.remove_hole(offset + len, after_len);
            len += after_len;
        }
        self.insert_hole(offset, len);
    }

    fn insert_hole(&mut self, offset: u64, len: u64) {
        self.holes.insert(offset, len);
        self.by_len.insert((len, offset));
    }

    fn remove_hole(&mut self, offset: u64, len: u64) {
        self.holes.remove(&offset);
        self.by_len.remove(&(len, offset));
    }
}

fn round_up(bytes: u64) -> u64 {
    bytes.div_ceil(GRANULE) * GRANULE
}

/// First byte and end of an extent, its length rounded up; `None` if it is not valid.
fn aligned(extent: Extent) -> Option<(u64, u64)> {
    let len = extent.len.checked_next_multiple_of(GRANULE)?;
    let end = extent.offset.checked_add(len)?;
    (extent.offset.is_multiple_of(GRANULE) && len > 0).then_some((extent.offset, end))
}

/// The place for `len` bytes in a hole, at a multiple of `unit`.
fn fit_at(offset: u64, hole: u64, len: u64, unit: u64) -> Option<u64> {
    let at = offset.next_multiple_of(unit);
    (at + len <= offset + hole).then_some(at)
}

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One flag for each granule.
    #[derive(Default)]
    struct Bitmap(Vec<bool>);

    impl Bitmap {
        fn range(extent: Extent) -> std::ops::Range<usize> {
            (extent.offset / GRANULE) as usize..(extent.end() / GRANULE) as usize
        }

        fn set(&mut self, extent: Extent, used: bool) {
            let range = Bitmap::range(extent);
            self.0.resize(self.0.len().max(range.end), false);
            for granule in &mut self.0[range] {
                assert_ne!(*granule, used, "{extent:?}");
                *granule = used;
            }
        }

        fn holes(&self) -> Vec<Extent> {
            let mut holes: Vec<Extent> = Vec::new();
            for at in (0..self.0.len()).filter(|&at| !self.0[at]) {
                let offset = at as u64 * GRANULE;
                match holes.last_mut() {
                    Some(last) if last.end() == offset => last.len += GRANULE,
                    _ => holes.push(Extent {
                        offset,
                        len: GRANULE,
                    }),
                }
            }
            holes
        }

        fn check(&self, extents: &Extents) {
            assert_eq!(extents.end(), self.0.len() as u64 * GRANULE);
            assert!(extents.holes().eq(self.holes()));
            let by_len: BTreeSet<_> = extents.holes().map(|h| (h.len, h.offset)).collect();
            assert_eq!(by_len, extents.by_len);
            let used = self.0.iter().filter(|used| **used).count() as u64;
            assert_eq!(extents.used(), used * GRANULE);
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Allocate(u64),
        Free(prop::sample::Index),
        FreeTail(prop::sample::Index),
        Reserve(u64),
        Trim,
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => (0..20 * GRANULE).prop_map(Step::Allocate),
            2 => (PAGED_LEAST..PAGED_LEAST + 20 * GRANULE).prop_map(Step::Allocate),
            4 => any::<prop::sample::Index>().prop_map(Step::Free),
            1 => any::<prop::sample::Index>().prop_map(Step::FreeTail),
            1 => (0..30 * GRANULE).prop_map(Step::Reserve),
            1 => Just(Step::Trim),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_bitmap(start in 0..20 * GRANULE, steps in prop::collection::vec(any_step(), 1..150)) {
            let mut extents = Extents::new(start);
            let mut bitmap = Bitmap(vec![false; start.div_ceil(GRANULE) as usize]);
            let mut live: Vec<Extent> = Vec::new();
            for step in steps {
                match step {
                    Step::Allocate(len) => {
                        let fitting = bitmap.holes().iter().any(|hole| hole.len >= round_up(len.max(1)));
                        let end = extents.end();
                        let extent = extents.allocate(len);
                        prop_assert!(extent.len >= len && extent.len < len + GRANULE + 1);
                        prop_assert!(!fitting || extents.end() == end, "grew beside a hole that fits");
                        prop_assert!(fitting || extent.end() == extents.end());
                        // Holes behind the cursor are tried first, but any hole with one more page
                        // is found.
                        let roomy = |hole: &Extent| hole.len >= extent.len + PAGE;
                        let found = !fitting || bitmap.holes().iter().any(roomy);
                        if len >= PAGED_LEAST && found {
                            prop_assert!(extent.offset.is_multiple_of(PAGE));
                        }
                        bitmap.set(extent, true);
                        live.push(extent);
                    }
                    Step::Free(at) if !live.is_empty() => {
                        let extent = live.swap_remove(at.index(live.len()));
                        extents.free(extent);
                        bitmap.set(extent, false);
                    }
                    Step::FreeTail(at) if !live.is_empty() => {
                        let at = at.index(live.len());
                        let half = live[at].len / 2 / GRANULE * GRANULE;
                        if half > 0 {
                            let tail = Extent { offset: live[at].end() - half, len: half };
                            live[at].len -= half;
                            extents.free(tail);
                            bitmap.set(tail, false);
                        }
                    }
                    Step::Free(_) | Step::FreeTail(_) => {}
                    Step::Reserve(bytes) => {
                        let reserved = extents.reserve_end(bytes);
                        prop_assert!(reserved.len >= bytes);
                        prop_assert_eq!(reserved.end(), extents.end());
                        bitmap.0.resize((extents.end() / GRANULE) as usize, false);
                    }
                    Step::Trim => {
                        let used = bitmap.0.iter().rposition(|used| *used).map_or(0, |at| at + 1);
                        bitmap.0.truncate(used);
                        prop_assert_eq!(extents.trim_end(u64::MAX), used as u64 * GRANULE);
                    }
                }
                bitmap.check(&extents);
            }
            // The manifest's list rebuilds the same state.
            let mut rebuilt = Extents::new(0);
            for &extent in &live {
                prop_assert_eq!(rebuilt.mark_used(extent), Ok(()));
            }
            extents.trim_end(u64::MAX);
            prop_assert!(rebuilt.holes().eq(extents.holes()));
            prop_assert_eq!(rebuilt.end(), extents.end());
            for &extent in &live {
                prop_assert_eq!(rebuilt.mark_used(extent), Err(Overlap(extent)));
            }
        }

        #[test]
        fn bad_extents_are_refused(offset in any::<u64>(), len in any::<u64>()) {
            // Any answer is right, nothing panics, and a refusal changes nothing.
            let mut extents = Extents::new(64 * GRANULE);
            extents.mark_used(Extent { offset: 8 * GRANULE, len: 1 }).expect("free");
            let before = (extents.used(), extents.end());
            if extents.mark_used(Extent { offset, len }).is_err() {
                prop_assert_eq!((extents.used(), extents.end()), before);
            }
        }
    }

    #[test]
    fn extents_that_overlap_in_part_are_refused() {
        let mut extents = Extents::new(0);
        let extent = |from: u64, to: u64| Extent {
            offset: from * GRANULE,
            len: (to - from) * GRANULE,
        };
        extents.mark_used(extent(4, 8)).expect("free");
        for bad in [(3, 5), (7, 9), (0, 20), (5, 6), (4, 8)] {
            let bad = extent(bad.0, bad.1);
            assert_eq!(extents.mark_used(bad), Err(Overlap(bad)));
        }
        assert_eq!((extents.used(), extents.end()), (4 * GRANULE, 8 * GRANULE));
        let odd = Extent {
            offset: 100,
            len: GRANULE,
        };
        assert_eq!(extents.mark_used(odd), Err(Overlap(odd)));
        extents.mark_used(extent(8, 20)).expect("free");
        extents.mark_used(extent(0, 4)).expect("free");
        assert_eq!(extents.holes().count(), 0);
    }

    /// A full disk needs every block there is: a larger hole at a bad place does not hide a smaller
    /// one that has a whole block.
    #[test]
    fn every_whole_block_of_the_holes_is_found() {
        let extent = |from: u64, to: u64| Extent {
            offset: from * GRANULE,
            len: (to - from) * GRANULE,
        };
        let mut extents = Extents::new(64 * GRANULE);
        extents.mark_used(extent(0, 64)).expect("free");
        // Blocks of 8 granules: the longest hole has none, two others have one each.
        for hole in [
            extent(1, 15),
            extent(23, 33),
            extent(40, 48),
            extent(50, 55),
        ] {
            extents.free(hole);
        }
        let mut take = || extents.take_largest(8 * GRANULE, 8 * GRANULE, 64 * GRANULE);
        assert_eq!(take(), Some(extent(24, 32)));
        assert_eq!(take(), Some(extent(40, 48)));
        assert_eq!(take(), None);
    }

    #[test]
    fn allocations_in_a_row_are_contiguous() {
        let mut extents = Extents::new(0);
        let all: Vec<_> = (0..100).map(|_| extents.allocate(3 * GRANULE)).collect();
        // A small hole in front does not break the row while there is room behind it.
        extents.reserve_end(100 * GRANULE);
        extents.free(all[3]);
        let row: Vec<_> = (0..30).map(|_| extents.allocate(2 * GRANULE)).collect();
        assert!(row.windows(2).all(|pair| pair[0].end() == pair[1].offset));
        // Without room behind, the smallest hole that fits is taken.
        extents.allocate(40 * GRANULE);
        extents.free(Extent {
            offset: all[50].offset,
            len: all[50].len * 2,
        });
        assert_eq!(extents.allocate(3 * GRANULE), all[3]);
        let end = extents.end();
        assert_eq!(extents.allocate(6 * GRANULE).offset, all[50].offset);
        assert_eq!(extents.allocate(GRANULE).end(), end + GRANULE);
    }

    #[test]
    fn room_does_not_leak_into_fragments() {
        // Logs as chunks have them: 2,000 extents of 16 to 256 KiB, replaced one by one.
        let mut state = 1u64;
        let mut random = move |limit: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % limit
        };
        let mut extents = Extents::new(0);
        let mut live = Vec::new();
        for _ in 0..2000 {
            live.push(extents.allocate(16_384 + random(240 << 10)));
        }
        let mut used_max = extents.used();
        for _ in 0..40_000 {
            let at = random(live.len() as u64) as usize;
            extents.free(live.swap_remove(at));
            live.push(extents.allocate(16_384 + random(240 << 10)));
            used_max = used_max.max(extents.used());
        }
        assert!(
            extents.end() * 100 < used_max * 130,
            "{} of {used_max}",
            extents.end()
        );
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "freed what is not in use")]
    fn freeing_twice_is_a_programming_error() {
        let mut extents = Extents::new(0);
        let extent = extents.allocate(1);
        extents.allocate(1);
        extents.free(extent);
        extents.free(extent);
    }
}
