//! The records of any input: a file of text, packed or not, standard input, or the directory of a
//! LevelDB database.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use super::guess::{self, SAMPLE_BYTES};
use super::lines::is_line_too_long;
use super::{InputArguments, KEY_BYTES_MAX, PairReader, Step, Wanted};
use crate::escapes::hex;
use crate::failure::Failure;
use crate::input_stream;
use crate::interrupt::Interrupt;
use crate::keys::ColumnType;
use crate::leveldb_files;
use crate::output::complain;
use crate::values::Values;
use evendb_lab::readable::counted;
use evendb_trace::packed::{begun, peek, unpacked};

/// Reads records.
pub enum Records {
    /// Records of text.
    Text(Box<PairReader>),
    /// Records of a LevelDB database.
    LevelDb(Box<LevelDbRecords>),
}

/// The records of a LevelDB database, in the order of their keys.
pub struct LevelDbRecords {
    reader: leveldb_files::Reader,
    count: u64,
    bytes: u64,
}

impl Records {
    /// Opens the input, and says how it is read if that was not given. Returns its size too, if
    /// known.
    pub fn open(
        path: &Path,
        arguments: &InputArguments,
        interrupt: &Interrupt,
    ) -> Result<(Records, Option<u64>), Failure> {
        if leveldb_files::is_leveldb(path) {
            arguments.check_no_text()?;
            let reader = leveldb_files::Reader::open(path)?;
            for note in reader.notes() {
                complain(note);
            }
            let records = LevelDbRecords {
                reader,
                count: 0,
                bytes: 0,
            };
            return Ok((Records::LevelDb(Box::new(records)), None));
        }
        let (source, mut size) = input_stream::open(path, interrupt)?;
        let failed = |error| Failure::new(format!("cannot read {}", path.display()), error);
        let (mut source, packing) = unpacked(source).map_err(failed)?;
        if let Some(packing) = packing {
            complain(&format!("unpacked by {packing}"));
            size = None;
        }
        let mut agreed = arguments.clone();
        if arguments.format.is_some() {
            let (again, begun) = begun(source).map_err(failed)?;
            source = again;
            let sample = &begun[..begun.len().min(SAMPLE_BYTES)];
            for doubt in guess::doubts(arguments, path, sample)? {
                complain(&doubt);
            }
        } else {
            let (again, sample) = peek(source, SAMPLE_BYTES).map_err(failed)?;
            source = again;
            // After an interruption the bytes up to it mean nothing.
            if !interrupt.raised() {
                let (completed, told) = guess::completed(arguments, path, &sample)?;
                complain(&told);
                agreed = completed;
            }
        }
        let reader = PairReader::new(source, &agreed)?;
        for note in reader.notes() {
            complain(note);
        }
        Ok((Records::Text(Box::new(reader)), size))
    }

    /// What the arguments say of the key's types.
    pub fn wanted(&self) -> &Wanted {
        match self {
            Records::Text(reader) => reader.wanted(),
            Records::LevelDb(_) => &Wanted::Raw,
        }
    }

    /// Reads keys of these types from now on.
    pub fn set_types(&mut self, types: Vec<ColumnType>) {
        match self {
            Records::Text(reader) => reader.set_types(types),
            Records::LevelDb(_) => {}
        }
    }

    /// Reads values in this way from now on. LevelDB's are bytes.
    pub fn set_values(&mut self, values: Values) {
        match self {
            Records::Text(reader) => reader.set_values(values),
            Records::LevelDb(_) => {}
        }
    }

    /// Reads the next record.
    pub fn step(&mut self) -> Result<Step, Failure> {
        match self {
            Records::Text(reader) => {
                let next = reader.step();
                let at = |error: io::Error| match is_line_too_long(&error) {
                    // The error names the file.
                    true => Failure::new("cannot read the input", error),
                    false => Failure::new(format!("line {}", reader.last_line() + 1), error),
                };
                next.map_err(at)
            }
            Records::LevelDb(records) => records.step(),
        }
    }

    /// The key of the last record.
    pub fn key(&self) -> &[u8] {
        match self {
            Records::Text(reader) => &reader.key,
            Records::LevelDb(records) => records.reader.key(),
        }
    }

    /// The value of the last record.
    pub fn value(&self) -> &[u8] {
        match self {
            Records::Text(reader) => &reader.value,
            Records::LevelDb(records) => records.reader.value(),
        }
    }

    /// When the last record expires, if the input says it.
    pub fn expires(&self) -> Option<SystemTime> {
        match self {
            Records::Text(reader) => reader.expires,
            Records::LevelDb(_) => None,
        }
    }

    /// The number of the line where the last record began, or of the record if there are no lines.
    pub fn number(&self) -> u64 {
        match self {
            Records::Text(reader) => reader.line(),
            Records::LevelDb(records) => records.count,
        }
    }

    /// What the numbers count.
    pub fn unit(&self) -> &'static str {
        match self {
            Records::Text(_) => "line",
            Records::LevelDb(_) => "record",
        }
    }

    /// The last record as it was written. For a LevelDB database, in the form that `--format
    /// ldb-hex` reads.
    pub fn raw(&self) -> Cow<'_, [u8]> {
        match self {
            Records::Text(reader) => Cow::Borrowed(reader.raw()),
            Records::LevelDb(_) => {
                let line = format!("0x{} ==> 0x{}", hex(self.key()), hex(self.value()));
                Cow::Owned(line.into_bytes())
            }
        }
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        match self {
            Records::Text(reader) => reader.bytes(),
            Records::LevelDb(records) => records.bytes,
        }
    }

    /// The text about the lines that were left out.
    pub fn left_out(&self) -> String {
        let told = |count, of| match count {
            0 => String::new(),
            count => format!(", {} skipped", counted(count, of)),
        };
        match self {
            Records::Text(reader) => {
                told(reader.blank(), "empty line") + &told(reader.comments(), "comment line")
            }
            Records::LevelDb(_) => String::new(),
        }
    }
}

impl LevelDbRecords {
    fn step(&mut self) -> Result<Step, Failure> {
        if !self.reader.next()? {
            return Ok(Step::End);
        }
        self.count += 1;
        let (key, value) = (self.reader.key(), self.reader.value());
        self.bytes += (key.len() + value.len()) as u64;
        if key.len() > KEY_BYTES_MAX {
            let bytes = key.len();
            let why = format!("the key has {bytes} bytes, more than {KEY_BYTES_MAX}");
            return Ok(Step::Bad(why));
        }
        Ok(Step::Pair)
    }
}
