//! The block index of a table: which data block can hold a key, and where that block lies.
//!
//! ```text
//! stored   = | blocks v | row * blocks |                            (v: varint)
//! row      = | stored length of the block v | separator_len << 1 | continues v | separator |
//!
//! resident = prefix     bytes that all separators start with, once
//!            heads      u64 * n   8 bytes behind the prefix, big end first: bisected, 8 a line
//!            arena      the separators' bytes behind the prefix, end to end
//!            arena_ends u32 * n
//!            blocks     u64 * n   offset of the block << 1 | continues
//! ```
//!
//! Blocks lie end to end from the table's start, so lengths give offsets. A block's separator is a
//! key `K` with `last key of the block <= K < first key of the next`, as short as is easily found.
//! Where one key's versions go on in the next block there is no such `K`: then `K` is that key and
//! `continues` is set, and the first block with `K >= key` is still the first that can hold `key`.
//! The last separator is the table's greatest key.
//!
//! Immutable once decoded, shared freely. No I/O here.

use super::block::{KEY_BYTES_MAX, common_prefix};
use super::stored::{Decoded, Malformed, TRAILER_BYTES};
use crate::codec;
use std::cmp::Ordering;
use std::ops::Range;

/// The resident block index.
#[derive(Debug)]
pub(super) struct BlockIndex {
    prefix: Box<[u8]>,
    heads: Box<[u64]>,
    arena: Box<[u8]>,
    arena_ends: Box<[u32]>,
    blocks: Box<[u64]>,
    data_bytes: u64,
}

/// The first 8 bytes of `key`, padded with zeros, so that heads compare as keys do; equal heads
/// say nothing.
fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = key.len().min(8);
    head[..len].copy_from_slice(&key[..len]);
    u64::from_le_bytes(head).swap_bytes()
}

/// Where `key` lies between two others, from 0 to 1, by the 8 bytes behind those that the two have in common.
pub(super) fn share_below(key: &[u8], low: &[u8], high: &[u8]) -> f64 {
    let common = common_prefix(low, high);
    let number = |key: &[u8]| head_of(key.get(common..).unwrap_or_default()) as f64;
    let (low, high, key) = (number(low), number(high), number(key));
    match high > low {
        true => ((key - low) / (high - low)).clamp(0.0, 1.0),
        false => 0.5,
    }
}

impl BlockIndex {
    /// Decodes a stored index of blocks that fill the first `data_bytes` of the table.
    pub(super) fn decode(mut stored: &[u8], data_bytes: u64) -> Decoded<BlockIndex> {
        const CUT: Malformed = Malformed("block index cut short");
        let count = codec::get_varint(&mut stored).ok_or(CUT)?;
        // A row takes at least two bytes, so a lie about their number allocates nothing.
        if count > stored.len() as u64 / 2 {
            return Err(Malformed("block index with an impossible number of blocks"));
        }
        let mut separators: Vec<&[u8]> = Vec::with_capacity(count as usize);
        let mut blocks = Vec::with_capacity(count as usize);
        let mut offset = 0u64;
        let mut continued = false;
        for _ in 0..count {
            let len = codec::get_varint(&mut stored).ok_or(CUT)?;
            let separator_and_flag = codec::get_varint(&mut stored).ok_or(CUT)?;
            let (separator, rest) = usize::try_from(separator_and_flag >> 1)
                .ok()
                .filter(|&len| len <= KEY_BYTES_MAX)
                .and_then(|len| stored.split_at_checked(len))
                .ok_or(CUT)?;
            stored = rest;
            if let Some(&last) = separators.last()
                && (last > separator || (last == separator && !continued))
            {
                return Err(Malformed("block index out of order"));
            }
            continued = separator_and_flag & 1 == 1;
            separators.push(separator);
            blocks.push(offset << 1 | u64::from(continued));
            offset = offset
                .checked_add(len)
                .filter(|&end| len > TRAILER_BYTES as u64 && end <= data_bytes)
                .ok_or(Malformed("block index names bytes outside of the data"))?;
        }
        if offset != data_bytes || continued || !stored.is_empty() {
            return Err(Malformed("block index does not end where the data ends"));
        }
        BlockIndex::pack(&separators, blocks, data_bytes)
    }

    fn pack(separators: &[&[u8]], blocks: Vec<u64>, data_bytes: u64) -> Decoded<BlockIndex> {
        let prefix: Box<[u8]> = match (separators.first(), separators.last()) {
            (Some(first), Some(last)) => first[..common_prefix(first, last)].into(),
            _ => Box::default(),
        };
        let total = separators
            .iter()
            .map(|separator| separator.len() - prefix.len())
            .sum();
        let mut arena = Vec::with_capacity(total);
        let mut arena_ends = Vec::with_capacity(separators.len());
        let mut heads = Vec::with_capacity(separators.len());
        for separator in separators {
            let rest = &separator[prefix.len()..];
            heads.push(head_of(rest));
            arena.extend_from_slice(rest);
            let end = u32::try_from(arena.len());
            arena_ends.push(end.map_err(|_| Malformed("block index with over 4 GiB of keys"))?);
        }
        Ok(BlockIndex {
            prefix,
            heads: heads.into(),
            arena: arena.into(),
            arena_ends: arena_ends.into(),
            blocks: blocks.into(),
            data_bytes,
        })
    }

