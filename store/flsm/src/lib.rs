//! A fragmented log-structured merge tree: the design of PebblesDB (SOSP'17), on EvenDB's storage
//! parts.
//!
//! ```text
//!   put -> log (LOG-n) -> memory table               in RAM; one for each keyspace;
//!                            |                       one generation of them has one log
//!                            |  flush: one table
//!   level 0   [ t9 ][ t8 ][ t7 ]                     tables overlap, newest first; no guards
//!                            |  all of them together, cut at the guards below, appended there
//!   level i   | guard "" | guard "f"  | guard "q" |  guards do not overlap,
//!             |  t5 t2   |  t6 t3     |           |  tables of one guard may; newest first
//!                            |  a guard's tables together, cut at the guards below, appended there
//!   last      | "" | "c" | "f" | "k" | "q" | "t" |   a guard with too many tables is merged
//! ```
//! A leveled tree rewrites the data below whenever it moves data down. Here a piece is appended to
//! the guard in which it belongs, so a record is written once in each level. The price is that a
//! guard has several tables to look at. With one table in a guard (`Advanced::max_files_per_guard`)
//! it is a leveled tree again.
//!
//! Guards are chosen from the keys themselves, by a hash. So the data alone decides which keys
//! become guards. A guard of a level is also a guard of every deeper level (`tree::choose`).
//!
//! # Rooms
//! Each room imports only rooms that stand after it, which the tests of `proof/house` check.
//! * `fuzzing` - decoders of the engine's files, opened to the fuzzer.
//! * `api` - the public face. `inspect` - what the bytes of a closed database say.
//! * `opening` - how a database is opened; `destroy` - how it is removed; `worker` - its threads.
//! * `read`, `write` - gets and scans; the one write path.
//! * `engine` - the state of an open database.
//! * `cache` - blocks of tables in memory.
//! * `keyspace`, `clock` - the parts of a keyspace at one moment; which writes are shown, and who
//!   reads. `scan_lengths` - how long the scans of a keyspace were.
//! * `compaction` - which job is next (pure), and how it is done.
//! * `full_disk` - the room that is kept back for a full disk, and which writes are refused then.
//! * `manifest` - edits as bytes, the state they add up to, `CURRENT`. `log` - the body of a log
//!   record, the log of a generation, its replay.
//! * `memory` - the memory table: one writer, many readers, an arena.
//! * `cursor` - the sorted merge in both directions.
//! * `tree` - a keyspace on disk: levels, guards, tables. It is immutable; an edit makes a new one.
//! * `tables` - open tables; files that are removed when nobody has them any more.
//! * `options`, `value`, `figures`, `error`, `files`, `types` - words that all share. `plant` -
//!   faults that tests must notice.

mod api;
mod cache;
mod clock;
mod compaction;
mod cursor;
mod destroy;
mod engine;
mod error;
mod figures;
mod files;
mod full_disk;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod inspect;
mod keyspace;
mod log;
mod manifest;
mod memory;
mod opening;
mod options;
mod plant;
mod read;
mod scan_lengths;
#[cfg(all(test, evendb_shuttle))]
mod shuttle_tests;
mod tables;
mod tree;
mod types;
mod value;
mod worker;
mod write;

pub use api::batch::Batch;
pub use api::compaction::CompactionSummary;
pub use api::db::Db;
pub use api::keyspace::Keyspace;
pub use api::snapshot::Snapshot;
pub use api::stats::TableInfo;
pub use destroy::destroy;
/// ```
/// // A program that imports everything goes on writing the standard library's `Result`.
/// use evendb_flsm::*;
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     # let dir = tempfile::tempdir()?;
///     let db = Db::open(dir.path())?;
///     db.put("a", "7")?;
///     let value: Result<Option<Value>> = db.get("a");
///     assert!(value?.is_some_and(|value| value == "7"));
///     Ok(())
/// }
/// ```
#[doc(inline)]
pub use error::Result;
#[doc(inline)]
pub use error::{Error, ErrorKind};
#[doc(inline)]
pub use evendb_base::{Durability, EngineKind, RangeSize};
pub use figures::{Stats, WaitStats};
pub use options::{Advanced, Compression, Options};
pub use read::cursor::Cursor;
pub use read::iter::{Iter, KeyCursor, Keys};
pub use value::Value;

/// The seam for files, for tests that simulate crashes and faults.
#[doc(hidden)]
pub use evendb_storage::vfs;
