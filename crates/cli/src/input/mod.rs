//! Turns lines of text into key-value pairs: TSV, CSV (RFC 4180), JSON Lines, and what `scan` prints.
//!
//! * **tsv**: one record a line, fields between tabs, no quoting and no escapes; every byte but tab
//!   and line end stands for itself.
//! * **csv**: RFC 4180, quoted fields may span lines; every record has as many fields as the first.
//! * **jsonl**: one JSON object a line; columns are its members. A text is what it says, a number
//!   is its digits as they are written; what is no key (null, booleans, arrays, objects, a member
//!   that is not there or there twice) makes a bad line. As a value a text is what it says, and
//!   anything else its JSON as it is written.
//! * **scan-tsv**, **scan-json**: see `scan_output.rs`; here a key may be empty.
//!
//! Columns are numbers from 1, or names where the input has a header (csv, tsv) or members (jsonl).
//! The value is one named column; or, without that, what is left beside the key columns: the one
//! other column, several joined as they were (tabs, CSV), or the whole JSON object.
//!
//! In all formats a byte-order mark at the beginning is left out, and a line ends with a line feed
//! and the carriage return before it, if there is one: a field of plain TSV cannot end a line with a
//! carriage return (scan-tsv writes `\r`, CSV quotes it). An empty line is skipped and counted; in a
//! file of one column too, where it could only be an empty key.
//!
//! A bad line is returned as such, with its reason, its number and its bytes; reading goes on with
//! the next. Every line that is skipped is counted.

mod arguments;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead};
use std::time::SystemTime;

use evendb_lab::readable::counted;

pub use self::arguments::{ColumnArgument, Format, InputArguments, Wanted};
use crate::csv::{self, Fields, Parsed};
use crate::failure::Failure;
use crate::json_text::{Json, Kind};
use crate::keys::{self, ColumnType, KeyEncoder, TYPES};
use crate::scan_output;
use crate::time_text::read_time;
use crate::values::Values;

/// The longest key a database takes.
const KEY_BYTES_MAX: usize = 65_535;

/// The most lines that one quoted CSV record may span: an opening quote that is never closed must
/// not swallow the rest of the input.
const CSV_LINES_MAX: u64 = 10_000;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

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
    source: Box<dyn BufRead>,
    format: Format,
    wanted: Wanted,
    types: Vec<ColumnType>,
    values: Values,
    key_columns: Vec<usize>,
    key_names: Vec<String>,
    value_column: Option<usize>,
    value_name: Option<String>,
    expires_column: Option<usize>,
    expires_name: Option<String>,
    fields: Fields,
    fields_expected: Option<usize>,
    cells: Vec<std::ops::Range<usize>>,
    raw: Vec<u8>,
    first_line: u64,
    lines: u64,
    bytes: u64,
    blank: u64,
    /// The key of the last pair.
    pub key: Vec<u8>,
    /// The value of the last pair.
    pub value: Vec<u8>,
    /// When the last pair expires, if it does.
    pub expires: Option<SystemTime>,
}

impl PairReader {
    /// Prepares to read; reads the header where there is one.
    pub fn new(source: Box<dyn BufRead>, arguments: &InputArguments) -> Result<Self, Failure> {
        arguments.check_scanned()?;
        let key_columns = arguments.key_columns()?;
        let wanted = arguments.types(&key_columns)?;
        let names = |columns: &[ColumnArgument]| columns.iter().map(|c| c.name.clone()).collect();
        let mut reader = Self {
            source,
            format: arguments.format,
            types: Vec::new(),
            values: Values::Bytes,
            wanted,
            key_columns: Vec::new(),
            key_names: names(&key_columns),
            value_column: None,
            value_name: arguments.value_column.clone(),
            expires_column: None,
            expires_name: arguments.expires_column.clone(),
            fields: Fields::default(),
            fields_expected: None,
            cells: Vec::new(),
            raw: Vec::new(),
            first_line: 0,
            lines: 0,
            bytes: 0,
            blank: 0,
            key: Vec::new(),
            value: Vec::new(),
            expires: None,
        };
        reader.set_types(reader.wanted.resolve(None));
        let header = if arguments.needs_header() || arguments.skip_header {
            reader
                .header()
                .map_err(|error| Failure::new("cannot read the header", error))?
        } else {
            Vec::new()
        };
        if matches!(arguments.format, Format::Tsv | Format::Csv) {
            let find = |name: &String| column_index(name, &header);
            reader.key_columns = reader
                .key_names
                .iter()
                .map(find)
                .collect::<Result<_, _>>()?;
            reader.value_column = reader.value_name.as_ref().map(find).transpose()?;
            reader.expires_column = reader.expires_name.as_ref().map(find).transpose()?;
        }
        Ok(reader)
    }

    /// What the arguments say of the key's types.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Reads keys of these types from now on; without types a key is its bytes.
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

