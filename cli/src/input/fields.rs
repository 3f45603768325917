//! Lines of fields: TSV and CSV, and which fields become key, value and time of expiry.

use std::io;
use std::time::SystemTime;

use evendb_lab::readable::counted;

use super::{PairReader, expiry_of, no_such_type, without_return};
use crate::csv::{self, Parsed};
use crate::failure::Failure;
use crate::keys::{self, ColumnType, KeyEncoder};

/// The highest number of lines, and of bytes, of one quoted CSV record: an opening quote that is
/// never closed must not swallow the rest of the input.
const CSV_LINES_MAX: u64 = 10_000;
const CSV_BYTES_MAX: usize = 64 << 20;

impl PairReader {
    pub(super) fn split_tsv(&mut self) -> Result<(), String> {
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
    pub(super) fn split_csv(&mut self) -> io::Result<Result<(), String>> {
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

    pub(super) fn pair_of_fields(&mut self) -> Result<(), String> {
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

pub(super) fn column_index(name: &String, header: &[String]) -> Result<usize, Failure> {
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
