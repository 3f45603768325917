//! RocksDB's readable form of a trace, as its `trace_analyzer` writes it: `0xHEX type cf size
//! micros`, a line each.
//!
//! Types: 0 get, 1 put, 2 delete, 3 single delete, 4 range delete (its end is not there), 5 merge,
//! 6 seek, 7 seek for the one before, 8 multi-get. Without keys a line begins with its type; such a
//! trace is refused line by line. The format has no scan lengths, results and groups, so a written
//! trace loses them.

use super::text::{Line, LineFormat, SinceFirst, number};
use crate::error::Result;
use crate::key_lines::{NoKey, read_hex};
use crate::operation::{Kind, Operation};
use std::io::Write;

#[derive(Default)]
pub(super) struct Lines {
    since: SinceFirst,
}

impl LineFormat for Lines {
    fn parse(&mut self, line: &str) -> std::result::Result<Option<Line>, String> {
        if line.is_empty() {
            return Ok(None);
        }
        let mut words = line.split_ascii_whitespace();
        let hex = words.next().and_then(|word| word.strip_prefix("0x"));
        let hex = hex.ok_or("no key in hex; a trace without keys cannot be used")?;
        let mut key = Vec::new();
        read_hex(hex.as_bytes(), &mut key).map_err(NoKey::words)?;
        let kind = number(words.next(), "type")?;
        let family = number(words.next(), "column family")?;
        let size = number(words.next(), "value size")?;
        let micros = number(words.next(), "time")?;
        let mut operation = Operation::new(Kind::Get, key);
        operation.kind = match kind {
            0 => Kind::Get,
            1 => Kind::Put,
            2 => Kind::Delete,
            3 => Kind::SingleDelete,
            4 => Kind::DeleteRange,
            5 => Kind::Merge,
            6 | 7 => Kind::Scan,
            8 => Kind::MultiGet,
            other => return Err(format!("no type {other}")),
        };
        if kind == 7 {
            // The greatest key at or below: the range ends right after it.
            let mut end = std::mem::take(&mut operation.key);
            end.push(0);
            operation.end_key = Some(end);
            operation.reverse = true;
        }
        operation.keyspace = u32::try_from(family).map_err(|_| "an absurd column family")?;
        operation.start_nanos = self.since.of(micros).saturating_mul(1000);
        if matches!(operation.kind, Kind::Put | Kind::Merge) {
            operation.value_len = Some(size);
        }
        Ok(Some(operation.into()))
    }

    fn times_back(&self) -> u64 {
        self.since.times_back()
    }
}

/// The time of the first line that is an operation, in microseconds since 1970.
pub(super) fn begin_micros(begin: &[u8]) -> u64 {
    let lines = begin.split(|byte| *byte == b'\n');
    let mut times = lines.filter_map(|line| {
        let line = std::str::from_utf8(line).ok()?;
        let is_operation = matches!(Lines::default().parse(line), Ok(Some(_)));
        let word = line
            .split_ascii_whitespace()
            .nth(4)
            .filter(|_| is_operation)?;
        word.parse().ok()
    });
    times.next().unwrap_or_default()
}

pub(super) fn write(to: &mut dyn Write, operation: &Operation, begin_micros: u64) -> Result<bool> {
    let mut key = &operation.key[..];
    let kind = match operation.kind {
        Kind::Get | Kind::Contains | Kind::GetForUpdate => 0,
        Kind::Put | Kind::Ingest => 1,
        Kind::Delete => 2,
        Kind::SingleDelete => 3,
        Kind::DeleteRange => 4,
        Kind::Merge => 5,
        Kind::Scan if operation.reverse => {
            key = operation.end_key.as_deref().unwrap_or(key);
            // A range that ends right after a key began there.
            key = key.strip_suffix(&[0]).unwrap_or(key);
            7
        }
        Kind::Scan => 6,
        Kind::MultiGet => 8,
        _ => return Ok(false),
    };
    let mut line = String::with_capacity(2 * key.len() + 40);
    line.push_str("0x");
    for byte in key {
        for digit in [byte >> 4, byte & 15] {
            line.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
        }
    }
    let micros = begin_micros.saturating_add(operation.start_nanos / 1000);
    let size = operation.value_len.unwrap_or_default();
    writeln!(to, "{line} {kind} {} {size} {micros}", operation.keyspace)?;
    Ok(true)
}
