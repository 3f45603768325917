//! Numbers, checksums, entries and batches as LevelDB writes them.

use std::cmp::Ordering;
use std::path::Path;

use super::{Error, Result};

const DELETION: u8 = 0;
const VALUE: u8 = 1;

/// Bytes after the user's key in a key of a table.
const TAG_BYTES: usize = 8;

/// A put, or without a value a deletion.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Vec<u8>,
    pub sequence: u64,
    pub value: Option<Vec<u8>>,
}

impl Entry {
    /// The order in tables: by the key, then the newest first.
    pub fn cmp_key(&self, other: &Entry) -> Ordering {
        let by_key = self.key.cmp(&other.key);
        by_key.then(other.sequence.cmp(&self.sequence))
    }
}

/// The user's key, the sequence number, and whether it is a put. None if the bytes are no key of a
/// table.
pub fn table_key(bytes: &[u8]) -> Option<(&[u8], u64, bool)> {
    let (key, tag) = bytes.split_at_checked(bytes.len().checked_sub(TAG_BYTES)?)?;
    let tag = u64::from_le_bytes(tag.try_into().ok()?);
    match tag as u8 {
        DELETION => Some((key, tag >> 8, false)),
        VALUE => Some((key, tag >> 8, true)),
        _ => None,
    }
}

/// The checksum that LevelDB stores for bytes in two parts.
pub fn masked_crc(first: &[u8], second: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(first), second);
    crc.rotate_right(15).wrapping_add(0xA282_EAD8)
}

/// Takes numbers and texts from the beginning of bytes. Each is `None` if they are not there.
#[derive(Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    pub fn fixed32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    }

    pub fn fixed64(&mut self) -> Option<u64> {
        let bytes = self.take(8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// A number in groups of seven bits, the lowest first.
    pub fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            // The tenth byte has one bit of 64.
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// A number of 32 bits in the same form.
    pub fn varint32(&mut self) -> Option<usize> {
        let number = u32::try_from(self.varint()?).ok()?;
        usize::try_from(number).ok()
    }

    /// Bytes after their length.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.varint32()?;
        self.take(length)
    }
}

/// Passes each entry of a batch to `each`.
pub fn batch(path: &Path, offset: u64, bytes: &[u8], mut each: impl FnMut(Entry)) -> Result<()> {
    let damaged = |what: &str| Error::damaged(path, offset, format!("a batch {what}"));
    let mut left = Bytes(bytes);
    let header = left.fixed64().zip(left.fixed32());
    let (first, count) = header.ok_or_else(|| damaged("is shorter than its header"))?;
    for index in 0..u64::from(count) {
        let kind = left.byte();
        let key = kind.and_then(|_| left.text());
        let key = key
            .ok_or_else(|| damaged("ends before its last record"))?
            .to_vec();
        let value = match kind {
            Some(VALUE) => {
                let value = left.text();
                Some(
                    value
                        .ok_or_else(|| damaged("ends within a value"))?
                        .to_vec(),
                )
            }
            Some(DELETION) => None,
            _ => return Err(damaged("has a record that neither puts nor deletes")),
        };
        let sequence = first
            .checked_add(index)
            .filter(|&sequence| sequence < 1 << 56);
        let sequence = sequence.ok_or_else(|| damaged("has a sequence number beyond 56 bits"))?;
        each(Entry {
            key,
            sequence,
            value,
        });
    }
    match left.0.is_empty() {
        true => Ok(()),
        false => Err(damaged("goes on behind its last record")),
    }
}
