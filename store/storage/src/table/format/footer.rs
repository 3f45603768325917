//! Properties and footer of a table: these bytes say what the rest is, and where.
//!
//! ```text
//! properties = | entries v | deletes v | data_bytes v | max_version v | blocks v |
//!              | codec u8 | checksum of the data blocks u32 | min key slice | max key slice |
//!              if records expire or values lie apart:
//!              | number of expiring records v | time of the last one v |
//!              if values lie apart:
//!              | number of files v | for each, ascending: file v, bytes of the values in it v |
//! footer     = | data_len u64 | filter_len u64 | index_len u64 | properties_len u64 |
//!              | table id u64 | format version u32 | crc32c u32 | magic u64 |     (56 bytes)
//! version 2  = the same, but | properties_len u32 | dictionary_len u32 |
//! ```
//!
//! Data, dictionary, filter, index, properties and footer lie end to end and fill the table. So
//! their lengths say where everything is, and the sum of the lengths must be the table's length.
//! Tables that were to be compressed by Zstandard have version 2, and no other tables have it, so
//! that a build that does not know version 2 refuses such a table at once. Versions 3 and 4 are
//! versions 1 and 2, encrypted: the salt of the table's key and a tag over the footer stand in
//! front of the footer. Versions 5 to 8 are versions 1 to 4, keyed: each block holds the versions
//! of one key, and this key is the block's separator, so that the index has all keys.
//!
//! A slice is its length as a varint and its bytes. No I/O here.

use crate::sealing::{Cipher, Nonce, SALT_BYTES, Secrets, TAG_BYTES, Use};
use crate::table::stored::{Decoded, Malformed, NEEDS_KEY, NOT_SEALED_HERE};
use crate::table::{Codec, TableMeta};
use crate::{Apart, EntryRef, TableId, Time, Version, codec};

/// Bytes of a footer.
pub(crate) const FOOTER_BYTES: usize = 56;

/// `EVENTABL` in a hex dump.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"EVENTABL");

/// The format version of plain tables, and the number that is added for each property that a table
/// may have.
pub(crate) const FORMAT_VERSION: u32 = 1;
const ZSTD: u32 = 1;
const SEALED: u32 = 2;
const KEYED: u32 = 4;
const FORMAT_VERSION_MAX: u32 = FORMAT_VERSION + ZSTD + SEALED + KEYED;

/// Bytes of salt and tag in front of the footer of an encrypted table.
pub(crate) const SEAL_BYTES: usize = SALT_BYTES + TAG_BYTES;

/// Distinguishes the nonce of the footer's tag from the nonces of blocks.
const FOOTER_KIND: u32 = 1;

/// The offset of the footer's checksum. It covers the bytes before it and the magic.
const CRC_AT: usize = 44;

/// Stored lengths of a table's parts, with trailers; 0 if there is no filter or no dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) is_zstd: bool,
    pub(crate) is_sealed: bool,
    /// Each block has one key, and the key is its separator.
    pub(crate) is_keyed: bool,
    pub(crate) data_len: u64,
    /// At most 32 bits. The same is then true for `properties_len`.
    pub(crate) dictionary_len: u64,
    pub(crate) filter_len: u64,
    pub(crate) index_len: u64,
    pub(crate) properties_len: u64,
}

/// Why a footer was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FooterError {
    /// Another version of this format.
    Unsupported(String),
    /// This format, but broken.
    Corrupt(Malformed),
}

