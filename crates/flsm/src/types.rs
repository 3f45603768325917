//! Ids that several rooms share.

/// A keyspace, never used again after it is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct KeyspaceId(pub(crate) u32);

/// The greatest id that is read from a file: so that there is a next one.
pub(crate) const KEYSPACE_MAX: u32 = 1 << 31;

/// The number in a file's name. One counter for tables, logs and manifests; never used again. A table's number is its
/// [`TableId`](evendb_storage::TableId).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct FileNumber(pub(crate) u64);

/// How new a table's data is among the tables of one guard, or of level 0: what is in a table of a greater age was written
/// later than what is in one of a lower age, key by key. A table that was merged of several has the greatest age of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Age(pub(crate) u64);

/// A level of the tree: 0 has no guards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Level(pub(crate) u8);

/// Levels that there may be, level 0 included, as in the paper's program.
pub(crate) const LEVELS: usize = 7;
