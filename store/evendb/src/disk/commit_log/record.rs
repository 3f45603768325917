//! The bytes of a record, little endian.
//!
//! ```text
//! 0   u32 checksum   crc32c of bytes 4..40, from the epoch's seed
//! 4   u32 length     low 28 bits: bytes of the payload; high 4 bits: kind
//! 8   u64 LSN        where the record starts
//! 16  u32 epoch      its low half
//! 20  u32 durable    everything was durable up to this many units of 8 bytes below the LSN
//! 24  u64 version
//! 32  u32 tail       tail of the ring when the record was written: units of 8 bytes below the LSN
//! 36  u32 payload    crc32c of the payload, from the epoch's seed
//! 40  payload        padded to a multiple of 8; the padding is not covered
//! ```
//!
//! Kinds: 1 is a record. 2 is a filler, whose payload may be any bytes and is not covered. 3 is a
//! record whose header was written when its payload was complete. The payload has its own checksum,
//! so that the appender can compute it before it takes the ring latch, and so that bytes which only
//! look like a header are found out without reading a payload. LSN and seed keep records of other
//! laps and other lives of the database from passing.
//!
//! *Durable* makes damage provable after a power loss: bytes below it were on the disk once, so if
//! they do not verify they have changed since. A distance that does not fit is all ones, and says
//! nothing.

use super::Lsn;
use evendb_storage::{Version, codec};

/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 40;
/// Records start at multiples of this.
pub(super) const ALIGN: u64 = 8;
/// The limit of the length field, rounded down so that a padded record stays below it, too.
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
    /// The position of its first byte.
    pub(crate) lsn: Lsn,
    /// The position behind it, padding included.
    pub(crate) end: Lsn,
    /// Version of its writes.
    pub(crate) version: Version,
    /// Tail of the ring when it was written. Above the manifest's recorded LSN it proves that an
    /// edit of the manifest was lost; the caller checks.
    pub(crate) tail: Lsn,
    /// Everything below was durable when it was written.
    pub(crate) durable: Lsn,
    /// The appended parts, concatenated.
    pub(crate) payload: &'a [u8],
}

/// The kind of thing that a header belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeaderKind {
    Record,
    Filler,
    /// A record whose payload was complete when the header was written, even if the process died
    /// then.
    Sealed,
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
    pub(super) durable: Lsn,
    /// [`payload_checksum`] of the payload; for a filler, of nothing.
    pub(super) payload_checksum: u32,
}

/// The checksum of a payload.
#[inline]
pub(super) fn payload_checksum(seed: u64, parts: &[&[u8]]) -> u32 {
    codec::checksum(seed, parts)
}

/// The distance from `lsn` down to `below`, rounded up: the position that it gives is then at most
/// `below`, which is true as well.
#[inline]
fn distance(lsn: Lsn, below: Lsn) -> u32 {
    let units = lsn.0.saturating_sub(below.0).div_ceil(ALIGN);
    u32::try_from(units).unwrap_or(u32::MAX)
}

/// The position that [`distance`] was given; `Lsn(0)` if the distance says nothing.
fn position(lsn: Lsn, distance: u32) -> Lsn {
    match distance {
        u32::MAX => Lsn(0),
        units => Lsn(lsn.0.saturating_sub(u64::from(units) * ALIGN)),
    }
}

impl Header {
    /// The header's bytes.
    #[inline]
    pub(super) fn encode(&self, seed: u64) -> [u8; HEADER_BYTES] {
        assert!(
            self.payload_len <= LENGTH_MASK,
            "limited by record_bytes_max"
        );
        let kind = match self.kind {
            HeaderKind::Record => 1,
            HeaderKind::Filler => 2,
            HeaderKind::Sealed => 3,
        };
        let mut bytes = [0; HEADER_BYTES];
        bytes[4..8].copy_from_slice(&(self.payload_len | (kind << LENGTH_BITS)).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.lsn.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&(self.epoch as u32).to_le_bytes());
        bytes[20..24].copy_from_slice(&distance(self.lsn, self.durable).to_le_bytes());
        bytes[24..32].copy_from_slice(&self.version.0.to_le_bytes());
        bytes[32..36].copy_from_slice(&distance(self.lsn, self.tail).to_le_bytes());
        bytes[36..40].copy_from_slice(&self.payload_checksum.to_le_bytes());
        let checksum = codec::checksum(seed, &[&bytes[4..]]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a header from any bytes. It can be trusted only after [`verifies`] has accepted it;
    /// even then its length may reach beyond the lap.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let mut rest = &bytes[4..];
        let length = codec::get_u32(&mut rest)?;
        let kind = match length >> LENGTH_BITS {
            1 => HeaderKind::Record,
            2 => HeaderKind::Filler,
            3 => HeaderKind::Sealed,
            _ => return None,
        };
        let lsn = Lsn(codec::get_u64(&mut rest)?);
        let epoch = codec::get_u32(&mut rest)?;
        let durable = codec::get_u32(&mut rest)?;
        let version = Version(codec::get_u64(&mut rest)?);
        let tail = codec::get_u32(&mut rest)?;
        Some(Header {
            kind,
            payload_len: length & LENGTH_MASK,
            lsn,
            epoch: u64::from(epoch),
            version,
            tail: position(lsn, tail),
            durable: position(lsn, durable),
            payload_checksum: codec::get_u32(&mut rest)?,
        })
    }

    /// The record as recovery hands it out.
    pub(super) fn record<'a>(&self, payload: &'a [u8]) -> LogRecord<'a> {
        LogRecord {
            lsn: self.lsn,
            end: Lsn(self.lsn.0.saturating_add(self.total_bytes())),
            version: self.version,
            tail: self.tail,
            durable: self.durable,
            payload,
        }
    }

    /// Bytes of the record in the ring.
    pub(super) fn total_bytes(&self) -> u64 {
        record_bytes(self.payload_len as usize)
    }
}

/// Whether the header was written in the epoch with this seed.
pub(super) fn verifies(seed: u64, header: &[u8; HEADER_BYTES]) -> bool {
    let (stored, covered) = header.split_at(4);
    stored == codec::checksum(seed, &[covered]).to_le_bytes()
}
