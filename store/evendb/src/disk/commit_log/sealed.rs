//! Payloads of an encrypted database: their stored form in the ring.
//!
//! ```text
//! | payload, encrypted | tag (16 bytes) |      the header's length and checksum are of these bytes
//! ```
//! Each life has its own key, made from its epoch and its seed, which the operating system gave. So
//! lives with the same number, in copies of one database, have different keys. The nonce is the
//! record's LSN, which is given out once in a life, over all laps of the ring: the head only grows,
//! an append at a place where one failed or panicked latches the log, and gathered records are
//! encrypted once. The version is bound. Of the header's other fields, length and checksum follow
//! from the payload; the durable position and the ring's tail are hints that a checksum covers, and
//! no key does (docs/encryption.md).
//!
//! A record is encrypted under the ring latch, because its LSN is known only there. The header's
//! checksum covers the stored bytes, so the end of the log, and damage, are found as in any other
//! log. A record that verifies and does not open was made by somebody else, and is never an end of
//! the log.

use super::Lsn;
use super::record::{Header, payload_checksum};
use super::recover::Segment;
use evendb_storage::sealing::{Cipher, Nonce, Secrets, TAG_BYTES, Use};
use evendb_storage::vfs::File;
use evendb_storage::{Error, Result, Version};

/// The cipher of one life.
pub(super) fn cipher(secrets: &Secrets, epoch: u64, seed: u64) -> Cipher {
    secrets.cipher(Use::CommitLog, epoch, &seed.to_le_bytes())
}

/// Fills `sealed` with the stored form of the payload `parts` at `lsn`.
pub(super) fn seal(
    cipher: &Cipher,
    lsn: Lsn,
    version: Version,
    parts: &[&[u8]],
    sealed: &mut Vec<u8>,
) {
    sealed.clear();
    for part in parts {
        sealed.extend_from_slice(part);
    }
    cipher.seal(Nonce::at(lsn.0), &version.0.to_le_bytes(), sealed, 0);
}

/// Opens payloads in the order of a reader, one life after the other.
#[derive(Default)]
pub(super) struct Opener {
    cipher: Option<(u64, u64, Cipher)>,
    payload: Vec<u8>,
}

impl Opener {
    /// The payload of the record with `header`. `stored` verifies, and lies in `file`, at `offset`
    /// with its header.
    pub(super) fn open<'a>(
        &'a mut self,
        file: &dyn File,
        offset: u64,
        segment: &Segment,
        header: &Header,
        stored: &'a [u8],
    ) -> Result<&'a [u8]> {
        let Some(secrets) = file.secrets() else {
            return Ok(stored);
        };
        let life = (segment.epoch, segment.seed);
        if self
            .cipher
            .as_ref()
            .is_none_or(|(epoch, seed, _)| (*epoch, *seed) != life)
        {
            self.cipher = Some((life.0, life.1, cipher(secrets, life.0, life.1)));
        }
        self.payload.clear();
        self.payload
            .resize(stored.len().saturating_sub(TAG_BYTES), 0);
        let bound = header.version.0.to_le_bytes();
        let opens = self.cipher.as_ref().is_some_and(|(_, _, cipher)| {
            #[cfg(test)]
            if planted::TAGS_IGNORED.get() {
                planted::open(cipher, Nonce::at(header.lsn.0), stored, &mut self.payload);
                return true;
            }
            cipher.open_into(Nonce::at(header.lsn.0), &bound, stored, &mut self.payload)
        });
        match opens {
            true => Ok(&self.payload),
            false => {
                let what = "a record that was not encrypted for this place with this key";
                Err(Error::corruption(file.path(), offset, what))
            }
        }
    }
}

/// Whether the checksum of the stored bytes is the header's.
pub(super) fn is_whole(segment: &Segment, header: &Header, stored: &[u8]) -> bool {
    payload_checksum(segment.seed, &[stored]) == header.payload_checksum
}

/// P52: the tag is not looked at.
#[cfg(test)]
pub(super) mod planted {
    use super::{Cipher, Nonce};
    use std::cell::Cell;

    thread_local! {
        pub(in super::super) static TAGS_IGNORED: Cell<bool> = const { Cell::new(false) };
    }

    /// The cipher that encrypts also decrypts.
    pub(super) fn open(cipher: &Cipher, nonce: Nonce, stored: &[u8], payload: &mut [u8]) {
        let mut bytes = stored[..payload.len()].to_vec();
        cipher.seal(nonce, &[], &mut bytes, 0);
        payload.copy_from_slice(&bytes[..payload.len()]);
    }
}
