//! Values that lie apart, on their way to the caller: the place in a record is exchanged for the
//! value itself.
//!
//! One look at a view finds the place, and the file is read after that. In between, a rewrite may
//! have moved the value, or a write may have replaced it, and then the file may be gone. A reader
//! that finds no file asks for the key again: a file is removed only after the current view has
//! lost the record that names it. A snapshot asks again, too: the record that it sees stays in the
//! tables, but perhaps with another place.
//!
//! Thread safety: any thread; no pin is held here. Not here: the files ([`crate::value_files`]).

use crate::engine::core::Core;
use crate::error::{Error, Result};
use crate::value::Value;
use crate::value_files::Bytes;
use evendb_storage::{Apart, Error as StorageError};

/// A file that is missing at this many tries in a row is really lost: a move between two tries
/// takes a checkpoint and a rewrite, or two.
const TRIES_MAX: usize = 100;

/// The answer of `ask`, with its value read. `ask` may be called several times, and looks at the
/// current state each time.
#[inline]
pub(crate) fn in_place(
    core: &Core,
    ask: impl FnMut() -> Result<Option<Value>>,
) -> Result<Option<Value>> {
    in_place_by(core, ask, |place| Ok(core.value_files.read(place)?))
}

/// Like [`in_place`]; `read` reads what is wanted of a value at a place, and gives nothing if its
/// file is gone.
#[inline]
pub(crate) fn in_place_by(
    core: &Core,
    mut ask: impl FnMut() -> Result<Option<Value>>,
    read: impl FnMut(&Apart) -> Result<Option<Bytes>>,
) -> Result<Option<Value>> {
    match ask()? {
        Some(value) if value.is_apart() => read_by(core, value, ask, read),
        found => Ok(found),
    }
}

#[cold]
fn read_by(
    core: &Core,
    mut value: Value,
    mut ask: impl FnMut() -> Result<Option<Value>>,
    mut read: impl FnMut(&Apart) -> Result<Option<Bytes>>,
) -> Result<Option<Value>> {
    let _inside = core.health.enter()?;
    let mut missing = 0;
    for _ in 0..TRIES_MAX {
        if let Some(apart) = value.place_apart() {
            if let Some(bytes) = read(&apart)? {
                return Ok(Some(Value::of_bytes(bytes)));
            }
            missing = apart.file;
        }
        value = match ask()? {
            Some(value) if value.is_apart() => value,
            found => return Ok(found),
        };
    }
    Err(gone(core, missing))
}

/// The error for a value whose file is missing.
#[cold]
pub(crate) fn gone(core: &Core, file: u64) -> Error {
    let path = core.value_files.path(file);
    StorageError::corruption(&path, 0, "the file of a value is missing").into()
}
