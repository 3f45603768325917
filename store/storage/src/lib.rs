//! The parts a storage engine is built from: files ([`vfs`]), encodings and checksums ([`codec`]),
//! blocks and sorted tables ([`table`]), filters ([`filter`]), framed append-only logs
//! ([`framed_log`]), and the encryption of all of them ([`sealing`]).
//!
//! Nothing here knows what a chunk is: a second engine can be built on the same parts. Every byte
//! that reaches the disk is encoded and decoded in this crate, without I/O, in explicit
//! little-endian widths. Reading bytes never panics: bytes that do not verify are an [`Error`] of
//! kind [`ErrorKind::Corruption`] with file and offset.

#[cfg(not(unix))]
compile_error!(
    "EvenDB runs on 64-bit Linux, and compiles for macOS and may work there and on other Unixes; it does not know how to lock, \
     map and sync files elsewhere"
);

#[cfg(unix)]
pub mod codec;
#[cfg(unix)]
mod error;
#[cfg(unix)]
pub mod filter;
#[cfg(unix)]
pub mod framed_log;
#[cfg(unix)]
#[doc(hidden)]
pub mod heap;
pub mod key_hash;
#[cfg(unix)]
mod plant;
#[cfg(unix)]
pub mod random;
#[cfg(unix)]
pub mod sealing;
#[cfg(unix)]
pub mod table;
#[cfg(unix)]
mod types;
#[cfg(unix)]
pub mod vfs;

#[cfg(unix)]
pub use error::{Error, ErrorKind, Result};
#[cfg(unix)]
pub use types::{
    APART_BYTES, Apart, EXPIRY_BYTES, EntryRef, Kind, NUMBER_MAX, TableId, Time, Version, expiry,
    operands, push_operand,
};
