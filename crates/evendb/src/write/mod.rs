//! The one write path.

pub(crate) mod admission;
pub(crate) mod commit_log;
