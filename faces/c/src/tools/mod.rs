//! Figures, bulk loads, backups, exports and traces.

mod backup;
mod export;
mod ingest;
mod stats;
pub(crate) mod summary;
mod trace;
