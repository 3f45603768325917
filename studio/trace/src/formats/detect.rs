//! The format of a file, by its first bytes.

use super::text::{BYTE_ORDER_MARK, LineFormat};
use super::{Format, meta, rocksdb, twitter, ycsb};
use crate::frame::MAGIC;

/// This number of first bytes of a file is enough to tell its format. Fewer bytes may not be.
pub const DETECT_BYTES: usize = 64 << 10;
/// For a format without a mark of its own, this number of lines is looked at: the first ones may
/// not follow the format.
const LINES: usize = 20;

/// The format of a source with this beginning. `None` if it is not known, or if these bytes do not
/// tell it.
///
/// Formats with a mark of their own are recognized by it. Formats of lines are recognized by a line
/// among the first ones that is a whole operation (for RocksDB's readable form, that begins like
/// one; for Meta's, that names the columns). Output of YCSB before its first operation is passed
/// over.
#[must_use]
pub fn detect(begin: &[u8]) -> Option<Format> {
    let begin = begin.get(..DETECT_BYTES).unwrap_or(begin);
    if begin.starts_with(MAGIC) {
        return Some(Format::EvenDb);
    }
    if rocksdb::is_begin(begin) {
        return Some(Format::RocksDb);
    }
    let begin = begin.strip_prefix(BYTE_ORDER_MARK).unwrap_or(begin);
    let lines = || {
        let lines = begin.split(|byte| *byte == b'\n');
        lines.filter_map(|line| std::str::from_utf8(line).ok())
    };
    let said = lines().map(|line| line.trim_end_matches('\r'));
    let mut said = said.filter(|line| !line.is_empty()).take(LINES).peekable();
    while let Some(line) = said.next() {
        if meta::is_header(line) {
            // A third party's heading of Twitter's lines may have the same names.
            let next = said.peek().copied().unwrap_or_default();
            return Some(match says(&mut twitter::Lines::default(), next) {
                true => Format::TwitterCsv,
                false => Format::MetaCsv,
            });
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
