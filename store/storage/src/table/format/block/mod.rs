//! A data block: records in order, prefix-compressed, with restart points.
//!
//! ```text
//! block   = | row | row | ... | restart u32 * n | n u32 |        (before compression)
//! row     = | shared v | unshared v | len << 1 | is_put v | version v | key tail | len bytes |
//!           the bytes: of a put its value; of a delete none; of others the kind u8 and the value
//! restart = offset of a row whose shared is 0; the first is 0       (v: varint)
//! ```
//!
//! A key is the first `shared` bytes of the previous key and its own tail. Every
//! `restart_interval`-th row stores its key in full, so that a search bisects over restarts and
//! then decodes one interval in line. A block is never empty.
//!
//! The bytes come from disk. Whatever they are, decoding ends in an answer or in [`Malformed`], and
//! allocates nothing. A [`Block`] is immutable and shared freely between threads. No I/O here.

use crate::table::stored::{Decoded, Malformed, UNKNOWN_KIND};
use crate::{EntryRef, Kind, Version, codec};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// Longest user key in bytes.
pub const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// A verified, decompressed data block; cheap to clone, pins its bytes.
///
/// A block that a cursor read ahead shares one buffer with its neighbours and pins the whole
/// buffer.
#[derive(Clone)]
pub struct Block {
    buffer: Arc<[u8]>,
    start: usize,
    end: usize,
    restarts: usize,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Block({} bytes, {} restarts)",
            self.end - self.start,
            self.restarts
        )
    }
}

impl Block {
    /// The block in `buffer[range]`; checks the restart array's bounds, not the rows.
    pub(crate) fn parse(buffer: Arc<[u8]>, range: Range<usize>) -> Decoded<Block> {
        let bytes = buffer
            .get(range.clone())
            .ok_or(Malformed("block out of bounds"))?;
        let (rest, count) = bytes
            .split_last_chunk::<4>()
            .ok_or(Malformed("block too short"))?;
        let restarts = u32::from_le_bytes(*count) as usize;
        if restarts == 0 || restarts > rest.len() / 4 {
            return Err(Malformed("block with an impossible number of restarts"));
        }
        let block = Block {
            start: range.start,
            end: range.end,
            restarts,
            buffer,
        };
        if block.rows().is_empty() || block.restart(0) != 0 {
            return Err(Malformed("block without a first row"));
        }
        Ok(block)
    }

    /// The block's bytes; positions of values refer to them.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Number of restart points.
    pub(crate) fn restarts(&self) -> usize {
        self.restarts
    }

    pub(crate) fn rows_end(&self) -> usize {
        self.end - self.start - 4 - 4 * self.restarts
    }

    pub(crate) fn rows(&self) -> &[u8] {
        &self.bytes()[..self.rows_end()]
    }

    /// Offset of the `ordinal`-th restart; the end of the rows for the one after the last.
    pub(crate) fn restart(&self, ordinal: usize) -> usize {
        if ordinal >= self.restarts {
            return self.rows_end();
        }
        let mut at = &self.bytes()[self.rows_end() + 4 * ordinal..];
        codec::get_u32(&mut at).map_or(usize::MAX, |offset| offset as usize)
    }

    /// The row at the `ordinal`-th restart, whose tail is its whole key.
    pub(crate) fn restart_row(&self, ordinal: usize) -> Decoded<Row> {
        let row = row_at(self.rows(), self.restart(ordinal))?;
        if row.shared != 0 {
            return Err(Malformed("restart point with a shared prefix"));
        }
        Ok(row)
    }

