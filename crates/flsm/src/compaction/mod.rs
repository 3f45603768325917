//! Compaction: what moves data down, and keeps the tables of a guard few.
//!
//! * `picker` - which job is next: pure.
//! * `sweep` - which jobs bring a whole range to the last level: pure, too.
//! * `plan` - which tables these are.
//! * `visibility` - which versions of a key somebody may still read.
//! * `rewrite` - records into new tables. `job` - does a job by it; `flush` - makes a table of level 0 of a memory table.
//! * `simulation` (tests) - write amplification of the picker's rules.

pub(crate) mod flush;
pub(crate) mod job;
pub(crate) mod picker;
pub(crate) mod plan;
pub(crate) mod rewrite;
#[cfg(test)]
mod simulation;
pub(crate) mod sweep;
#[cfg(test)]
mod tests;
pub(crate) mod visibility;
