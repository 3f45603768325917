//! Databases, keyspaces, and what reads and writes records.

pub(crate) mod batch;
mod cursor;
pub(crate) mod database;
pub(crate) mod keyspace;
pub(crate) mod reads;
mod signals;
pub(crate) mod snapshot;
pub(crate) mod transaction;
pub(crate) mod writes;

pub(crate) use signals::without_signals;
