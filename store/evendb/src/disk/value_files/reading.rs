//! One value of a value file, read and verified, also without a database.
//!
//! Thread safety: any. Not here: which files are open ([`super::ValueFiles`]).

use super::{Bytes, file_path, sealed};
use evendb_storage::heap;
use evendb_storage::vfs::{File, Vfs, read_exact_at};
use evendb_storage::{Apart, Error, Result};
use std::path::Path;

/// Longer values are verified before memory is taken for them.
pub(super) const LONG_BYTES: u32 = 16 << 20;

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
    let is_long = apart.len >= LONG_BYTES;
    // An unverified length must not make the memory run out.
    if is_long {
        let len = file
            .len()
            .map_err(|source| Error::io(path, "look at a value file", source))?;
        if len < apart.offset.saturating_add(u64::from(apart.len)) {
            return Err(damaged("a value lies beyond the end of its file"));
        }
    }
    heap::expect(apart.len as usize);
    let mut value: Bytes = std::iter::repeat_n(0, apart.len as usize).collect();
    let bytes = Bytes::get_mut(&mut value).expect("nobody else has it yet");
    read_exact_at(file, bytes, apart.offset).map_err(|source| match source.kind() {
        std::io::ErrorKind::UnexpectedEof => damaged("a value lies beyond the end of its file"),
        _ => Error::io(path, "read a value", source),
    })?;
    match apart.verifies(&value) {
        true => Ok(value),
        false => Err(damaged("a value does not verify")),
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
