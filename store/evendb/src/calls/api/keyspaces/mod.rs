//! A keyspace, its options and its properties.

pub(crate) mod keyspace;
pub(crate) mod keyspace_options;
pub(crate) mod lifecycle;
pub(crate) mod property;
