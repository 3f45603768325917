//! Keys made of typed columns, in an encoding whose byte order is the order of the columns.
//!
//! ```text
//!   one text column:      the bytes as they are
//!   several columns, each:
//!     text   bytes, 0x00 written as 0x00 0xFF, then the end mark 0x00 0x01
//!     u64    8 bytes, big endian
//!     i64    8 bytes, big endian, sign bit flipped
//! ```
//! Why it sorts: the end mark is less than any continuation of the text (0x00 0xFF or a byte above
//! zero), so a text sorts before its extensions; numbers have a fixed width. A key is decoded only
//! with the types it was made with; bytes that do not fit them decode to nothing.
#![expect(clippy::big_endian_bytes, reason = "numbers must sort by their bytes")]

use std::fmt;
use std::str::FromStr;

const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xFF;
const END: u8 = 0x01;
const SIGN: u64 = 1 << 63;

/// The type of one column of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Any bytes.
    Text,
    /// A whole number from 0.
    Unsigned,
    /// A whole number that may be negative.
    Signed,
}

impl FromStr for ColumnType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "str" | "text" => Ok(Self::Text),
            "u64" => Ok(Self::Unsigned),
            "i64" => Ok(Self::Signed),
            _ => Err(format!(
                "unknown key type `{text}`; known are str, u64 and i64"
            )),
        }
    }
}

/// One decoded column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// Bytes.
    Text(Vec<u8>),
    /// An unsigned number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Self::Unsigned(number) => number.fmt(f),
            Self::Signed(number) => number.fmt(f),
        }
    }
}

/// Encodes the columns of one key.
pub struct KeyEncoder<'a> {
    key: &'a mut Vec<u8>,
    single: bool,
}

impl<'a> KeyEncoder<'a> {
    /// Starts a key of `columns` columns in `key`, which is cleared.
    pub fn new(key: &'a mut Vec<u8>, columns: usize) -> Self {
        key.clear();
        Self {
            key,
            single: columns == 1,
        }
    }

    /// Appends a column written as text.
    pub fn push(&mut self, kind: ColumnType, text: &[u8]) -> Result<(), String> {
        match kind {
            ColumnType::Text => self.push_text(text),
            ColumnType::Unsigned => {
                self.key
                    .extend_from_slice(&number::<u64>(text)?.to_be_bytes());
            }
            ColumnType::Signed => {
                let flipped = number::<i64>(text)? as u64 ^ SIGN;
                self.key.extend_from_slice(&flipped.to_be_bytes());
            }
        }
        Ok(())
    }

    fn push_text(&mut self, text: &[u8]) {
        if self.single {
            self.key.extend_from_slice(text);
            return;
        }
        for (index, piece) in text.split(|&byte| byte == ESCAPE).enumerate() {
            if index > 0 {
                self.key.extend_from_slice(&[ESCAPE, ESCAPED_ZERO]);
            }
            self.key.extend_from_slice(piece);
        }
        self.key.extend_from_slice(&[ESCAPE, END]);
    }
}

fn number<T: FromStr>(text: &[u8]) -> Result<T, String> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| {
            let shown = String::from_utf8_lossy(text);
            format!("`{shown}` is no {}", std::any::type_name::<T>())
        })
}

/// The columns of a key of these types, or `None` where the bytes do not fit them.
pub fn decode(types: &[ColumnType], key: &[u8]) -> Option<Vec<Column>> {
    if let [ColumnType::Text] = types {
        return Some(vec![Column::Text(key.to_vec())]);
    }
    let mut rest = key;
    let mut columns = Vec::with_capacity(types.len());
    for kind in types {
        let (column, after) = match kind {
            ColumnType::Text => take_text(rest)?,
            ColumnType::Unsigned => {
                let (bytes, after) = rest.split_first_chunk::<8>()?;
                (Column::Unsigned(u64::from_be_bytes(*bytes)), after)
            }
            ColumnType::Signed => {
                let (bytes, after) = rest.split_first_chunk::<8>()?;
                (
                    Column::Signed((u64::from_be_bytes(*bytes) ^ SIGN) as i64),
                    after,
                )
            }
        };
        columns.push(column);
        rest = after;
    }
    rest.is_empty().then_some(columns)
}

