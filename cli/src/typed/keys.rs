//! The columns of keys as the command's text: read from fields and arguments, and shown.
//!
//! ```text
//!   str         the bytes as they are
//!   bytes, fixed:N, char          hexadecimal digits; those of N bytes; the character
//!   u8 to u128, i8 to i128        decimal digits
//!   f32, f64    as `float_text.rs` says
//!   bool        `true`, `false`
//!   time        seconds since 1970, or as 2026-01-31T12:00:00Z, as `time_text.rs` says
//!   duration    seconds of length
//!   desc:TYPE   as TYPE
//! ```
//! The library (`store/keys`) decides on their bytes: a program that uses the library makes and
//! reads the same keys. Its `opt:TYPE` is not here, since no text stands for a column that is
//! missing.

use std::borrow::Cow;
use std::str::FromStr;

use evendb::keys::decode_columns;
pub use evendb::keys::{Column, ColumnType, KeyEncoder, prefix_end};
use evendb_lab::readable::counted;

use crate::escapes::{hex, shown, unhex};
use crate::{float_text, time_text};

/// All types, in the form for messages.
pub const TYPES: &str = "str, u64, i64, f32, f64, bytes (or hex), bool, time, char, duration, fixed:N, \
                         u8 to u128, i8 to i128, and desc: before one of them for descending order";

/// The type of a name.
pub fn column_type(name: &str) -> Result<ColumnType, String> {
    // Another name of the same type.
    let canonical = match name {
        "hex" => "bytes",
        "desc:hex" => "desc:bytes",
        other => other,
    };
    let kind = canonical.parse().ok().filter(has_text);
    kind.ok_or_else(|| format!("no such type `{name}`; there are {TYPES}"))
}

fn has_text(kind: &ColumnType) -> bool {
    match kind {
        ColumnType::Optional(_) => false,
        ColumnType::Descending(inner) => has_text(inner),
        _ => true,
    }
}

/// The type without `desc:`, which says how a column is written as text.
pub fn text_type(kind: &ColumnType) -> &ColumnType {
    match kind {
        ColumnType::Descending(inner) => text_type(inner),
        other => other,
    }
}

/// Whether a number in JSON can be a column of this type.
pub fn takes_number(kind: &ColumnType) -> bool {
    !matches!(
        text_type(kind),
        ColumnType::Bytes | ColumnType::Fixed(_) | ColumnType::Char | ColumnType::Bool
    )
}

/// Appends a column written as text.
pub fn push(encoder: &mut KeyEncoder<'_>, kind: &ColumnType, text: &[u8]) -> Result<(), String> {
    encoder.push(&column(kind, text)?);
    Ok(())
}

fn column<'t>(kind: &ColumnType, text: &'t [u8]) -> Result<Column<'t>, String> {
    Ok(match kind {
        ColumnType::Text => Column::Text(Cow::Borrowed(text)),
        ColumnType::Bytes => Column::Bytes(Cow::Owned(unhex(text)?)),
        ColumnType::Fixed(length) => {
            let bytes = unhex(text)?;
            if bytes.len() != *length {
                let (shown, found) = (shown(text), counted(bytes.len() as u64, "byte"));
                return Err(format!("`{shown}` is {found}, and no {kind}"));
            }
            Column::Fixed(Cow::Owned(bytes))
        }
        ColumnType::U8 => Column::U8(parsed(text, kind)?),
        ColumnType::U16 => Column::U16(parsed(text, kind)?),
        ColumnType::U32 => Column::U32(parsed(text, kind)?),
        ColumnType::U64 => Column::U64(parsed(text, kind)?),
        ColumnType::U128 => Column::U128(parsed(text, kind)?),
        ColumnType::I8 => Column::I8(parsed(text, kind)?),
        ColumnType::I16 => Column::I16(parsed(text, kind)?),
        ColumnType::I32 => Column::I32(parsed(text, kind)?),
        ColumnType::I64 => Column::I64(parsed(text, kind)?),
        ColumnType::I128 => Column::I128(parsed(text, kind)?),
        ColumnType::F32 => Column::F32(float_text::read(text)?),
        ColumnType::F64 => Column::F64(float_text::read(text)?),
        ColumnType::Bool => Column::Bool(parsed(text, kind)?),
        ColumnType::Char => {
            let letter = std::str::from_utf8(text).ok().and_then(|t| t.parse().ok());
            Column::Char(letter.ok_or_else(|| is_no(text, kind))?)
        }
        ColumnType::Time => {
            Column::Time(time_text::read_time(text).ok_or_else(|| is_no(text, kind))?)
        }
        ColumnType::Duration => {
            Column::Duration(time_text::read_duration(text).ok_or_else(|| is_no(text, kind))?)
        }
        ColumnType::Descending(inner) => Column::Descending(Box::new(column(inner, text)?)),
        other => return Err(format!("no text is a column of {other}")),
    })
}

fn parsed<T: FromStr>(text: &[u8], kind: &ColumnType) -> Result<T, String> {
    let trimmed = std::str::from_utf8(text).ok().map(str::trim);
    let value = trimmed.and_then(|text| text.parse().ok());
    value.ok_or_else(|| is_no(text, kind))
}

fn is_no(text: &[u8], kind: &ColumnType) -> String {
    format!("`{}` is no {kind}", shown(text))
}