    /// The last restart whose row is `before` the target; 0 if none is.
    pub(crate) fn last_restart(&self, before: impl Fn(&[u8], &Row) -> bool) -> Decoded<usize> {
        let (mut low, mut high) = (0, self.restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let row = self.restart_row(middle)?;
            if before(&self.bytes()[row.tail.clone()], &row) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The newest record of `key` with version at most `at`. It copies and allocates nothing: rows
    /// are compared by the length of the prefix that the previous row has in common with `key`.
    pub(crate) fn search(&self, key: &[u8], at: Version) -> Decoded<Search> {
        let rows = self.rows();
        let start = self.last_restart(|found, row| match found.cmp(key) {
            Ordering::Less => true,
            Ordering::Equal => row.version >= at,
            Ordering::Greater => false,
        })?;
        let mut offset = self.restart(start);
        // The previous row's key is less than or equal to `key`, has `key_len` bytes, and has
        // `matched` of them in common with `key`.
        let (mut matched, mut key_len) = (0, 0);
        while offset < rows.len() {
            let row = row_at(rows, offset)?;
            if row.shared > key_len {
                return Err(Malformed("row shares more than the key before it has"));
            }
            key_len = row.shared + row.tail.len();
            offset = row.end;
            if row.shared > matched {
                continue;
            }
            let tail = &rows[row.tail.clone()];
            let rest = &key[row.shared..];
            let common = common_prefix(tail, rest);
            matched = row.shared + common;
            match (tail.get(common), rest.get(common)) {
                (None, None) if row.version.is_seen_at(at) => return Ok(Search::Found(row)),
                (None, _) => {}
                (Some(_), None) => return Ok(Search::Beyond),
                (Some(mine), Some(theirs)) if mine > theirs => return Ok(Search::Beyond),
                (Some(_), Some(_)) => {}
            }
        }
        Ok(Search::Ended)
    }
}

/// The result of [`Block::search`].
#[derive(Debug)]
pub(crate) enum Search {
    /// The record.
    Found(Row),
    /// A record behind the wanted place: the wanted record is in neither this block nor a later
    /// one.
    Beyond,
    /// The block ended first.
    Ended,
}

/// A decoded row; ranges are within the block's bytes.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) shared: usize,
    pub(crate) tail: Range<usize>,
    pub(crate) value: Range<usize>,
    pub(crate) version: Version,
    pub(crate) kind: Kind,
    pub(crate) end: usize,
}

/// Number of leading bytes that `a` and `b` have in common.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let (mut wide_a, mut wide_b) = (a[..len].chunks_exact(8), b[..len].chunks_exact(8));
    let mut common = 0;
    while let (Some(x), Some(y)) = (wide_a.next(), wide_b.next()) {
        if x != y {
            break;
        }
        common += 8;
    }
    common
        + a[common..len]
            .iter()
            .zip(&b[common..len])
            .take_while(|(x, y)| x == y)
            .count()
}

#[inline]
fn varint_at(rows: &[u8], at: &mut usize) -> Decoded<u64> {
    const CUT: Malformed = Malformed("row with a broken varint");
    let &first = rows.get(*at).ok_or(CUT)?;
    if first < 0x80 {
        *at += 1;
        return Ok(u64::from(first));
    }
    let mut rest = &rows[*at..];
    let value = codec::get_varint(&mut rest).ok_or(CUT)?;
    *at = rows.len() - rest.len();
    Ok(value)
}

/// Decodes the row at `offset`, checking every length against the rows' end.
#[inline]
pub(crate) fn row_at(rows: &[u8], offset: usize) -> Decoded<Row> {
    const LONG: Malformed = Malformed("row longer than its block");
    let mut at = offset;
    let shared = varint_at(rows, &mut at)?;
    let unshared = varint_at(rows, &mut at)?;
    let value_and_kind = varint_at(rows, &mut at)?;
    let version = Version(varint_at(rows, &mut at)?);
    let left = (rows.len() - at) as u64;
    let (value_len, is_put) = (value_and_kind >> 1, value_and_kind & 1 == 1);
    if unshared > left || value_len > left - unshared {
        return Err(LONG);
    }
    if shared > KEY_BYTES_MAX as u64 || shared + unshared > KEY_BYTES_MAX as u64 {
        return Err(Malformed("key longer than a key may be"));
    }
    let tail = at..at + unshared as usize;
    let mut value = tail.end..tail.end + value_len as usize;
    let end = value.end;
    let kind = match (is_put, value_len) {
        (true, _) => Kind::Put,
        (false, 0) => Kind::Delete,
        (false, _) => {
            let kind = other_kind(&rows[value.clone()])?;
            value.start += 1;
            kind
        }
    };
    Ok(Row {
        shared: shared as usize,
        tail,
        value,
        version,
        kind,
        end,
    })
}

