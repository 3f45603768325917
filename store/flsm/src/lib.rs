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
//! Each folder is a floor, and what lies in it is a room. A path in the code names the room alone.
//! Each room imports only rooms that stand after it, which the tests of `proof/house` check.
//! * `tools/`: `fuzzing` - decoders of the engine's files, opened to the fuzzer. `inspect` - what
//!   the bytes of a closed database say.
//! * `calls/`: `api` - the public face. `read`, `write` - gets and scans; the one write path.
//! * `jobs/`: `worker` - the threads, and the calls that wait for them. `generation` - how the
//!   current generation becomes durable, ends and is flushed. `compaction` - which job is next
//!   (pure), and how it is done.
//! * `state/`: `opening` - how a database is opened, and how it is removed. `engine` - the state of
//!   an open database. `cache` - blocks of tables in memory. `keyspace`, `clock` - the parts of a
//!   keyspace at one moment; which writes are shown, and who reads. `visibility` - which versions
//!   of a key somebody may still read. `scan_lengths` - how long the scans of a keyspace were.
//!   `full_disk` - the room that is kept back for a full disk, and which writes are refused then.
//! * `disk/`: `manifest` - edits as bytes, the state they add up to, `CURRENT`. `log` - the body of
//!   a log record, the log of a generation, its replay.
//! * `levels/`: `memory` - the memory table: one writer, many readers, an arena. `cursor` - the
//!   sorted merge in both directions. `tree` - a keyspace on disk: levels, guards, tables. It is
//!   immutable; an edit makes a new one. `tables` - open tables; files that are removed when nobody
//!   has them any more. `value` - bytes that a read has returned.
//! * `ground/`: `options`, `figures`, `error`, `files`, `types` - words that all share. `plant` -
//!   faults that tests must notice.

mod calls;
mod disk;
mod ground;
mod jobs;
mod levels;
#[cfg(all(test, evendb_shuttle))]
mod shuttle_tests;
mod state;
mod tools;

use calls::{api, read, write};
use disk::{log, manifest};
use ground::{error, figures, files, options, plant, types};
use jobs::{compaction, generation, worker};
use levels::{cursor, memory, tables, tree, value};
use state::{cache, clock, engine, full_disk, keyspace, opening, scan_lengths, visibility};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use tools::fuzzing;
pub use tools::inspect;

pub use api::batch::Batch;
pub use api::compaction::CompactionSummary;
pub use api::db::Db;
pub use api::keyspace::Keyspace;
pub use api::snapshot::Snapshot;
pub use api::stats::TableInfo;
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
pub use opening::destroy::destroy;
pub use options::{Advanced, Compression, Options};
pub use read::cursor::Cursor;
pub use read::iter::{Iter, KeyCursor, Keys};
pub use value::Value;

/// The seam for files, for tests that simulate crashes and faults.
#[doc(hidden)]
pub use evendb_storage::vfs;
