//! What a database or keyspace is opened with.

mod filter;
pub(crate) mod merge;
pub(crate) mod options;
mod shared;
