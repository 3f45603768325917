//! Batches, transactions and ingests.

mod added;
pub(crate) mod batch;
pub(crate) mod ingest;
pub(crate) mod transaction;
