//! How records and messages are written.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use clap::ValueEnum;
use evendb::inspect::ChunkName;
use evendb::vfs::OsVfs;
use evendb_lab::printed::Printed;
pub use evendb_lab::printed::printable;
use evendb_lab::standard_streams::{self, StandardOutput};
use serde_json::{Value, json};

pub use crate::escapes::escaped;
use crate::escapes::{hex, write_escaped};
use crate::failure::Failure;
use crate::keys::{self, Column, ColumnType};
use crate::scan_output::{self, WHOLE_KEY};
use crate::store::Store;
use crate::values::Values;

/// The form of a record in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Bytes as they are: key, tab, value, line feed
    Raw,
    /// Key and value in hexadecimal
    Hex,
    /// One line of text: the key's columns, tab, value; control characters, marks of direction,
    /// backslashes and bytes that are no UTF-8 are escapes as \t or \xNN; a number that the
    /// keyspace adds to is its digits. `import --format scan-tsv` reads it back
    Tsv,
    /// One JSON object a line: `key` is an array of columns if the keys have columns, else a text;
    /// bytes that are no UTF-8 are {"hex": "..."}; a number that the keyspace adds to is a number.
    /// `import --format scan-json` reads it back
    Json,
}

/// How records of one keyspace are written.
pub struct Shape {
    /// The form of each line.
    pub form: Form,
    /// The types of the keys' columns. Empty if keys are their own bytes.
    pub types: Vec<ColumnType>,
    /// What the values are.
    pub values: Values,
}

impl Shape {
    /// The shape of the records of the store's keyspace, in the form `asked` for. Without one it is
    /// tsv on a terminal and if there is more to show than bytes, and raw otherwise.
    pub fn of_records(
        store: &Store,
        types: &[ColumnType],
        asked: Option<Form>,
    ) -> Result<Shape, Failure> {
        let values = Values::of(store)?;
        let is_text = !scan_output::is_plain(types) || values.are_numbers();
        Ok(Shape {
            form: Form::suited(asked, is_text || io::stdout().is_terminal()),
            types: types.to_vec(),
            values,
        })
    }

    /// The shape of a value that is written alone.
    pub fn of_value(store: &Store, asked: Option<Form>) -> Result<Shape, Failure> {
        let values = Values::of(store)?;
        let is_text = values.are_numbers() || io::stdout().is_terminal();
        Ok(Shape {
            form: Form::suited(asked, is_text),
            types: Vec::new(),
            values,
        })
    }

    /// Writes one record.
    pub fn write_record(
        &self,
        target: &mut impl Write,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> io::Result<()> {
        match self.form {
            Form::Raw => target.write_all(key)?,
            Form::Hex => write_hex(target, key)?,
            Form::Tsv => self.write_columns(target, key)?,
            Form::Json => {
                let mut object = json!({ "key": key_json(&self.types, key) });
                if let Some(value) = value {
                    object["value"] = self.values.as_json(value);
                }
                return writeln!(Printed(target), "{object}");
            }
        }
        if let Some(value) = value {
            target.write_all(b"\t")?;
            self.write_value(target, value)?;
        }
        target.write_all(b"\n")
    }

    fn write_columns(&self, target: &mut impl Write, key: &[u8]) -> io::Result<()> {
        let Some(columns) = columns_of(&self.types, key) else {
            if !scan_output::is_plain(&self.types) {
                target.write_all(WHOLE_KEY)?;
            }
            return write_escaped(target, key);
        };
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                target.write_all(b"\t")?;
            }
            write_escaped(target, &keys::text_of(column))?;
        }
        Ok(())
    }

    /// Writes one value alone, in the same forms.
    pub fn write_value(&self, target: &mut impl Write, value: &[u8]) -> io::Result<()> {
        match self.form {
            Form::Raw => target.write_all(value),
            Form::Hex => write_hex(target, value),
            Form::Tsv if self.values.are_numbers() => {
                target.write_all(self.values.as_text(value).as_bytes())
            }
            Form::Tsv => write_escaped(target, value),
            Form::Json => write!(Printed(target), "{}", self.values.as_json(value)),
        }
    }
}

impl Form {
    fn suited(asked: Option<Form>, is_text: bool) -> Form {
        asked.unwrap_or(if is_text { Form::Tsv } else { Form::Raw })
    }
}

/// The columns of a key. None if it is its own bytes, or if its bytes do not fit the types.
fn columns_of<'k>(types: &[ColumnType], key: &'k [u8]) -> Option<Vec<Column<'k>>> {
    match scan_output::is_plain(types) {
        true => None,
        false => keys::decode(types, key),
    }
}

