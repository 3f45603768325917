//! What a program calls, and the paths below the calls: gets and scans, and the one write path.

pub(crate) mod api;
pub(crate) mod read;
pub(crate) mod write;
