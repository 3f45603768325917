//! Room kept back for a full disk: what gives space back needs some first.
//!
//! A delete writes tombstones, their run, and a smaller table before the old one can go. So a file
//! `BALLAST` of reserved blocks, never written, lies beside the others.
//!
//! ```text
//! not laid down --(checkpoint, upkeep)--> | for jobs | for deletes |       whole
//!                     ^                   | for jobs |                     owed: deletes took theirs
//!                     '-(room for it again)- nothing                       owed
//! ```
//!
//! When the disk is full, deletes have it cut and try again; checkpoints, reorganisation, edits that
//! drop something, and opening have all of it removed. Puts get nothing. While any is owed, puts may
//! use what the container has free beyond the deletes' part; if they need new room, it is laid down
//! again first, or they are refused. Deletes that need new room lay the jobs' part down first.
//!
//! It is as large as the data asks for: jobs need no more than twice the largest chunk, which has no more
//! than there is, and no more can be deleted than there is. So each part follows the bytes in tables and
//! in deltas, the **covered** ones, up to its limit. Invariant: what puts may take of the container
//! without asking is covered (`disk_room::note_disk_room`); before more is promised to them the ballast
//! grows, or they are refused.
//!
//! Nothing rests on it: a missing, short or damaged ballast is made anew when there is room, and
//! an error other than a full disk is as if it were not needed. Its name is not synced.
//!
//! Thread safety: any. The mutex is a leaf, held over the file operations, which are short.
//! Not here: other processes may take the blocks in the moment in which they are free.

use crate::files::BALLAST;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex};
use evendb_storage::vfs::Vfs;
use evendb_storage::{Error, ErrorKind, Result};
use std::io;
use std::path::{Path, PathBuf};

/// Least and most of each part.
const PART_BYTES_MIN: u64 = 256 << 10;
const PART_BYTES_MAX: u64 = 16 << 20;
/// The least of all of it.
pub(crate) const BYTES_MIN: u64 = 2 * PART_BYTES_MIN;

/// Which work may use the room kept back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Room for the runs of tombstones.
    Deletes,
    /// Whatever frees space or must not fail: all of it.
    Jobs,
}

