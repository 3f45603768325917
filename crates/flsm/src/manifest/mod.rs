//! The manifest: what exists, durably.
//!
//! ```text
//!   CURRENT ----> MANIFEST-n:  | edit: all that there was | edit | edit | ...       one frame of a framed log each
//! ```
//! * `change` - edits as bytes. `state` - what they add up to. `current` - the bytes of `CURRENT`.
//! * `reader` - a manifest that is read. `writer` - that of an open database; `kept` - either of the two; `room` - blocks that are reserved for its next edits.
//!
//! Order: a new table is synced, then its name, then the edit that names it is appended and synced, then the new tree is
//! shown, and then the files go that no edit names any more. A crash between any two of these leaves either tree whole,
//! and perhaps files that nothing names ([`writer::Manifest::needs`]).

pub(crate) mod change;
pub(crate) mod current;
#[cfg(test)]
mod golden;
pub(crate) mod kept;
pub(crate) mod reader;
mod room;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub(crate) mod writer;
