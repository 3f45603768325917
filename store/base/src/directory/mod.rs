//! A database's directory: who may use it, what may lie in it, what is kept back in it, and how it
//! is removed.

#[doc(hidden)]
pub mod ballast;
#[doc(hidden)]
pub mod claim;
#[doc(hidden)]
pub mod destroy;
#[doc(hidden)]
pub mod directory_lock;
#[doc(hidden)]
pub mod made_dirs;
pub mod placement;
