//! Keys as hexadecimal digits, one a line: the output of `evendb scan DB --keys-only --output hex`,
//! and of `evendb mixgraph --trace-keys`.
//!
//! ```text
//!   00ff           a key of two bytes; digits of either case
//!                  an empty line: the empty key
//!   6162\r         the line may end as on Windows, and the last one without an end
//!   users<tab>00ff a key of the keyspace "users"
//! ```
//! Lines are read one by one, and no line that is longer than the longest key and name is kept. The
//! first line that is no key is an error with the number of the line.
//!
//! [`KeyLines`] reads lines. [`ListedKeys`] reads the list for a trace: it knows the keyspaces of
//! the trace, and gives each key the number of its keyspace. A list names the keyspace in each
//! line, or is said to be of one keyspace as a whole; of a trace with one keyspace neither is
//! needed. Each is used by one thread.

use crate::error::{Error, ErrorKind, Result};
use crate::lines::next_line;
use crate::operation::KEY_BYTES_MAX;
use std::collections::BTreeMap;
use std::io::BufRead;

/// The longest name of a keyspace in a line, in bytes.
const NAME_BYTES_MAX: usize = 4096;
/// An error names at most this number of keyspaces.
const NAMES_TOLD: usize = 8;

/// Reads keys.
pub struct KeyLines<R> {
    from: R,
    line: Vec<u8>,
    key: Vec<u8>,
    /// The end of the keyspace's name in the line, if it has one.
    name: Option<usize>,
    number: u64,
}

impl<R: BufRead> KeyLines<R> {
    /// The keys of a text.
    pub fn new(from: R) -> KeyLines<R> {
        KeyLines {
            from,
            line: Vec::new(),
            key: Vec::new(),
            name: None,
            number: 0,
        }
    }

    /// The next key of a list of one keyspace. `None` after the last one.
    ///
    /// # Errors
    /// `NotAKey` with the number of the line, from 1 on, also if the line names a keyspace; `Io`.
    pub fn next_key(&mut self) -> Result<Option<&[u8]>> {
        if !self.read()? {
            return Ok(None);
        }
        match self.keyspace()? {
            None => Ok(Some(&self.key)),
            Some(_) => Err(self.refused("a keyspace before the key, in a list of one keyspace")),
        }
    }

    /// The next key, and the name of its keyspace if the line has one. `None` after the last one.
    ///
    /// # Errors
    /// `NotAKey` with the number of the line, from 1 on; `Io`.
    pub fn next_listed(&mut self) -> Result<Option<(Option<&str>, &[u8])>> {
        if !self.read()? {
            return Ok(None);
        }
        Ok(Some((self.keyspace()?, &self.key)))
    }

    /// Reads a line, and the key in it. `false` after the last one.
    fn read(&mut self) -> Result<bool> {
        let longest = NAME_BYTES_MAX + 1 + 2 * KEY_BYTES_MAX + 1;
        let Some(is_whole) = next_line(&mut self.from, &mut self.line, longest)? else {
            return Ok(false);
        };
        self.number += 1;
        if self.line.ends_with(b"\r") {
            self.line.pop();
        }
        let tab = self.line.iter().rposition(|byte| *byte == b'\t');
        let digits = tab.map_or(0, |tab| tab + 1);
        let read = match is_whole {
            true => read_hex(&self.line[digits..], &mut self.key),
            false => Err(NoKey::TooLong),
        };
        self.name = tab;
        read.map_err(|why| self.refused(&why.words()))?;
        Ok(true)
    }

    /// The keyspace that the line names.
    fn keyspace(&self) -> Result<Option<&str>> {
        let Some(end) = self.name else {
            return Ok(None);
        };
        let name = str::from_utf8(&self.line[..end]);
        let name = name.map_err(|_| self.refused("the name of a keyspace that is no UTF-8"))?;
        Ok(Some(name))
    }

    fn refused(&self, why: &str) -> Error {
        let message = format!("line {}: {why}", self.number);
        Error::new(ErrorKind::NotAKey, message)
    }
}

/// Reads keys with the numbers of their keyspaces in a trace.
pub struct ListedKeys<R> {
    lines: KeyLines<R>,
    numbers: BTreeMap<String, u32>,
    /// The keyspace of lines that name none.
    of: Option<u32>,
    /// The keyspace of the whole list, if it is said to be of one.
    whole: Option<String>,
}

impl<R: BufRead> ListedKeys<R> {
    /// The keys of a text, for a trace with these keyspaces. `of` is the keyspace of the whole
    /// list; if it is not given, lines name their keyspaces, or the trace has one.
    ///
    /// # Errors
    /// `NotAKey` if the trace has no keyspace `of`.
    pub fn new(from: R, keyspaces: &BTreeMap<u32, String>, of: Option<&str>) -> Result<Self> {
        let named = keyspaces
            .iter()
            .map(|(number, name)| (name.clone(), *number));
        let list = Self {
            lines: KeyLines::new(from),
            numbers: named.collect(),
            of: match (of, keyspaces.len()) {
                // A trace that names no keyspace has the one of number 0.
                (None, 0 | 1) => Some(keyspaces.keys().next().copied().unwrap_or(0)),
                (Some(_), 0) => Some(0),
                (Some(of), _) => {
                    let found = keyspaces.iter().find(|(_, name)| *name == of);
                    found.map(|(number, _)| *number)
                }
                (None, _) => None,
            },
            whole: of.map(str::to_owned),
        };
        match of.filter(|_| list.of.is_none()) {
            None => Ok(list),
            Some(of) => Err(Error::new(ErrorKind::NotAKey, list.unknown(of))),
        }
    }

