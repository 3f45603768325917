//! The public handles.

pub(crate) mod batch;
pub(crate) mod compaction;
pub(crate) mod db;
pub(crate) mod keyspace;
pub(crate) mod snapshot;
pub(crate) mod stats;
mod stats_text;
#[cfg(all(test, not(evendb_loom)))]
mod tests;
