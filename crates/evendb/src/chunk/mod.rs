//! The chunk: a contiguous key range and its state.

pub(crate) mod delta;
pub(crate) mod index;
pub(crate) mod record;
