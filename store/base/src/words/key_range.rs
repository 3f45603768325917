//! Ranges of keys as the engine scans them: a least key, and an exclusive upper limit or none.
//!
//! Pure functions over bytes in their order. Not here: the columns of a typed key (`evendb-keys`).

use evendb_storage::codec::successor;
use std::ops::{Bound, RangeBounds};

/// A range as its least key and its exclusive upper limit.
pub fn limits<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> (Vec<u8>, Option<Vec<u8>>) {
    let low = match range.start_bound() {
        Bound::Included(key) => key.as_ref().to_vec(),
        Bound::Excluded(key) => successor(key.as_ref()),
        Bound::Unbounded => Vec::new(),
    };
    let high = match range.end_bound() {
        Bound::Included(key) => Some(successor(key.as_ref())),
        Bound::Excluded(key) => Some(key.as_ref().to_vec()),
        Bound::Unbounded => None,
    };
    (low, high)
}
