//! Finds frames that verify behind a place where none does. Each offset is tried, in constant time.
//!
//! A frame's checksum covers the number of bytes that its length claims. So trying each offset
//! alone would take time in proportion to the square of the bytes. But CRC-32C is linear: the
//! checksum of any stretch follows from the states before its first byte and behind its last byte,
//! in one pass over all bytes from the start. These states are kept for each block of bytes that
//! are not all zero, together with the block. So a search takes time and memory in proportion to
//! the file's bytes that are not zero, whatever they claim.

use super::frame::FRAME_HEADER_BYTES;
use super::reading::READ_BYTES;
use crate::codec;
use crate::vfs::{File, read_exact_at};
use crate::{Error, Result};
use std::ops::Range;
use std::sync::LazyLock;

const BLOCK: u64 = 512;
/// The number of blocks that one allocation holds.
const PIECE_BLOCKS: usize = 512;
const HEADER: usize = FRAME_HEADER_BYTES;
/// A frame can begin this number of bytes before a block without having zero as its length: the
/// bytes of a length before its last one.
const LEN_BEFORE: usize = 3;
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Factors that move a state of the checksum over zero bytes: over n of them the factor is x^(8 n).
/// There is one table for each digit of n to the base 256.
static POWERS: LazyLock<Vec<[u32; 256]>> = LazyLock::new(|| {
    let mut step = 1 << 23;
    let mut powers = Vec::new();
    for _ in 0..size_of::<u64>() {
        let mut of_digit = [1 << 31; 256];
        for digit in 1..of_digit.len() {
            of_digit[digit] = multiplied(of_digit[digit - 1], step);
        }
        step = multiplied(of_digit[255], step);
        powers.push(of_digit);
    }
    powers
});

/// The product of two polynomials modulo the polynomial of CRC-32C. The highest bit has the lowest
/// power.
fn multiplied(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    for bit in (0..u32::BITS).rev() {
        product ^= b & (a >> bit & 1).wrapping_neg();
        b = (b >> 1) ^ (POLYNOMIAL & (b & 1).wrapping_neg());
    }
    product
}

/// `state` behind `count` bytes of zeros.
fn behind_zeros(state: u32, count: u64) -> u32 {
    let digits = count.to_le_bytes();
    let used = POWERS.iter().zip(digits).filter(|(_, digit)| *digit > 0);
    used.fold(state, |state, (powers, digit)| {
        multiplied(state, powers[usize::from(digit)])
    })
}

/// `state` behind `bytes`.
fn behind(state: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!state, bytes)
}

/// A piece of the file with bytes that are not all zero.
struct Block {
    at: u64,
    /// The checksum's state before this block.
    state: u32,
    bytes: [u8; BLOCK as usize],
}

/// The bytes of log `id` from a place on.
pub(super) struct Search {
    id: u64,
    len: u64,
    /// The blocks in order. Each piece except the last is full.
    pieces: Vec<Vec<Block>>,
}

impl Search {
    /// Reads the log in `file`, which has `len` bytes, from `from` on.
    pub(super) fn new(file: &dyn File, id: u64, from: u64, len: u64) -> Result<Search> {
        let failed = |error| Error::io(file.path(), "read log", error);
        let mut search = Search {
            id,
            len,
            pieces: Vec::new(),
        };
        let mut buffer = vec![0; READ_BYTES.min(len.saturating_sub(from)) as usize];
        let (mut state, mut at, mut zeros) = (0, from, 0);
        while at < len {
            let data = file.next_data(at).map_err(failed)?.clamp(at, len);
            zeros += data - at;
            at = data;
            let take = (buffer.len() as u64).min(len - at) as usize;
            read_exact_at(file, &mut buffer[..take], at).map_err(failed)?;
            for bytes in buffer[..take].chunks(BLOCK as usize) {
                if bytes.iter().all(|&byte| byte == 0) {
                    zeros += bytes.len() as u64;
                } else {
                    let before = behind_zeros(state, std::mem::take(&mut zeros));
                    search.push(at, before, bytes);
                    state = behind(before, bytes);
                }
                at += bytes.len() as u64;
            }
        }
        Ok(search)
    }

    fn push(&mut self, at: u64, state: u32, from: &[u8]) {
        if self
            .pieces
            .last()
            .is_none_or(|last| last.len() == PIECE_BLOCKS)
        {
            self.pieces.push(Vec::with_capacity(PIECE_BLOCKS));
        }
        let mut bytes = [0; BLOCK as usize];
        bytes[..from.len()].copy_from_slice(from);
        if let Some(piece) = self.pieces.last_mut() {
            piece.push(Block { at, state, bytes });
        }
    }

