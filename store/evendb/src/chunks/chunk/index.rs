//! The index of a keyspace: an immutable sorted list of (low key, chunk), copied in two levels.
//!
//! ```text
//! root   heads [8-byte heads of the leaves' low keys]   leaves [Arc, Arc, Arc, ...]
//!                                                          |
//! leaf   heads [8-byte heads of low keys]  keys [bytes, end to end]  chunks [Arc<C>, ...]
//! ```
//!
//! A lookup is a binary search over the root's heads and one over a leaf's heads: contiguous
//! words, few cache misses. A head is the eight bytes of a key after the prefix that the keys of
//! its array share (keys such as `user000123` differ late); whole keys are compared only where
//! heads tie. A change copies the root and the leaves it touches and shares all others, so it
//! costs microseconds at 50,000 chunks.
//!
//! Invariants: low keys ascend strictly; the first is empty, so every key has a chunk (I3); no leaf
//! is empty; no leaf has more than [`LEAF_ENTRIES_MAX`] entries.
//!
//! Thread safety: immutable. The owner publishes a changed index, and orders the changes (root
//! mutex).

use crate::sync::Arc;
use std::cmp::Ordering;

/// A leaf with more entries than this is cut. The number is near the square root of the 50,000
/// chunks that the index is made for, so that root and leaf cost about the same to copy.
const LEAF_ENTRIES_MAX: usize = 256;
/// A changed leaf with fewer entries than this is joined with a neighbour.
const LEAF_ENTRIES_MIN: usize = 64;
/// Entries of a leaf when it is made by cutting: room for growth.
const LEAF_ENTRIES_FILL: usize = 192;

/// The chunks of a keyspace by their low keys.
pub(crate) struct Index<C> {
    /// Low key of each leaf.
    keys: Keys,
    leaves: Box<[Arc<Leaf<C>>]>,
    len: usize,
    bytes: usize,
}

struct Leaf<C> {
    keys: Keys,
    chunks: Box<[Arc<C>]>,
}

/// The target of an index from `low` on, up to the next low key.
pub(crate) struct Entry<'a, C> {
    pub(crate) low: &'a [u8],
    pub(crate) what: &'a Arc<C>,
    pub(crate) high: Option<&'a [u8]>,
    place: EntryPlace,
}

/// The place of an entry: the leaf, and the index in the leaf.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryPlace {
    leaf: usize,
    entry: usize,
}

impl<C> Entry<'_, C> {
    pub(crate) fn place(&self) -> EntryPlace {
        self.place
    }
}

impl<C> Index<C> {
    /// An index of `entries`, whose low keys ascend strictly; the first low key is empty.
    pub(crate) fn new(entries: Vec<(Box<[u8]>, Arc<C>)>) -> Self {
        assert!(
            entries.first().is_some_and(|(low, _)| low.is_empty()),
            "the first low key is empty"
        );
        let entries = entries
            .iter()
            .map(|(low, chunk)| (&low[..], chunk))
            .collect::<Vec<_>>();
        Index::from_leaves(cut(&entries))
    }

    fn from_leaves(leaves: Vec<Arc<Leaf<C>>>) -> Self {
        let lows = leaves.iter().map(|leaf| leaf.keys.get(0));
        let keys = Keys::new(lows.collect::<Vec<_>>());
        let own = std::mem::size_of::<Self>() + keys.bytes() + std::mem::size_of_val(&leaves[..]);
        Index {
            keys,
            len: leaves.iter().map(|leaf| leaf.chunks.len()).sum(),
            bytes: own + leaves.iter().map(|leaf| leaf.bytes()).sum::<usize>(),
            leaves: leaves.into(),
        }
    }

