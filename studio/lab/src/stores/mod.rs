//! The trait that every store implements ([`store`]), what only some can do ([`purposes`]), the
//! stores that come with this crate, and what opens one by its name ([`opener`]). Adapters for
//! other stores live outside the default build.

pub mod evendb;
pub mod keyspaces;
pub mod memory;
pub mod opener;
pub mod purposes;
#[cfg(test)]
pub(crate) mod put_only;
pub mod simulated_blocks;
pub mod store;
pub mod traced;
pub mod undone;