    /// The next key, with the number of its keyspace. `None` after the last one.
    ///
    /// # Errors
    /// `NotAKey` with the number of the line: it has no key, it names a keyspace that is not in the
    /// trace or not that of the list, or it names none and the trace has several. `Io`.
    pub fn next_key(&mut self) -> Result<Option<(u32, &[u8])>> {
        if !self.lines.read()? {
            return Ok(None);
        }
        let number = match (self.lines.keyspace()?, &self.whole) {
            (Some(name), Some(whole)) if name != whole => {
                let why = format!("keyspace {name:?} in a list that is said to be of {whole:?}");
                return Err(self.lines.refused(&why));
            }
            (Some(_), Some(_)) | (None, _) => self.of.ok_or_else(|| {
                let names = names(self.numbers.keys());
                let why = format!(
                    "a key without its keyspace, and the trace has several keyspaces ({names})"
                );
                self.lines.refused(&why)
            })?,
            (Some(name), None) => match self.numbers.get(name) {
                Some(number) => *number,
                // A trace that names no keyspace has one.
                None if self.numbers.is_empty() => 0,
                None => return Err(self.lines.refused(&self.unknown(name))),
            },
        };
        Ok(Some((number, &self.lines.key)))
    }

    fn unknown(&self, name: &str) -> String {
        let names = names(self.numbers.keys());
        format!("the trace has no keyspace {name:?}; it has {names}")
    }
}

/// The first of these names, for an error.
fn names<'n>(names: impl ExactSizeIterator<Item = &'n String>) -> String {
    let more = if names.len() > NAMES_TOLD {
        ", ..."
    } else {
        ""
    };
    let names: Vec<_> = names
        .take(NAMES_TOLD)
        .map(|name| format!("{name:?}"))
        .collect();
    names.join(", ") + more
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

    fn listed(text: &str, names: &[&str], of: Option<&str>) -> Result<Vec<(u32, Vec<u8>)>> {
        let names = names.iter().map(|name| (*name).to_owned());
        let keyspaces: BTreeMap<u32, String> = (5..).zip(names).collect();
        let mut list = ListedKeys::new(text.as_bytes(), &keyspaces, of)?;
        let mut keys = Vec::new();
        while let Some((number, key)) = list.next_key()? {
            keys.push((number, key.to_vec()));
        }
        Ok(keys)
    }

    #[test]
    fn keys_have_the_keyspace_of_their_line_or_of_the_list() {
        let lines = "b c\t61\na\t\r\nb c\t62";
        let right = [(6, b"a".to_vec()), (5, vec![]), (6, b"b".to_vec())];
        assert_eq!(listed(lines, &["a", "b c"], None).unwrap(), right);
        let (bare, one) = ("61\n62\n", [(6, b"a".to_vec()), (6, b"b".to_vec())]);
        assert_eq!(listed(bare, &["a", "b"], Some("b")).unwrap(), one);
        assert_eq!(listed("b\t61\n62", &["a", "b"], Some("b")).unwrap(), one);
        // With one keyspace, nobody needs to name it; a trace may name none.
        let of = |number: u32| [(number, b"a".to_vec()), (number, b"b".to_vec())];
        assert_eq!(listed(bare, &["a"], None).unwrap(), of(5));
        assert_eq!(listed(bare, &[], None).unwrap(), of(0));
        assert_eq!(listed("x\t61\ny\t62", &[], None).unwrap(), of(0));
        assert_eq!(listed(bare, &[], Some("x")).unwrap(), of(0));
        let mut plain = KeyLines::new(&b"x\t61\n62"[..]);
        let first = plain.next_listed().unwrap();
        assert_eq!(first, Some((Some("x"), &b"a"[..])));
        let second = plain.next_listed().unwrap();
        assert_eq!(second, Some((None, &b"b"[..])));
    }

    #[test]
    fn keys_of_no_known_keyspace_are_refused_with_their_line() {
        let names = ["a", "b"];
        for (text, of, words) in [
            (
                "61",
                None,
                "line 1: a key without its keyspace, and the trace has several keyspaces (\"a\", \"b\")",
            ),
            (
                "a\t61\nc\t61",
                None,
                "line 2: the trace has no keyspace \"c\"; it has \"a\", \"b\"",
            ),
            (
                "61\na\t61",
                Some("b"),
                "line 2: keyspace \"a\" in a list that is said to be of \"b\"",
            ),
            (
                "61",
                Some("c"),
                "the trace has no keyspace \"c\"; it has \"a\", \"b\"",
            ),
            ("a\t6", None, "line 1: a key of an odd number"),
        ] {
            let error = listed(text, &names, of).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotAKey);
            assert_eq!(error.to_string().find(words), Some(0), "{error}");
        }
        let told = keys(b"61\na\t61").unwrap_err().to_string();
        assert!(told.contains("line 2: a keyspace before the key"), "{told}");
        let mut lines = ListedKeys::new(&b"\xff\t61"[..], &BTreeMap::new(), None).unwrap();
        let told = lines.next_key().unwrap_err().to_string();
        assert!(told.contains("no UTF-8"), "{told}");
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
