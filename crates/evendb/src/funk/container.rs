//! The log container: one file that holds the runs of all chunks' logs, each in an extent.
//!
//! A checkpoint writes thousands of small runs; in one file they are neighbours, cost one
//! `fdatasync`, and no file is created. Extents are in units of 512 bytes: two runs never share a
//! sector, so a torn write cannot damage a neighbour.
//!
//! Room for runs is preallocated ahead ([`Container::ensure_room`]), so that a full disk refuses a
//! put before anything of it is logged, and not a checkpoint after.

use super::extents::{Extent, Extents};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex};
use evendb_storage::vfs::File;
use evendb_storage::{Error, Result};

/// How much the file grows at a time, at least.
const GROW_BYTES_MIN: u64 = 256 << 10;

struct Space {
    extents: Extents,
    /// The file's blocks are reserved up to here.
    allocated: u64,
}

/// The container file and its free space.
pub(crate) struct Container {
    file: Arc<dyn File>,
    space: Mutex<Space>,
    grow_bytes: u64,
    /// The disk is full: take what is needed, and no step ahead.
    sparing: AtomicBool,
}

fn sectors(len: u64) -> u64 {
    len.next_multiple_of(512)
}

impl Container {
    /// `extents` holds what the manifest names; `allocated` is the file's length.
    pub(crate) fn new(
        file: Arc<dyn File>,
        extents: Extents,
        allocated: u64,
        grow_bytes: u64,
    ) -> Container {
        let grow_bytes = grow_bytes.max(GROW_BYTES_MIN);
        Container {
            file,
            space: Mutex::new(Space { extents, allocated }),
            grow_bytes,
            sparing: AtomicBool::new(false),
        }
    }

    /// Whether to take no more of the disk than is needed.
    pub(crate) fn set_sparing(&self, yes: bool) {
        self.sparing.store(yes, Ordering::Relaxed);
    }

    pub(crate) fn file(&self) -> Arc<dyn File> {
        self.file.clone()
    }

    /// Bytes that can be written without asking the disk for room.
    pub(crate) fn free_bytes(&self) -> u64 {
        let space = self.space.lock();
        space.allocated.saturating_sub(space.extents.used())
    }

    /// Makes sure that `bytes` more can be written without asking the disk for room.
    pub(crate) fn ensure_room(&self, bytes: u64) -> Result<()> {
        let mut space = self.space.lock();
        let free = space.allocated.saturating_sub(space.extents.used());
        if free >= bytes {
            return Ok(());
        }
        self.grow(&mut space, bytes - free)
    }

    fn grow(&self, space: &mut Space, bytes: u64) -> Result<()> {
        let step = match self.sparing.load(Ordering::Relaxed) {
            true => 0,
            false => self.grow_bytes,
        };
        let more = sectors(bytes.max(step));
        let reserve = |len| {
            self.file
                .preallocate(space.allocated, len)
                .map_err(|source| Error::io(self.file.path(), "reserve room for logs", source))
        };
        // A nearly full disk may have what is needed, if not a whole step.
        let got = reserve(more).map(|()| more).or_else(|_| {
            let least = sectors(bytes);
            reserve(least).map(|()| least)
        })?;
        space.allocated += got;
        Ok(())
    }

    /// An extent of `len` bytes.
    pub(crate) fn allocate(&self, len: u64) -> Result<u64> {
        let mut space = self.space.lock();
        let extent = space.extents.allocate(sectors(len));
        let end = extent.offset + extent.len;
        if end > space.allocated {
            let more = end - space.allocated;
            if let Err(error) = self.grow(&mut space, more) {
                space.extents.free(extent);
                return Err(error);
            }
        }
        Ok(extent.offset)
    }

    /// Gives an extent back that [`allocate`](Self::allocate) or the manifest named.
    pub(crate) fn free(&self, offset: u64, len: u64) {
        self.space.lock().extents.free(Extent {
            offset,
            len: sectors(len),
        });
    }

    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file
            .write_at(bytes, offset)
            .map_err(|source| Error::io(self.file.path(), "write a log run", source))
    }

    pub(crate) fn sync(&self) -> Result<()> {
        self.file
            .sync_data()
            .map_err(|source| Error::io(self.file.path(), "sync the logs", source))
    }
}

/// The extent of the manifest's part, for rebuilding the allocator.
pub(crate) fn extent_of(offset: u64, len: u64) -> Extent {
    Extent {
        offset,
        len: sectors(len),
    }
}
