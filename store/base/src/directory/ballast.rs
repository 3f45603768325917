//! The ballast, a file of reserved blocks: room that is kept back for deletes and jobs on a full
//! disk.
//!
//! A delete writes tombstones, and a smaller table before the old one can go. So a file `BALLAST`
//! of reserved blocks, which are never written, lies beside the other files:
//! ```text
//!   | for jobs | for deletes |   whole
//!   | for jobs |                 owed: deletes had their part cut off
//!   | for j |                    owed: there is no room for more
//!                               owed: jobs, edits or an opening had all of it removed; not laid
//! ```
//!
//! Its size depends on the data. Jobs need at most the bytes of the data, once or twice, and
//! deletes can remove at most all of the data. So each part follows the bytes of data, the
//! **covered** bytes, up to its limit ([`Sizes`]).
//!
//! Nothing depends on it: a missing, short or damaged ballast is made anew when there is room.
//! After an error other than a full disk it counts as not needed. Its name is not synced.
//!
//! Thread safety: none of its own. An engine has it behind a mutex, a leaf that is held during the
//! file operations, which are short. Not here, but in the engine: when it is laid down, who may
//! have which part, and which puts are refused meanwhile. Other processes may take the blocks in
//! the moment in which they are free.

use crate::sync::Arc;
use evendb_storage::vfs::Vfs;
use evendb_storage::{Error, ErrorKind, Result};
use std::io;
use std::path::{Path, PathBuf};

/// The name of its file.
pub const BALLAST: &str = "BALLAST";
/// The least size of each part.
const PART_BYTES_MIN: u64 = 256 << 10;
/// The least size of the whole ballast.
pub const BYTES_MIN: u64 = 2 * PART_BYTES_MIN;

/// The work that may use the ballast.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Room for runs of tombstones: the part for deletes.
    Deletes,
    /// Work that frees space or must not fail: the whole ballast.
    Jobs,
}

/// The state of the ballast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kept {
    /// Nothing, or less than the data needs; no room was missing yet.
    NotLaid,
    /// All of it.
    Whole,
    /// There was no room for all of it.
    Missed,
    /// Some of it was given up: the rest has to last.
    GivenUp,
}

/// The greatest size of each part, for one database.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Bytes for jobs.
    pub jobs: u64,
    /// Jobs need at most this many times the bytes of the data.
    pub times: u64,
    /// Bytes for deletes.
    pub deletes: u64,
}

impl Sizes {
    /// The bytes that jobs and deletes need if tables, and the records on the way to tables, have
    /// `data` bytes.
    fn parts_for(self, data: u64) -> (u64, u64) {
        (
            self.jobs
                .min(data.saturating_mul(self.times))
                .max(PART_BYTES_MIN),
            self.deletes.min(data).max(PART_BYTES_MIN),
        )
    }

    /// With this many bytes of data it has its greatest size.
    pub fn data_bytes_max(self) -> u64 {
        self.jobs.div_ceil(self.times).max(self.deletes)
    }

    /// Whether a ballast that is large enough for `covered` bytes is large enough for any data.
    pub fn covers_any(self, covered: u64) -> bool {
        self.parts_for(covered) == self.parts_for(u64::MAX)
    }

    /// The room that deletes have if `covered` bytes of data are covered.
    pub fn deletes_bytes(self, covered: u64) -> u64 {
        self.parts_for(covered).1
    }
}

/// The reserved room of one database.
pub struct Ballast {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    /// The greatest sizes of its parts.
    pub sizes: Sizes,
    /// The bytes of data for which it is large enough.
    pub covered: u64,
    /// Its state.
    pub kept: Kept,
    /// The number of jobs that use the room that was given up. While there are any, nobody lays it
    /// down again.
    in_use: usize,
}

impl Ballast {
    /// The ballast of the database in `dir`, which has `data` bytes now.
    pub fn new(vfs: Arc<dyn Vfs>, dir: &Path, sizes: Sizes, data: u64) -> Ballast {
        Ballast {
            vfs,
            path: dir.join(BALLAST),
            sizes,
            covered: data,
            kept: Kept::NotLaid,
            in_use: 0,
        }
    }

    /// Notes that a job begins to use the room that was given up.
    pub fn begin_use(&mut self) {
        self.in_use += 1;
    }

    /// Whether a job uses that room.
    pub fn is_in_use(&self) -> bool {
        self.in_use > 0
    }

    /// Notes that such a job has ended.
    pub fn end_use(&mut self) {
        self.in_use -= 1;
    }

    fn check_unused(&self) -> Result<()> {
        match self.in_use {
            0 => Ok(()),
            _ => {
                let full = io::ErrorKind::StorageFull.into();
                let what = "keep room back for deletes while a job works in it";
                Err(Error::io(&self.path, what, full))
            }
        }
    }

    /// Whether some of it was given up, or found no room.
    pub fn is_owed(&self) -> bool {
        matches!(self.kept, Kept::Missed | Kept::GivenUp)
    }

    /// Makes it large enough for `data` bytes, before they are written. The error is a full disk;
    /// the ballast is then unchanged.
    pub fn cover(&mut self, data: u64) -> Result<()> {
        if data <= self.covered {
            return Ok(());
        }
        let parts = self.sizes.parts_for(data);
        // A ballast that is not laid down yet is laid down as a whole later.
        if parts != self.sizes.parts_for(self.covered) && self.kept == Kept::Whole {
            match self.lay(parts.0 + parts.1) {
                Err(error) if error.kind() == ErrorKind::NoSpace => return Err(error),
                // After any other failure it counts as not needed, as when it is laid down.
                _ => {}
            }
        }
        self.covered = data;
        Ok(())
    }

