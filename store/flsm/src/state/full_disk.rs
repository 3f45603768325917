//! A full disk: the room that is kept back for it ([`evendb_base::ballast`]), who may use that
//! room, and which puts are refused meanwhile.
//!
//! Work that gives room back needs some room first: a delete needs room in the log, its flush needs
//! a table, a compaction needs new tables before the old ones go, and an opening needs a manifest
//! and a log. So some room is kept back in the file `BALLAST`. It grows before the tables and logs
//! do.
//!
//! While the ballast is whole or not yet laid down:
//! * Puts get free room, after the ballast has grown for them.
//! * Deletes get free room, or the ballast's part for deletes.
//! * Jobs, openings and edits that drop something get free room, or all of the ballast.
//!
//! While the ballast is owed (it was given up, or found no room):
//! * Puts are refused until it is whole again.
//! * Deletes get free room, or the ballast's part for deletes if that still exists.
//! * Jobs, openings and edits that drop something get free room, or the rest of the ballast.
//!
//! A ballast that was given up is laid down again when a job has ended, and before a put. It
//! becomes as large as the free room allows. So no put ever lives on it, and deletes have the free
//! room beside it.
//!
//! Thread safety: any. The ballast's mutex is a leaf, held during short file operations.

use evendb_base::ballast::{Ballast, Need, Sizes};
use evendb_base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use evendb_base::sync::{Arc, Mutex, reclaim, thread};
use evendb_storage::vfs::Vfs;
use evendb_storage::{Error, ErrorKind};
use std::path::Path;

/// Bytes kept back for jobs, at most, unless a write buffer is larger; and bytes kept back for
/// deletes, at most.
const JOBS_BYTES_MAX: u64 = 64 << 20;
const DELETES_BYTES_MAX: u64 = 8 << 20;
/// The ballast grows for more data than there is: for one part in `STEP_PART` more, and for at
/// least `STEP_BYTES_MIN` bytes more.
const STEP_PART: u64 = 4;
const STEP_BYTES_MIN: u64 = 256 << 10;
/// How many times it removes files that nobody holds any more, before it gives up room.
const LOOKS: usize = 8;

/// See the module.
pub(crate) struct FullDisk {
    ballast: Mutex<Ballast>,
    sizes: Sizes,
    /// Hints about the ballast that are read without its mutex: `owed` is whether it is owed,
    /// `covered` is the number of data bytes for which it is large enough.
    owed: AtomicBool,
    /// The number of failures in a row of background jobs that found no room.
    failures: AtomicU32,
    covered: AtomicU64,
    /// Bytes of tables, at least up to the number from which the ballast grows no more.
    table_bytes: AtomicU64,
    /// Counts how often room was given up. If two threads find no room at once, the second one may
    /// go on with the room that the first one gave up.
    released: AtomicU64,
}

/// An error that may be the error of a full disk.
pub(crate) trait MayBeFull {
    fn is_full(&self) -> bool;
}

impl MayBeFull for Error {
    fn is_full(&self) -> bool {
        self.kind() == ErrorKind::NoSpace
    }
}