    /// The chunk that has `key`: the one with the greatest low key at or below it.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> &Arc<C> {
        self.at(self.place(key)).1
    }

    /// The chunk with the greatest low key below `key`, where a scan goes on backwards.
    pub(crate) fn find_below(&self, key: &[u8]) -> Option<&Arc<C>> {
        self.previous(key).map(|(_, chunk)| chunk)
    }

    /// The chunk with the greatest low key.
    pub(crate) fn last(&self) -> &Arc<C> {
        let leaf = &self.leaves[self.leaves.len() - 1];
        &leaf.chunks[leaf.chunks.len() - 1]
    }

    /// The chunk with the least low key above `low`, and that key.
    pub(crate) fn next(&self, low: &[u8]) -> Option<(&[u8], &Arc<C>)> {
        let EntryPlace { leaf, entry } = self.place(low);
        if entry + 1 < self.leaves[leaf].chunks.len() {
            return Some(self.leaves[leaf].at(entry + 1));
        }
        self.leaves.get(leaf + 1).map(|leaf| leaf.at(0))
    }

    /// The chunk with the greatest low key below `low`, and that key.
    pub(crate) fn previous(&self, low: &[u8]) -> Option<(&[u8], &Arc<C>)> {
        let place = self.place(low);
        if self.at(place).0 < low {
            return Some(self.at(place));
        }
        if place.entry > 0 {
            return Some(self.leaves[place.leaf].at(place.entry - 1));
        }
        let leaf = &self.leaves[place.leaf.checked_sub(1)?];
        Some(leaf.at(leaf.chunks.len() - 1))
    }

    /// The entry that has `key`.
    pub(crate) fn entry(&self, key: &[u8]) -> Entry<'_, C> {
        self.entry_at(self.place(key))
    }

    /// The entry with the greatest low key below `key`, the last one for `None`.
    pub(crate) fn entry_below(&self, key: Option<&[u8]>) -> Option<Entry<'_, C>> {
        let low = match key {
            Some(key) => self.previous(key)?.0,
            None => self.leaves[self.leaves.len() - 1].keys.last(),
        };
        Some(self.entry(low))
    }

    /// The first entry.
    pub(crate) fn first_entry(&self) -> Entry<'_, C> {
        self.entry_at(EntryPlace { leaf: 0, entry: 0 })
    }

    /// The entry that follows `after`. It is found without a search.
    pub(crate) fn entry_behind(&self, after: &Entry<'_, C>) -> Option<Entry<'_, C>> {
        self.entry_behind_place(after.place)
    }

    /// The entry that follows the one at `place`, which is one of this index.
    #[inline]
    pub(crate) fn entry_behind_place(&self, place: EntryPlace) -> Option<Entry<'_, C>> {
        let EntryPlace { leaf, entry } = place;
        if entry + 1 < self.leaves[leaf].chunks.len() {
            let entry = entry + 1;
            return Some(self.entry_at(EntryPlace { leaf, entry }));
        }
        let next = EntryPlace {
            leaf: leaf + 1,
            entry: 0,
        };
        (next.leaf < self.leaves.len()).then(|| self.entry_at(next))
    }

    /// The entries with keys from `low` to below `high`, in order.
    pub(crate) fn overlapping<'i>(
        &'i self,
        low: &'i [u8],
        high: Option<&'i [u8]>,
    ) -> impl Iterator<Item = &'i Arc<C>> {
        let mut next = Some(self.entry(low));
        std::iter::from_fn(move || {
            let entry = next.take()?;
            let behind = self.entry_behind(&entry);
            next = behind.filter(|entry| high.is_none_or(|high| *entry.low < *high));
            Some(entry.what)
        })
    }

    fn entry_at(&self, place: EntryPlace) -> Entry<'_, C> {
        let (low, what) = self.at(place);
        let leaf = &self.leaves[place.leaf];
        let high = match place.entry + 1 < leaf.chunks.len() {
            true => Some(leaf.keys.get(place.entry + 1)),
            false => self.leaves.get(place.leaf + 1).map(|leaf| leaf.keys.get(0)),
        };
        Entry {
            low,
            what,
            high,
            place,
        }
    }

    /// This index with the chunks whose low keys are `old` (adjacent, ascending) replaced by `new`,
    /// which cover the same span. All untouched leaves are shared.
    pub(crate) fn replace(&self, old: &[&[u8]], new: Vec<(Box<[u8]>, Arc<C>)>) -> Index<C> {
        let (first, last) = match old {
            [] => panic!("nothing to replace"),
            [first, ..] => (self.place(first), self.place(old[old.len() - 1])),
        };
        assert!(
            new.first().is_some_and(|(low, _)| &low[..] == old[0]),
            "the span stays"
        );
        // The leaves to rewrite, and a neighbour if they would be left with too few entries.
        let (mut from, mut to) = (first.leaf, last.leaf + 1);
        let touched = self.leaves[from..to].iter().map(|leaf| leaf.chunks.len());
        if touched.sum::<usize>() - old.len().min(self.len) + new.len() < LEAF_ENTRIES_MIN {
            if from > 0 {
                from -= 1;
            } else if to < self.leaves.len() {
                to += 1;
            }
        }
        let mut entries: Vec<(&[u8], &Arc<C>)> = Vec::new();
        let mut replaced = 0;
        for (low, chunk) in self.leaves[from..to].iter().flat_map(|leaf| leaf.iter()) {
            if replaced < old.len() && low == old[replaced] {
                if replaced == 0 {
                    entries.extend(new.iter().map(|(low, chunk)| (&low[..], chunk)));
                }
                replaced += 1;
            } else {
                let inside = replaced > 0 && replaced < old.len();
                assert!(!inside, "replaced chunks are adjacent");
                entries.push((low, chunk));
            }
        }
        assert!(replaced == old.len(), "replaced chunks are in the index");
        let mut leaves = self.leaves[..from].to_vec();
        leaves.extend(cut(&entries));
        leaves.extend_from_slice(&self.leaves[to..]);
        Index::from_leaves(leaves)
    }

    /// The number of chunks.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All chunks in order of their low keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Arc<C>)> {
        self.leaves.iter().flat_map(|leaf| leaf.iter())
    }

    /// Memory of the index, without the chunks; leaves shared with another index count in both.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    fn place(&self, key: &[u8]) -> EntryPlace {
        let leaf = self.keys.find(key);
        // The key is at or above the leaf's low key, so its place in the leaf exists.
        let entry = self.leaves[leaf].keys.find(key);
        EntryPlace { leaf, entry }
    }

    fn at(&self, place: EntryPlace) -> (&[u8], &Arc<C>) {
        self.leaves[place.leaf].at(place.entry)
    }
}

