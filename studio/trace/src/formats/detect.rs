//! Which format a file has, by its first bytes.

use super::text::LineFormat;
use super::{Format, meta, rocksdb, twitter, ycsb};
use crate::frame::MAGIC;

/// So many first bytes of a file are enough to tell its format. Fewer may be.
pub const DETECT_BYTES: usize = 64 << 10;
/// So many lines are looked at for a format that has no mark of its own: the first ones may be none of it.
const LINES: usize = 20;

/// The format of what begins so; `None` if it is none that is known, or what is there does not tell.
///
/// Formats with a mark of their own are told by it, those of lines by a line among the first ones that is a whole operation (or, of RocksDB's
/// readable form, begins as one does; of Meta's, names the columns). What YCSB prints before its first operation is passed over.
#[must_use]
pub fn detect(begin: &[u8]) -> Option<Format> {
    let begin = begin.get(..DETECT_BYTES).unwrap_or(begin);
    if begin.starts_with(MAGIC) {
        return Some(Format::EvenDb);
    }
    if rocksdb::is_begin(begin) {
        return Some(Format::RocksDb);
    }
    let lines = || {
        let lines = begin.split(|byte| *byte == b'\n');
        lines.filter_map(|line| std::str::from_utf8(line).ok())
    };
    let said = lines().map(|line| line.trim_end_matches('\r'));
    for line in said.filter(|line| !line.is_empty()).take(LINES) {
        if meta::is_header(line) {
            return Some(Format::MetaCsv);
        }
        if line.starts_with("0x") {
            return Some(Format::RocksDbText);
        }
        if says(&mut twitter::Lines::default(), line) {
            return Some(Format::TwitterCsv);
        }
    }
    let is_of_ycsb = |line| says(&mut ycsb::Lines::default(), line);
    lines().any(is_of_ycsb).then_some(Format::YcsbText)
}

fn says(format: &mut dyn LineFormat, line: &str) -> bool {
    matches!(format.parse(line), Ok(Some(_)))
}
