//! AES-256-GCM, keys by HKDF-SHA-256. docs/decisions/compression-and-encryption.md says which
//! cipher (0066) and which instructions (0068), and why.

use super::{KEY_BYTES, Nonce, TAG_BYTES, Use};
use aes_gcm::Aes256Gcm;
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::aead::{AeadInOut, KeyInit};
use hkdf::Hkdf;
use sha2::Sha256;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zeroize::Zeroizing;

/// A key of 256 bits. Its memory is zeroed when it is dropped, and `Debug` shows nothing of it.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; KEY_BYTES]>);

impl Key {
    /// Takes the bytes, which must be random. The caller has to forget its own copy.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Key {
        Key(Zeroizing::new(bytes))
    }

    /// A new key from the system's random numbers.
    pub fn random() -> io::Result<Key> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        crate::random::fill(&mut bytes[..])?;
        Ok(Key(bytes))
    }

    /// The key that [`Secrets::wrap`] has encrypted; `None` if `by` is another cipher, or the bytes
    /// have changed.
    pub fn unwrap(by: &Cipher, nonce: Nonce, bound: &[u8], wrapped: &[u8]) -> Option<Key> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        let opens = by.open_into(nonce, bound, wrapped, &mut bytes[..]);
        opens.then_some(Key(bytes))
    }

    /// 16 hexadecimal digits that distinguish a key from others. They may be shown: they do not
    /// lead to the key.
    pub fn fingerprint(&self) -> String {
        let mut short = [0; 8];
        expand(self, &[b"evendb fingerprint\0"], &mut short);
        short.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

fn expand(key: &Key, info: &[&[u8]], out: &mut [u8]) {
    let derivation = Hkdf::<Sha256>::from_prk(&key.0[..]).expect("a key is as long as a hash");
    derivation
        .expand_multi_info(info, out)
        .expect("shorter than 255 hashes");
}

/// A database's data key, and fresh numbers as long as it is open.
#[derive(Clone)]
pub struct Secrets(Arc<Inner>);

struct Inner {
    key: Key,
    /// Taken from the system in each opening: no number of [`Secrets::fresh`] comes twice, in this
    /// life or in two lives.
    fresh: Key,
    counter: AtomicU64,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(..)")
    }
}

impl Secrets {
    /// The secrets of this data key. Fails if the system gives no random numbers.
    pub fn new(key: Key) -> io::Result<Secrets> {
        Ok(Secrets::with_fresh(key, Key::random()?))
    }

    /// With numbers that follow from `fresh`, for bytes that are the same in every run.
    pub(super) fn with_fresh(key: Key, fresh: Key) -> Secrets {
        let counter = AtomicU64::new(0);
        Secrets(Arc::new(Inner {
            key,
            fresh,
            counter,
        }))
    }

    /// The cipher of one file, log or life. Two ciphers of the same use and id have different keys
    /// if their salts differ.
    pub fn cipher(&self, what: Use<'_>, id: u64, salt: &[u8]) -> Cipher {
        let mut derived = Zeroizing::new([0; KEY_BYTES]);
        let [name, detail] = what.names();
        let len = (detail.len() as u64).to_le_bytes();
        let info = [name, &len, detail, &id.to_le_bytes(), salt];
        expand(&self.0.key, &info, &mut derived[..]);
        Cipher::new(&derived)
    }

    /// Bytes that were never given out before: a salt, or a random nonce.
    pub fn fresh<const BYTES: usize>(&self) -> [u8; BYTES] {
        let count = self.0.counter.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; BYTES];
        let info: [&[u8]; 2] = [b"evendb fresh\0", &count.to_le_bytes()];
        expand(&self.0.fresh, &info, &mut bytes);
        bytes
    }

    /// The data key, encrypted by `by`, which is used for nothing else.
    pub fn wrap(&self, by: &Cipher, bound: &[u8]) -> Vec<u8> {
        let mut wrapped = Vec::with_capacity(KEY_BYTES + TAG_BYTES);
        wrapped.extend_from_slice(&self.0.key.0[..]);
        by.seal(Nonce::at(0), bound, &mut wrapped, 0);
        wrapped
    }
}