impl FullDisk {
    /// For a database whose tables and logs have `data` bytes. Nothing is laid down yet. A
    /// compaction of level 0 is the largest job: it takes about `buffers` write buffers of `buffer`
    /// bytes.
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        (buffer, buffers): (u64, u64),
        data: u64,
    ) -> Self {
        let flush = buffer + buffer / 8;
        let sizes = Sizes {
            jobs: flush.saturating_mul(buffers).min(JOBS_BYTES_MAX.max(flush)),
            times: 1,
            deletes: (buffer / 8).min(DELETES_BYTES_MAX),
        };
        FullDisk {
            ballast: Mutex::new(Ballast::new(vfs, dir, sizes, data)),
            sizes,
            owed: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            covered: AtomicU64::new(data),
            table_bytes: AtomicU64::new(0),
            released: AtomicU64::new(0),
        }
    }

    /// The one place where the ballast changes.
    fn change<R>(&self, change: impl FnOnce(&mut Ballast) -> R) -> R {
        let mut ballast = self.ballast.lock();
        let result = change(&mut ballast);
        self.owed.store(ballast.is_owed(), Relaxed);
        self.covered.store(ballast.covered, Relaxed);
        result
    }

    /// Runs an attempt that must succeed on a full disk too. If it finds no room, it is tried again
    /// with the room that is kept back for it.
    pub(crate) fn with<T, E: MayBeFull>(
        &self,
        need: Need,
        mut attempt: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        let released = self.released.load(Relaxed);
        let first = attempt();
        if !first.as_ref().is_err_and(E::is_full) {
            return first;
        }
        collect_files();
        if self.change(|ballast| ballast.release(need)) {
            self.released.fetch_add(1, Relaxed);
        } else if self.released.load(Relaxed) == released {
            return first;
        }
        // Other threads lay the ballast down again when their jobs have ended. They must not do so
        // while this job uses the room.
        let _use = (need == Need::Jobs).then(|| {
            self.change(Ballast::begin_use);
            InUse(self)
        });
        attempt()
    }

    /// Notes the lengths of all tables, as far as they matter. Call it under the lock under which
    /// the tables change.
    pub(crate) fn note_tables(&self, lengths: impl Iterator<Item = u64>) {
        let enough = self.sizes.data_bytes_max();
        let mut sum: u64 = 0;
        for len in lengths {
            sum = sum.saturating_add(len);
            if sum > enough {
                break;
            }
        }
        self.table_bytes.store(sum, Relaxed);
    }

    /// Notes a log whose records wait to become tables.
    pub(crate) fn note_waiting(&self, bytes: u64) {
        self.table_bytes.fetch_add(bytes, Relaxed);
    }

    /// Whether the last background job found no room. Puts are refused then: otherwise level 0
    /// would grow beyond what the ballast lets a compaction do.
    pub(crate) fn is_stuck(&self) -> bool {
        self.failures.load(Relaxed) > 0
    }

    /// Notes the end of a background job, for [`is_stuck`](Self::is_stuck). Returns the number of
    /// jobs in a row that found no room before this one.
    pub(crate) fn note_job(&self, found_no_room: bool) -> u32 {
        match found_no_room {
            true => self.failures.fetch_add(1, Relaxed),
            false => self.failures.swap(0, Relaxed),
        }
    }

    /// Makes the ballast large enough for the tables and for logs of `log_bytes`. Call it before
    /// the logs are written. The error is a full disk.
    pub(crate) fn cover(&self, log_bytes: u64) -> evendb_storage::Result<()> {
        let data = self.table_bytes.load(Relaxed) + log_bytes;
        let covered = self.covered.load(Relaxed);
        if data <= covered || self.sizes.covers_any(covered) {
            return Ok(());
        }
        let step = (data / STEP_PART).max(STEP_BYTES_MIN);
        self.change(|ballast| ballast.cover(data + step).or_else(|_| ballast.cover(data)))
    }

    /// Lays the ballast down for the existing data, if there is room. The error is a full disk.
    pub(crate) fn lay(&self) -> evendb_storage::Result<()> {
        let data = self.table_bytes.load(Relaxed);
        self.change(|ballast| {
            ballast.expect(data);
            ballast.restore(Ok(()))
        })
    }

    /// Call it after work: removes the files that the work no longer needs, and lays down again
    /// what was given up, if there is room.
    pub(crate) fn tend(&self) {
        reclaim::collect();
        if self.owed.load(Relaxed) {
            // After a failure puts are refused until there is room.
            let _ = self.lay();
        }
    }

    /// Refuses a write that may not use the ballast, as long as the disk has no room for the
    /// ballast.
    pub(crate) fn check(&self) -> evendb_storage::Result<()> {
        if !self.owed.load(Relaxed) {
            return Ok(());
        }
        self.lay().or_else(|_| {
            collect_files();
            self.lay()
        })
    }
}

/// While this lives, a job uses the room that was given up.
struct InUse<'d>(&'d FullDisk);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.change(Ballast::end_use);
    }
}

/// Removes files that nobody needs any more, also files that some thread held a moment ago.
fn collect_files() {
    for _ in 0..LOOKS {
        reclaim::collect();
        thread::yield_now();
    }
}
