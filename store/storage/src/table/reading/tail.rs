//! The tail of a table on its way into memory: everything behind the data is read, verified and
//! decoded.
//!
//! The footer comes first, because it says how long the other parts are. Every part must verify. An
//! error has the place of the part that does not.

use crate::filter::BloomFilter;
use crate::sealing::Cipher;
use crate::table::Codec;
use crate::table::footer::{
    self, FOOTER_BYTES, Footer, FooterError, NOT_SEALED, Properties, behind_parts,
};
use crate::table::index::BlockIndex;
use crate::table::packing::{self, NEEDS_ZSTD};
use crate::table::stored::{self, Decoded, Malformed};
use crate::table::zstd::{self, Dictionary};
use crate::vfs::{File, read_exact_at};
use crate::{Error, Result, TableId};
use std::io;

/// Bytes that the first read of a table's end fetches.
pub(super) const TAIL_BYTES: u64 = 16 << 10;

/// The cipher of an encrypted table; `tail` ends with the footer. In an encrypted database all
/// tables are encrypted.
pub(super) fn cipher_of(
    file: &dyn File,
    footer: &Footer,
    tail: &[u8],
    id: TableId,
) -> Decoded<Option<Cipher>> {
    match (footer.is_sealed, file.secrets()) {
        (false, None) => Ok(None),
        (false, Some(_)) => Err(NOT_SEALED),
        (true, secrets) => {
            let behind = tail
                .len()
                .checked_sub(behind_parts(true) as usize)
                .ok_or(Malformed("table too short for its seal"))?;
            let (seal, footer) = tail[behind..]
                .split_last_chunk::<FOOTER_BYTES>()
                .ok_or(Malformed("table too short for a footer"))?;
            footer::open_seal(secrets, id, seal, footer).map(Some)
        }
    }
}

/// Reads the footer of the table at `[offset, offset + len)` and at least everything behind the
/// data. Returns the bytes with their offset within the table.
pub(super) fn read_tail(
    file: &dyn File,
    offset: u64,
    len: u64,
    id: TableId,
    tail_bytes: u64,
) -> Result<(Footer, Vec<u8>, u64)> {
    let corrupt = |relative: u64, malformed: Malformed| {
        file.unverified(offset.saturating_add(relative), malformed.0)
    };
    let first = tail_bytes.clamp(FOOTER_BYTES as u64, TAIL_BYTES);
    let mut tail = vec![0; len.min(first) as usize];
    let mut tail_start = len - tail.len() as u64;
    read_at(file, &mut tail, offset + tail_start)?;
    let footer_at = len - FOOTER_BYTES as u64;
    let footer = match tail.last_chunk::<FOOTER_BYTES>() {
        Some(bytes) => Footer::decode(bytes, id, len).map_err(|error| match error {
            FooterError::Unsupported(detail) => Error::unsupported(file.path(), detail),
            FooterError::Corrupt(malformed) => corrupt(footer_at, malformed),
        })?,
        None => {
            return Err(corrupt(
                footer_at,
                Malformed("table too short for a footer"),
            ));
        }
    };
    if footer.is_zstd && !zstd::IS_THERE {
        return Err(Error::unsupported(file.path(), NEEDS_ZSTD.0));
    }
    if footer.data_len < tail_start {
        // The file reaches the table's end, as was just seen, so this is no more than it holds.
        let missing = usize::try_from(tail_start - footer.data_len)
            .map_err(|_| corrupt(footer_at, Malformed("index larger than memory")))?;
        let mut whole = vec![0; missing + tail.len()];
        read_at(file, &mut whole[..missing], offset + footer.data_len)?;
        whole[missing..].copy_from_slice(&tail);
        (tail, tail_start) = (whole, footer.data_len);
    }
    Ok((footer, tail, tail_start))
}

/// Fills all of `buffer`. A file that ends before is corrupt, not unreadable.
pub(super) fn read_at(file: &dyn File, buffer: &mut [u8], offset: u64) -> Result<()> {
    read_exact_at(file, buffer, offset).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => file.unverified(offset, "file ends within a table"),
        _ => Error::io(file.path(), "read table", error),
    })
}

/// The stored blocks between data and footer, one after the other.
pub(super) struct Parts<'a> {
    pub(super) tail: &'a mut [u8],
    pub(super) tail_start: u64,
    pub(super) at: u64,
    pub(super) id: TableId,
    /// Checksum of the part that was read last.
    pub(super) crc: u32,
    pub(super) cipher: Option<&'a Cipher>,
}

/// What stands behind the data of a table.
pub(super) struct Described {
    pub(super) dictionary: Option<Dictionary>,
    pub(super) filter: Option<BloomFilter>,
    pub(super) index: BlockIndex,
    pub(super) properties: Properties,
    /// The checksum of the table.
    pub(super) checksum: u32,
}

impl Parts<'_> {
    /// Verifies and decodes all parts. An error comes with the offset of its part in the table.
    pub(super) fn described_by(
        &mut self,
        footer: &Footer,
    ) -> std::result::Result<Described, (u64, Malformed)> {
        let dictionary = self.optional(footer.dictionary_len, packing::dictionary)?;
        let filter = self.optional(footer.filter_len, |payload| {
            BloomFilter::decode(payload).ok_or(Malformed("filter of an impossible size"))
        })?;
        let index = self.next(footer.index_len, |payload| {
            BlockIndex::decode(payload, footer.data_len)
        })?;
        let index_crc = self.crc;
        let properties = self.next(footer.properties_len, |payload| {
            let properties = Properties::decode(payload)?;
            match index.agrees_with(&properties, footer.is_keyed) {
                true => Ok(properties),
                false => Err(Malformed("properties against index")),
            }
        })?;
        debug_assert_eq!(properties.blocks, index.len() as u64);
        let checksum = footer.table_checksum(self.id, index_crc, self.crc);
        Ok(Described {
            dictionary,
            filter,
            index,
            properties,
            checksum,
        })
    }

    /// Verifies and decodes the next part. An error comes with the part's offset in the table.
    fn next<T>(
        &mut self,
        stored_len: u64,
        decode: impl FnOnce(&[u8]) -> Decoded<T>,
    ) -> std::result::Result<T, (u64, Malformed)> {
        let at = self.at;
        self.part(stored_len)
            .and_then(decode)
            .map_err(|malformed| (at, malformed))
    }

    /// The same for a part that is absent if its length is 0.
    fn optional<T>(
        &mut self,
        stored_len: u64,
        decode: impl FnOnce(&[u8]) -> Decoded<T>,
    ) -> std::result::Result<Option<T>, (u64, Malformed)> {
        match stored_len {
            0 => Ok(None),
            _ => self.next(stored_len, decode).map(Some),
        }
    }

    fn part(&mut self, stored_len: u64) -> Decoded<&[u8]> {
        // The sum of the footer's lengths is the table's length, so every part lies in the tail.
        let start = (self.at - self.tail_start) as usize;
        let stored = usize::try_from(stored_len)
            .ok()
            .and_then(|len| self.tail.get_mut(start..start.checked_add(len)?))
            .ok_or(Malformed("table part out of bounds"))?;
        self.crc = stored::crc_of(stored);
        let (payload_len, used) = match self.cipher {
            Some(cipher) => stored::open(cipher, stored, self.id, self.at)?,
            None => {
                let (payload, used) = stored::verify(stored, self.id, self.at)?;
                (payload.len(), used)
            }
        };
        if used != Codec::None {
            return Err(Malformed("compressed table part"));
        }
        self.at += stored_len;
        Ok(&stored[..payload_len])
    }
}