impl Footer {
    pub(crate) fn encode(&self, id: TableId) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        let words = [
            self.data_len,
            self.filter_len,
            self.index_len,
            self.properties_len | self.dictionary_len << 32,
            id.0,
        ];
        let version = Kind {
            is_zstd: self.is_zstd,
            is_sealed: self.is_sealed,
            is_keyed: self.is_keyed,
        }
        .version();
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[40..CRC_AT].copy_from_slice(&version.to_le_bytes());
        bytes[48..].copy_from_slice(&MAGIC.to_le_bytes());
        let crc = codec::checksum(id.0, &[&bytes[..CRC_AT], &bytes[48..]]);
        bytes[CRC_AT..48].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes the footer of the table `id` of `table_len` bytes.
    pub(crate) fn decode(
        bytes: &[u8; FOOTER_BYTES],
        id: TableId,
        table_len: u64,
    ) -> std::result::Result<Footer, FooterError> {
        const CUT: FooterError = FooterError::Corrupt(Malformed("footer cut short"));
        let mut input = &bytes[..];
        let mut words = [0; 5];
        for word in &mut words {
            *word = codec::get_u64(&mut input).ok_or(CUT)?;
        }
        let version = codec::get_u32(&mut input).ok_or(CUT)?;
        let crc = codec::get_u32(&mut input).ok_or(CUT)?;
        if codec::get_u64(&mut input).ok_or(CUT)? != MAGIC {
            return Err(FooterError::Corrupt(Malformed("not a table: wrong magic")));
        }
        let Some(kind) = Kind::of(version) else {
            let detail = format!(
                "table format {version}, this build reads {FORMAT_VERSION} to {FORMAT_VERSION_MAX}"
            );
            return Err(FooterError::Unsupported(detail));
        };
        let Kind {
            is_zstd,
            is_sealed,
            is_keyed,
        } = kind;
        let corrupt = |detail| Err(FooterError::Corrupt(Malformed(detail)));
        if crc != codec::checksum(id.0, &[&bytes[..CRC_AT], &bytes[48..]]) {
            return corrupt("footer checksum mismatch");
        }
        let [data_len, filter_len, index_len, word, stored_id] = words;
        let (properties_len, dictionary_len) = last_lens(word, is_zstd);
        if stored_id != id.0 {
            return corrupt("footer of another table");
        }
        let parts = [
            data_len,
            dictionary_len,
            filter_len,
            index_len,
            properties_len,
            behind_parts(is_sealed),
        ];
        match parts
            .iter()
            .try_fold(0u64, |sum, &part| sum.checked_add(part))
        {
            Some(sum) if sum == table_len => {}
            _ => return corrupt("footer's lengths do not add up to the table's"),
        }
        Ok(Footer {
            is_zstd,
            is_sealed,
            is_keyed,
            data_len,
            dictionary_len,
            filter_len,
            index_len,
            properties_len,
        })
    }

    /// Identity and length of the table with this footer, if these bytes verify.
    pub(crate) fn identify(bytes: &[u8; FOOTER_BYTES]) -> Option<(TableId, u64)> {
        let mut input = &bytes[..];
        let mut sum = 0u64;
        for _ in 0..3 {
            sum = sum.checked_add(codec::get_u64(&mut input)?)?;
        }
        let word = codec::get_u64(&mut input)?;
        let id = TableId(codec::get_u64(&mut input)?);
        let Kind {
            is_zstd, is_sealed, ..
        } = Kind::of(codec::get_u32(&mut input)?)?;
        let (properties_len, dictionary_len) = last_lens(word, is_zstd);
        let sum = sum
            .checked_add(properties_len)?
            .checked_add(dictionary_len)?
            .checked_add(behind_parts(is_sealed))?;
        Footer::decode(bytes, id, sum).ok().map(|_| (id, sum))
    }

    /// Names this very table: its identity, its layout, and through the properties its data.
    pub(crate) fn table_checksum(&self, id: TableId, index_crc: u32, properties_crc: u32) -> u32 {
        let crcs = [index_crc.to_le_bytes(), properties_crc.to_le_bytes()];
        codec::checksum(id.0, &[&crcs[0], &crcs[1], &self.encode(id)])
    }
}

/// What a table's format version says about the table.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// It was to be compressed by Zstandard.
    pub(crate) is_zstd: bool,
    is_sealed: bool,
    pub(crate) is_keyed: bool,
}

impl Kind {
    fn version(self) -> u32 {
        let part = |is: bool, part: u32| if is { part } else { 0 };
        FORMAT_VERSION
            + part(self.is_zstd, ZSTD)
            + part(self.is_sealed, SEALED)
            + part(self.is_keyed, KEYED)
    }

    /// `None` for a version that this build does not know.
    pub(crate) fn of(version: u32) -> Option<Kind> {
        let parts = version.checked_sub(FORMAT_VERSION)?;
        (version <= FORMAT_VERSION_MAX).then_some(Kind {
            is_zstd: parts & ZSTD != 0,
            is_sealed: parts & SEALED != 0,
            is_keyed: parts & KEYED != 0,
        })
    }
}

/// Bytes behind a table's last part.
pub(crate) fn behind_parts(is_sealed: bool) -> u64 {
    match is_sealed {
        true => (FOOTER_BYTES + SEAL_BYTES) as u64,
        false => FOOTER_BYTES as u64,
    }
}

/// The cipher of a table.
pub(crate) fn cipher(secrets: &Secrets, id: TableId, salt: &[u8]) -> Cipher {
    secrets.cipher(Use::Table, id.0, salt)
}

/// The bytes in front of the footer of an encrypted table.
pub(crate) fn seal_of(
    cipher: &Cipher,
    salt: &[u8; SALT_BYTES],
    footer: &[u8; FOOTER_BYTES],
) -> Vec<u8> {
    let mut seal = salt.to_vec();
    cipher.seal(
        Nonce::of_kind(0, FOOTER_KIND),
        footer,
        &mut seal,
        SALT_BYTES,
    );
    seal
}

