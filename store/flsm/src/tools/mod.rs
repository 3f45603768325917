//! What works on the files of a closed database: looking inside, and the decoders for the fuzzer.

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod inspect;
