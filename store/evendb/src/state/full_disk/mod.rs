//! A full disk, as one state: the room that is kept back for it, who may use that room, and how
//! much room puts may count on.
//!
//! Work that gives space back needs some space first, so some is kept back: a file for jobs and for
//! deletes ([`evendb_base::ballast`]), and room for the next edits of the manifest
//! ([`crate::manifest::writer`]). How much of it exists is one state:
//! ```text
//!   +----------+ ------------ laid down -------------> +-------+ --. grows before the data does,
//!   | not laid |                                       | whole |   |   or puts are refused
//!   +----------+ <-- more data than it is large for -- +-------+ <-'
//!        | no room            room for all of it  ^      |     ^ room for all of it again
//!        v   .------------------------------------'      |     |
//!   +--------+                                           v   +----------+ --. the rest given up,
//!   | missed | -------- some given up, of a part ----------> | given up |   |   part by part;
//!   +--------+                                               +----------+ <-'   a part laid down,
//!                                                                               for jobs
//! ```
//! Missed and given up are **owed**.
//!
//! Transitions:
//! * Laid down, or missed: [`FullDisk::tend`], by a checkpoint; while it is owed also by upkeep,
//!   and by a job that gave room back. [`FullDisk::check`] does it before a put that needs new
//!   room, a new keyspace or a property.
//! * Grows: [`FullDisk::cover`], by a put that needs new room, and by upkeep that takes room ahead
//!   of puts.
//! * Given up: [`FullDisk::with`], by a delete, job, checkpoint, edit or opening that finds the
//!   disk full.
//! * A part laid down: [`FullDisk::reserve_for_deletes`], by a delete that needs new room.
//!
//! Not laid, or whole: puts get new room, once it is covered. Deletes get new room, or the deletes'
//! part. Jobs, checkpoints and edits get new room, or all of it. The ring grows, logs are merged,
//! and container and manifest grow by steps ahead.
//!
//! Missed: puts get the free bytes of the container beyond the deletes' part. They get new room
//! only after all is laid down; otherwise they are refused. Deletes get the free bytes of the
//! container, and new room after the jobs' part is laid down. Jobs, checkpoints and edits get new
//! room, or the rest of the reserve. The ring does not grow, logs are not merged, and container and
//! manifest grow by steps ahead.
//!
//! Given up: as missed, except that container and manifest grow only as far as needed.
//!
//! Puts may take `delta_room` without asking. It is the free room of the container, up to what the
//! ballast covers. While the ballast is owed, it is less by the room that deletes will need, or
//! zero while the manifest is short of room for edits. No thread waits here: a refusal is an error
//! of kind `NoSpace`, and threads that wait elsewhere are told by [`Refusals`]. How room is made is
//! above, in `making_room`.
//!
//! Invariants: a put that was let in finds room for its run, and the reserve grows with the data
//! before the data does ([`FullDisk::cover`]). The reserve serves deletes and jobs, which give room
//! back, and never a put. Room for edits of the manifest is restored first, because
//! without an edit nothing gives room back.
//!
//! Thread safety: any thread. `delta_room` is an atomic that may be late: a checkpoint copes with
//! too little room. Reading the data's size takes the catalog's mutex, so a caller holds neither
//! that mutex nor one below it.

mod refusals;

use crate::admission::Admission;
use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::writer::Manifest;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex};
use crate::tables::container::Container;
pub(crate) use evendb_base::ballast::{BYTES_MIN, Ballast, Need};
use evendb_base::ballast::{Kept, Sizes};
use evendb_storage::vfs::Vfs;
pub(crate) use refusals::Refusals;
use std::path::Path;

/// The largest number of bytes of each part of the ballast.
const PART_BYTES_MAX: u64 = 16 << 20;

/// The ballast of the database in `dir`, which has `data` bytes now. It is enough for the rewrite
/// of the largest chunk into two, and for the runs of tombstones of an eighth of the delta memory.
pub(crate) fn ballast(
    vfs: Arc<dyn Vfs>,
    dir: &Path,
    chunk_bytes: u64,
    delta_bytes: u64,
    data: u64,
) -> Ballast {
    let sizes = Sizes {
        jobs: (2 * chunk_bytes).min(PART_BYTES_MAX),
        times: 2,
        deletes: (delta_bytes / 8).min(PART_BYTES_MAX),
    };
    Ballast::new(vfs, dir, sizes, data)
}

/// Whether the result is an error for want of room.
pub(crate) fn is_full<T>(result: &Result<T>) -> bool {
    result
        .as_ref()
        .is_err_and(|error| error.kind() == ErrorKind::NoSpace)
}

