//! What lies between a C program and the engine: arguments in, answers and errors out.

pub(crate) mod bytes;
pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod place;
pub(crate) mod range;
pub(crate) mod status;
#[cfg(test)]
mod tests;

pub(crate) use bytes::{Bytes, Many, Text, lent};
pub(crate) use error::{ErrorPlace, Failure, Result};
pub(crate) use handle::{Shared, Slot, call, call_mut, call_take, plain};
pub(crate) use place::Place;
pub(crate) use status::Status;
