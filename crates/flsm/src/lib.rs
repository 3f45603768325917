//! A fragmented log-structured merge tree: the design of PebblesDB (SOSP'17), on EvenDB's storage parts.
//!
//! ```text
//!   put -> log (LOG-n) -> memory table                     RAM   one of each keyspace, all of one generation with one log
//!                            |  flush: one table
//!   level 0   [ t9 ][ t8 ][ t7 ]                           tables overlap, newest first; no guards
//!                            |  all of them together, cut at the guards below, appended there
//!   level i   | guard ""      | guard "f"     | guard "q"  |   guards do not overlap, tables of one guard may;
//!             |  t5 t2        |  t6 t3        |            |   newest first
//!                            |  a guard's tables together, cut at the guards below, appended there
//!   last      | "" | "c" | "f" | "k" | "q" | "t" |            merged within a guard when these are too many
//! ```
//! A leveled tree rewrites what lies below whenever it moves data down. Here a piece is appended to the guard in which
//! it belongs, so a record is written once in each level; what that costs are several tables to look at in a guard.
//! With one table a guard (`Advanced::max_files_per_guard`) it is a leveled tree again.
//!
//! Guards are chosen from the keys themselves, by a hash: which keys become guards follows from the data alone, and a guard of
//! a level is one of every deeper level (`tree::choose`).
//!
//! # Rooms
//! * `types`, `files` - ids; names of files.
//! * `memory` - the memory table: one writer, many readers, an arena.
//! * `log` - the body of a log record, the log of a generation, its replay.
//! * `tree` - what a keyspace has on disk: levels, guards, tables. Immutable; an edit makes a new one.
//! * `manifest` - edits as bytes, what exists, `CURRENT`.
//! * `tables` - open tables; files that go when nobody has them any more.
//! * `compaction` - which job is next (pure), and how it is done.
//! * `cursor`, `read` - the sorted merge in both directions; get and scans.
//! * `write` - the one write path.
//! * `engine`, `opening`, `worker` - the state of an open database, how it gets there, who works in it.
//! * `api` - the public face.
#![expect(dead_code, reason = "under construction: rooms are filled one by one")]

mod compaction;
mod cursor;
mod files;
mod manifest;
mod tables;
mod tree;
mod types;
