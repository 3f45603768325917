//! Lines of text, each one operation or bad.

use super::Imported;
use crate::error::Result;
use crate::lines::next_line;
use crate::operation::{KEY_BYTES_MAX, Operation};
use std::io::BufRead;

/// A longer line is bad, and passed over without being kept.
const LINE_BYTES_MAX: usize = 1 << 20;

/// A format of lines.
pub(super) trait LineFormat {
    /// The operation of a line; `None` for a line that is to be passed over in silence. The error says why it is bad.
    fn parse(&mut self, line: &str) -> std::result::Result<Option<Operation>, String>;

    /// How many operations the line stands for that was parsed last.
    fn count(&self) -> u64 {
        1
    }

    /// Makes of the operation of that line the one with this number, from 0 on.
    fn adjust(&self, _number: u64, _operation: &mut Operation) {}

    /// See [`Imported::times_back`].
    fn times_back(&self) -> u64;
}

pub(super) fn read(
    from: &mut dyn BufRead,
    each: &mut dyn FnMut(&Operation) -> Result<()>,
    format: &mut dyn LineFormat,
) -> Result<Imported> {
    let mut imported = Imported::default();
    let (mut line, mut number) = (Vec::new(), 0_u64);
    while let Some(is_whole) = next_line(from, &mut line, LINE_BYTES_MAX)? {
        number += 1;
        let parsed = match (is_whole, std::str::from_utf8(&line)) {
            (false, _) => Err(format!("longer than {LINE_BYTES_MAX} bytes")),
            (true, Err(_)) => Err("not UTF-8".to_owned()),
            (true, Ok(text)) => format.parse(text.trim_end_matches('\r')),
        };
        match parsed {
            Ok(None) => {}
            Ok(Some(operation)) if longest_key(&operation) > KEY_BYTES_MAX => {
                imported.note_bad(|| format!("line {number}: a key above {KEY_BYTES_MAX} bytes"));
            }
            Ok(Some(mut operation)) => {
                for number in 0..format.count() {
                    format.adjust(number, &mut operation);
                    each(&operation)?;
                    imported.operations += 1;
                }
            }
            Err(why) => imported.note_bad(|| format!("line {number}: {why}")),
        }
    }
    imported.times_back = format.times_back();
    Ok(imported)
}

fn longest_key(operation: &Operation) -> usize {
    let end = operation.end_key.as_ref().map_or(0, Vec::len);
    operation.key.len().max(end)
}

/// A word of the source, as a message may have it.
pub(super) fn quoted(word: &str) -> String {
    let short: String = word.chars().take(40).collect();
    format!("{short:?}")
}

/// A field as a number.
pub(super) fn number(field: Option<&str>, what: &str) -> std::result::Result<u64, String> {
    let parsed = field.and_then(|field| field.trim().parse().ok());
    parsed.ok_or_else(|| format!("no {what}"))
}

/// Times of a source as times since its first operation. One from before that is 0.
#[derive(Default)]
pub(super) struct SinceFirst {
    first: Option<u64>,
    latest: u64,
    back: u64,
}

impl SinceFirst {
    /// Since a time that is known.
    pub(super) fn at(first: u64) -> SinceFirst {
        let mut since = SinceFirst::default();
        since.of(first);
        since
    }

    pub(super) fn of(&mut self, time: u64) -> u64 {
        let first = *self.first.get_or_insert(time);
        match time < self.latest {
            true => self.back += 1,
            false => self.latest = time,
        }
        time.saturating_sub(first)
    }

    pub(super) fn times_back(&self) -> u64 {
        self.back
    }
}
