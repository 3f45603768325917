//! The log container: one file that holds the runs of all chunks' logs, each in an extent.
//!
//! A checkpoint writes thousands of small runs; in one file they are neighbours, cost one
//! `fdatasync`, and no file is created. Extents are in units of 512 bytes: two runs never share a
//! sector, so a torn write cannot damage a neighbour.
//!
//! Room for runs is preallocated ahead ([`Container::ensure_room`]), so that a full disk refuses a
//! put before any of it is logged, and not a checkpoint afterwards.
//!
//! ```text
//! 0                                                    end of extents        allocated
//! | run | hole | run | punched |  run  | hole | run |      hole      |  not in use yet |
//!                                                         <-- cut from here
//! ```
//! Free bytes beyond need go back to the file system ([`Container::give_back`], and in an idle
//! database [`Container::give_excess_back`]): the file is cut, and large holes are punched. The
//! allocator does not see a punched hole until nothing else fits; then its blocks are reserved
//! again first. After opening, punched holes are holes like others: a write there may find the disk
//! full, which a checkpoint survives, and then they are told apart ([`Container::find_punched`]).
//!
//! **Several files.** A fork shares the container with its parent, so from then on nobody writes to
//! it: it is *sealed* ([`Container::seal`]), and new runs go to a new file, the next container. The
//! number of the container is in each offset ([`crate::files::in_container`]). Of sealed ones only
//! the file and the bytes in use are known ([`Segments`]); a sealed file is removed when its last
//! run has gone. While runs are written, or the file changes its size, the container is not sealed
//! ([`Container::writing`]).

use super::extents::{Extent, Extents};
use super::segments::{Gate, Segments, Writing};
use crate::files::{container_base, in_container};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex};
use evendb_storage::vfs::{File, WriteBehind};
use evendb_storage::{Error, Result};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The smallest number of bytes by which the file grows.
pub(crate) const GROW_BYTES_MIN: u64 = 64 << 10;

struct ContainerSpace {
    /// The container that is written to.
    number: u64,
    file: Arc<dyn File>,
    extents: Extents,
    /// The file's blocks are reserved up to here, except the punched holes.
    allocated: u64,
    /// Offset and length of punched holes; the allocator takes them for used.
    punched: BTreeMap<u64, u64>,
    punched_bytes: u64,
}

impl ContainerSpace {
    /// Bytes of holes that have their blocks.
    fn free(&self) -> u64 {
        self.allocated.saturating_sub(self.extents.used())
    }

    /// Drops the allocator's free room beyond the reserved blocks.
    fn forget_beyond(&mut self) {
        let beyond = self.extents.end().saturating_sub(self.allocated);
        self.extents.trim_end(beyond);
    }

    /// Notes a punched hole. It is joined with the one before it if both together are not too large
    /// to be reserved again for one run.
    fn add_punched(&mut self, hole: Extent) {
        self.punched_bytes += hole.len;
        if let Some((&offset, len)) = self.punched.range_mut(..hole.offset).next_back()
            && offset + *len == hole.offset
            && *len + hole.len <= PUNCHED_BYTES_MAX
        {
            *len += hole.len;
        } else {
            self.punched.insert(hole.offset, hole.len);
        }
    }

    /// A punched hole of at least `len` bytes.
    fn punched_for(&self, len: u64) -> Option<Extent> {
        let mut fitting = self.punched.iter().filter(|hole| *hole.1 >= len);
        let (&offset, &len) = fitting.next()?;
        Some(Extent { offset, len })
    }
}

/// Holes are punched in units of a file system's block; the second is the smallest hole in bytes.
const PUNCH_UNIT: u64 = 4096;
const PUNCH_BYTES_MIN: u64 = 32 << 10;
/// The largest number of bytes of one punch or cut, which holds up other users of the file.
const PIECE_BYTES_MAX: u64 = 1 << 20;
/// The largest size in bytes up to which neighbouring punched holes are joined.
const PUNCHED_BYTES_MAX: u64 = 16 << 20;

