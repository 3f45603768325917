//! What the arguments say of an input: its format, its columns, their types.

use std::str::FromStr;

use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::key_types::KeyTypes;
use crate::keys::{ColumnType, column_type};
use crate::open::DEFAULT_MEMORY_BYTES;

/// The input's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Fields between tabs, without escapes; a carriage return that ends a line is left out
    Tsv,
    /// RFC 4180
    Csv,
    /// One JSON object a line
    Jsonl,
    /// What `scan --output tsv` prints: the key's columns, the value, with escapes \t \n \r \\ \xNN
    ScanTsv,
    /// What `scan --output json` prints
    ScanJson,
    /// What RocksDB's tool prints by `ldb dump --hex` or `ldb scan --hex`: 0xKEY ==> 0xVALUE
    LdbHex,
}

impl Format {
    /// Whether columns stand between delimiters.
    pub fn has_columns(self) -> bool {
        matches!(self, Self::Tsv | Self::Csv)
    }

    /// Whether a line is a record by itself, without columns to choose.
    pub fn is_scanned(self) -> bool {
        matches!(self, Self::ScanTsv | Self::ScanJson | Self::LdbHex)
    }
}

/// How to read the input.
#[derive(Args, Clone, Debug)]
pub struct InputArguments {
    /// The input's format; if not given, it is guessed by the file's name and its first lines, and
    /// told
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// The separator of columns in tsv and csv: one character, or `tab`; a tab in tsv, a comma in
    /// csv if not given
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter, allow_hyphen_values = true)]
    pub delimiter: Option<u8>,
    /// Leave out lines that begin with this. If not given, only lines at the beginning of an input
    /// with a fixed number of columns that begin with `#` and have another number of columns; if
    /// empty, none
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub comment: Option<String>,
    /// Columns that make up the key: numbers from 1, or names; a type may follow as in `time:u64`.
    /// The first column if not given (jsonl has no first one)
    #[arg(
        long,
        value_name = "COLUMNS",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub key_columns: Vec<ColumnArgument>,
    /// Types of the key columns, in their order: str, u64, i64, f32, f64, bytes or hex (hexadecimal
    /// digits), bool, time (seconds since 1970, or as 2026-01-31T12:00:00Z), desc:u64 and so on for
    /// descending order; a wrong one lists all. If not given, the types that the keyspace
    /// remembers, else str. `raw`: the bytes of the one column as they are, without remembered
    /// types
    #[arg(long, value_name = "TYPES")]
    pub key_types: Option<KeyTypes>,
    /// The column that is the value; the columns without the key if not given
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub value_column: Option<String>,
    /// The value is a JSON object of the columns without the key, by the names in the first line;
    /// each is a text. For tsv and csv
    #[arg(long, conflicts_with = "value_column")]
    pub json_values: bool,
    /// The column that says until when the record stays: seconds since 1970, as 1700000000 or
    /// 1700000000.5, or a time as 2026-01-31T12:00:00Z; empty (in jsonl null): for ever. It is part
    /// of the value only if the value is the whole JSON object
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub expires_column: Option<String>,
    /// Keys and values are written as the hexadecimal digits of their bytes, with or without 0x
    /// before them, as `scan --output hex` prints them. For tsv, csv and jsonl
    #[arg(long, conflicts_with_all = ["key_types", "json_values"])]
    pub hex: bool,
    /// Leave out the first line (names in the options above imply it)
    #[arg(long)]
    pub skip_header: bool,
    /// The longest line of the input, in bytes.
    #[arg(skip = DEFAULT_MEMORY_BYTES)]
    pub line_bytes_max: u64,
}

/// A column as written in the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnArgument {
    pub name: String,
    kind: Option<ColumnType>,
}

impl FromStr for ColumnArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A name may itself hold colons, and so may a type, as in `desc:u64`: the longest type
        // counts.
        let typed = text.match_indices(':').find_map(|(at, _)| {
            let kind = column_type(&text[at + 1..]).ok()?;
            Some((&text[..at], Some(kind)))
        });
        let (name, kind) = typed.unwrap_or((text, None));
        if name.is_empty() {
            return Err("a column needs a number or a name".to_owned());
        }
        Ok(Self {
            name: name.to_owned(),
            kind,
        })
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" | b"\t" => Ok(b'\t'),
        [b'"' | b'\r' | b'\n' | 0x80..] => Err("this character cannot delimit columns".to_owned()),
        [byte] => Ok(*byte),
        _ => Err("a delimiter is one character of ASCII, or `tab`".to_owned()),
    }
}

impl InputArguments {
    /// The same arguments for a database with this memory budget, which limits the length of lines:
    /// a key with its value may have a quarter of it, and each of their bytes up to four
    /// characters.
    pub fn within(&self, memory: Option<u64>) -> InputArguments {
        InputArguments {
            line_bytes_max: memory.unwrap_or(DEFAULT_MEMORY_BYTES),
            ..self.clone()
        }
    }

    /// The format, which was given or guessed.
    pub fn format(&self) -> Format {
        self.format.unwrap_or(Format::Tsv)
    }

    /// The separator of columns.
    pub fn delimiter(&self) -> u8 {
        let usual = match self.format() {
            Format::Csv => b',',
            _ => b'\t',
        };
        self.delimiter.unwrap_or(usual)
    }

