//! The one read path. [`get`] answers one key, wait-free until it must read from disk. [`fill`]
//! merges a chunk's components over a range into a buffer. [`cursor`] moves buffers over chunks in
//! both directions; [`refill`] fills them again, [`first_key`] does so for scans of one record, and
//! [`ahead`] asks the disk for what comes next. [`iter`] gives the records as handles. [`moment`]
//! is one moment of the whole database. [`size`] estimates what a range holds. [`apart`] reads
//! values that lie in files of their own.

pub(crate) mod apart;
mod counting;
mod covered;
pub(crate) mod folded;
pub(crate) mod get;
pub(crate) mod moment;
mod scan;
pub(crate) mod size;

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod chosen_keys;

pub(crate) use scan::{ahead, buffer, cursor, end, fill, first_key, iter, refill, tables};
