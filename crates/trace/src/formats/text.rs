//! Lines of text, each one operation or bad.

use super::Imported;
use crate::error::Result;
use crate::operation::Operation;
use std::io::BufRead;

/// A longer line is bad, and passed over without being kept.
const LINE_BYTES_MAX: usize = 1 << 20;

/// A format of lines.
pub(super) trait LineFormat {
    /// The operation of a line; `None` for a line that is to be passed over in silence. The error says why it is bad.
    fn parse(&mut self, line: &str) -> std::result::Result<Option<Operation>, String>;
}

pub(super) fn read(
    from: &mut dyn BufRead,
    each: &mut dyn FnMut(&Operation) -> Result<()>,
    format: &mut dyn LineFormat,
) -> Result<Imported> {
    let mut imported = Imported::default();
    let (mut line, mut number) = (Vec::new(), 0_u64);
    while let Some(is_whole) = next_line(from, &mut line)? {
        number += 1;
        let parsed = match (is_whole, std::str::from_utf8(&line)) {
            (false, _) => Err(format!("longer than {LINE_BYTES_MAX} bytes")),
            (true, Err(_)) => Err("not UTF-8".to_owned()),
            (true, Ok(text)) => format.parse(text.trim_end_matches('\r')),
        };
        match parsed {
            Ok(None) => {}
            Ok(Some(operation)) => {
                each(&operation)?;
                imported.operations += 1;
            }
            Err(why) => imported.note_bad(|| format!("line {number}: {why}")),
        }
    }
    Ok(imported)
}

/// The next line without its end; false if it was too long to be kept. `None` at the end.
fn next_line(from: &mut dyn BufRead, line: &mut Vec<u8>) -> Result<Option<bool>> {
    line.clear();
    let (mut is_whole, mut is_there) = (true, false);
    loop {
        let bytes = match from.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        if bytes.is_empty() {
            return Ok(is_there.then_some(is_whole));
        }
        is_there = true;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = end.unwrap_or(bytes.len());
        match line.len() + part <= LINE_BYTES_MAX {
            true => line.extend_from_slice(&bytes[..part]),
            false => is_whole = false,
        }
        from.consume(end.map_or(part, |end| end + 1));
        if end.is_some() {
            return Ok(Some(is_whole));
        }
    }
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
}

impl SinceFirst {
    pub(super) fn of(&mut self, time: u64) -> u64 {
        let first = *self.first.get_or_insert(time);
        time.saturating_sub(first)
    }
}
