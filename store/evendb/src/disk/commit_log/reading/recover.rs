//! Reading the ring after a crash: the longest prefix of records that verify.

use crate::commit_log::record::{ALIGN, HEADER_BYTES, Header, HeaderKind, LogRecord, verifies};
use crate::commit_log::sealed::{Opener, is_whole};
use crate::commit_log::{CAPACITY_UNIT, Lsn};
use evendb_storage::codec::hash_key;
use evendb_storage::vfs::{self, File};
use evendb_storage::{Error, Result};
use std::ops::Range;

/// The part of the commit log that one life of the database wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// The number of the life.
    pub epoch: u64,
    /// Its random seed.
    pub seed: u64,
    /// The position where it began.
    pub start: Lsn,
    /// The position where a later life closed it; `None` for the last life.
    pub closed_at: Option<Lsn>,
}

impl Segment {
    /// The part of the seed that may be shown, to tell lives of other databases from lives of this
    /// one. It must not reveal the seed, with which a value could be made to look like a record:
    /// half of a hash leaves four thousand million seeds open.
    pub(crate) fn tag(&self) -> u32 {
        hash_key(&self.seed.to_le_bytes()) as u32
    }
}

/// Bytes read at once, unless a record is longer.
const READ_BYTES: u64 = 256 << 10;

/// Hands out the records from `from` (the LSN in the manifest) in order while they verify, and
/// returns the first invalid position. `segments` are in order. If one ends before the place where
/// it was closed, all later ones are dead: their records were written on top of the missing ones.
///
/// Errors are errors of reading the file and of `each`. Whatever the bytes, this neither panics nor
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
            // A gap between segments: nothing proves what follows it.
            return Ok(at);
        }
        at = recover_segment(&mut reader, at, segment, each)?;
        if segment.closed_at != Some(at) {
            return Ok(at);
        }
    }
    Ok(at)
}

/// The begin of the first record or filler, from `at` on and below `end`, whose header verifies.
pub(crate) fn find_record(
    file: &dyn File,
    capacity: u64,
    at: Lsn,
    end: Lsn,
    segment: &Segment,
) -> Result<Option<Lsn>> {
    let mut reader = RingReader::new(file, capacity, at);
    let header = reader.find_header(at.0, end.0, segment)?;
    Ok(header.map(|header| header.lsn))
}

/// Reads one segment from `at`; returns its end.
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
        let FoundInRing::Whole(header, payload) = reader.read(start, segment)? else {
            break;
        };
        let end = Lsn(start.0 + header.total_bytes());
        if segment.closed_at.is_some_and(|closed| end > closed) {
            break;
        }
        if header.kind != HeaderKind::Filler {
            each(header.record(payload))?;
        }
        at = end;
    }
    Ok(at)
}

/// The result of a look at a place of the ring.
pub(crate) enum FoundInRing<'a> {
    /// No bytes that were written for this place.
    Nothing,
    /// A header that verifies, with a payload that does not.
    Stump(Header),
    /// A record or filler that verifies; the payload of a filler is left out.
    Whole(Header, &'a [u8]),
}

/// A header that this life wrote for this place.
pub(crate) fn verified(bytes: &[u8; HEADER_BYTES], at: Lsn, segment: &Segment) -> Option<Header> {
    let header = Header::decode(bytes)?;
    let own = header.lsn == at && header.epoch == segment.epoch & u64::from(u32::MAX);
    (own && verifies(segment.seed, bytes)).then_some(header)
}

