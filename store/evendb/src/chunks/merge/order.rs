//! Which source of a merge has the least record: a heap that compares integers, and whole records
//! only where the integers are equal.
//!
//! ```text
//! current keys   app7/00012, app7/00080, app7/00081, app9/00000
//! prefix         app7/0                                   the least key begins with it
//! heads          "0012", "0080", "0081", greatest         the next bytes of each key
//! ```
//! Invariants: the prefix is one of a least key, so keys that do not begin with it come behind all
//! keys that do, now and later: sources only go on. So heads that differ are in the order of their
//! keys. When the least key has left the prefix, another one is chosen.
//!
//! Thread safety: belongs to one merge. Not here: the order of records itself
//! ([`visibility::comes_before`]).

use super::Source;
use crate::key_heads::{Head, common_prefix};
use crate::visibility;

/// The head of keys behind all keys with the prefix.
const BEHIND: u64 = u64::MAX;

/// The last bytes that all current keys share are left to the heads, so that keys close behind them
/// have the prefix, too.
const SHARED_IN_HEADS: usize = 3;

/// A source that is not at its end.
#[derive(Clone, Copy)]
struct Place {
    head: u64,
    source: usize,
}

/// See the module.
pub(super) struct Order {
    /// The first has the least record, and no source comes before its parent at (index - 1) / 2.
    heap: Vec<Place>,
    prefix: Vec<u8>,
}

impl Order {
    /// The order of the sources' current records. Sources are numbered newest first.
    pub(super) fn of(sources: &[Box<dyn Source + '_>]) -> Order {
        let at_records = (0..sources.len()).filter(|&at| sources[at].current().is_some());
        let mut order = Order {
            heap: at_records.map(|source| Place { head: 0, source }).collect(),
            prefix: Vec::new(),
        };
        for parent in (0..order.heap.len() / 2).rev() {
            order.sift_down(parent, sources);
        }
        order.choose_prefix(sources);
        order
    }

    /// The source with the least record; none once all are at their ends.
    #[inline]
    pub(super) fn least(&self) -> Option<usize> {
        self.heap.first().map(|place| place.source)
    }

    /// Finds the source with the least record, after the one that had it was advanced.
    pub(super) fn least_advanced(&mut self, sources: &[Box<dyn Source + '_>]) {
        let Some(first) = self.heap.first_mut() else {
            return;
        };
        match sources[first.source].current() {
            Some(entry) => first.head = head_of(&self.prefix, entry.key),
            None => {
                self.heap.swap_remove(0);
            }
        }
        self.sift_down(0, sources);
        // One source alone is compared with nothing.
        if self.heap.len() > 1 && self.heap[0].head == BEHIND {
            self.choose_prefix(sources);
        }
    }

    /// Takes a prefix of all current keys. Before it is outlived, each source has left the key that
    /// it is on now, so this costs each record little. The order stays as it is.
    fn choose_prefix(&mut self, sources: &[Box<dyn Source + '_>]) {
        let key_of = |place: &Place| sources[place.source].current().map(|entry| entry.key);
        let keys = || self.heap.iter().filter_map(key_of);
        let (Some(least), Some(greatest)) = (keys().next(), keys().max()) else {
            return;
        };
        let shared = common_prefix(least, greatest).saturating_sub(SHARED_IN_HEADS);
        self.prefix.clear();
        self.prefix.extend_from_slice(&least[..shared]);
        for place in &mut self.heap {
            if let Some(entry) = sources[place.source].current() {
                place.head = head_of(&self.prefix, entry.key);
            }
        }
    }

    /// Moves the source at `at` behind the sources that come before it.
    fn sift_down(&mut self, mut at: usize, sources: &[Box<dyn Source + '_>]) {
        loop {
            let left = 2 * at + 1;
            let Some(&place) = self.heap.get(left) else {
                return;
            };
            let right = self.heap.get(left + 1);
            let child = match right.is_some_and(|&right| before(right, place, sources)) {
                true => left + 1,
                false => left,
            };
            if !before(self.heap[child], self.heap[at], sources) {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }
}

#[inline]
fn head_of(prefix: &[u8], key: &[u8]) -> u64 {
    key.strip_prefix(prefix).map_or(BEHIND, u64::of)
}

/// Whether the record of source `a` comes before that of source `b`.
#[inline]
fn before(a: Place, b: Place, sources: &[Box<dyn Source + '_>]) -> bool {
    match a.head == b.head {
        true => comes_before(a.source, b.source, sources),
        false => a.head < b.head,
    }
}

#[inline(never)]
fn comes_before(a: usize, b: usize, sources: &[Box<dyn Source + '_>]) -> bool {
    let entry = |source: usize| {
        let entry = sources[source].current();
        entry.expect("sources at their end leave the heap")
    };
    visibility::comes_before((&entry(a), a), (&entry(b), b))
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::merge::count::Held;
    use evendb_storage::{EntryRef, Kind, Version};
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// Keys in order, each with one record; all records have one version.
    struct Keys(VecDeque<Vec<u8>>);

    impl Source for Keys {
        fn held(&self) -> Held {
            Held::UNKNOWN
        }

        fn current(&self) -> Option<EntryRef<'_>> {
            self.0.front().map(|key| EntryRef {
                key,
                version: Version(1),
                kind: Kind::Delete,
                value: &[],
            })
        }

        fn advance(&mut self) -> Result<()> {
            self.0.pop_front();
            Ok(())
        }
    }

    /// Keys with shared fronts, of bytes that heads could mistake: zeros, which stand for missing
    /// bytes, and the bytes of the greatest head.
    fn any_key() -> impl Strategy<Value = Vec<u8>> {
        let fronts = vec![&b""[..], b"a", b"prefix/", b"prefix/\xff\xff\xff\xff"];
        let front = prop::sample::select(fronts);
        let byte = prop::sample::select(vec![0, 1, b'a', 0xfe, 0xff]);
        let back = prop::collection::vec(byte, 0..12);
        (front, back).prop_map(|(front, back)| [front, &back].concat())
    }

    proptest! {
        /// The newest source comes first where several have a key.
        #[test]
        fn the_least_record_comes_first(
            all in prop::collection::vec(prop::collection::btree_set(any_key(), 0..20), 0..7),
        ) {
            let mut expected: Vec<(Vec<u8>, usize)> = Vec::new();
            let mut sources: Vec<Box<dyn Source>> = Vec::new();
            for (source, keys) in all.into_iter().enumerate() {
                expected.extend(keys.iter().map(|key| (key.clone(), source)));
                sources.push(Box::new(Keys(keys.into_iter().collect())));
            }
            expected.sort();
            let mut order = Order::of(&sources);
            for (key, source) in expected {
                prop_assert_eq!(order.least(), Some(source), "{:?}", &key);
                prop_assert_eq!(sources[source].current().map(|entry| entry.key), Some(&key[..]));
                sources[source].advance().expect("in RAM");
                order.least_advanced(&sources);
            }
            prop_assert_eq!(order.least(), None);
        }
    }
}
