//! The parts of a JSON text as they are written, so that numbers keep their digits.
//!
//! [`Json::parse`] lets the JSON parser check the whole text. All other code only looks for where
//! the parts of a valid text begin and end.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::escapes::shown;

/// A valid JSON value, as it is written, without space around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<'a>(&'a str);

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// A string.
    Text,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl Kind {
    /// Its name in a message.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

impl<'a> Json<'a> {
    /// Checks a whole text.
    pub fn parse(text: &'a [u8]) -> Result<Json<'a>, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("this is no JSON: {error}");
        let text = std::str::from_utf8(text).map_err(|error| wrong(&error))?;
        let raw: &RawValue = serde_json::from_str(text).map_err(|error| wrong(&error))?;
        Ok(Json(raw.get().trim_ascii()))
    }

    /// The value for a message.
    pub fn shown(self) -> String {
        shown(self.0.as_bytes())
    }

    /// The value as it is written.
    pub fn text(self) -> &'a str {
        self.0
    }

    /// Its kind.
    pub fn kind(self) -> Kind {
        match self.0.as_bytes().first() {
            Some(b'"') => Kind::Text,
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b't' | b'f') => Kind::Boolean,
            Some(b'n') => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// The content of a string.
    pub fn string(self) -> Result<Cow<'a, str>, String> {
        let inside = self.0.strip_prefix('"').and_then(|s| s.strip_suffix('"'));
        match inside {
            Some(inside) if !inside.contains('\\') => Ok(Cow::Borrowed(inside)),
            _ => serde_json::from_str(self.0)
                .map(Cow::Owned)
                .map_err(|error| format!("{} is no text: {error}", self.shown())),
        }
    }

    /// The elements of an array; empty for any other value.
    pub fn elements(self) -> impl Iterator<Item = Json<'a>> {
        let mut parts = match self.kind() {
            Kind::Array => Parts::of(self.0),
            _ => Parts::of(""),
        };
        std::iter::from_fn(move || parts.next())
    }

    /// The members of an object, names as they are written; empty for any other value.
    pub fn members(self) -> impl Iterator<Item = (Json<'a>, Json<'a>)> {
        let mut parts = match self.kind() {
            Kind::Object => Parts::of(self.0),
            _ => Parts::of(""),
        };
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }
}

/// The values directly within an array or object, in order.
struct Parts<'a> {
    rest: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Parts<'a> {
        Parts {
            rest: text.get(1..).unwrap_or_default(),
        }
    }

    fn next(&mut self) -> Option<Json<'a>> {
        let between = |letter: char| letter.is_ascii_whitespace() || matches!(letter, ',' | ':');
        let rest = self.rest.trim_start_matches(between);
        if rest.is_empty() || rest.starts_with([']', '}']) {
            return None;
        }
        let (value, after) = rest.split_at(end(rest.as_bytes()));
        self.rest = after;
        Some(Json(value))
    }
}

/// The end of the value at the beginning of the bytes.
fn end(bytes: &[u8]) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at += string_bytes(&bytes[at..]);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The length of the string at the beginning of the bytes, its quotes included.
fn string_bytes(bytes: &[u8]) -> usize {
    let mut at = 1;
    loop {
        match bytes.get(at) {
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return bytes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn numbers_keep_their_digits() {
        let text =
            b" {\"a\" : 12345678901234567890123 ,\"b\\u0041\":[1.10 , -0.0,1e999], \"c\":{} } ";
        let json = Json::parse(text).unwrap();
        let members: Vec<_> = json
            .members()
            .map(|(name, value)| (name.string().unwrap().into_owned(), value.text()))
            .collect();
        let expected = [
            ("a".to_owned(), "12345678901234567890123"),
            ("bA".to_owned(), "[1.10 , -0.0,1e999]"),
            ("c".to_owned(), "{}"),
        ];
        assert_eq!(members, expected);
        let array = Json::parse(b"[1.10 , -0.0,1e999]").unwrap();
        let elements: Vec<_> = array.elements().map(Json::text).collect();
        assert_eq!(elements, ["1.10", "-0.0", "1e999"]);
        assert_eq!(json.elements().count() + array.members().count(), 0);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "",
            "{",
            "{\"a\":01}",
            "{\"a\":1}x",
            "[1,]",
            "{\"a\":\"\\q\"}",
            "{\"a\":.5}",
            "{'a':1}",
        ] {
            assert!(Json::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(Json::parse(b"\"\xFF\"").is_err());
        let lone = Json::parse(b"\"\\ud800\"");
        assert!(lone.and_then(Json::string).is_err());
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a\\\\\"{}\\[\\],: \n]{0,5}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec(("[a\"\\\\]{0,3}", inner), 0..4)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn parts_are_those_of_the_parser(value in value(), pretty: bool) {
            let text = match pretty {
                true => serde_json::to_string_pretty(&value).unwrap(),
                false => value.to_string(),
            };
            let json = Json::parse(text.as_bytes()).unwrap();
            let parsed = |json: Json<'_>| serde_json::from_str::<Value>(json.text()).unwrap();
            match &value {
                Value::Array(elements) => {
                    prop_assert_eq!(&json.elements().map(parsed).collect::<Vec<_>>(), elements);
                }
                Value::Object(members) => {
                    let found = json.members().map(|(name, value)| {
                        (name.string().unwrap().into_owned(), parsed(value))
                    });
                    let members = members.iter().map(|(name, value)| (name.clone(), value.clone()));
                    prop_assert!(found.eq(members));
                }
                other => prop_assert_eq!(&parsed(json), other),
            }
        }
    }
}
