//! The write-ahead log: the writes since the last flush, in one file for each generation of memory
//! tables.
//!
//! ```text
//!   LOG-12   | begin: no log before | group | group | group |
//!                                                           ^ end: LOG-15 names it
//!   LOG-15   | begin: LOG-12, its end, its durable part | group | group | gro
//!                                                                           ^ a crash: a torn end
//! ```
//! A file is a framed log ([`evendb_storage::framed_log`]). Its first frame says how it continues
//! the previous log. Each other frame is a group of batches that were written together ([`record`]
//! has the bytes). A log is begun durably, and its name with it, before anything is written to it.
//! So a log that has less than its first frame was never used.
//!
//! * `record` - bytes of the frames' payloads. `writer` - appends and syncs. `replay` - reads all
//!   logs after any kind of end.
//!
//! A log is not needed once its generation is flushed. The manifest says from which number on logs
//! are needed.

pub(crate) mod record;
pub(crate) mod replay;
#[cfg(all(test, not(evendb_loom)))]
mod tests;
pub(crate) mod writer;
