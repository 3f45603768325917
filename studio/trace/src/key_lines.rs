//! Keys as hexadecimal digits, one a line: the output of `evendb scan DB --keys-only --output hex`,
//! and of `evendb mixgraph --trace-keys`.
//!
//! ```text
//!   00ff        a key of two bytes; digits of either case
//!               an empty line: the empty key
//!   6162\r      the line may end as on Windows, and the last one without an end
//! ```
//! Lines are read one by one, and no line that is longer than the longest key is kept. The first
//! line that is no key is an error with the number of the line.

use crate::error::{Error, ErrorKind, Result};
use crate::lines::next_line;
use crate::operation::KEY_BYTES_MAX;
use std::io::BufRead;

/// Reads keys.
pub struct KeyLines<R> {
    from: R,
    line: Vec<u8>,
    key: Vec<u8>,
    number: u64,
}

impl<R: BufRead> KeyLines<R> {
    /// The keys of a text.
    pub fn new(from: R) -> KeyLines<R> {
        KeyLines {
            from,
            line: Vec::new(),
            key: Vec::new(),
            number: 0,
        }
    }

    /// The next key. `None` after the last one.
    ///
    /// # Errors
    /// `NotAKey` with the number of the line, from 1 on; `Io`.
    pub fn next_key(&mut self) -> Result<Option<&[u8]>> {
        let longest = 2 * KEY_BYTES_MAX + 1;
        let Some(is_whole) = next_line(&mut self.from, &mut self.line, longest)? else {
            return Ok(None);
        };
        self.number += 1;
        let digits = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let read = match is_whole {
            true => read_hex(digits, &mut self.key),
            false => Err(NoKey::TooLong),
        };
        match read {
            Ok(()) => Ok(Some(&self.key)),
            Err(why) => {
                let message = format!("line {}: {}", self.number, why.words());
                Err(Error::new(ErrorKind::NotAKey, message))
            }
        }
    }
}

/// Why digits are no key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoKey {
    TooLong,
    NoDigits,
    OddDigits,
}

impl NoKey {
    pub(crate) fn words(self) -> String {
        match self {
            NoKey::TooLong => format!("a key above {KEY_BYTES_MAX} bytes"),
            NoKey::NoDigits => "a key that is no hexadecimal digits".to_owned(),
            NoKey::OddDigits => "a key of an odd number of hexadecimal digits".to_owned(),
        }
    }
}

/// Replaces `key` by the bytes of these digits.
pub(crate) fn read_hex(digits: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
    key.clear();
    if digits.len() > 2 * KEY_BYTES_MAX {
        return Err(NoKey::TooLong);
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(NoKey::NoDigits),
    };
    let (pairs, rest) = digits.as_chunks::<2>();
    for &[high, low] in pairs {
        key.push(value(high)? << 4 | value(low)?);
    }
    match rest {
        [] => Ok(()),
        _ => Err(NoKey::OddDigits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut lines = KeyLines::new(text);
        let mut keys = Vec::new();
        while let Some(key) = lines.next_key()? {
            keys.push(key.to_vec());
        }
        Ok(keys)
    }

    #[test]
    fn each_line_is_a_key() {
        let found = keys(b"00fF\n6162\r\n\n\r\n7A").unwrap();
        assert_eq!(found, [&[0, 255][..], b"ab", b"", b"", b"z"]);
        assert_eq!(keys(b"").unwrap(), [b""; 0]);
        let longest = vec![b'7'; 2 * KEY_BYTES_MAX];
        for end in ["", "\n", "\r\n", "\r"] {
            let line = [&longest, end.as_bytes()].concat();
            assert_eq!(keys(&line).unwrap(), [vec![0x77; KEY_BYTES_MAX]]);
        }
    }

    #[test]
    fn what_is_no_key_is_refused_with_its_line() {
        let long = format!("00\n{}\n", "7".repeat(2 * KEY_BYTES_MAX + 2));
        let cases = [
            ("00\n0\n", "an odd number"),
            ("00\nxy\n", "no hexadecimal digits"),
            ("00\n+1\n", "no hexadecimal digits"),
            ("00\n 00\n", "no hexadecimal digits"),
            ("00\n0\r0\n", "no hexadecimal digits"),
            ("00\n\u{e4}\n", "no hexadecimal digits"),
            (&long, "a key above"),
            (&long[..long.len() - 2], "a key above"),
        ];
        for (text, why) in cases {
            let error = keys(text.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotAKey);
            let message = error.to_string();
            let is_told = message.starts_with("line 2: ") && message.contains(why);
            assert!(is_told, "{message}");
        }
    }
}
