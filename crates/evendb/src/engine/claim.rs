//! An open database's claim on its directory: the lock that keeps other processes and openings out,
//! and the mark that this process has a database open.
//!
//! Thread safety: any.

use super::health::Health;
use crate::error::{Error, ErrorKind, Result};
use crate::files::LOCK;
use crate::fork::Resident;
use crate::sync::Mutex;
use evendb_storage::vfs::LockGuard;
use std::path::Path;

/// See the module.
pub(crate) struct Claim {
    /// `None` for a reader in a place where there can be no writer.
    lock: Mutex<Option<Box<dyn LockGuard>>>,
    resident: Mutex<Option<Resident>>,
}

impl Claim {
    /// A claim by `lock`, if there is one.
    pub(crate) fn new(lock: Option<Box<dyn LockGuard>>) -> Claim {
        Claim {
            lock: Mutex::new(lock),
            resident: Mutex::new(None),
        }
    }

    /// The database counts as open until the claim is given up.
    pub(crate) fn begin(&self, resident: Resident) {
        *self.resident.lock() = Some(resident);
    }

    /// Others may open the database.
    pub(crate) fn give_up(&self) {
        drop(self.lock.lock().take());
        drop(self.resident.lock().take());
    }

    /// Whether the directory is still this engine's. If the lock's file was deleted, other processes do
    /// not see the lock: then this stops all writes.
    pub(crate) fn check(&self, health: &Health, dir: &Path) -> Result<()> {
        let lock = self.lock.lock();
        let Some(lock) = &*lock else { return Ok(()) };
        // If it cannot be told, writes go on: a failing disk shows in the writes to come, and those
        // latch.
        let held = lock.still_held().unwrap_or(true);
        if !held {
            let message = "was deleted or replaced: others may have opened the database, so all writes stop; \
                 close it everywhere, and open it again";
            let message = format!("the lock file {} {message}", dir.join(LOCK).display());
            return Err(health.latch(Error::new(ErrorKind::Locked, message)));
        }
        Ok(())
    }
}
