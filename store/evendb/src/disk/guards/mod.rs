//! Guards: a keyspace whose layout is PebblesDB's fragmented log-structured merge tree.
//!
//! ```text
//! active delta                       the memory table
//! runs of the chunk's log            level 0: they overlap
//! tree of guards                     levels 1 to 6, in place of the chunk's base
//! ```
//! Such a keyspace is one chunk, which is never split. Here is what decides where its tables lie,
//! and what is done with them next:
//! * `tree` - guards and their fragments, as one immutable value; chains of tables for readers.
//! * `picker` - which job is next.
//! * `plan` - which tables a job takes, and where its result goes; compaction on demand.
//!
//! At most one job runs in a keyspace at a time, under its chunk's token. Checkpoints may run
//! beside it. Nothing here does I/O. Not here: the manifest's bytes, reads, doing the jobs.

pub(crate) mod picker;
pub(crate) mod plan;
pub(crate) mod tree;
