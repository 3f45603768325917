//! The block index of a table: which data block can hold a key, and where that block lies.
//!
//! ```text
//! stored   = | blocks v | row * blocks |                            (v: varint)
//! row      = | stored length of the block v | separator_len << 1 | continues v | separator |
//!
//! resident = prefix        bytes that all separators start with, once
//!            heads         up to 8 bytes behind the prefix of each separator: bisected
//!            key_lens      length of each separator behind the prefix
//!            tails         bytes of separators behind their heads, end to end
//!            lens          stored length of each block
//!            groups        of 16 blocks: where the first one lies, and its tail
//!            continuing    ordinals of the few blocks that continue
//! ```
//! The resident form is what a database with many tables has in memory for each block. So each
//! length takes only the bytes that the table's longest length needs, and each head the bytes of
//! the longest head. That makes 9 bytes a block if keys differ within 5 bytes, and 12 if they
//! differ within 8. The place of a block is the group's place and a sum of at most 15 lengths.
//!
//! Blocks lie end to end from the table's start, so lengths give offsets. A block's separator is a
//! key `K` with `last key of the block <= K < first key of the next`, as short as is easily found.
//! If the versions of one key go on in the next block, there is no such `K`. Then `K` is that key
//! and `continues` is set, and the first block with `K >= key` is still the first that can hold
//! `key`. The last separator is the table's greatest key.
//!
//! Immutable once decoded, shared freely. No I/O here.

use crate::codec;
use crate::plant::planted;
use crate::table::block::{KEY_BYTES_MAX, common_prefix};
use crate::table::footer::Properties;
use crate::table::lens::Lens;
use crate::table::stored::{Decoded, Malformed, TRAILER_BYTES};
use std::cmp::Ordering;
use std::ops::Range;

/// Blocks of a group.
const GROUP: usize = 16;

/// Bytes of a head.
const HEAD_BYTES: usize = 8;

/// The resident block index.
#[derive(Debug)]
pub(crate) struct BlockIndex {
    prefix: Box<[u8]>,
    heads: Heads,
    key_lens: Lens,
    tails: Box<[u8]>,
    lens: Lens,
    groups: Box<[Group]>,
    continuing: Box<[u32]>,
    data_bytes: u64,
}

/// The place of a group's first block, and the place of its separator's tail.
#[derive(Clone, Copy, Debug)]
struct Group {
    block: u64,
    tail: u32,
}

/// The heads of all separators, end to end. Each has as many bytes as the longest of them needs,
/// and zeros behind the last head let each be read as eight bytes.
#[derive(Debug)]
struct Heads {
    bytes: Box<[u8]>,
    /// The number of heads.
    len: usize,
    /// Bytes of each head, up to [`HEAD_BYTES`].
    width: usize,
}

impl Heads {
    /// The head at index `at`, as [`head_of`] gives it. Panics if there is none.
    fn get(&self, at: usize) -> u64 {
        let from = at * self.width;
        let mut word = [0; HEAD_BYTES];
        word.copy_from_slice(&self.bytes[from..from + HEAD_BYTES]);
        // The bytes of the next heads are at the small end.
        let others = (8 * (HEAD_BYTES - self.width)) as u32;
        let word = u64::from_le_bytes(word).swap_bytes();
        word.checked_shr(others).map_or(0, |own| own << others)
    }
}

/// The first number of a range for which `is_before` is false, or the range's end. The numbers for
/// which it is true come first.
fn partition_point(range: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut from, mut to) = (range.start, range.end);
    while from < to {
        let middle = from + (to - from) / 2;
        match is_before(middle) {
            true => from = middle + 1,
            false => to = middle,
        }
    }
    from
}

/// Makes [`Heads`].
struct HeadsBuilder {
    bytes: Vec<u8>,
    len: usize,
    width: usize,
}

impl HeadsBuilder {
    /// No heads yet, of `count` separators. The longest of these has `longest` bytes.
    fn new(longest: usize, count: usize) -> HeadsBuilder {
        let width = longest.min(HEAD_BYTES);
        HeadsBuilder {
            bytes: Vec::with_capacity(count * width + HEAD_BYTES - width),
            len: 0,
            width,
        }
    }

    fn push(&mut self, head: u64) {
        let head = head.swap_bytes().to_le_bytes();
        self.bytes.extend_from_slice(&head[..self.width]);
        self.len += 1;
    }

    fn finish(mut self) -> Heads {
        let behind = HEAD_BYTES - self.width;
        self.bytes.resize(self.bytes.len() + behind, 0);
        Heads {
            bytes: self.bytes.into(),
            len: self.len,
            width: self.width,
        }
    }
}

