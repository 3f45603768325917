//! Replaces `zstd` in a build without the feature `zstd`: types that have no value, and a
//! compressor that leaves blocks as they are.
//!
//! No packed block comes here: a table that needs Zstandard is refused when it is opened, and the
//! engine refuses to make one.

use crate::table::Codec;

/// Whether this build has Zstandard.
pub(crate) const IS_THERE: bool = false;

/// Packs nothing.
#[derive(Debug)]
pub(crate) struct Compressor;

impl Compressor {
    pub(crate) fn new(_level: i32) -> Compressor {
        Compressor
    }

    pub(crate) fn train(&mut self, _: &[u8], _: &[usize], _: usize) -> Option<Vec<u8>> {
        None
    }

    pub(crate) fn append(&mut self, _: &[u8], _: &mut Vec<u8>) -> Option<Codec> {
        None
    }
}

/// It has no value.
pub(crate) enum Dictionary {}

impl Dictionary {
    pub(crate) fn new(_: &[u8]) -> Option<Dictionary> {
        None
    }

    pub(crate) fn resident_bytes(&self) -> usize {
        match *self {}
    }
}

pub(crate) fn decompress(_: &[u8], _: &mut [u8], _: Option<&Dictionary>) -> Option<usize> {
    None
}
