//! Payloads of a log's frames. All integers are little-endian.
//!
//! ```text
//!   begin    format u32 | number of the previous log u64 | its end u64 | durable up to u64
//!            (the last three are 0 if there is no previous log)
//!   group    version of the first record u64 | durable up to u64 | records u32 | record | ...
//!   record   kind u8 | keyspace varint | key length varint | key
//!            a put adds: value length varint | value
//! ```
//! The records of a group have ascending versions without a gap. The `durable up to` of a begin is
//! about the previous log. That of a group is about its own log: all frames below that offset were
//! durable before the group was written. So a frame tells which other frames a crash cannot have
//! torn (`replay`).

use crate::types::{FileNumber, KeyspaceId};
use evendb_storage::codec::{get_slice, get_u32, get_u64, get_varint, put_slice, put_varint};
use evendb_storage::table::KEY_BYTES_MAX;
use evendb_storage::{EntryRef, Kind, Version};

/// The format of the payloads.
pub(crate) const FORMAT_VERSION: u32 = 1;
/// Bytes of a begin's payload.
pub(crate) const BEGIN_BYTES: usize = 28;
/// Bytes of a group before its records.
pub(crate) const GROUP_HEADER_BYTES: usize = 20;

/// A log, as the next log names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Previous {
    pub(crate) number: FileNumber,
    /// The offset where its last frame ends.
    pub(crate) end: u64,
    /// The offset up to which it was durable when the next log was begun.
    pub(crate) durable: u64,
}

pub(crate) fn encode_begin(previous: Option<Previous>) -> [u8; BEGIN_BYTES] {
    let (number, end, durable) = previous.map_or((0, 0, 0), |previous| {
        (previous.number.0, previous.end, previous.durable)
    });
    let mut bytes = [0; BEGIN_BYTES];
    bytes[..4].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[4..12].copy_from_slice(&number.to_le_bytes());
    bytes[12..20].copy_from_slice(&end.to_le_bytes());
    bytes[20..].copy_from_slice(&durable.to_le_bytes());
    bytes
}

/// Why a payload cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// A later version wrote it.
    Unknown(String),
    Malformed,
}

pub(crate) fn decode_begin(mut input: &[u8]) -> Result<Option<Previous>, Refused> {
    let format = get_u32(&mut input).ok_or(Refused::Malformed)?;
    if format != FORMAT_VERSION {
        let detail = format!("a log of version {format}, this build reads {FORMAT_VERSION}");
        return Err(Refused::Unknown(detail));
    }
    let mut next = || get_u64(&mut input).ok_or(Refused::Malformed);
    let previous = Previous {
        number: FileNumber(next()?),
        end: next()?,
        durable: next()?,
    };
    match input.is_empty() && previous.durable <= previous.end {
        true => Ok((previous.number.0 > 0).then_some(previous)),
        false => Err(Refused::Malformed),
    }
}

/// The records of a group, encoded one after the other, with room for the header in front.
#[derive(Debug)]
pub(crate) struct GroupBody {
    payload: Vec<u8>,
    records: u32,
}

impl GroupBody {
    pub(crate) fn new() -> GroupBody {
        GroupBody {
            payload: vec![0; GROUP_HEADER_BYTES],
            records: 0,
        }
    }

    /// Empties it. It keeps its memory, up to `KEPT_BYTES_MAX` bytes.
    pub(crate) fn clear(&mut self) {
        const KEPT_BYTES_MAX: usize = 1 << 20;
        self.payload.truncate(GROUP_HEADER_BYTES);
        self.payload.shrink_to(KEPT_BYTES_MAX);
        self.records = 0;
    }

    /// Appends a record. Only a put has a value.
    pub(crate) fn put(&mut self, keyspace: KeyspaceId, kind: Kind, key: &[u8], value: &[u8]) {
        put_record(&mut self.payload, keyspace, kind, key, value);
        self.records += 1;
    }

