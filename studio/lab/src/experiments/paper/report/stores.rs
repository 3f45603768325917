//! The stores' order and kinds, the same everywhere in a report and from report to report.

use crate::stores::evendb::HalfMemoryOpener;
use crate::stores::undone;

/// The store whose figures are compared with the others'.
pub const OWN: &str = "evendb";

/// The same store with half the memory. It is compared with `evendb` and is no peer.
pub const HALF_MEMORY: &str = HalfMemoryOpener::NAME;

/// Known stores in the order of columns. Others follow by name.
const KNOWN: [&str; 13] = [
    OWN,
    HALF_MEMORY,
    "rocksdb",
    "rocksdb-tuned",
    "rocksdb-universal",
    "leveldb",
    "pebblesdb",
    "fjall",
    "surrealkv",
    "lmdb",
    "redb",
    "wiredtiger",
    "bf-tree",
];

/// Whether it is one of the stores that EvenDB is compared with.
pub fn is_peer(store: &str) -> bool {
    ![OWN, HALF_MEMORY].contains(&store) && undone::words(store).is_none()
}

/// Sorts stores.
pub fn rank(store: &str) -> (usize, String) {
    let known = KNOWN.iter().copied().chain(undone::names());
    let place = known.clone().position(|name| name == store);
    (place.unwrap_or(known.count()), store.to_owned())
}
