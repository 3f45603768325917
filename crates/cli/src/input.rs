//! Turns lines of text into key-value pairs: TSV, CSV (RFC 4180) and JSON Lines.
//!
//! * **tsv**: one record a line, fields between tabs, no quoting; every byte but tab and line feed
//!   stands for itself (a carriage return too).
//! * **csv**: RFC 4180, quoted fields may span lines; every record has as many fields as the first.
//! * **jsonl**: one JSON object a line; columns are its members. A text member is its text, any
//!   other value its JSON.
//!
//! Columns are numbers from 1, or names where the input has a header (csv, tsv) or members (jsonl).
//! The value is one named column; or, without that, what is left beside the key columns: the one
//! other column, several joined as they were (tabs, CSV), or the whole JSON object.
//!
//! A bad line is returned as such, with its reason, its number and its bytes; reading goes on with
//! the next. Nothing is skipped silently.

use std::io::{self, BufRead};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::csv::{self, Fields, Parsed};
use crate::failure::Failure;
use crate::keys::{ColumnType, KeyEncoder};

/// The longest key a database takes.
const KEY_BYTES_MAX: usize = 65_535;

/// The most lines that one quoted CSV record may span: an opening quote that is never closed must
/// not swallow the rest of the input.
const CSV_LINES_MAX: u64 = 10_000;

/// The input's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Fields between tabs
    Tsv,
    /// RFC 4180
    Csv,
    /// One JSON object a line
    Jsonl,
}

/// How to read the input.
#[derive(Args, Clone, Debug)]
pub struct InputArguments {
    /// The input's format
    #[arg(long, value_enum, default_value = "tsv")]
    pub format: Format,
    /// Columns that make up the key: numbers from 1, or names; a type may follow as in `time:u64`.
    /// The first column if not given (jsonl has no first one)
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub key_columns: Vec<ColumnArgument>,
    /// Types of the key columns, in their order: str, u64, i64
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    pub key_types: Vec<ColumnType>,
    /// The column that is the value; what is left beside the key if not given
    #[arg(long, value_name = "COLUMN")]
    pub value_column: Option<String>,
    /// Leave out the first line (names in --key-columns or --value-column imply it)
    #[arg(long)]
    pub skip_header: bool,
}

/// A column as written in the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnArgument {
    name: String,
    kind: Option<ColumnType>,
}

impl FromStr for ColumnArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A name may itself hold a colon; only a known type behind the last one is a type.
        let (name, kind) = match text.rsplit_once(':') {
            Some((name, kind)) if kind.parse::<ColumnType>().is_ok() => (name, kind.parse().ok()),
            _ => (text, None),
        };
        if name.is_empty() {
            return Err("a column needs a number or a name".to_owned());
        }
        Ok(Self {
            name: name.to_owned(),
            kind,
        })
    }
}

impl InputArguments {
    fn key_columns(&self) -> Result<Vec<ColumnArgument>, Failure> {
        match (self.key_columns.is_empty(), self.format) {
            (false, _) => Ok(self.key_columns.clone()),
            (true, Format::Jsonl) => Err(Failure::Usage(
                "jsonl needs --key-columns, its members' names".to_owned(),
            )),
            (true, _) => Ok(vec![ColumnArgument {
                name: "1".to_owned(),
                kind: None,
            }]),
        }
    }

    /// The types of the key's columns, from both places where they may be given.
    fn types(&self, key_columns: &[ColumnArgument]) -> Result<Vec<ColumnType>, Failure> {
        let given = self.key_types.len();
        if given > 0 && given != key_columns.len() {
            let columns = key_columns.len();
            return Err(Failure::Usage(format!(
                "{given} key types for {columns} key columns"
            )));
        }
        let typed = |(index, column): (usize, &ColumnArgument)| match (
            column.kind,
            self.key_types.get(index).copied(),
        ) {
            (Some(one), Some(other)) if one != other => Err(Failure::Usage(format!(
                "two different types are given for key column `{}`",
                column.name
            ))),
            (one, other) => Ok(one.or(other).unwrap_or(ColumnType::Text)),
        };
        key_columns.iter().enumerate().map(typed).collect()
    }

