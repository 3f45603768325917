//! Replaces `aes_gcm` in a build without the feature `encryption`: types that have no value.

use super::{Nonce, Use};
use std::convert::Infallible;
use std::io;

/// A key. This build has no use for it and does not keep it.
#[derive(Clone, Debug)]
pub struct Key(());

impl Key {
    /// Forgets the bytes: without the feature `encryption` they open nothing.
    pub fn new(_: [u8; super::KEY_BYTES]) -> Key {
        Key(())
    }

    /// Makes none.
    pub fn random() -> io::Result<Key> {
        Err(io::Error::other(
            "this build lacks the feature `encryption`",
        ))
    }

    /// Never called.
    pub fn unwrap(by: &Cipher, _: Nonce, _: &[u8], _: &[u8]) -> Option<Key> {
        match by.0 {}
    }

    /// Empty: the key is not kept.
    pub fn fingerprint(&self) -> String {
        String::new()
    }
}

/// It has no value.
#[derive(Clone, Debug)]
pub struct Secrets(Infallible);

impl Secrets {
    /// Makes none.
    pub fn new(_: Key) -> io::Result<Secrets> {
        Err(io::Error::other(
            "this build lacks the feature `encryption`",
        ))
    }

    /// Never called.
    pub fn cipher(&self, _: Use<'_>, _: u64, _: &[u8]) -> Cipher {
        match self.0 {}
    }

    /// Never called.
    pub fn fresh<const BYTES: usize>(&self) -> [u8; BYTES] {
        match self.0 {}
    }

    /// Never called.
    pub fn wrap(&self, _: &Cipher, _: &[u8]) -> Vec<u8> {
        match self.0 {}
    }
}

/// It has no value.
#[derive(Debug)]
pub struct Cipher(Infallible);

impl Cipher {
    /// A cipher that does not exist takes no memory.
    pub const MEMORY_BYTES: usize = 0;

    /// Never called.
    pub fn seal(&self, _: Nonce, _: &[u8], _: &mut Vec<u8>, _: usize) {
        match self.0 {}
    }

    /// Never called.
    pub fn open<'b>(&self, _: Nonce, _: &[u8], _: &'b mut [u8]) -> Option<&'b [u8]> {
        match self.0 {}
    }

    /// Never called.
    pub fn open_into(&self, _: Nonce, _: &[u8], _: &[u8], _: &mut [u8]) -> bool {
        match self.0 {}
    }
}
