//! Turns lines of text into key-value pairs: TSV, CSV (RFC 4180), JSON Lines, and the output of
//! `scan`.
//!
//! * **tsv**: one record a line, fields between tabs, no quoting and no escapes; every byte except
//!   tab and line end stands for itself.
//! * **csv**: RFC 4180, quoted fields may span lines; every record has the same number of fields as
//!   the first.
//! * **jsonl**: one JSON object a line; columns are its members. A text gives its content, a number
//!   its digits as they are written. A member that cannot be a key makes a bad line: null,
//!   booleans, arrays, objects, a member that is missing or there twice. As a value, a text gives
//!   its content, and anything else its JSON as it is written.
//! * **scan-tsv**, **scan-json**: see `scan_output.rs`; here a key may be empty.
//! * **ldb-hex**: see `ldb_text.rs`; a key may be empty.
//!
//! [`PairReader`] reads one line after the other here; `fields.rs` has those of fields, `object.rs`
//! JSON objects, `comments.rs` what is left out at the beginning.
//!
//! `records.rs` is the way to all input. It also unpacks packed files (`packed` of `studio/trace`),
//! guesses the format if none is given (`guess.rs`), and reads the directory of a LevelDB database
//! (`leveldb_files`).
//!
//! Columns are numbers from 1, or names if the input has a header (csv, tsv) or members (jsonl).
//! The value is one named column. Without that, it is the columns without the key: the one other
//! column, or several joined as they were (tabs, CSV) or as a JSON object of texts, or the whole
//! JSON object. Another delimiter takes the place of tabs and commas.
//!
//! In all formats a byte-order mark at the beginning is left out. A line ends with a line feed and
//! the carriage return before it, if there is one: a field of plain TSV cannot end a line with a
//! carriage return (scan-tsv writes `\r`, CSV quotes it). An empty line is skipped and counted.
//! This holds in a file of one column too, where it could only be an empty key.
//!
//! A bad line is returned as such, with its reason, its number and its bytes; reading goes on with
//! the next. Every line that is skipped is counted.

mod arguments;
mod comments;
mod duplicates;
mod fields;
mod guess;
pub(crate) mod input_stream;
pub(crate) mod leveldb_files;
mod lines;
mod object;
mod records;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead};
use std::time::SystemTime;

use evendb_lab::readable::counted;

pub use self::arguments::{ColumnArgument, Format, InputArguments, Wanted};
pub use self::duplicates::{Duplicates, Replaced};
use self::fields::column_index;
use self::lines::Lines;
pub use self::records::Records;
use crate::csv::Fields;
use crate::escapes::unhex;
use crate::failure::Failure;
use crate::keys::{ColumnType, TYPES};
use crate::ldb_text;
use crate::scan_output;
use crate::time_text::read_time;
use crate::values::Values;

/// The longest key that a database takes, in bytes.
const KEY_BYTES_MAX: usize = 65_535;

/// What the reader found.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A pair, in the reader's `key` and `value`.
    Pair,
    /// A bad line, for this reason.
    Bad(String),
    /// The end.
    End,
}

/// Reads pairs.
pub struct PairReader {
    lines: Lines,
    format: Format,
    delimiter: u8,
    comment: Vec<u8>,
    wanted: Wanted,
    types: Vec<ColumnType>,
    values: Values,
    key_columns: Vec<usize>,
    key_names: Vec<String>,
    value_column: Option<usize>,
    value_name: Option<String>,
    /// Names of all columns, if the value is an object of them.
    object_names: Option<Vec<String>>,
    is_hex: bool,
    expires_column: Option<usize>,
    expires_name: Option<String>,
    fields: Fields,
    fields_expected: Option<usize>,
    cells: Vec<std::ops::Range<usize>>,
    raw: Vec<u8>,
    first_line: u64,
    /// Lines since the beginning, or since the last count that `ldb dump` wrote.
    dumped: u64,
    blank: u64,
    comments: u64,
    notes: Vec<String>,
    /// The key of the last pair.
    pub key: Vec<u8>,
    /// The value of the last pair.
    pub value: Vec<u8>,
    /// When the last pair expires, if it does.
    pub expires: Option<SystemTime>,
}

