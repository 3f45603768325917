//! Where records lie: in RAM and on disk.

pub(crate) mod catalog;
pub(crate) mod chunk;
pub(crate) mod delta;
pub(crate) mod funk;
pub(crate) mod key_heads;
pub(crate) mod merge;
pub(crate) mod munk;
pub(crate) mod record;
pub(crate) mod value;