    /// Notes that there are `data` bytes, whatever was expected. The ballast is whole again when it
    /// is laid down for these. A smaller number is noted only while the ballast is owed: puts look
    /// again before they rely on it.
    pub fn expect(&mut self, data: u64) {
        let more = data > self.covered;
        let grows = more && self.sizes.parts_for(data) != self.sizes.parts_for(self.covered);
        if grows && self.kept == Kept::Whole {
            self.kept = Kept::NotLaid;
        }
        if more || self.is_owed() {
            self.covered = data;
        }
    }

    /// Gives back the room that `data` bytes do not need.
    pub fn shrink_to(&mut self, data: u64) {
        let (jobs, deletes) = self.sizes.parts_for(data);
        let shorten = || {
            let file = self.vfs.open(&self.path, true)?;
            match file.len()? > jobs + deletes {
                true => file.set_len(jobs + deletes),
                false => Ok(()),
            }
        };
        if self.kept == Kept::Whole && shorten().is_ok() {
            self.covered = data;
        }
    }

    /// Lays it down if it is missing. `edits` tells whether the manifest has all of its room for
    /// edits. Without that room nothing gives room back, so in that case a part of the ballast is
    /// given up too. The error is a full disk.
    pub fn restore(&mut self, edits: Result<()>) -> Result<()> {
        if edits.is_ok() && self.kept == Kept::Whole {
            return Ok(());
        }
        self.check_unused()?;
        let (jobs, deletes) = self.sizes.parts_for(self.covered);
        let own = self.lay(jobs + deletes);
        if own.is_err() {
            // A part is better than nothing: otherwise jobs that need no help would take all the
            // room.
            let _ = [1, 2, 4, 8]
                .iter()
                .find(|part| self.lay(jobs / **part).is_ok());
        }
        let full = |result: &Result<()>| {
            let is_full = |error: &Error| error.kind() == ErrorKind::NoSpace;
            result.as_ref().is_err_and(is_full)
        };
        let (edits_full, own_full) = (full(&edits), full(&own));
        self.kept = match (edits_full, own_full) {
            (true, _) => Kept::GivenUp,
            (false, true) if self.kept == Kept::GivenUp => Kept::GivenUp,
            (false, true) => Kept::Missed,
            // After any other failure it counts as not needed.
            (false, false) if edits.is_ok() && own.is_ok() => Kept::Whole,
            (false, false) => Kept::NotLaid,
        };
        match edits_full {
            true => edits,
            false if own_full => own,
            false => Ok(()),
        }
    }

    /// Lays down the part for jobs, before anybody else takes the room that jobs have freed.
    pub fn keep_for_jobs(&self) -> Result<()> {
        match self.is_owed() {
            true => {
                self.check_unused()?;
                self.lay(self.sizes.parts_for(self.covered).0)
            }
            false => Ok(()),
        }
    }

    fn lay(&self, bytes: u64) -> Result<()> {
        let full = |source| Error::io(&self.path, "keep room back for deletes", source);
        self.reserve(bytes).map_err(full)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let file = match self.vfs.open(&self.path, true) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.vfs.create(&self.path)?,
            opened => opened?,
        };
        let before = file.len()?;
        let reserved = file.preallocate(0, bytes);
        if reserved.is_err() {
            // The earlier part stays: if it were free for a moment, others would take it, again and
            // again.
            match before {
                0 => drop(self.vfs.remove(&self.path)),
                _ => drop(file.set_len(before)),
            }
        }
        reserved
    }

    /// Gives room back to the full disk. Returns whether there was any.
    pub fn release(&mut self, need: Need) -> bool {
        let given_up = match need {
            Need::Deletes => self.cut().unwrap_or(false),
            Need::Jobs => self.vfs.remove(&self.path).is_ok(),
        };
        self.kept = match given_up || self.kept == Kept::GivenUp {
            true => Kept::GivenUp,
            false => Kept::Missed,
        };
        given_up
    }

    fn cut(&self) -> io::Result<bool> {
        let file = self.vfs.open(&self.path, true)?;
        let jobs = self.sizes.parts_for(self.covered).0;
        let longer = file.len()? > jobs;
        if longer {
            file.set_len(jobs)?;
        }
        Ok(longer)
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use evendb_storage::vfs::SimVfs;

    const SIZES: Sizes = Sizes {
        jobs: 0,
        times: 1,
        deletes: 0,
    };

    /// On a full disk the whole is laid down again and again. The existing part must not be free in
    /// between, or others would take it.
    #[test]
    fn a_part_stays_when_the_whole_finds_no_room() {
        let vfs = SimVfs::new(1);
        let mut ballast = Ballast::new(Arc::new(vfs.clone()), Path::new("/db"), SIZES, 0);
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
        // The same file, and not another one in its place.
        before.set_len(1).unwrap();
        let now = vfs.open(&ballast.path, true).unwrap();
        assert_eq!(now.len().unwrap(), 1);
        drop((before, now));
        // A job uses the room that was given up, and finds it until the job ends.
        assert!(ballast.release(Need::Jobs));
        ballast.begin_use();
        for refused in [ballast.restore(Ok(())), ballast.keep_for_jobs()] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::NoSpace);
        }
        assert_eq!(vfs.used_bytes(), 0);
        ballast.end_use();
        ballast.keep_for_jobs().unwrap();
        assert_eq!(vfs.used_bytes(), PART_BYTES_MIN);
    }
}
