//! What is kept in RAM of chunks that are on disk: which chunks have munks, single rows of the
//! others, and how memory is split between the two.
//!
//! ```text
//! gets --> sample.rs (keys chosen by hash) --> would a row have answered what a munk did?
//!      \-> row, ghost.rs                   --> what would more room for rows bring?
//!                 |
//!             split.rs   worth of each munk, target of rows      pure
//!             policy.rs  loads and evictions within what is left pure
//! ```

mod ghost;
pub(crate) mod policy;
pub(crate) mod row;
pub(crate) mod sample;
pub(crate) mod spans;
pub(crate) mod split;

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod simulation;
