//! The state of an open database, and how it is opened.

pub(crate) mod engine;
pub(crate) mod full_disk;
pub(crate) mod key_locks;
pub(crate) mod log_room;
pub(crate) mod memory_policy;
pub(crate) mod opening;
pub(crate) mod pace;
