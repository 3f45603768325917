//! The bytes of a trace file around the operations: its header, and frames.
//!
//! ```text
//! file    header, frames
//! header  magic 8 "EvenDBtr" | version u32 | body bytes u32
//!         | xxh3 of bytes 0..16 and the body u64 | body
//! body    sample: one key in this number varint | wall clock at the start, ms since 1970 varint
//!         | flags varint | source: bytes | names
//! names   count varint, of each: number varint, name: bytes
//! frame   marker 4 | kind u8 | compression u8 | 0 u16 | stored bytes u32 | raw bytes u32
//!         | sequence u32 | operations u32 | xxh3 of bytes 0..24 and the stored bytes u64
//!         | stored bytes
//! kinds   1 operations (encode.rs)   2 names
//!         3 end: recorded, dropped when full, dropped behind, duration: varints
//! ```
//! Numbers of fixed width are little-endian. No length is believed beyond [`FRAME_BYTES_MAX`].

use crate::codec::{Input, put_bytes, put_varint};
use crate::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::Xxh3;

/// The highest number of bytes of a frame, compressed or not, and of the header.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// This number of keyspaces has names. Further names are passed over, and counted.
pub const KEYSPACES_MAX: usize = 1 << 16;
/// Names of keyspaces take at most this number of bytes together. Further names are passed over,
/// and counted.
pub const NAMES_BYTES_MAX: usize = 8 << 20;
pub(crate) const MAGIC: &[u8; 8] = b"EvenDBtr";
const VERSION: u32 = 1;
pub(crate) const HEADER_BYTES: usize = 24;
pub(crate) const FRAME_HEADER_BYTES: usize = 32;
pub(crate) const MARKER: [u8; 4] = [0xe7, b'E', b'v', 0xf5];
const NAME_BYTES_MAX: usize = 4096;

/// How far the times of a trace can be believed. The numbers are bits of the header's flags.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[non_exhaustive]
pub enum Times {
    /// As they were taken, in nanoseconds.
    #[default]
    Exact,
    /// Whole seconds: the operations of a second were spread evenly over it.
    Seconds,
    /// The source has none. The operations lie one behind the other, in their order.
    Order,
}

/// The description of a trace at its beginning.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// One key in this number is recorded: see [`Sampler`](crate::Sampler). 1: all.
    pub one_in: u64,
    /// The wall clock when it began, in milliseconds since 1970; 0 if that is not known.
    pub wall_clock_millis: u64,
    /// Results have hashes of values.
    pub has_hashes: bool,
    /// Writes have their values.
    pub has_values: bool,
    /// Ends of ranges are lost: a range without an end here may have had one.
    pub without_ends: bool,
    /// How far times can be believed.
    pub times: Times,
    /// Its origin, for people.
    pub source: String,
    /// Names of keyspaces by number, as far as they are known at the beginning.
    pub keyspaces: BTreeMap<u32, String>,
}

/// The description of a trace at its end, if it was ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EndNote {
    /// Operations that were written.
    pub recorded: u64,
    /// Operations that were left out because the file had reached its size.
    pub dropped_full: u64,
    /// Operations that were left out because they came faster than they could be written.
    pub dropped_behind: u64,
    /// From the beginning to the end.
    pub duration_nanos: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum FrameKind {
    Operations = 1,
    Names = 2,
    End = 3,
}

/// The fixed part of a frame, checked as far as possible before the rest is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameHeader {
    pub(crate) kind: FrameKind,
    pub(crate) is_compressed: bool,
    pub(crate) stored: usize,
    pub(crate) raw: usize,
    pub(crate) sequence: u32,
    pub(crate) operations: u32,
    pub(crate) checksum: u64,
}

fn checksum(head: &[u8], body: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(head);
    hasher.update(body);
    hasher.digest()
}

impl Times {
    fn flags(self) -> u64 {
        match self {
            Times::Exact => 0,
            Times::Seconds => 8,
            Times::Order => 16,
        }
    }