    /// The bytes of the last pair or bad line, without the last line end.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the next pair.
    pub fn step(&mut self) -> io::Result<Step> {
        if !self.next_line()? {
            return Ok(Step::End);
        }
        self.first_line = self.lines;
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
        };
        let outcome = outcome.and_then(|()| self.check_key());
        Ok(match outcome.and_then(|()| self.encode_value()) {
            Ok(()) => Step::Pair,
            Err(why) => Step::Bad(why),
        })
    }

    /// Makes the number of a text, where values are numbers. What `scan` printed is read as such.
    fn encode_value(&mut self) -> Result<(), String> {
        if self.values.are_numbers() && !self.format.is_scanned() {
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
                .split(|&byte| byte == b'\t')
                .map(text)
                .collect(),
            Format::Jsonl | Format::ScanTsv | Format::ScanJson => Vec::new(),
        })
    }

    /// Reads the next line that is not empty into `raw`; `false` at the end.
    fn next_line(&mut self) -> io::Result<bool> {
        loop {
            self.raw.clear();
            if !self.append_line()? {
                return Ok(false);
            }
            let empty = match self.format {
                Format::Jsonl | Format::ScanJson => self.raw.trim_ascii().is_empty(),
                _ => without_return(&self.raw).is_empty(),
            };
            if !empty {
                return Ok(true);
            }
            self.blank += 1;
        }
    }

    /// Appends a line to `raw`, without its line feed; `false` at the end.
    fn append_line(&mut self) -> io::Result<bool> {
        let read = self.source.read_until(b'\n', &mut self.raw)?;
        self.bytes += read as u64;
        if read == 0 {
            return Ok(false);
        }
        self.lines += 1;
        if self.raw.last() == Some(&b'\n') {
            self.raw.pop();
        }
        if self.lines == 1 && self.raw.starts_with(BYTE_ORDER_MARK) {
            self.raw.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(true)
    }

    fn split_tsv(&mut self) -> Result<(), String> {
        self.cells.clear();
        let mut start = 0;
        for field in without_return(&self.raw).split(|&byte| byte == b'\t') {
            self.cells.push(start..start + field.len());
            start += field.len() + 1;
        }
        let (raw, cells) = (&self.raw, &self.cells);
        let field = |index: usize| cells.get(index).map(|range| &raw[range.clone()]);
        encode_key(&mut self.key, &self.key_columns, &self.types, field)?;
        self.expires = expiry_in(self.expires_column, field)?;
        self.value.clear();
        if let Some(column) = self.value_column {
            self.value
                .extend_from_slice(field(column).ok_or_else(|| missing(column))?);
            return Ok(());
        }
        let mut first = true;
        for (index, range) in cells.iter().enumerate() {
            let is_left = !self.key_columns.contains(&index) && self.expires_column != Some(index);
            if is_left {
                if !std::mem::take(&mut first) {
                    self.value.push(b'\t');
                }
                self.value.extend_from_slice(&raw[range.clone()]);
            }
        }
        Ok(())
    }

    /// Splits the record that begins with `raw`, reading on while a quote is open.
    fn split_csv(&mut self) -> io::Result<Result<(), String>> {
        let first_line = self.lines;
        let mut parsed = 0;
        let outcome = loop {
            // An open record stays open until another quote comes, so that long quoted texts are
            // not parsed again at each of their lines.
            if parsed == 0 || self.raw[parsed..].contains(&b'"') {
                parsed = self.raw.len();
                match self.fields.parse(without_return(&self.raw)) {
                    Parsed::Complete => break Ok(()),
                    Parsed::Bad(why) => break Err(why),
                    Parsed::Open => {}
                }
            }
            let length = self.raw.len();
            self.raw.push(b'\n');
            if self.lines - first_line >= CSV_LINES_MAX || !self.append_line()? {
                self.raw.truncate(length);
                break Err(format!("a quote is still open at line {}", self.lines));
            }
        };
        let found = self.fields.len();
        Ok(
            outcome.and_then(|()| match *self.fields_expected.get_or_insert(found) {
                expected if expected == found => Ok(()),
                expected => Err(format!(
                    "{} where the first record has {expected}",
                    counted(found as u64, "field")
                )),
            }),
        )
    }

    fn pair_of_fields(&mut self) -> Result<(), String> {
        let fields = &self.fields;
        encode_key(&mut self.key, &self.key_columns, &self.types, |index| {
            fields.get(index)
        })?;
        self.expires = expiry_in(self.expires_column, |index| fields.get(index))?;
        self.value.clear();
        if let Some(column) = self.value_column {
            self.value
                .extend_from_slice(fields.get(column).ok_or_else(|| missing(column))?);
            return Ok(());
        }
        let left: Vec<&[u8]> = (0..fields.len())
            .filter(|index| !self.key_columns.contains(index))
            .filter(|&index| self.expires_column != Some(index))
            .filter_map(|index| fields.get(index))
            .collect();
        if let [only] = left[..] {
            self.value.extend_from_slice(only);
            return Ok(());
        }
        for (index, field) in left.into_iter().enumerate() {
            if index > 0 {
                self.value.push(b',');
            }
            csv::push_field(field, &mut self.value);
        }
        Ok(())
    }

    fn pair_of_object(&mut self) -> Result<(), String> {
        let object = Json::parse(&self.raw)?;
        if object.kind() != Kind::Object {
            return Err("this is no JSON object".to_owned());
        }
        let mut encoder = KeyEncoder::new(&mut self.key, self.types.len());
        for (name, kind) in self.key_names.iter().zip(&self.types) {
            let found = member(object, name)?;
            match found.kind() {
                Kind::Text => keys::push(&mut encoder, kind, found.string()?.as_bytes())?,
                Kind::Number if keys::takes_number(kind) => {
                    keys::push(&mut encoder, kind, found.text().as_bytes())?;
                }
                Kind::Boolean if *keys::text_type(kind) == ColumnType::Bool => {
                    keys::push(&mut encoder, kind, found.text().as_bytes())?;
                }
                other => {
                    let other = other.name();
                    return Err(format!(
                        "member `{name}` is {other}, which is no key of {kind}"
                    ));
                }
            }
        }
        self.expires = match &self.expires_name {
            Some(name) => {
                let found = member(object, name)?;
                match found.kind() {
                    Kind::Text => expiry_of(found.string()?.as_bytes())?,
                    Kind::Null => None,
                    _ => expiry_of(found.text().as_bytes())?,
                }
            }
            None => None,
        };
        self.value.clear();
        match &self.value_name {
            Some(name) => {
                let found = member(object, name)?;
                match found.kind() {
                    Kind::Text => self.value.extend_from_slice(found.string()?.as_bytes()),
                    _ => self.value.extend_from_slice(found.text().as_bytes()),
                }
            }
            None => self.value.extend_from_slice(object.text().as_bytes()),
        }
        Ok(())
    }
}

