//! Ids that several rooms share.

/// A keyspace. Its id is never used again after it is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct KeyspaceId(pub(crate) u32);

/// The greatest id that is read from a file. So there is always a next one.
pub(crate) const KEYSPACE_MAX: u32 = 1 << 31;

/// The number in a file's name. Tables, logs and manifests share one counter, and no number is used
/// again. A table's number is its [`TableId`](evendb_storage::TableId).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct FileNumber(pub(crate) u64);

/// How new a table's data is among the tables of one guard, or of level 0. For each key, the
/// records of a table with a greater age were written later than the records of a table with a
/// lower age. A merged table has the greatest age of its inputs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Age(pub(crate) u64);

/// A level of the tree. Level 0 has no guards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Level(pub(crate) u8);

/// The number of levels, level 0 included, as in the program of the paper.
pub(crate) const LEVELS: usize = 7;
