//! The format of an input that nobody named: guessed by the file's name and its first lines, and
//! told.
//!
//! Input that looks wrong is refused, with the option that names the format. An import that takes
//! each line of a CSV for a key would not fail anywhere, and the mistake would be found late.

use std::path::Path;

use super::arguments::{Format, InputArguments};
use super::without_return;
use crate::csv::{Fields, Parsed};
use crate::escapes::shown;
use crate::failure::Failure;
use crate::json_text::{Json, Kind};
use crate::ldb_text;
use evendb_lab::readable::counted;

/// Bytes at the beginning that are looked at.
pub const SAMPLE_BYTES: usize = 64 << 10;

/// The highest number of lines that are looked at.
const LINES_MAX: usize = 1000;

/// Formats of files that are no text, by their first bytes, and what to do with them.
const OTHERS: [(&[u8], &str); 8] = [
    (b"PK\x03\x04", "a zip archive: unpack it"),
    (b"BZh", "packed by bzip2: `bzcat` unpacks it"),
    (b"\xFD7zXZ\x00", "packed by xz: `xzcat` unpacks it"),
    (b"\x04\x22\x4D\x18", "packed by lz4: `lz4cat` unpacks it"),
    (
        b"SQLite format 3\x00",
        "an SQLite database: write its tables as CSV",
    ),
    (b"PAR1", "a Parquet file: write it as CSV or as JSON Lines"),
    (
        b"\xFF\xFE",
        "text in UTF-16: `iconv -f UTF-16 -t UTF-8` makes UTF-8 of it",
    ),
    (
        b"\xFE\xFF",
        "text in UTF-16: `iconv -f UTF-16 -t UTF-8` makes UTF-8 of it",
    ),
];

/// The kind of the first lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Nothing,
    Objects,
    /// Objects with the members `key` and `value` and no others, as scan prints them.
    ScannedObjects,
    LdbHex,
    /// This number of columns with this delimiter, in all lines.
    Columns(u8, usize),
    /// Some lines have tabs.
    SomeTabs,
    /// Text without columns.
    Lines,
}

/// The arguments with the format that the input seems to have, and the text about it.
pub fn completed(
    arguments: &InputArguments,
    name: &Path,
    sample: &[u8],
) -> Result<(InputArguments, String), Failure> {
    let refused = |why: &str| refused(name, why);
    let sample = sample.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(sample);
    if let Some(why) = no_text(sample).or_else(|| returns_alone(sample)) {
        return Err(refused(&why));
    }
    let lines = first_lines(sample);
    let content = content(&lines, arguments.delimiter);
    if let Some(why) = one_document(&lines) {
        return Err(refused(why));
    }
    let extension = extension(name);
    let (format, delimiter) =
        chosen(arguments, &extension, content).map_err(|why| refused(&why))?;
    let mut completed = arguments.clone();
    completed.format = Some(format);
    completed.delimiter = completed.delimiter.or(delimiter);
    if format == Format::Jsonl && completed.key_columns.is_empty() {
        let members = members(lines.first().copied().unwrap_or_default());
        return Err(refused(&format!(
            "jsonl needs --key-columns, names of its members; the first object has: {members}"
        )));
    }
    let mut told = told(&completed, &extension, content, &lines);
    if let Some(header) = taken_header(&completed, &lines) {
        told.push_str(&format!(". {header}"));
    }
    Ok((completed, told))
}

/// The text about an input whose format was given, if something may be wrong with it. `sample`: its
/// first bytes.
pub fn doubts(
    arguments: &InputArguments,
    name: &Path,
    sample: &[u8],
) -> Result<Vec<String>, Failure> {
    let sample = sample.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(sample);
    if let Some(why) = returns_alone(sample) {
        return Err(refused(name, &why));
    }
    let mut told = Vec::new();
    if !arguments.format().has_columns() {
        return Ok(told);
    }
    // The last line may be cut.
    let end = sample.iter().rposition(|&byte| byte == b'\n');
    let lines = first_lines(end.map_or(sample, |end| &sample[..end]));
    let own = arguments.delimiter();
    if arguments.delimiter.is_none()
        && let Content::Columns(other, count) = content(&lines, None)
        && other != own
        && !lines.iter().any(|line| line.contains(&own))
    {
        let (given, shown) = match (own, other) {
            (b'\t', other) => ("tabs", format!("'{}'", char::from(other))),
            (_, b'\t') => ("commas", "tab".to_owned()),
            (_, other) => ("commas", format!("'{}'", char::from(other))),
        };
        told.push(format!(
            "no {given} in the first lines, which have {count} columns with --delimiter {shown}"
        ));
    }
    told.extend(taken_header(arguments, &lines));
    Ok(told)
}

