//! What a store is asked: data sets and their values, which record comes next, mixes of operations,
//! transactions, event logs, and loads that a model describes.
//!
//! Not here: threads and time (`driving`), and traces of real loads ([`crate::replay`]).

pub mod dataset;
pub mod distribution;
pub mod event_log;
pub mod log_replay;
pub mod mix;
pub mod mixgraph;
pub mod permutation;
pub mod random;
pub mod transactions;
pub mod value;
pub mod zipf;