    pub fn key_columns(&self) -> Result<Vec<ColumnArgument>, Failure> {
        match (self.key_columns.is_empty(), self.format()) {
            (true, Format::ScanTsv | Format::ScanJson | Format::LdbHex) => Ok(Vec::new()),
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
    pub fn types(&self, key_columns: &[ColumnArgument]) -> Result<Wanted, Failure> {
        if self.hex {
            let typed = key_columns.iter().any(|column| column.kind.is_some());
            if typed || key_columns.len() != 1 || self.format().is_scanned() {
                return Err(Failure::Usage(
                    "--hex is for one key column without a type, in tsv, csv and jsonl".to_owned(),
                ));
            }
            return Ok(Wanted::Raw);
        }
        let given = match &self.key_types {
            Some(KeyTypes::Columns(types)) if self.format().is_scanned() => {
                return Ok(Wanted::Columns(types.iter().cloned().map(Some).collect()));
            }
            Some(KeyTypes::Columns(types)) => &types[..],
            Some(KeyTypes::Raw) if key_columns.len() > 1 => {
                let message = "--key-types raw is for one key column".to_owned();
                return Err(Failure::Usage(message));
            }
            Some(KeyTypes::Raw) => return Ok(Wanted::Raw),
            None if self.format().is_scanned() => return Ok(Wanted::Any),
            None => &[],
        };
        if !given.is_empty() && given.len() != key_columns.len() {
            let (given, columns) = (given.len(), key_columns.len());
            return Err(Failure::Usage(format!(
                "{given} key types for {columns} key columns"
            )));
        }
        let typed = |(index, column): (usize, &ColumnArgument)| match (
            column.kind.clone(),
            given.get(index).cloned(),
        ) {
            (Some(one), Some(other)) if one != other => Err(Failure::Usage(format!(
                "two different types are given for key column `{}`",
                column.name
            ))),
            (one, other) => Ok(one.or(other)),
        };
        let types = key_columns.iter().enumerate().map(typed);
        Ok(Wanted::Columns(types.collect::<Result<_, _>>()?))
    }

    /// Refuses options that the format does not use.
    pub fn check(&self) -> Result<(), Failure> {
        let columns = !self.key_columns.is_empty()
            || self.value_column.is_some()
            || self.expires_column.is_some();
        if self.format().is_scanned() && (columns || self.skip_header) {
            return Err(Failure::Usage(
                "what scan prints has no columns to choose and no header; only --key-types goes \
                 with it"
                    .to_owned(),
            ));
        }
        if !self.format().has_columns() && (self.delimiter.is_some() || self.json_values) {
            let message = "--delimiter and --json-values are for tsv and csv".to_owned();
            return Err(Failure::Usage(message));
        }
        Ok(())
    }

    /// Refuses options about reading text, for an input that is no text.
    pub fn check_no_text(&self) -> Result<(), Failure> {
        match self.reads_text() || self.key_types.is_some() {
            true => Err(Failure::Usage(
                "the records of a LevelDB database are read as they are: leave out --format and the \
                 options of columns, types and lines"
                    .to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// Refuses the same options for exported files, whose keys may have types.
    pub fn check_exported(&self) -> Result<(), Failure> {
        match self.reads_text() {
            true => Err(Failure::Usage(
                "the records of an export are read as they are: leave out --format and the options of \
                 columns and lines; only --key-types goes with it"
                    .to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// Whether options about reading text are given, except the key types.
    fn reads_text(&self) -> bool {
        let columns = !self.key_columns.is_empty()
            || self.value_column.is_some()
            || self.expires_column.is_some()
            || self.json_values
            || self.skip_header;
        let form =
            self.format.is_some() || self.delimiter.is_some() || self.comment.is_some() || self.hex;
        columns || form
    }

    pub fn needs_header(&self) -> bool {
        let mut names = self
            .key_columns
            .iter()
            .map(|column| &column.name)
            .chain(&self.value_column)
            .chain(&self.expires_column);
        self.format().has_columns()
            && (self.json_values || names.any(|name| name.parse::<usize>().is_err()))
    }
}

/// What the arguments say of the key's types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The key's bytes as they are.
    Raw,
    /// A type for each column, if one is given for it.
    Columns(Vec<Option<ColumnType>>),
    /// The types that the keyspace remembers, if any.
    Any,
}

impl Wanted {
    /// The types of the key's columns, from the arguments and what the keyspace remembers. Empty if
    /// a key is its bytes.
    pub fn resolve(&self, remembered: Option<&[ColumnType]>) -> Vec<ColumnType> {
        match self {
            Self::Raw => Vec::new(),
            Self::Any => remembered.unwrap_or_default().to_vec(),
            Self::Columns(columns) => {
                let known = remembered.filter(|known| known.len() == columns.len());
                let known =
                    |index| known.and_then(|known: &[ColumnType]| known.get(index).cloned());
                let types = columns.iter().enumerate();
                types
                    .map(|(index, given)| {
                        let known = || known(index);
                        given.clone().or_else(known).unwrap_or(ColumnType::Text)
                    })
                    .collect()
            }
        }
    }
}