    fn needs_header(&self) -> bool {
        let mut names = self
            .key_columns
            .iter()
            .map(|column| &column.name)
            .chain(&self.value_column);
        self.format != Format::Jsonl && names.any(|name| name.parse::<usize>().is_err())
    }
}

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
    types: Vec<ColumnType>,
    key_columns: Vec<usize>,
    key_names: Vec<String>,
    value_column: Option<usize>,
    value_name: Option<String>,
    fields: Fields,
    fields_expected: Option<usize>,
    cells: Vec<std::ops::Range<usize>>,
    raw: Vec<u8>,
    first_line: u64,
    lines: u64,
    bytes: u64,
    /// The key of the last pair.
    pub key: Vec<u8>,
    /// The value of the last pair.
    pub value: Vec<u8>,
}

impl PairReader {
    /// Prepares to read; reads the header where there is one.
    pub fn new(source: Box<dyn BufRead>, arguments: &InputArguments) -> Result<Self, Failure> {
        let key_columns = arguments.key_columns()?;
        let names = |columns: &[ColumnArgument]| columns.iter().map(|c| c.name.clone()).collect();
        let mut reader = Self {
            source,
            format: arguments.format,
            types: arguments.types(&key_columns)?,
            key_columns: Vec::new(),
            key_names: names(&key_columns),
            value_column: None,
            value_name: arguments.value_column.clone(),
            fields: Fields::default(),
            fields_expected: None,
            cells: Vec::new(),
            raw: Vec::new(),
            first_line: 0,
            lines: 0,
            bytes: 0,
            key: Vec::new(),
            value: Vec::new(),
        };
        let header = if arguments.needs_header() || arguments.skip_header {
            reader
                .header()
                .map_err(|error| Failure::new("cannot read the header", error))?
        } else {
            Vec::new()
        };
        if arguments.format != Format::Jsonl {
            let find = |name: &String| column_index(name, &header);
            reader.key_columns = reader
                .key_names
                .iter()
                .map(find)
                .collect::<Result<_, _>>()?;
            reader.value_column = reader.value_name.as_ref().map(find).transpose()?;
        }
        Ok(reader)
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
        self.raw.clear();
        if !self.append_line()? {
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
        };
        Ok(match outcome.and_then(|()| self.check_key()) {
            Ok(()) => Step::Pair,
            Err(why) => Step::Bad(why),
        })
    }

    fn check_key(&self) -> Result<(), String> {
        match self.key.len() {
            0 => Err("the key is empty".to_owned()),
            bytes if bytes > KEY_BYTES_MAX => Err(format!(
                "the key has {bytes} bytes, more than {KEY_BYTES_MAX}"
            )),
            _ => Ok(()),
        }
    }

