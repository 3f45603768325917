//! Other formats of traces: read as [`Operation`]s, one by one; RocksDB's readable form is written too.
//!
//! | format | what it has |
//! |---|---|
//! | [`Format::EvenDb`] | this crate's own; [`Reader`] also gives its header and losses |
//! | [`Format::RocksDb`] | RocksDB's query trace 0.1 and 0.2: writes with values, gets, seeks; no results, no scan lengths |
//! | [`Format::RocksDbText`] | one line each: key in hex, type, column family, value size, microseconds |
//! | [`Format::TwitterCsv`] | timestamp, key, key size, value size, client, operation, time to live |
//! | [`Format::MetaCsv`] | by the names in its first line: time, key, sizes, operation, how often, hits, time to live |
//! | [`Format::YcsbText`] | what YCSB's `basic` binding prints |
//!
//! A line or record that is none of the format is counted, with the first reason, and the reading goes on. No length that is
//! read is believed beyond a limit. Operations are given in the order of the source; times that go back are counted, and those
//! from before the first are 0.

mod detect;
mod meta;
mod own;
mod rocksdb;
mod rocksdb_text;
mod text;
mod twitter;
mod ycsb;

pub use detect::{DETECT_BYTES, detect};

use crate::error::{Error, ErrorKind, Result};
use crate::operation::Operation;
use crate::reader::Reader;
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::str::FromStr;

/// A format of traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Format {
    /// EvenDB's own: `evendb`.
    EvenDb,
    /// RocksDB's query trace, 0.1 or 0.2: `rocksdb`.
    RocksDb,
    /// RocksDB's human-readable form: `rocksdb-text`.
    RocksDbText,
    /// Twitter's cache trace: `twitter`.
    TwitterCsv,
    /// Meta's cache trace, of CacheLib's kvcache: `meta`.
    MetaCsv,
    /// What YCSB's `basic` binding prints: `ycsb`.
    YcsbText,
}

impl Format {
    /// All of them, each with its name, which is read back by `parse`.
    pub const NAMES: [(&str, Format); 6] = [
        ("evendb", Format::EvenDb),
        ("rocksdb", Format::RocksDb),
        ("rocksdb-text", Format::RocksDbText),
        ("twitter", Format::TwitterCsv),
        ("meta", Format::MetaCsv),
        ("ycsb", Format::YcsbText),
    ];
}

impl Format {
    /// Its name, by which commands know it.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Format::NAMES.iter().find(|(_, format)| *format == self);
        named.map_or("?", |(name, _)| name)
    }

    /// What a keyspace of this number is called where the format has no names: a column family of RocksDB is `cf-` and its number,
    /// and the first one `default`.
    #[must_use]
    pub fn keyspace_name(self, number: u32) -> String {
        match (self, number) {
            (_, 0) => "default".to_owned(),
            (Format::RocksDb | Format::RocksDbText, number) => format!("cf-{number}"),
            (_, number) => format!("keyspace-{number}"),
        }
    }
}

/// By what a file is packed that begins so, if it is: traces are given away so, and `evendb trace convert` unpacks them.
fn packed_by(begin: &[u8]) -> Option<&'static str> {
    let packings: [(&[u8], _); 2] = [
        (b"\x1f\x8b\x08", "gzip"),
        (b"\x28\xb5\x2f\xfd", "Zstandard"),
    ];
    let packing = packings.iter().find(|(mark, _)| begin.starts_with(mark));
    packing.map(|(_, name)| *name)
}

/// Opens a trace of EvenDB's format. Where the source is one of another format, the error says which, and what makes one of EvenDB's of it.
///
/// # Errors
/// As [`Reader::new`].
pub fn open_own<R: BufRead>(mut source: R) -> Result<Reader<R>> {
    let begin = source.fill_buf()?;
    if let Some(packing) = packed_by(begin) {
        let message = format!(
            "this file is packed by {packing}, and no trace of EvenDB: `evendb trace convert FROM TO` unpacks what it holds, and makes one of EvenDB's of it"
        );
        return Err(Error::new(ErrorKind::NotATrace, message));
    }
    let other = detect(begin).filter(|format| *format != Format::EvenDb);
    match other {
        None => Reader::new(source),
        Some(format) => {
            let message = format!(
                "this is a trace of the format {}, and not EvenDB's: `evendb trace convert FROM TO` makes one of EvenDB's of it",
                format.name()
            );
            Err(Error::new(ErrorKind::NotATrace, message))
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Format, String> {
        match Format::NAMES.iter().find(|(name, _)| *name == text) {
            Some((_, format)) => Ok(*format),
            None => {
                let names = Format::NAMES.map(|(name, _)| name).join(", ");
                Err(format!("a format is one of {names}"))
            }
        }
    }
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
    /// The source ends in the middle of something, or has no end where its format has one.
    pub is_torn: bool,
    /// Operations whose time is before that of one that comes before them.
    pub times_back: u64,
    /// The source has times of whole seconds: the operations of a second were spread evenly over it.
    pub spread: bool,
    /// Operations of lines that stand for several: their order within the line is made up.
    pub counted: u64,
    /// Of these: reads of lines of which some found something and some did not. Those that did are given first.
    pub mixed: u64,
    /// Operations that are no merges and were read as such, by their names in the source.
    pub as_merges: BTreeMap<&'static str, u64>,
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
/// `NotATrace` if the beginning is none of the format; `UnsupportedVersion`; `Damaged` if EvenDB's header is; `Io`; those of
/// `each`.
pub fn read(
    format: Format,
    from: &mut dyn BufRead,
    each: &mut dyn FnMut(&Operation) -> Result<()>,
) -> Result<Imported> {
    match format {
        Format::EvenDb => own::read(from, each),
        Format::RocksDb => rocksdb::read(from, each),
        Format::RocksDbText => text::read(from, each, &mut rocksdb_text::Lines::default()),
        Format::TwitterCsv => text::read(from, each, &mut twitter::Lines::default()),
        Format::MetaCsv => text::read(from, each, &mut meta::Lines::default()),
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
