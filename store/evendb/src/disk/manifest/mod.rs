//! The manifest: an append-only, checksummed record of the database's structure. A rebalance,
//! split, merge, keyspace change or checkpoint is one edit (one frame).
//!
//! ```text
//! CURRENT -> MANIFEST-n : [header][edit][edit]...[torn tail]
//!                          \__ must verify up to CURRENT's length, then to the first bad frame
//! ```
//!
//! [`edit`] is the codec, with `fields` below it; [`state`] the sum of the edits, [`writer`] the
//! file, [`current`] the file `CURRENT`. The order of edits is the order of
//! [`writer::Manifest::enqueue`]; an edit is durable with the next flush.

pub(crate) mod current;
pub(crate) mod edit;
pub(crate) mod epochs;
mod fields;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod golden;
pub(crate) mod state;
pub(crate) mod writer;

/// Identity of a keyspace, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct KeyspaceId(pub(crate) u32);

/// Identity of a chunk, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ChunkId(pub(crate) u64);