    fn of_flags(flags: u64) -> Times {
        match (flags & 16 != 0, flags & 8 != 0) {
            (true, _) => Times::Order,
            (false, true) => Times::Seconds,
            (false, false) => Times::Exact,
        }
    }
}

impl Header {
    /// Its bytes.
    ///
    /// # Errors
    /// `TooLarge`.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        put_varint(&mut body, self.one_in);
        put_varint(&mut body, self.wall_clock_millis);
        let flags = u64::from(self.has_hashes)
            | u64::from(self.has_values) << 1
            | u64::from(self.without_ends) << 2
            | self.times.flags();
        put_varint(&mut body, flags);
        put_bytes(&mut body, self.source.as_bytes());
        put_names(&mut body, &self.keyspaces);
        if body.len() > FRAME_BYTES_MAX {
            let message = "the names of keyspaces are too long for the header of a trace";
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        let sum = checksum(&out, &body);
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&body);
        Ok(out)
    }

    /// The length of the body, from the fixed part.
    pub(crate) fn body_len(fixed: &[u8; HEADER_BYTES]) -> Result<usize> {
        if !fixed.starts_with(MAGIC) {
            let message = "this is no trace of EvenDB: it does not begin with EvenDBtr";
            return Err(Error::new(ErrorKind::NotATrace, message));
        }
        let mut input = Input::new(&fixed[8..]);
        let version = input.u32().unwrap_or_default();
        if version != VERSION {
            let message = format!("a trace of version {version}; this program knows {VERSION}");
            return Err(Error::new(ErrorKind::UnsupportedVersion, message));
        }
        let len = input.u32().unwrap_or(u32::MAX) as usize;
        match len <= FRAME_BYTES_MAX {
            true => Ok(len),
            false => Err(Error::damaged(12, "an absurd length of the header")),
        }
    }

    pub(crate) fn decode(fixed: &[u8; HEADER_BYTES], body: &[u8]) -> Result<Header> {
        let (head, sum) = fixed.split_at(16);
        if checksum(head, body).to_le_bytes() != sum {
            return Err(Error::damaged(0, "a header whose checksum is wrong"));
        }
        let parsed = Header::parse(&mut Input::new(body));
        parsed.ok_or_else(|| Error::damaged(24, "a header that cannot be read"))
    }

    fn parse(input: &mut Input<'_>) -> Option<Header> {
        let (one_in, wall_clock_millis) = (input.varint()?.max(1), input.varint()?);
        let flags = input.varint()?;
        let source = String::from_utf8(input.bytes()?.to_vec()).ok()?;
        let mut names = Names::new(BTreeMap::new());
        names.read(input)?;
        input.rest.is_empty().then_some(Header {
            one_in,
            wall_clock_millis,
            has_hashes: flags & 1 != 0,
            has_values: flags & 2 != 0,
            without_ends: flags & 4 != 0,
            times: Times::of_flags(flags),
            source,
            keyspaces: names.by_number,
        })
    }
}

pub(crate) fn put_names(out: &mut Vec<u8>, names: &BTreeMap<u32, String>) {
    put_varint(out, names.len() as u64);
    for (number, name) in names {
        put_varint(out, u64::from(*number));
        put_bytes(out, name.as_bytes());
    }
}

/// The known names of keyspaces, within limits.
pub(crate) struct Names {
    by_number: BTreeMap<u32, String>,
    bytes: usize,
}

impl Names {
    pub(crate) fn new(by_number: BTreeMap<u32, String>) -> Names {
        let bytes = by_number.values().map(String::len).sum();
        Names { by_number, bytes }
    }

    pub(crate) fn by_number(&self) -> &BTreeMap<u32, String> {
        &self.by_number
    }

