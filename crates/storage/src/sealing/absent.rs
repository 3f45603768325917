//! What stands in the place of `aes_gcm` in a build without the feature `encryption`: types of which there is no value.

use super::{Nonce, Use};
use std::convert::Infallible;
use std::io;

/// A key, which this build has no use for and so does not keep.
#[derive(Clone, Debug)]
pub struct Key(());

impl Key {
    /// Forgets the bytes: without the feature `encryption` nothing is opened by them.
    pub fn new(_: [u8; super::KEY_BYTES]) -> Key {
        Key(())
    }

    /// None is made.
    pub fn random() -> io::Result<Key> {
        Err(io::Error::other(
            "this build lacks the feature `encryption`",
        ))
    }

    /// Never called.
    pub fn unwrap(by: &Cipher, _: Nonce, _: &[u8], _: &[u8]) -> Option<Key> {
        match by.0 {}
    }

    /// Of a key that is not kept there is nothing to tell.
    pub fn fingerprint(&self) -> String {
        String::new()
    }
}

/// There is none.
#[derive(Clone, Debug)]
pub struct Secrets(Infallible);

impl Secrets {
    /// None is made.
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

/// There is none.
#[derive(Debug)]
pub struct Cipher(Infallible);

impl Cipher {
    /// What there is not takes no memory.
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