/// The bytes of a separator's tail. The separator has `key_len` bytes behind the prefix.
fn tail_len(key_len: u64) -> usize {
    (key_len as usize).saturating_sub(HEAD_BYTES)
}

/// The first 8 bytes of `key`, padded with zeros, so that heads compare as keys do. Equal heads
/// leave the order open.
fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; HEAD_BYTES];
    let len = key.len().min(HEAD_BYTES);
    head[..len].copy_from_slice(&key[..len]);
    u64::from_le_bytes(head).swap_bytes()
}

/// Where `key` lies between two other keys, from 0 to 1, by the 8 bytes behind their common prefix.
pub(crate) fn share_below(key: &[u8], low: &[u8], high: &[u8]) -> f64 {
    let common = common_prefix(low, high);
    let number = |key: &[u8]| head_of(key.get(common..).unwrap_or_default()) as f64;
    let (low, high, key) = (number(low), number(high), number(key));
    match high > low {
        true => ((key - low) / (high - low)).clamp(0.0, 1.0),
        false => 0.5,
    }
}

impl BlockIndex {
    /// Decodes a stored index of blocks that fill the first `data_bytes` of the table. It is read
    /// once to verify it, and then once for each part, so that only what stays is allocated.
    pub(crate) fn decode(stored: &[u8], data_bytes: u64) -> Decoded<BlockIndex> {
        let rows = Rows::of(stored)?;
        let longest = rows.clone().verify(data_bytes)?;
        let prefix_len = longest.prefix.len();
        let count = rows.left as usize;
        let mut heads = HeadsBuilder::new(longest.key, count);
        let mut tails = Vec::with_capacity(longest.tails);
        let mut groups = Vec::with_capacity(count.div_ceil(GROUP));
        let mut continuing = Vec::new();
        let mut block = 0;
        // All rows verified.
        let rows = rows.map_while(Result::ok);
        for (ordinal, row) in rows.clone().enumerate() {
            if ordinal % GROUP == 0 {
                let tail = u32::try_from(tails.len())
                    .map_err(|_| Malformed("block index with over 4 GiB of keys"))?;
                groups.push(Group { block, tail });
            }
            if row.continues {
                let ordinal = u32::try_from(ordinal);
                continuing.push(ordinal.map_err(|_| Malformed("block index of too many blocks"))?);
            }
            let rest = &row.separator[prefix_len..];
            heads.push(head_of(rest));
            tails.extend_from_slice(rest.get(HEAD_BYTES..).unwrap_or_default());
            block += row.len;
        }
        let key_lens = rows.clone().map(|row| row.separator.len() - prefix_len);
        Ok(BlockIndex {
            prefix: longest.prefix.into(),
            heads: heads.finish(),
            key_lens: Lens::new(key_lens.map(|len| len as u64), longest.key as u64, count),
            tails: tails.into(),
            lens: Lens::new(rows.map(|row| row.len), longest.block, count),
            groups: groups.into(),
            continuing: continuing.into(),
            data_bytes,
        })
    }

    /// Number of blocks.
    pub(crate) fn len(&self) -> usize {
        self.heads.len
    }

    /// Bytes of all stored blocks.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Bytes in memory.
    pub(crate) fn resident_bytes(&self) -> usize {
        let allocated = |bytes: usize| match bytes {
            0 => 0,
            _ => (bytes + 8).next_multiple_of(16),
        };
        allocated(self.prefix.len())
            + allocated(self.heads.bytes.len())
            + allocated(self.key_lens.bytes())
            + allocated(self.tails.len())
            + allocated(self.lens.bytes())
            + allocated(size_of_val(&*self.groups))
            + allocated(size_of_val(&*self.continuing))
    }

    /// Ordinal of the first block whose separator is `>= key`. This is the first block that can
    /// hold `key` or a key after it. The number of blocks if `key` is behind all of them.
    pub(crate) fn find(&self, key: &[u8]) -> usize {
        let common = common_prefix(key, &self.prefix);
        if common < self.prefix.len() {
            return match key.get(common) {
                Some(&byte) if byte > self.prefix[common] => self.len(),
                _ => 0,
            };
        }
        let rest = &key[common..];
        let head = head_of(rest);
        let low = partition_point(0..self.len(), |at| self.heads.get(at) < head);
        if low == self.len() || self.heads.get(low) != head {
            return low;
        }
        // Separators of equal heads are few: keys equal in 8 bytes behind the common prefix.
        let equal = low..partition_point(low..self.len(), |at| self.heads.get(at) == head);
        partition_point(equal, |at| self.cmp_behind_head(at, rest).is_lt())
    }