    /// Number of blocks.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes of all stored blocks.
    pub(super) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Bytes in memory.
    pub(super) fn resident_bytes(&self) -> usize {
        let allocated = |bytes: usize| (bytes + 8).next_multiple_of(16);
        let blocks = self.blocks.len();
        allocated(self.prefix.len())
            + allocated(self.arena.len())
            + 2 * allocated(8 * blocks)
            + allocated(4 * blocks)
    }

    /// Ordinal of the first block whose separator is `>= key`: the first that can hold `key` or
    /// any key after it. The number of blocks if `key` is behind them all.
    pub(super) fn find(&self, key: &[u8]) -> usize {
        let common = common_prefix(key, &self.prefix);
        if common < self.prefix.len() {
            return match key.get(common) {
                Some(&byte) if byte > self.prefix[common] => self.len(),
                _ => 0,
            };
        }
        let rest = &key[common..];
        let head = head_of(rest);
        let low = self.heads.partition_point(|&found| found < head);
        if self.heads.get(low).is_none_or(|&found| found != head) {
            return low;
        }
        // Separators of equal heads are few: keys equal in 8 bytes behind the common prefix.
        let equal = self.heads[low..].partition_point(|&found| found == head);
        let (mut from, mut to) = (low, low + equal);
        while from < to {
            let middle = from + (to - from) / 2;
            match self.rest(middle).cmp(rest) {
                Ordering::Less => from = middle + 1,
                _ => to = middle,
            }
        }
        from
    }

    /// The separator of a block without the common prefix.
    fn rest(&self, ordinal: usize) -> &[u8] {
        let start = match ordinal {
            0 => 0,
            _ => self.arena_ends[ordinal - 1] as usize,
        };
        &self.arena[start..self.arena_ends[ordinal] as usize]
    }

    /// The whole separator of a block. Panics if there is no such block.
    pub(super) fn separator(&self, ordinal: usize) -> Vec<u8> {
        [&self.prefix, self.rest(ordinal)].concat()
    }

    /// Whether the versions of `key` go on from block `ordinal` into the next.
    pub(super) fn continues(&self, ordinal: usize, key: &[u8]) -> bool {
        self.blocks[ordinal] & 1 == 1
            && key
                .strip_prefix(&*self.prefix)
                .is_some_and(|rest| rest == self.rest(ordinal))
    }

    /// Whether the separator of the last block is `key`.
    pub(super) fn ends_with(&self, key: &[u8]) -> bool {
        self.len().checked_sub(1).is_some_and(|last| {
            key.strip_prefix(&*self.prefix)
                .is_some_and(|rest| rest == self.rest(last))
        })
    }

    /// Where stored block `ordinal` lies within the table. Panics if there is no such block.
    pub(super) fn block(&self, ordinal: usize) -> Range<u64> {
        let end = self
            .blocks
            .get(ordinal + 1)
            .map_or(self.data_bytes, |next| next >> 1);
        self.blocks[ordinal] >> 1..end
    }
}

/// Collects the rows of a stored index.
#[derive(Debug, Default)]
pub(super) struct IndexBuilder {
    rows: Vec<u8>,
    blocks: u64,
    key_bytes: u64,
}

impl IndexBuilder {
    /// Adds the next block.
    pub(super) fn add(&mut self, stored_len: u64, separator: &[u8], continues: bool) {
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
    pub(super) fn bytes(&self) -> usize {
        self.rows.len()
    }

    /// Number of blocks so far.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Whether the reader's 32-bit arena cannot hold the separators.
    pub(super) fn overflows(&self) -> bool {
        u32::try_from(self.key_bytes).is_err()
    }

    /// The stored index.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut stored = Vec::with_capacity(self.rows.len() + 10);
        codec::put_varint(&mut stored, self.blocks);
        stored.extend_from_slice(&self.rows);
        stored
    }
}

/// Replaces `out` by a short `K` with `last <= K < next`; needs `last < next`.
pub(super) fn separator(last: &[u8], next: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let common = common_prefix(last, next);
    if last.len() <= common + 1 || common >= next.len() {
        out.extend_from_slice(last);
    } else if next.len() > common + 1 {
        // A proper prefix of `next`, and already greater than `last`.
        out.extend_from_slice(&next[..=common]);
    } else {
        // `next` ends here. Raise the first byte of `last` that can be raised below `next`.
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
#[path = "index_tests.rs"]
mod tests;
