//! The one read path. [`get`] answers one key, wait-free until it must read from disk; [`fill`]
//! merges a chunk's components over a range into a buffer; [`cursor`] moves buffers over chunks in
//! both directions; [`moment`] is one moment of the whole database.

pub(crate) mod buffer;
mod counting;
mod covered;
pub(crate) mod cursor;
pub(crate) mod fill;
pub(crate) mod get;
pub(crate) mod moment;
pub(crate) mod tables;