    /// Compares the separator of a block with a key. Both are without the common prefix, and their
    /// heads are equal.
    fn cmp_behind_head(&self, ordinal: usize, rest: &[u8]) -> Ordering {
        let len = self.key_lens.get(ordinal) as usize;
        match rest.get(HEAD_BYTES..) {
            Some(tail) if len > HEAD_BYTES => self.tail(ordinal).cmp(tail),
            // One of the two ends within its head. There the other one has the zeros of the
            // padding, and is longer.
            _ => len.cmp(&rest.len()),
        }
    }

    /// A separator's bytes behind its head.
    fn tail(&self, ordinal: usize) -> &[u8] {
        let first = ordinal / GROUP * GROUP;
        let skipped: usize = (first..ordinal)
            .map(|before| tail_len(self.key_lens.get(before)))
            .sum();
        let start = self.groups[ordinal / GROUP].tail as usize + skipped;
        &self.tails[start..start + tail_len(self.key_lens.get(ordinal))]
    }

    /// Whether the separator of a block is this key.
    pub(crate) fn is_separator(&self, ordinal: usize, key: &[u8]) -> bool {
        key.strip_prefix(&*self.prefix).is_some_and(|rest| {
            self.heads.get(ordinal) == head_of(rest)
                && self.cmp_behind_head(ordinal, rest) == Ordering::Equal
        })
    }

    /// The whole separator of a block. Panics if there is no such block.
    pub(crate) fn separator(&self, ordinal: usize) -> Vec<u8> {
        let mut separator = Vec::new();
        self.separator_into(ordinal, &mut separator);
        separator
    }

    /// The same, which replaces the contents of `out`.
    pub(crate) fn separator_into(&self, ordinal: usize, out: &mut Vec<u8>) {
        let head = self.heads.get(ordinal).swap_bytes().to_le_bytes();
        let head_len = HEAD_BYTES.min(self.key_lens.get(ordinal) as usize);
        out.clear();
        for part in [&self.prefix, &head[..head_len], self.tail(ordinal)] {
            out.extend_from_slice(part);
        }
    }

    /// Whether the versions of `key` go on from block `ordinal` into the next.
    pub(crate) fn continues(&self, ordinal: usize, key: &[u8]) -> bool {
        !self.continuing.is_empty()
            && self.continuing.binary_search(&(ordinal as u32)).is_ok()
            && self.is_separator(ordinal, key)
    }

    /// Whether a table with these properties can have this index: the number of blocks is the same,
    /// the greatest key is at the end, and in a keyed table no key is in two blocks.
    pub(crate) fn agrees_with(&self, properties: &Properties, is_keyed: bool) -> bool {
        properties.blocks == self.len() as u64
            && (self.len() == 0 || self.ends_with(&properties.meta.max_key))
            && (self.continuing.is_empty() || !is_keyed)
    }

    /// Whether the separator of the last block is `key`.
    fn ends_with(&self, key: &[u8]) -> bool {
        self.len()
            .checked_sub(1)
            .is_some_and(|last| self.is_separator(last, key))
    }

    /// The place of stored block `ordinal` within the table. Panics if there is no such block.
    pub(crate) fn block(&self, ordinal: usize) -> Range<u64> {
        let group = self.groups[ordinal / GROUP];
        let start = group.block + self.lens.sum(ordinal / GROUP * GROUP..ordinal);
        start..start + self.lens.get(ordinal)
    }
}

/// The rows of a stored index, one after the other. The first row that does not verify is the last
/// item.
#[derive(Clone)]
struct Rows<'a> {
    stored: &'a [u8],
    left: u64,
}

struct Row<'a> {
    len: u64,
    separator: &'a [u8],
    continues: bool,
}

/// The sizes that a verified index needs.
struct Longest<'a> {
    /// The prefix of all separators.
    prefix: &'a [u8],
    /// The greatest length of a block, and of a separator behind the prefix.
    block: u64,
    key: usize,
    /// The sum of the lengths of all tails.
    tails: usize,
}

const CUT: Malformed = Malformed("block index cut short");