    fn header(&mut self) -> io::Result<Vec<String>> {
        self.raw.clear();
        if !self.append_line()? {
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
            Format::Tsv => self.raw.split(|&byte| byte == b'\t').map(text).collect(),
            Format::Jsonl => Vec::new(),
        })
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
        Ok(true)
    }

    fn split_tsv(&mut self) -> Result<(), String> {
        self.cells.clear();
        let mut start = 0;
        for field in self.raw.split(|&byte| byte == b'\t') {
            self.cells.push(start..start + field.len());
            start += field.len() + 1;
        }
        let (raw, cells) = (&self.raw, &self.cells);
        let field = |index: usize| cells.get(index).map(|range| &raw[range.clone()]);
        encode_key(&mut self.key, &self.key_columns, &self.types, field)?;
        self.value.clear();
        if let Some(column) = self.value_column {
            self.value
                .extend_from_slice(field(column).ok_or_else(|| missing(column))?);
            return Ok(());
        }
        let mut first = true;
        for (index, range) in cells.iter().enumerate() {
            if !self.key_columns.contains(&index) {
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
                let record = self.raw.strip_suffix(b"\r").unwrap_or(&self.raw);
                match self.fields.parse(record) {
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
                    "{found} fields where the first record has {expected}"
                )),
            }),
        )
    }

    fn pair_of_fields(&mut self) -> Result<(), String> {
        let fields = &self.fields;
        encode_key(&mut self.key, &self.key_columns, &self.types, |index| {
            fields.get(index)
        })?;
        self.value.clear();
        if let Some(column) = self.value_column {
            self.value
                .extend_from_slice(fields.get(column).ok_or_else(|| missing(column))?);
            return Ok(());
        }
        let left: Vec<&[u8]> = (0..fields.len())
            .filter(|index| !self.key_columns.contains(index))
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
        let object: Value = serde_json::from_slice(&self.raw)
            .map_err(|error| format!("this is no JSON: {error}"))?;
        let Value::Object(members) = object else {
            return Err("this is no JSON object".to_owned());
        };
        let text = |name: &String| match members.get(name) {
            None => Err(format!("there is no member `{name}`")),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Ok(other.to_string()),
        };
        let mut encoder = KeyEncoder::new(&mut self.key, self.types.len());
        for (name, kind) in self.key_names.iter().zip(&self.types) {
            encoder.push(*kind, text(name)?.as_bytes())?;
        }
        self.value.clear();
        match &self.value_name {
            Some(name) => self.value.extend_from_slice(text(name)?.as_bytes()),
            None => self.value.extend_from_slice(self.raw.trim_ascii()),
        }
        Ok(())
    }
}

fn encode_key<'a>(
    key: &mut Vec<u8>,
    columns: &[usize],
    types: &[ColumnType],
    field: impl Fn(usize) -> Option<&'a [u8]>,
) -> Result<(), String> {
    let mut encoder = KeyEncoder::new(key, types.len());
    for (&column, &kind) in columns.iter().zip(types) {
        encoder.push(kind, field(column).ok_or_else(|| missing(column))?)?;
    }
    Ok(())
}

fn missing(column: usize) -> String {
    format!("there is no column {}", column + 1)
}