impl<C> std::fmt::Debug for Index<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("len", &self.len).finish()
    }
}

impl<C> Leaf<C> {
    fn new(entries: &[(&[u8], &Arc<C>)]) -> Self {
        Leaf {
            keys: Keys::new(entries.iter().map(|(low, _)| *low).collect()),
            chunks: entries.iter().map(|(_, chunk)| Arc::clone(chunk)).collect(),
        }
    }

    fn at(&self, entry: usize) -> (&[u8], &Arc<C>) {
        (self.keys.get(entry), &self.chunks[entry])
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], &Arc<C>)> {
        (0..self.chunks.len()).map(|entry| self.at(entry))
    }

    fn bytes(&self) -> usize {
        let arc_counts = 2 * std::mem::size_of::<usize>();
        std::mem::size_of::<Self>()
            + arc_counts
            + self.keys.bytes()
            + std::mem::size_of_val(&self.chunks[..])
    }
}

/// Entries as leaves of even size: one leaf if they fit, otherwise enough leaves to leave room for
/// growth.
fn cut<C>(entries: &[(&[u8], &Arc<C>)]) -> Vec<Arc<Leaf<C>>> {
    let pieces = if entries.len() <= LEAF_ENTRIES_MAX {
        1
    } else {
        entries.len().div_ceil(LEAF_ENTRIES_FILL)
    };
    (0..pieces)
        .map(|piece| {
            let from = entries.len() * piece / pieces;
            let to = entries.len() * (piece + 1) / pieces;
            Arc::new(Leaf::new(&entries[from..to]))
        })
        .collect()
}

/// Sorted keys, end to end in one piece of memory, and the heads of all except the first: a search
/// here knows already that the key is not below the first one.
struct Keys {
    /// The number of leading bytes that all keys except the first share; heads start behind them.
    /// The first is left out because it is the empty key in the first leaf and in the root.
    shared: usize,
    /// `heads[i]` belongs to key `i + 1`.
    heads: Box<[u64]>,
    /// `ends[i]` is where key `i` ends in `text`.
    ends: Box<[u32]>,
    text: Box<[u8]>,
}

