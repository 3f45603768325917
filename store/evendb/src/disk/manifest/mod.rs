//! The manifest: an append-only, checksummed record of the database's structure. A rebalance,
//! split, merge, keyspace change or checkpoint is one edit (one frame).
//!
//! ```text
//! CURRENT -> MANIFEST-n : [header][edit][edit]...[torn tail]
//!                          \__ must verify up to CURRENT's length, then to the first bad frame
//! ```
//!
//! [`edit`] is the codec, with `fields` below it; [`state`] the sum of the edits, [`writer`] the
//! file, [`current`] the file `CURRENT`, [`beside`] a reader of all this beside the process that
//! writes. The order of edits is the order of
//! [`writer::Manifest::enqueue`]; an edit is durable with the next flush.

pub(crate) mod beside;
pub(crate) mod current;
pub(crate) mod edit;
pub(crate) mod epochs;
mod fields;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod golden;
pub(crate) mod state;
pub(crate) mod writer;

use crate::sync::Arc;

/// Identity of a keyspace, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct KeyspaceId(pub(crate) u32);

/// Identity of a chunk, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ChunkId(pub(crate) u64);

/// A level of a keyspace of guards: 0 is the log of its chunk, the others have guards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub(crate) struct Level(pub(crate) u8);

/// The number of levels, level 0 included, as in PebblesDB.
pub(crate) const LEVELS: usize = 7;

impl Level {
    /// The last level.
    pub(crate) const LAST: Level = Level(LEVELS as u8 - 1);
}

/// The place of a table in the order of its guard: a table with a greater age is newer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub(crate) struct Age(pub(crate) u64);

/// A key at which a guard begins, in `level` and in each deeper level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GuardKey {
    pub(crate) key: Arc<[u8]>,
    pub(crate) level: Level,
}

/// The guards of a chunk whose keyspace lies in guards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GuardSet {
    /// The secret of the hash that chooses guards.
    pub(crate) seed: u64,
    /// Sorted by key.
    pub(crate) keys: Vec<GuardKey>,
}
