//! Replaces `zstd` in a build without the feature `zstd`: types that have no value, and a
//! compressor that leaves blocks as they are.
//!
//! No packed block comes here: a table that needs Zstandard is refused when it is opened, and the
//! engine refuses to make one.

use super::Codec;

/// Whether this build has Zstandard.
pub(super) const IS_THERE: bool = false;

/// Packs nothing.
#[derive(Debug)]
pub(super) struct Compressor;

impl Compressor {
    pub(super) fn new(_level: i32) -> Compressor {
        Compressor
    }

    pub(super) fn train(&mut self, _: &[u8], _: &[usize], _: usize) -> Option<Vec<u8>> {
        None
    }

    pub(super) fn append(&mut self, _: &[u8], _: &mut Vec<u8>) -> Option<Codec> {
        None
    }
}

/// It has no value.
pub(super) enum Dictionary {}

impl Dictionary {
    pub(super) fn new(_: &[u8]) -> Option<Dictionary> {
        None
    }

    pub(super) fn resident_bytes(&self) -> usize {
        match *self {}
    }
}

pub(super) fn decompress(_: &[u8], _: &mut [u8], _: Option<&Dictionary>) -> Option<usize> {
    None
}
