//! A keyspace's values as the command's text: numbers if its merge operator adds numbers, otherwise
//! bytes.
//!
//! ```text
//!   operator          bytes of a value             text                 JSON
//!   add-u64, add-i64  8, little-endian             decimal digits       a number
//!                     any others                   \v and the bytes     "text" or {"hex": "..."}
//!   none, another                                  the bytes            "text" or {"hex": "..."}
//! ```
//! A shown value is read back to the same bytes by a keyspace with the same operator.

use std::borrow::Cow;

use evendb::Merges;
use serde_json::{Value, json};

use crate::escapes::{escaped, shown, unescape};
use crate::failure::Failure;
use crate::output::text_or_hex;
use crate::store::Store;

/// The mark before a value that is no number, in a text where numbers are expected.
const WHOLE_VALUE: &str = "\\v";

/// The kind of a keyspace's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// Bytes without a known meaning.
    #[default]
    Bytes,
    /// Unsigned numbers of 64 bits.
    U64,
    /// Signed numbers of 64 bits.
    I64,
}

impl Values {
    /// The values of the store's keyspace.
    pub fn of(store: &Store) -> Result<Values, Failure> {
        Ok(match merges_of(store)? {
            Some(Merges::AddU64) => Values::U64,
            Some(Merges::AddI64) => Values::I64,
            _ => Values::Bytes,
        })
    }

    /// Whether they are numbers.
    pub fn are_numbers(self) -> bool {
        self != Values::Bytes
    }

    /// The number of a value.
    fn number(self, value: &[u8]) -> Option<i128> {
        let bytes = value.try_into().ok()?;
        match self {
            Values::Bytes => None,
            Values::U64 => Some(u64::from_le_bytes(bytes).into()),
            Values::I64 => Some(i64::from_le_bytes(bytes).into()),
        }
    }

    /// A value as one field of text.
    pub fn as_text(self, value: &[u8]) -> String {
        match self.number(value) {
            Some(number) => number.to_string(),
            None if self.are_numbers() => WHOLE_VALUE.to_owned() + &escaped(value),
            None => escaped(value),
        }
    }

    /// A value in JSON.
    pub fn as_json(self, value: &[u8]) -> Value {
        match (self, value.try_into()) {
            (Values::U64, Ok(bytes)) => json!(u64::from_le_bytes(bytes)),
            (Values::I64, Ok(bytes)) => json!(i64::from_le_bytes(bytes)),
            _ => text_or_hex(value),
        }
    }

    /// The bytes for a user's text. A number has 8 bytes.
    pub fn of_text(self, text: &[u8]) -> Result<Cow<'_, [u8]>, String> {
        fn bytes<T, const N: usize>(text: &[u8], of: fn(T) -> [u8; N]) -> Option<Vec<u8>>
        where
            T: std::str::FromStr,
        {
            let text = std::str::from_utf8(text).ok()?.trim();
            Some(of(text.parse().ok()?).to_vec())
        }
        let (number, kind) = match self {
            Values::Bytes => return Ok(Cow::Borrowed(text)),
            Values::U64 => (bytes(text, u64::to_le_bytes), "unsigned"),
            Values::I64 => (bytes(text, i64::to_le_bytes), "signed"),
        };
        let why = || {
            let shown = shown(text);
            format!("`{shown}` is no {kind} number of 64 bits, which the keyspace's operator adds")
        };
        number.map(Cow::Owned).ok_or_else(why)
    }

    /// The bytes of a field as [`as_text`](Self::as_text) makes it.
    pub fn of_field(self, field: &[u8]) -> Result<Cow<'_, [u8]>, String> {
        match field.strip_prefix(WHOLE_VALUE.as_bytes()) {
            Some(whole) if self.are_numbers() => unescape(whole),
            None if self.are_numbers() => self.of_text(field),
            _ => unescape(field),
        }
    }
}

/// The operator of the store's keyspace, if it is one that comes with the store.
pub fn merges_of(store: &Store) -> Result<Option<Merges>, Failure> {
    let name = store.option("merge_operator")?;
    Ok(name.as_deref().and_then(Merges::named))
}

/// The bytes of a value or an operand from a user's text, by the operator of the store's keyspace.
/// A number has its 8 bytes; a text for a union of sets is the set of that one text.
pub fn given(store: &Store, text: Vec<u8>) -> Result<Vec<u8>, Failure> {
    if merges_of(store)? == Some(Merges::Union) {
        return Ok(Merges::set([text]));
    }
    let bytes = Values::of(store)?.of_text(&text).map_err(Failure::Usage)?;
    Ok(bytes.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_and_read_back() {
        for (values, bytes, text) in [
            (
                Values::U64,
                &u64::MAX.to_le_bytes()[..],
                "18446744073709551615",
            ),
            (Values::I64, &u64::MAX.to_le_bytes(), "-1"),
            (Values::U64, b"7", "\\v7"),
            (Values::U64, b"", "\\v"),
            (Values::I64, b"a\t", "\\va\\t"),
            (Values::Bytes, b"a\t", "a\\t"),
            (
                Values::Bytes,
                b"\x05\0\0\0\0\0\0\0",
                "\\x05\\x00\\x00\\x00\\x00\\x00\\x00\\x00",
            ),
        ] {
            assert_eq!(values.as_text(bytes), text);
            assert_eq!(
                values.of_field(text.as_bytes()).as_deref(),
                Ok(bytes),
                "{text}"
            );
        }
        assert_eq!(Values::I64.as_json(&u64::MAX.to_le_bytes()), json!(-1));
        assert_eq!(Values::I64.as_json(b"7"), json!("7"));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for (values, text) in [
            (Values::U64, "-1"),
            (Values::U64, ""),
            (Values::U64, "18446744073709551616"),
            (Values::I64, "9223372036854775808"),
            (Values::I64, "1.5"),
        ] {
            let why = values.of_text(text.as_bytes()).unwrap_err();
            assert!(why.contains("number of 64 bits"), "{why}");
        }
        assert_eq!(Values::Bytes.of_text(b"-1").as_deref(), Ok(&b"-1"[..]));
    }
}