fn refused(name: &Path, why: &str) -> Failure {
    let file = match name == Path::new("-") {
        true => "standard input".into(),
        false => name.to_string_lossy(),
    };
    Failure::Usage(format!("{file}: {why}"))
}

/// The reason why the lines would be a single one, if they end with carriage returns and no line
/// feeds.
fn returns_alone(sample: &[u8]) -> Option<String> {
    let inside = sample.strip_suffix(b"\r").unwrap_or(sample);
    (inside.contains(&b'\r') && !sample.contains(&b'\n')).then(|| {
        "its lines end with carriage returns alone, without line feeds, as old Macs wrote them: `tr '\\r' '\\n'` \
         makes lines of them"
            .to_owned()
    })
}

/// The reason why the bytes are no lines of text.
fn no_text(sample: &[u8]) -> Option<String> {
    let told = |what: &str| {
        Some(format!(
            "this is {what}; --format takes it for text all the same"
        ))
    };
    if let Some((_, what)) = OTHERS.iter().find(|(magic, _)| sample.starts_with(magic)) {
        return told(what);
    }
    let zeros = sample.iter().filter(|&&byte| byte == 0).count();
    match (zeros, sample.contains(&b'\n')) {
        (0, _) => None,
        (_, false) => told(
            "no text by lines, for it has bytes of 0 and no line feed: `tr '\\0' '\\n'` makes lines of \
             names that end with a byte of 0",
        ),
        (_, true) => told("no text, for it has bytes of 0"),
    }
}

/// The first lines that are not empty, without the last one if it may be cut.
fn first_lines(sample: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = sample.split(|&byte| byte == b'\n').collect();
    if lines.len() > 1 && sample.len() >= SAMPLE_BYTES {
        lines.pop();
    }
    let lines = lines.into_iter().map(without_return);
    lines
        .filter(|line| !line.trim_ascii().is_empty())
        .take(LINES_MAX)
        .collect()
}

/// The reason why the input is one JSON document, and no lines.
fn one_document(lines: &[&[u8]]) -> Option<&'static str> {
    let first = lines.first()?.trim_ascii();
    let next = |from: usize| first.get(from..).unwrap_or_default().trim_ascii_start();
    let (is_array, is_object) = (
        first.starts_with(b"[") && (next(1).is_empty() || next(1).starts_with(b"{")),
        first == b"{",
    );
    if is_array {
        Some(
            "this is an array of JSON, and no JSON Lines: `jq -c '.[]'` writes each element as a line; --format \
              takes it as it is",
        )
    } else if is_object {
        Some(
            "this is JSON over several lines, and no JSON Lines: `jq -c .` writes each object as a line; --format \
              takes it as it is",
        )
    } else {
        None
    }
}

/// The name's last extension, without the extensions of packed files.
fn extension(name: &Path) -> String {
    let text = name.to_string_lossy().to_lowercase();
    let packed = [".gz", ".gzip", ".zst", ".zstd"];
    let text = packed
        .iter()
        .find_map(|end| text.strip_suffix(end))
        .unwrap_or(&text);
    let file = Path::new(text);
    file.extension()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn content(lines: &[&[u8]], delimiter: Option<u8>) -> Content {
    let Some(first) = lines.first() else {
        return Content::Nothing;
    };
    if let Some(names) = first
        .starts_with(b"{")
        .then(|| member_names(first))
        .flatten()
    {
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.sort_unstable();
        return match names[..] {
            ["key", "value"] => Content::ScannedObjects,
            _ => Content::Objects,
        };
    }
    if ldb_text::looks_right(first) {
        return Content::LdbHex;
    }
    // Comments are left out later.
    let data: Vec<&[u8]> = match lines.iter().all(|line| line.starts_with(b"#")) {
        true => lines.to_vec(),
        false => lines
            .iter()
            .copied()
            .skip_while(|line| line.starts_with(b"#"))
            .collect(),
    };
    let candidates = delimiter.map_or(b"\t,;|".to_vec(), |only| vec![only]);
    for candidate in candidates {
        if let Some(columns) = columns(&data, candidate) {
            return Content::Columns(candidate, columns);
        }
        let has_tab = |line: &&[u8]| line.contains(&b'\t');
        if candidate == b'\t' && data.iter().all(has_tab) {
            return Content::SomeTabs;
        }
    }
    if data.iter().any(|line| line.contains(&b'\t')) {
        return Content::SomeTabs;
    }
    Content::Lines
}

/// The number of columns of the records, if it is above one and nearly all records have it.
fn columns(lines: &[&[u8]], delimiter: u8) -> Option<usize> {
    let mut fields = Fields::new(delimiter);
    let (mut expected, mut records, mut equal) = (None, 0, 0);
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let mut parsed = fields.parse(line);
        let mut next = at + 1;
        while parsed == Parsed::Open {
            let Some(line) = lines.get(next) else { break };
            parsed = fields.parse_on(b"\n", line);
            next += 1;
        }
        // Near the end of the sample a record may be cut.
        if parsed == Parsed::Open && at > lines.len() / 2 {
            break;
        }
        records += 1;
        // As in the reader, a stray quote costs only its own line.
        at = if parsed == Parsed::Complete {
            next
        } else {
            at + 1
        };
        let count = fields.len();
        let is_equal = parsed == Parsed::Complete && *expected.get_or_insert(count) == count;
        equal += usize::from(is_equal);
    }
    expected.filter(|&count| count > 1 && equal * 10 >= records * 9)
}

