//! A set of keys as ranges that neither overlap nor touch: the keys that a batch or a transaction
//! deletes by range.
//!
//! Thread safety: plain data.

use std::collections::BTreeMap;
use std::ops::Bound;

/// The first key behind a range, if there is one.
type High = Option<Box<[u8]>>;

/// The set: see the module.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(crate) struct RangeSet(BTreeMap<Box<[u8]>, High>);

/// The change that an addition made.
#[derive(Debug)]
pub(crate) struct Added {
    /// The low end of the range that now has the added keys.
    low: Box<[u8]>,
    /// The ranges that became part of that range.
    joined: Vec<(Box<[u8]>, High)>,
}

fn ends_before(high: &High, key: &[u8]) -> bool {
    high.as_ref().is_some_and(|high| **high < *key)
}

impl RangeSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The last range that begins at or before `key`.
    fn up_to(&self, key: &[u8]) -> Option<(&[u8], &High)> {
        let up_to = (Bound::Unbounded, Bound::Included(key));
        let last = self.0.range::<[u8], _>(up_to).next_back();
        last.map(|(low, high)| (&**low, high))
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        let before = self.up_to(key);
        before.is_some_and(|(_, high)| high.as_ref().is_none_or(|high| *key < **high))
    }

    /// Adds the keys from `low` to below `high`; there must be at least one.
    pub(crate) fn add(&mut self, low: &[u8], high: Option<&[u8]>) -> Added {
        let mut end: High = high.map(Box::from);
        let before = self.up_to(low);
        let before = before.filter(|(_, own)| !ends_before(own, low));
        let first: Box<[u8]> = before.map_or(low, |(own, _)| own).into();
        let mut inside: Vec<Box<[u8]>> = Vec::new();
        for (own, own_high) in self
            .0
            .range::<[u8], _>((Bound::Included(&*first), Bound::Unbounded))
        {
            if ends_before(&end, own) {
                break;
            }
            end = later(end, own_high);
            inside.push(own.clone());
        }
        let joined = inside.iter().filter_map(|own| self.0.remove_entry(own));
        let joined = joined.collect();
        self.0.insert(first.clone(), end);
        Added { low: first, joined }
    }

    /// Undoes the last addition.
    pub(crate) fn take_back(&mut self, added: Added) {
        self.0.remove(&added.low);
        self.0.extend(added.joined);
    }

    /// All ranges, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.0.iter().map(|(low, high)| (&**low, high.as_deref()))
    }
}

/// The later of two ends.
fn later(a: High, b: &High) -> High {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b.clone())),
        _ => None,
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_the_set_of_the_keys_that_were_added(
            added in prop::collection::vec((0u8..40, prop::option::of(0u8..40)), 1..20),
        ) {
            let mut set = RangeSet::default();
            let mut keys = [false; 41];
            let mut steps = Vec::new();
            for (low, high) in added {
                if high.is_some_and(|high| high <= low) {
                    continue;
                }
                let before = set.clone();
                steps.push((before, set.add(&[low], high.as_ref().map(std::slice::from_ref))));
                let end = high.map_or(41, usize::from);
                keys[usize::from(low)..end].fill(true);
                for (key, expected) in keys.iter().enumerate() {
                    prop_assert_eq!(set.contains(&[key as u8]), *expected, "{} {:?}", key, set);
                }
                let ranges: Vec<_> = set.iter().collect();
                for pair in ranges.windows(2) {
                    prop_assert!(pair[0].1.is_some_and(|high| high < pair[1].0), "{:?}", set);
                }
            }
            while let Some((before, added)) = steps.pop() {
                set.take_back(added);
                prop_assert_eq!(&set, &before);
            }
        }
    }
}