/// Shows a limit of a range by its columns; the last ones may be missing. Without columns it shows
/// none.
fn with_bound<T>(
    types: &[ColumnType],
    bound: &[u8],
    show: impl FnOnce(Option<&[Column<'_>]>) -> T,
) -> T {
    if let Some(columns) = columns_of(types, bound) {
        return show(Some(&columns));
    }
    // With one more column, a text before it has the form that it has in a key.
    let (mut kinds, padded) = (types.to_vec(), [bound, &[0]].concat());
    while kinds.pop().is_some() && !kinds.is_empty() {
        kinds.push(ColumnType::Bool);
        let columns = keys::decode(&kinds, &padded);
        kinds.pop();
        if let Some(columns) = columns {
            return show(Some(&columns[..kinds.len()]));
        }
    }
    show(None)
}

/// A key in JSON: an array of its columns if it has columns, and otherwise its bytes.
pub fn key_json(types: &[ColumnType], key: &[u8]) -> Value {
    columns_of(types, key).map_or_else(|| text_or_hex(key), |columns| columns_json(&columns))
}

/// A limit of a range in JSON, as [`key_json`]. The last columns may be missing.
pub fn bound_json(types: &[ColumnType], bound: &[u8]) -> Value {
    with_bound(types, bound, |columns| {
        columns.map_or_else(|| text_or_hex(bound), columns_json)
    })
}

/// A key as one field of text: its columns with commas between them, as arguments have them.
pub fn key_field(types: &[ColumnType], key: &[u8]) -> String {
    field(types, key, columns_of(types, key).as_deref())
}

/// A limit of a range as one field of text. The last columns may be missing.
pub fn bound_field(types: &[ColumnType], bound: &[u8]) -> String {
    with_bound(types, bound, |columns| field(types, bound, columns))
}

fn field(types: &[ColumnType], key: &[u8], columns: Option<&[Column<'_>]>) -> String {
    let Some((last, others)) = columns.and_then(<[_]>::split_last) else {
        let mark = match scan_output::is_plain(types) {
            true => "",
            false => "\\k",
        };
        return mark.to_owned() + &escaped(key);
    };
    let text = |column| escaped(&keys::text_of(column));
    let others = others
        .iter()
        .map(|column| text(column).replace(',', "\\x2c") + ",");
    others.collect::<String>() + &text(last)
}

/// Refuses to make the file `path` if something lies there already, or if it is inside of a
/// database's directory.
pub fn refuse_output(path: &Path, what: &str) -> evendb::Result<()> {
    evendb::placement::refuse_output(path, what)
}

/// Refuses to make `what` in a place inside of a database's directory, or of one with backups.
pub fn refuse_inside_database(path: &Path, what: &str) -> evendb::Result<()> {
    evendb::placement::refuse_inside(&OsVfs, path, what)
}

/// Writes a message to standard error. It is no error if standard error is closed. This is the one
/// place where errors and notes are printed: names and files in them go out with escapes.
pub fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(message));
}

/// Standard output for text and for JSON: its bytes cannot control a terminal. A field of a line
/// goes through [`printable`] before, so that it stays in its line.
pub fn out() -> Printed<StandardOutput> {
    Printed(standard_streams::output())
}

/// Prints the path of a file that was made. To a pipe go its bytes as they are.
pub fn say_path(path: &Path) -> io::Result<()> {
    let mut target = standard_streams::output();
    match io::stdout().is_terminal() {
        true => target.write_all(escaped(path.as_os_str().as_encoded_bytes()).as_bytes())?,
        false => target.write_all(path.as_os_str().as_encoded_bytes())?,
    }
    target.write_all(b"\n")
}

fn columns_json(columns: &[Column<'_>]) -> Value {
    columns.iter().map(column_json).collect()
}

fn column_json(column: &Column<'_>) -> Value {
    let text = || Value::String(String::from_utf8_lossy(&keys::text_of(column)).into_owned());
    match column {
        Column::Text(bytes) => text_or_hex(bytes),
        Column::Descending(inner) => column_json(inner),
        Column::Bool(flag) => json!(flag),
        Column::U8(number) => json!(number),
        Column::U16(number) => json!(number),
        Column::U32(number) => json!(number),
        Column::U64(number) => json!(number),
        Column::I8(number) => json!(number),
        Column::I16(number) => json!(number),
        Column::I32(number) => json!(number),
        Column::I64(number) => json!(number),
        Column::F64(float) if float.is_finite() => json!(float),
        // By way of its text: a wider float would have other digits.
        Column::F32(float) if float.is_finite() => {
            let wide = format!("{float:?}").parse::<f64>();
            wide.map_or_else(|_| text(), |wide| json!(wide))
        }
        _ => text(),
    }
}

/// A chunk as the inspections name it.
pub fn chunk_json(chunk: &ChunkName) -> Value {
    json!({
        "id": chunk.id,
        "keyspace": chunk.keyspace,
        "low": text_or_hex(&chunk.low),
        "high": chunk.high.as_deref().map(text_or_hex),
    })
}

/// UTF-8 as a string, other bytes as `{"hex": "..."}`.
pub fn text_or_hex(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "hex": hex(bytes) }),
    }
}