/// The format and the delimiter, or the reason why there is none.
fn chosen(
    arguments: &InputArguments,
    extension: &str,
    content: Content,
) -> Result<(Format, Option<u8>), String> {
    let scanned = arguments.key_columns.is_empty() && arguments.value_column.is_none();
    let objects = match content {
        Content::ScannedObjects if scanned => Format::ScanJson,
        _ => Format::Jsonl,
    };
    let is_object = matches!(content, Content::Objects | Content::ScannedObjects);
    let contradiction = |is: &str| {
        let say = "--format says what it is";
        Err(format!(
            "the name ends with .{extension}, and the first lines are {is}; {say}"
        ))
    };
    match (extension, content) {
        ("csv" | "tsv" | "tab", _) if is_object => contradiction("objects of JSON"),
        ("csv" | "tsv" | "tab" | "jsonl" | "ndjson" | "json", Content::LdbHex) => {
            contradiction("what RocksDB's `ldb dump --hex` prints")
        }
        (
            "jsonl" | "ndjson" | "json",
            Content::Columns(..) | Content::SomeTabs | Content::Lines,
        ) => contradiction("no objects of JSON"),
        ("jsonl" | "ndjson" | "json", _) => Ok((objects, None)),
        ("csv", Content::Columns(delimiter, _)) => Ok((Format::Csv, Some(delimiter))),
        ("csv", _) => Ok((Format::Csv, None)),
        ("tsv" | "tab", Content::Columns(delimiter, count))
            if delimiter != b'\t' && arguments.delimiter.is_none() =>
        {
            let columns = counted(count as u64, "column");
            contradiction(&format!("{columns} between `{}`", char::from(delimiter)))
        }
        ("tsv" | "tab", _) => Ok((Format::Tsv, None)),
        (_, Content::Objects | Content::ScannedObjects) => Ok((objects, None)),
        (_, Content::LdbHex) => Ok((Format::LdbHex, None)),
        (_, Content::Columns(delimiter, _)) if delimiter != b'\t' => {
            Ok((Format::Csv, Some(delimiter)))
        }
        (_, Content::Lines) if arguments.delimiter.is_some_and(|byte| byte != b'\t') => {
            Ok((Format::Csv, None))
        }
        (_, _) => Ok((Format::Tsv, None)),
    }
}

/// The text about the guess.
fn told(arguments: &InputArguments, extension: &str, content: Content, lines: &[&[u8]]) -> String {
    let format = match arguments.format() {
        Format::Csv => "csv",
        Format::Jsonl => "jsonl",
        Format::ScanJson => "scan-json",
        Format::LdbHex => "ldb-hex",
        Format::Tsv | Format::ScanTsv => "tsv",
    };
    let name = match extension {
        "csv" | "tsv" | "tab" | "jsonl" | "ndjson" | "json" => {
            format!("the name ends with .{extension}, and ")
        }
        _ => String::new(),
    };
    let lines = match content {
        Content::Nothing => "there are no lines".to_owned(),
        Content::Objects => "the first line is an object of JSON".to_owned(),
        Content::ScannedObjects => "the first line is an object with a key and a value".to_owned(),
        Content::LdbHex => "the first line is as `ldb dump --hex` prints it".to_owned(),
        Content::Columns(delimiter, count) => {
            let between = match delimiter {
                b'\t' => "tabs".to_owned(),
                other => format!("`{}`", char::from(other)),
            };
            format!("the first lines have {count} columns between {between}")
        }
        Content::SomeTabs => "some of the first lines have tabs".to_owned(),
        Content::Lines
            if lines
                .iter()
                .any(|line| line.contains(&arguments.delimiter())) =>
        {
            "the first lines have unlike numbers of columns".to_owned()
        }
        Content::Lines => {
            "the first lines have no columns: each line is a key with an empty value".to_owned()
        }
    };
    format!("read as {format}, for {name}{lines} (--format and --delimiter say otherwise)")
}

