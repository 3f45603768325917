//! What is loaded into RAM, and what leaves it.

pub(crate) mod munks;
pub(crate) mod spans;
pub(crate) mod tending;
pub(crate) mod warm;
