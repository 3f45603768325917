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
mod duplicates;
mod guess;
mod lines;
mod records;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead};
use std::time::SystemTime;

use evendb_lab::readable::counted;

pub use self::arguments::{ColumnArgument, Format, InputArguments, Wanted};
pub use self::duplicates::{Duplicates, Replaced};
use self::lines::Lines;
pub use self::records::Records;
use crate::csv::{self, Fields, Parsed};
use crate::escapes::unhex;
use crate::failure::Failure;
use crate::json_text::{Json, Kind};
use crate::keys::{self, ColumnType, KeyEncoder, TYPES};
use crate::ldb_text;
use crate::scan_output;
use crate::time_text::read_time;
use crate::values::Values;

/// The longest key that a database takes, in bytes.
const KEY_BYTES_MAX: usize = 65_535;

/// The highest number of lines, and of bytes, of one quoted CSV record: an opening quote that is
/// never closed must not swallow the rest of the input.
const CSV_LINES_MAX: u64 = 10_000;
const CSV_BYTES_MAX: usize = 64 << 20;

/// The highest number of lines at the beginning that are looked at for comments, and of bytes.
const COMMENTS_MAX: u64 = 1000;
const COMMENT_BYTES_MAX: usize = 64 << 20;

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

    /// Leaves out lines at the beginning that start with `#` and have another number of fields than
    /// the first line that does not start so. They are comments, and would make all later lines
    /// bad.
    fn leave_out_first_comments(&mut self) -> io::Result<()> {
        let mut hashed: Vec<Vec<u8>> = Vec::new();
        let mut other = None;
        let mut bytes = 0;
        while (hashed.len() as u64) < COMMENTS_MAX && bytes < COMMENT_BYTES_MAX {
            let mut line = Vec::new();
            if !self.lines.append(&mut line)? {
                break;
            }
            if !line.starts_with(b"#") {
                other = Some(line);
                break;
            }
            bytes += line.len();
            hashed.push(line);
        }
        let Some(other) = other else {
            let count = hashed.len() as u64;
            if count > 0 {
                self.lines.give_back(&hashed.join(&b'\n'), count);
            }
            return Ok(());
        };
        let expected = self.field_count(&other);
        let is_comment = |line: &&Vec<u8>| self.field_count(line) != expected;
        let comments = hashed.iter().take_while(is_comment).count();
        hashed.push(other);
        let kept = &hashed[comments..];
        self.lines.give_back(&kept.join(&b'\n'), kept.len() as u64);
        self.comments = comments as u64;
        if comments > 0 {
            let lines = counted(self.comments, "comment line");
            self.notes.push(format!(
                "left out: {lines} at the beginning, for what begins with `#` has not {expected} \
                 columns there, as the next line has (--comment \"\" takes such lines as records, \
                 --comment \"#\" leaves out all of them)"
            ));
        }
        Ok(())
    }

    /// About how many fields a line has.
    fn field_count(&self, line: &[u8]) -> usize {
        let line = without_return(line);
        if self.format == Format::Csv {
            let mut fields = Fields::new(self.delimiter);
            if fields.parse(line) == Parsed::Complete {
                return fields.len();
            }
        }
        1 + line.iter().filter(|&&byte| byte == self.delimiter).count()
    }

    fn split_tsv(&mut self) -> Result<(), String> {
        self.cells.clear();
        let mut start = 0;
        for field in without_return(&self.raw).split(|&byte| byte == self.delimiter) {
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
        if let Some(names) = &self.object_names {
            let is_left = left_of(&self.key_columns, self.expires_column);
            return push_object(&mut self.value, names, cells.len(), is_left, field);
        }
        let mut first = true;
        for (index, range) in cells.iter().enumerate() {
            if left_of(&self.key_columns, self.expires_column)(index) {
                if !std::mem::take(&mut first) {
                    self.value.push(self.delimiter);
                }
                self.value.extend_from_slice(&raw[range.clone()]);
            }
        }
        Ok(())
    }

    /// Splits the record that begins with `raw`, reading on while a quote is open. If that quote
    /// turns out to be a stray one, only the first line is bad, and reading goes on with the line
    /// after it.
    ///
    /// Each line is looked at a few times at most, for any input: a line that leaves a quote open
    /// has an odd number of quotes, and an open record ends at the next such line. So among the
    /// lines that are given back, only the last one can leave a quote open itself.
    fn split_csv(&mut self) -> io::Result<Result<(), String>> {
        let first = self.lines.count();
        let mut parsed = self.fields.parse(without_return(&self.raw));
        if parsed == Parsed::Open {
            let (field, first_bytes) = (self.fields.at_hand(), self.raw.len());
            let outcome = self.read_on(&mut parsed)?;
            if let Some(why) = outcome {
                let read = self.lines.count() - first;
                if read > 0 {
                    self.lines.give_back(&self.raw[first_bytes + 1..], read);
                }
                self.raw.truncate(first_bytes);
                return Ok(Err(format!("the quote that opens field {field} {why}")));
            }
        }
        if let Parsed::Bad(why) = parsed {
            return Ok(Err(why));
        }
        let found = self.fields.len();
        Ok(match *self.fields_expected.get_or_insert(found) {
            expected if expected == found => Ok(()),
            expected => Err(format!(
                "{} where the first record has {expected}",
                counted(found as u64, "field")
            )),
        })
    }

    /// Reads on until a record with an open quote is complete. Returns the reason if it never is.
    fn read_on(&mut self, parsed: &mut Parsed) -> io::Result<Option<String>> {
        let first = self.lines.count();
        loop {
            if self.lines.count() - first >= CSV_LINES_MAX || self.raw.len() >= CSV_BYTES_MAX {
                let last = self.lines.count();
                return Ok(Some(format!("is still open at line {last}")));
            }
            let has_return = self.raw.last() == Some(&b'\r');
            let between = if has_return { &b"\r\n"[..] } else { b"\n" };
            self.raw.push(b'\n');
            let start = self.raw.len();
            if !self.lines.append(&mut self.raw)? {
                self.raw.pop();
                return Ok(Some("is still open at the end of the input".to_owned()));
            }
            let line = without_return(&self.raw[start..]);
            *parsed = self.fields.parse_on(between, line);
            match parsed {
                Parsed::Complete => return Ok(None),
                Parsed::Open => {}
                Parsed::Bad(why) => {
                    let last = self.lines.count();
                    return Ok(Some(format!("is closed in line {last}, where {why}")));
                }
            }
        }
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
        let is_left = left_of(&self.key_columns, self.expires_column);
        if let Some(names) = &self.object_names {
            let field = |index| fields.get(index);
            return push_object(&mut self.value, names, fields.len(), is_left, field);
        }
        let left: Vec<&[u8]> = (0..fields.len())
            .filter(|&index| is_left(index))
            .filter_map(|index| fields.get(index))
            .collect();
        if let [only] = left[..] {
            self.value.extend_from_slice(only);
            return Ok(());
        }
        for (index, field) in left.into_iter().enumerate() {
            if index > 0 {
                self.value.push(self.delimiter);
            }
            csv::push_field(field, self.delimiter, &mut self.value);
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

/// Whether a column is left beside the key and the time of expiry.
fn left_of(key_columns: &[usize], expires_column: Option<usize>) -> impl Fn(usize) -> bool {
    move |index| !key_columns.contains(&index) && expires_column != Some(index)
}

/// Appends a JSON object of the columns without the key, each a text.
fn push_object<'a>(
    value: &mut Vec<u8>,
    names: &[String],
    count: usize,
    is_left: impl Fn(usize) -> bool,
    field: impl Fn(usize) -> Option<&'a [u8]>,
) -> Result<(), String> {
    let mut object = serde_json::Map::new();
    for index in (0..count).filter(|&index| is_left(index)) {
        let unnamed = || format!("column {} has no name in the header", index + 1);
        let name = names.get(index).ok_or_else(unnamed)?;
        let text = std::str::from_utf8(field(index).unwrap_or_default())
            .map_err(|_| format!("column `{name}` is no UTF-8, and so no text of JSON"))?;
        object.insert(name.clone(), text.into());
    }
    value.extend_from_slice(serde_json::Value::Object(object).to_string().as_bytes());
    Ok(())
}

/// The expiry of a record whose line has these fields.
fn expiry_in<'a>(
    column: Option<usize>,
    field: impl Fn(usize) -> Option<&'a [u8]>,
) -> Result<Option<SystemTime>, String> {
    match column {
        Some(column) => expiry_of(field(column).ok_or_else(|| missing(column))?),
        None => Ok(None),
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

/// The single member of this name.
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

/// If a column's name looks as if it ended with a type: the text that there is no such type.
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
