//! An open database's claim on its directory: the lock that keeps other processes and openings out,
//! and the mark that this process has a database open.
//!
//! Thread safety: any.

use crate::error::{Error, ErrorKind, Result};
use crate::fork::Resident;
use crate::sync::Mutex;
use evendb_storage::vfs::LockGuard;
use std::path::Path;

/// See the module.
#[derive(Debug)]
pub struct Claim {
    /// `None` for a reader in a place where no writer is possible.
    lock: Mutex<Option<Box<dyn LockGuard>>>,
    resident: Mutex<Option<Resident>>,
}

impl Claim {
    /// A claim by `lock`, if there is one.
    pub fn new(lock: Option<Box<dyn LockGuard>>) -> Claim {
        Claim {
            lock: Mutex::new(lock),
            resident: Mutex::new(None),
        }
    }

    /// Counts the database as open until the claim is given up.
    pub fn begin(&self, resident: Resident) {
        *self.resident.lock() = Some(resident);
    }

    /// Gives up the claim: others may open the database.
    pub fn give_up(&self) {
        drop(self.lock.lock().take());
        drop(self.resident.lock().take());
    }

    /// Whether the directory is still this database's. If the directory with the lock's file `path`
    /// was renamed, or the file was deleted where directories cannot be locked, other processes do
    /// not see the lock. Then all writes must stop.
    ///
    /// # Errors
    /// `Locked` if the directory is not this database's any more.
    pub fn check(&self, path: &Path) -> Result<()> {
        let lock = self.lock.lock();
        let Some(lock) = &*lock else { return Ok(()) };
        // If this is not known, writes go on: a failing disk shows in the next writes, and these
        // latch.
        if lock.still_held().unwrap_or(true) {
            return Ok(());
        }
        let message = "or its directory was deleted, moved or replaced: others may have opened the database, so all writes \
             stop; close it everywhere, and open it again";
        let message = format!("the lock file {} {message}", path.display());
        Err(Error::new(ErrorKind::Locked, message))
    }
}
