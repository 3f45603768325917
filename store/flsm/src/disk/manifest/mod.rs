//! The manifest: what the database consists of, durably.
//!
//! ```text
//!   CURRENT ----> MANIFEST-n:  | edit: the whole state | edit | edit | ...
//!                                each edit is one frame of a framed log
//! ```
//! * `change` - edits as bytes. `state` - the sum of edits. `current` - the bytes of `CURRENT`.
//! * `reader` - reads a manifest. `writer` - the manifest of an open database; `kept` - either of
//!   the two; `room` - blocks that are reserved for the next edits.
//!
//! Order: a new table is synced, then its name. Then the edit that names it is appended and synced,
//! and the new tree is shown. After that, the files that no edit names any more are removed. A
//! crash between any two of these steps leaves one of the two trees whole, and perhaps files that
//! nothing names ([`writer::Manifest::needs`]).

pub(crate) mod change;
pub(crate) mod current;
pub(crate) mod kept;
pub(crate) mod reader;
mod room;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub(crate) mod writer;