    fn block(&self, index: usize) -> Option<&Block> {
        self.pieces
            .get(index / PIECE_BLOCKS)?
            .get(index % PIECE_BLOCKS)
    }

    /// The number of blocks that begin at or below `at`.
    fn blocks_up_to(&self, at: u64) -> usize {
        let first = |piece: &Vec<Block>| piece.first().is_some_and(|block| block.at <= at);
        let Some(piece) = self.pieces.partition_point(first).checked_sub(1) else {
            return 0;
        };
        let within = self.pieces[piece].partition_point(|block| block.at <= at);
        piece * PIECE_BLOCKS + within
    }

    /// The state of the checksum before the byte at `at`, or before the file's end if `at` is
    /// behind it.
    fn state(&self, at: u64) -> u32 {
        let block = self.blocks_up_to(at).checked_sub(1);
        let Some(block) = block.and_then(|index| self.block(index)) else {
            return 0;
        };
        let within = (at - block.at).min(BLOCK);
        let state = behind(block.state, &block.bytes[..within as usize]);
        behind_zeros(state, at - block.at - within)
    }

    /// Copies the bytes at `at`: zeros where there is no block.
    fn copy(&self, at: u64, into: &mut [u8]) {
        into.fill(0);
        let first = self.blocks_up_to(at).saturating_sub(1);
        for index in first.. {
            let Some(block) = self.block(index) else {
                return;
            };
            if block.at >= at + into.len() as u64 {
                return;
            }
            let skipped = at.saturating_sub(block.at).min(BLOCK) as usize;
            let to = (block.at.saturating_sub(at) as usize).min(into.len());
            let bytes = &block.bytes[skipped..];
            let count = bytes.len().min(into.len() - to);
            into[to..to + count].copy_from_slice(&bytes[..count]);
        }
    }

    /// The length of the frame with this header at `at`; `None` if it does not verify.
    fn verified(&self, header: [u8; HEADER], at: u64) -> Option<u64> {
        let mut input = &header[..];
        let (len, crc) = (codec::get_u32(&mut input)?, codec::get_u32(&mut input)?);
        let payload = at.checked_add(HEADER as u64)?;
        let end = payload.checked_add(u64::from(len))?;
        if len == 0 || end > self.len {
            return None;
        }
        let seed = codec::checksum(self.id, &[&at.to_le_bytes(), &len.to_le_bytes()]);
        let before = !seed ^ self.state(payload);
        let state = behind_zeros(before, u64::from(len)) ^ self.state(end);
        (!state == crc).then_some(end - at)
    }

    /// The length of the frame at `at`; `None` if none verifies there.
    pub(super) fn frame_at(&self, at: u64) -> Option<u64> {
        let mut header = [0; HEADER];
        self.copy(at, &mut header);
        self.verified(header, at)
    }

    /// The first place behind `from` where a frame verifies. At `from` none does.
    pub(super) fn next_frame(&self, from: u64) -> Option<u64> {
        // A frame whose payload alone is damaged still tells where the next one starts.
        let mut len = [0; 4];
        self.copy(from, &mut len);
        let told = from + HEADER as u64 + u64::from(u32::from_le_bytes(len));
        if self.frame_at(told).is_some() {
            return Some(told);
        }
        let mut next = from + 1;
        for index in self.blocks_up_to(from).saturating_sub(1).. {
            let block = self.block(index)?;
            let end = block.at + BLOCK;
            let start = next.max(block.at.saturating_sub(LEN_BEFORE as u64));
            if start >= end {
                continue;
            }
            let mut bytes = [0; LEN_BEFORE + BLOCK as usize + HEADER];
            let bytes = &mut bytes[..(end - start) as usize + HEADER];
            self.copy(start, bytes);
            let found = bytes.windows(HEADER).zip(start..end).find(|(header, at)| {
                header[..4] != [0; 4]
                    && header
                        .first_chunk()
                        .is_some_and(|header| self.verified(*header, *at).is_some())
            });
            if let Some((_, at)) = found {
                return Some(at);
            }
            next = end;
        }
        None
    }

    /// The number of bytes in `place` up to the last one that is not zero.
    pub(super) fn used(&self, place: &Range<u64>) -> u64 {
        for index in (0..self.blocks_up_to(place.end.saturating_sub(1))).rev() {
            let Some(block) = self.block(index) else {
                return 0;
            };
            let start = place.start.max(block.at);
            let end = place.end.min(block.at + BLOCK);
            if start >= end {
                return 0;
            }
            let bytes = &block.bytes[(start - block.at) as usize..(end - block.at) as usize];
            if let Some(last) = bytes.iter().rposition(|&byte| byte != 0) {
                return start + last as u64 + 1 - place.start;
            }
        }
        0
    }
}
