//! Reading the ring after a crash: the longest prefix of records that verify.

use super::record::{HEADER_BYTES, Header, HeaderKind, LogRecord, verifies};
use super::{CAPACITY_UNIT, Lsn};
use evendb_storage::vfs::{self, File};
use evendb_storage::{Error, Result};

/// The part of the commit log that one life of the database wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// Which life.
    pub epoch: u64,
    /// Its random seed.
    pub seed: u64,
    /// Where it began.
    pub start: Lsn,
    /// Where a later life closed it; `None` for the last one.
    pub closed_at: Option<Lsn>,
}

/// Bytes read at once, unless a record is longer.
const READ_BYTES: u64 = 256 << 10;

/// Hands out the records from `from` (the LSN in the manifest) in order while they verify, and
/// returns the first invalid position. `segments` are in order; one that ends before it was closed
/// makes all later ones dead: what they hold was written on top of what is missing.
///
/// Errors are those of reading the file and of `each`. Whatever the bytes, this neither panics nor
/// allocates more than the ring's capacity.
pub(crate) fn recover(
    file: &dyn File,
    capacity: u64,
    from: Lsn,
    segments: &[Segment],
    each: &mut dyn FnMut(LogRecord<'_>) -> Result<()>,
) -> Result<Lsn> {
    if capacity == 0 || !capacity.is_multiple_of(CAPACITY_UNIT) {
        let detail = format!("commit log of {capacity} bytes");
        return Err(Error::corruption(file.path(), 0, detail));
    }
    let mut reader = RingReader::new(file, capacity, from);
    let mut at = from;
    for segment in segments {
        if segment.closed_at.is_some_and(|closed| closed <= at) {
            continue;
        }
        if segment.start > at {
            // A gap between segments: nothing vouches for what follows it.
            return Ok(at);
        }
        at = recover_segment(&mut reader, at, segment, each)?;
        if segment.closed_at != Some(at) {
            return Ok(at);
        }
    }
    Ok(at)
}

/// Reads one segment from `at`; returns where it ends.
fn recover_segment(
    reader: &mut RingReader<'_>,
    mut at: Lsn,
    segment: &Segment,
    each: &mut dyn FnMut(LogRecord<'_>) -> Result<()>,
) -> Result<Lsn> {
    while segment.closed_at.is_none_or(|closed| at < closed) {
        let Some(start) = reader.skip_short_rest(at) else {
            break;
        };
        let Some((header, payload)) = reader.read(start, segment)? else {
            break;
        };
        let end = Lsn(start.0 + header.total_bytes());
        if segment.closed_at.is_some_and(|closed| end > closed) {
            break;
        }
        if header.kind == HeaderKind::Record {
            each(LogRecord {
                lsn: start,
                end,
                version: header.version,
                tail: header.tail,
                payload,
            })?;
        }
        at = end;
    }
    Ok(at)
}

/// Reads stretches of the ring that do not wrap.
pub(super) struct RingReader<'a> {
    file: &'a dyn File,
    capacity: u64,
    /// No record reaches beyond this LSN.
    limit: u64,
    buffer: Vec<u8>,
    /// Place in the file of the buffer's first byte.
    buffer_start: u64,
}

impl<'a> RingReader<'a> {
    pub(super) fn new(file: &'a dyn File, capacity: u64, from: Lsn) -> RingReader<'a> {
        RingReader {
            file,
            capacity,
            // What lies a whole lap above the tail cannot have been written.
            limit: from.0.saturating_add(capacity),
            buffer: Vec::new(),
            buffer_start: 0,
        }
    }

    /// Whether the place of `at` holds a header that says it stands there.
    pub(super) fn has_lsn(&mut self, at: Lsn) -> Result<bool> {
        Ok(self.header(at)?.is_some_and(|header| header.lsn == at))
    }

    /// The header at `at`, verified or not; `None` if the bytes are none, or the lap has no room.
    pub(super) fn header(&mut self, at: Lsn) -> Result<Option<Header>> {
        if self.rest_of_lap(at) < HEADER_BYTES as u64 {
            return Ok(None);
        }
        let bytes = self.bytes(at.0 % self.capacity, HEADER_BYTES)?;
        Ok(bytes.first_chunk().and_then(Header::decode))
    }

    /// Where a record at `at` starts: there, or at the next lap if not even a header fits.
    pub(super) fn skip_short_rest(&self, at: Lsn) -> Option<Lsn> {
        let rest = self.rest_of_lap(at);
        if rest >= HEADER_BYTES as u64 {
            return Some(at);
        }
        at.0.checked_add(rest).map(Lsn)
    }

    pub(super) fn rest_of_lap(&self, at: Lsn) -> u64 {
        self.capacity - at.0 % self.capacity
    }

    /// The record or filler at `at` if it verifies; a filler's payload is left out.
    pub(super) fn read(&mut self, at: Lsn, segment: &Segment) -> Result<Option<(Header, &[u8])>> {
        let room = self
            .rest_of_lap(at)
            .min(self.limit.saturating_sub(at.0))
            .min(self.capacity);
        if room < HEADER_BYTES as u64 {
            return Ok(None);
        }
        let offset = at.0 % self.capacity;
        let Some(header_bytes) = self.bytes(offset, HEADER_BYTES)?.first_chunk().copied() else {
            return Ok(None);
        };
        let Some(header) = Header::decode(&header_bytes) else {
            return Ok(None);
        };
        if header.lsn != at || header.epoch != segment.epoch || header.total_bytes() > room {
            return Ok(None);
        }
        let payload_len = match header.kind {
            HeaderKind::Record => header.payload_len as usize,
            HeaderKind::Filler => 0,
        };
        let stretch = self.bytes(offset, HEADER_BYTES + payload_len)?;
        let Some(payload) = stretch.get(HEADER_BYTES..) else {
            return Ok(None);
        };
        Ok(verifies(segment.seed, &header_bytes, payload).then_some((header, payload)))
    }

    /// `len` bytes at `offset`, which do not wrap; fewer if the file is shorter than the ring.
    fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let buffered_end = self.buffer_start + self.buffer.len() as u64;
        if offset < self.buffer_start || offset + len as u64 > buffered_end {
            let stretch = READ_BYTES.max(len as u64).min(self.capacity - offset);
            self.buffer.clear();
            self.buffer.resize(stretch as usize, 0);
            self.buffer_start = offset;
            vfs::read_exact_at(self.file, &mut self.buffer, offset)
                .map_err(|error| Error::io(self.file.path(), "read the commit log", error))?;
        }
        let start = (offset - self.buffer_start) as usize;
        Ok(&self.buffer[start..start + len])
    }
}
