//! The division of memory between rows and spans, and which spans are worth theirs: pure policies,
//! which know no chunk.
//!
//! ```text
//! get that a row or the disk answers --> sample.rs     gain of one more byte for rows: theta
//!                                    \-> row           which rows stay
//! get that the disk answers, refill  --> spans.rs      which spans come in; price of a byte
//! round                              --> split.rs      rows' room: theta against price
//! ```
//!
//! Heat is counted at the span ([`crate::munk::heat`]). All counts decay on one clock, which counts
//! accesses.

pub(super) mod sample;
pub(super) mod spans;
pub(super) mod split;

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod simulation;