/// See the module.
pub(crate) struct FullDisk {
    /// The state changes under this mutex, and only in [`FullDisk::change`].
    ballast: Mutex<Ballast>,
    /// The part that is read without the mutex, as a hint: a [`Kept`], and the bytes of data for
    /// which the ballast is large enough. A caller that reads an old value is like one that came
    /// earlier.
    kept: AtomicU8,
    covered: AtomicU64,
    sizes: Sizes,
    container: Arc<Container>,
    /// `None` when open for reading only.
    manifest: Option<Arc<Manifest>>,
    admission: Arc<Admission>,
    /// Delta bytes for which the log container surely has room.
    delta_room: AtomicU64,
    pub(crate) refusals: Refusals,
    /// The error for which everything was last given up. It is returned to callers that must not
    /// lay the reserve down while jobs use it.
    given_up_for: Mutex<Option<Error>>,
    /// One thread at a time makes room.
    pub(crate) making_room: Mutex<()>,
}

impl FullDisk {
    /// A new state; puts have no room before they have asked for some.
    pub(crate) fn new(
        ballast: Ballast,
        container: Arc<Container>,
        manifest: Option<Arc<Manifest>>,
        admission: Arc<Admission>,
    ) -> FullDisk {
        let full_disk = FullDisk {
            kept: AtomicU8::new(ballast.kept as u8),
            covered: AtomicU64::new(ballast.covered),
            sizes: ballast.sizes,
            ballast: Mutex::new(ballast),
            container,
            manifest,
            admission,
            delta_room: AtomicU64::new(0),
            refusals: Refusals::default(),
            given_up_for: Mutex::new(None),
            making_room: Mutex::new(()),
        };
        // An opening may have given some of the reserve up.
        full_disk.change(|_| ());
        full_disk
    }

    /// The one place where the state changes. Container and manifest are told with it.
    fn change<R>(&self, change: impl FnOnce(&mut Ballast) -> R) -> R {
        let mut ballast = self.ballast.lock();
        let result = change(&mut ballast);
        self.covered.store(ballast.covered, Ordering::Relaxed);
        self.kept.store(ballast.kept as u8, Ordering::Relaxed);
        let sparing = ballast.kept == Kept::GivenUp;
        self.container.set_sparing(sparing);
        if let Some(manifest) = &self.manifest {
            manifest.set_sparing(sparing);
        }
        result
    }

    fn is_whole(&self) -> bool {
        self.kept.load(Ordering::Relaxed) == Kept::Whole as u8
    }

    /// Whether a part of the reserve was given up, or found no room: then no room is taken ahead.
    pub(crate) fn is_owed(&self) -> bool {
        let kept = self.kept.load(Ordering::Relaxed);
        kept == Kept::Missed as u8 || kept == Kept::GivenUp as u8
    }

    /// Bytes of data for which the reserve is large enough.
    fn covered(&self) -> u64 {
        self.covered.load(Ordering::Relaxed)
    }

    fn covers_any(&self) -> bool {
        self.sizes.covers_any(self.covered())
    }

    /// Room that deletes should find in the container while a part is owed.
    fn deletes_bytes(&self) -> u64 {
        self.sizes.deletes_bytes(self.covered())
    }

    /// Whether this number of bytes of deltas need not ask.
    pub(crate) fn has_room_for(&self, delta_bytes: u64) -> bool {
        // Relaxed: the room only shrinks at a checkpoint, which copes with finding too little.
        delta_bytes <= self.delta_room.load(Ordering::Relaxed)
    }

    /// Limits the room that puts have without asking to `bytes`.
    pub(crate) fn limit_room(&self, bytes: u64) {
        self.delta_room.fetch_min(bytes, Ordering::Relaxed);
    }

    /// Runs an attempt that must succeed on a full disk: without room it is tried again with the
    /// reserve for its need.
    pub(crate) fn with<T>(&self, need: Need, attempt: impl Fn() -> Result<T>) -> Result<T> {
        let first = attempt();
        if !is_full(&first) || !self.change(|ballast| ballast.release(need)) {
            return first;
        }
        // The rest has to last: puts look again.
        self.limit_room(0);
        // Upkeep lays down owed parts from time to time, but not while a job uses the room.
        let _use = (need == Need::Jobs).then(|| {
            *self.given_up_for.lock() = first.as_ref().err().cloned();
            self.change(Ballast::begin_use);
            InUse(self)
        });
        attempt()
    }

