//! The public handles: thin, each call is checked and handed down.

pub(crate) mod batch;
pub(crate) mod changes;
pub(crate) mod db;
mod ends;
pub(crate) mod ingest;
pub(crate) mod keyspace;
mod keyspace_options;
pub(crate) mod property;
mod size;
pub(crate) mod snapshot;
pub(crate) mod traces;
pub(crate) mod transaction;
