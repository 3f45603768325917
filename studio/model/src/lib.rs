//! What a load is like, in numbers: correlations, fitted curves, fitted sizes, and the model file.
//!
//! ```text
//!   histograms of a trace --> correlation: may the parts be modelled one by one?
//!   (slices of numbers)   --> curve_fit:   ranges, accesses, rate      --+
//!                         --> size_fit:    sizes of values, scan lengths -+--> Model <--> TOML (by hand, too)
//!   figures of a trace    --> from_analysis: all of these              --+        |
//!   (the analysis)                                                       presets ---+--> the benchmark (evendb-lab)
//! ```
//! Fits take plain slices and give plain structs; `from_analysis` alone knows figures. Nothing here knows a trace, a store or a source of random
//! numbers: [`sizes::Sizes::quantile`] and [`access::Accesses::rank`] take a number between 0 and 1 from outside. So
//! the analysis, which is a crate outside the default build, and the benchmark use the same code without each other.
//!
//! What is degenerate (nothing, one point, all alike, not a number) is a [`FitError`]; nothing panics on what it is
//! given. All types are plain data, which threads may share.

pub mod access;
pub mod correlation;
pub mod counts;
pub mod curve;
pub mod curve_fit;
mod error;
pub mod file;
pub mod from_analysis;
mod least_squares;
pub mod model;
pub mod presets;
mod simplex;
pub mod size_fit;
pub mod sizes;
mod starts;
pub mod study;

pub use error::FitError;
pub use file::ModelError;
pub use model::Model;
