//! Databases, keyspaces, and what reads and writes records.

pub(crate) mod batch;
mod cursor;
pub(crate) mod database;
pub(crate) mod keyspace;
pub(crate) mod reads;
pub(crate) mod snapshot;
pub(crate) mod transaction;
pub(crate) mod writes;
