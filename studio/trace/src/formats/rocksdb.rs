//! RocksDB's query trace, versions 0.1 and 0.2.
//!
//! ```text
//! record  micros u64 | type u8 | payload length u32 | payload          little-endian; no checksums
//! types   1 begin  2 end  3 write  4 get  5 seek  6 seek for the one before  13 multi-get;
//!         others are passed over
//! begin   text: feedcafedeadbeef, trace version, version of RocksDB
//! 0.1     write: a write batch; get, seek: column family u32, key
//! 0.2     bitmap u64 of what follows: 1 batch, 2 and 3 column family and key of a get,
//!         4 to 7 column family, key, lower and upper bound of a seek,
//!         8 to 10 count, column families and keys of a multi-get
//! batch   sequence u64 | count u32
//!         | records: tag u8, column family varint where the tag says, key, value
//! ```
//! Bytes have their length before them as a varint. The trace does not tell how much was read after
//! a seek. The format has no checksums, so an impossible length ends the reading: nobody knows
//! where the next record begins. A flipped bit within a key is not noticed.
//!
//! Memory: one record, of at most 256 MiB, as far as its bytes are there. A record is read twice.
//! The first pass checks that it is whole, so that all operations of a batch are given or none. The
//! second pass gives them one by one.

use super::Imported;
use super::text::SinceFirst;
use crate::codec::Input;
use crate::error::{Error, ErrorKind, Result};
use crate::operation::{KEY_BYTES_MAX, Kind, Operation, VALUE_BYTES_MAX};
use std::io::{BufRead, Read};

/// A batch with more bytes is refused. RocksDB itself has no limit below 4 GiB.
const PAYLOAD_BYTES_MAX: usize = 256 << 20;
const HEAD_BYTES: usize = 13;
const MAGIC: &[u8] = b"feedcafedeadbeef\t";

struct Record {
    micros: u64,
    kind: u8,
    payload: Vec<u8>,
}

enum Next {
    Record(Record),
    End,
    Torn,
    Absurd,
}

pub(super) fn read(
    from: &mut dyn BufRead,
    each: &mut dyn FnMut(&Operation) -> Result<()>,
) -> Result<Imported> {
    let begin = match next(from)? {
        Next::Record(record) if record.kind == 1 && record.payload.starts_with(MAGIC) => record,
        _ => {
            let message = "this is no trace of RocksDB: it does not begin with feedcafedeadbeef";
            return Err(Error::new(ErrorKind::NotATrace, message));
        }
    };
    let version = version_of(&begin.payload)?;
    let mut imported = Imported::default();
    let mut since = SinceFirst::at(begin.micros);
    let (mut number, mut group) = (0_u64, 0_u64);
    loop {
        number += 1;
        let record = match next(from)? {
            Next::Record(record) if record.kind == 2 => break,
            Next::Record(record) => record,
            // A trace that was ended has a record of its end.
            Next::End | Next::Torn => {
                imported.is_torn = true;
                break;
            }
            Next::Absurd => {
                imported.note_bad(|| format!("record {number}: an absurd length"));
                imported.is_torn = true;
                break;
            }
        };
        let mut count = 0;
        let mut counting = |_| {
            count += 1;
            Some(())
        };
        if parse(&record, version, &mut counting).is_none() {
            let kind = record.kind;
            imported.note_bad(|| format!("record {number} of type {kind} cannot be read"));
            continue;
        }
        let nanos = since.of(record.micros).saturating_mul(1000);
        group += u64::from(count > 1);
        let group = if count > 1 { group } else { 0 };
        imported.operations += give(&record, version, (nanos, group, count), each)?;
    }
    imported.times_back = since.times_back();
    Ok(imported)
}