impl Keys {
    fn new(keys: Vec<&[u8]>) -> Self {
        assert!(
            keys.windows(2).all(|pair| pair[0] < pair[1]),
            "low keys ascend strictly"
        );
        let shared = match &keys[1..] {
            [] => 0,
            [first, .., last] => {
                let pairs = first.iter().zip(last.iter());
                pairs.take_while(|(a, b)| a == b).count()
            }
            // Sharing all of a single key is of no use: its last eight bytes stay as its head.
            [only] => only.len().saturating_sub(8),
        };
        let mut text = Vec::with_capacity(keys.iter().map(|key| key.len()).sum());
        let mut ends = Vec::with_capacity(keys.len());
        for key in &keys {
            text.extend_from_slice(key);
            // This holds 65,536 keys of the greatest length: more leaves than a keyspace can have.
            ends.push(u32::try_from(text.len()).expect("low keys of one node fit 4 GiB"));
        }
        Keys {
            shared,
            heads: keys[1..].iter().map(|key| head(&key[shared..])).collect(),
            ends: ends.into(),
            text: text.into(),
        }
    }

    #[inline]
    fn get(&self, at: usize) -> &[u8] {
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[from as usize..self.ends[at] as usize]
    }

    fn last(&self) -> &[u8] {
        self.get(self.ends.len() - 1)
    }

    /// The index of the greatest key at or below `key`; the first key is assumed to be.
    #[inline]
    fn find(&self, key: &[u8]) -> usize {
        if self.heads.is_empty() {
            return 0;
        }
        let tail = if self.shared == 0 {
            key
        } else {
            let prefix = &self.get(1)[..self.shared];
            match key[..self.shared.min(key.len())].cmp(prefix) {
                Ordering::Less => return 0,
                Ordering::Greater => return self.heads.len(),
                Ordering::Equal => &key[self.shared..],
            }
        };
        let head = head(tail);
        let start = self.heads.partition_point(|&other| other < head);
        if self.heads.get(start) != Some(&head) {
            return start;
        }
        self.find_among_ties(start, head, key)
    }

    /// [`Keys::find`] among the keys with equal heads, from `start` on.
    fn find_among_ties(&self, start: usize, head: u64, key: &[u8]) -> usize {
        let ties = self.heads[start..].partition_point(|&other| other <= head);
        let (mut low, mut high) = (start, start + ties);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle + 1) <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn bytes(&self) -> usize {
        std::mem::size_of_val(&self.heads[..])
            + std::mem::size_of_val(&self.ends[..])
            + self.text.len()
    }
}