    /// Appends records that [`put_record`] encoded.
    pub(crate) fn append(&mut self, records: u32, encoded: &[u8]) {
        self.payload.extend_from_slice(encoded);
        self.records += records;
    }

    pub(crate) fn records(&self) -> u32 {
        self.records
    }

    /// Bytes of the payload.
    pub(crate) fn len(&self) -> usize {
        self.payload.len()
    }

    /// The payload, with this header.
    pub(crate) fn payload(&mut self, first: Version, durable: u64) -> &[u8] {
        self.payload[..8].copy_from_slice(&first.0.to_le_bytes());
        self.payload[8..16].copy_from_slice(&durable.to_le_bytes());
        self.payload[16..GROUP_HEADER_BYTES].copy_from_slice(&self.records.to_le_bytes());
        &self.payload
    }

    /// The records that were appended.
    pub(crate) fn encoded(&self) -> Records<'_> {
        Records {
            input: &self.payload[GROUP_HEADER_BYTES..],
            left: self.records,
        }
    }
}

/// Appends a record. Only a put has a value.
pub(crate) fn put_record(
    out: &mut Vec<u8>,
    keyspace: KeyspaceId,
    kind: Kind,
    key: &[u8],
    value: &[u8],
) {
    out.push(kind as u8);
    put_varint(out, u64::from(keyspace.0));
    put_slice(out, key);
    match kind {
        Kind::Delete => debug_assert!(value.is_empty()),
        _ => put_slice(out, value),
    }
}

/// A record of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogRecord<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) kind: Kind,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl<'a> LogRecord<'a> {
    /// The record as one of this version.
    pub(crate) fn entry(&self, version: Version) -> EntryRef<'a> {
        EntryRef {
            key: self.key,
            version,
            kind: self.kind,
            value: self.value,
        }
    }
}

/// A group that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Group<'a> {
    /// Version of its first record.
    pub(crate) first: Version,
    /// The offset up to which its log was durable when the group was written.
    pub(crate) durable: u64,
    pub(crate) records: Records<'a>,
}

pub(crate) fn decode_group(mut input: &[u8]) -> Result<Group<'_>, Refused> {
    let first = get_u64(&mut input).ok_or(Refused::Malformed)?;
    let durable = get_u64(&mut input).ok_or(Refused::Malformed)?;
    let left = get_u32(&mut input).ok_or(Refused::Malformed)?;
    Ok(Group {
        first: Version(first),
        durable,
        records: Records { input, left },
    })
}

/// The records of a group, decoded one by one. The last item is an error if they make no sense.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Records<'a> {
    input: &'a [u8],
    left: u32,
}

impl Records<'_> {
    /// The number of records that are still to come.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<LogRecord<'a>, Refused>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let rest = std::mem::take(&mut self.input);
            return (!rest.is_empty()).then_some(Err(Refused::Malformed));
        }
        let record = decode_record(&mut self.input);
        self.left -= 1;
        if record.is_err() {
            (self.left, self.input) = (0, &[]);
        }
        Some(record)
    }
}

fn decode_record<'a>(input: &mut &'a [u8]) -> Result<LogRecord<'a>, Refused> {
    let (&kind, rest) = input.split_first().ok_or(Refused::Malformed)?;
    *input = rest;
    let kind = match Kind::from_byte(kind) {
        Some(kind @ (Kind::Put | Kind::Delete)) => kind,
        _ => {
            let detail =
                format!("a log with a record of kind {kind}, which this build does not know");
            return Err(Refused::Unknown(detail));
        }
    };
    let keyspace = get_varint(input).and_then(|id| u32::try_from(id).ok());
    let keyspace = KeyspaceId(keyspace.ok_or(Refused::Malformed)?);
    let key = get_slice(input).filter(|key| key.len() <= KEY_BYTES_MAX);
    let value = match kind {
        Kind::Delete => Some(&[][..]),
        _ => get_slice(input),
    };
    Ok(LogRecord {
        keyspace,
        kind,
        key: key.ok_or(Refused::Malformed)?,
        value: value.ok_or(Refused::Malformed)?,
    })
}