/// Encrypts and decrypts the bodies of one file, log or life. Its state is zeroed when it is
/// dropped.
pub struct Cipher(Way);

/// The implementation. Both give the same bytes.
enum Way {
    #[cfg(target_arch = "x86_64")]
    Wide(Box<super::wide::Wide>),
    Any(Box<Aes256Gcm>),
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher(..)")
    }
}

impl Cipher {
    /// Bytes of memory that a cipher takes, at most.
    pub const MEMORY_BYTES: usize = 16 + max(size_of::<Aes256Gcm>(), WIDE_BYTES);

    pub(super) fn new(key: &[u8; KEY_BYTES]) -> Cipher {
        #[cfg(target_arch = "x86_64")]
        if let Some(wide) = super::wide::Wide::new(key) {
            return Cipher(Way::Wide(wide));
        }
        Cipher::of_any_processor(key)
    }

    pub(super) fn of_any_processor(key: &[u8; KEY_BYTES]) -> Cipher {
        Cipher(Way::Any(Box::new(Aes256Gcm::new(key.into()))))
    }

    /// Encrypts `buffer` from `start` on in its place, and appends the tag. `bound` is not stored:
    /// the reader has to know it.
    #[inline]
    pub fn seal(&self, nonce: Nonce, bound: &[u8], buffer: &mut Vec<u8>, start: usize) {
        let tag = self.seal_apart(nonce, bound, &mut buffer[start..]);
        #[cfg(feature = "nonce-watch")]
        super::watch::note(self, nonce, tag);
        buffer.extend_from_slice(&tag);
    }

    /// Encrypts `body` in its place. Returns the tag.
    #[inline]
    pub(super) fn seal_apart(
        &self,
        nonce: Nonce,
        bound: &[u8],
        body: &mut [u8],
    ) -> [u8; TAG_BYTES] {
        match &self.0 {
            #[cfg(target_arch = "x86_64")]
            Way::Wide(wide) => wide.seal(&nonce.0, bound, body),
            Way::Any(any) => any
                .encrypt_inout_detached(&nonce.0.into(), bound, InOutBuf::from(body))
                .expect("no body has 64 GiB")
                .into(),
        }
    }

    /// Decrypts `sealed` in its place. Returns the body, or `None` if these bytes were not sealed
    /// here, under this nonce, with `bound`.
    #[inline]
    pub fn open<'b>(&self, nonce: Nonce, bound: &[u8], sealed: &'b mut [u8]) -> Option<&'b [u8]> {
        let (body, tag) = sealed.split_last_chunk_mut::<TAG_BYTES>()?;
        let opens = match &self.0 {
            #[cfg(target_arch = "x86_64")]
            Way::Wide(wide) => wide.open(&nonce.0, bound, body, tag),
            Way::Any(any) => {
                let opened = InOutBuf::from(&mut body[..]);
                let tag = (&*tag).into();
                any.decrypt_inout_detached(&nonce.0.into(), bound, opened, tag)
                    .is_ok()
            }
        };
        opens.then_some(&*body)
    }

    /// Decrypts `sealed` into `body`, which is as long as `sealed` without its tag. Returns whether
    /// the bytes were sealed here.
    #[inline]
    pub fn open_into(&self, nonce: Nonce, bound: &[u8], sealed: &[u8], body: &mut [u8]) -> bool {
        let Some((from, tag)) = sealed.split_last_chunk::<TAG_BYTES>() else {
            return false;
        };
        if from.len() != body.len() {
            return false;
        }
        match &self.0 {
            #[cfg(target_arch = "x86_64")]
            Way::Wide(wide) => {
                body.copy_from_slice(from);
                wide.open(&nonce.0, bound, body, tag)
            }
            Way::Any(any) => InOutBuf::new(from, body).is_ok_and(|both| {
                any.decrypt_inout_detached(&nonce.0.into(), bound, both, tag.into())
                    .is_ok()
            }),
        }
    }
}

#[cfg(target_arch = "x86_64")]
const WIDE_BYTES: usize = size_of::<super::wide::Wide>();
#[cfg(not(target_arch = "x86_64"))]
const WIDE_BYTES: usize = 0;

const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}