impl<'a> Rows<'a> {
    fn of(mut stored: &'a [u8]) -> Decoded<Rows<'a>> {
        let left = codec::get_varint(&mut stored).ok_or(CUT)?;
        // A row takes at least two bytes, so a lie about their number allocates nothing.
        match left > stored.len() as u64 / 2 {
            true => Err(Malformed("block index with an impossible number of blocks")),
            false => Ok(Rows { stored, left }),
        }
    }

    fn row(&mut self) -> Option<Row<'a>> {
        let len = codec::get_varint(&mut self.stored)?;
        let separator_and_flag = codec::get_varint(&mut self.stored)?;
        let separator_len = usize::try_from(separator_and_flag >> 1)
            .ok()
            .filter(|&len| len <= KEY_BYTES_MAX)?;
        let (separator, rest) = self.stored.split_at_checked(separator_len)?;
        self.stored = rest;
        Some(Row {
            len,
            separator,
            continues: separator_and_flag & 1 == 1,
        })
    }

    /// Verifies all rows.
    fn verify(mut self, data_bytes: u64) -> Decoded<Longest<'a>> {
        let mut ends: Option<(&[u8], &[u8])> = None;
        let (mut offset, mut block, mut continued) = (0u64, 0, false);
        let all = self.clone();
        for row in &mut self {
            let row = row?;
            let first = match ends {
                Some((_, last))
                    if last > row.separator || (last == row.separator && !continued) =>
                {
                    return Err(Malformed("block index out of order"));
                }
                Some((first, _)) => first,
                None => row.separator,
            };
            ends = Some((first, row.separator));
            continued = row.continues;
            block = block.max(row.len);
            offset = offset
                .checked_add(row.len)
                .filter(|&end| row.len > TRAILER_BYTES as u64 && end <= data_bytes)
                .ok_or(Malformed("block index names bytes outside of the data"))?;
        }
        if offset != data_bytes || continued || !self.stored.is_empty() {
            return Err(Malformed("block index does not end where the data ends"));
        }
        let (first, last) = ends.unwrap_or_default();
        let prefix = &first[..common_prefix(first, last)];
        let (mut key, mut tails) = (0, 0);
        for row in all.map_while(Result::ok) {
            let len = row.separator.len() - prefix.len();
            key = key.max(len);
            tails += len.saturating_sub(HEAD_BYTES);
        }
        Ok(Longest {
            prefix,
            block,
            key,
            tails,
        })
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Decoded<Row<'a>>;

    fn next(&mut self) -> Option<Decoded<Row<'a>>> {
        self.left = self.left.checked_sub(1)?;
        let row = self.row().ok_or(CUT);
        if row.is_err() {
            self.left = 0;
        }
        Some(row)
    }
}

/// Collects the rows of a stored index.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    rows: Vec<u8>,
    blocks: u64,
    key_bytes: u64,
}

impl IndexBuilder {
    /// Adds the next block.
    pub(crate) fn add(&mut self, stored_len: u64, separator: &[u8], continues: bool) {
        codec::put_varint(&mut self.rows, stored_len);
        codec::put_varint(
            &mut self.rows,
            (separator.len() as u64) << 1 | u64::from(continues),
        );
        self.rows.extend_from_slice(separator);
        self.blocks += 1;
        self.key_bytes += separator.len() as u64;
    }

    /// Bytes of the rows so far.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.len()
    }

    /// Number of blocks so far.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Whether the places of separators do not fit into the reader's 32 bits.
    pub(crate) fn overflows(&self) -> bool {
        u32::try_from(self.key_bytes).is_err()
    }

    /// The stored index.
    pub(crate) fn finish(self) -> Vec<u8> {
        let mut stored = Vec::with_capacity(self.rows.len() + 10);
        codec::put_varint(&mut stored, self.blocks);
        stored.extend_from_slice(&self.rows);
        stored
    }
}

/// Replaces `out` by a short `K` with `last <= K < next`; needs `last < next`.
pub(crate) fn separator(last: &[u8], next: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let common = common_prefix(last, next);
    if last.len() <= common + 1 || common >= next.len() {
        out.extend_from_slice(last);
    } else if next.len() > common + 1 {
        // A proper prefix of `next`, and already greater than `last`.
        let len = common + usize::from(!planted!(SeparatorTooShort));
        out.extend_from_slice(&next[..len]);
    } else {
        // `next` ends here. Raises the first byte of `last` that can be raised and stays below
        // `next`.
        out.extend_from_slice(last);
        if last[common] + 1 < next[common] {
            out[common] += 1;
            out.truncate(common + 1);
        } else if let Some(at) = (common + 1..last.len()).find(|&at| last[at] < u8::MAX) {
            out[at] += 1;
            out.truncate(at + 1);
        }
    }
}

#[cfg(test)]
mod tests;