impl PairReader {
    /// Prepares to read. Reads the header if there is one.
    pub fn new(source: Box<dyn BufRead>, arguments: &InputArguments) -> Result<Self, Failure> {
        arguments.check()?;
        let key_columns = arguments.key_columns()?;
        let wanted = arguments.types(&key_columns)?;
        let names = |columns: &[ColumnArgument]| columns.iter().map(|c| c.name.clone()).collect();
        let mut reader = Self {
            lines: Lines::new(source, arguments.line_bytes_max),
            format: arguments.format(),
            delimiter: arguments.delimiter(),
            comment: arguments.comment.clone().unwrap_or_default().into_bytes(),
            types: Vec::new(),
            values: Values::Bytes,
            wanted,
            key_columns: Vec::new(),
            key_names: names(&key_columns),
            value_column: None,
            value_name: arguments.value_column.clone(),
            object_names: None,
            is_hex: arguments.hex,
            expires_column: None,
            expires_name: arguments.expires_column.clone(),
            fields: Fields::new(arguments.delimiter()),
            fields_expected: None,
            cells: Vec::new(),
            raw: Vec::new(),
            first_line: 0,
            dumped: 0,
            blank: 0,
            comments: 0,
            notes: Vec::new(),
            key: Vec::new(),
            value: Vec::new(),
            expires: None,
        };
        reader.set_types(reader.wanted.resolve(None));
        let has_header = arguments.needs_header() || arguments.skip_header;
        if arguments.comment.is_none() && (has_header || reader.format == Format::Csv) {
            let looked = reader.leave_out_first_comments();
            looked.map_err(|error| Failure::new("cannot read the first lines", error))?;
        }
        let header = if has_header {
            reader
                .header()
                .map_err(|error| Failure::new("cannot read the header", error))?
        } else {
            Vec::new()
        };
        if reader.format.has_columns() {
            let find = |name: &String| column_index(name, &header);
            reader.key_columns = reader
                .key_names
                .iter()
                .map(find)
                .collect::<Result<_, _>>()?;
            reader.value_column = reader.value_name.as_ref().map(find).transpose()?;
            reader.expires_column = reader.expires_name.as_ref().map(find).transpose()?;
        }
        if arguments.json_values {
            let mut names: Vec<&String> = header.iter().collect();
            names.sort_unstable();
            if let Some(twice) = names.windows(2).find(|two| two[0] == two[1]) {
                let message = format!("--json-values: the header has two columns `{}`", twice[0]);
                return Err(Failure::Usage(message));
            }
            reader.object_names = Some(header);
        }
        Ok(reader)
    }

    /// What the arguments say of the key's types.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// From now on reads keys of these types. Without types a key is its bytes.
    pub fn set_types(&mut self, types: Vec<ColumnType>) {
        self.types = match types.is_empty() && !self.format.is_scanned() {
            true => vec![ColumnType::Text],
            false => types,
        };
    }

    /// Reads values of this kind from now on.
    pub fn set_values(&mut self, values: Values) {
        self.values = values;
    }

    /// Empty lines skipped so far.
    pub fn blank(&self) -> u64 {
        self.blank
    }

    /// The number of the first line of the last pair or bad line, from 1.
    pub fn line(&self) -> u64 {
        self.first_line
    }

    /// The number of lines that were read.
    pub fn last_line(&self) -> u64 {
        self.lines.count()
    }

