//! The analysis of a trace: the operations of an application on its store, as the figures of the
//! FAST'20 study of RocksDB's loads.
//!
//! ```text
//!   trace --> operations --> session, tables --> figures --> Document --> page, JSON
//!   (any      (Parquet)      (DataFusion)        (SQL)       (evendb-report)
//!    format)                       ^
//!   keys of the store --> stored --+
//! ```
//! Every figure is a query over tables of operations and keys; there is no second way to find one.
//! Functions that the engine does not have are in `functions`. The memory is bounded by [`Budget`];
//! rows that do not fit are on disk.
//!
//! The same queries run on several machines with the feature `distributed`.
//!
//! This crate is outside the default build, because the engine for tables takes minutes to compile.

mod analysis;
#[cfg(feature = "distributed")]
pub mod distributed;
mod error;
pub mod figures;
mod functions;
pub mod operations;
pub mod places;
mod pool;
mod reuse;
mod session;
pub mod stored;
pub mod summary;
pub mod tables;

pub use analysis::{LOST, Options, Step, analyze, analyze_by};
pub use error::{Error, Result};
pub use places::Cut;
pub use session::{Budget, Session, configuration};
pub use stored::Stored;
