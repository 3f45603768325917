//! Keys made of typed columns, in an encoding whose byte order is the order of the columns.
//!
//! ```text
//!   one column of text or bytes:  the bytes as they are
//!   else, each column:
//!     str     bytes, 0x00 written as 0x00 0xFF, then the end mark 0x00 0x01
//!     bytes   the same; written in hexadecimal where it is text
//!     u64     8 bytes, big endian
//!     i64     8 bytes, big endian, sign bit flipped
//!     f64     8 bytes, big endian; sign bit flipped, or all bits if it is set; f32: 4 bytes
//! ```
//! Why it sorts: the end mark is less than any continuation of the text (0x00 0xFF or a byte above
//! zero), so a text sorts before its extensions; numbers have a fixed width. Floats are in the total
//! order of IEEE 754: -inf, negative numbers, -0, 0, positive numbers, inf, NaN. -0 and 0 are two
//! keys; NaN is one key, whatever its bits were. A key is decoded only with the types it was made
//! with; bytes that do not fit them decode to nothing.
#![expect(clippy::big_endian_bytes, reason = "numbers must sort by their bytes")]

use std::fmt;
use std::str::FromStr;

use crate::escapes::{hex, shown, unhex};
use crate::float_text::{self, Float};

const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xFF;
const END: u8 = 0x01;
const SIGN: u64 = 1 << 63;
const SHORT_SIGN: u32 = 1 << 31;

/// The types there are, as messages list them.
pub const TYPES: &str = "str, u64, i64, f32, f64, bytes";

/// The type of one column of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Any bytes, written as they are.
    Text,
    /// A whole number from 0.
    Unsigned,
    /// A whole number that may be negative.
    Signed,
    /// A float of 32 bits.
    Single,
    /// A float of 64 bits.
    Double,
    /// Any bytes, written in hexadecimal.
    Bytes,
}

impl FromStr for ColumnType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "str" | "text" => Ok(Self::Text),
            "u64" => Ok(Self::Unsigned),
            "i64" => Ok(Self::Signed),
            "f32" => Ok(Self::Single),
            "f64" => Ok(Self::Double),
            "bytes" => Ok(Self::Bytes),
            _ => Err(format!("no such type `{text}`; there are {TYPES}")),
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "str",
            Self::Unsigned => "u64",
            Self::Signed => "i64",
            Self::Single => "f32",
            Self::Double => "f64",
            Self::Bytes => "bytes",
        })
    }
}

/// One decoded column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Bytes to be written as they are.
    Text(Vec<u8>),
    /// An unsigned number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// A float of 32 bits.
    Single(f32),
    /// A float of 64 bits.
    Double(f64),
    /// Bytes to be written in hexadecimal.
    Bytes(Vec<u8>),
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Self::Unsigned(number) => number.fmt(f),
            Self::Signed(number) => number.fmt(f),
            // The shortest text that is read back as the same float.
            Self::Single(float) => write!(f, "{float:?}"),
            Self::Double(float) => write!(f, "{float:?}"),
            Self::Bytes(bytes) => f.write_str(&hex(bytes)),
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
            ColumnType::Text => self.push_bytes(text),
            ColumnType::Bytes => self.push_bytes(&unhex(text)?),
            ColumnType::Single => {
                let bits = float_text::read::<f32>(text)?.to_bits();
                self.key
                    .extend_from_slice(&single_in_order(bits).to_be_bytes());
            }
            ColumnType::Double => {
                let bits = float_text::read::<f64>(text)?.to_bits();
                self.key
                    .extend_from_slice(&double_in_order(bits).to_be_bytes());
            }
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

    /// Appends a column of text or bytes.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        if self.single {
            self.key.extend_from_slice(bytes);
            return;
        }
        for (index, piece) in bytes.split(|&byte| byte == ESCAPE).enumerate() {
            if index > 0 {
                self.key.extend_from_slice(&[ESCAPE, ESCAPED_ZERO]);
            }
            self.key.extend_from_slice(piece);
        }
        self.key.extend_from_slice(&[ESCAPE, END]);
    }
}