fn write_hex(target: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    bytes
        .iter()
        .try_for_each(|byte| write!(target, "{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(form: Form, types: &[ColumnType], key: &[u8], value: &[u8]) -> String {
        let shape = Shape {
            form,
            types: types.to_vec(),
            values: Values::Bytes,
        };
        let mut out = Vec::new();
        shape.write_record(&mut out, key, Some(value)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_and_limits_of_ranges_are_one_field_or_one_array() {
        let types = [ColumnType::Text, ColumnType::U64, ColumnType::Text];
        let (app, time) = (&b"a,p\x00\x01"[..], &b"\0\0\0\0\0\0\0\x07"[..]);
        for (key, field, in_json) in [
            (
                [app, time, b"x,y\x00\x01"].concat(),
                "a\\x2cp,7,x,y",
                json!(["a,p", 7, "x,y"]),
            ),
            ([app, time].concat(), "a\\x2cp,7", json!(["a,p", 7])),
            (app.to_vec(), "a,p", json!(["a,p"])),
            (
                b"a,p\x00\x02".to_vec(),
                "\\ka,p\\x00\\x02",
                json!("a,p\0\x02"),
            ),
            (Vec::new(), "\\k", json!("")),
        ] {
            assert_eq!(bound_field(&types, &key), field);
            assert_eq!(bound_json(&types, &key), in_json);
        }
        assert_eq!(key_json(&types, app), json!("a,p\0\x01"), "no whole key");
        assert_eq!(key_field(&types, app), "\\ka,p\\x00\\x01");
        assert_eq!(key_field(&[ColumnType::Text], b"a\tb"), "a\\tb");
        assert_eq!(key_field(&[ColumnType::U64], time), "7");
        assert_eq!(bound_json(&[ColumnType::U64], b"7"), json!("7"));
    }

    #[test]
    fn forms_show_the_same_record() {
        assert_eq!(shown(Form::Raw, &[], b"k", b"a\tb"), "k\ta\tb\n");
        assert_eq!(
            shown(Form::Tsv, &[], b"k\\", b"a\tb\n"),
            "k\\\\\ta\\tb\\n\n"
        );
        assert_eq!(shown(Form::Hex, &[], b"k", b"\x00\xFF"), "6b\t00ff\n");
        let json = shown(Form::Json, &[], b"k\"", b"\xFF");
        assert_eq!(json, "{\"key\":\"k\\\"\",\"value\":{\"hex\":\"ff\"}}\n");
    }

    #[test]
    fn typed_keys_show_their_columns() {
        let types = [ColumnType::Text, ColumnType::U64];
        let key = b"app\x00\x01\x00\x00\x00\x00\x00\x00\x00\x07";
        assert_eq!(shown(Form::Tsv, &types, key, b"v"), "app\t7\tv\n");
        assert_eq!(
            shown(Form::Json, &types, key, b"v"),
            "{\"key\":[\"app\",7],\"value\":\"v\"}\n"
        );
        assert_eq!(shown(Form::Tsv, &types, b"short", b"v"), "\\kshort\tv\n");
        assert_eq!(
            shown(Form::Json, &types, b"short", b"v"),
            "{\"key\":\"short\",\"value\":\"v\"}\n"
        );
        let float = [ColumnType::F32];
        assert_eq!(
            shown(Form::Tsv, &float, b"\xBD\xCC\xCC\xCD", b""),
            "0.1\t\n"
        );
        assert_eq!(
            shown(Form::Json, &float, b"\xBD\xCC\xCC\xCD", b""),
            "{\"key\":[0.1],\"value\":\"\"}\n"
        );
    }

    #[test]
    fn text_has_escapes_unless_another_form_is_asked_for() {
        assert_eq!(Form::suited(None, true), Form::Tsv);
        assert_eq!(Form::suited(None, false), Form::Raw);
        assert_eq!(Form::suited(Some(Form::Raw), true), Form::Raw);
        assert_eq!(Form::suited(Some(Form::Json), false), Form::Json);
    }
}
