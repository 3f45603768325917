//! The parts a storage engine is built from: files ([`vfs`]), encodings and checksums ([`codec`]),
//! blocks and sorted tables ([`table`]), filters ([`filter`]), framed append-only logs
//! ([`framed_log`]), and the encryption of all of them ([`sealing`]).
//!
//! Nothing here knows what a chunk is: a second engine can be built on the same parts. Every byte
//! that reaches the disk is encoded and decoded in this crate, without I/O, in explicit
//! little-endian widths, and reading bytes never panics: what does not verify is an
//! [`Error`] of kind [`ErrorKind::Corruption`] with file and offset.

pub mod codec;
mod error;
pub mod filter;
pub mod framed_log;
#[doc(hidden)]
pub mod heap;
mod plant;
pub mod random;
pub mod sealing;
pub mod table;
mod types;
pub mod vfs;

pub use error::{Error, ErrorKind, Result};
pub use types::{
    APART_BYTES, Apart, EXPIRY_BYTES, EntryRef, Kind, NUMBER_MAX, TableId, Time, Version, expiry,
    operands, push_operand,
};