/// Bits whose order as a whole number is the total order of the floats, and back.
fn double_in_order(bits: u64) -> u64 {
    if bits & SIGN == 0 { bits ^ SIGN } else { !bits }
}

fn double_of_order(bits: u64) -> u64 {
    if bits & SIGN == 0 { !bits } else { bits ^ SIGN }
}

fn single_in_order(bits: u32) -> u32 {
    if bits & SHORT_SIGN == 0 {
        bits ^ SHORT_SIGN
    } else {
        !bits
    }
}

fn single_of_order(bits: u32) -> u32 {
    if bits & SHORT_SIGN == 0 {
        !bits
    } else {
        bits ^ SHORT_SIGN
    }
}

fn number<T: FromStr>(text: &[u8]) -> Result<T, String> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| {
            let shown = shown(text);
            format!("`{shown}` is no {}", std::any::type_name::<T>())
        })
}

/// The columns of a key of these types, or `None` where the bytes do not fit them.
pub fn decode(types: &[ColumnType], key: &[u8]) -> Option<Vec<Column>> {
    match types {
        [ColumnType::Text] => return Some(vec![Column::Text(key.to_vec())]),
        [ColumnType::Bytes] => return Some(vec![Column::Bytes(key.to_vec())]),
        _ => {}
    }
    let mut rest = key;
    let mut columns = Vec::with_capacity(types.len());
    for kind in types {
        let (column, after) = match kind {
            ColumnType::Text => {
                let (bytes, after) = take_bytes(rest)?;
                (Column::Text(bytes), after)
            }
            ColumnType::Bytes => {
                let (bytes, after) = take_bytes(rest)?;
                (Column::Bytes(bytes), after)
            }
            ColumnType::Single => {
                let (bytes, after) = rest.split_first_chunk::<4>()?;
                let bits = single_of_order(u32::from_be_bytes(*bytes));
                let float = f32::from_bits(bits);
                // Keys hold one NaN; another one was not made by these commands.
                let known = !float.is_nan() || bits == <f32 as Float>::NAN.to_bits();
                known.then_some((Column::Single(float), after))?
            }
            ColumnType::Double => {
                let (bytes, after) = rest.split_first_chunk::<8>()?;
                let bits = double_of_order(u64::from_be_bytes(*bytes));
                let float = f64::from_bits(bits);
                let known = !float.is_nan() || bits == <f64 as Float>::NAN.to_bits();
                known.then_some((Column::Double(float), after))?
            }
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

fn take_bytes(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut text = Vec::new();
    loop {
        let zero = rest.iter().position(|&byte| byte == ESCAPE)?;
        text.extend_from_slice(&rest[..zero]);
        let mark = *rest.get(zero + 1)?;
        rest = &rest[zero + 2..];
        match mark {
            END => return Some((text, rest)),
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
    use std::cmp::Ordering;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn encode(columns: &[Column]) -> (Vec<ColumnType>, Vec<u8>) {
        let mut key = Vec::new();
        let mut encoder = KeyEncoder::new(&mut key, columns.len());
        let mut types = Vec::new();
        for column in columns {
            let kind = match column {
                Column::Text(_) => ColumnType::Text,
                Column::Unsigned(_) => ColumnType::Unsigned,
                Column::Signed(_) => ColumnType::Signed,
                Column::Single(_) => ColumnType::Single,
                Column::Double(_) => ColumnType::Double,
                Column::Bytes(_) => ColumnType::Bytes,
            };
            match column {
                Column::Text(bytes) => encoder.push(kind, bytes).unwrap(),
                other => encoder.push(kind, other.to_string().as_bytes()).unwrap(),
            }
            types.push(kind);
        }
        (types, key)
    }

    /// The order that keys of such columns must have.
    fn order(first: &[Column], second: &[Column]) -> Ordering {
        let pairs = first.iter().zip(second);
        let one = |(first, second): (&Column, &Column)| match (first, second) {
            (Column::Text(a) | Column::Bytes(a), Column::Text(b) | Column::Bytes(b)) => a.cmp(b),
            (Column::Unsigned(a), Column::Unsigned(b)) => a.cmp(b),
            (Column::Signed(a), Column::Signed(b)) => a.cmp(b),
            (Column::Single(a), Column::Single(b)) => a.total_cmp(b),
            (Column::Double(a), Column::Double(b)) => a.total_cmp(b),
            _ => panic!("columns of different types"),
        };
        pairs.map(one).fold(Ordering::Equal, Ordering::then)
    }

    /// Floats of all kinds, but one NaN.
    fn double() -> impl Strategy<Value = f64> {
        let special = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            0.0,
            -0.0,
            1.5,
            -1.5,
            f64::MIN_POSITIVE,
            5e-324,
            -5e-324,
            f64::MAX,
            f64::MIN,
        ];
        prop_oneof![
            proptest::sample::select(special.to_vec()),
            any::<u64>()
                .prop_map(f64::from_bits)
                .prop_map(|float| if float.is_nan() { f64::NAN } else { float }),
        ]
    }

    fn single() -> impl Strategy<Value = f32> {
        double().prop_map(|float| {
            let float = float as f32;
            if float.is_nan() { f32::NAN } else { float }
        })
    }

    /// Texts of few different bytes, so that zeros, prefixes and equal columns are common.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        vec(
            prop_oneof![Just(0u8), Just(1), Just(0xFE), Just(0xFF), any::<u8>()],
            0..5,
        )
    }

    fn row() -> impl Strategy<Value = Vec<Column>> {
        let first = (text(), any::<i64>(), text(), 0u64..4);
        let second = (single(), text(), double(), text());
        (first, second).prop_map(|((a, b, c, d), (e, f, g, h))| {
            vec![
                Column::Bytes(a),
                Column::Signed(b % 3),
                Column::Text(c),
                Column::Unsigned(d),
                Column::Single(e),
                Column::Bytes(f),
                Column::Double(g),
                Column::Text(h),
            ]
        })
    }

    proptest! {
        #[test]
        fn composite_keys_decode_to_their_columns(columns in row()) {
            let (types, key) = encode(&columns);
            let decoded = decode(&types, &key).unwrap();
            prop_assert_eq!(order(&decoded, &columns), Ordering::Equal);
            prop_assert_eq!(encode(&decoded).1, key);
        }

        #[test]
        fn byte_order_is_column_order(first in row(), second in row()) {
            prop_assert_eq!(encode(&first).1.cmp(&encode(&second).1), order(&first, &second));
        }

        #[test]
        fn floats_sort_by_their_value(
            first in double(), second in double(), third in single(), fourth in single(),
        ) {
            let double = |float| encode(&[Column::Double(float)]).1;
            prop_assert_eq!(double(first).cmp(&double(second)), first.total_cmp(&second));
            let single = |float| encode(&[Column::Single(float)]).1;
            prop_assert_eq!(single(third).cmp(&single(fourth)), third.total_cmp(&fourth));
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
            let types = [
                ColumnType::Single,
                ColumnType::Text,
                ColumnType::Signed,
                ColumnType::Bytes,
                ColumnType::Double,
            ];
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
        assert_eq!(encode(&[Column::Bytes(b"a\0b".to_vec())]).1, b"a\0b");
        let columns = [
            Column::Bytes(b"\0".to_vec()),
            Column::Double(-0.0),
            Column::Single(1.0),
        ];
        let expected = b"\x00\xFF\x00\x01\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xBF\x80\0\0";
        assert_eq!(encode(&columns).1, expected);
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
            (ColumnType::Unsigned, "1.0"),
            (ColumnType::Double, "12345678901234567890123"),
            (ColumnType::Single, "16777217"),
            (ColumnType::Bytes, "0"),
            (ColumnType::Bytes, "0g"),
        ] {
            assert!(encoder.push(kind, text.as_bytes()).is_err(), "{text}");
        }
    }
}
