//! The stores' order and kinds, the same everywhere in a report and from report to report.

/// The store whose figures are compared with the others'.
pub const OWN: &str = "evendb";

/// Known stores in the order of columns. Others follow by name.
const KNOWN: [&str; 12] = [
    OWN,
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
    store != OWN
}

/// Sorts stores.
pub fn rank(store: &str) -> (usize, String) {
    let known = KNOWN.iter().position(|name| *name == store);
    (known.unwrap_or(KNOWN.len()), store.to_owned())
}
