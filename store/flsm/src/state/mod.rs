//! The state of an open database, and how it is opened.

pub(crate) mod cache;
pub(crate) mod clock;
pub(crate) mod engine;
pub(crate) mod full_disk;
pub(crate) mod keyspace;
pub(crate) mod opening;
pub(crate) mod scan_lengths;
pub(crate) mod visibility;
