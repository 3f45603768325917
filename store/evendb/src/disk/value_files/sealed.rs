//! Values of an encrypted database: their stored form in a value file.
//!
//! ```text
//! | nonce (12 bytes) | value, encrypted | tag (16 bytes) |
//! ```
//! The key belongs to the file's number. Each value has a fresh nonce, because half of a file's
//! number is random and may come again: after the file was removed, or in two lives that began from
//! one copy. The offset is bound.
//!
//! Below format version 6 the nonce of a value was its offset, and was not stored. Such values can
//! be read; they are written in the new form when they are moved. The form of a value is found by
//! trying: no value in one form opens as the other.

use super::Bytes;
use evendb_storage::Apart;
use evendb_storage::sealing::{Cipher, NONCE_BYTES, Nonce, Secrets, TAG_BYTES, Use};

/// The number of bytes by which a sealed value is longer.
pub(super) const SEAL_BYTES: usize = NONCE_BYTES + TAG_BYTES;

fn cipher(secrets: &Secrets, file: u64) -> Cipher {
    secrets.cipher(Use::File("value"), file, &[])
}

/// The value as it is stored at `offset` of the file with this number.
pub(super) fn seal(secrets: &Secrets, (file, offset): (u64, u64), value: &[u8]) -> Vec<u8> {
    let nonce: [u8; NONCE_BYTES] = secrets.fresh();
    let mut stored = Vec::with_capacity(value.len() + SEAL_BYTES);
    stored.extend_from_slice(&nonce);
    stored.extend_from_slice(value);
    let (nonce, bound) = (Nonce(nonce), offset.to_le_bytes());
    cipher(secrets, file).seal(nonce, &bound, &mut stored, NONCE_BYTES);
    stored
}

/// The value that is stored there; `None` if this database did not encrypt it at that place.
pub(super) fn open(secrets: &Secrets, apart: &Apart, stored: &[u8]) -> Option<Bytes> {
    let opened = stored.split_first_chunk().and_then(|(nonce, sealed)| {
        let (nonce, bound) = (Nonce(*nonce), apart.offset.to_le_bytes());
        open_by(&cipher(secrets, apart.file), nonce, &bound, sealed)
    });
    opened.or_else(|| {
        let cipher = secrets.cipher(Use::File("value file"), apart.file, &[]);
        open_by(&cipher, Nonce::at(apart.offset), &[], stored)
    })
}

fn open_by(cipher: &Cipher, nonce: Nonce, bound: &[u8], sealed: &[u8]) -> Option<Bytes> {
    let len = sealed.len().checked_sub(TAG_BYTES)?;
    let mut value: Bytes = std::iter::repeat_n(0, len).collect();
    let bytes = Bytes::get_mut(&mut value).expect("nobody else has it yet");
    let is_open = cipher.open_into(nonce, bound, sealed, bytes);
    is_open.then_some(value)
}
