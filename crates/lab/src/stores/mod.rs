//! The stores that come with this crate; adapters for other engines live outside the default build.

pub mod evendb;
pub mod memory;
