//! The lock of a database's directory: one writer, or readers.
//!
//! It is a lock of the system on a file in the directory, and goes with its owner. Thread safety: the system's.

use crate::error::{Error, ErrorKind, Result};
use evendb_storage::Error as StorageError;
use evendb_storage::vfs::{LockGuard, LockHolder, Vfs};
use std::path::Path;

/// Locks the directory by its file `name`. A reader of a directory that has no lock file, and in which none can be
/// made (a read-only medium), does without: nobody can write there.
pub fn lock(
    vfs: &dyn Vfs,
    dir: &Path,
    name: &str,
    shared: bool,
) -> Result<Option<Box<dyn LockGuard>>> {
    use std::io::ErrorKind as Io;
    let path = dir.join(name);
    let mut locked = vfs.lock(&path, shared);
    if shared
        && locked
            .as_ref()
            .is_err_and(|error| error.kind() == Io::NotFound)
    {
        locked = match vfs.lock(&path, false) {
            Ok(made) => {
                drop(made);
                vfs.lock(&path, true)
            }
            Err(error) if matches!(error.kind(), Io::ReadOnlyFilesystem | Io::PermissionDenied) => {
                return Ok(None);
            }
            Err(error) => Err(error),
        };
    }
    match locked {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.kind() == Io::WouldBlock => Err(open_elsewhere(
            dir,
            vfs.lock_holder(&path),
            std::process::id(),
        )),
        Err(error) => Err(StorageError::io(&path, "lock the database", error).into()),
    }
}

/// The refusal of a second opener: who the first is, as far as is known, and what to do.
pub fn open_elsewhere(dir: &Path, holder: LockHolder, own: u32) -> Error {
    let who = match holder.process {
        _ if holder.shared => {
            "for reading elsewhere (readers leave no name); close them before writing".to_owned()
        }
        Some(id) if id == own => {
            format!("in this process ({id}) already; share that handle, or close it first")
        }
        Some(id) if holder.process_seen => {
            format!("in process {id}; end that process, or have it close the database")
        }
        Some(id) => format!(
            "elsewhere: its LOCK file names process {id}, which cannot be seen from here (another \
             container or machine?)"
        ),
        None => "elsewhere, by a process that its LOCK file does not name".to_owned(),
    };
    let message = format!("the database in {} is open {who}", dir.display());
    Error::new(ErrorKind::Locked, message)
}
