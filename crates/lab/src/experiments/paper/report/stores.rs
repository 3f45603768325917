//! The stores' order and kinds, the same everywhere in a report and from report to report.

use crate::stores::evendb::HalfMemoryOpener;

/// The store whose figures are compared with the others'.
pub const OWN: &str = "evendb";

/// The same store with half the memory: compared with it, and no peer.
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
    ![OWN, HALF_MEMORY].contains(&store)
}

/// Sorts stores.
pub fn rank(store: &str) -> (usize, String) {
    let known = KNOWN.iter().position(|name| *name == store);
    (known.unwrap_or(KNOWN.len()), store.to_owned())
}
