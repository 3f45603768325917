//! What works on a closed or copied database, and decoders for fuzzers.

pub(crate) mod backup;
pub(crate) mod copy;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod inspect;
