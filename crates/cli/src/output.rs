//! How records and messages are written.

use std::io::{self, Write};

use clap::ValueEnum;
use evendb::inspect::ChunkName;
use serde_json::{Value, json};

use crate::keys::{self, Column, ColumnType};

/// The form of a record in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Bytes as they are: key, tab, value, line feed
    Raw,
    /// Key and value in hexadecimal
    Hex,
    /// Like raw, with tab, line feed, carriage return and backslash written \t \n \r \\
    Tsv,
    /// One JSON object a line; bytes that are no UTF-8 appear as {"hex": "..."}
    Json,
}

/// Writes one record. With `types` the key is shown as its columns in the forms tsv and json.
pub fn write_record(
    target: &mut impl Write,
    form: Form,
    types: &[ColumnType],
    key: &[u8],
    value: Option<&[u8]>,
) -> io::Result<()> {
    let columns = || {
        if types.is_empty() {
            None
        } else {
            keys::decode(types, key)
        }
    };
    match form {
        Form::Raw => target.write_all(key)?,
        Form::Hex => write_hex(target, key)?,
        Form::Tsv => match columns() {
            None => write_escaped(target, key)?,
            Some(columns) => {
                for (index, column) in columns.iter().enumerate() {
                    if index > 0 {
                        target.write_all(b"\t")?;
                    }
                    match column {
                        Column::Text(bytes) => write_escaped(target, bytes)?,
                        number => write!(target, "{number}")?,
                    }
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

/// Writes a message to standard error, and does not mind if nobody listens.
pub fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}

fn columns_json(columns: &[Column]) -> Value {
    columns
        .iter()
        .map(|column| match column {
            Column::Text(bytes) => text_or_hex(bytes),
            Column::Unsigned(number) => json!(number),
            Column::Signed(number) => json!(number),
        })
        .collect()
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

/// Bytes as one line of text: what is no printable UTF-8, and backslashes, as escapes.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                _ if letter.is_control() => text.extend(letter.escape_default()),
                _ => text.push(letter),
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// UTF-8 as a string, other bytes as `{"hex": "..."}`.
pub fn text_or_hex(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => {
            let mut hex = Vec::with_capacity(bytes.len() * 2);
            write_hex(&mut hex, bytes).expect("writing to memory cannot fail");
            json!({ "hex": String::from_utf8_lossy(&hex) })
        }
    }
}

fn write_hex(target: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    bytes
        .iter()
        .try_for_each(|byte| write!(target, "{byte:02x}"))
}

fn write_escaped(target: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while let Some(place) = rest
        .iter()
        .position(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b'\\'))
    {
        target.write_all(&rest[..place])?;
        target.write_all(match rest[place] {
            b'\t' => b"\\t",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            _ => b"\\\\",
        })?;
        rest = &rest[place + 1..];
    }
    target.write_all(rest)
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
        let types = [ColumnType::Text, ColumnType::Unsigned];
        let key = b"app\x00\x01\x00\x00\x00\x00\x00\x00\x00\x07";
        assert_eq!(shown(Form::Tsv, &types, key, b"v"), "app\t7\tv\n");
        assert_eq!(
            shown(Form::Json, &types, key, b"v"),
            "{\"key\":[\"app\",7],\"value\":\"v\"}\n"
        );
        assert_eq!(shown(Form::Tsv, &types, b"short", b"v"), "short\tv\n");
    }
}
