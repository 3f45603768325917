//! Splitting one CSV record (RFC 4180) into its fields.
//!
//! A field in double quotes may hold commas, line breaks and doubled quotes. Everything else about
//! quotes is an error that names its place: the importer reports bad records instead of guessing.

use std::ops::Range;

/// What the bytes are that were parsed so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The record is complete.
    Complete,
    /// A quoted field is still open: append the next line and parse again.
    Open,
    /// The bytes break a rule of CSV.
    Bad(String),
}

/// The fields of one record, unquoted.
#[derive(Debug, Default)]
pub struct Fields {
    text: Vec<u8>,
    ranges: Vec<Range<usize>>,
}

impl Fields {
    /// The number of fields.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// One field.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.ranges
            .get(index)
            .map(|range| &self.text[range.clone()])
    }

    /// Splits a record, which has no line end behind it.
    pub fn parse(&mut self, record: &[u8]) -> Parsed {
        self.text.clear();
        self.ranges.clear();
        let mut rest = record;
        loop {
            let start = self.text.len();
            let after = match rest.strip_prefix(b"\"") {
                Some(quoted) => match self.unquote(quoted) {
                    Some(after) => after,
                    None => return Parsed::Open,
                },
                None => {
                    let end = rest
                        .iter()
                        .position(|&byte| byte == b',')
                        .unwrap_or(rest.len());
                    if rest[..end].contains(&b'"') {
                        return self.bad("has a quote inside an unquoted field");
                    }
                    self.text.extend_from_slice(&rest[..end]);
                    &rest[end..]
                }
            };
            self.ranges.push(start..self.text.len());
            match after.split_first() {
                None => return Parsed::Complete,
                Some((b',', next)) => rest = next,
                Some(_) => {
                    self.ranges.pop();
                    return self.bad("goes on after its closing quote");
                }
            }
        }
    }

    /// Copies a quoted field up to its closing quote; returns what follows it.
    fn unquote<'a>(&mut self, mut rest: &'a [u8]) -> Option<&'a [u8]> {
        loop {
            let quote = rest.iter().position(|&byte| byte == b'"')?;
            self.text.extend_from_slice(&rest[..quote]);
            rest = &rest[quote + 1..];
            match rest.strip_prefix(b"\"") {
                Some(after) => {
                    self.text.push(b'"');
                    rest = after;
                }
                None => return Some(rest),
            }
        }
    }

    fn bad(&self, what: &str) -> Parsed {
        Parsed::Bad(format!("field {} {what}", self.ranges.len() + 1))
    }
}

/// Appends a field, quoted where it must be.
pub fn push_field(field: &[u8], target: &mut Vec<u8>) {
    if !field
        .iter()
        .any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r'))
    {
        target.extend_from_slice(field);
        return;
    }
    target.push(b'"');
    for &byte in field {
        if byte == b'"' {
            target.push(b'"');
        }
        target.push(byte);
    }
    target.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(record: &str) -> Result<Vec<String>, Parsed> {
        let mut fields = Fields::default();
        match fields.parse(record.as_bytes()) {
            Parsed::Complete => Ok((0..fields.len())
                .map(|index| String::from_utf8(fields.get(index).unwrap().to_vec()).unwrap())
                .collect()),
            other => Err(other),
        }
    }

    #[test]
    fn splits_as_rfc_4180_says() {
        assert_eq!(split("a,b,c").unwrap(), ["a", "b", "c"]);
        assert_eq!(split("").unwrap(), [""]);
        assert_eq!(split(",").unwrap(), ["", ""]);
        assert_eq!(split("\"\",x").unwrap(), ["", "x"]);
        assert_eq!(
            split("\"a,b\",\"c\"\"d\",\"e\nf\"").unwrap(),
            ["a,b", "c\"d", "e\nf"]
        );
        assert_eq!(split(" a , b ").unwrap(), [" a ", " b "]);
    }

    #[test]
    fn tells_open_from_bad() {
        assert_eq!(split("\"a").unwrap_err(), Parsed::Open);
        assert_eq!(split("x,\"a\"\"").unwrap_err(), Parsed::Open);
        assert!(matches!(split("a\"b").unwrap_err(), Parsed::Bad(_)));
        let Parsed::Bad(why) = split("x,\"a\"b").unwrap_err() else {
            panic!("must be bad")
        };
        assert!(why.contains("field 2"), "{why}");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            fields in proptest::collection::vec("[a\",\n\r ]{0,6}", 1..5),
        ) {
            let mut record = Vec::new();
            for (index, field) in fields.iter().enumerate() {
                if index > 0 {
                    record.push(b',');
                }
                push_field(field.as_bytes(), &mut record);
            }
            prop_assert_eq!(split(std::str::from_utf8(&record).unwrap()).unwrap(), fields);
        }
    }
}
