//! The one read path. [`get`] answers one key, wait-free until it must read from disk. [`scan`]
//! reads ranges, in both directions. [`moment`] is one moment of the whole database. [`size`]
//! estimates what a range holds.
//!
//! Beside them stands what few keys need, for gets and scans: [`merges`] makes the value of
//! operands, [`large_values`] reads values that lie in files of their own. [`counting`] tells the
//! caches what was read. The layers that all of them read are those of a view
//! (`chunk/view.rs`).

mod counting;
pub(crate) mod get;
pub(crate) mod large_values;
pub(crate) mod merges;
pub(crate) mod moment;
pub(crate) mod part;
mod scan;
pub(crate) mod size;

pub(crate) use scan::cursor::{end, fill, iter};
pub(crate) use scan::sources::tables;
pub(crate) use scan::{buffer, cursor, refill, sources};
