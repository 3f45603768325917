//! Other formats of traces: read as [`Operation`]s, one by one; RocksDB's readable form is written too.
//!
//! | format | what it has |
//! |---|---|
//! | [`Format::RocksDb`] | RocksDB's query trace 0.1 and 0.2: writes with values, gets, seeks; no results, no scan lengths |
//! | [`Format::RocksDbText`] | one line each: key in hex, type, column family, value size, microseconds |
//! | [`Format::TwitterCsv`] | timestamp, key, key size, value size, client, operation, time to live |
//! | [`Format::YcsbText`] | what YCSB's `basic` binding prints |
//!
//! A line or record that is none of the format is counted, with the first reason, and the reading goes on. No length that is
//! read is believed beyond a limit.

mod detect;
mod rocksdb;
mod rocksdb_text;
mod text;
mod twitter;
mod ycsb;

pub use detect::{Detected, detect};

use crate::error::Result;
use crate::operation::Operation;
use std::io::{BufRead, Write};

/// A format that is not this crate's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Format {
    /// See the module.
    RocksDb,
    /// See the module.
    RocksDbText,
    /// See the module.
    TwitterCsv,
    /// See the module.
    YcsbText,
}

/// What of a source was read, and what could not be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Imported {
    /// Operations that were given.
    pub operations: u64,
    /// Lines or records that are none of the format.
    pub bad: u64,
    /// The place and the reason of the first one of these.
    pub first_bad: Option<String>,
    /// The source ends in the middle of something.
    pub is_torn: bool,
}

impl Imported {
    fn note_bad(&mut self, place: impl FnOnce() -> String) {
        self.bad += 1;
        if self.first_bad.is_none() {
            self.first_bad = Some(place());
        }
    }
}

/// Gives each operation of `from` to `each`.
///
/// # Errors
/// `NotATrace` if the beginning is none of the format; `UnsupportedVersion`; `Io`; those of `each`.
pub fn read(
    format: Format,
    from: &mut dyn BufRead,
    each: &mut dyn FnMut(&Operation) -> Result<()>,
) -> Result<Imported> {
    match format {
        Format::RocksDb => rocksdb::read(from, each),
        Format::RocksDbText => text::read(from, each, &mut rocksdb_text::Lines::default()),
        Format::TwitterCsv => text::read(from, each, &mut twitter::Lines::default()),
        Format::YcsbText => text::read(from, each, &mut ycsb::Lines::default()),
    }
}

/// Writes an operation as a line of RocksDB's readable form. False if that form has no such operation.
///
/// # Errors
/// `Io`.
pub fn write_rocksdb_text(
    to: &mut dyn Write,
    operation: &Operation,
    begin_micros: u64,
) -> Result<bool> {
    rocksdb_text::write(to, operation, begin_micros)
}
