//! The bytes of a record, little endian.
//!
//! ```text
//! 0   u32 checksum   crc32c of the payload, then of bytes 4..40; starts from the epoch's seed
//! 4   u32 length     low 28 bits: bytes of the payload; high 4 bits: kind
//! 8   u64 LSN        where the record starts
//! 16  u64 epoch
//! 24  u64 version
//! 32  u64 tail       tail of the ring when the record was written
//! 40  payload        padded to a multiple of 8; the padding is not covered
//! ```
//!
//! Kinds: 1 is a record, 2 a filler, whose payload is whatever lies there and is not covered.
//! Payload first, so that the appender can do that part before it takes the ring latch. LSN and
//! seed keep records of other laps and other lives of the database from passing.

use super::Lsn;
use evendb_storage::{Version, codec};

/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 40;
/// Records start at multiples of this.
pub(super) const ALIGN: u64 = 8;
/// What the length field holds, rounded down so that a padded record stays below it too.
pub(super) const PAYLOAD_BYTES_MAX: u64 = 1 << 27;

const LENGTH_BITS: u32 = 28;
const LENGTH_MASK: u32 = (1 << LENGTH_BITS) - 1;

/// Bytes that a record with a payload of this length takes in the ring.
#[inline]
pub(crate) fn record_bytes(payload_len: usize) -> u64 {
    (HEADER_BYTES as u64 + payload_len as u64).next_multiple_of(ALIGN)
}

/// A record as recovery hands it out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogRecord<'a> {
    /// Where it starts.
    pub(crate) lsn: Lsn,
    /// Where it ends, padding included.
    pub(crate) end: Lsn,
    /// Version of its writes.
    pub(crate) version: Version,
    /// Tail of the ring when it was written. Above the manifest's recorded LSN it proves that an
    /// edit of the manifest was lost; the caller checks.
    pub(crate) tail: Lsn,
    /// The appended parts, concatenated.
    pub(crate) payload: &'a [u8],
}

/// What a header is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeaderKind {
    Record,
    Filler,
}

/// A header without its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) kind: HeaderKind,
    pub(super) payload_len: u32,
    pub(super) lsn: Lsn,
    pub(super) epoch: u64,
    pub(super) version: Version,
    pub(super) tail: Lsn,
}

/// The part of the checksum that covers the payload.
#[inline]
pub(super) fn payload_checksum(seed: u64, parts: &[&[u8]]) -> u32 {
    codec::checksum(seed, parts)
}

/// The whole checksum: `payload` continued over the header's bytes.
#[inline]
fn header_checksum(payload: u32, covered: &[u8]) -> u32 {
    codec::checksum(u64::from(payload), &[covered])
}

impl Header {
    /// The bytes, with the checksum that continues `payload_checksum`.
    #[inline]
    pub(super) fn encode(&self, payload_checksum: u32) -> [u8; HEADER_BYTES] {
        assert!(
            self.payload_len <= LENGTH_MASK,
            "limited by record_bytes_max"
        );
        let kind = match self.kind {
            HeaderKind::Record => 1,
            HeaderKind::Filler => 2,
        };
        let mut bytes = [0; HEADER_BYTES];
        bytes[4..8].copy_from_slice(&(self.payload_len | (kind << LENGTH_BITS)).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.lsn.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.version.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.tail.0.to_le_bytes());
        let checksum = header_checksum(payload_checksum, &bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a header that may be anything. Its length is not to be believed before
    /// [`verifies`] says so, and may reach beyond the lap.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let mut rest = &bytes[4..];
        let length = codec::get_u32(&mut rest)?;
        let kind = match length >> LENGTH_BITS {
            1 => HeaderKind::Record,
            2 => HeaderKind::Filler,
            _ => return None,
        };
        Some(Header {
            kind,
            payload_len: length & LENGTH_MASK,
            lsn: Lsn(codec::get_u64(&mut rest)?),
            epoch: codec::get_u64(&mut rest)?,
            version: Version(codec::get_u64(&mut rest)?),
            tail: Lsn(codec::get_u64(&mut rest)?),
        })
    }

    /// Bytes of the record in the ring.
    pub(super) fn total_bytes(&self) -> u64 {
        record_bytes(self.payload_len as usize)
    }
}

/// Whether a header and its payload are what was written in the epoch with this seed.
pub(super) fn verifies(seed: u64, header: &[u8; HEADER_BYTES], payload: &[u8]) -> bool {
    let (stored, covered) = header.split_at(4);
    let expected = header_checksum(payload_checksum(seed, &[payload]), covered);
    stored == expected.to_le_bytes()
}
