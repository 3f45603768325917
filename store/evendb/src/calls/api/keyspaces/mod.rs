//! A keyspace, its compaction, its options and its properties.

mod compaction;
pub(crate) mod keyspace;
pub(crate) mod keyspace_options;
pub(crate) mod lifecycle;
pub(crate) mod property;
mod renaming;
