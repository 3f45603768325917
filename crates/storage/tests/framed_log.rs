//! Framed logs: round trip, torn tails, broken bytes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod table_support;

use evendb_storage::ErrorKind;
use evendb_storage::framed_log::{FramedLogWriter, HEADER_BYTES, read_frames};
use evendb_storage::{Error, Result};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use table_support::MemFile;

const ID: u64 = 0x1122_3344_5566_7788;

fn written(payloads: &[Vec<u8>]) -> (Arc<MemFile>, Vec<u64>) {
    let file = MemFile::new(Vec::new());
    let mut writer = FramedLogWriter::create(file.clone(), ID).unwrap();
    let ends = payloads
        .iter()
        .map(|payload| writer.append(payload).unwrap())
        .collect();
    writer.sync().unwrap();
    (file, ends)
}

fn read(bytes: Vec<u8>, id: u64, verified: u64) -> Result<(Vec<Vec<u8>>, u64)> {
    let mut seen = Vec::new();
    let end = read_frames(&*MemFile::new(bytes), id, verified, &mut |_, payload| {
        seen.push(payload.to_vec());
        Ok(())
    })?;
    Ok((seen, end))
}

fn payloads() -> Vec<Vec<u8>> {
    vec![b"first".to_vec(), vec![0], vec![7; 40], b"x".to_vec()]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn frames_come_back(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..20), split in 0usize..20) {
        let split = split.min(payloads.len());
        let (file, ends) = written(&payloads[..split]);
        let end = ends.last().copied().unwrap_or(HEADER_BYTES);
        let mut writer = FramedLogWriter::resume(file.clone(), ID, end).unwrap();
        for payload in &payloads[split..] {
            writer.append(payload).unwrap();
        }
        let (seen, end) = read(file.bytes(), ID, writer.end()).unwrap();
        prop_assert_eq!((seen, end), (payloads, writer.end()));
    }
}

#[test]
fn frames_larger_than_the_reader_takes_at_once() {
    let payloads: Vec<Vec<u8>> = [100_000, 700_000, 3, 262_144 - 8, 262_144, 1]
        .iter()
        .map(|&len| vec![3; len])
        .collect();
    let (file, ends) = written(&payloads);
    let (seen, end) = read(file.bytes(), ID, ends[5]).unwrap();
    assert!(seen == payloads);
    assert_eq!(end, ends[5]);
}

/// Reserved room reads as zeros, and at some places the checksum of nothing is zero: there a reader found a frame, and what surveys a log found
/// none. A fuzzer made such a place.
#[test]
fn nothing_is_no_frame_even_where_its_checksum_is_right() {
    let (file, ends) = written(&payloads());
    let end = ends[3];
    let mut bytes = file.bytes();
    let none = 0_u32.to_le_bytes();
    let checksum = evendb_storage::codec::checksum(ID, &[&end.to_le_bytes(), &none]);
    bytes.extend_from_slice(&none);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(&[0; 100]);
    let (seen, found) = read(bytes, ID, end).unwrap();
    assert_eq!((seen, found), (payloads(), end));
    let mut writer = FramedLogWriter::resume(file, ID, end).unwrap();
    assert_eq!(writer.append(&[]).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn every_bit_and_every_truncation() {
    let (file, ends) = written(&payloads());
    let bytes = file.bytes();
    let last = bytes.len() as u64;
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        // All durable: nothing may be missing silently.
        let error = read(bad.clone(), ID, last).unwrap_err();
        assert!(matches!(
            error.kind(),
            ErrorKind::Corruption | ErrorKind::Unsupported
        ));
        // Nothing durable but the header: exactly the frames before the broken one.
        let at = (bit / 8) as u64;
        match read(bad, ID, 0) {
            Ok((seen, end)) => {
                assert!(at >= HEADER_BYTES);
                let whole = ends.iter().filter(|&&end| end <= at).count();
                assert_eq!(seen, payloads()[..whole]);
                assert_eq!(end, ends[..whole].last().copied().unwrap_or(HEADER_BYTES));
            }
            Err(_) => assert!(at < HEADER_BYTES),
        }
    }
    for len in 0..bytes.len() {
        let cut = bytes[..len].to_vec();
        let error = read(cut.clone(), ID, last).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        match read(cut, ID, 0) {
            Ok((seen, _)) => {
                let whole = ends.iter().filter(|&&end| end <= len as u64).count();
                assert_eq!(seen, payloads()[..whole]);
            }
            Err(error) => {
                assert!(len < HEADER_BYTES as usize);
                assert_eq!(error.kind(), ErrorKind::Corruption);
            }
        }
    }
}

#[test]
fn another_log_and_newer_formats_are_refused() {
    let bytes = written(&payloads()).0.bytes();
    assert_eq!(
        read(bytes.clone(), ID + 1, 0).unwrap_err().kind(),
        ErrorKind::Corruption
    );
    for (at, kind) in [(0, ErrorKind::Corruption), (8, ErrorKind::Unsupported)] {
        let mut bad = bytes.clone();
        bad[at] ^= 2;
        assert_eq!(read(bad, ID, 0).unwrap_err().kind(), kind);
    }
}

#[test]
fn a_hostile_length_allocates_nothing() {
    let mut bytes = written(&payloads()).0.bytes();
    bytes.extend_from_slice(&[0xff; 8]);
    let (seen, end) = read(bytes.clone(), ID, 0).unwrap();
    assert_eq!((seen.len(), end), (4, bytes.len() as u64 - 8));
}

/// A torn append in the middle leaves whole frames behind it, which a new frame of the torn one's
/// length would bring back to life if resuming did not cut them off.
#[test]
fn resuming_buries_what_is_behind_the_torn_frame() {
    let (file, ends) = written(&payloads());
    let mut torn = file.bytes();
    torn[ends[1] as usize + 20] ^= 1;
    let file = MemFile::new(torn.clone());
    let end = read(torn, ID, ends[1]).unwrap().1;
    assert_eq!(end, ends[1]);
    let mut writer = FramedLogWriter::resume(file.clone(), ID, end).unwrap();
    assert_eq!(writer.append(&[9; 40]).unwrap(), ends[2]);
    let (seen, end) = read(file.bytes(), ID, ends[2]).unwrap();
    assert_eq!((seen.len(), end), (3, ends[2]));
}

#[test]
fn an_error_of_the_caller_ends_reading() {
    let file = MemFile::new(written(&payloads()).0.bytes());
    let mut calls = 0;
    let answer = read_frames(&*file, ID, 0, &mut |offset, _| {
        calls += 1;
        Err(Error::corruption(Path::new("/x"), offset, "not an edit"))
    });
    assert_eq!(
        (answer.unwrap_err().offset(), calls),
        (Some(HEADER_BYTES), 1)
    );
}