    /// Refuses callers that must not live on the reserve, as long as the disk has no room for the
    /// reserve.
    pub(crate) fn check(&self, catalog: &Catalog) -> Result<()> {
        match self.is_owed() {
            true => self.lay(catalog),
            false => Ok(()),
        }
    }

    /// Lays down the reserve if there is room. Returns whether room has come back.
    pub(crate) fn tend(&self, catalog: &Catalog) -> bool {
        let was_owed = self.is_owed();
        self.lay(catalog).is_ok() && was_owed
    }

    /// Lays down the whole reserve, the room for edits first: nothing gives room back without an
    /// edit.
    fn lay(&self, catalog: &Catalog) -> Result<()> {
        let edits = self.manifest().reserve_ahead();
        if !(self.is_whole() && self.covers_any()) {
            let data = self.table_bytes(catalog) + self.admission.delta_to_write();
            self.change(|ballast| ballast.expect(data));
        }
        if edits.is_err() || self.is_owed() {
            // Puts look again.
            self.limit_room(0);
        }
        let (in_use, laid) = self.change(|ballast| (ballast.is_in_use(), ballast.restore(edits)));
        laid.map_err(|error| match &*self.given_up_for.lock() {
            Some(cause) if in_use => cause.clone(),
            _ => error.into(),
        })
    }

    /// Makes sure that enough is kept back for `delta_bytes` that are on their way to tables,
    /// beside the existing tables. The error is a full disk.
    pub(crate) fn cover(&self, catalog: &Catalog, delta_bytes: u64) -> Result<()> {
        if self.covers_any() {
            return Ok(());
        }
        let data = self.table_bytes(catalog) + delta_bytes;
        Ok(self.change(|ballast| ballast.cover(data))?)
    }

    /// Reserves room for `need` bytes of deltas of puts, and a `step` ahead if there is that much
    /// room. The error is a full disk, which refuses them.
    pub(crate) fn reserve_for_puts(
        &self,
        catalog: &Catalog,
        need: u64,
        step: &dyn Fn() -> u64,
    ) -> Result<()> {
        let free_for_puts = || self.container.free_bytes() >= need + self.deletes_bytes();
        if self.is_owed() && !self.manifest().is_short() && free_for_puts() {
            return Ok(());
        }
        self.check(catalog)?;
        // First the reserve for more data, then the data's own room.
        self.cover(catalog, need + step())
            .or_else(|_| self.cover(catalog, need))?;
        self.reserve(catalog, need, step)
    }

    /// Like [`reserve_for_puts`](Self::reserve_for_puts) for deletes, which may use the reserve for
    /// deletes.
    pub(crate) fn reserve_for_deletes(
        &self,
        catalog: &Catalog,
        need: u64,
        step: &dyn Fn() -> u64,
    ) -> Result<()> {
        self.with(Need::Deletes, || {
            if self.container.free_bytes() < need {
                self.ballast.lock().keep_for_jobs()?;
            }
            self.reserve(catalog, need, step)
        })
    }

    /// Like [`reserve_for_deletes`](Self::reserve_for_deletes), with the reserve for jobs, too: for
    /// deletes when jobs have nothing left to do.
    pub(crate) fn reserve_at_last(&self, catalog: &Catalog, need: u64) -> Result<()> {
        self.with(Need::Jobs, || self.reserve(catalog, need, &|| 0))
    }

    fn reserve(&self, catalog: &Catalog, need: u64, step: &dyn Fn() -> u64) -> Result<()> {
        let step = if self.is_owed() { 0 } else { step() };
        let reserve = |bytes| self.container.ensure_room(bytes);
        reserve(need + step).or_else(|_| reserve(need))?;
        self.note_room(catalog);
        Ok(())
    }

    /// Notes the room that puts have without asking: on a full disk without the room that deletes
    /// will need.
    pub(crate) fn note_room(&self, catalog: &Catalog) {
        let covered = match self.covers_any() {
            true => u64::MAX,
            // It covers any data once there is much.
            false => {
                let covered = self.covered();
                covered.saturating_sub(self.table_bytes(catalog))
            }
        };
        let free = self.container.free_bytes().min(covered);
        let owed_room = || match self.manifest().is_short() {
            true => 0,
            false => free.saturating_sub(self.deletes_bytes()),
        };
        let room = if self.is_owed() { owed_room() } else { free };
        self.delta_room.store(room, Ordering::Relaxed);
        // Another thread may have given the ballast up meanwhile, and may have set the room to zero
        // before this store.
        if self.is_owed() {
            self.limit_room(owed_room());
        }
    }

