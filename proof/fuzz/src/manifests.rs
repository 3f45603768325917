//! Manifests, and `CURRENT`.

use crate::bytes::{Input, check_error, frames_of, reseal_frames};
use evendb_storage::codec::checksum;
use std::path::Path;

/// The number of every manifest that is fuzzed.
pub(crate) const ID: u64 = 7;

/// The payloads of a manifest's edits, up to the first frame that does not verify. The first byte
/// of `data` says whether the frames' checksums are corrected.
fn edits(data: &[u8]) -> Vec<Vec<u8>> {
    let mut input = Input(data);
    match input.byte() & 1 {
        0 => frames_of(input.0, ID),
        _ => frames_of(&reseal_frames(input.0, ID), ID),
    }
}

/// A decoded and encoded payload is decoded again, and encoded to the same bytes.
fn check_again(payload: &[u8], again: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    if let Some(once) = again(payload) {
        let twice = again(&once);
        assert_eq!(twice, Some(once), "an edit that was encoded again");
    }
}

/// A manifest. The state after all edits can be written as one edit, and then
/// stays the same. (The first time, lives of the database may be left out, if there are too many.)
pub fn manifest(data: &[u8]) {
    let edits = edits(data);
    for payload in &edits {
        check_again(payload, evendb::fuzzing::edit_again);
    }
    let payloads: Vec<&[u8]> = edits.iter().map(Vec::as_slice).collect();
    if let Ok(whole) = evendb::fuzzing::state_of(&payloads) {
        let again = evendb::fuzzing::state_of(&[&whole]).expect("a state of its own");
        let twice = evendb::fuzzing::state_of(&[&again]);
        assert_eq!(twice, Ok(again), "a state that was written anew");
    }
}

/// `CURRENT`, with a checksum that is corrected or is not, as the first byte says.
pub fn current(data: &[u8]) {
    let mut input = Input(data);
    let form = input.byte();
    let mut bytes = input.0.to_vec();
    if form & 1 == 1
        && let Some((covered, crc)) = bytes.split_last_chunk_mut::<4>()
    {
        *crc = checksum(0, &[covered]).to_le_bytes();
    }
    let path = Path::new("CURRENT");
    match evendb::fuzzing::current(path, &bytes) {
        Ok((id, verified, closed, is_newest)) => {
            let again = evendb::fuzzing::current_bytes(id, verified, closed);
            let read = evendb::fuzzing::current(path, &again);
            assert_eq!(read.ok(), Some((id, verified, closed, true)));
            // Unknown flags are passed over.
            let is_plain = bytes[25..28] == [0; 3] && bytes[24] <= 1;
            assert!(!is_newest || !is_plain || again == bytes, "it has one form");
        }
        Err(error) => check_error(&error),
    }
}
