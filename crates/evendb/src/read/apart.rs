//! Values that lie apart, on their way to the caller: what a record has is exchanged for the value itself.
//!
//! Where it lies is found in one look at a view, and its file is read after that. In between a rewrite may have moved the
//! value, or the key was overwritten, and then the file may be gone. So whoever finds none asks for the key again: a file
//! goes only after what names it has gone from the view of now. A snapshot asks again, too: what it sees stays in the
//! tables, but perhaps with another place.
//!
//! Thread safety: any; no pin is held here. Not here: the files ([`crate::value_files`]).

use crate::engine::core::Core;
use crate::error::{Error, Result};
use crate::value::Value;
use evendb_storage::Error as StorageError;

/// So often in a row no file is there only if it was taken away: each time takes a checkpoint and a rewrite, or two.
const TRIES_MAX: usize = 100;

/// What `ask` answers, with its value read. It may be asked several times, each time of now.
#[inline]
pub(crate) fn in_place(
    core: &Core,
    mut ask: impl FnMut() -> Result<Option<Value>>,
) -> Result<Option<Value>> {
    match ask()? {
        Some(value) if value.is_apart() => read(core, value, ask),
        found => Ok(found),
    }
}

#[cold]
fn read(
    core: &Core,
    mut value: Value,
    mut ask: impl FnMut() -> Result<Option<Value>>,
) -> Result<Option<Value>> {
    let _inside = core.health.enter()?;
    let mut missing = 0;
    for _ in 0..TRIES_MAX {
        if let Some(apart) = value.place_apart() {
            if let Some(bytes) = core.value_files.read(&apart)? {
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

/// The error of a value whose file is not there.
#[cold]
pub(crate) fn gone(core: &Core, file: u64) -> Error {
    let path = core.value_files.path(file);
    StorageError::corruption(&path, 0, "the file of a value is missing").into()
}