/// When a record expires whose line has these fields.
fn expiry_in<'a>(
    column: Option<usize>,
    field: impl Fn(usize) -> Option<&'a [u8]>,
) -> Result<Option<SystemTime>, String> {
    match column {
        Some(column) => expiry_of(field(column).ok_or_else(|| missing(column))?),
        None => Ok(None),
    }
}

/// The time that a text says; none where it is empty.
fn expiry_of(text: &[u8]) -> Result<Option<SystemTime>, String> {
    if text.trim_ascii().is_empty() {
        return Ok(None);
    }
    let why = || {
        let text = text.escape_ascii();
        format!("`{text}` says no time of expiry: seconds since 1970, or nothing")
    };
    read_time(text).map(Some).ok_or_else(why)
}

/// The one member of this name.
fn member<'a>(object: Json<'a>, wanted: &str) -> Result<Json<'a>, String> {
    let mut found = None;
    for (name, value) in object.members() {
        if name.string()? == wanted && found.replace(value).is_some() {
            return Err(format!("member `{wanted}` is there twice"));
        }
    }
    found.ok_or_else(|| match no_such_type(wanted) {
        Some(why) => format!("there is no member `{wanted}`; {why}"),
        None => format!("there is no member `{wanted}`"),
    })
}

/// If a column's name looks as if it ended with a type, that there is no such type.
fn no_such_type(name: &str) -> Option<String> {
    let (_, kind) = name.rsplit_once(':')?;
    Some(format!("no such type `{kind}`; there are {TYPES}"))
}

/// A line without the carriage return that is part of its end.
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn encode_key<'a>(
    key: &mut Vec<u8>,
    columns: &[usize],
    types: &[ColumnType],
    field: impl Fn(usize) -> Option<&'a [u8]>,
) -> Result<(), String> {
    let mut encoder = KeyEncoder::new(key, types.len());
    for (&column, kind) in columns.iter().zip(types) {
        let field = field(column).ok_or_else(|| missing(column))?;
        keys::push(&mut encoder, kind, field)?;
    }
    Ok(())
}

fn missing(column: usize) -> String {
    format!("there is no column {}", column + 1)
}

fn column_index(name: &String, header: &[String]) -> Result<usize, Failure> {
    let mut found = (0..header.len()).filter(|&index| header[index] == *name);
    match (found.next(), found.next()) {
        (Some(_), Some(_)) => {
            return Err(Failure::Usage(format!(
                "the header has two columns `{name}`; give the column's number"
            )));
        }
        (Some(index), None) => return Ok(index),
        (None, _) => {}
    }
    match name.parse::<usize>() {
        Ok(number) if number > 0 => Ok(number - 1),
        Ok(_) => Err(Failure::Usage("columns are numbered from 1".to_owned())),
        Err(_) => {
            let titles = header.join(", ");
            let hint = no_such_type(name).map_or(String::new(), |why| format!("; {why}"));
            Err(Failure::Usage(format!(
                "there is no column `{name}`; the header has: {titles}{hint}"
            )))
        }
    }
}
