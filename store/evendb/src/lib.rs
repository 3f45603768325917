#![doc = include_str!("crate.md")]

mod calls;
mod chunks;
mod disk;
mod ground;
mod jobs;
mod logged;
mod rules;
#[cfg(all(test, evendb_shuttle))]
mod shuttle_tests;
mod state;
mod tools;

// Each folder is a floor, and what lies in it is a room. A path names the room alone.
use calls::{api, changes, ingest, read, transaction, write};
use chunks::{catalog, chunk, delta, funk, key_heads, merge, munk, record, value};
use disk::{commit_log, guards, manifest, tables, value_files};
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
use ground::golden_text;
use ground::{admission, figures, files, memory, metrics, plant, recording, trace};
use jobs::{checkpoint, compact, making_room, observe, rebalance, worker};
use logged::{kept_changes, op, payload, value_extents};
use rules::{
    encryption, expiry, folding, merge_operator, options, picker, range_set, version, visibility,
};
use state::{engine, full_disk, key_locks, log_room, memory_policy, opening, pace};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use tools::fuzzing;
pub use tools::inspect;
use tools::{backup, copy};
// Modules that other crates need, too.
use evendb_base::{error, fork, sync};

pub use api::asynchronous::chunks::{NextChunk, RangeChunks};
pub use api::asynchronous::commits::{CommitFuture, PersistFuture};
pub use api::asynchronous::gets::{GetFuture, MultiGetFuture};
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
pub use copy::fork::{ForkOptions, ForkSummary};
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
pub use evendb_base::RangeSize;
pub use expiry::WallClock;
pub use figures::live::LiveStats;
pub use ingest::IngestSummary;
pub use memory::shared::{SharedBudget, SharedOptions, SharedStats};
pub use merge_operator::ready::Merges;
pub use merge_operator::{MergeError, MergeOperator};
pub use metrics::{Figure, FigureKind, FigureUnit};
pub use metrics::{GetStats, MemoryStats, PauseStats, SpaceStats, Stats, WaitStats, WrittenStats};
pub use opening::destroy::destroy;
pub use options::{
    Advanced, CompactionFilter, Compression, Durability, FilterDecision, GuardOptions,
    KeyspaceOptions, Layout, LogSearch, OptionInfo, Options,
};
pub use read::cursor::Cursor;
pub use read::fill::{Filled, Rest};
pub use read::get::WouldRead;
pub use read::iter::{Iter, KeyCursor, Keys};
pub use transaction::{Savepoint, TransactionIter, TransactionKeys};
pub use value::Value;

/// Keys of typed columns, as bytes that sort like the columns, with their prefixes and ranges.
#[doc(inline)]
pub use evendb_keys as keys;

/// For the lab's experiments alone: the paper's own design, which ours is measured against.
#[doc(hidden)]
pub use options::Departure;

/// For the command: sizes and lengths of time as people write them.
#[doc(hidden)]
pub use options::forms;

/// For the command: who made a database, and where no database may be made.
#[doc(hidden)]
pub use evendb_base::{maker, placement};

/// The interface to files, for tests that simulate crashes and faults.
#[doc(hidden)]
pub use evendb_storage::vfs;

/// The examples in README.md and in these pages compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/changes.md")]
#[doc = include_str!("../../../docs/keys.md")]
#[doc = include_str!("../../../docs/embedding.md")]
#[doc = include_str!("../../../docs/second-process.md")]
#[doc = include_str!("../../../docs/async.md")]
struct Readme;
