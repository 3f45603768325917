//! The lines of an input, counted, and lines that were read ahead and given back.

use std::error::Error;
use std::fmt;
use std::io::{self, BufRead, Read};

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A line is too long for a record: it must not take all memory.
#[derive(Debug)]
pub struct LineTooLong {
    line: u64,
    bytes_max: u64,
}

impl fmt::Display for LineTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LineTooLong { line, bytes_max } = self;
        write!(
            f,
            "line {line} has more than {bytes_max} bytes, which is the memory budget; --memory raises it"
        )
    }
}

impl Error for LineTooLong {}

/// Whether an input was refused for its longest line.
pub fn is_line_too_long(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<LineTooLong>())
}

/// Reads lines.
pub struct Lines {
    source: Box<dyn BufRead>,
    /// The longest line, with its line feed.
    bytes_max: u64,
    /// Lines that were given back, each with its line feed. The ones before `ahead_from` are read
    /// again.
    ahead: Vec<u8>,
    ahead_from: usize,
    is_begun: bool,
    count: u64,
    bytes: u64,
}

impl Lines {
    pub fn new(source: Box<dyn BufRead>, bytes_max: u64) -> Lines {
        Lines {
            source,
            bytes_max,
            ahead: Vec::new(),
            ahead_from: 0,
            is_begun: false,
            count: 0,
            bytes: 0,
        }
    }

    /// The number of lines that were read, without the ones that were given back.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The number of bytes that the source gave.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends the next line to `target`, without its line feed and, if it is the first, without a
    /// byte-order mark; `false` at the end.
    pub fn append(&mut self, target: &mut Vec<u8>) -> io::Result<bool> {
        let start = target.len();
        if self.ahead_from < self.ahead.len() {
            let mut ahead = &self.ahead[self.ahead_from..];
            self.ahead_from += ahead.read_until(b'\n', target)?;
        } else {
            let bytes_max = self.bytes_max;
            let mut source = (&mut self.source).take(bytes_max.saturating_add(1));
            let read = source.read_until(b'\n', target)? as u64;
            self.bytes += read;
            if read > bytes_max {
                let line = self.count + 1;
                let why = LineTooLong { line, bytes_max };
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
        if target.len() == start {
            return Ok(false);
        }
        self.count += 1;
        if target.last() == Some(&b'\n') {
            target.pop();
        }
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        if is_first && target[start..].starts_with(BYTE_ORDER_MARK) {
            target.drain(start..start + BYTE_ORDER_MARK.len());
        }
        Ok(true)
    }

    /// Gives back the last lines that were read, `count` of them, with line feeds between them.
    pub fn give_back(&mut self, lines: &[u8], count: u64) {
        let mut ahead = Vec::with_capacity(lines.len() + 1);
        ahead.extend_from_slice(lines);
        ahead.push(b'\n');
        ahead.extend_from_slice(&self.ahead[self.ahead_from..]);
        (self.ahead, self.ahead_from) = (ahead, 0);
        self.count -= count;
    }
}