    /// Gives the container's surplus back to the file system, if the disk is full.
    pub(crate) fn give_back_if_owed(&self) {
        if self.is_owed() {
            let keep = self.admission.delta_to_write() + self.deletes_bytes();
            self.container.give_back(keep, 1024, &|_| true);
        }
    }

    /// Gives back the reserve beyond what the data needs, when the database is closed.
    pub(crate) fn shrink_to_data(&self, catalog: &Catalog) {
        let data = self.table_bytes(catalog);
        self.change(|ballast| ballast.shrink_to(data));
    }

    /// Bytes in tables, as far as they matter for the reserve: above a limit only the fact that it
    /// is reached. A table that chunks share counts once for each.
    fn table_bytes(&self, catalog: &Catalog) -> u64 {
        let much = self.sizes.data_bytes_max();
        let mut sum = 0;
        for keyspace in catalog.keyspaces() {
            for (_, chunk) in keyspace.index.load_full().iter() {
                let view = chunk.view.load_full();
                let tables = view.funk.tables().map(|table| table.part_len());
                sum += tables.sum::<u64>();
                if sum > much {
                    return sum;
                }
            }
        }
        sum
    }

    fn manifest(&self) -> &Manifest {
        self.manifest
            .as_ref()
            .expect("only called where writing has been allowed")
    }
}

/// A job uses the room that was given up until this is dropped.
struct InUse<'d>(&'d FullDisk);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.change(Ballast::end_use);
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::files::CONTAINER;
    use crate::manifest::state::ManifestState;
    use crate::tables::extents::Extents;
    use evendb_storage::vfs::SimVfs;
    use std::collections::BTreeMap;

    /// Through all states. While nothing was given up the container takes steps ahead. Of given-up
    /// room it takes only what is needed, and no step of its usual size, which here would fit.
    #[test]
    fn what_is_given_up_lasts_and_comes_back() {
        let sim = SimVfs::new(1);
        let (vfs, dir): (Arc<dyn Vfs>, _) = (Arc::new(sim.clone()), Path::new("/db"));
        vfs.create_dir_all(dir).unwrap();
        let file = vfs.create(&dir.join(CONTAINER)).unwrap();
        let container = Arc::new(Container::new(file, Extents::new(0), 0));
        let manifest = Manifest::create(vfs.clone(), dir, 1, ManifestState::default()).unwrap();
        let full_disk = FullDisk::new(
            ballast(vfs, dir, 0, 0, 0),
            container.clone(),
            Some(Arc::new(manifest)),
            Arc::new(Admission::new(0, 1 << 20)),
        );
        let catalog = Catalog::new(BTreeMap::new());
        let kept = || full_disk.ballast.lock().kept;
        assert_eq!(kept(), Kept::NotLaid);
        let (needed, step) = (100 << 10, BYTES_MIN / 2);
        container.set_grow_bytes(step);

        sim.set_capacity(sim.used_bytes() + step);
        assert!(!full_disk.tend(&catalog));
        assert_eq!(kept(), Kept::Missed);
        assert!(full_disk.is_owed() && !full_disk.has_room_for(1));
        sim.set_capacity(sim.used_bytes() + step);
        container.ensure_room(1).unwrap();
        assert_eq!(container.free_bytes(), step, "a step ahead");
        container.give_all_back(0);
        sim.set_capacity(u64::MAX);
        assert!(full_disk.tend(&catalog), "it was missed");
        assert!(!full_disk.tend(&catalog), "it was not missed since");
        assert_eq!(kept(), Kept::Whole);

        sim.set_capacity(sim.used_bytes());
        let attempt = || Ok(container.ensure_room(needed)?);
        full_disk.with(Need::Jobs, attempt).unwrap();
        assert_eq!(kept(), Kept::GivenUp);
        assert_eq!(container.free_bytes(), needed);
        assert!(!full_disk.has_room_for(1));
        assert!(is_full(&full_disk.check(&catalog)));
        assert!(is_full(&full_disk.reserve_for_puts(&catalog, 1, &|| 0)));
        full_disk
            .reserve_for_deletes(&catalog, needed, &|| 0)
            .unwrap();
        full_disk.note_room(&catalog);
        assert!(!full_disk.has_room_for(1), "it is for deletes");

        sim.set_capacity(u64::MAX);
        assert!(full_disk.tend(&catalog));
        assert_eq!(kept(), Kept::Whole);
        full_disk.reserve_for_puts(&catalog, needed, &|| 0).unwrap();
        assert!(full_disk.has_room_for(needed));
    }
}
