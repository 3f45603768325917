//! The state of an open database, in groups.

pub(crate) mod choices;
pub(crate) mod core;
pub(crate) mod disk;
pub(crate) mod flow;
pub(crate) mod log;
pub(crate) mod space;
