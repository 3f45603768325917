//! What the user gets: output, failures with their exit codes, and the end after an interruption.

pub(crate) mod failure;
pub(crate) mod interrupt;
pub(crate) mod output;