/// Names that columns often have.
const USUAL_NAMES: [&str; 40] = [
    "account",
    "address",
    "amount",
    "category",
    "city",
    "code",
    "color",
    "comment",
    "company",
    "count",
    "country",
    "created",
    "currency",
    "date",
    "description",
    "email",
    "event",
    "first_name",
    "hash",
    "id",
    "key",
    "language",
    "last_name",
    "message",
    "name",
    "number",
    "path",
    "payload",
    "phone",
    "price",
    "size",
    "status",
    "text",
    "time",
    "timestamp",
    "title",
    "type",
    "url",
    "user",
    "value",
];

/// The text about the first line, if it seems to have names of columns and is taken as a record.
/// Three things must hold. All its fields may be names. No field comes again in its column. One
/// field is a usual name, or it differs in kind from all others in its column: they are numbers or
/// times, or have a digit or a mark that it does not have.
fn taken_header(arguments: &InputArguments, lines: &[&[u8]]) -> Option<String> {
    let has_header = arguments.needs_header() || arguments.skip_header;
    if has_header || !arguments.format().has_columns() {
        return None;
    }
    let delimiter = arguments.delimiter();
    let split = |line: &[u8]| -> Vec<Vec<u8>> {
        let mut fields = Fields::new(delimiter);
        let _ = fields.parse(line);
        (0..fields.len())
            .filter_map(|index| fields.get(index).map(<[u8]>::to_vec))
            .collect()
    };
    // Comments before it, as the reader knows them.
    let is_hash = |line: &&&[u8]| line.starts_with(b"#");
    let hashed = lines.iter().take_while(is_hash).count();
    let expected = lines.get(hashed).map(|line| split(line).len());
    let is_comment = |line: &&&[u8]| expected.is_some_and(|count| split(line).len() != count);
    let comments = lines[..hashed].iter().take_while(is_comment).count();
    let lines = &lines[comments..];
    let names = split(lines.first()?);
    let others: Vec<Vec<Vec<u8>>> = lines[1..].iter().take(20).map(|line| split(line)).collect();
    let is_usual = |name: &Vec<u8>| {
        let name = name.to_ascii_lowercase();
        USUAL_NAMES.iter().any(|usual| usual.as_bytes() == name)
    };
    let differs = |column: usize| {
        let cells = others.iter().filter_map(|fields| fields.get(column));
        let cells: Vec<&[u8]> = cells
            .map(Vec::as_slice)
            .filter(|cell| !cell.is_empty())
            .collect();
        let has_mark = |cell: &[u8], mark: u8| match mark {
            b'0' => cell.iter().any(u8::is_ascii_digit),
            _ => cell.contains(&mark),
        };
        let has_alone = |&mark: &u8| {
            cells.iter().all(|cell| has_mark(cell, mark)) && !has_mark(&names[column], mark)
        };
        let all_numbers = !cells.is_empty() && cells.iter().all(|cell| is_number(cell));
        all_numbers || cells.len() > 1 && b"0@/:.".iter().any(has_alone)
    };
    let comes_again = |column: usize| {
        let name = &names[column];
        !name.is_empty() && others.iter().any(|fields| fields.get(column) == Some(name))
    };
    let mut columns = 0..names.len();
    let told = names.iter().all(|name| name.is_empty() || is_name(name))
        && names.iter().any(|name| !name.is_empty())
        && !others.is_empty()
        && !columns.clone().any(comes_again)
        && (names.iter().any(is_usual) || columns.any(differs));
    told.then(|| {
        format!(
            "{}, `{}`, is taken as a record: --skip-header leaves it out, and so do names of its columns in \
             --key-columns",
            if comments == 0 { "Line 1" } else { "The first line that is no comment" },
            shown(lines[0])
        )
    })
}

/// Whether a text may be a column's name: a short one that begins with a letter.
fn is_name(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    let first = text.trim_start_matches(['_', '#', ' ']).chars().next();
    first.is_some_and(char::is_alphabetic)
        && text.len() <= 64
        && !text.contains(['/', '\\', '@', ';', '='])
        && !text.chars().any(char::is_control)
}

/// Whether a text begins as a number or a time does.
fn is_number(text: &[u8]) -> bool {
    let mut bytes = text
        .trim_ascii()
        .iter()
        .skip_while(|byte| b"+-.$".contains(byte));
    bytes.next().is_some_and(u8::is_ascii_digit)
}

fn member_names(line: &[u8]) -> Option<Vec<String>> {
    let object = Json::parse(line.trim_ascii())
        .ok()
        .filter(|json| json.kind() == Kind::Object)?;
    let names = object
        .members()
        .map(|(name, _)| name.string().ok().map(|name| name.into_owned()));
    names.collect()
}

fn members(line: &[u8]) -> String {
    member_names(line).unwrap_or_default().join(", ")
}
