//! The bytes of `KEYS`.
//!
//! ```text
//! | magic 8 | cipher u8 | salt 16 | id length u8 | id | data key 32 | tag 16 | crc32c u32 |
//! ```
//! The data key is encrypted; cipher 1 is AES-256-GCM. The tag binds everything before the data
//! key. The checksum is checked first: it tells damage from a wrong key. No I/O here.

use evendb_storage::codec::checksum;
use evendb_storage::sealing::{Cipher, KEY_BYTES, Key, Nonce, SALT_BYTES, Secrets, TAG_BYTES, Use};
use std::io;

/// The last byte is the format version.
const MAGIC: &[u8; 8] = b"EVENKEY1";
const AES_256_GCM: u8 = 1;
/// The largest length of the file, in bytes.
pub(super) const KEYS_BYTES_MAX: u64 = 4096;

/// The contents of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeysFile {
    /// The id of the provider's key that encrypts the data key.
    pub(super) key_id: String,
    salt: [u8; SALT_BYTES],
    wrapped: Vec<u8>,
}

/// The reason why a file of keys was refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Corrupt(&'static str),
    Unsupported(&'static str),
}

/// The bytes before the data key.
fn head(salt: &[u8; SALT_BYTES], key_id: &str) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.push(AES_256_GCM);
    head.extend_from_slice(salt);
    head.push(key_id.len() as u8);
    head.extend_from_slice(key_id.as_bytes());
    head
}

/// The cipher of a provider's key, which encrypts only data keys.
fn cipher(key: &Key, salt: &[u8; SALT_BYTES]) -> io::Result<Cipher> {
    Ok(Secrets::new(key.clone())?.cipher(Use::DataKey, 0, salt))
}

impl KeysFile {
    /// The data key of `secrets`, encrypted by `key`, which has the id `key_id`.
    pub(super) fn seal(key_id: &str, key: &Key, secrets: &Secrets) -> io::Result<KeysFile> {
        let salt = secrets.fresh();
        let wrapped = secrets.wrap(&cipher(key, &salt)?, &head(&salt, key_id));
        Ok(KeysFile {
            key_id: key_id.to_owned(),
            salt,
            wrapped,
        })
    }

    /// The secret; `None` if `key` is the wrong key.
    pub(super) fn open(&self, key: &Key) -> io::Result<Option<Secrets>> {
        let by = cipher(key, &self.salt)?;
        let bound = head(&self.salt, &self.key_id);
        match Key::unwrap(&by, Nonce::at(0), &bound, &self.wrapped) {
            None => Ok(None),
            Some(data_key) => Secrets::new(data_key).map(Some),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = head(&self.salt, &self.key_id);
        bytes.extend_from_slice(&self.wrapped);
        let crc = checksum(0, &[&bytes]);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<KeysFile, Refused> {
        let corrupt = Refused::Corrupt("the file of keys does not verify");
        let (magic, _) = bytes
            .split_first_chunk::<8>()
            .ok_or(Refused::Corrupt("the file of keys is cut short"))?;
        if magic[..7] != MAGIC[..7] {
            return Err(Refused::Corrupt("no file of keys: wrong magic"));
        }
        if magic != MAGIC {
            return Err(Refused::Unsupported("keys of another format version"));
        }
        let Some((covered, crc)) = bytes.split_last_chunk::<4>() else {
            return Err(corrupt);
        };
        if checksum(0, &[covered]) != u32::from_le_bytes(*crc) {
            return Err(corrupt);
        }
        let parsed = || {
            let (&cipher, rest) = covered.get(8..)?.split_first()?;
            let (&salt, rest) = rest.split_first_chunk::<SALT_BYTES>()?;
            let (&len, rest) = rest.split_first()?;
            let (key_id, wrapped) = rest.split_at_checked(usize::from(len))?;
            let key_id = std::str::from_utf8(key_id).ok()?.to_owned();
            let is_whole = wrapped.len() == KEY_BYTES + TAG_BYTES;
            is_whole.then(|| (cipher, key_id, salt, wrapped.to_vec()))
        };
        let (cipher, key_id, salt, wrapped) = parsed().ok_or(corrupt)?;
        if cipher != AES_256_GCM {
            return Err(Refused::Unsupported(
                "a cipher that this build does not know",
            ));
        }
        Ok(KeysFile {
            key_id,
            salt,
            wrapped,
        })
    }
}

/// Decodes a file of keys and encodes it again.
#[cfg(feature = "fuzzing")]
pub(crate) fn again(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(KeysFile::decode(bytes).ok()?.encode())
}
