//! One value of a value file, read and verified, also without a database.
//!
//! Thread safety: any. Not here: which files are open ([`super::ValueFiles`]).

use super::{Bytes, file_path, sealed};
use evendb_storage::codec::{checksum, checksum_on};
use evendb_storage::heap;
use evendb_storage::vfs::{File, Vfs, read_exact_at};
use evendb_storage::{Apart, Error, Result};
use std::io;
use std::ops::Range;
use std::path::Path;

/// Longer values are verified before memory is taken for them.
pub(super) const LONG_BYTES: u32 = 16 << 20;
/// Bytes that are read at once when only a part of a value is wanted.
const PIECE_BYTES: usize = 256 << 10;

/// The value at this place in `file`.
pub(crate) fn read_value(file: &dyn File, path: &Path, apart: &Apart) -> Result<Bytes> {
    let stored = read_stored(file, path, apart)?;
    let Some(secrets) = file.secrets() else {
        return Ok(stored);
    };
    let opened = sealed::open(secrets, apart, &stored);
    let detail = "a value is not what this database encrypted there";
    opened.ok_or_else(|| Error::corruption(path, apart.offset, detail))
}

/// Like [`read_value`], in its stored form.
pub(crate) fn read_stored(file: &dyn File, path: &Path, apart: &Apart) -> Result<Bytes> {
    let damaged = |detail| file.unverified(apart.offset, detail);
    if apart.len >= LONG_BYTES {
        check_end(file, path, apart)?;
    }
    heap::expect(apart.len as usize);
    let mut value: Bytes = std::iter::repeat_n(0, apart.len as usize).collect();
    let bytes = Bytes::get_mut(&mut value).expect("nobody else has it yet");
    read_exact_at(file, bytes, apart.offset).map_err(unread(file, path, apart))?;
    match apart.verifies(&value) {
        true => Ok(value),
        false => Err(damaged("a value does not verify")),
    }
}

/// The bytes of a value at this place that lie in `part`, cut to what the value has. One checksum
/// is of the whole value, so all of it is read and verified, piece by piece; only the part takes
/// memory. A value that is encrypted is in memory as a whole.
pub(crate) fn read_part(
    file: &dyn File,
    path: &Path,
    apart: &Apart,
    part: &Range<u64>,
) -> Result<Bytes> {
    if file.secrets().is_some() {
        let value = read_value(file, path, apart)?;
        let part = cut(part, value.len() as u64);
        return Ok(Bytes::from(&value[part]));
    }
    let damaged = |detail| file.unverified(apart.offset, detail);
    let part = cut(part, u64::from(apart.len));
    if part.len() as u64 >= u64::from(LONG_BYTES) {
        check_end(file, path, apart)?;
    }
    let mut found = Vec::with_capacity(part.len());
    let mut piece = vec![0; PIECE_BYTES.min(apart.len as usize)];
    let mut sum = checksum(apart.file, &[&apart.offset.to_le_bytes()]);
    let mut at = 0;
    while at < apart.len as usize {
        let piece = &mut piece[..PIECE_BYTES.min(apart.len as usize - at)];
        let offset = apart.offset.saturating_add(at as u64);
        read_exact_at(file, piece, offset).map_err(unread(file, path, apart))?;
        sum = checksum_on(sum, piece);
        let end = at + piece.len();
        let wanted = part.start.clamp(at, end)..part.end.clamp(at, end);
        if wanted.start < wanted.end {
            found.extend_from_slice(&piece[wanted.start - at..wanted.end - at]);
        }
        at = end;
    }
    match sum == apart.checksum {
        true => Ok(Bytes::from(found)),
        false => Err(damaged("a value does not verify")),
    }
}

/// The part of a value of `len` bytes that a range asks for: both ends are cut to the length, and
/// an inverted range is empty.
pub(crate) fn cut(part: &Range<u64>, len: u64) -> Range<usize> {
    let start = part.start.min(len);
    let end = part.end.clamp(start, len);
    // A value is in memory, or has a length of 32 bits.
    start as usize..end as usize
}

/// An unverified length must not make the memory run out.
fn check_end(file: &dyn File, path: &Path, apart: &Apart) -> Result<()> {
    let len = file.len();
    let len = len.map_err(|source| Error::io(path, "look at a value file", source))?;
    match len < apart.offset.saturating_add(u64::from(apart.len)) {
        true => Err(beyond(file, apart)),
        false => Ok(()),
    }
}

fn beyond(file: &dyn File, apart: &Apart) -> Error {
    file.unverified(apart.offset, "a value lies beyond the end of its file")
}

/// The error of a read.
fn unread<'a>(
    file: &'a dyn File,
    path: &'a Path,
    apart: &'a Apart,
) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| match source.kind() {
        io::ErrorKind::UnexpectedEof => beyond(file, apart),
        _ => Error::io(path, "read a value", source),
    }
}

/// The value at this place; `None` if its file is gone. For callers without a database.
pub(crate) fn read(vfs: &dyn Vfs, dir: &Path, apart: &Apart) -> Result<Option<Bytes>> {
    let path = file_path(dir, apart.file);
    match vfs.open(&path, false) {
        Ok(file) => read_value(&*file, &path, apart).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::open(&path, "open a value file", source)),
    }
}
