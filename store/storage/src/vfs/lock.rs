//! The lock of a directory: `flock` on its lock file, and on the directory itself if the system
//! can.
//!
//! Thread safety: the system's.

use super::LockGuard;
use super::regular::{leads_to, open_directory, open_regular, signed_by};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The number of attempts to take a lock if the lock file is replaced meanwhile.
const LOCK_ATTEMPTS: usize = 8;

/// Locks as [`super::Vfs::lock`] says.
pub(super) fn lock(path: &Path, shared: bool) -> io::Result<Box<dyn LockGuard>> {
    for _ in 0..LOCK_ATTEMPTS {
        let directory = lock_directory(path, shared)?;
        let file = open_lock_file(path, shared)?;
        try_lock(&file, shared)?;
        let guard = OsLockGuard {
            file,
            directory,
            path: path.to_owned(),
            owner_process: std::process::id(),
            shared,
        };
        if guard.still_held()? {
            guard.sign();
            return Ok(Box::new(guard));
        }
        // Between opening and locking, the name went to another file: this lock excludes nobody who
        // comes later.
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// A reader must not change a read-only directory, so it only opens the existing file.
pub(super) fn open_lock_file(path: &Path, shared: bool) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true);
    if !shared {
        options.write(true).create(true).truncate(false);
    }
    open_regular(&mut options, path)
}

fn try_lock(file: &fs::File, shared: bool) -> io::Result<()> {
    let locked = match shared {
        true => file.try_lock_shared(),
        false => file.try_lock(),
    };
    locked.map_err(io::Error::from)
}

/// Locks the directory of the lock file `path`. Somebody may remove the lock file, but not a
/// directory with files in it. `None` if the directory cannot be locked (network file systems) or
/// cannot be read.
fn lock_directory(path: &Path, shared: bool) -> io::Result<Option<fs::File>> {
    let Some(Ok(directory)) = path.parent().map(open_directory) else {
        return Ok(None);
    };
    match try_lock(&directory, shared) {
        Ok(()) => Ok(Some(directory)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
        Err(_) => Ok(None),
    }
}

/// An advisory lock: `flock`, which belongs to the open file description, so that a second handle
/// of this process is refused like another process.
#[derive(Debug)]
struct OsLockGuard {
    file: fs::File,
    /// The directory, locked too, if the system can.
    directory: Option<fs::File>,
    path: PathBuf,
    owner_process: u32,
    shared: bool,
}

impl OsLockGuard {
    /// Writes the owner into the file. It is for messages only: a full or failing disk is no reason
    /// to refuse the lock. A file with other contents is locked as it is.
    fn sign(&self) {
        if !self.shared && signed_by(&self.file).is_ok() {
            let _ = self.file.set_len(0);
            let _ = self
                .file
                .write_all_at(format!("{}\n", self.owner_process).as_bytes(), 0);
        }
    }
}

impl LockGuard for OsLockGuard {
    fn still_held(&self) -> io::Result<bool> {
        // The directory's lock refuses a process that has replaced the lock file.
        match (&self.directory, self.path.parent()) {
            (Some(locked), Some(directory)) => leads_to(directory, locked),
            _ => leads_to(&self.path, &self.file),
        }
    }
}

impl Drop for OsLockGuard {
    fn drop(&mut self) {
        // A forked child shares the description: closing ours alone would leave the lock with the
        // child, and a child dropping its copy must not unlock ours.
        if std::process::id() == self.owner_process {
            if !self.shared && signed_by(&self.file).is_ok() {
                // Otherwise an opening that is refused because of readers would be shown a dead
                // owner.
                let _ = self.file.set_len(0);
            }
            // If this fails, closing the file, which follows, releases the lock.
            let _ = self.file.unlock();
            if let Some(directory) = &self.directory {
                let _ = directory.unlock();
            }
        }
    }
}
