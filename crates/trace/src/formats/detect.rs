//! Which format a file has, by its first bytes.

use super::{Format, rocksdb};
use crate::frame::MAGIC;

/// What a file begins like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detected {
    /// This crate's own format.
    EvenDb,
    /// Another one.
    Other(Format),
}

/// The format of what begins so; none if it begins like nothing that has a mark of its own.
#[must_use]
pub fn detect(begin: &[u8]) -> Option<Detected> {
    if begin.starts_with(MAGIC) {
        return Some(Detected::EvenDb);
    }
    if rocksdb::is_begin(begin) {
        return Some(Detected::Other(Format::RocksDb));
    }
    begin
        .starts_with(b"0x")
        .then_some(Detected::Other(Format::RocksDbText))
}
