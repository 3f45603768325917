//! Reads the output of `evendb scan` back to the same bytes.
//!
//! ```text
//! scan-tsv    key TAB value                  without types, or of one type `str`
//!             column TAB ... column TAB value
//!             \k key TAB value               a key of other bytes than the types make
//!                                            (no space after \k)
//! scan-json   {"key":KEY,"value":VALUE}
//!             VALUE, and KEY as bytes:       "text", or {"hex":"00ff"} if it is no UTF-8
//!             KEY of columns:                [column, ...]
//! ```
//! In a keyspace whose operator adds numbers, `values.rs` gives the form of a value. Fields of
//! scan-tsv are escaped as in `escapes.rs`. In an array `str` has the form of VALUE, `bytes` is a
//! text of hexadecimal digits, `bool` a boolean, and a number of up to 64 bits a number. Every
//! other column is its text: times, wider numbers, NaN and infinities. A descending column has the
//! form of an ascending one.

use std::borrow::Cow;

use evendb_lab::readable::counted;

use crate::escapes::{unescape, unhex};
use crate::json_text::{Json, Kind};
use crate::keys::{self, ColumnType, KeyEncoder};
use crate::values::Values;

/// The mark before a key that is printed whole, since its bytes do not fit the types.
pub const WHOLE_KEY: &[u8] = b"\\k";

/// Whether keys of these types are their own bytes.
pub fn is_plain(types: &[ColumnType]) -> bool {
    matches!(types, [] | [ColumnType::Text])
}

/// Reads a line that was printed with `--output tsv`.
pub fn read_tsv(
    line: &[u8],
    (types, values): (&[ColumnType], Values),
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<(), String> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b'\t').collect();
    let (last, columns) = fields.split_last().ok_or("the line is empty")?;
    let whole = match columns {
        [only] if only.starts_with(WHOLE_KEY) => Some(&only[WHOLE_KEY.len()..]),
        [only] if is_plain(types) => Some(*only),
        _ => None,
    };
    if let Some(whole) = whole {
        key.clear();
        key.extend_from_slice(&unescape(whole)?);
    } else {
        let (found, expected) = (fields.len(), types.len().max(1) + 1);
        if found != expected {
            let hint = match types {
                [] => "a key and a value; if the key has columns, give --key-types",
                _ => "the key's columns and the value",
            };
            let found = counted(found as u64, "field");
            return Err(format!("{found} instead of {expected}: {hint}"));
        }
        let mut encoder = KeyEncoder::new(key, types.len());
        for (kind, field) in types.iter().zip(columns) {
            keys::push(&mut encoder, kind, &unescape(field)?)?;
        }
    }
    value.clear();
    value.extend_from_slice(&values.of_field(last)?);
    Ok(())
}

/// Reads a line that was printed with `--output json`.
pub fn read_json(
    line: &[u8],
    (types, values): (&[ColumnType], Values),
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<(), String> {
    let object = Json::parse(line)?;
    let (mut found_key, mut found_value) = (None, None);
    for (name, member) in object.members() {
        let place = match &*name.string()? {
            "key" => &mut found_key,
            "value" => &mut found_value,
            _ => {
                let name = name.shown();
                return Err(format!("member {name} is neither `key` nor `value`"));
            }
        };
        if place.replace(member).is_some() {
            return Err(format!("member {} is there twice", name.shown()));
        }
    }
    let found_key = found_key.ok_or("there is no member `key`")?;
    let found_value = found_value.ok_or("there is no member `value`")?;
    if found_key.kind() == Kind::Array {
        read_columns(found_key, types, key)?;
    } else {
        key.clear();
        key.extend_from_slice(&bytes(found_key)?);
    }
    value.clear();
    value.extend_from_slice(&match found_value.kind() {
        Kind::Number if values.are_numbers() => values.of_text(found_value.text().as_bytes())?,
        _ => bytes(found_value)?,
    });
    Ok(())
}

fn read_columns(array: Json<'_>, types: &[ColumnType], key: &mut Vec<u8>) -> Result<(), String> {
    let (found, expected) = (array.elements().count(), types.len());
    if found != expected {
        let found = counted(found as u64, "column");
        return Err(match expected {
            0 => format!("the key has {found}; give their types with --key-types"),
            _ => format!("the key has {found} where the key types have {expected}"),
        });
    }
    let mut encoder = KeyEncoder::new(key, expected);
    for (kind, element) in types.iter().zip(array.elements()) {
        let text = match (keys::text_type(kind), element.kind()) {
            (ColumnType::Text, _) => bytes(element)?,
            (_, Kind::Text) => match element.string()? {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            },
            (_, Kind::Number) if keys::takes_number(kind) => {
                Cow::Borrowed(element.text().as_bytes())
            }
            (ColumnType::Bool, Kind::Boolean) => Cow::Borrowed(element.text().as_bytes()),
            (_, Kind::Number) => return Err(format!("{} is no `{kind}`", element.shown())),
            (_, other) => return Err(format!("{} is no {kind}", other.name())),
        };
        keys::push(&mut encoder, kind, &text)?;
    }
    Ok(())
}

/// A text's bytes, or the bytes of `{"hex": "..."}`.
fn bytes(json: Json<'_>) -> Result<Cow<'_, [u8]>, String> {
    let wrong = || format!("{} is neither a text nor {{\"hex\": ...}}", json.shown());
    match json.kind() {
        Kind::Text => Ok(match json.string()? {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        }),
        Kind::Object => {
            let mut members = json.members();
            match (members.next(), members.next()) {
                (Some((name, digits)), None) if name.string()? == "hex" => match digits.kind() {
                    Kind::Text => Ok(Cow::Owned(unhex(digits.string()?.as_bytes())?)),
                    _ => Err(wrong()),
                },
                _ => Err(wrong()),
            }
        }
        _ => Err(wrong()),
    }
}
