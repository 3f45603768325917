//! Files of snapshots: the records of all keyspaces at one moment, in the order of their keys.
//!
//! ```text
//! "EVRSNAP\0"  u32 version 1  u64 salt  u64 checksum           28 bytes; the salt is random
//! frame*:  u32 length of body  u8 kind  body  u64 checksum
//!   1 about      index, log id, membership
//!   2 keyspace   its name; the records behind are of it
//!   3 records    (u32 length of key, u32 length of value, key, value)*
//!   4 end        u64 number of records
//! ```
//! Numbers are little-endian. The checksum of a frame is XXH3 of kind and body, seeded with salt
//! and number of the frame: frames of other files or at other places do not verify, and a file
//! without its end is not whole. "About" comes first, and once. A frame of records has up to 64
//! KiB, or one record; so a writer or reader holds no more than a frame and one longest record.
//!
//! In the directory `snapshots`, `x.snapshot` is whole and durable: a file is written as `x.part`,
//! synced, and renamed. Opening removes the other files ([`shelf`]).
//!
//! A later version may add kinds. A reader refuses what it does not know (`Unsupported`).
//!
//! Thread safety: the owner's alone. Nothing here panics on bytes of a file, which may come from
//! elsewhere: lengths are compared with the file before memory is taken. Not here: what a state
//! makes of the records ([`crate::state`]).

mod reading;
pub mod shelf;
mod writing;

pub use reading::{Piece, Reader};
pub use writing::Writer;

use crate::state::Applied;
use evendb::{Error, ErrorKind};
use std::io;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(crate) const MAGIC: &[u8; 8] = b"EVRSNAP\0";
pub(crate) const VERSION: u32 = 1;
/// The header's length.
pub(crate) const HEADER_BYTES: u64 = 28;
/// The bytes of records after which a frame ends.
pub(crate) const FRAME_BYTES: usize = 64 << 10;

pub(crate) const ABOUT: u8 = 1;
pub(crate) const KEYSPACE: u8 = 2;
pub(crate) const RECORDS: u8 = 3;
pub(crate) const END: u8 = 4;

pub(crate) fn checksum(salt: u64, number: u64, kind: u8, body: &[u8]) -> u64 {
    let seed = salt ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(kind);
    xxh3_64_with_seed(body, seed)
}

fn put_slice(to: &mut Vec<u8>, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    to.extend_from_slice(&len.to_le_bytes());
    to.extend_from_slice(bytes);
}

fn take_slice<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = from.split_first_chunk::<4>()?;
    let len = u32::from_le_bytes(*len) as usize;
    let (slice, rest) = rest.split_at_checked(len)?;
    *from = rest;
    Some(slice)
}

pub(crate) fn encode_about(applied: &Applied) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some((index, id)) = &applied.last {
        bytes.extend_from_slice(&index.to_le_bytes());
        put_slice(&mut bytes, id);
        put_slice(&mut bytes, &applied.membership);
    }
    bytes
}

pub(crate) fn decode_about(bytes: &[u8]) -> Option<Applied> {
    if bytes.is_empty() {
        return Some(Applied::default());
    }
    let (index, mut rest) = bytes.split_first_chunk::<8>()?;
    let id = take_slice(&mut rest)?.to_vec();
    let membership = take_slice(&mut rest)?.to_vec();
    let last = Some((u64::from_le_bytes(*index), id));
    rest.is_empty().then_some(Applied { last, membership })
}

pub(crate) fn failed(path: &Path, what: &str, source: io::Error) -> Error {
    let kind = match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        _ => ErrorKind::Io,
    };
    Error::with_source(kind, format!("{}: {what}", path.display()), source)
}
