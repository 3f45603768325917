//! Lines of text, each an operation or bad.

use super::Imported;
use crate::error::Result;
use crate::lines::next_line;
use crate::operation::{KEY_BYTES_MAX, Operation, Outcome};
use std::io::BufRead;

/// A line with more bytes is bad, and passed over without being kept.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Some programs write it in front of a text of UTF-8. It belongs to no line.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Nanoseconds of a second.
pub(super) const SECOND: u64 = 1_000_000_000;
/// This number of bytes of operations of one second waits for the other ones of that second, so
/// that all can be spread over it.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// The content of a line.
pub(super) struct Line {
    /// The operation, or each of the operations.
    pub(super) operation: Operation,
    /// The number of operations for which it stands.
    pub(super) count: u64,
    /// This number of them has the outcome of the operation, and the others found nothing. `None`:
    /// all have it.
    pub(super) hits: Option<u64>,
    /// The operation was somewhere in this number of nanoseconds, and its time is their beginning.
    /// 0: the time is exact.
    pub(super) within_nanos: u64,
    /// Its name in the source, if it is read as a merge.
    pub(super) as_merge: Option<&'static str>,
    /// Its name in the source, if it is read as a put and has a condition there.
    pub(super) as_put: Option<&'static str>,
}

impl From<Operation> for Line {
    fn from(operation: Operation) -> Line {
        Line {
            operation,
            count: 1,
            hits: None,
            within_nanos: 0,
            as_merge: None,
            as_put: None,
        }
    }
}

/// The outcome of a read that found this number of bytes, or nothing.
pub(super) fn found(len: Option<u64>) -> Outcome {
    match len {
        None => Outcome::Absent,
        len => Outcome::Present { len, hash: None },
    }
}

/// A format of lines.
pub(super) trait LineFormat {
    /// The content of a line. `None` for a line that is passed over in silence. The error says why
    /// it is bad.
    fn parse(&mut self, line: &str) -> std::result::Result<Option<Line>, String>;

    /// See [`Imported::times_back`].
    fn times_back(&self) -> u64;
}

pub(super) fn read(
    from: &mut dyn BufRead,
    each: &mut dyn FnMut(&Operation) -> Result<()>,
    format: &mut dyn LineFormat,
) -> Result<Imported> {
    let mut imported = Imported::default();
    let mut waiting = Waiting::default();
    let (mut line, mut number) = (Vec::new(), 0_u64);
    while let Some(is_whole) = next_line(from, &mut line, LINE_BYTES_MAX)? {
        number += 1;
        if number == 1 && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        let parsed = match (is_whole, std::str::from_utf8(&line)) {
            (false, _) => Err(format!("longer than {LINE_BYTES_MAX} bytes")),
            (true, Err(_)) => Err("not UTF-8".to_owned()),
            (true, Ok(text)) => format.parse(text.trim_end_matches('\r')),
        };
        match parsed {
            Ok(None) => {}
            Ok(Some(line)) if longest_key(&line.operation) > KEY_BYTES_MAX => {
                imported.note_bad(|| format!("line {number}: a key above {KEY_BYTES_MAX} bytes"));
            }
            Ok(Some(line)) => {
                if let Some(name) = line.as_merge {
                    *imported.as_merges.entry(name).or_default() += line.count;
                }
                if let Some(name) = line.as_put {
                    *imported.as_puts.entry(name).or_default() += line.count;
                }
                if line.count > 1 {
                    imported.counted += line.count;
                    let is_mixed = line.hits.is_some_and(|hits| hits > 0 && hits < line.count);
                    imported.mixed += if is_mixed { line.count } else { 0 };
                }
                imported.spread |= line.within_nanos == SECOND;
                waiting.add(line, each)?;
            }
            Err(why) => imported.note_bad(|| format!("line {number}: {why}")),
        }
    }
    waiting.give(SECOND, each)?;
    imported.operations = waiting.given;
    imported.times_back = format.times_back().max(waiting.back);
    Ok(imported)
}

/// Consecutive lines with one time. Their operations are spread evenly over what the time leaves
/// open.
#[derive(Default)]
struct Waiting {
    lines: Vec<Line>,
    bytes: usize,
    operations: u64,
    /// This part of their time was given to lines for which there was no room.
    used_nanos: u64,
    given: u64,
    latest: u64,
    /// Operations that were given after one that began later.
    back: u64,
}

impl Waiting {
    fn add(&mut self, line: Line, each: &mut dyn FnMut(&Operation) -> Result<()>) -> Result<()> {
        let place = |line: &Line| (line.operation.start_nanos, line.within_nanos);
        if let Some(last) = self.lines.last().map(place) {
            if last != place(&line) {
                self.give(SECOND, each)?;
                self.used_nanos = 0;
            } else if self.bytes > WAITING_BYTES_MAX {
                // The number of further lines is not known: they get the other half of the rest.
                let half = self.used_nanos + (last.1 - self.used_nanos) / 2;
                self.give(half, each)?;
                self.used_nanos = half;
            }
        }
        self.bytes += size_of::<Line>() + line.operation.key.len();
        self.operations += line.count;
        self.lines.push(line);
        Ok(())
    }

    /// Gives all of them, up to this number of nanoseconds of what their time leaves open.
    fn give(
        &mut self,
        until_nanos: u64,
        each: &mut dyn FnMut(&Operation) -> Result<()>,
    ) -> Result<()> {
        let (mut number, all) = (0, u128::from(self.operations.max(1)));
        for line in self.lines.drain(..) {
            let mut operation = line.operation;
            let (start, outcome) = (operation.start_nanos, operation.outcome);
            let room = until_nanos
                .min(line.within_nanos)
                .saturating_sub(self.used_nanos);
            for copy in 0..line.count {
                let after = (u128::from(room) * number / all) as u64 + self.used_nanos;
                operation.start_nanos = start.saturating_add(after);
                operation.outcome = match line.hits.is_none_or(|hits| copy < hits) {
                    true => outcome,
                    false => Outcome::Absent,
                };
                each(&operation)?;
                self.back += u64::from(operation.start_nanos < self.latest);
                self.latest = self.latest.max(operation.start_nanos);
                self.given += 1;
                number += 1;
            }
        }
        (self.bytes, self.operations) = (0, 0);
        Ok(())
    }
}

fn longest_key(operation: &Operation) -> usize {
    let end = operation.end_key.as_ref().map_or(0, Vec::len);
    operation.key.len().max(end)
}

/// A word of the source, in the form for a message.
pub(super) fn quoted(word: &str) -> String {
    let short: String = word.chars().take(40).collect();
    format!("{short:?}")
}

/// A field as a number.
pub(super) fn number(field: Option<&str>, what: &str) -> std::result::Result<u64, String> {
    let parsed = field.and_then(|field| field.trim().parse().ok());
    parsed.ok_or_else(|| format!("no {what}"))
}

/// Times of a source as times since its first operation. A time before that is 0.
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
