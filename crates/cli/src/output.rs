//! How records and messages are written.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use clap::ValueEnum;
use evendb::inspect::ChunkName;
use evendb::vfs::OsVfs;
use serde_json::{Value, json};

pub use crate::escapes::escaped;
use crate::escapes::{hex, write_escaped};
use crate::keys::{self, Column, ColumnType};
use crate::scan_output::{self, WHOLE_KEY};

/// The form of a record in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Bytes as they are: key, tab, value, line feed
    Raw,
    /// Key and value in hexadecimal
    Hex,
    /// One line of text: the key's columns, tab, value; control characters, backslashes and bytes
    /// that are no UTF-8 are escapes as \t or \xNN. `import --format scan-tsv` reads it back
    Tsv,
    /// One JSON object a line; bytes that are no UTF-8 appear as {"hex": "..."}.
    /// `import --format scan-json` reads it back
    Json,
}

impl Form {
    /// The form asked for; without one, tsv on a terminal and raw everywhere else.
    pub fn chosen(asked: Option<Form>) -> Form {
        Form::suited(asked, io::stdout().is_terminal())
    }

    fn suited(asked: Option<Form>, terminal: bool) -> Form {
        asked.unwrap_or(if terminal { Form::Tsv } else { Form::Raw })
    }
}

/// Writes one record. With `types` the key is shown as its columns in the forms tsv and json.
pub fn write_record(
    target: &mut impl Write,
    form: Form,
    types: &[ColumnType],
    key: &[u8],
    value: Option<&[u8]>,
) -> io::Result<()> {
    let columns = || keys::decode(types, key).filter(|_| !scan_output::is_plain(types));
    match form {
        Form::Raw => target.write_all(key)?,
        Form::Hex => write_hex(target, key)?,
        Form::Tsv => match columns() {
            None => {
                if !scan_output::is_plain(types) {
                    target.write_all(WHOLE_KEY)?;
                }
                write_escaped(target, key)?;
            }
            Some(columns) => {
                for (index, column) in columns.iter().enumerate() {
                    if index > 0 {
                        target.write_all(b"\t")?;
                    }
                    write_escaped(target, &keys::text_of(column))?;
                }
            }
        },
        Form::Json => {
            let key = columns().map_or_else(|| text_or_hex(key), |columns| columns_json(&columns));
            let mut object = json!({ "key": key });
            if let Some(value) = value {
                object["value"] = text_or_hex(value);
            }
            return writeln!(target, "{object}");
        }
    }
    if let Some(value) = value {
        target.write_all(b"\t")?;
        match form {
            Form::Hex => write_hex(target, value)?,
            Form::Tsv => write_escaped(target, value)?,
            Form::Raw | Form::Json => target.write_all(value)?,
        }
    }
    target.write_all(b"\n")
}

/// Writes one value alone, in the same forms.
pub fn write_value(target: &mut impl Write, form: Form, value: &[u8]) -> io::Result<()> {
    match form {
        Form::Raw => target.write_all(value),
        Form::Hex => write_hex(target, value),
        Form::Tsv => write_escaped(target, value),
        Form::Json => write!(target, "{}", text_or_hex(value)),
    }
}

/// Refuses to make `what` in a place inside of a database's directory, or of one with backups.
pub fn refuse_inside_database(path: &Path, what: &str) -> evendb::Result<()> {
    evendb::placement::refuse_inside(&OsVfs, path, what)
}

/// Writes a message to standard error; that standard error is closed is no error.
pub fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
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
        let mut out = Vec::new();
        write_record(&mut out, form, types, key, Some(value)).unwrap();
        String::from_utf8(out).unwrap()
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
    fn a_terminal_gets_escapes_unless_another_form_is_asked_for() {
        assert_eq!(Form::suited(None, true), Form::Tsv);
        assert_eq!(Form::suited(None, false), Form::Raw);
        assert_eq!(Form::suited(Some(Form::Raw), true), Form::Raw);
        assert_eq!(Form::suited(Some(Form::Json), false), Form::Json);
    }
}
