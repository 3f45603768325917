//! The queue of jobs, and the threads that empty it.

pub(crate) mod idle;
pub(crate) mod pool;
pub(crate) mod staff;
pub(crate) mod work;
#[cfg(all(test, evendb_loom))]
pub(crate) mod work_models;