/// The reserved room of one database.
pub(crate) struct Ballast {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    /// Greatest size of a chunk, and an eighth of the delta memory: more is never needed.
    chunk_bytes: u64,
    tombstone_bytes: u64,
    /// Bytes of data for which it is large enough. Moves under the mutex, read as a hint.
    covered: AtomicU64,
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
        Ballast {
            vfs,
            path: dir.join(BALLAST),
            chunk_bytes,
            tombstone_bytes: delta_bytes / 8,
            covered: AtomicU64::new(0),
            whole: AtomicBool::new(false),
            owed: AtomicBool::new(false),
            changing: Mutex::new(()),
        }
    }

    /// What jobs need, and the runs of tombstones, where there are `data` bytes in tables and on the way
    /// to them: no chunk has more, and no more can be deleted.
    fn parts_for(&self, data: u64) -> (u64, u64) {
        let part = |bytes: u64| bytes.clamp(PART_BYTES_MIN, PART_BYTES_MAX);
        (
            part(self.chunk_bytes.min(data).saturating_mul(2)),
            part(self.tombstone_bytes.min(data)),
        )
    }

    fn jobs_bytes(&self) -> u64 {
        self.parts_for(self.covered()).0
    }

    /// So much data makes it as large as it gets.
    pub(crate) fn data_bytes_max(&self) -> u64 {
        self.chunk_bytes
            .max(self.tombstone_bytes)
            .min(PART_BYTES_MAX)
    }

    /// Whether all of it is reserved.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Relaxed)
    }

    /// Bytes of data for which it is large enough.
    pub(crate) fn covered(&self) -> u64 {
        self.covered.load(Ordering::Relaxed)
    }

    /// Whether it is large enough however much data there is.
    pub(crate) fn covers_any(&self) -> bool {
        self.parts_for(self.covered()) == self.parts_for(u64::MAX)
    }

    /// There is so much data when the database is opened.
    pub(crate) fn begin_with(&self, data: u64) {
        self.covered.store(data, Ordering::Relaxed);
    }

    /// Makes it large enough for `data` bytes, before they come to be. The error is a full disk, on which
    /// it stays as it is.
    pub(crate) fn cover(&self, data: u64) -> Result<()> {
        let _one_at_a_time = self.changing.lock();
        let (jobs, deletes) = self.parts_for(data);
        let covered = self.covered();
        if data <= covered {
            return Ok(());
        }
        // What is not laid down yet is laid down as a whole.
        if (jobs, deletes) != self.parts_for(covered) && self.whole.load(Ordering::Relaxed) {
            let full = |error: &io::Error| {
                matches!(
                    error.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                )
            };
            match self.lay(jobs + deletes) {
                // As when it is laid down: any other failure is as if it were not needed.
                Err(error) if full(&error) => {
                    return Err(Error::io(&self.path, "keep room back for deletes", error));
                }
                _ => {}
            }
        }
        self.covered.store(data, Ordering::Relaxed);
        Ok(())
    }

    /// There are `data` bytes, whatever was expected: it is whole again when it is laid down for those.
    /// Of less data only what is owed takes note: puts look again before they rely on it.
    pub(crate) fn expect(&self, data: u64) {
        let _one_at_a_time = self.changing.lock();
        let covered = self.covered();
        if data > covered && self.parts_for(data) != self.parts_for(covered) {
            self.whole.store(false, Ordering::Relaxed);
        }
        if data > covered || self.is_owed() {
            self.covered.store(data, Ordering::Relaxed);
        }
    }

    /// Gives back what it has more than `data` bytes need.
    pub(crate) fn shrink_to(&self, data: u64) {
        let _one_at_a_time = self.changing.lock();
        let (jobs, deletes) = self.parts_for(data);
        let shorten = || {
            let file = self.vfs.open(&self.path, true)?;
            match file.len()? > jobs + deletes {
                true => file.set_len(jobs + deletes),
                false => Ok(()),
            }
        };
        if self.whole.load(Ordering::Relaxed) && shorten().is_ok() {
            self.covered.store(data, Ordering::Relaxed);
        }
    }

    /// Whether there was no room for it when it was last looked at.
    pub(crate) fn is_owed(&self) -> bool {
        self.owed.load(Ordering::Relaxed)
    }

    /// Lays it down if it is not there. It is not whole either without `edits`: room of the manifest's
    /// for those that give room back. The error is a full disk.
    pub(crate) fn restore(&self, edits: Result<()>) -> Result<()> {
        if edits.is_ok() && self.whole.load(Ordering::Relaxed) {
            return Ok(());
        }
        let _one_at_a_time = self.changing.lock();
        if edits.is_ok() && self.whole.load(Ordering::Relaxed) {
            return Ok(());
        }
        let own = self
            .lay(self.jobs_bytes() + self.deletes_bytes())
            .map_err(|source| Error::io(&self.path, "keep room back for deletes", source));
        let own_laid = own.is_ok();
        let laid = edits.and(own);
        let full = laid
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::NoSpace);
        self.whole.store(laid.is_ok(), Ordering::Relaxed);
        self.owed.store(full, Ordering::Relaxed);
        if !full {
            return Ok(());
        }
        if own_laid {
            return laid;
        }
        // Better a part than nothing, or jobs that need no help would take all there is.
        let parts = [1, 2, 4, 8].map(|part| self.jobs_bytes() / part);
        let _ = parts.iter().find(|bytes| self.lay(**bytes).is_ok());
        laid
    }

    /// Lays down what jobs need, before anybody else takes room that jobs have freed.
    pub(crate) fn keep_for_jobs(&self) -> Result<()> {
        if !self.is_owed() {
            return Ok(());
        }
        let _one_at_a_time = self.changing.lock();
        self.lay(self.jobs_bytes())
            .map_err(|source| Error::io(&self.path, "keep room back for deletes", source))
    }

    /// Room that deletes should find in the container, where the ballast is not whole.
    pub(crate) fn deletes_bytes(&self) -> u64 {
        self.parts_for(self.covered()).1
    }

    fn lay(&self, bytes: u64) -> io::Result<()> {
        let file = match self.vfs.open(&self.path, true) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.vfs.create(&self.path)?,
            opened => opened?,
        };
        let before = file.len()?;
        let reserved = file.preallocate(0, bytes);
        if reserved.is_err() {
            // What there was stays: were it free for a moment, others would take it, again and again.
            match before {
                0 => drop(self.vfs.remove(&self.path)),
                _ => drop(file.set_len(before)),
            }
        }
        reserved
    }

    /// Gives room back to the disk, which is full. Whether there was any.
    pub(crate) fn release(&self, need: Need) -> bool {
        let _one_at_a_time = self.changing.lock();
        self.whole.store(false, Ordering::Relaxed);
        self.owed.store(true, Ordering::Relaxed);
        match need {
            Need::Deletes => self.cut().unwrap_or(false),
            Need::Jobs => self.vfs.remove(&self.path).is_ok(),
        }
    }

    fn cut(&self) -> io::Result<bool> {
        let file = self.vfs.open(&self.path, true)?;
        let longer = file.len()? > self.jobs_bytes();
        if longer {
            file.set_len(self.jobs_bytes())?;
        }
        Ok(longer)
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use evendb_storage::vfs::SimVfs;

    /// On a full disk it is tried again and again to lay down the whole: what there is of it must not
    /// be free in between, or others would take it.
    #[test]
    fn a_part_stays_when_the_whole_finds_no_room() {
        let vfs = SimVfs::new(1);
        let ballast = Ballast::new(Arc::new(vfs.clone()), Path::new("/db"), 0, 0);
        vfs.create_dir_all(Path::new("/db")).unwrap();
        ballast.restore(Ok(())).unwrap();
        assert!(ballast.release(Need::Deletes));
        vfs.set_capacity(vfs.used_bytes());
        let before = vfs.open(&ballast.path, true).unwrap();
        assert_eq!(before.len().unwrap(), PART_BYTES_MIN);
        for _ in 0..2 {
            let refused = ballast.restore(Ok(())).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NoSpace);
            ballast.keep_for_jobs().unwrap();
        }
        assert_eq!(vfs.used_bytes(), PART_BYTES_MIN);
        // The same file, not one that took its place.
        before.set_len(1).unwrap();
        let now = vfs.open(&ballast.path, true).unwrap();
        assert_eq!(now.len().unwrap(), 1);
    }
}
