//! What is done with a whole database or keyspace: loading, copies, figures, and ways out.

pub(crate) mod arrow;
pub(crate) mod copies;
pub(crate) mod figures;
pub(crate) mod ingest;
mod times;
pub(crate) mod typed_keys;
