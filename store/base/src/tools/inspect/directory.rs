//! The directory of a closed database, locked against writers while somebody looks into it.
//!
//! The lock is shared: readers do not exclude each other. Nothing is written, not even a lock file.

use super::finding::{Finding, FindingKind};
use crate::directory_lock::open_elsewhere;
use crate::error::{Error, ErrorKind, Result};
use crate::maker;
use evendb_storage::Error as StorageError;
use evendb_storage::vfs::{File, LockGuard, Vfs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOCK: &str = "LOCK";

/// See the module.
pub struct LockedDirectory {
    /// The files.
    pub vfs: Arc<dyn Vfs>,
    /// The absolute path.
    pub dir: PathBuf,
    /// The names in the directory, in order.
    pub names: Vec<String>,
    lock: Option<Box<dyn LockGuard>>,
}

impl LockedDirectory {
    /// Takes the lock of the database in `path`. `shows` says whether a name shows that there is a
    /// database.
    ///
    /// # Errors
    /// `NotFound` if the directory has no such name; `Locked`, `Io`, and `Unsupported` for a
    /// database of the second engine.
    pub fn open(
        vfs: Arc<dyn Vfs>,
        path: &Path,
        shows: &dyn Fn(&str) -> bool,
    ) -> Result<LockedDirectory> {
        let dir = std::path::absolute(path).map_err(StorageError::at(path, "resolve the path"))?;
        let exists = vfs.exists(&dir);
        if !exists.map_err(StorageError::at(&dir, "look for the database"))? {
            return Err(no_database(&dir));
        }
        maker::check(&*vfs, &dir)?;
        let lock_path = dir.join(LOCK);
        let lock = match vfs.lock(&lock_path, true) {
            Ok(lock) => Some(lock),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let holder = vfs.lock_holder(&lock_path);
                return Err(open_elsewhere(&dir, holder, std::process::id()));
            }
            Err(error) => {
                return Err(StorageError::io(&lock_path, "lock the database", error).into());
            }
        };
        let names = vfs.list(&dir);
        let names = names.map_err(StorageError::at(&dir, "list the directory"))?;
        let mut names: Vec<String> = names
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .collect();
        names.sort_unstable();
        match names.iter().any(|name| shows(name)) {
            true => Ok(LockedDirectory {
                vfs,
                dir,
                names,
                lock,
            }),
            false => Err(no_database(&dir)),
        }
    }

    /// The finding of a missing lock file.
    pub fn without_lock(&self) -> Option<Finding> {
        let what = "missing: nothing keeps a writer out meanwhile";
        let missing = || Finding::warning(FindingKind::Lock, LOCK, None, what);
        self.lock.is_none().then(missing)
    }

    /// The error for a directory that turns out to have no database.
    pub fn no_database(&self) -> Error {
        no_database(&self.dir)
    }

    /// Whether the directory has a file of this name.
    pub fn has(&self, name: &str) -> bool {
        let found = self
            .names
            .binary_search_by(|known| known.as_str().cmp(name));
        found.is_ok()
    }

    /// Opens a file and returns it with its length. If it cannot be read, the error is a message.
    pub fn open_file(&self, path: &Path) -> std::result::Result<(Arc<dyn File>, u64), String> {
        let opened = self.vfs.open(path, false);
        let opened = opened.and_then(|file| file.len().map(|len| (file, len)));
        opened.map_err(|error| format!("cannot be read: {error}"))
    }
}

/// The error for a directory without a database.
fn no_database(dir: &Path) -> Error {
    let message = format!("there is no database in {}", dir.display());
    Error::new(ErrorKind::NotFound, message)
}
