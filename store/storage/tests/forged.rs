//! Manifests with edits that no engine wrote, and with right checksums.

use evendb_storage::codec::{checksum, put_varint};
use evendb_storage::framed_log::encode_frame;

/// A change of an edit: its tag and its numbers.
pub fn change(numbers: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    numbers
        .iter()
        .for_each(|&number| put_varint(&mut out, number));
    out
}

/// The number in a `CURRENT` at this place.
pub fn number_at(current: &[u8], at: usize) -> u64 {
    let number = current[at..].first_chunk().expect("eight bytes");
    u64::from_le_bytes(*number)
}

/// Puts a number into a `CURRENT`, and makes its checksum right.
pub fn set_number(current: &mut [u8], at: usize, number: u64) {
    current[at..at + 8].copy_from_slice(&number.to_le_bytes());
    let (covered, crc) = current.split_last_chunk_mut().expect("a checksum");
    *crc = checksum(0, &[covered]).to_le_bytes();
}

/// Appends edits to a manifest. `CURRENT` has at `at` the manifest's number, and behind it the
/// length up to which the manifest must verify.
pub fn append_edits(current: &mut [u8], at: usize, manifest: &mut Vec<u8>, edits: &[Vec<u8>]) {
    let (id, verified) = (number_at(current, at), number_at(current, at + 8));
    manifest.truncate(verified as usize);
    for edit in edits {
        let offset = manifest.len() as u64;
        assert!(encode_frame(manifest, id, offset, edit));
    }
    set_number(current, at + 8, manifest.len() as u64);
}
