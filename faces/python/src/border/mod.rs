//! The border between Python and the engine: arguments, results, errors, locks.

pub(crate) mod bytes;
pub(crate) mod call;
pub(crate) mod error;
pub(crate) mod held;
pub(crate) mod options;
pub(crate) mod slot;
pub(crate) mod span;
