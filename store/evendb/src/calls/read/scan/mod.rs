//! Scans: the cursor that a program has, how its two ends are refilled from one chunk after the
//! other, the sources that a refill merges, what range deletions spare it, and the buffer between
//! refills and cursor.

pub(crate) mod buffer;
pub(crate) mod cursor;
#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod one_chunk;
mod range_deletions;
pub(crate) mod refill;
pub(crate) mod sources;
