//! A load in numbers: correlations, fitted curves, fitted sizes, and the model file.
//!
//! ```text
//!   histograms of a trace --> correlation: may the parts be modelled one by one?
//!   (slices of numbers)   --> curve_fit:   ranges, accesses, rate       --+
//!                         --> size_fit:    sizes of values, scan lengths -+--> Model <--> TOML
//!   (a course of rates)   --> periods:     after which time it comes again
//!   figures of a trace    --> from_analysis: all of these              --+      |   (by hand, too)
//!   (the analysis)                                                   presets ----+
//!                                                                                +--> benchmark
//!                                                                                     (lab)
//! ```
//! A [`Model`] is the load of one keyspace; a [`Workload`] has one of several, and the whole.
//!
//! Fits take plain slices and give plain structs; only `from_analysis`, `families` and `over_time`
//! know figures. Nothing here knows a trace, a store or a source of random numbers:
//! [`sizes::Sizes::quantile`] and [`access::Accesses::rank`] take a number between 0 and 1 from
//! outside. So the analysis, which is a crate outside the default build, and the benchmark use the
//! same code without each other.
//!
//! Degenerate input (nothing, one point, all alike, not a number) is a [`FitError`]; no input
//! causes a panic. All types are plain data, which threads may share.

pub mod access;
pub mod correlation;
pub mod counts;
pub mod curve;
pub mod curve_fit;
mod error;
pub mod families;
pub mod file;
pub mod from_analysis;
mod least_squares;
pub mod model;
pub mod over_time;
pub mod periods;
pub mod presets;
mod simplex;
pub mod size_fit;
pub mod sizes;
mod starts;
pub mod study;
pub mod workload;

pub use error::FitError;
pub use file::ModelError;
pub use model::Model;
pub use workload::Workload;
