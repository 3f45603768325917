//! Workloads, drivers and measurements, for every store that implements one small trait.
//!
//! ```text
//!   distribution --+                                 +--> histograms, bytes, errors
//!   (zipf, ...)    +--> workload --> worker --> driver --> PhaseResult --> JSON, table
//!   mix -----------+    (what)       (one thread)    +--> process figures, store figures
//!                                       |
//!                                     Store            (the trait every store implements)
//! ```
//!
//! Nothing here knows an engine except the adapters in [`stores`]. Every value that is read is
//! checked: a benchmark of a store that answers wrongly ends with an error, not with a figure.
//!
//! A phase measures once. Arguments, rounds and printing are in [`experiments`]. Each of them asks
//! one question and is a command of `evendb` and of `studio/peers`.

#[macro_use]
mod said;

pub mod advise;
pub mod arrivals;
pub mod calibrate;
pub mod course;
pub mod dataset;
pub mod distribution;
pub mod driver;
pub mod event_log;
pub mod experiments;
pub mod ideal_cache;
pub mod log_replay;
pub mod memory_limit;
pub mod mix;
pub mod mixgraph;
pub mod opener;
mod own_output;
pub mod permutation;
pub mod phase_length;
pub mod phase_result;
mod phase_text;
pub use evendb_report::printed;
pub mod process;
pub mod purposes;
pub mod random;
pub mod readable;
pub mod recorder;
pub mod replay;
pub mod standard_streams;
pub mod store;
pub mod stores;
pub mod traced;
pub mod transactions;
pub mod value;
pub mod whole_file;
pub mod zipf;

pub use said::is_broken_pipe;