/// The kind of a row that is neither a put nor a delete. `bytes` hold the kind and the value.
#[cold]
fn other_kind(bytes: &[u8]) -> Decoded<Kind> {
    let (&byte, value) = bytes
        .split_first()
        .ok_or(Malformed("row without the byte of its kind"))?;
    match Kind::from_byte(byte) {
        Some(Kind::Delete | Kind::Put) => Err(Malformed("put or delete in the form of others")),
        Some(kind) if kind.takes(value) => Ok(kind),
        Some(_) => Err(Malformed("row whose value its kind cannot have")),
        None => Err(UNKNOWN_KIND),
    }
}

/// The number by which a row tells the length of its value and whether it is a put. Then, if it is
/// neither put nor delete, the byte that comes before the value.
fn length_and_kind(entry: EntryRef<'_>) -> (u64, Option<u8>) {
    let len = entry.value.len() as u64;
    match entry.kind {
        Kind::Put => (len << 1 | 1, None),
        Kind::Delete => (0, None),
        other => ((len + 1) << 1, Some(other as u8)),
    }
}

/// Bytes that a varint of `value` takes.
fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Builds one block after the other, each at the end of the caller's buffer: a record is copied
/// once, to the place from which it is written.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    /// The offset of the block in the buffer, and the length of its rows.
    start: usize,
    rows_len: usize,
    restarts: Vec<u32>,
    restart_interval: usize,
    rows_in_interval: usize,
}

impl BlockBuilder {
    pub(crate) fn new(restart_interval: usize) -> BlockBuilder {
        BlockBuilder {
            start: 0,
            rows_len: 0,
            restarts: Vec::new(),
            restart_interval: restart_interval.max(1),
            rows_in_interval: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows_len == 0
    }

    /// Bytes of the block if it were finished now.
    pub(crate) fn len(&self) -> usize {
        self.rows_len + 4 * self.restarts.len() + 4
    }

    fn at_restart(&self) -> bool {
        self.is_empty() || self.rows_in_interval >= self.restart_interval
    }

    /// Bytes of the block if it were finished after adding this record.
    pub(crate) fn len_with(&self, entry: EntryRef<'_>, shared: usize) -> usize {
        let (shared, restart) = if self.at_restart() {
            (0, 4)
        } else {
            (shared, 0)
        };
        let tail = entry.key.len() - shared;
        let (value, kind) = length_and_kind(entry);
        let numbers = [shared as u64, tail as u64, value, entry.version.0];
        let numbers: usize = numbers.into_iter().map(varint_len).sum();
        self.len() + restart + numbers + tail + usize::from(kind.is_some()) + entry.value.len()
    }

    /// Whether the restart array's 32-bit offsets cannot name another record.
    pub(crate) fn is_full(&self) -> bool {
        u32::try_from(self.rows_len).is_err()
    }

    /// Appends a record to `buffer`. Its key has `shared` bytes in common with the previous key.
    /// Between a block's first record and [`BlockBuilder::finish`] nothing else may be appended.
    pub(crate) fn add(&mut self, buffer: &mut Vec<u8>, entry: EntryRef<'_>, shared: usize) {
        if self.is_empty() {
            self.start = buffer.len();
        }
        debug_assert_eq!(self.start + self.rows_len, buffer.len());
        let shared = if self.at_restart() {
            // `is_full` ends a block before its rows outgrow 32 bits.
            self.restarts
                .push(u32::try_from(self.rows_len).unwrap_or(u32::MAX));
            self.rows_in_interval = 0;
            0
        } else {
            shared
        };
        self.rows_in_interval += 1;
        let tail = &entry.key[shared..];
        codec::put_varint(buffer, shared as u64);
        codec::put_varint(buffer, tail.len() as u64);
        let (value, kind) = length_and_kind(entry);
        codec::put_varint(buffer, value);
        codec::put_varint(buffer, entry.version.0);
        buffer.extend_from_slice(tail);
        buffer.extend(kind);
        buffer.extend_from_slice(entry.value);
        self.rows_len = buffer.len() - self.start;
    }

    /// Appends the restart array, and returns where the finished block begins; it ends with the
    /// buffer. The next record begins the next block.
    pub(crate) fn finish(&mut self, buffer: &mut Vec<u8>) -> usize {
        for restart in &self.restarts {
            buffer.extend_from_slice(&restart.to_le_bytes());
        }
        buffer.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        self.restarts.clear();
        self.rows_len = 0;
        self.rows_in_interval = 0;
        self.start
    }
}

#[cfg(test)]
mod tests;
