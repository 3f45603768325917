//! How a block lies in a table: payload, codec byte, checksum.
//!
//! ```text
//! | payload (as the codec says) | codec u8 | crc32c u32 |
//! ```
//!
//! The checksum covers table id, the block's offset within the table, payload and codec byte, so
//! that a block of another table, or one at another place, does not verify. An LZ4 payload is a
//! varint of the uncompressed length and an LZ4 block. No I/O here.

use super::Codec;
use crate::{TableId, codec};
use std::sync::Arc;

/// Codec byte and checksum behind every payload.
pub(super) const TRAILER_BYTES: usize = 5;

/// LZ4 cannot make more of a byte than this; a greater promise is a lie.
const LZ4_RATIO_MAX: usize = 255;

/// Longer payloads are stored as they are: the LZ4 format ends short of 2 GiB.
const LZ4_INPUT_BYTES_MAX: usize = 1 << 30;

/// Bytes that do not mean anything; the caller knows file and offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// A record of a later version's kind: no damage.
pub(super) const UNKNOWN_KIND: Malformed =
    Malformed("a record of a kind that this build does not know");

/// Result of decoding without I/O.
pub(super) type Decoded<T> = std::result::Result<T, Malformed>;

/// The trailer of `payload` at `offset` of table `id`.
pub(super) fn trailer(
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

/// Replaces `packed` by the LZ4 payload of `payload`; `false` if that is not shorter.
pub(super) fn pack_lz4(payload: &[u8], packed: &mut Vec<u8>) -> bool {
    packed.clear();
    if payload.len() > LZ4_INPUT_BYTES_MAX {
        return false;
    }
    codec::put_varint(packed, payload.len() as u64);
    let start = packed.len();
    packed.resize(
        start + lz4_flex::block::get_maximum_output_size(payload.len()),
        0,
    );
    match lz4_flex::block::compress_into(payload, &mut packed[start..]) {
        Ok(len) => packed.truncate(start + len),
        Err(_) => return false,
    }
    packed.len() < payload.len()
}

/// Splits a stored block into payload and codec after checking its checksum.
pub(super) fn verify(stored: &[u8], id: TableId, offset: u64) -> Decoded<(&[u8], Codec)> {
    let (covered, crc) = stored
        .split_last_chunk::<4>()
        .ok_or(Malformed("block too short"))?;
    let (&codec_byte, payload) = covered.split_last().ok_or(Malformed("block too short"))?;
    let expected = codec::checksum(id.0, &[&offset.to_le_bytes(), covered]);
    if u32::from_le_bytes(*crc) != expected {
        return Err(Malformed("block checksum mismatch"));
    }
    match codec_byte {
        0 => Ok((payload, Codec::None)),
        1 => Ok((payload, Codec::Lz4)),
        _ => Err(Malformed("unknown block codec")),
    }
}

/// Undoes [`pack_lz4`], into one allocation that is no larger than the payload can explain.
pub(super) fn unpack_lz4(mut payload: &[u8]) -> Decoded<Arc<[u8]>> {
    let len = codec::get_varint(&mut payload)
        .and_then(|len| usize::try_from(len).ok())
        .ok_or(Malformed("LZ4 block without a length"))?;
    if len > payload.len().saturating_mul(LZ4_RATIO_MAX) {
        return Err(Malformed("LZ4 block promises more than it can hold"));
    }
    let mut bytes = zeroed(len);
    let target = Arc::get_mut(&mut bytes).ok_or(Malformed("block shared while being filled"))?;
    match lz4_flex::block::decompress_into(payload, target) {
        Ok(filled) if filled == len => Ok(bytes),
        _ => Err(Malformed("LZ4 block does not decompress to its length")),
    }
}

/// `len` zeros in one allocation.
pub(super) fn zeroed(len: usize) -> Arc<[u8]> {
    std::iter::repeat_n(0, len).collect()
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
        let crc = codec::checksum(7, &[&0u64.to_le_bytes(), b"abc\x02"]);
        let stored = [&b"abc\x02"[..], &crc.to_le_bytes()].concat();
        assert_eq!(
            verify(&stored, TableId(7), 0),
            Err(Malformed("unknown block codec"))
        );
    }

    #[test]
    fn lz4_round_trip_and_incompressible_refusal() {
        let mut packed = Vec::new();
        let payload = b"abcabcabcabcabcabcabcabcabcabcabcabc".repeat(20);
        assert!(pack_lz4(&payload, &mut packed));
        assert_eq!(&unpack_lz4(&packed).unwrap()[..], &payload[..]);
        assert!(!pack_lz4(b"q7Zx", &mut packed));
    }

    #[test]
    fn hostile_lz4_lengths_do_not_allocate() {
        for promised in [u64::MAX, 1 << 62, 1 << 40, 4 * 255 + 1] {
            let mut payload = Vec::new();
            codec::put_varint(&mut payload, promised);
            payload.extend_from_slice(&[0; 4]);
            assert!(unpack_lz4(&payload).is_err(), "{promised}");
        }
        assert!(unpack_lz4(&[]).is_err());
        assert!(unpack_lz4(&[0x80; 11]).is_err());
    }
}