/// The columns of a key of these types. `None` if the bytes do not fit them.
pub fn decode<'k>(types: &[ColumnType], key: &'k [u8]) -> Option<Vec<Column<'k>>> {
    decode_columns(types, key).ok()
}

/// The bytes that a column of text stands for, or the text of a column of another type.
pub fn text_of<'c>(column: &'c Column<'_>) -> Cow<'c, [u8]> {
    let text = match column {
        Column::Text(bytes) => return Cow::Borrowed(bytes),
        Column::Descending(inner) => return text_of(inner),
        Column::Bytes(bytes) | Column::Fixed(bytes) => hex(bytes),
        Column::U8(number) => number.to_string(),
        Column::U16(number) => number.to_string(),
        Column::U32(number) => number.to_string(),
        Column::U64(number) => number.to_string(),
        Column::U128(number) => number.to_string(),
        Column::I8(number) => number.to_string(),
        Column::I16(number) => number.to_string(),
        Column::I32(number) => number.to_string(),
        Column::I64(number) => number.to_string(),
        Column::I128(number) => number.to_string(),
        // The shortest text that is read back as the same float.
        Column::F32(float) => format!("{float:?}"),
        Column::F64(float) => format!("{float:?}"),
        Column::Bool(flag) => flag.to_string(),
        Column::Char(letter) => letter.to_string(),
        Column::Time(time) => time_text::show_time(time),
        Column::Duration(length) => time_text::show_duration(length),
        // No type that the command takes has other columns.
        other => format!("{other:?}"),
    };
    Cow::Owned(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(types: &[ColumnType], texts: &[&str]) -> Vec<u8> {
        let mut key = Vec::new();
        let mut encoder = KeyEncoder::new(&mut key, types.len());
        for (kind, text) in types.iter().zip(texts) {
            push(&mut encoder, kind, text.as_bytes()).unwrap();
        }
        key
    }

    fn types(names: &str) -> Vec<ColumnType> {
        let types = names.split(',').map(column_type);
        types.collect::<Result<_, _>>().unwrap()
    }

    /// Keys that earlier versions of the command imported are found.
    #[test]
    fn the_bytes_are_those_of_always() {
        let key = encoded(&types("str,i64,u64"), &["a\0b", "-1", "2"]);
        let expected = b"a\x00\xFFb\x00\x01\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\0\0\0\0\0\0\x02";
        assert_eq!(key, expected);
        assert_eq!(encoded(&types("str"), &["a\0b"]), b"a\0b");
        assert_eq!(encoded(&types("bytes"), &["610062"]), b"a\0b");
        let key = encoded(&types("bytes,f64,f32"), &["00", "-0", "1"]);
        let expected = b"\x00\xFF\x00\x01\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xBF\x80\0\0";
        assert_eq!(key, expected);
    }

    /// What a program writes with the library is what the command writes, and the other way round.
    #[test]
    fn keys_of_the_library_and_of_the_command_are_the_same() {
        use evendb::keys::{Desc, key};
        let app_and_time = types("str,desc:u64");
        assert_eq!(
            encoded(&app_and_time, &["app7", "9"]),
            key(&("app7", Desc(9u64)))
        );
        assert_eq!(encoded(&types("str"), &["usr/share"]), key("usr/share"));
        assert_eq!(
            encoded(&types("bool,u8"), &["true", "7"]),
            key(&(true, 7u8))
        );
    }

    #[test]
    fn text_is_read_and_shown() {
        for (name, text) in [
            ("str", "any text"),
            ("bytes", "00ff"),
            ("fixed:2", "00ff"),
            ("u8", "255"),
            ("u16", "65535"),
            ("u32", "4294967295"),
            ("u64", "18446744073709551615"),
            ("u128", "340282366920938463463374607431768211455"),
            ("i8", "-128"),
            ("i16", "-32768"),
            ("i32", "-2147483648"),
            ("i64", "-9223372036854775808"),
            ("i128", "-170141183460469231731687303715884105728"),
            ("f32", "0.1"),
            ("f64", "-0.0"),
            ("bool", "true"),
            ("char", "\u{e9}"),
            ("time", "-0.5"),
            ("duration", "1.000000001"),
            ("desc:str", "any text"),
            ("desc:i8", "-128"),
        ] {
            let types = types(&format!("{name},bool"));
            let key = encoded(&types, &[text, "false"]);
            let columns = decode(&types, &key).unwrap();
            assert_eq!(text_of(&columns[0]), text.as_bytes(), "{name}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut key = Vec::new();
        let mut encoder = KeyEncoder::new(&mut key, 2);
        for (name, text) in [
            ("u64", "-1"),
            ("u64", "18446744073709551616"),
            ("i64", "9223372036854775808"),
            ("i64", "1.5"),
            ("u64", ""),
            ("u64", "1.0"),
            ("u8", "256"),
            ("f64", "12345678901234567890123"),
            ("f32", "16777217"),
            ("bytes", "0"),
            ("bytes", "0g"),
            ("fixed:2", "00"),
            ("bool", "1"),
            ("char", "ab"),
            ("time", "now"),
            ("duration", "-1"),
            ("desc:u8", "-1"),
        ] {
            let kind = column_type(name).unwrap();
            assert!(
                push(&mut encoder, &kind, text.as_bytes()).is_err(),
                "{name} {text}"
            );
        }
        for name in ["opt:u8", "desc:opt:u8", "u256", ""] {
            assert!(column_type(name).unwrap_err().contains(TYPES));
        }
    }
}