fn take_text(mut rest: &[u8]) -> Option<(Column, &[u8])> {
    let mut text = Vec::new();
    loop {
        let zero = rest.iter().position(|&byte| byte == ESCAPE)?;
        text.extend_from_slice(&rest[..zero]);
        let mark = *rest.get(zero + 1)?;
        rest = &rest[zero + 2..];
        match mark {
            END => return Some((Column::Text(text), rest)),
            ESCAPED_ZERO => text.push(0),
            _ => return None,
        }
    }
}

/// The smallest key above every key with this prefix; `None` where there is none.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn encode(columns: &[Column]) -> (Vec<ColumnType>, Vec<u8>) {
        let mut key = Vec::new();
        let mut encoder = KeyEncoder::new(&mut key, columns.len());
        let mut types = Vec::new();
        for column in columns {
            let (kind, text) = match column {
                Column::Text(bytes) => (ColumnType::Text, bytes.clone()),
                Column::Unsigned(number) => (ColumnType::Unsigned, number.to_string().into()),
                Column::Signed(number) => (ColumnType::Signed, number.to_string().into()),
            };
            encoder.push(kind, &text).unwrap();
            types.push(kind);
        }
        (types, key)
    }

    /// Texts of few different bytes, so that zeros, prefixes and equal columns are common.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        vec(
            prop_oneof![Just(0u8), Just(1), Just(0xFE), Just(0xFF), any::<u8>()],
            0..5,
        )
    }

    fn row() -> impl Strategy<Value = Vec<Column>> {
        (text(), any::<i64>(), text(), 0u64..4, text()).prop_map(|(a, b, c, d, e)| {
            vec![
                Column::Text(a),
                Column::Signed(b % 3),
                Column::Text(c),
                Column::Unsigned(d),
                Column::Text(e),
            ]
        })
    }

    proptest! {
        #[test]
        fn composite_keys_decode_to_their_columns(columns in row()) {
            let (types, key) = encode(&columns);
            prop_assert_eq!(decode(&types, &key), Some(columns));
        }

        #[test]
        fn byte_order_is_column_order(first in row(), second in row()) {
            prop_assert_eq!(encode(&first).1.cmp(&encode(&second).1), first.cmp(&second));
        }

        #[test]
        fn numbers_sort_by_their_value(first: i64, second: i64, third: u64, fourth: u64) {
            let signed = |n| encode(&[Column::Signed(n)]).1;
            prop_assert_eq!(signed(first).cmp(&signed(second)), first.cmp(&second));
            let unsigned = |n| encode(&[Column::Unsigned(n)]).1;
            prop_assert_eq!(unsigned(third).cmp(&unsigned(fourth)), third.cmp(&fourth));
        }

        #[test]
        fn any_bytes_decode_without_panic(bytes in text(), more in text()) {
            let key = [bytes, more].concat();
            let types = [ColumnType::Text, ColumnType::Signed, ColumnType::Text];
            for count in 0..=types.len() {
                if let Some(columns) = decode(&types[..count], &key) {
                    prop_assert_eq!(encode(&columns).1, key.clone());
                }
            }
        }

        #[test]
        fn prefix_end_is_the_tight_bound(prefix in text(), tail in text(), other in text()) {
            let end = prefix_end(&prefix);
            let inside = [prefix.clone(), tail].concat();
            prop_assert!(end.as_ref().is_none_or(|end| &inside < end));
            if other >= prefix && !other.starts_with(&prefix) {
                prop_assert!(end.is_some_and(|end| other >= end));
            }
        }
    }

    #[test]
    fn the_encoding_is_what_the_picture_says() {
        let columns = [
            Column::Text(b"a\0b".to_vec()),
            Column::Signed(-1),
            Column::Unsigned(2),
        ];
        let expected = b"a\x00\xFFb\x00\x01\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\0\0\0\0\0\0\x02";
        assert_eq!(encode(&columns).1, expected);
        assert_eq!(encode(&[Column::Text(b"a\0b".to_vec())]).1, b"a\0b");
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let mut key = Vec::new();
        let mut encoder = KeyEncoder::new(&mut key, 2);
        for (kind, text) in [
            (ColumnType::Unsigned, "-1"),
            (ColumnType::Unsigned, "18446744073709551616"),
            (ColumnType::Signed, "9223372036854775808"),
            (ColumnType::Signed, "1.5"),
            (ColumnType::Unsigned, ""),
        ] {
            assert!(encoder.push(kind, text.as_bytes()).is_err(), "{text}");
        }
    }
}
