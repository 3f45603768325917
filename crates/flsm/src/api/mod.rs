//! The public handles.

pub(crate) mod batch;
pub(crate) mod db;
pub(crate) mod keyspace;
pub(crate) mod snapshot;
mod stats;
