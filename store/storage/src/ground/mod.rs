//! What every room above may use.

pub mod codec;
pub mod error;
#[doc(hidden)]
pub mod heap;
pub mod key_hash;
pub(crate) mod plant;
pub mod random;
#[doc(hidden)]
pub mod signals;
pub mod types;
