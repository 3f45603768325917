//! The stores' order, kinds and looks, the same everywhere in a report and from report to report.
//!
//! A store that is known has its place in `KNOWN`, and by that its colour and marker; others come
//! after them in the order of their names.

use super::results::Cell;

/// The store whose figures are compared with the others'.
pub const OWN: &str = "evendb";

/// Known stores in the order of legends and tables, each with whether it is an LSM tree.
const KNOWN: [(&str, bool); 12] = [
    (OWN, false),
    ("rocksdb", true),
    ("rocksdb-tuned", true),
    ("rocksdb-universal", true),
    ("leveldb", true),
    ("pebblesdb", true),
    ("fjall", true),
    ("surrealkv", true),
    ("lmdb", false),
    ("redb", false),
    ("wiredtiger", false),
    ("bf-tree", false),
];

/// Looks there are: colours in the style sheet, used again from the start if there are more stores.
pub const LOOKS: usize = 16;

/// Whether it is one of the stores that EvenDB is compared with.
#[must_use]
pub fn is_peer(store: &str) -> bool {
    store != OWN
}

/// Whether it is an LSM tree.
#[must_use]
pub fn is_lsm(store: &str) -> bool {
    KNOWN.contains(&(store, true))
}

/// Whether it is RocksDB, with whatever settings.
#[must_use]
pub fn is_rocksdb(store: &str) -> bool {
    store.starts_with("rocksdb")
}

/// Sorts stores.
#[must_use]
pub fn rank(store: &str) -> (usize, String) {
    let known = KNOWN.iter().position(|(name, _)| *name == store);
    (known.unwrap_or(KNOWN.len()), store.to_owned())
}

/// The stores of these cells, in order.
#[must_use]
pub fn of<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Vec<&'a str> {
    let mut stores: Vec<&str> = cells
        .into_iter()
        .flat_map(|cell| cell.stores.iter().map(|one| one.store.as_str()))
        .collect();
    stores.sort_by_key(|store| rank(store));
    stores.dedup();
    stores
}

/// Which look each store has.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    all: Vec<String>,
    strangers: Vec<String>,
}

impl Looks {
    /// For these stores.
    #[must_use]
    pub fn new(stores: &[&str]) -> Looks {
        let strange = |store: &&&str| rank(store).0 == KNOWN.len();
        let mut strangers: Vec<String> = (stores.iter().filter(strange))
            .map(|store| (*store).to_owned())
            .collect();
        strangers.sort();
        strangers.dedup();
        let all = stores.iter().map(|store| (*store).to_owned()).collect();
        Looks { all, strangers }
    }

    /// Whether it is a store.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.all.iter().any(|store| store == name)
    }

    /// The look of a store, below [`LOOKS`].
    #[must_use]
    pub fn of(&self, store: &str) -> usize {
        let rank = rank(store).0;
        let stranger = self.strangers.iter().position(|name| name == store);
        (rank + stranger.unwrap_or(0)) % LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_looks_the_same_whoever_is_beside() {
        let few = Looks::new(&["evendb", "fjall"]);
        let many = Looks::new(&["x", "evendb", "lmdb", "fjall", "a"]);
        assert_eq!(few.of("fjall"), many.of("fjall"));
        let all: Vec<usize> = ["evendb", "lmdb", "fjall", "a", "x"]
            .map(|s| many.of(s))
            .into();
        let mut distinct = all.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), all.len(), "{all:?}");
        assert!(all.iter().all(|&look| look < LOOKS));
    }
}