/// The first eight bytes, followed by zeros for a shorter key, as a number in the same order: a
/// lower head means a lower key; equal heads decide nothing.
#[inline]
pub(super) fn head(key: &[u8]) -> u64 {
    let bytes = match key.first_chunk::<8>() {
        Some(bytes) => *bytes,
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            bytes
        }
    };
    u64::from_le_bytes(bytes).swap_bytes()
}

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Model = BTreeMap<Vec<u8>, Arc<u32>>;

    fn index_of(model: &Model) -> Index<u32> {
        let entries = model.iter();
        Index::new(
            entries
                .map(|(low, chunk)| (low.clone().into(), Arc::clone(chunk)))
                .collect(),
        )
    }

    fn check(index: &Index<u32>, model: &Model, probes: &[Vec<u8>]) {
        assert_eq!(index.len(), model.len());
        assert!(
            index
                .iter()
                .eq(model.iter().map(|(low, chunk)| (&low[..], chunk)))
        );
        assert_eq!(Some(index.last()), model.values().last());
        for leaf in &index.leaves {
            assert!((1..=LEAF_ENTRIES_MAX).contains(&leaf.chunks.len()));
        }
        for key in probes.iter().chain(model.keys()) {
            let after = (
                std::ops::Bound::Excluded(key.clone()),
                std::ops::Bound::Unbounded,
            );
            let next = model.range(after).next().map(|(k, c)| (&k[..], c));
            let previous = model.range(..key.clone()).next_back();
            let found = model.range(..=key.clone()).next_back().expect("covered").1;
            assert_eq!(index.find(key), found, "{key:?}");
            assert_eq!(index.next(key), next, "{key:?}");
            assert_eq!(index.next(key).map(|(k, _)| k), next.map(|(k, _)| k));
            assert_eq!(index.previous(key), previous.map(|(k, c)| (&k[..], c)));
            assert_eq!(index.find_below(key), previous.map(|(_, c)| c));
        }
    }

    /// Keys that share prefixes, are prefixes of each other, and differ in zeros at the end.
    fn any_key() -> impl Strategy<Value = Vec<u8>> {
        let tail = prop::collection::vec(prop::sample::select(vec![0, 1, b'a', 255]), 0..12);
        let prefix = prop::sample::select(vec!["", "user", "user/00000000", "zzz"]);
        (prefix, tail).prop_map(|(prefix, tail)| [prefix.as_bytes(), &tail].concat())
    }

    proptest! {
        #[test]
        fn lookups_agree_with_a_map(
            lows in prop::collection::btree_set(any_key(), 0..700),
            probes in prop::collection::vec(any_key(), 50),
        ) {
            let mut model: Model = lows.into_iter().zip(1..).map(|(k, c)| (k, Arc::new(c))).collect();
            model.entry(Vec::new()).or_insert_with(|| Arc::new(0));
            check(&index_of(&model), &model, &probes);
        }

        #[test]
        fn replacements_agree_with_a_map(
            lows in prop::collection::btree_set(any_key(), 300..600),
            changes in prop::collection::vec((any::<prop::sample::Index>(), 1usize..80, prop::collection::vec(any_key(), 0..40)), 1..12),
        ) {
            let mut model: Model = lows.into_iter().zip(1..).map(|(k, c)| (k, Arc::new(c))).collect();
            model.entry(Vec::new()).or_insert_with(|| Arc::new(0));
            let mut index = index_of(&model);
            for (at, count, inside) in changes {
                let keys: Vec<_> = model.keys().cloned().collect();
                let from = at.index(keys.len());
                let old = &keys[from..(from + count).min(keys.len())];
                let limit = keys.get(from + old.len());
                let mut new: Model = inside.into_iter()
                    .filter(|key| *key > old[0] && limit.is_none_or(|limit| key < limit))
                    .map(|key| (key, Arc::new(7)))
                    .collect();
                new.insert(old[0].clone(), Arc::new(8));
                let before = index.iter().map(|(low, _)| low.to_vec()).collect::<Vec<_>>();
                let old_lows: Vec<_> = old.iter().map(|low| &low[..]).collect();
                let entries = new.iter().map(|(low, chunk)| (low.clone().into(), Arc::clone(chunk)));
                let changed = index.replace(&old_lows, entries.collect());
                prop_assert!(index.iter().map(|(low, _)| low.to_vec()).eq(before), "the old index changed");
                for low in old { model.remove(low); }
                model.extend(new);
                index = changed;
                check(&index, &model, &[]);
            }
        }
    }

    #[test]
    fn a_change_shares_the_other_leaves() {
        let entries = (0..2000u32).map(|at| {
            let low = if at == 0 {
                String::new()
            } else {
                format!("{at:08}")
            };
            (low.into_bytes().into(), Arc::new(at))
        });
        let index = Index::new(entries.collect());
        let half = |low: &str| (low.as_bytes().into(), Arc::new(0));
        let changed = index.replace(&[b"00001000"], vec![half("00001000"), half("00001000+")]);
        assert_eq!(changed.len(), 2001);
        let pairs = index.leaves.iter().zip(&changed.leaves);
        assert_eq!(pairs.filter(|(a, b)| !Arc::ptr_eq(a, b)).count(), 1);
        assert!(changed.bytes() > index.bytes());
    }

    #[test]
    #[should_panic(expected = "adjacent")]
    fn chunks_apart_are_not_replaced_together() {
        let entry = |low: &str| (low.as_bytes().into(), Arc::new(0));
        let index = Index::new(vec![entry(""), entry("b"), entry("c")]);
        index.replace(&[b"", b"c"], vec![entry("")]);
    }

    #[test]
    fn leaves_do_not_stay_nearly_empty() {
        let entry = |at: u32| (format!("{at:04}").into_bytes().into(), Arc::new(at));
        let mut entries: Vec<_> = (0..1024).map(entry).collect();
        entries[0].0 = Box::default();
        let mut index = Index::new(entries);
        for at in 0..1023u32 {
            // Merge the first chunk with its right neighbour, again and again.
            let right = format!("{:04}", at + 1);
            index = index.replace(
                &[b"", right.as_bytes()],
                vec![(Box::default(), Arc::new(0))],
            );
            assert!(index.leaves.len() <= 1 + index.len() / (LEAF_ENTRIES_MIN / 2));
        }
        assert_eq!(index.len(), 1);
    }
}
