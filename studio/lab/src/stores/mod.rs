//! The stores that come with this crate; adapters for other engines live outside the default build.

pub mod evendb;
pub mod flsm;
pub mod memory;
#[cfg(test)]
pub(crate) mod put_only;
pub mod undone;
