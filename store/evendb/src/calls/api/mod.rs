//! The public handles: thin, each call is checked and handed down.

pub(crate) mod changes;
pub(crate) mod db;
mod ends;
mod keyspaces;
mod parts;
mod size;
pub(crate) mod snapshot;
pub(crate) mod traces;
mod writes;
pub(crate) use writes::{batch, ingest, transaction};

pub(crate) use keyspaces::{keyspace, property};
