//! Batches, transactions and ingests.

pub(crate) mod batch;
pub(crate) mod ingest;
pub(crate) mod transaction;