fn column_index(name: &String, header: &[String]) -> Result<usize, Failure> {
    if let Some(index) = header.iter().position(|title| title == name) {
        return Ok(index);
    }
    match name.parse::<usize>() {
        Ok(number) if number > 0 => Ok(number - 1),
        Ok(_) => Err(Failure::Usage("columns are numbered from 1".to_owned())),
        Err(_) => {
            let titles = header.join(", ");
            Err(Failure::Usage(format!(
                "there is no column `{name}`; the header has: {titles}"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Wrapper {
        #[command(flatten)]
        input: InputArguments,
    }

    fn read(arguments: &str, text: &str) -> Vec<Result<(String, String), (u64, String)>> {
        let arguments = Wrapper::parse_from(format!("x {arguments}").split_whitespace()).input;
        let source = Box::new(io::Cursor::new(text.to_owned()));
        let mut reader = PairReader::new(source, &arguments).unwrap();
        let mut found = Vec::new();
        loop {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            match reader.step().unwrap() {
                Step::End => return found,
                Step::Bad(why) => found.push(Err((reader.line(), why))),
                Step::Pair => found.push(Ok((text(&reader.key), text(&reader.value)))),
            }
        }
    }

    fn good(arguments: &str, text: &str) -> Vec<(String, String)> {
        read(arguments, text)
            .into_iter()
            .map(Result::unwrap)
            .collect()
    }

    fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
        pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn tsv_columns_become_key_and_value() {
        assert_eq!(
            good("", "a\tb\tc\nd\te"),
            pairs([("a", "b\tc"), ("d", "e")])
        );
        assert_eq!(good("--value-column 3", "a\tb\tc\n"), pairs([("a", "c")]));
        assert_eq!(good("--key-columns 2", "a\tb\tc\n"), pairs([("b", "a\tc")]));
        assert_eq!(good("--skip-header", "k\tv\na\tb\n"), pairs([("a", "b")]));
        assert_eq!(good("--key-columns k", "v\tk\nb\ta\n"), pairs([("a", "b")]));
        assert_eq!(
            good("--key-columns 1,2", "a\tb\tc\n"),
            pairs([("a\0\u{1}b\0\u{1}", "c")])
        );
        assert_eq!(good("", "only\n"), pairs([("only", "")]));
    }

    #[test]
    fn csv_records_span_lines() {
        let text = "k,v,w\r\n\"a,1\",\"x\ny\",z\r\nb,\"q\"\"\",\r\n";
        assert_eq!(
            good("--format csv --skip-header", text),
            pairs([("a,1", "\"x\ny\",z"), ("b", "\"q\"\"\",")])
        );
        assert_eq!(
            good("--format csv --key-columns k --value-column v", text),
            pairs([("a,1", "x\ny"), ("b", "q\"")])
        );
    }

    #[test]
    fn json_members_become_key_and_value() {
        let text = "{\"app\":\"x\",\"time\":-5,\"v\":{\"a\":1}}\n";
        assert_eq!(
            good("--format jsonl --key-columns app --value-column v", text),
            pairs([("x", "{\"a\":1}")])
        );
        assert_eq!(
            good("--format jsonl --key-columns app", text)[0].1,
            text.trim()
        );
        let wrong = read("--format jsonl --key-columns app,time:u64", text);
        assert!(wrong[0].as_ref().unwrap_err().1.contains("`-5` is no u64"));
    }

    #[test]
    fn bad_lines_are_told_with_their_numbers_and_reading_goes_on() {
        let numbers = |arguments: &str, text: &str| {
            read(arguments, text)
                .into_iter()
                .filter_map(Result::err)
                .map(|bad| bad.0)
                .collect::<Vec<u64>>()
        };
        assert_eq!(numbers("--value-column 2", "a\tb\nbad\n\nc\td\n"), [2, 3]);
        assert_eq!(
            numbers("--key-columns 1:u64", "1\ta\nx\tb\n2\tc\n-3\td\n"),
            [2, 4]
        );
        assert_eq!(
            numbers("--format csv", "a,b\nc\nd,\"e\nf\"\ng\"h,i\nj,k\n"),
            [2, 5]
        );
        assert_eq!(numbers("--format csv", "a,b\nc,\"d\ne,f\n"), [2]);
        let stray = read("--format csv", "a,b\nc\"d,e\nf,g\n");
        assert!(
            stray[1].is_err() && stray[2].is_ok(),
            "a stray quote costs only its line"
        );
        assert_eq!(
            numbers(
                "--format jsonl --key-columns k",
                "{\"k\":1}\n{\n[]\n{}\n{\"k\":\"\"}\n"
            ),
            [2, 3, 4, 5]
        );
        let long = "k".repeat(KEY_BYTES_MAX);
        assert!(numbers("", &format!("{long}\tv\n")).is_empty());
        assert_eq!(numbers("", &format!("{long}k\tv\n")), [1]);
    }

    #[test]
    fn contradictory_arguments_are_refused() {
        for arguments in [
            "--format jsonl",
            "--key-types u64,str",
            "--key-columns 1:u64 --key-types i64",
            "--key-columns 0",
        ] {
            let parsed = Wrapper::parse_from(format!("x {arguments}").split_whitespace()).input;
            let outcome = PairReader::new(Box::new(io::empty()), &parsed);
            assert!(
                matches!(outcome.err(), Some(Failure::Usage(_))),
                "{arguments}"
            );
        }
        let named = Wrapper::parse_from(["x", "--key-columns", "nope"]).input;
        assert!(PairReader::new(Box::new(io::Cursor::new("a\tb\n")), &named).is_err());
    }
}
