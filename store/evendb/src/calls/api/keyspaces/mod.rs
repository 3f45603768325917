//! A keyspace, its ends, its size, its compaction, its name, its options and its
//! properties.

mod compaction;
mod ends;
pub(crate) mod keyspace;
pub(crate) mod keyspace_options;
pub(crate) mod lifecycle;
pub(crate) mod property;
mod renaming;
mod size;