/// Writes the place, the epoch and the checksums of the right life into each record of a ring, from
/// `at` on, for at most one lap. Length, kind, version and payload of the records stay. `ring` has
/// all bytes of the ring.
#[cfg(feature = "fuzzing")]
pub(crate) fn seal_ring(ring: &mut [u8], at: Lsn, segments: &[Segment]) {
    use crate::commit_log::record::payload_checksum;
    let capacity = ring.len() as u64;
    let limit = at.0.saturating_add(capacity);
    let (mut lsn, mut lives) = (at.0, segments.iter().peekable());
    while let Some(life) = lives.peek() {
        if life.closed_at.is_some_and(|closed| closed.0 <= lsn) {
            lives.next();
            continue;
        }
        let (place, rest) = ((lsn % capacity) as usize, capacity - lsn % capacity);
        if rest < HEADER_BYTES as u64 {
            lsn += rest;
            continue;
        }
        let bytes = ring[place..].first_chunk::<HEADER_BYTES>();
        let Some(mut header) = bytes.and_then(Header::decode) else {
            return;
        };
        let end = lsn.saturating_add(header.total_bytes());
        if header.total_bytes() > rest || end > limit {
            return;
        }
        let behind = lsn - header.lsn.0.min(lsn);
        header.tail = Lsn(header.tail.0.saturating_add(behind));
        header.durable = Lsn(header.durable.0.saturating_add(behind));
        (header.lsn, header.epoch) = (Lsn(lsn), life.epoch);
        let payload = &ring[place + HEADER_BYTES..][..header.payload_len as usize];
        header.payload_checksum = match header.kind {
            HeaderKind::Filler => payload_checksum(life.seed, &[]),
            _ => payload_checksum(life.seed, &[payload]),
        };
        ring[place..place + HEADER_BYTES].copy_from_slice(&header.encode(life.seed));
        lsn = end;
    }
}

/// Reads stretches of the ring that do not wrap.
pub(crate) struct RingReader<'a> {
    file: &'a dyn File,
    capacity: u64,
    /// No record reaches beyond this LSN.
    limit: u64,
    buffer: Vec<u8>,
    /// Place in the file of the buffer's first byte.
    buffer_start: u64,
    opener: Opener,
    /// An encrypted record that does not open is treated like one whose payload does not verify:
    /// for inspections, which look further.
    pub(crate) is_lenient: bool,
}

impl<'a> RingReader<'a> {
    pub(crate) fn new(file: &'a dyn File, capacity: u64, from: Lsn) -> RingReader<'a> {
        RingReader {
            file,
            capacity,
            // Bytes a whole lap above the tail cannot have been written.
            limit: from.0.saturating_add(capacity),
            buffer: Vec::new(),
            buffer_start: 0,
            opener: Opener::default(),
            is_lenient: false,
        }
    }

    /// The header at `at`, not verified; `None` if the bytes are no header, or the lap has no room
    /// for one.
    pub(crate) fn header(&mut self, at: Lsn) -> Result<Option<Header>> {
        if self.rest_of_lap(at) < HEADER_BYTES as u64 {
            return Ok(None);
        }
        let bytes = self.bytes(at.0 % self.capacity, HEADER_BYTES)?;
        Ok(bytes.first_chunk().and_then(Header::decode))
    }

    /// The begin of a record at `at`: there, or at the next lap if not even a header fits.
    pub(crate) fn skip_short_rest(&self, at: Lsn) -> Option<Lsn> {
        let rest = self.rest_of_lap(at);
        if rest >= HEADER_BYTES as u64 {
            return Some(at);
        }
        at.0.checked_add(rest).map(Lsn)
    }

    pub(crate) fn rest_of_lap(&self, at: Lsn) -> u64 {
        self.capacity - at.0 % self.capacity
    }

    /// Reads what this life wrote at `at`.
    pub(crate) fn read(&mut self, at: Lsn, segment: &Segment) -> Result<FoundInRing<'_>> {
        let room = self
            .rest_of_lap(at)
            .min(self.limit.saturating_sub(at.0))
            .min(self.capacity);
        if room < HEADER_BYTES as u64 {
            return Ok(FoundInRing::Nothing);
        }
        let offset = at.0 % self.capacity;
        let header = self.bytes(offset, HEADER_BYTES)?.first_chunk();
        let Some(header) = header.and_then(|bytes| verified(bytes, at, segment)) else {
            return Ok(FoundInRing::Nothing);
        };
        if header.total_bytes() > room {
            return Ok(FoundInRing::Nothing);
        }
        if header.kind == HeaderKind::Filler {
            return Ok(FoundInRing::Whole(header, &[]));
        }
        let whole = self.have(offset, HEADER_BYTES + header.payload_len as usize)?;
        let stored = self.buffer[whole].get(HEADER_BYTES..).unwrap_or_default();
        if !is_whole(segment, &header, stored) {
            return Ok(FoundInRing::Stump(header));
        }
        let opened = self
            .opener
            .open(self.file, offset, segment, &header, stored);
        match opened {
            Ok(payload) => Ok(FoundInRing::Whole(header, payload)),
            Err(_) if self.is_lenient => Ok(FoundInRing::Stump(header)),
            Err(error) => Err(error),
        }
    }

