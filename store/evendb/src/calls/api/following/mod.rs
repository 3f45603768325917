//! What follows a database: the change feed, watches of it, and readers beside its writer.

mod beside;
pub(crate) mod changes;
mod watch;