/// The container file and its free space.
pub(crate) struct Container {
    /// All containers with runs, and the one that is written to.
    segments: Segments,
    gate: Gate,
    space: Mutex<ContainerSpace>,
    /// The bytes by which it grows at a time: more where there is more data.
    grow_bytes: AtomicU64,
    /// The disk is full: the file grows only as far as needed, and no step ahead.
    sparing: AtomicBool,
    /// All holes of the allocator have their blocks.
    punched_found: AtomicBool,
}

fn sectors(len: u64) -> u64 {
    len.next_multiple_of(512)
}

impl Container {
    /// The first container. `extents` has the extents that the manifest names; `allocated` is the
    /// file's length.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn new(file: Arc<dyn File>, extents: Extents, allocated: u64) -> Container {
        let segments = Segments::new(0, file.clone());
        Container::with((0, file), segments, extents, allocated)
    }

    /// The container of a number, which is among the `segments`.
    pub(crate) fn with(
        (number, file): (u64, Arc<dyn File>),
        segments: Segments,
        extents: Extents,
        allocated: u64,
    ) -> Container {
        file.expect_random_reads();
        Container {
            segments,
            gate: Gate::default(),
            space: Mutex::new(ContainerSpace {
                number,
                file,
                extents,
                allocated,
                punched: BTreeMap::new(),
                punched_bytes: 0,
            }),
            grow_bytes: AtomicU64::new(GROW_BYTES_MIN),
            sparing: AtomicBool::new(false),
            punched_found: AtomicBool::new(allocated == 0),
        }
    }

    /// Sets whether to take no more of the disk than is needed.
    pub(crate) fn set_sparing(&self, yes: bool) {
        self.sparing.store(yes, Ordering::Relaxed);
    }

    /// Makes the file grow by at least this number of bytes at a time.
    pub(crate) fn set_grow_bytes(&self, bytes: u64) {
        // Relaxed: a hint.
        self.grow_bytes
            .store(bytes.max(GROW_BYTES_MIN), Ordering::Relaxed);
    }

    /// The smallest number of bytes by which the file grows now.
    fn step_bytes(&self) -> u64 {
        match self.sparing.load(Ordering::Relaxed) {
            true => PUNCH_BYTES_MIN,
            false => self.grow_bytes.load(Ordering::Relaxed),
        }
    }

    /// All containers with runs.
    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// The file that is written to.
    pub(crate) fn file(&self) -> Arc<dyn File> {
        self.space.lock().file.clone()
    }

    /// While the caller holds this, the container is not sealed. It may be held more than once.
    pub(crate) fn writing(&self) -> Writing<'_> {
        self.gate.enter()
    }

    /// As [`writing`](Self::writing), for work that takes long: it lets a thread go first that
    /// waits to seal, and leaves when [one comes](Self::is_awaited). The caller does not hold this
    /// yet.
    pub(crate) fn writing_for_long(&self) -> Writing<'_> {
        self.gate.enter_behind()
    }

    /// Whether a fork waits to seal the container.
    pub(crate) fn is_awaited(&self) -> bool {
        self.gate.is_awaited()
    }

    /// Bytes that can be written without asking the disk for room.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.space.lock().free()
    }

    /// Bytes of holes that have their blocks, of holes that were punched, and of the file.
    pub(crate) fn space(&self) -> (u64, u64, u64) {
        let space = self.space.lock();
        (space.free(), space.punched_bytes, space.allocated)
    }

    /// Makes sure that `bytes` more can be written without asking the disk for room.
    pub(crate) fn ensure_room(&self, bytes: u64) -> Result<()> {
        let _not_sealed = self.writing();
        let mut space = self.space.lock();
        while space.free() < bytes {
            // Punched holes are taken again before the file grows.
            let missing = bytes - space.free();
            match space.punched_for(0) {
                Some(hole) => self.restore(&mut space, hole)?,
                None => return self.grow(&mut space, missing),
            }
        }
        Ok(())
    }

    /// On a full disk: tells holes that an earlier life punched apart from holes that have their
    /// blocks, by reserving each. It does so once; the holes that this life punches are known.
    pub(crate) fn find_punched(&self) {
        if self.punched_found.swap(true, Ordering::Relaxed) {
            return;
        }
        let _not_sealed = self.writing();
        let mut space = self.space.lock();
        let (allocated, file) = (space.allocated, space.file.clone());
        let has_blocks = |hole: Extent| {
            let len = hole.len.min(allocated.saturating_sub(hole.offset));
            len == 0 || file.preallocate(hole.offset, len).is_ok()
        };
        for hole in space.extents.take_unless(&has_blocks) {
            space.add_punched(hole);
        }
    }

    /// Gives a punched hole its blocks, and gives the hole to the allocator.
    fn restore(&self, space: &mut ContainerSpace, hole: Extent) -> Result<()> {
        space
            .file
            .preallocate(hole.offset, hole.len)
            .map_err(|source| Error::io(space.file.path(), "reserve room for logs", source))?;
        space.punched.remove(&hole.offset);
        space.punched_bytes -= hole.len;
        space.extents.free(hole);
        Ok(())
    }

    /// Gives free bytes beyond `keep` back to the file system, if it is worth it, in at most
    /// `pieces_max` pieces. `rest` is told how long each piece took, and says whether to go on.
    /// Returns the bytes given back. A failure to punch loses nothing: the hole stays.
    pub(crate) fn give_back(
        &self,
        keep: u64,
        pieces_max: usize,
        rest: &dyn Fn(Duration) -> bool,
    ) -> u64 {
        let excess = self.free_bytes().saturating_sub(keep);
        // Not for a few bytes: the next checkpoint would take them again.
        let sparing = self.sparing.load(Ordering::Relaxed);
        if excess < self.step_bytes().max(if sparing { 0 } else { keep / 4 }) {
            return 0;
        }
        self.give_excess_back(keep, pieces_max, rest)
    }

    /// Like [`give_back`](Self::give_back), even for few bytes, down to a piece: for an idle
    /// database.
    pub(crate) fn give_excess_back(
        &self,
        keep: u64,
        pieces_max: usize,
        rest: &dyn Fn(Duration) -> bool,
    ) -> u64 {
        let mut given = 0;
        for _ in 0..pieces_max {
            let started = Instant::now();
            let not_sealed = self.writing();
            let piece = match self.cut_piece(keep) {
                0 => self.punch_piece(keep, PUNCH_BYTES_MIN),
                cut => cut,
            };
            drop(not_sealed);
            given += piece;
            if piece == 0 || !rest(started.elapsed()) {
                break;
            }
        }
        given
    }

    /// On a full disk: gives all free bytes beyond `keep` back, in pieces however small. Returns
    /// the bytes given back.
    pub(crate) fn give_all_back(&self, keep: u64) -> u64 {
        let _not_sealed = self.writing();
        let mut given = 0;
        loop {
            let piece = match self.cut_piece(keep) {
                0 => self.punch_piece(keep, PUNCH_UNIT),
                cut => cut,
            };
            given += piece;
            if piece == 0 {
                return given;
            }
        }
    }

    fn cut_piece(&self, keep: u64) -> u64 {
        let mut space = self.space.lock();
        let excess = space.free().saturating_sub(keep);
        self.cut(&mut space, excess.min(PIECE_BYTES_MAX))
    }

    fn punch_piece(&self, keep: u64, least: u64) -> u64 {
        let (hole, file) = {
            let mut space = self.space.lock();
            let excess = space.free().saturating_sub(keep);
            let most = excess.min(PIECE_BYTES_MAX);
            let extents = &mut space.extents;
            match extents.take_largest(PUNCH_UNIT, least, most) {
                Some(hole) => (hole, space.file.clone()),
                None => return 0,
            }
        };
        // Outside of the lock: the hole counts as used, so it is given to no run meanwhile.
        let punched = file.punch_hole(hole.offset, hole.len);
        let mut space = self.space.lock();
        if punched.is_err() {
            space.extents.free(hole);
            return 0;
        }
        space.add_punched(hole);
        hole.len
    }

    /// Cuts up to `bytes` free bytes at the end of the file, and punched holes there: those have no
    /// blocks, and go even if there are no free bytes to give back.
    fn cut(&self, space: &mut ContainerSpace, bytes: u64) -> u64 {
        space.forget_beyond();
        if space.extents.end() > space.allocated {
            // Used extents beyond the file's end are damage, which other code reports.
            return 0;
        }
        let (mut target, mut left) = (space.allocated, bytes);
        loop {
            let beyond = target.saturating_sub(space.extents.end()).min(left);
            (target, left) = (target - beyond, left - beyond);
            let cut = space.extents.end() - space.extents.trim_end(left);
            (target, left) = (target - cut, left - cut);
            let end = space.extents.end();
            match space.punched.last_key_value() {
                Some((&offset, &len)) if offset + len == target && target == end => {
                    space.punched.remove(&offset);
                    space.punched_bytes -= len;
                    space.extents.free(Extent { offset, len });
                    space.extents.trim_end(len);
                    target -= len;
                }
                _ => break,
            }
        }
        let target = target.next_multiple_of(PUNCH_UNIT);
        assert!(
            target >= space.extents.end(),
            "what is in use would be cut off"
        );
        // If this fails, the room is still there, and the allocator finds it when it grows.
        if target >= space.allocated || space.file.set_len(target).is_err() {
            return 0;
        }
        let given = space.allocated - target;
        space.allocated = target;
        given
    }

    fn grow(&self, space: &mut ContainerSpace, bytes: u64) -> Result<()> {
        let more = sectors(bytes.max(self.step_bytes()));
        let reserve = |len| {
            space
                .file
                .preallocate(space.allocated, len)
                .map_err(|source| Error::io(space.file.path(), "reserve room for logs", source))
        };
        // A nearly full disk may have the needed bytes, but no whole step.
        let got = reserve(more).map(|()| more).or_else(|_| {
            let least = sectors(bytes);
            reserve(least).map(|()| least)
        })?;
        space.allocated += got;
        Ok(())
    }

    /// An extent of `len` bytes, for a run. The caller writes runs: it has the checkpoint mutex, or
    /// holds [`Writing`].
    pub(crate) fn allocate(&self, len: u64) -> Result<u64> {
        let mut space = self.space.lock();
        if space.punched_bytes > 0
            && !space.extents.fits(len)
            && let Some(hole) = space.punched_for(sectors(len))
        {
            // If this fails, growing will fail, too.
            self.restore(&mut space, hole)?;
        }
        let extent = space.extents.allocate(sectors(len));
        let end = extent.offset + extent.len;
        if end > space.allocated {
            let more = end - space.allocated;
            if let Err(error) = self.grow(&mut space, more) {
                space.extents.free(extent);
                // No hole may lie beyond the blocks: it would be cut as if it had blocks.
                space.forget_beyond();
                return Err(error);
            }
        }
        Ok(container_base(space.number) + extent.offset)
    }

    /// Gives an extent back that [`allocate`](Self::allocate) or the manifest named.
    pub(crate) fn free(&self, offset: u64, len: u64) {
        let (number, offset) = in_container(offset);
        let len = sectors(len);
        let mut space = self.space.lock();
        match number == space.number {
            true => space.extents.free(Extent { offset, len }),
            // Under the lock: a container that is being sealed is one or the other.
            false => self.segments.free(number, len),
        }
    }

    /// A writer for one thread that writes runs, as of [`allocate`](Self::allocate).
    pub(crate) fn run_writer(&self) -> RunWriter {
        let space = self.space.lock();
        RunWriter {
            number: space.number,
            file: space.file.clone(),
            behind: WriteBehind::default(),
        }
    }

    pub(crate) fn sync(&self) -> Result<()> {
        let file = self.file();
        file.sync_data()
            .map_err(|source| Error::sync(file.path(), "sync the logs", source))
    }

    /// Seals the container: new runs go to `file`, which is new, of container `number`. `publish`
    /// makes that durable; if it fails, nothing is changed. No checkpoint is under way. Waits for
    /// others who write runs.
    pub(crate) fn seal(
        &self,
        (number, file): (u64, Arc<dyn File>),
        publish: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let _no_writer = self.gate.close();
        // The room that was promised to puts.
        let room = self.space.lock().free();
        if room > 0 {
            file.preallocate(0, room)
                .map_err(|source| Error::io(file.path(), "reserve room for logs", source))?;
        }
        publish()?;
        file.expect_random_reads();
        let mut space = self.space.lock();
        let free = space.free();
        self.cut(&mut space, free);
        let used = space.extents.used() - space.punched_bytes;
        self.segments.seal(space.number, used);
        self.segments.add(number, file.clone());
        *space = ContainerSpace {
            number,
            file,
            extents: Extents::new(0),
            allocated: room,
            punched: BTreeMap::new(),
            punched_bytes: 0,
        };
        // All of it has its blocks.
        self.punched_found.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// Writes runs into their extents, close to the device. Nothing is durable before
/// [`Container::sync`].
pub(crate) struct RunWriter {
    number: u64,
    file: Arc<dyn File>,
    behind: WriteBehind,
}

impl RunWriter {
    /// Sets how many pieces may be under way ([`WriteBehind::set_depth`]).
    pub(crate) fn set_depth(&mut self, pieces: usize) {
        self.behind.set_depth(pieces);
    }

    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        let (number, offset) = in_container(offset);
        assert_eq!(number, self.number, "a run of another container");
        self.behind
            .write_at(&*self.file, bytes, offset)
            .map_err(|source| Error::io(self.file.path(), "write a log run", source))
    }
}