/// The cipher of an encrypted table, if `seal` was made with the same secret. `seal` stands in
/// front of the table's `footer`.
pub(crate) fn open_seal(
    secrets: Option<&Secrets>,
    id: TableId,
    seal: &[u8],
    footer: &[u8; FOOTER_BYTES],
) -> Decoded<Cipher> {
    let secrets = secrets.ok_or(NEEDS_KEY)?;
    let (salt, tag) = seal
        .split_first_chunk::<SALT_BYTES>()
        .ok_or(Malformed("table too short for its seal"))?;
    let cipher = cipher(secrets, id, salt);
    let mut tag = tag.to_vec();
    match cipher.open(Nonce::of_kind(0, FOOTER_KIND), footer, &mut tag) {
        Some([]) => Ok(cipher),
        _ => Err(NOT_SEALED_HERE),
    }
}

/// A table that is not encrypted, in an encrypted database.
pub(crate) const NOT_SEALED: Malformed =
    Malformed("a table that is not encrypted, in an encrypted database");

/// The lengths of properties and dictionary from their shared word.
fn last_lens(word: u64, is_zstd: bool) -> (u64, u64) {
    match is_zstd {
        true => (word & u64::from(u32::MAX), word >> 32),
        false => (word, 0),
    }
}

/// What a table says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    /// Everything except `len` and `checksum`, which a table cannot hold inside itself.
    pub(crate) meta: TableMeta,
    /// The number of data blocks.
    pub(crate) blocks: u64,
    /// The codec by which data blocks are usually compressed: a hint for the reader's buffers.
    pub(crate) codec: Codec,
    /// Checksum of the data blocks' checksums in order.
    pub(crate) data_checksum: u32,
}

impl Properties {
    /// Adds the next data block's checksum.
    pub(crate) fn add_block_checksum(&mut self, crc: u32) {
        let seed = u64::from(self.data_checksum);
        self.data_checksum = codec::checksum(seed, &[&crc.to_le_bytes()]);
    }

    /// Counts the next record. The caller sets the keys at the ends.
    pub(crate) fn count(&mut self, entry: EntryRef<'_>) {
        let meta = &mut self.meta;
        meta.entries += 1;
        meta.deletes += u64::from(entry.kind.is_tombstone());
        if let Some(expiry) = entry.expires() {
            meta.expiring += 1;
            meta.last_expiry = meta.last_expiry.max(expiry);
        }
        if let Some(apart) = Apart::of(entry.kind, entry.value) {
            meta.add_value_bytes(apart.file, u64::from(apart.len));
        }
        meta.data_bytes += (entry.key.len() + entry.value.len()) as u64;
        meta.max_version = meta.max_version.max(entry.version);
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let meta = &self.meta;
        let numbers = [
            meta.entries,
            meta.deletes,
            meta.data_bytes,
            meta.max_version.0,
            self.blocks,
        ];
        for number in numbers {
            codec::put_varint(out, number);
        }
        out.push(self.codec as u8);
        out.extend_from_slice(&self.data_checksum.to_le_bytes());
        codec::put_slice(out, &meta.min_key);
        codec::put_slice(out, &meta.max_key);
        if meta.expiring > 0 || !meta.value_files.is_empty() {
            codec::put_varint(out, meta.expiring);
            codec::put_varint(out, meta.last_expiry.0);
        }
        if !meta.value_files.is_empty() {
            meta.put_value_files(out);
        }
    }

    pub(crate) fn decode(mut input: &[u8]) -> Decoded<Properties> {
        Properties::decode_parts(&mut input)
            .filter(|properties| input.is_empty() && properties.is_consistent())
            .ok_or(Malformed("table properties make no sense"))
    }

    fn decode_parts(input: &mut &[u8]) -> Option<Properties> {
        let entries = codec::get_varint(input)?;
        let deletes = codec::get_varint(input)?;
        let data_bytes = codec::get_varint(input)?;
        let max_version = Version(codec::get_varint(input)?);
        let blocks = codec::get_varint(input)?;
        let (&codec_byte, rest) = input.split_first()?;
        *input = rest;
        let codec = Codec::from_byte(codec_byte)?;
        let data_checksum = codec::get_u32(input)?;
        let min_key = codec::get_slice(input)?.to_vec();
        let max_key = codec::get_slice(input)?.to_vec();
        let is_short = input.is_empty();
        let (expiring, last_expiry) = match is_short {
            true => (0, 0),
            false => (codec::get_varint(input)?, codec::get_varint(input)?),
        };
        let is_said = expiring > 0 || !input.is_empty() || is_short;
        let value_files = match input.is_empty() {
            true => Vec::new(),
            false => TableMeta::get_value_files(input)?,
        };
        // Written only if it says something: one content has one form.
        if !is_said {
            return None;
        }
        let meta = TableMeta {
            expiring,
            last_expiry: Time(last_expiry),
            value_files,
            entries,
            deletes,
            data_bytes,
            max_version,
            min_key,
            max_key,
            ..TableMeta::default()
        };
        Some(Properties {
            meta,
            blocks,
            codec,
            data_checksum,
        })
    }

