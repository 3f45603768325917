//! The public handles: thin, each call is checked and handed down.

pub(crate) mod asynchronous;
pub(crate) mod db;
mod following;
mod keyspaces;
mod parts;
pub(crate) mod snapshot;
pub(crate) mod traces;
mod writes;
pub(crate) use writes::{batch, ingest, transaction};

pub(crate) use keyspaces::{keyspace, property};
