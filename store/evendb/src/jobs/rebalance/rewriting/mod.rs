//! New tables in the place of old ones.
//!
//! * [`rewrite`]: a chunk's base and log become a new base, of one chunk or of several.
//! * [`log_merge`]: the newest runs of a log become one run.
//! * [`growth`], [`pieces`]: where a chunk that grows is cut, and where a rewrite ends its tables.
//! * [`covered_tables`], [`expired_tables`]: tables that a range deletion or time has emptied go
//!   unread.
//! * [`value_moves`]: live values of a value file move to another file.

pub(crate) mod covered_tables;
pub(crate) mod expired_tables;
pub(crate) mod growth;
pub(crate) mod log_merge;
pub(crate) mod pieces;
pub(crate) mod rewrite;
pub(crate) mod value_moves;
