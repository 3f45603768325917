//! What the engine needs above the storage parts, and other crates beside it: one error, one word
//! for durability, a seam by which tests control threads.
//!
//! Applications use the names that the crate `evendb` exports. Nothing here knows how data is laid
//! out.
//!
//! # Rooms
//! Each folder is a floor, and what lies in it is a room. A path names the room alone. Each room
//! imports only rooms that stand after it, which the tests of `proof/house` check.
//! * `tools/`: `inspect` - the findings of a look inside a closed database, and what does not
//!   depend on the layout: the directory under its lock, the frames of a manifest, tables, dumps.
//! * `directory/`: `destroy` - removes a database. `claim` - the directory's lock, as long as a
//!   database is open. `directory_lock` - one writer of a directory at a time. `placement` -
//!   nothing is made inside a database's directory, or inside one with backups. `made_dirs` -
//!   directories that a call makes, and removes again if it fails. `ballast` - room that is kept
//!   back for deletes and jobs on a full disk.
//! * `process/`: `gate` - the calls that touch a database, so that closing can wait for them.
//!   `fork` - whether this process is a forked child, which may not touch the database. `wakers` -
//!   the wakers of futures, and their results. `sync` - locks, atomics, threads and reclamation,
//!   which loom and shuttle replace. `container` - the memory that a container lets this process
//!   have.
//! * `words/`: `maker` - who made a database, and what is refused. `limits` - the error of an
//!   option outside its limits. `durability` - what an acknowledged write survives. `error` -
//!   failures of the public faces. `horizon` - which versions readers may still see. `range_size` -
//!   about how much a range holds. `key_range` - a range of keys as its least key and its upper
//!   limit. `setters` - the setters of options. `value_bytes` - what values that reads return can
//!   do.

mod directory;
mod process;
mod tools;
mod words;

pub use directory::placement;
#[doc(hidden)]
pub use directory::{ballast, claim, destroy, directory_lock, made_dirs};
#[doc(hidden)]
pub use process::{container, fork, gate, sync, wakers};
pub use tools::inspect;
use words::{durability, range_size};
#[doc(hidden)]
pub use words::{error, horizon, key_range, limits, maker};

pub use durability::Durability;
pub use error::{Error, ErrorKind, Result};
pub use range_size::RangeSize;
