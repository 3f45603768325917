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
//!
//! # Folders
//! * What it is asked: [`workloads`]. How: [`driving`]. Whom: [`stores`], with the trait and what
//!   opens a store by its name.
//! * What was measured: [`results`]. What people and files get of it: [`output`].
//! * Questions, each a command: [`experiments`]; [`replay`] of a trace, [`advise`], [`drift`] of
//!   one trace from another, [`calibrate`] for the machine alone.
//! * Models in the words of other benchmarks: [`interchange`].
//!
//! Modules of a folder are named without it, here and elsewhere: `evendb_lab::mix`.

#[macro_use]
pub mod output;

pub mod advise;
pub mod calibrate;
pub mod drift;
pub mod driving;
pub mod experiments;
pub mod interchange;
pub mod replay;
pub mod results;
pub mod stores;
pub mod workloads;

pub use driving::{arrivals, driver, memory_limit, phase_length, process};
pub use evendb_report::printed;
use output::{own_output, said};
pub use output::{readable, standard_streams, whole_file};
pub use results::{course, ideal_cache, phase_result, recorder};
pub use said::is_broken_pipe;
pub use stores::{opener, purposes, store, traced};
pub use workloads::{
    dataset, distribution, event_log, log_replay, mix, mixgraph, permutation, random, transactions,
    value, zipf,
};
