//! Words that all crates of the store share: values, limits and errors.

pub mod durability;
#[doc(hidden)]
pub mod error;
#[doc(hidden)]
pub mod horizon;
#[doc(hidden)]
pub mod key_range;
#[doc(hidden)]
pub mod limits;
#[doc(hidden)]
pub mod maker;
pub mod range_size;
mod setters;
mod value_bytes;
