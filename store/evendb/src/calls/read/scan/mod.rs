//! Scans: two ends, refills, sources, what is read ahead.

pub(crate) mod ahead;
pub(crate) mod buffer;
pub(crate) mod cursor;
pub(crate) mod end;
pub(crate) mod fill;
pub(crate) mod first_key;
pub(crate) mod iter;
pub(crate) mod refill;
pub(crate) mod tables;
