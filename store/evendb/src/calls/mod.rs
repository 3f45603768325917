//! What a program calls, and the paths below the calls.

pub(crate) mod api;
pub(crate) mod changes;
pub(crate) mod ingest;
pub(crate) mod read;
pub(crate) mod transaction;
pub(crate) mod write;
