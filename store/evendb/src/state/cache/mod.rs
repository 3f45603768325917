//! The data that is kept in RAM of chunks on disk: spans of their munks, single rows of the other
//! spans, and the split of memory between the two.
//!
//! ```text
//! get that a row or the disk answers --> sample.rs       gain of one more byte for rows: theta
//!                                    \-> row, ghost.rs   which rows stay
//! get that the disk answers, refill  --> spans.rs        which spans come in; price of a byte
//! round                              --> split.rs        rows' room: theta against price
//! ```
//!
//! Heat is counted at the span ([`crate::munk::heat`]). All counts decay on one clock, which counts
//! accesses.

mod ghost;
pub(crate) mod row;
pub(crate) mod sample;
pub(crate) mod spans;
pub(crate) mod split;
pub(crate) mod warmth;

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod simulation;
