//! The form of a stored block in a table: payload, codec byte, checksum.
//!
//! ```text
//! | payload (as the codec says) | codec u8 | crc32c u32 |
//! ```
//!
//! The checksum covers table id, the block's offset within the table, payload and codec byte. So a
//! block of another table, or at another place, does not verify. `packing` has the form of
//! compressed payloads.
//!
//! In an encrypted table the payload is sealed, after compression, by the table's cipher. The nonce
//! is the block's offset, and the codec byte is bound. The checksum covers the stored bytes. So
//! damage is found without the key, and distinguished from a block that somebody forged. No I/O
//! here.

use crate::sealing::{Cipher, Nonce, TAG_BYTES};
use crate::table::Codec;
use crate::{TableId, codec};
use std::sync::Arc;

/// Codec byte and checksum behind every payload.
pub(crate) const TRAILER_BYTES: usize = 5;

/// Bytes that do not mean anything; the caller knows file and offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// A record whose kind belongs to a later version. It is no damage.
pub(crate) const UNKNOWN_KIND: Malformed =
    Malformed("a record of a kind that this build does not know");

/// An encrypted table, read without the key. It is no damage.
pub(crate) const NEEDS_KEY: Malformed = Malformed("an encrypted table, and no key was given");

/// Bytes that verify, but were not written with the table's key for this place.
pub(crate) const NOT_SEALED_HERE: Malformed =
    Malformed("block that was not encrypted for this place with this key");

/// Result of decoding without I/O.
pub(crate) type Decoded<T> = std::result::Result<T, Malformed>;

/// The trailer of `payload` at `offset` of table `id`.
pub(crate) fn trailer(
    id: TableId,
    offset: u64,
    payload: &[u8],
    codec_used: Codec,
) -> [u8; TRAILER_BYTES] {
    let codec_byte = [codec_used as u8];
    let crc = codec::checksum(id.0, &[&offset.to_le_bytes(), payload, &codec_byte]);
    let [a, b, c, d] = crc.to_le_bytes();
    [codec_byte[0], a, b, c, d]
}

/// Splits a stored block into payload and codec after checking its checksum.
pub(crate) fn verify(stored: &[u8], id: TableId, offset: u64) -> Decoded<(&[u8], Codec)> {
    let (covered, crc) = stored
        .split_last_chunk::<4>()
        .ok_or(Malformed("block too short"))?;
    let (&codec_byte, payload) = covered.split_last().ok_or(Malformed("block too short"))?;
    let expected = codec::checksum(id.0, &[&offset.to_le_bytes(), covered]);
    if u32::from_le_bytes(*crc) != expected {
        return Err(Malformed("block checksum mismatch"));
    }
    let codec = Codec::from_byte(codec_byte).ok_or(Malformed("unknown block codec"))?;
    Ok((payload, codec))
}

/// Encrypts the payload in `buffer` from `start` to the end, in its place.
pub(crate) fn seal(cipher: &Cipher, offset: u64, used: Codec, buffer: &mut Vec<u8>, start: usize) {
    cipher.seal(Nonce::at(offset), &[used as u8], buffer, start);
}

/// Checks a stored block of an encrypted table, and decrypts its payload in its place. Returns the
/// payload's length, and the codec.
pub(crate) fn open(
    cipher: &Cipher,
    stored: &mut [u8],
    id: TableId,
    offset: u64,
) -> Decoded<(usize, Codec)> {
    let (payload, used) = verify(stored, id, offset)?;
    let sealed_len = payload.len();
    let sealed = &mut stored[..sealed_len];
    let opened = cipher.open(Nonce::at(offset), &[used as u8], sealed);
    opened
        .map(|payload| (payload.len(), used))
        .ok_or(NOT_SEALED_HERE)
}

/// Payload and codec of a stored block that [`open`] has opened.
pub(crate) fn opened(stored: &[u8]) -> Decoded<(&[u8], Codec)> {
    let short = Malformed("block too short");
    let (sealed, trailer) = stored.split_last_chunk::<TRAILER_BYTES>().ok_or(short)?;
    let payload_len = sealed.len().checked_sub(TAG_BYTES).ok_or(short)?;
    let codec = Codec::from_byte(trailer[0]).ok_or(Malformed("unknown block codec"))?;
    Ok((&sealed[..payload_len], codec))
}

/// `len` zeros in one allocation.
pub(crate) fn zeroed(len: usize) -> Arc<[u8]> {
    std::iter::repeat_n(0, len).collect()
}

/// The checksum that ends a stored block.
pub(crate) fn crc_of(stored: &[u8]) -> u32 {
    stored
        .last_chunk::<4>()
        .map_or(0, |crc| u32::from_le_bytes(*crc))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(id: u64, offset: u64, payload: &[u8], used: Codec) -> Vec<u8> {
        let mut stored = payload.to_vec();
        stored.extend_from_slice(&trailer(TableId(id), offset, payload, used));
        stored
    }

    #[test]
    fn a_block_verifies_only_as_itself() {
        let stored = seal(7, 4096, b"some payload", Codec::None);
        let (payload, used) = verify(&stored, TableId(7), 4096).unwrap();
        assert_eq!((payload, used), (&b"some payload"[..], Codec::None));
        assert!(verify(&stored, TableId(8), 4096).is_err());
        assert!(verify(&stored, TableId(7 << 32), 4096).is_err());
        assert!(verify(&stored, TableId(7), 0).is_err());
        for bit in 0..stored.len() * 8 {
            let mut bad = stored.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(verify(&bad, TableId(7), 4096).is_err(), "bit {bit}");
        }
        for len in 0..stored.len() {
            assert!(
                verify(&stored[..len], TableId(7), 4096).is_err(),
                "length {len}"
            );
        }
    }

    #[test]
    fn an_unknown_codec_is_refused_though_its_checksum_holds() {
        let crc = codec::checksum(7, &[&0u64.to_le_bytes(), b"abc\x04"]);
        let stored = [&b"abc\x04"[..], &crc.to_le_bytes()].concat();
        assert_eq!(
            verify(&stored, TableId(7), 0),
            Err(Malformed("unknown block codec"))
        );
    }
}
