//! The one read path. [`get`] answers one key, wait-free until it must read from disk. [`fill`]
//! merges a chunk's components over a range into a buffer. [`cursor`] moves buffers over chunks in
//! both directions; [`refill`] fills them again, [`first_key`] does so for scans of one record, and
//! [`ahead`] asks the disk for what comes next. [`iter`] gives the records as handles. [`moment`]
//! is one moment of the whole database. [`size`] estimates what a range holds. [`apart`] reads
//! values that lie in files of their own.

mod ahead;
pub(crate) mod apart;
pub(crate) mod buffer;
mod counting;
mod covered;
pub(crate) mod cursor;
mod end;
pub(crate) mod fill;
mod first_key;
pub(crate) mod folded;
pub(crate) mod get;
pub(crate) mod iter;
pub(crate) mod moment;
mod refill;
pub(crate) mod size;
pub(crate) mod tables;

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod chosen_keys;