/// Gives the operations of a record that is whole. Operations that come together have a group; a
/// batch of several ends with its commit. Returns their number.
fn give(
    record: &Record,
    version: u8,
    (nanos, group, count): (u64, u64, u64),
    each: &mut dyn FnMut(&Operation) -> Result<()>,
) -> Result<u64> {
    let mut given = Ok(0);
    let mut one = |mut operation: Operation| {
        operation.start_nanos = nanos;
        operation.group = group;
        given = each(&operation).and(given.as_ref().map_or(Ok(0), |given| Ok(given + 1)));
        given.is_ok().then_some(())
    };
    let all = parse(record, version, &mut one);
    if all.is_some() && record.kind == 3 && count > 1 {
        let mut commit = Operation::new(Kind::BatchCommit, Vec::new());
        commit.count = Some(count);
        one(commit);
    }
    given
}

/// Whether a file with this beginning has this format.
pub(super) fn is_begin(begin: &[u8]) -> bool {
    begin.get(8) == Some(&1)
        && begin
            .get(HEAD_BYTES..)
            .is_some_and(|rest| rest.starts_with(MAGIC))
}

/// The time of the record with which a trace of this format begins, in microseconds since 1970.
pub(super) fn begin_micros(begin: &[u8]) -> u64 {
    Input::new(begin).u64().unwrap_or_default()
}

fn version_of(payload: &[u8]) -> Result<u8> {
    let text = String::from_utf8_lossy(payload);
    let version = text.split_once("Trace Version: ");
    let version = version.and_then(|(_, rest)| rest.split(['\t', '\n']).next());
    match version {
        Some("0.1") => Ok(1),
        Some("0.2") => Ok(2),
        other => {
            let message = format!("a trace of RocksDB of version {other:?}; 0.1 and 0.2 are known");
            Err(Error::new(ErrorKind::UnsupportedVersion, message))
        }
    }
}