    /// The first header from `at` on, and below `end`, that verifies in its place. The time is
    /// proportional to the bytes looked at, whatever they are: no payload is read.
    pub(crate) fn find_header(
        &mut self,
        at: u64,
        end: u64,
        segment: &Segment,
    ) -> Result<Option<Header>> {
        const HEADER: u64 = HEADER_BYTES as u64;
        let end = end.min(self.limit);
        let mut at = at.checked_next_multiple_of(ALIGN).unwrap_or(end);
        while at.checked_add(HEADER).is_some_and(|after| after <= end) {
            let rest = self.rest_of_lap(Lsn(at));
            let offset = at % self.capacity;
            // Where nothing was ever written there are no headers, except one that may begin just
            // before the first byte.
            let data = self.next_data(offset)?.min(offset + rest);
            let hole = (data - offset).saturating_sub(HEADER);
            if hole >= ALIGN {
                at = at.saturating_add(if data == offset + rest {
                    rest
                } else {
                    hole - hole % ALIGN
                });
                continue;
            }
            // Bytes in the buffer come first: a search goes on behind each header that it finds.
            let buffered = self.buffer_start..self.buffer_start + self.buffer.len() as u64;
            let held = match buffered.contains(&offset) {
                true => buffered.end - offset,
                false => 0,
            };
            let most = if held < HEADER { READ_BYTES } else { held };
            let len = rest.min(end - at).min(most);
            let len = len - len % ALIGN;
            if len < HEADER {
                at = at.saturating_add(rest);
                continue;
            }
            let bytes = self.bytes(offset, len as usize)?;
            let places = bytes.windows(HEADER_BYTES).step_by(ALIGN as usize);
            for (index, header) in places.enumerate() {
                let lsn = at + index as u64 * ALIGN;
                // Nearly always this word differs.
                if header[8..16] == lsn.to_le_bytes()
                    && let Some(header) = header
                        .first_chunk()
                        .and_then(|bytes| verified(bytes, Lsn(lsn), segment))
                {
                    return Ok(Some(header));
                }
            }
            // The last places of the stretch are looked at again, together with the bytes that
            // follow them.
            at = at.saturating_add(match len == rest {
                true => rest,
                false => len - HEADER + ALIGN,
            });
        }
        Ok(None)
    }

    /// The place of the first byte from `offset` on that was ever written.
    fn next_data(&self, offset: u64) -> Result<u64> {
        let data = self.file.next_data(offset);
        let data =
            data.map_err(|error| Error::io(self.file.path(), "look through the commit log", error));
        Ok(data?.max(offset))
    }

    /// `len` bytes at `offset`, which do not wrap; fewer if the file is shorter than the ring.
    fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let held = self.have(offset, len)?;
        Ok(&self.buffer[held])
    }

    /// Fills the buffer with the bytes; returns their range in the buffer.
    fn have(&mut self, offset: u64, len: usize) -> Result<Range<usize>> {
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
        Ok(start..start + len)
    }
}
