//! Compaction: moves data down, and keeps the tables of a guard few.
//!
//! * `picker` - which job is next. It is pure.
//! * `sweep` - which jobs bring a whole range to the last level. It is pure, too.
//! * `plan` - which tables a job takes.
//! * `rewrite` - writes records into new tables. `job` uses it to do a job, and `flush` to make
//!   tables from a memory table.
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