fn next(from: &mut dyn BufRead) -> Result<Next> {
    let mut head = [0; HEAD_BYTES];
    let mut got = 0;
    while got < HEAD_BYTES {
        match from.read(&mut head[got..]) {
            Ok(0) if got == 0 => return Ok(Next::End),
            Ok(0) => return Ok(Next::Torn),
            Ok(read) => got += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut input = Input::new(&head);
    let micros = input.u64().unwrap_or_default();
    let kind = input.byte().unwrap_or_default();
    let len = input.u32().unwrap_or(u32::MAX) as usize;
    if len > PAYLOAD_BYTES_MAX {
        return Ok(Next::Absurd);
    }
    // Grows as bytes come, so that a length alone allocates nothing.
    let mut payload = Vec::new();
    from.take(len as u64).read_to_end(&mut payload)?;
    Ok(match payload.len() == len {
        true => Next::Record(Record {
            micros,
            kind,
            payload,
        }),
        false => Next::Torn,
    })
}

/// Takes the operations of a record, until it gives `None`.
type Each<'a> = &'a mut dyn FnMut(Operation) -> Option<()>;

/// The operations of a record. None for types that access no keys. `None` if it cannot be read.
fn parse(record: &Record, version: u8, into: Each<'_>) -> Option<()> {
    let mut input = Input::new(&record.payload);
    let has = match version {
        1 => 0,
        _ if matches!(record.kind, 3..=6 | 13) => input.u64()?,
        _ => 0,
    };
    let member = |number: u32| version == 1 || has >> number & 1 != 0;
    match record.kind {
        3 => {
            let batch = match version {
                1 => input.rest,
                _ if member(1) => input.bytes()?,
                _ => return None,
            };
            batch_of(batch, into)
        }
        4 => {
            let family = family(&mut input, member(2))?;
            into(operation(Kind::Get, family, key(&mut input, member(3))?))
        }
        5 | 6 => {
            let family = family(&mut input, member(4))?;
            let sought = key(&mut input, member(5))?;
            let bound = |input: &mut Input<'_>, number| match version > 1 && member(number) {
                true => key(input, true).map(Some),
                false => Some(None),
            };
            let (low, high) = (bound(&mut input, 6)?, bound(&mut input, 7)?);
            into(seek(record.kind == 6, family, sought, (low, high))?)
        }
        13 if version > 1 && member(8) && member(9) && member(10) => multi_get(&mut input, into),
        13 => None,
        _ => Some(()),
    }
}

fn operation(kind: Kind, family: u32, key: Vec<u8>) -> Operation {
    let mut operation = Operation::new(kind, key);
    operation.keyspace = family;
    operation
}

fn family(input: &mut Input<'_>, is_there: bool) -> Option<u32> {
    match is_there {
        true => input.u32(),
        false => Some(0),
    }
}

fn key(input: &mut Input<'_>, is_there: bool) -> Option<Vec<u8>> {
    match is_there {
        true => {
            let bytes = input.bytes()?;
            (bytes.len() <= KEY_BYTES_MAX).then(|| bytes.to_vec())
        }
        false => None,
    }
}

fn seek(
    is_back: bool,
    family: u32,
    mut sought: Vec<u8>,
    (low, high): (Option<Vec<u8>>, Option<Vec<u8>>),
) -> Option<Operation> {
    if !is_back {
        let mut scan = operation(Kind::Scan, family, sought);
        scan.end_key = high;
        return Some(scan);
    }
    if sought.len() == KEY_BYTES_MAX {
        return None;
    }
    let mut scan = operation(Kind::Scan, family, low.unwrap_or_default());
    // The greatest key at or below: the range ends right after it.
    sought.push(0);
    scan.end_key = Some(sought);
    scan.reverse = true;
    Some(scan)
}

fn multi_get(input: &mut Input<'_>, into: Each<'_>) -> Option<()> {
    let count = input.u32()?;
    let mut families = Input::new(input.bytes()?);
    let mut keys = Input::new(input.bytes()?);
    for _ in 0..count {
        let family = families.u32()?;
        into(operation(Kind::MultiGet, family, key(&mut keys, true)?))?;
    }
    Some(())
}

fn batch_of(batch: &[u8], into: Each<'_>) -> Option<()> {
    let mut input = Input::new(batch);
    input.u64()?;
    let count = input.u32()?;
    let mut seen = 0;
    while !input.rest.is_empty() {
        let tag = input.byte()?;
        let (kind, with_family, has_value) = match tag {
            0x0 => (Kind::Delete, false, false),
            0x1 => (Kind::Put, false, true),
            0x2 => (Kind::Merge, false, true),
            0x4 => (Kind::Delete, true, false),
            0x5 => (Kind::Put, true, true),
            0x6 => (Kind::Merge, true, true),
            0x7 => (Kind::SingleDelete, false, false),
            0x8 => (Kind::SingleDelete, true, false),
            0xe => (Kind::DeleteRange, true, true),
            0xf => (Kind::DeleteRange, false, true),
            // Wide columns, and values with a time: their value is not bare.
            0x16 | 0x18 => (Kind::Put, false, true),
            0x17 | 0x19 => (Kind::Put, true, true),
            // Data of the log, and marks of transactions. They are no writes of keys.
            0x3 | 0xa | 0xb | 0xc => {
                input.bytes()?;
                continue;
            }
            0x9 | 0xd | 0x12 | 0x13 => continue,
            _ => return None,
        };
        let family = if with_family { input.varint_u32()? } else { 0 };
        let mut write = operation(kind, family, key(&mut input, true)?);
        if has_value && kind == Kind::DeleteRange {
            write.end_key = Some(key(&mut input, true)?);
        } else if has_value {
            let value = input.bytes()?;
            write.value_len = Some(value.len() as u64);
            if tag < 0x16 && value.len() <= VALUE_BYTES_MAX {
                write.value = Some(value.to_vec());
            }
        }
        into(write)?;
        seen += 1;
    }
    (seen == count).then_some(())
}
