//! The parts of a table as bytes: blocks, the index, the footer, packed and sealed pieces.

pub(crate) mod block;
pub(crate) mod footer;
pub(crate) mod index;
pub(crate) mod lens;
pub(crate) mod packing;
pub(crate) mod stored;
