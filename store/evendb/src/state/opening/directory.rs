//! A directory without `CURRENT`: whether a database may be created there, and what the directory
//! is if not.
//!
//! Nothing is written here; opening asks before it takes the lock, whose file it would have to
//! make.
//!
//! | content | opening for writing, with `create_if_missing` | otherwise |
//! |---|---|---|
//! | nothing, or no directory | creates | `NotFound` |
//! | remains of a creation that was cut short, never data | creates | `NotFound` |
//! | the mark of a copy that was not finished | `NotFound` | `NotFound` |
//! | data of a database | `Corruption`: `CURRENT` is missing | the same |
//! | files that belong to no database | `AlreadyExists` | `NotFound` |
//!
//! Names that begin with a dot, and `lost+found`, are no obstacle: file systems, desktops and
//! version control put them into directories that their users call empty, and a database has no
//! such names.

use crate::error::{Error, ErrorKind, Result};
use crate::files::{
    BALLAST, COMMIT_LOG, CONTAINER, CURRENT, CURRENT_UNFINISHED, HEAT, KEYS, KEYS_UNFINISHED, LOCK,
    STATS, UNFINISHED_COPY, container_number, is_own_name,
};
use crate::kept_changes;
use evendb_storage::Error as StorageError;
use evendb_storage::vfs::Vfs;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

/// The largest number of foreign files that the refusal names.
const NAMED_MAX: usize = 3;

/// The purpose of an opening.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// To be created.
    Create,
    /// To be written, if it exists.
    Write,
    /// To be read.
    Read,
}

/// As [`check_vacant`], without the directory's lock: `false` if there is a database by now. What
/// was refused may be the files of an opening that creates one at this moment; `CURRENT` is the
/// last of them.
pub(crate) fn is_vacant(vfs: &dyn Vfs, dir: &Path, wish: Wish) -> Result<bool> {
    let failed = |source| Error::from(StorageError::io(dir, "look for the database", source));
    match check_vacant(vfs, dir, wish) {
        Err(_) if vfs.exists(&dir.join(CURRENT)).map_err(failed)? => Ok(false),
        checked => checked.map(|()| true),
    }
}

/// Whether a database may be created in `dir`, which has no `CURRENT`.
pub(crate) fn check_vacant(vfs: &dyn Vfs, dir: &Path, wish: Wish) -> Result<()> {
    let failed = |source| Error::from(StorageError::io(dir, "list the directory", source));
    let names = match vfs.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        names => names.map_err(failed)?,
    };
    if names.iter().any(|name| name == UNFINISHED_COPY) {
        return Err(unfinished_copy(dir));
    }
    if let Some(what) = data_of_a_database(vfs, dir, &names)? {
        let detail = format!("CURRENT is missing, but {what}");
        return Err(StorageError::corruption(&dir.join(CURRENT), 0, detail).into());
    }
    let why = match wish {
        Wish::Create => return refuse_foreign(vfs, dir, &names),
        Wish::Read => "a read-only opening creates none",
        Wish::Write => "create_if_missing is off",
    };
    let message = format!("there is no database in {}, and {why}", dir.display());
    Err(Error::new(ErrorKind::NotFound, message))
}

/// The refusal of a directory in which a copy was begun and not finished.
fn unfinished_copy(dir: &Path) -> Error {
    let message = format!(
        "there is no database in {}: a checkpoint into it was not finished; delete the directory \
         and make the checkpoint again",
        dir.display()
    );
    Error::new(ErrorKind::NotFound, message)
}

/// The file that shows that there was a database. A creation that was cut short leaves only logs
/// full of zeros and the first manifest.
fn data_of_a_database(
    vfs: &dyn Vfs,
    dir: &Path,
    names: &[OsString],
) -> Result<Option<&'static str>> {
    for name in names.iter().filter_map(|name| name.to_str()) {
        if kept_changes::file_id(name).is_some() {
            return Ok(Some("there are changes of a database that were kept"));
        }
        if !is_own_name(name) && name != CONTAINER && name != COMMIT_LOG {
            continue;
        }
        if [".sst", ".val", ".values"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            return Ok(Some("there are files of a database"));
        }
        if container_number(name).is_some_and(|number| number > 0) {
            return Ok(Some("there are logs of a database's chunks"));
        }
        if name.starts_with("MANIFEST-") && name != "MANIFEST-000001" {
            return Ok(Some("there is a manifest that only a database in use has"));
        }
        if name == CONTAINER && holds_data(vfs, &dir.join(name))? {
            return Ok(Some("the chunks' logs hold data"));
        }
        if name == COMMIT_LOG && holds_data(vfs, &dir.join(name))? {
            return Ok(Some("the commit log holds data"));
        }
    }
    Ok(None)
}

/// Whether any of the file's first bytes is not zero: preallocated room is zero, data is not.
fn holds_data(vfs: &dyn Vfs, path: &Path) -> Result<bool> {
    let mut first = [0; 512];
    let first = first_bytes(vfs, path, &mut first)?;
    Ok(first.iter().any(|&byte| byte != 0))
}

fn first_bytes<'a>(vfs: &dyn Vfs, path: &Path, to: &'a mut [u8]) -> Result<&'a [u8]> {
    let read = vfs.open(path, false).and_then(|file| file.read_at(to, 0));
    let read = read.map_err(|source| StorageError::io(path, "read a leftover", source))?;
    Ok(&to[..read])
}

/// Whether a file whose name a creation would remove as a leftover has bytes that no creation
/// writes. In a creation that was cut short, bytes that were not written yet are missing, or zeros.
fn is_foreign_inside(vfs: &dyn Vfs, dir: &Path, name: &str) -> Result<bool> {
    let begin: &[u8] = match name {
        CURRENT_UNFINISHED => b"EVENCUR",
        KEYS | KEYS_UNFINISHED => b"EVENKEY",
        _ if name.starts_with("MANIFEST-") => b"EVENFLOG",
        _ => return Ok(false),
    };
    let mut first = [0; 8];
    let first = first_bytes(vfs, &dir.join(name), &mut first[..begin.len()])?;
    Ok(!begin.starts_with(first) && first.iter().any(|&byte| byte != 0))
}

fn refuse_foreign(vfs: &dyn Vfs, dir: &Path, names: &[OsString]) -> Result<()> {
    let mut foreign: Vec<&OsStr> = Vec::new();
    for name in names {
        let inside = |name| is_foreign_inside(vfs, dir, name);
        if is_foreign(name) || name.to_str().map(inside).transpose()? == Some(true) {
            foreign.push(name);
        }
    }
    if foreign.is_empty() {
        return Ok(());
    }
    foreign.sort_unstable();
    let more = match foreign.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<String> = foreign
        .iter()
        .take(NAMED_MAX)
        .map(|name| format!("{:?}", name.to_string_lossy()))
        .collect();
    let message = format!(
        "{} is no database and holds other files ({}{more}): no database is created among them; \
         give a directory that is empty or not there",
        dir.display(),
        named.join(", ")
    );
    Err(Error::new(ErrorKind::AlreadyExists, message))
}

fn is_foreign(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return true;
    };
    let known = [
        LOCK,
        COMMIT_LOG,
        CONTAINER,
        BALLAST,
        STATS,
        HEAT,
        KEYS,
        "lost+found",
    ];
    !(name.starts_with('.')
        || known.contains(&name)
        || is_own_name(name)
        || kept_changes::file_id(name).is_some())
}
