//! The readers of input and of arguments, opened to the fuzzer (`proof/fuzz`). Not for
//! applications: anything here may change at any time.

use clap::Parser;
use std::io::BufReader;

use crate::csv::{self, Fields, Parsed};
use crate::escapes::{escaped, unescape};
use crate::input::{InputArguments, PairReader, Step};
use crate::json_text::Json;
use crate::key_types::{KeyTypes, shown};
use crate::keys::{ColumnType, KeyEncoder, decode, push, text_of};
use crate::time_text::parse_time;
use evendb::forms::parse_duration;
use evendb::forms::parse_size;

/// The result of reading some input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Keys and values.
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Bad lines.
    pub bad: u64,
    /// Empty lines.
    pub blank: u64,
    /// Bytes of all lines.
    pub bytes: u64,
    /// The reader came to the end by itself.
    pub is_ended: bool,
}

#[derive(Parser)]
struct Only {
    #[command(flatten)]
    input: InputArguments,
}

/// Reads at most `steps` lines of `input`, as `evendb import` with these arguments does. `None`:
/// the arguments, or the input's header, are refused. `buffer`: bytes that are read at once.
pub fn lines(arguments: &[&str], input: Vec<u8>, buffer: usize, steps: usize) -> Option<Lines> {
    let given = ["import"].iter().chain(arguments);
    let Only { input: arguments } = Only::try_parse_from(given).ok()?;
    let source = BufReader::with_capacity(buffer.max(1), std::io::Cursor::new(input));
    let mut reader = PairReader::new(Box::new(source), &arguments).ok()?;
    let mut lines = Lines::default();
    for _ in 0..steps {
        // A read from memory cannot fail.
        match reader.step().ok()? {
            Step::Pair => lines.pairs.push((reader.key.clone(), reader.value.clone())),
            Step::Bad(_) => lines.bad += 1,
            Step::End => {
                lines.is_ended = true;
                break;
            }
        }
    }
    lines.blank = reader.blank();
    lines.bytes = reader.bytes();
    Some(lines)
}

/// Types of keys from an argument, and their form for output.
pub fn key_types(text: &str) -> Option<(Vec<ColumnType>, String)> {
    match text.parse::<KeyTypes>().ok()? {
        KeyTypes::Raw => None,
        KeyTypes::Columns(types) => {
            let text = shown(&types);
            Some((types, text))
        }
    }
}

/// The key of these columns, as text.
pub fn key_of(types: &[ColumnType], texts: &[&[u8]]) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    let mut encoder = KeyEncoder::new(&mut key, types.len());
    for (kind, text) in types.iter().zip(texts) {
        push(&mut encoder, kind, text).ok()?;
    }
    Some(key)
}

/// The columns of a key as text.
pub fn texts_of(types: &[ColumnType], key: &[u8]) -> Option<Vec<Vec<u8>>> {
    let columns = decode(types, key)?;
    Some(
        columns
            .iter()
            .map(|column| text_of(column).into_owned())
            .collect(),
    )
}

/// The fields of a record of CSV. `None` if it is bad or not complete.
pub fn csv_fields(record: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut fields = Fields::new(b',');
    let is_complete = csv::parse(&mut fields, record) == Parsed::Complete;
    let field = |index| fields.get(index).map(<[u8]>::to_vec);
    is_complete.then(|| (0..fields.len()).filter_map(field).collect())
}

/// A record of CSV of these fields.
pub fn csv_record(fields: &[Vec<u8>]) -> Vec<u8> {
    let mut record = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            record.push(b',');
        }
        csv::push_field(field, b',', &mut record);
    }
    record
}

/// Bytes, escaped and read back.
pub fn escaped_again(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = escaped(bytes);
    unescape(text.as_bytes()).ok().map(|back| back.into_owned())
}

/// The number of parts of a JSON text, down to some depth. `None` if the text is no JSON.
pub fn json_parts(text: &[u8]) -> Option<usize> {
    fn parts(of: Json<'_>, depth: usize) -> usize {
        let _ = (of.kind(), of.string().map(|text| text.len()), of.shown());
        let Some(depth) = depth.checked_sub(1) else {
            return 1;
        };
        let elements: usize = of.elements().map(|element| parts(element, depth)).sum();
        let members = of.members();
        let members = members.map(|(name, value)| parts(name, depth) + parts(value, depth));
        1 + elements + members.sum::<usize>()
    }
    Json::parse(text).ok().map(|json| parts(json, 8))
}

/// Reads a text as each of the other things that an argument may be.
pub fn arguments(text: &str) -> (Option<u64>, bool, bool) {
    let _ = unescape(text.as_bytes());
    (
        parse_size(text).ok(),
        parse_duration(text).is_ok(),
        parse_time(text).is_ok(),
    )
}