/// The extent at a place of a container's file, for rebuilding the allocator.
pub(crate) fn extent_of(offset: u64, len: u64) -> Extent {
    Extent {
        offset,
        len: sectors(len),
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use evendb_storage::vfs::{SimVfs, Vfs};
    use std::path::Path;

    const STEP: u64 = 256 << 10;

    fn container(vfs: &SimVfs) -> Container {
        let file = vfs.create(Path::new("/logs")).unwrap();
        let container = Container::new(file, Extents::new(0), 0);
        container.set_grow_bytes(STEP);
        container
    }

    /// Extents of this length, one behind the other.
    fn allocated(container: &Container, runs: usize, bytes: u64) -> Vec<u64> {
        let runs = (0..runs).map(|_| container.allocate(bytes).unwrap());
        runs.collect()
    }

    #[test]
    fn free_room_goes_back_and_is_taken_again() {
        let vfs = SimVfs::new(1);
        let container = container(&vfs);
        let runs = allocated(&container, 64, 64 << 10);
        let full = vfs.used_bytes();
        assert_eq!(container.give_back(0, 100, &|_| true), 0, "nothing is free");
        // All except the last: there is nothing to cut, and everything to punch.
        for &run in &runs[..63] {
            container.free(run, 64 << 10);
        }
        assert!(container.give_back(STEP, 2, &|_| true) > 0);
        while container.give_back(STEP, 2, &|_| true) > 0 {}
        let (free, punched, allocated) = container.space();
        assert!((STEP..3 * STEP).contains(&free), "{free}");
        assert_eq!(allocated - punched, free + (64 << 10));
        assert!(
            vfs.used_bytes() < full / 3,
            "{} of {full}",
            vfs.used_bytes()
        );
        // The blocks come back before the file grows.
        container.ensure_room(free + (64 << 10)).unwrap();
        for _ in 0..63 {
            container.allocate(64 << 10).unwrap();
        }
        assert_eq!(container.space().2, allocated);
        assert_eq!(container.space().1, 0);
        assert_eq!(vfs.used_bytes(), full);
    }

    /// In an idle database, free bytes beyond the reserve go, even if they are less than a step.
    #[test]
    fn of_an_idle_database_only_the_reserve_stays() {
        let vfs = SimVfs::new(1);
        let container = container(&vfs);
        let runs = allocated(&container, 32, 64 << 10);
        for &run in &runs[..5] {
            container.free(run, 64 << 10);
        }
        let keep = STEP / 2;
        while container.give_back(keep, 10, &|_| true) > 0 {}
        let (free, ..) = container.space();
        assert!(
            free > keep + (64 << 10),
            "a step of it is left alone: {free}"
        );
        while container.give_excess_back(keep, 10, &|_| true) > 0 {}
        let (less, punched, allocated) = container.space();
        assert!((keep..keep + (32 << 10)).contains(&less), "{less}");
        assert_eq!(vfs.used_bytes(), allocated - punched);
        // Runs that are in use keep their blocks: all can be had again.
        container.ensure_room(free).unwrap();
        assert!(container.free_bytes() >= free);
    }

    #[test]
    fn the_end_is_cut_with_what_is_punched_there() {
        let vfs = SimVfs::new(1);
        let container = container(&vfs);
        let runs = allocated(&container, 64, 64 << 10);
        for &run in &runs[1..63] {
            container.free(run, 64 << 10);
        }
        while container.give_back(0, 10, &|_| true) > 0 {}
        container.free(runs[63], 64 << 10);
        container.free(runs[0], 64 << 10);
        container.ensure_room(2 * STEP).unwrap();
        while container.give_back(0, 10, &|_| true) > 0 {}
        let (free, punched, allocated) = container.space();
        assert_eq!(punched, 0, "{free} free of {allocated}");
        assert!(allocated < 2 * STEP, "{allocated}");
    }

    /// The file must not stay long when all that is at its end was punched before the last run
    /// there went: no free byte is left to give back then.
    #[test]
    fn punched_holes_at_the_end_are_cut_without_free_bytes() {
        let vfs = SimVfs::new(1);
        let container = container(&vfs);
        let runs = allocated(&container, 64, 64 << 10);
        for &run in &runs[8..63] {
            container.free(run, 64 << 10);
        }
        while container.give_excess_back(0, 100, &|_| true) > 0 {}
        let (free, punched, allocated) = container.space();
        assert_eq!((free, punched), (0, 55 * (64 << 10)));
        container.free(runs[63], 64 << 10);
        let keep = 64 << 10;
        // The reserve lies at the end: a run takes it, and leaves the punched holes behind it.
        assert_eq!(container.give_excess_back(keep, 100, &|_| true), 0);
        assert_eq!(container.space().2, allocated);
        container.free(runs[0], 64 << 10);
        while container.give_excess_back(keep, 100, &|_| true) > 0 {}
        assert_eq!(container.space(), (keep, 0, 8 * (64 << 10)));
        assert_eq!(vfs.used_bytes(), 8 * (64 << 10));
    }

    /// An allocation that found no room must not leave a hole behind that has no blocks. Cutting
    /// would take it for room to give back, and would cut into runs instead.
    #[test]
    fn what_a_full_disk_refused_is_not_cut_off_elsewhere() {
        let vfs = SimVfs::new(1);
        let container = container(&vfs);
        let runs = allocated(&container, 64, 16 << 10);
        let last = runs[63];
        container.run_writer().write(&[7; 16 << 10], last).unwrap();
        vfs.set_capacity(vfs.used_bytes());
        // Many small holes, and none is large enough for it.
        for &run in runs[..63].iter().step_by(2) {
            container.free(run, 16 << 10);
        }
        assert!(container.allocate(512 << 10).is_err());
        container.give_back(0, 1024, &|_| true);
        let mut bytes = vec![0; 16 << 10];
        let read = container.file().read_at(&mut bytes, last).unwrap();
        assert_eq!(read, bytes.len(), "the last run was cut off");
        assert!(bytes.iter().all(|byte| *byte == 7));
        // It does not keep the end from being cut once the end is free, either.
        container.free(last, 16 << 10);
        container.give_back(0, 1024, &|_| true);
        let (_, _, allocated) = container.space();
        assert!(allocated <= last, "{allocated} of {last}");
    }

    /// On a full disk small holes are given back, too, except the bytes to keep.
    #[test]
    fn room_is_lent_in_small_pieces() {
        let vfs = SimVfs::new(1);
        let container = container(&vfs);
        let runs = allocated(&container, 64, 16 << 10);
        for &run in runs.iter().step_by(2) {
            container.free(run, 16 << 10);
        }
        let full = vfs.used_bytes();
        assert_eq!(container.give_back(0, 1024, &|_| true), 0);
        let given = container.give_all_back(100 << 10);
        let free = container.free_bytes();
        assert!((100 << 10..104 << 10).contains(&free), "{free}");
        assert_eq!(vfs.used_bytes(), full - given);
        assert_eq!(container.give_all_back(free), 0);
        // The room comes back when the disk has it again.
        container.ensure_room(free + given).unwrap();
        assert_eq!(vfs.used_bytes(), full);
        assert_eq!(container.space().1, 0);
    }

    #[test]
    fn a_full_disk_is_refused_where_blocks_are_missing() {
        let vfs = SimVfs::new(1);
        let container = container(&vfs);
        let runs = allocated(&container, 64, 64 << 10);
        for &run in &runs[..63] {
            container.free(run, 64 << 10);
        }
        while container.give_back(STEP, 10, &|_| true) > 0 {}
        vfs.set_capacity(vfs.used_bytes());
        let (free, punched, _) = container.space();
        assert!(punched > 0);
        container.ensure_room(free).unwrap();
        assert!(container.ensure_room(free + 1).is_err());
        // Room with blocks can be used up to the last run.
        let mut left = free;
        while left >= 64 << 10 && container.allocate(64 << 10).is_ok() {
            left -= 64 << 10;
        }
        vfs.set_capacity(u64::MAX);
        container.ensure_room(punched).unwrap();
    }

    /// A sealed container is read and not written to; its file is given up with its last run, and
    /// not before; holes and room of the next one are its own.
    #[test]
    fn a_sealed_container_goes_with_its_last_run() {
        let vfs = SimVfs::new(1);
        let container = container(&vfs);
        let runs = [(); 3].map(|()| container.allocate(16 << 10).unwrap());
        for &run in &runs {
            container.run_writer().write(&[7; 16 << 10], run).unwrap();
        }
        container.free(runs[1], 16 << 10);
        let room = container.free_bytes();
        let next = |name: &str| vfs.create(Path::new(name)).unwrap();
        // A sealing that fails changes nothing.
        let failed = || {
            Err(Error::io(
                Path::new("/x"),
                "write",
                std::io::Error::other("planted"),
            ))
        };
        assert!(container.seal((1, next("/failed")), &failed).is_err());
        assert_eq!(container.segments().numbers(), [0]);
        let sealed = container.file();
        container.seal((1, next("/next")), &|| Ok(())).unwrap();
        assert!(container.free_bytes() >= room, "room that puts count on");
        assert_eq!(container.segments().numbers(), [0, 1]);
        let (len, file) = (sealed.len().unwrap(), container.segments().file(0).unwrap());
        let new = container.allocate(16 << 10).unwrap();
        assert_eq!(in_container(new), (1, 0), "in the next one, from its begin");
        container.run_writer().write(&[9; 16 << 10], new).unwrap();
        container.give_all_back(0);
        let mut bytes = vec![0; 16 << 10];
        file.read_at(&mut bytes, runs[2]).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 7) && file.len().unwrap() == len);
        container.free(runs[0], 16 << 10);
        assert!(!container.segments().has_unneeded());
        container.free(runs[2], 16 << 10);
        assert_eq!(container.segments().take_unneeded(), Some(0));
        assert_eq!(container.segments().take_unneeded(), None);
        // One without runs is given up at once.
        container.free(new, 16 << 10);
        container.seal((2, next("/third")), &|| Ok(())).unwrap();
        assert_eq!(container.segments().take_unneeded(), Some(1));
        assert_eq!(container.segments().numbers(), [2]);
    }
}
