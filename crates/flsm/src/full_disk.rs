//! A full disk: what is kept back for it ([`evendb_base::ballast`]), who may use that, and what puts get meanwhile.
//!
//! What gives room back needs some first: a delete needs room in the log, its flush a table, a compaction a table before the old ones
//! go, and an opening a manifest and a log. While there is room, some is kept back in the file `BALLAST`, which grows before the
//! tables and logs do.
//!
//! | while it is | puts get | deletes get | jobs, openings, edits that drop get |
//! |---|---|---|---|
//! | not laid, whole | room, once what is kept back has grown for it | room, or the deletes' part | room, or all of it |
//! | owed (given up, or no room for it) | nothing, until it is whole again | room, or the deletes' part if that is there | room, or what is left |
//!
//! What is given up is laid down again when a job has ended, or as large a part of it as there is room for, and before a put. So no put
//! ever lives on it, and deletes have what is free beside it.
//!
//! Thread safety: any. The ballast's mutex is a leaf, held over short file operations.

use evendb_base::ballast::{Ballast, Need, Sizes};
use evendb_base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use evendb_base::sync::{Arc, Mutex, reclaim, thread};
use evendb_storage::vfs::Vfs;
use evendb_storage::{Error, ErrorKind};
use std::path::Path;

/// The most of what is kept back for jobs, unless a write buffer is larger; and for deletes.
const JOBS_BYTES_MAX: u64 = 64 << 20;
const DELETES_BYTES_MAX: u64 = 8 << 20;
/// The ballast grows for a part of the data more than there is, at least for so much.
const STEP_PART: u64 = 4;
const STEP_BYTES_MIN: u64 = 256 << 10;
/// How often is looked for files that nobody holds any more, before anything is given up.
const LOOKS: usize = 8;

/// See the module.
pub(crate) struct FullDisk {
    ballast: Mutex<Ballast>,
    sizes: Sizes,
    /// What of it is read without the mutex, as hints: whether it is owed, and bytes of data for which it is large enough.
    owed: AtomicBool,
    /// Jobs of the background that found no room, since the last one that did.
    failures: AtomicU32,
    covered: AtomicU64,
    /// Bytes of tables, as far as it matters.
    table_bytes: AtomicU64,
    /// How often some was given up: of two that find no room at once, the second may go on by what the first has given up.
    released: AtomicU64,
}

/// An error that may tell of a full disk.
pub(crate) trait MayBeFull {
    fn is_full(&self) -> bool;
}

impl MayBeFull for Error {
    fn is_full(&self) -> bool {
        self.kind() == ErrorKind::NoSpace
    }
}

impl FullDisk {
    /// Of a database whose tables and logs have `data` bytes. Nothing is laid down yet. A compaction of level 0, the largest job, takes
    /// about so many write buffers.
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

    /// What must go on where the disk is full: without room it is tried again with what is kept back for it.
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
        // Others lay down what is owed when they have ended: not under a job that works in it.
        let _use = (need == Need::Jobs).then(|| {
            self.change(Ballast::begin_use);
            InUse(self)
        });
        attempt()
    }

    /// Notes the lengths of all tables that there are, as far as they matter. Called under the lock under which they change.
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

    /// Notes a log that waits to become tables.
    pub(crate) fn note_waiting(&self, bytes: u64) {
        self.table_bytes.fetch_add(bytes, Relaxed);
    }

    /// Whether the last job of the background found no room. Nothing is put then: what is in level 0 would become more than what is
    /// kept back can compact.
    pub(crate) fn is_stuck(&self) -> bool {
        self.failures.load(Relaxed) > 0
    }

    /// See [`is_stuck`](Self::is_stuck).
    /// How many in a row found none before this one.
    pub(crate) fn note_job(&self, found_no_room: bool) -> u32 {
        match found_no_room {
            true => self.failures.fetch_add(1, Relaxed),
            false => self.failures.swap(0, Relaxed),
        }
    }

    /// Has enough kept back for logs of `log_bytes`, beside the tables, before they are written. The error is a full disk.
    pub(crate) fn cover(&self, log_bytes: u64) -> evendb_storage::Result<()> {
        let data = self.table_bytes.load(Relaxed) + log_bytes;
        let covered = self.covered.load(Relaxed);
        if data <= covered || self.sizes.covers_any(covered) {
            return Ok(());
        }
        let step = (data / STEP_PART).max(STEP_BYTES_MIN);
        self.change(|ballast| ballast.cover(data + step).or_else(|_| ballast.cover(data)))
    }

    /// Lays down what is kept back for the data that there is, where there is room for it. The error is a full disk.
    pub(crate) fn lay(&self) -> evendb_storage::Result<()> {
        let data = self.table_bytes.load(Relaxed);
        self.change(|ballast| {
            ballast.expect(data);
            ballast.restore(Ok(()))
        })
    }

    /// After work: the files that it has left go, and what was given up is laid down again where there is room for it.
    pub(crate) fn tend(&self) {
        reclaim::collect();
        if self.owed.load(Relaxed) {
            // Puts are refused until there is room.
            let _ = self.lay();
        }
    }

    /// Refuses what may not live on what is kept back, as long as the disk has no room for that.
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

/// A job works in what was given up until this goes.
struct InUse<'d>(&'d FullDisk);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.change(Ballast::end_use);
    }
}

/// Has files removed that nobody needs any more, and that somebody may have held a moment ago.
fn collect_files() {
    for _ in 0..LOOKS {
        reclaim::collect();
        thread::yield_now();
    }
}
