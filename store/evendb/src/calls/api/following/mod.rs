//! What follows a database: the change feed, and readers beside its writer.

mod beside;
pub(crate) mod changes;
