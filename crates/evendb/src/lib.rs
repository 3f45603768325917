#![doc = include_str!("crate.md")]

mod ballast;
mod batch;
#[cfg(feature = "bench-parts")]
#[doc(hidden)]
pub mod bench_parts;
mod cache;
mod checkpoint;
mod chunk;
mod copy;
mod creation;
mod db;
mod directory;
mod engine;
mod error;
mod fork;
mod full_disk;
mod funk;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod golden_text;
pub mod inspect;
mod keyspace;
mod manifest;
mod memory;
mod metrics;
mod munk;
mod observe;
mod options;
mod pauses;
mod plant;
mod property;
mod read;
mod rebalance;
mod recovery;
#[cfg(all(test, evendb_shuttle))]
mod shuttle_tests;
mod stats;
mod sync;
mod trace;
mod value;
mod version;
mod worker;
mod write;

pub use batch::Batch;
pub use cache::row::RowPolicy;
pub use copy::CheckpointSummary;
pub use db::Db;
pub use error::{Error, ErrorKind, Result};
pub use keyspace::Keyspace;
pub use metrics::{GetStats, MemoryStats, PauseStats, SpaceStats, Stats, WaitStats, WrittenStats};
pub use observe::figures::{Figure, FigureKind, FigureUnit};
pub use observe::live::LiveStats;
pub use options::{Compression, Durability, LogSearch, Options};
pub use read::cursor::{Cursor, Iter};
pub use read::snapshot::Snapshot;
pub use rebalance::compact::Compaction;
pub use value::Value;

/// The file seam, for tests that simulate crashes and faults.
#[doc(hidden)]
pub use evendb_storage::vfs;

/// The example in README.md compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
