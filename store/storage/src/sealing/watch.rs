//! The keys and nonces under which bodies were sealed, for tests (feature `nonce-watch`). [`seen`]
//! returns everything that was sealed since [`begin`], in all databases and threads of this
//! process. The text of a [`Sealed`] carries it from one process to another.

use super::{Cipher, NONCE_BYTES, Nonce, TAG_BYTES};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

/// One body that was sealed. Two of these that differ only in their tags are two bodies under one
/// key and nonce.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Sealed {
    /// Distinguishes the key from others: the tag of an empty body under a nonce that is used for
    /// nothing else.
    pub key: [u8; TAG_BYTES],
    /// The nonce.
    pub nonce: [u8; NONCE_BYTES],
    /// The body's tag, which distinguishes it and its bound bytes from others.
    pub tag: [u8; TAG_BYTES],
}

const OF_NOTHING: Nonce = Nonce([0xff; NONCE_BYTES]);

static WATCHES: AtomicBool = AtomicBool::new(false);
static SEEN: Mutex<BTreeSet<Sealed>> = Mutex::new(BTreeSet::new());

/// Notes everything from now on.
pub fn begin() {
    WATCHES.store(true, Ordering::SeqCst);
}

/// Everything that was sealed since [`begin`].
pub fn seen() -> BTreeSet<Sealed> {
    SEEN.lock().clone()
}

/// The bodies in `all` that have the key and nonce of another body, each with the one before it.
pub fn repeated(all: &BTreeSet<Sealed>) -> Vec<(Sealed, Sealed)> {
    let pairs = all.iter().zip(all.iter().skip(1));
    let same = pairs.filter(|(a, b)| (a.key, a.nonce) == (b.key, b.nonce));
    same.map(|(a, b)| (*a, *b)).collect()
}

pub(super) fn note(cipher: &Cipher, nonce: Nonce, tag: [u8; TAG_BYTES]) {
    if !WATCHES.load(Ordering::SeqCst) {
        return;
    }
    let key = cipher.seal_apart(OF_NOTHING, &[], &mut []);
    let nonce = nonce.0;
    SEEN.lock().insert(Sealed { key, nonce, tag });
}

impl fmt::Display for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [&self.key[..], &self.nonce, &self.tag];
        all.concat()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Sealed {
    type Err = String;

    fn from_str(text: &str) -> Result<Sealed, String> {
        let no = || format!("no body that was sealed: {text}");
        let bytes: Option<Vec<u8>> = (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
            .collect();
        let bytes = bytes.ok_or_else(no)?;
        let (key, rest) = bytes.split_first_chunk().ok_or_else(no)?;
        let (nonce, tag) = rest.split_first_chunk().ok_or_else(no)?;
        Ok(Sealed {
            key: *key,
            nonce: *nonce,
            tag: tag.try_into().map_err(|_| no())?,
        })
    }
}