    /// Adds names to the known ones. Returns the number of names that were passed over.
    pub(crate) fn read(&mut self, input: &mut Input<'_>) -> Option<u64> {
        let count = input.varint()?;
        let mut passed_over = 0;
        for _ in 0..count {
            let number = input.varint_u32()?;
            let name = input.bytes()?;
            let known = self.by_number.get(&number).map(String::len);
            let has_room = self.by_number.len() < KEYSPACES_MAX || known.is_some();
            if !has_room || name.len() > NAME_BYTES_MAX {
                passed_over += 1;
                continue;
            }
            let name = String::from_utf8_lossy(name).into_owned();
            let bytes = self.bytes - known.unwrap_or_default() + name.len();
            if bytes > NAMES_BYTES_MAX {
                passed_over += 1;
                continue;
            }
            self.bytes = bytes;
            self.by_number.insert(number, name);
        }
        Some(passed_over)
    }
}

impl EndNote {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut raw = Vec::new();
        put_varint(&mut raw, self.recorded);
        put_varint(&mut raw, self.dropped_full);
        put_varint(&mut raw, self.dropped_behind);
        put_varint(&mut raw, self.duration_nanos);
        raw
    }

    pub(crate) fn decode(raw: &[u8]) -> Option<EndNote> {
        let mut input = Input::new(raw);
        let note = EndNote {
            recorded: input.varint()?,
            dropped_full: input.varint()?,
            dropped_behind: input.varint()?,
            duration_nanos: input.varint()?,
        };
        input.rest.is_empty().then_some(note)
    }
}

/// The bytes of a frame, compressed if that is shorter.
pub(crate) fn encode_frame(
    out: &mut Vec<u8>,
    kind: FrameKind,
    (raw, operations): (&[u8], u32),
    sequence: u32,
) {
    debug_assert!(raw.len() <= FRAME_BYTES_MAX, "callers end a frame in time");
    let compressed = lz4_flex::block::compress(raw);
    let is_compressed = compressed.len() < raw.len();
    let stored = if is_compressed { &compressed } else { raw };
    let start = out.len();
    out.extend_from_slice(&MARKER);
    out.extend_from_slice(&[kind as u8, u8::from(is_compressed), 0, 0]);
    for number in [stored.len() as u32, raw.len() as u32, sequence, operations] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let sum = checksum(&out[start..], stored);
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(stored);
}

impl FrameHeader {
    /// Reads the fixed part; `None` if it cannot be one.
    pub(crate) fn read(bytes: &[u8]) -> Option<FrameHeader> {
        let mut input = Input::new(bytes);
        if input.take(4)? != MARKER {
            return None;
        }
        let kind = match input.byte()? {
            1 => FrameKind::Operations,
            2 => FrameKind::Names,
            3 => FrameKind::End,
            _ => return None,
        };
        let is_compressed = match input.byte()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        if input.take(2)? != [0, 0] {
            return None;
        }
        let header = FrameHeader {
            kind,
            is_compressed,
            stored: input.u32()? as usize,
            raw: input.u32()? as usize,
            sequence: input.u32()?,
            operations: input.u32()?,
            checksum: input.u64()?,
        };
        let is_possible = header.stored <= FRAME_BYTES_MAX && header.raw <= FRAME_BYTES_MAX;
        let is_plain = header.is_compressed || header.stored == header.raw;
        (is_possible && is_plain).then_some(header)
    }

    /// Verifies a whole frame, and gives its raw bytes.
    pub(crate) fn open(&self, frame: &[u8], raw: &mut Vec<u8>) -> Option<()> {
        let (head, rest) = frame.split_at_checked(24)?;
        let stored = rest.get(8..8 + self.stored)?;
        if checksum(head, stored) != self.checksum {
            return None;
        }
        raw.clear();
        if !self.is_compressed {
            raw.extend_from_slice(stored);
            return Some(());
        }
        raw.resize(self.raw, 0);
        let len = lz4_flex::block::decompress_into(stored, raw).ok()?;
        (len == self.raw).then_some(())
    }
}