    /// The bytes of the last pair or bad line, without the last line end.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.lines.bytes()
    }

    /// Comment lines left out so far.
    pub fn comments(&self) -> u64 {
        self.comments
    }

    /// What the user should know of how the input is read.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Reads the next pair.
    pub fn step(&mut self) -> io::Result<Step> {
        loop {
            if !self.next_line()? {
                return Ok(Step::End);
            }
            self.first_line = self.lines.count();
            if self.format != Format::LdbHex {
                break;
            }
            let Some(count) = ldb_text::count(without_return(&self.raw)) else {
                self.dumped += 1;
                break;
            };
            let found = std::mem::take(&mut self.dumped);
            if count != found {
                let found = counted(found, "line");
                let why =
                    format!("`ldb` counted {count} keys, and there are {found} before this one");
                return Ok(Step::Bad(why));
            }
        }
        let outcome = match self.format {
            Format::Tsv => self.split_tsv(),
            Format::Csv => match self.split_csv()? {
                Ok(()) => self.pair_of_fields(),
                Err(why) => Err(why),
            },
            Format::Jsonl => self.pair_of_object(),
            Format::ScanTsv | Format::ScanJson => {
                let read = match self.format {
                    Format::ScanTsv => scan_output::read_tsv,
                    _ => scan_output::read_json,
                };
                let line = without_return(&self.raw);
                let of = (&self.types[..], self.values);
                read(line, of, &mut self.key, &mut self.value)
            }
            Format::LdbHex => {
                ldb_text::read(without_return(&self.raw), &mut self.key, &mut self.value)
            }
        };
        let outcome = outcome.and_then(|()| self.read_hex());
        let outcome = outcome.and_then(|()| self.check_key());
        Ok(match outcome.and_then(|()| self.encode_value()) {
            Ok(()) => Step::Pair,
            Err(why) => Step::Bad(why),
        })
    }

    /// Decodes hexadecimal digits, if key and value are written in them.
    fn read_hex(&mut self) -> Result<(), String> {
        if self.is_hex {
            for text in [&mut self.key, &mut self.value] {
                *text = unhex(text.strip_prefix(b"0x").unwrap_or(text))?;
            }
        }
        Ok(())
    }

    /// Makes the value's bytes from the text of a number, if values are numbers. The output of
    /// `scan` is read back, and hexadecimal digits are the value's bytes.
    fn encode_value(&mut self) -> Result<(), String> {
        let is_text = !self.format.is_scanned() && !self.is_hex && self.format != Format::LdbHex;
        if self.values.are_numbers() && is_text {
            self.value = self.values.of_text(&self.value)?.into_owned();
        }
        Ok(())
    }

    fn check_key(&self) -> Result<(), String> {
        match self.key.len() {
            0 if !self.format.is_scanned() => Err("the key is empty".to_owned()),
            bytes if bytes > KEY_BYTES_MAX => Err(format!(
                "the key has {bytes} bytes, more than {KEY_BYTES_MAX}"
            )),
            _ => Ok(()),
        }
    }

    fn header(&mut self) -> io::Result<Vec<String>> {
        if !self.next_line()? {
            return Ok(Vec::new());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(match self.format {
            Format::Csv => {
                if let Err(why) = self.split_csv()? {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
                let fields = &self.fields;
                (0..fields.len())
                    .filter_map(|index| fields.get(index))
                    .map(text)
                    .collect()
            }
            Format::Tsv => without_return(&self.raw)
                .split(|&byte| byte == self.delimiter)
                .map(text)
                .collect(),
            Format::Jsonl | Format::ScanTsv | Format::ScanJson | Format::LdbHex => Vec::new(),
        })
    }

    /// Reads the next line that is not empty and no comment into `raw`. `false` at the end.
    fn next_line(&mut self) -> io::Result<bool> {
        loop {
            self.raw.clear();
            if !self.lines.append(&mut self.raw)? {
                return Ok(false);
            }
            let empty = match self.format {
                Format::Jsonl | Format::ScanJson => self.raw.trim_ascii().is_empty(),
                _ => without_return(&self.raw).is_empty(),
            };
            if empty {
                self.blank += 1;
            } else if !self.comment.is_empty() && self.raw.starts_with(&self.comment) {
                self.comments += 1;
            } else {
                return Ok(true);
            }
        }
    }
}

/// The time that a text means. None if it is empty.
fn expiry_of(text: &[u8]) -> Result<Option<SystemTime>, String> {
    if text.trim_ascii().is_empty() {
        return Ok(None);
    }
    let why = || {
        let text = text.escape_ascii();
        format!(
            "`{text}` says no time of expiry: seconds since 1970, or as 2026-01-31T12:00:00Z, or nothing"
        )
    };
    read_time(text).map(Some).ok_or_else(why)
}

/// If a column's name looks as if it ended with a type: the text that there is no such type.
fn no_such_type(name: &str) -> Option<String> {
    let (_, kind) = name.rsplit_once(':')?;
    Some(format!("no such type `{kind}`; there are {TYPES}"))
}

/// A line without the carriage return that is part of its end.
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
