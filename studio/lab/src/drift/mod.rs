//! Drift: how one trace differs from another, before and after a release, or shard from shard.
//!
//! ```text
//!   trace A --> Portrait --+
//!                          +--> Drift: a row with a distance for each part of the load
//!   trace B --> Portrait --+
//! ```
//! A distance is from 0 (alike) to 1 (nothing in common). Of shares of kinds, keyspaces and
//! outcomes it is the share of operations that would have to be another one; of sizes and lengths
//! the largest difference between the two shares up to any size; of rates one minus the smaller
//! divided by the larger. What a trace does not tell has no distance: it is "not known", and never
//! 0.
//!
//! Not here: whether a difference is more than chance. Two halves of one trace, compared first,
//! show how large chance is.

mod popularity;
mod portrait;
mod report;

#[cfg(test)]
mod tests;

pub use portrait::{Portrait, Shares};
pub use report::{Drift, Row};
