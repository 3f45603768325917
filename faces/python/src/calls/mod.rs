//! The classes: mappings, and what is made from them.

pub(crate) mod batch;
pub(crate) mod database;
pub(crate) mod keyspace;
pub(crate) mod reader;
pub(crate) mod records;
pub(crate) mod snapshot;
pub(crate) mod source;
pub(crate) mod transaction;
pub(crate) mod value;
pub(crate) mod writes;
