//! What works on a closed or copied database, and parts of the engine for benchmarks and fuzzers.

pub(crate) mod backup;
#[cfg(feature = "bench-parts")]
pub mod bench_parts;
pub(crate) mod copy;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod inspect;
