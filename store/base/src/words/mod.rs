//! Words that all crates of the store share: values, limits and errors.

pub mod durability;
pub mod engine_kind;
#[doc(hidden)]
pub mod error;
#[doc(hidden)]
pub mod horizon;
#[doc(hidden)]
pub mod key_range;
#[doc(hidden)]
pub mod limits;
pub mod range_size;
mod setters;
mod value_bytes;