    fn is_consistent(&self) -> bool {
        let meta = &self.meta;
        let others = meta.entries.checked_sub(meta.deletes);
        // Written only if it says something: one content has one form.
        let says_nothing = meta.expiring == 0 && meta.last_expiry != Time::default();
        others.is_some_and(|others| meta.expiring <= others)
            && !says_nothing
            && self.blocks <= meta.entries
            && (self.blocks == 0) == (meta.entries == 0)
            && meta.min_key <= meta.max_key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footer() -> Footer {
        Footer {
            is_zstd: false,
            is_sealed: false,
            is_keyed: false,
            data_len: 100,
            dictionary_len: 0,
            filter_len: 69,
            index_len: 20,
            properties_len: 30,
        }
    }

    #[test]
    fn a_footer_verifies_only_for_its_table_and_length() {
        let bytes = footer().encode(TableId(9));
        assert_eq!(Footer::decode(&bytes, TableId(9), 275), Ok(footer()));
        assert!(Footer::decode(&bytes, TableId(10), 275).is_err());
        assert!(Footer::decode(&bytes, TableId(9), 276).is_err());
        for bit in 0..FOOTER_BYTES * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Footer::decode(&bad, TableId(9), 275).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_footer_with_a_dictionary_is_of_version_2_and_tells_its_table() {
        let with = Footer {
            is_zstd: true,
            dictionary_len: 40,
            ..footer()
        };
        let bytes = with.encode(TableId(9));
        assert_eq!(bytes[40], 2);
        assert_eq!(Footer::decode(&bytes, TableId(9), 315), Ok(with));
        assert!(Footer::decode(&bytes, TableId(9), 275).is_err());
        assert_eq!(Footer::identify(&bytes), Some((TableId(9), 315)));
        let bytes = footer().encode(TableId(9));
        assert_eq!(Footer::identify(&bytes), Some((TableId(9), 275)));
    }

    #[test]
    fn lengths_that_overflow_are_refused() {
        let hostile = Footer {
            data_len: u64::MAX,
            ..footer()
        };
        let bytes = hostile.encode(TableId(9));
        assert!(matches!(
            Footer::decode(&bytes, TableId(9), 275),
            Err(FooterError::Corrupt(_))
        ));
    }

    #[test]
    fn another_version_is_unsupported_and_another_magic_is_damage() {
        let decode = |at: usize| {
            let mut bytes = footer().encode(TableId(9));
            bytes[at] ^= 8;
            Footer::decode(&bytes, TableId(9), 275)
        };
        assert!(matches!(decode(40), Err(FooterError::Unsupported(_))));
        assert!(matches!(decode(48), Err(FooterError::Corrupt(_))));
    }

    #[test]
    fn properties_round_trip_and_refuse_nonsense() {
        let meta = TableMeta {
            entries: 300,
            deletes: 2,
            expiring: 7,
            last_expiry: Time(1_700_000_000_000),
            data_bytes: 70_000,
            max_version: Version(1 << 40),
            min_key: b"a".to_vec(),
            max_key: b"zz".to_vec(),
            ..TableMeta::default()
        };
        let good = Properties {
            meta,
            blocks: 17,
            codec: Codec::Lz4,
            data_checksum: 0xdead_beef,
        };
        let mut bytes = Vec::new();
        good.encode(&mut bytes);
        assert_eq!(Properties::decode(&bytes), Ok(good.clone()));
        let without_expiry = bytes.len() - 7;
        for len in 0..bytes.len() {
            let decoded = Properties::decode(&bytes[..len]);
            assert_eq!(decoded.is_ok(), len == without_expiry, "length {len}");
        }
        let nothing_expires = [&bytes[..without_expiry], &[0, 9]].concat();
        assert!(Properties::decode(&nothing_expires).is_err());
        let too_many = [&bytes[..without_expiry], &[0xab, 2, 9]].concat();
        assert!(Properties::decode(&too_many).is_err());
        let mut swapped = good;
        std::mem::swap(&mut swapped.meta.min_key, &mut swapped.meta.max_key);
        bytes.clear();
        swapped.encode(&mut bytes);
        assert!(Properties::decode(&bytes).is_err());
    }
}
