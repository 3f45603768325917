//! Splitting CSV records (RFC 4180) into their fields, line by line.
//!
//! A field in double quotes may hold commas, line breaks and doubled quotes. Everything else about
//! quotes is an error that names its place: the importer reports bad records instead of guessing.
//!
//! Each line is given once: the bytes of an open field are kept, and are not looked at again.

use std::ops::Range;

/// The state of a record after the given lines.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The record is complete.
    Complete,
    /// A quoted field is still open: give the next line.
    Open,
    /// The bytes break a rule of CSV.
    Bad(String),
}

/// The fields of one record, unquoted.
#[derive(Debug)]
pub struct Fields {
    delimiter: u8,
    text: Vec<u8>,
    ranges: Vec<Range<usize>>,
    /// Where the text of an open field starts.
    open: usize,
    /// Bytes that were looked at, over all records.
    #[cfg(test)]
    pub looked_at: u64,
}

impl Fields {
    /// No fields yet. `delimiter` separates them.
    pub fn new(delimiter: u8) -> Fields {
        Fields {
            delimiter,
            text: Vec::new(),
            ranges: Vec::new(),
            open: 0,
            #[cfg(test)]
            looked_at: 0,
        }
    }

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

    /// Splits the first line of a record. It has no line end.
    pub fn parse(&mut self, line: &[u8]) -> Parsed {
        self.text.clear();
        self.ranges.clear();
        self.look_at(line);
        self.split(line, false)
    }

    /// Goes on with the next line of a record that is [`Parsed::Open`]; `between` is the line end
    /// before it.
    pub fn parse_on(&mut self, between: &[u8], line: &[u8]) -> Parsed {
        self.text.extend_from_slice(between);
        self.look_at(line);
        self.split(line, true)
    }

    #[cfg_attr(not(test), expect(unused_variables, reason = "only tests count"))]
    fn look_at(&mut self, line: &[u8]) {
        #[cfg(test)]
        {
            self.looked_at += line.len() as u64;
        }
    }

    /// Splits the rest of a line, which begins in a quoted field or with a new one.
    fn split(&mut self, mut rest: &[u8], mut is_open: bool) -> Parsed {
        loop {
            if !is_open {
                self.open = self.text.len();
                let quoted = rest.strip_prefix(b"\"");
                (rest, is_open) = (quoted.unwrap_or(rest), quoted.is_some());
            }
            let after = match is_open {
                true => match self.unquote(rest) {
                    Some(after) => after,
                    None => return Parsed::Open,
                },
                false => {
                    let ends = |&byte: &u8| byte == self.delimiter || byte == b'"';
                    let end = rest.iter().position(ends).unwrap_or(rest.len());
                    self.text.extend_from_slice(&rest[..end]);
                    &rest[end..]
                }
            };
            match after.split_first() {
                Some((&byte, _)) if byte != self.delimiter => {
                    return self.bad(match is_open {
                        true => "goes on after its closing quote",
                        false => "has a quote inside an unquoted field",
                    });
                }
                next => {
                    self.ranges.push(self.open..self.text.len());
                    match next {
                        Some((_, next)) => rest = next,
                        None => return Parsed::Complete,
                    }
                }
            }
            is_open = false;
        }
    }

    /// Copies a quoted field up to its closing quote; returns what follows it.
    fn unquote<'a>(&mut self, mut rest: &'a [u8]) -> Option<&'a [u8]> {
        loop {
            let quote = rest.iter().position(|&byte| byte == b'"');
            let Some(quote) = quote else {
                self.text.extend_from_slice(rest);
                return None;
            };
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

    /// The number of the current field, from 1.
    pub fn at_hand(&self) -> usize {
        self.ranges.len() + 1
    }

    fn bad(&self, what: &str) -> Parsed {
        Parsed::Bad(format!("field {} {what}", self.at_hand()))
    }
}

/// Appends a field, quoted where it must be.
pub fn push_field(field: &[u8], delimiter: u8, target: &mut Vec<u8>) {
    let needs_quotes = |byte: &u8| *byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r');
    if !field.iter().any(needs_quotes) {
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

/// Splits a record that is there as a whole.
#[cfg(any(test, feature = "fuzzing"))]
pub fn parse(fields: &mut Fields, lines: &[u8]) -> Parsed {
    let mut lines = lines.split(|&byte| byte == b'\n');
    let mut parsed = fields.parse(lines.next().unwrap_or_default());
    for line in lines {
        parsed = match parsed {
            Parsed::Open => fields.parse_on(b"\n", line),
            Parsed::Complete => {
                return Parsed::Bad("a record ends before the last line".to_owned());
            }
            Parsed::Bad(why) => return Parsed::Bad(why),
        };
    }
    parsed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(record: &str) -> Result<Vec<String>, Parsed> {
        let mut fields = Fields::new(b',');
        match parse(&mut fields, record.as_bytes()) {
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
                push_field(field.as_bytes(), b',', &mut record);
            }
            prop_assert_eq!(split(std::str::from_utf8(&record).unwrap()).unwrap(), fields);
        }
    }
}
