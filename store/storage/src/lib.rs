//! The parts a storage engine is built from: files ([`vfs`]), encodings and checksums ([`codec`]),
//! blocks and sorted tables ([`table`]), filters ([`filter`]), framed append-only logs
//! ([`framed_log`]), and the encryption of all of them ([`sealing`]).
//!
//! Nothing here knows what a chunk or a guard is. Every byte that reaches the disk is encoded and
//! decoded in this crate, without I/O, in explicit little-endian widths. Reading bytes never
//! panics: bytes that do not verify are an [`Error`] of kind [`ErrorKind::Corruption`] with file
//! and offset.
//!
//! # Rooms
//! A room imports only rooms that stand after it, which the tests of `proof/house` check. What all
//! rooms may use lies in a folder of its own, the floor `ground`.
//! * `table`, `framed_log` - sorted tables; append-only logs of checked frames. `filter` - which
//!   keys a table may have.
//! * `vfs` - files. `sealing` - how the bytes of files are encrypted.
//! * `ground/`: `types` - a record and its parts. `key_hash` - hashes of keys. `codec` - numbers
//!   and texts as bytes, checksums. `error`, `random`, `heap` - errors, the system's randomness,
//!   the allocator. `signals` - threads without signals. `plant` - faults that tests must notice.

#[cfg(not(unix))]
compile_error!(
    "EvenDB runs on 64-bit Linux, and compiles for macOS and may work there and on other Unixes; it does not know how to lock, \
     map and sync files elsewhere"
);

#[cfg(unix)]
pub mod filter;
#[cfg(unix)]
pub mod framed_log;
#[cfg(unix)]
mod ground;
#[cfg(unix)]
pub mod sealing;
#[cfg(unix)]
pub mod table;
#[cfg(unix)]
pub mod vfs;

#[cfg(unix)]
pub use ground::{codec, key_hash, random};
#[cfg(unix)]
use ground::{error, plant, types};
#[doc(hidden)]
#[cfg(unix)]
pub use ground::{heap, signals};

#[cfg(unix)]
pub use error::{Error, ErrorKind, Replaced, Result};
#[cfg(unix)]
pub use types::{
    APART_BYTES, Apart, EXPIRY_BYTES, EntryRef, Kind, NUMBER_MAX, TableId, Time, Version, expiry,
    operands, push_operand,
};
