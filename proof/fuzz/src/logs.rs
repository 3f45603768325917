//! The commit log, and the files beside it: value extents and values apart.

use crate::bytes::{Input, MemoryFile};
use evendb::fuzzing::{Life, Record, recover, seal_ring, survey, writes};
use evendb_storage::vfs::{SimVfs, Vfs};
use evendb_storage::{Apart, ErrorKind, codec};
use std::path::Path;

/// The seed of the lives whose logs are fuzzed.
pub(crate) const SEED: u64 = 0x5eed;
/// A ring has one or two pages.
const PAGE: usize = 4096;

/// The ring of a commit log. Before it come three facts: whether checksums are corrected, and its
/// length; the place at which reading begins; the end of one life and the beginning of another.
pub fn commit_log(data: &[u8]) {
    let mut input = Input(data);
    let form = input.byte();
    let capacity = PAGE * (1 + usize::from(form >> 1 & 1));
    let from = u64::from(input.two()) * 8;
    let closed = u64::from(input.two()) * 8;
    let mut lives = vec![Life {
        epoch: 3,
        seed: SEED,
        start: from.saturating_sub(u64::from(form >> 4) * 8),
        closed_at: None,
    }];
    if form & 4 == 4 {
        lives[0].closed_at = Some(closed);
        lives.push(Life {
            epoch: 4,
            seed: SEED + 1,
            start: closed,
            closed_at: None,
        });
    }
    let mut ring = input.take(capacity).to_vec();
    ring.resize(capacity, 0);
    if form & 1 == 1 {
        seal_ring(&mut ring, from, &lives);
    }
    check_ring(ring, from, &lives);
}

fn check_ring(ring: Vec<u8>, from: u64, lives: &[Life]) {
    let (capacity, file) = (ring.len() as u64, MemoryFile(ring));
    let (recovered, end) = recover(&file, capacity, from, lives).expect("memory is read");
    let surveyed = survey(&file, capacity, from, lives).expect("memory is read");
    let (before, behind, is_backward) = surveyed;
    assert!(!is_backward, "a survey goes forward");
    assert_eq!(recovered, before, "a survey finds what recovery finds");
    let mut at = from;
    for record in recovered.iter().chain(&behind) {
        assert!(record.lsn >= at && record.end > record.lsn);
        at = record.end;
    }
    assert!(end >= from && end <= from + capacity);
    let ends = recovered.last().map_or(from, |last| last.end);
    assert!(end >= ends, "the end is behind the last record");
    for Record { payload, .. } in recovered.iter().chain(&behind) {
        check_payload(payload);
    }
}

/// A payload has one form: a decoded payload, encoded by the format's description, has the same
/// bytes.
fn check_payload(payload: &[u8]) {
    let mut again = Vec::new();
    if let Some((id, len, crc, is_synced)) = evendb::fuzzing::extent_named(payload) {
        again.push(if is_synced { 0xff } else { 0xfe });
        again.extend_from_slice(&id.to_le_bytes());
        again.extend_from_slice(&len.to_le_bytes());
        again.extend_from_slice(&crc.to_le_bytes());
        assert_eq!(again, payload, "the name of an extent");
        return;
    }
    let Some(all) = writes(payload) else {
        return;
    };
    for (kind, keyspace, key, value) in all {
        again.push(kind);
        again.extend_from_slice(&keyspace.to_le_bytes());
        again.extend_from_slice(&(key.len() as u32).to_le_bytes());
        again.extend_from_slice(&(value.len() as u32).to_le_bytes());
        again.extend_from_slice(key);
        again.extend_from_slice(value);
    }
    assert_eq!(again, payload, "writes");
}

/// What a record says about a value that lies elsewhere.
struct Told {
    /// Length and checksum are those of the value, and not the numbers below.
    is_right: bool,
    len: u64,
    checksum: u32,
    /// Where a value that lies apart begins in its file.
    offset: u16,
}

/// A value extent, or a file of values that lie apart, and a record's facts about it: its length
/// and checksum are right, or are not.
pub fn value_extent(data: &[u8]) {
    let mut input = Input(data);
    let form = input.byte();
    let told = Told {
        is_right: form & 1 == 1,
        len: input.number(),
        checksum: input.number() as u32,
        offset: input.two(),
    };
    let bytes = input.0;
    let (id, dir, vfs) = (9, Path::new("/"), SimVfs::new(1));
    let (extent, values) = evendb::fuzzing::value_file_names(id);
    let named = [extent, values][usize::from(form >> 1 & 1)].clone();
    vfs.write_file(&dir.join(named), bytes.to_vec());
    match form >> 1 & 1 {
        0 => {
            let right = (bytes.len() as u64, codec::checksum(id, &[bytes]));
            let told = match told.is_right {
                true => right,
                false => (told.len, told.checksum),
            };
            let read = evendb::fuzzing::value_extent(&vfs, dir, (id, told.0, told.1));
            let read = read.expect("memory is read");
            let expected = (told == right).then(|| bytes.to_vec());
            assert_eq!(read, expected, "what the record says decides");
            check_payload(bytes);
        }
        _ => value_apart(&vfs, dir, bytes, &told),
    }
}

fn value_apart(vfs: &dyn Vfs, dir: &Path, bytes: &[u8], facts: &Told) {
    let offset = match facts.is_right {
        true => u64::from(facts.offset).min(bytes.len() as u64),
        false => facts.len >> 32,
    };
    let rest = bytes.get(offset as usize..).unwrap_or_default();
    let value = match facts.is_right {
        true => rest,
        false => rest.get(..facts.len as u32 as usize).unwrap_or_default(),
    };
    let right = Apart {
        file: 9,
        offset,
        len: value.len() as u32,
        checksum: Apart::checksum_of(9, offset, value),
    };
    let told = match facts.is_right {
        true => right,
        false => Apart {
            len: facts.len as u32,
            checksum: facts.checksum,
            ..right
        },
    };
    match evendb::fuzzing::value_apart(vfs, dir, &told) {
        Ok(read) => {
            assert_eq!(told, right, "only what verifies is given");
            assert_eq!(read.as_deref(), Some(value));
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert_ne!(told, right, "what verifies is given");
        }
    }
}
