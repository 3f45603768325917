//! Room kept back for a full disk: what gives space back needs some first.
//!
//! A delete writes tombstones, their run, and a smaller table before the old one can go. So a file
//! `BALLAST` of reserved blocks, never written, lies beside the others.
//!
//! ```text
//! not laid down --(checkpoint, upkeep)--> whole --(full disk: deletes, jobs, edits)--> owed
//!                                           ^------------(room for it again)------------|
//! ```
//!
//! When the disk is full, deletes, checkpoints, reorganisation, edits that drop something, and
//! opening have it removed and try again; puts do not. While it is owed, a put that needs new room
//! lays it down again first, or is refused: what it was given up for is not taken by puts.
//!
//! Nothing rests on it: a missing, short or damaged ballast is made anew when there is room, and
//! an error other than a full disk is as if it were not needed. Its name is not synced.
//!
//! Thread safety: any. The mutex is a leaf, held over the file operations, which are short.
//! Not here: other processes may take the blocks in the moment in which they are free.

use crate::engine::Engine;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex};
use evendb_storage::vfs::Vfs;
use evendb_storage::{Error, ErrorKind, Result};
use std::io;
use std::path::{Path, PathBuf};

/// The file's name.
pub(crate) const BALLAST: &str = "BALLAST";

const BYTES_MIN: u64 = 64 << 10;
const BYTES_MAX: u64 = 32 << 20;

/// The reserved room of one database.
pub(crate) struct Ballast {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    bytes: u64,
    /// All of it is reserved. Both marks are written under the mutex, and read as hints.
    whole: AtomicBool,
    /// It was given up, or there was no room for it.
    owed: AtomicBool,
    changing: Mutex<()>,
}

impl Ballast {
    /// Enough for the rewrite of the largest chunk into two, and for runs of tombstones.
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        chunk_bytes: u64,
        delta_bytes: u64,
    ) -> Ballast {
        let wanted = chunk_bytes
            .saturating_mul(2)
            .saturating_add(delta_bytes / 8);
        Ballast {
            vfs,
            path: dir.join(BALLAST),
            bytes: wanted.clamp(BYTES_MIN, BYTES_MAX),
            whole: AtomicBool::new(false),
            owed: AtomicBool::new(false),
            changing: Mutex::new(()),
        }
    }

    /// Whether there was no room for it when it was last looked at.
    pub(crate) fn is_owed(&self) -> bool {
        self.owed.load(Ordering::Relaxed)
    }

    /// Lays it down if it is not there. The error is a full disk.
    pub(crate) fn restore(&self) -> Result<()> {
        if self.whole.load(Ordering::Relaxed) {
            return Ok(());
        }
        let _one_at_a_time = self.changing.lock();
        if self.whole.load(Ordering::Relaxed) {
            return Ok(());
        }
        let laid = self
            .lay_down()
            .map_err(|source| Error::io(&self.path, "keep room back for deletes", source));
        let full = laid
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::NoSpace);
        self.whole.store(laid.is_ok(), Ordering::Relaxed);
        self.owed.store(full, Ordering::Relaxed);
        if full { laid } else { Ok(()) }
    }

    fn lay_down(&self) -> io::Result<()> {
        let file = match self.vfs.open(&self.path, true) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.vfs.create(&self.path)?,
            opened => opened?,
        };
        let reserved = file.preallocate(0, self.bytes);
        if reserved.is_err() {
            // A part of it is of no use, and room to others.
            drop(file);
            let _ = self.vfs.remove(&self.path);
        }
        reserved
    }

    /// Gives its room back to the disk, which is full. Whether there was any.
    pub(crate) fn release(&self) -> bool {
        let _one_at_a_time = self.changing.lock();
        self.whole.store(false, Ordering::Relaxed);
        self.owed.store(true, Ordering::Relaxed);
        self.vfs.remove(&self.path).is_ok()
    }
}

impl Engine {
    /// What must work on a full disk: without room it is tried again without the ballast.
    pub(crate) fn with_ballast<T>(
        &self,
        attempt: impl Fn() -> crate::error::Result<T>,
    ) -> crate::error::Result<T> {
        let first = attempt();
        let full = first
            .as_ref()
            .is_err_and(|error| error.kind() == crate::error::ErrorKind::NoSpace);
        if full && self.ballast.release() {
            return attempt();
        }
        first
    }

    /// Refuses what may not live on the ballast, as long as the disk has no room for that.
    pub(crate) fn check_ballast(&self) -> crate::error::Result<()> {
        match self.ballast.is_owed() {
            true => Ok(self.ballast.restore()?),
            false => Ok(()),
        }
    }

    /// Lays the ballast down where there is room. When room has come back, jobs that found none
    /// are looked at again.
    pub(crate) fn tend_ballast(&self) {
        let was_owed = self.ballast.is_owed();
        if self.failure().is_none() && self.ballast.restore().is_ok() && was_owed {
            for (_, chunk) in self.chunks() {
                self.work.push_maintenance(&chunk);
            }
        }
    }
}
