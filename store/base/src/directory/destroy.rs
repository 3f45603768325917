//! Removing a database: the files that are its own, under its lock, and no other file.
//!
//! Order: `CURRENT` is removed first, durably, so that a crash in the middle never leaves a
//! database that opens and lacks something. An opening refuses the files that such a crash leaves,
//! and another call removes them. `LOCK` is removed last, while the lock is held. The directory is
//! removed too if nothing else is in it. Before the first removal, each file is checked to be a
//! regular file. A directory that is a link is refused.
//!
//! Not here: which files belong to a database.

use crate::directory_lock::lock;
use crate::error::{Error, ErrorKind, Result};
use crate::maker::{self, CURRENT};
use crate::placement;
use evendb_storage::Error as StorageError;
use evendb_storage::vfs::Vfs;
use std::io;
use std::path::Path;

const LOCK: &str = "LOCK";

/// Removes the database in `dir`. `is_own` knows its files by their names. The engine's own
/// `destroy` documents what a caller gets.
pub fn destroy(vfs: &dyn Vfs, dir: &Path, is_own: &dyn Fn(&str) -> bool) -> Result<()> {
    refuse_link(vfs, dir)?;
    maker::check(vfs, dir)?;
    placement::refuse_writing(vfs, dir)?;
    if own_names(vfs, dir, is_own)?.is_empty() {
        return remove_if_empty(vfs, dir);
    }
    let guard = lock(vfs, dir, LOCK, false)?;
    // Checked again, now that nobody else can open it.
    maker::check(vfs, dir)?;
    let names = own_names(vfs, dir, is_own)?;
    placement::refuse_foreign(vfs, dir, is_own)?;
    if names.iter().any(|name| name == CURRENT) {
        remove(vfs, dir, CURRENT)?;
        vfs.sync_dir(dir)
            .map_err(|error| failed(dir, "sync the directory", error))?;
    }
    for name in names
        .iter()
        .filter(|name| *name != CURRENT && *name != LOCK)
    {
        remove(vfs, dir, name)?;
    }
    remove(vfs, dir, LOCK)?;
    drop(guard);
    remove_if_empty(vfs, dir)
}

/// Refuses a link to a directory: the directory may belong to anybody.
fn refuse_link(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    let path = std::path::absolute(dir).map_err(|error| failed(dir, "resolve the path", error))?;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    match placement::is_link(vfs, parent, name)? {
        false => Ok(()),
        true => {
            let dir = dir.display();
            let message =
                format!("{dir} is a symbolic link: nothing was removed; name the directory itself");
            Err(Error::new(ErrorKind::InvalidArgument, message))
        }
    }
}

fn failed(path: &Path, what: &str, source: io::Error) -> Error {
    StorageError::io(path, what, source).into()
}

/// The database's files in `dir`. Refuses a directory in which another store has files: several
/// stores use some of the names, and `CURRENT` tells to which store they belong. Without `CURRENT`
/// they belong to a database only if no other file is there.
fn own_names(vfs: &dyn Vfs, dir: &Path, is_own: &dyn Fn(&str) -> bool) -> Result<Vec<String>> {
    let names = match vfs.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(|error| failed(dir, "list the directory", error))?,
    };
    let all = names.len();
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    let own: Vec<String> = names.filter(|name| is_own(name)).collect();
    let is_evendbs = || maker::has_family(vfs, dir);
    let why = match own.iter().any(|name| name == CURRENT) {
        true if is_evendbs().map_err(|error| failed(dir, "read CURRENT in", error))? => {
            return Ok(own);
        }
        true => "its CURRENT is of another store",
        false if own.is_empty() || own.len() == all => return Ok(own),
        false => "it has no CURRENT, and holds other files",
    };
    let message = format!(
        "{} is no EvenDB database: {why}; nothing was removed",
        dir.display()
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}

fn remove(vfs: &dyn Vfs, dir: &Path, name: &str) -> Result<()> {
    let path = dir.join(name);
    vfs.remove(&path)
        .map_err(|error| failed(&path, "remove a file", error))
}

fn remove_if_empty(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    use io::ErrorKind as Io;
    match vfs.remove_dir(dir) {
        Err(error) if !matches!(error.kind(), Io::DirectoryNotEmpty | Io::NotFound) => {
            Err(failed(dir, "remove the directory", error))
        }
        _ => Ok(()),
    }
}
