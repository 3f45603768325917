//! What every room above may use.

pub(crate) mod admission;
pub(crate) mod figures;
pub(crate) mod files;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
pub(crate) mod golden_text;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod plant;
pub(crate) mod recording;
pub(crate) mod trace;
