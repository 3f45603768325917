#![doc = include_str!("crate.md")]

mod admission;
mod api;
mod backup;
#[cfg(feature = "bench-parts")]
#[doc(hidden)]
pub mod bench_parts;
mod cache;
mod catalog;
mod changes;
mod checkpoint;
mod chunk;
mod commit_log;
mod compact;
mod copy;
mod delta;
mod encryption;
mod engine;
mod expiry;
mod figures;
mod files;
mod folding;
mod full_disk;
mod funk;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod golden_text;
mod ingest;
pub mod inspect;
mod kept_changes;
mod key_heads;
mod key_locks;
mod log_room;
mod making_room;
mod manifest;
mod memory;
mod memory_shares;
mod merge;
mod merge_operator;
mod metrics;
mod munk;
mod observe;
mod op;
mod opening;
mod options;
mod pace;
mod payload;
mod picker;
mod plant;
mod range_set;
mod read;
mod rebalance;
mod record;
mod recording;
#[cfg(all(test, evendb_shuttle))]
mod shuttle_tests;
mod trace;
mod transaction;
mod value;
mod value_extents;
mod value_files;
mod version;
mod visibility;
mod worker;
mod write;

// Modules that both engines share.
use evendb_base::{error, fork, sync};

pub use api::batch::{Batch, BatchWrite};
pub use api::db::Db;
pub use api::ingest::Ingest;
pub use api::keyspace::Keyspace;
pub use api::snapshot::Snapshot;
pub use api::traces::{Trace, TraceOptions, TraceSummary};
pub use api::transaction::Transaction;
pub use backup::export::{ExportSummary, ExportWriter, exported_properties};
pub use backup::{BackupInfo, BackupSummary, Backups};
pub use changes::{Change, Changes, Operands, Position, Write, Writes};
pub use compact::CompactionSummary;
pub use copy::CopySummary;
pub use copy::check::{CopyCheck, CopyOptions};
pub use encryption::{Key, KeyError, KeyProvider, KeyRing};
/// ```
/// // A program that imports everything goes on writing the standard library's `Result`.
/// use evendb::*;
///
/// fn number(text: &str) -> Result<u64, std::num::ParseIntError> {
///     text.parse()
/// }
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     # let dir = tempfile::tempdir()?;
///     let db = Db::open(dir.path())?;
///     db.put("a", "1")?;
///     let value: Result<Option<Value>> = db.get("a");
///     assert!(value?.is_some_and(|value| value == "1"));
///     assert_eq!(number("7")?, 7);
///     Ok(())
/// }
/// ```
#[doc(inline)]
pub use error::Result;
#[doc(inline)]
pub use error::{Error, ErrorKind};
#[doc(inline)]
pub use evendb_base::{EngineKind, RangeSize};
pub use expiry::WallClock;
pub use figures::live::LiveStats;
pub use figures::names::{Figure, FigureKind, FigureUnit};
pub use ingest::IngestSummary;
pub use merge_operator::ready::Merges;
pub use merge_operator::{MergeError, MergeOperator};
pub use metrics::{GetStats, MemoryStats, PauseStats, SpaceStats, Stats, WaitStats, WrittenStats};
pub use opening::destroy::destroy;
pub use options::{
    Advanced, CompactionFilter, Compression, Durability, FilterDecision, KeyspaceOptions,
    LogSearch, Options,
};
pub use read::cursor::Cursor;
pub use read::iter::{Iter, KeyCursor, Keys};
pub use transaction::{Savepoint, TransactionIter, TransactionKeys};
pub use value::Value;

/// Keys of typed columns, as bytes that sort like the columns, with their prefixes and ranges.
#[doc(inline)]
pub use evendb_keys as keys;

/// For the lab's experiments alone: the paper's own design, which ours is measured against.
#[doc(hidden)]
pub use options::Departure;

/// Where no database may be made, for the command.
#[doc(hidden)]
pub use evendb_base::placement;

/// The interface to files, for tests that simulate crashes and faults.
#[doc(hidden)]
pub use evendb_storage::vfs;

/// The examples in README.md, docs/keys.md and docs/embedding.md compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/keys.md")]
#[doc = include_str!("../../../docs/embedding.md")]
struct Readme;
