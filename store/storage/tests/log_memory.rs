//! The memory for reading a framed log: no more than the bytes that it really has, and some MiB,
//! however long the file is and whatever its frames claim.
//!
//! This is a binary of its own, because it counts the bytes that the allocator is asked for.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../proof/fuzz/src/memory.rs"]
#[expect(unsafe_code, reason = "an allocator that counts")]
mod memory;

use evendb_storage::framed_log::{
    FrameCodec, FramedLogWriter, Surveyed, encode_frame, find_frame, read_frames, survey_frames,
};
use evendb_storage::vfs::{File, OsVfs, Vfs};
use memory::peak_of;
use std::sync::Arc;

const ID: u64 = 7;
const MIB: usize = 1 << 20;

fn small_log(dir: &tempfile::TempDir) -> (Arc<dyn File>, u64) {
    let file = OsVfs.create(&dir.path().join("log")).unwrap();
    let mut writer = FramedLogWriter::create(file.clone(), ID).unwrap();
    let end = writer.append(b"an edit").unwrap();
    writer.sync().unwrap();
    (file, end)
}

/// The place where reading ends, and the number of bytes in holes, as a survey reports them.
fn looked_at(file: &Arc<dyn File>) -> (u64, Option<u64>, u64) {
    let end = read_frames(&**file, ID, 0, &mut |_, _| Ok(())).unwrap();
    let next = find_frame(&**file, ID, end).unwrap();
    let mut holes = 0;
    let survey = survey_frames(&**file, &FrameCodec::new(&**file, ID), &mut |found| {
        if let Surveyed::Hole { len, .. } = found {
            holes += len;
        }
    });
    survey.unwrap();
    (end, next, holes)
}

/// A terabyte in which only the first bytes were ever written, and one in which the last bytes were
/// written as well.
#[test]
fn a_sparse_log_of_a_terabyte_is_read_and_resumed_in_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (file, end) = small_log(&dir);
    let len = 1 << 40;
    if file.set_len(len).is_err() {
        eprintln!("a_sparse_log_of_a_terabyte: skipped, this file system has no files that long");
        return;
    }
    let (found, bytes) = peak_of(|| looked_at(&file));
    assert_eq!(found, (end, None, len - end));
    assert!(bytes < 2 * MIB, "{bytes}");
    let mut frame = Vec::new();
    encode_frame(&mut frame, ID, len - 100, b"far away");
    file.write_at(&frame, len - 100).unwrap();
    let (found, bytes) = peak_of(|| looked_at(&file));
    assert_eq!(
        found,
        (end, Some(len - 100), len - end - frame.len() as u64)
    );
    assert!(bytes < 2 * MIB, "{bytes}");
    let (resumed, bytes) = peak_of(|| FramedLogWriter::resume(file.clone(), ID, end).is_ok());
    assert!(resumed && bytes < MIB, "{bytes}");
    assert_eq!(looked_at(&file), (end, None, len - end));
}

/// A frame that claims 64 MiB of a sparse file, and does not verify.
#[test]
fn a_long_frame_is_verified_before_memory_is_taken_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let (file, end) = small_log(&dir);
    file.write_at(&(1_u32 << 26).to_le_bytes(), end).unwrap();
    file.set_len(1 << 27).unwrap();
    let (found, bytes) = peak_of(|| looked_at(&file));
    assert_eq!((found.0, found.1), (end, None));
    assert!(bytes < 2 * MIB, "{bytes}");
}

/// The bytes that are not zero are held once.
#[test]
fn a_tail_that_claims_frames_takes_its_own_bytes_of_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (file, end) = small_log(&dir);
    let tail: Vec<u8> = (0..1_u32 << 18)
        .flat_map(|at| (at * 3).to_le_bytes())
        .collect();
    file.write_at(&tail, end).unwrap();
    let (found, bytes) = peak_of(|| looked_at(&file));
    assert_eq!((found.0, found.1), (end, None));
    assert!(bytes < tail.len() + 2 * MIB, "{bytes}");
}
