//! [`Source`]: the bytes of a table, read through one window, and the blocks in them.
//!
//! A read that fails or ends early is the text of a damage, and no error.

use crate::sealing::Cipher;
use crate::table::Codec;
use crate::table::footer::behind_parts;
use crate::table::stored::{self, Malformed, TRAILER_BYTES};
use crate::vfs::File;
use crate::{TableId, codec};
use std::ops::Range;

/// Bytes that one read fetches.
const WINDOW_BYTES: u64 = 1 << 20;

/// The table's bytes through one window.
pub(super) struct Source<'a> {
    pub(super) file: &'a dyn File,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) window: Vec<u8>,
    pub(super) start: u64,
    /// The cipher of an encrypted table.
    pub(super) cipher: Option<Cipher>,
}

impl Source<'_> {
    /// Bytes behind the last part.
    pub(super) fn behind_parts(&self) -> u64 {
        behind_parts(self.cipher.is_some())
    }

    /// A stored block as [`stored::verify`] gives it, and its checksum. A decrypted block has
    /// memory of its own.
    pub(super) fn stored(
        &mut self,
        id: TableId,
        place: &Range<u64>,
    ) -> Result<(Vec<u8>, Codec, u32), String> {
        let text = |malformed: Malformed| malformed.0.to_owned();
        let mut stored = self.bytes(place.clone())?.to_vec();
        let crc = stored::crc_of(&stored);
        let (len, used) = match &self.cipher {
            Some(cipher) => stored::open(cipher, &mut stored, id, place.start).map_err(text)?,
            None => {
                let (payload, used) = stored::verify(&stored, id, place.start).map_err(text)?;
                (payload.len(), used)
            }
        };
        stored.truncate(len);
        Ok((stored, used, crc))
    }

    pub(super) fn bytes(&mut self, place: Range<u64>) -> Result<&[u8], String> {
        let held = self.start..self.start + self.window.len() as u64;
        if place.start < held.start || place.end > held.end {
            let wide = match self.len <= WINDOW_BYTES {
                true => 0..self.len,
                false => {
                    place.start
                        ..place
                            .start
                            .saturating_add(WINDOW_BYTES)
                            .clamp(place.end, self.len)
                }
            };
            if self.fill(wide.clone()).is_err()
                || self.start + (self.window.len() as u64) < place.end
            {
                self.fill(place.clone())?;
            }
        }
        let from = (place.start - self.start) as usize;
        let to = (place.end - self.start) as usize;
        self.window
            .get(from..to)
            .ok_or_else(|| "the file ends within it".to_owned())
    }

    /// The place where the table or the file ends, whichever comes first.
    pub(super) fn end(&self) -> u64 {
        let file_len = self.file.len().unwrap_or(0);
        self.len.min(file_len.saturating_sub(self.offset))
    }

    /// Reads `place`, as far as the file has it.
    fn fill(&mut self, place: Range<u64>) -> Result<(), String> {
        let file_len = self.file.len().map_err(|error| error.to_string())?;
        let there = file_len.saturating_sub(self.offset).min(place.end);
        let want = there.saturating_sub(place.start) as usize;
        self.window.clear();
        self.window.resize(want, 0);
        self.start = place.start;
        let at = self.offset.saturating_add(place.start);
        crate::vfs::read_exact_at(self.file, &mut self.window, at).map_err(|error| {
            self.window.clear();
            format!("cannot be read: {error}")
        })
    }
}

/// The end of the stored block that starts at `start`, by its checksum; `None` if it does not end
/// before `limit`.
pub(super) fn next_in_chain(
    source: &mut Source<'_>,
    id: TableId,
    start: u64,
    limit: u64,
) -> Option<u64> {
    let limit = limit.min(source.end());
    let mut crc = codec::checksum(id.0, &[&start.to_le_bytes()]);
    let mut at = start;
    while at + 4 < limit {
        let end = (at + WINDOW_BYTES / 2).min(limit);
        let bytes = source.bytes(at..end).ok()?;
        for window in bytes.windows(5) {
            crc = codec::checksum(u64::from(crc), &[&window[..1]]);
            at += 1;
            let long_enough = at + 4 - start > TRAILER_BYTES as u64;
            if long_enough && window[1..] == crc.to_le_bytes() {
                return Some(at + 4);
            }
        }
    }
    None
}
