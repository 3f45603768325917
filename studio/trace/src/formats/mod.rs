//! Other formats of traces: read as [`Operation`]s, one by one. RocksDB's query trace
//! ([`RocksDbWriter`]) and its readable form are written too.
//!
//! * [`Format::EvenDb`]: this crate's own; [`Reader`] also gives its header and losses.
//! * [`Format::RocksDb`]: RocksDB's query trace 0.1 and 0.2: writes with values, gets, seeks; no
//!   results, no scan lengths.
//! * [`Format::RocksDbText`]: one line each: key in hex, type, column family, value size,
//!   microseconds.
//! * [`Format::TwitterCsv`]: timestamp, key, key size, value size, client, operation, time to live.
//! * [`Format::MetaCsv`]: by the names in its first line: time, key, sizes, operation, number of
//!   operations, hits, time to live.
//! * [`Format::YcsbText`]: the output of YCSB's `basic` binding.
//!
//! A line or record that does not follow the format is counted, with the first reason, and the
//! reading goes on. No length is believed beyond a limit. Operations are given in the order of the
//! source. Times that go back are counted, and times before the first one are 0.

mod detect;
mod meta;
mod own;
mod rocksdb;
mod rocksdb_text;
mod rocksdb_write;
mod text;
mod twitter;
mod ycsb;

pub use detect::{DETECT_BYTES, detect};
pub use rocksdb_write::{RocksDbWriter, Written};

use crate::error::{Error, ErrorKind, Result};
use crate::frame::Times;
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
    /// The output of YCSB's `basic` binding: `ycsb`.
    YcsbText,
}

impl Format {
    /// All formats, each with its name, which `parse` reads back.
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
    /// Its name in commands.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Format::NAMES.iter().find(|(_, format)| *format == self);
        named.map_or("?", |(name, _)| name)
    }

    /// The name of the keyspace with this number, if the format has no names: a column family of
    /// RocksDB is `cf-` and its number, and the first one `default`.
    #[must_use]
    pub fn keyspace_name(self, number: u32) -> String {
        match (self, number) {
            (_, 0) => "default".to_owned(),
            (Format::RocksDb | Format::RocksDbText, number) => format!("cf-{number}"),
            (_, number) => format!("keyspace-{number}"),
        }
    }
}

/// What is believed of a source beyond what its owner documents.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum ReadSizes {
    /// The size of a read is that of the value that it found, and 0 says that it found nothing: the
    /// convention of the keepers of these traces.
    #[default]
    Found,
    /// Nothing is known of what reads found, unless the source counts its hits.
    Ignored,
}

impl Format {
    /// Whether its reads have a size whose meaning is a convention: see [`ReadSizes`].
    #[must_use]
    pub fn has_read_sizes(self) -> bool {
        matches!(self, Format::TwitterCsv | Format::MetaCsv)
    }

    /// How far times can be believed in a source with this beginning.
    #[must_use]
    pub fn times(self, begin: &[u8]) -> Times {
        match self {
            Format::EvenDb | Format::RocksDb | Format::RocksDbText => Times::Exact,
            Format::TwitterCsv => Times::Seconds,
            Format::MetaCsv if meta::has_times(begin) => Times::Seconds,
            Format::MetaCsv | Format::YcsbText => Times::Order,
        }
    }

    /// The wall clock at which a source with this beginning starts, in milliseconds since 1970; 0
    /// if the format does not tell it. RocksDB's times are microseconds of the wall clock.
    #[must_use]
    pub fn wall_clock_millis(self, begin: &[u8]) -> u64 {
        match self {
            Format::RocksDb => rocksdb::begin_micros(begin) / 1000,
            Format::RocksDbText => rocksdb_text::begin_micros(begin) / 1000,
            _ => 0,
        }
    }
}

/// The packer of a file with this beginning, if it is packed. Traces are published in this form,
/// and `evendb trace convert` unpacks them.
fn packed_by(begin: &[u8]) -> Option<&'static str> {
    let packings: [(&[u8], _); 2] = [
        (b"\x1f\x8b\x08", "gzip"),
        (b"\x28\xb5\x2f\xfd", "Zstandard"),
    ];
    let packing = packings.iter().find(|(mark, _)| begin.starts_with(mark));
    packing.map(|(_, name)| *name)
}

/// Opens a trace of EvenDB's format. If the source has another format, the error names it, and the
/// command that converts it.
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

/// What was read from a source, and what could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Imported {
    /// Operations that were given.
    pub operations: u64,
    /// Lines or records that do not follow the format.
    pub bad: u64,
    /// The place and the reason of the first bad one.
    pub first_bad: Option<String>,
    /// The source ends in the middle of something, or has no end where its format has one.
    pub is_torn: bool,
    /// Operations whose time is before that of an earlier operation.
    pub times_back: u64,
    /// The source has times of whole seconds: the operations of a second were spread evenly over
    /// it.
    pub spread: bool,
    /// Operations from lines that stand for several: their order within the line is made up.
    pub counted: u64,
    /// Among them, reads from lines in which some reads found something and others did not. The
    /// ones that did are given first.
    pub mixed: u64,
    /// Operations that are no merges and were read as merges, by their names in the source.
    pub as_merges: BTreeMap<&'static str, u64>,
    /// Operations that put a value under a condition and were read as puts, by their names in the
    /// source.
    pub as_puts: BTreeMap<&'static str, u64>,
}

impl Imported {
    fn note_bad(&mut self, place: impl FnOnce() -> String) {
        self.bad += 1;
        if self.first_bad.is_none() {
            self.first_bad = Some(place());
        }
    }
}

/// Gives each operation of `from` to `each`, with the usual conventions.
///
/// # Errors
/// As [`read_with`].
pub fn read(
    format: Format,
    from: &mut dyn BufRead,
    each: &mut dyn FnMut(&Operation) -> Result<()>,
) -> Result<Imported> {
    read_with(format, ReadSizes::Found, from, each)
}

/// Gives each operation of `from` to `each`.
///
/// # Errors
/// `NotATrace` if the beginning does not follow the format; `UnsupportedVersion`; `Damaged` if
/// EvenDB's header is; `Io`; the errors of `each`.
pub fn read_with(
    format: Format,
    sizes: ReadSizes,
    from: &mut dyn BufRead,
    each: &mut dyn FnMut(&Operation) -> Result<()>,
) -> Result<Imported> {
    match format {
        Format::EvenDb => own::read(from, each),
        Format::RocksDb => rocksdb::read(from, each),
        Format::RocksDbText => text::read(from, each, &mut rocksdb_text::Lines::default()),
        Format::TwitterCsv => text::read(from, each, &mut twitter::Lines::new(sizes)),
        Format::MetaCsv => text::read(from, each, &mut meta::Lines::new(sizes)),
        Format::YcsbText => text::read(from, each, &mut ycsb::Lines::default()),
    }
}

/// Writes an operation as a line of RocksDB's readable form. False if that form has no such
/// operation.
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
