//! Framed logs: round trip, torn tails, broken bytes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod table_support;

use evendb_storage::ErrorKind;
use evendb_storage::framed_log::{
    FRAME_HEADER_BYTES, FrameCodec, FramedLogWriter, HEADER_BYTES, Surveyed, decode_frame,
    encode_frame, find_frame, read_frames, survey_frames,
};
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

/// Reserved room reads as zeros, and at some places zero is the right checksum of an empty payload.
/// There the reader found a frame, and the survey of a log found none. A fuzzer made such a place.
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
        // Everything is durable: nothing may be missing silently.
        let error = read(bad.clone(), ID, last).unwrap_err();
        assert!(matches!(
            error.kind(),
            ErrorKind::Corruption | ErrorKind::Unsupported
        ));
        // Only the header is durable: exactly the frames before the broken one are found.
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

/// A torn append in the middle leaves whole frames behind it. A new frame of the torn one's length
/// would bring them back to life if resuming did not cut them off.
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

/// The place behind `end` where a frame verifies, found by trying each offset. The place that the
/// length at `end` tells comes first.
fn found_one_by_one(bytes: &[u8], end: u64) -> Option<u64> {
    let verifies = |at: &usize| {
        let rest = bytes.get(*at..).unwrap_or_default();
        decode_frame(rest, ID, *at as u64).is_some()
    };
    let len = bytes.get(end as usize..)?.first_chunk::<4>();
    let told = len.map_or(0, |len| u32::from_le_bytes(*len) as usize);
    let told = end as usize + FRAME_HEADER_BYTES + told;
    let mut behind = end as usize + 1..bytes.len();
    let found = Some(told).filter(verifies);
    found.or_else(|| behind.find(verifies)).map(|at| at as u64)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// Behind a place where no frame verifies: stretches of zeros, of any bytes, of possible
    /// lengths, and frames.
    #[test]
    fn a_search_finds_what_trying_each_offset_by_itself_finds(
        pieces in prop::collection::vec((0..5u8, 0usize..1500, any::<u64>()), 1..12),
    ) {
        let (file, ends) = written(&payloads());
        let mut bytes = file.bytes();
        for (kind, len, seed) in pieces {
            let mut numbers = (0..len).map(|at| (seed ^ at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
            match kind {
                0 => bytes.resize(bytes.len() + len, 0),
                1 => bytes.extend(numbers.map(|number| number as u8)),
                2 => bytes.extend(numbers.flat_map(|number| (number as u32 % 3000).to_le_bytes())),
                3 => bytes.push(numbers.next().unwrap_or(0) as u8),
                _ => {
                    let at = bytes.len() as u64;
                    let payload: Vec<u8> = numbers.map(|number| (number & number >> 8) as u8).chain([0; 40]).collect();
                    prop_assert!(encode_frame(&mut bytes, ID, at, &payload));
                }
            }
        }
        let end = read(bytes.clone(), ID, 0).unwrap().1;
        prop_assert!(end >= ends[3]);
        let expected = found_one_by_one(&bytes, end);
        prop_assert_eq!(find_frame(&*MemFile::new(bytes), ID, end).unwrap(), expected);
    }
}

/// Each offset of the torn tail claims a frame that has all the following bytes.
fn claiming_tail(bytes: &mut Vec<u8>, len: usize) {
    let len = len & !3;
    let end = bytes.len() + len;
    while bytes.len() < end {
        let rest = (end - bytes.len()) as u32;
        bytes.extend_from_slice(&(rest / 2).to_le_bytes());
    }
}

/// Tried alone, each offset would take a checksum of half of the rest: 2^41 bytes in all, and this
/// test would run for minutes.
#[test]
fn a_tail_whose_every_place_claims_a_frame_is_read_once() {
    let (file, ends) = written(&payloads());
    let mut bytes = file.bytes();
    claiming_tail(&mut bytes, 4 << 20);
    let tail = bytes.len() as u64 - ends[3];
    let file = MemFile::new(bytes);
    let read_bytes = |file: &MemFile| {
        file.take_parts()
            .0
            .iter()
            .map(|part| part.end - part.start)
            .sum::<u64>()
    };
    assert_eq!(find_frame(&*file, ID, ends[3]).unwrap(), None);
    assert_eq!(read_bytes(&file), tail);
    let codec = FrameCodec::new(&*file, ID);
    let mut holes = Vec::new();
    let survey = survey_frames(&*file, &codec, &mut |found| {
        if let Surveyed::Hole { offset, len, .. } = found {
            holes.push((offset, len));
        }
    });
    survey.unwrap();
    assert_eq!(holes, [(ends[3], tail)]);
    // Once for frames, once for the search, and the claim of the first place.
    assert!(read_bytes(&file) <= 3 * (tail + ends[3]) + (1 << 20));
}

/// Holes and frames in turns, then the same number of zeros: the bytes behind a hole are not read
/// again for each hole.
#[test]
fn holes_between_frames_are_surveyed_in_one_go() {
    let (file, ends) = written(&payloads());
    let mut bytes = file.bytes();
    let mut expected = Vec::new();
    for _ in 0..20_000 {
        let at = bytes.len() as u64;
        bytes.extend_from_slice(&(1_u32 << 19).to_le_bytes());
        expected.push((at, 4));
        let at = bytes.len() as u64;
        assert!(encode_frame(&mut bytes, ID, at, b"0123"));
    }
    let at = bytes.len() as u64;
    bytes.resize(bytes.len() + (1 << 20), 0);
    expected.push((at, 1 << 20));
    let file = MemFile::new(bytes);
    let codec = FrameCodec::new(&*file, ID);
    let mut holes = Vec::new();
    let survey = survey_frames(&*file, &codec, &mut |found| {
        if let Surveyed::Hole { offset, len, .. } = found {
            holes.push((offset, len));
        }
    });
    survey.unwrap();
    assert!(holes == expected, "{} of {}", holes.len(), expected.len());
    let read: u64 = file
        .take_parts()
        .0
        .iter()
        .map(|part| part.end - part.start)
        .sum();
    assert!(
        read < 8 * file.bytes().len() as u64,
        "{read}, from {}",
        ends[3]
    );
}
