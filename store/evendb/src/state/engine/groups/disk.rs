//! The files of an open database, and how much room they have.
//!
//! Thread safety: any thread; each part has its own rules. Not here: the commit log
//! ([`crate::engine::log`]), and the content of the files.

use crate::engine::health::Health;
use crate::full_disk::FullDisk;
use crate::manifest::writer::Manifest;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, reclaim};
use crate::tables::Tables;
use crate::tables::container::Container;
use evendb_storage::vfs::Vfs;
use evendb_storage::{Error, Result, TableId, random};
use std::path::PathBuf;

/// See the module.
pub(crate) struct Disk {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) dir: PathBuf,
    /// `None` when open for reading only.
    pub(crate) manifest: Option<Arc<Manifest>>,
    pub(crate) tables: Tables,
    pub(crate) container: Arc<Container>,
    /// The room that is kept back for a full disk, and the calls that were refused.
    pub(crate) full_disk: FullDisk,
    /// The number of this opening. Everything that it writes to the disk carries the number.
    pub(crate) epoch: u64,
    /// A compaction asked for the smallest size: at its end the database gives back the room that
    /// it kept for future puts.
    pub(crate) shrinks_at_end: AtomicBool,
    pub(crate) next_id: AtomicU64,
}

impl Disk {
    /// The files of a directory that is open from now on; `epoch` is the number of this opening.
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        dir: PathBuf,
        manifest: Option<Arc<Manifest>>,
        tables: Tables,
        full_disk: FullDisk,
        epoch: u64,
    ) -> Disk {
        Disk {
            vfs,
            dir,
            manifest,
            container: tables.container().clone(),
            tables,
            full_disk,
            epoch,
            shrinks_at_end: AtomicBool::new(false),
            // The epoch is in the high bits, so an id given out but never recorded is not reused.
            next_id: AtomicU64::new((epoch << 32) + 1),
        }
    }

    /// A number that was never given out before, in this life or an earlier one.
    pub(crate) fn new_id(&self) -> u64 {
        // Relaxed: the number only has to be unique.
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// A number for a value file. The high half is the epoch. The low half is random, so that no
    /// two files have the same number, not even in copies of a database that were opened
    /// separately: backups share files by their numbers.
    pub(crate) fn new_value_file_id(&self) -> Result<u64> {
        let chance = random::number();
        let chance = chance.map_err(|source| Error::io(&self.dir, "get random numbers", source))?;
        Ok(self.epoch << 32 | chance >> 32)
    }

    /// A table's number, never given out before.
    pub(crate) fn new_table_id(&self) -> TableId {
        TableId(self.new_id())
    }

    /// The manifest of a database that is open for writing.
    pub(crate) fn manifest(&self) -> &Manifest {
        self.manifest
            .as_ref()
            .expect("only called where writing has been allowed")
    }

    /// Frees memory that no reader sees any more, and the files and extents that it described.
    pub(crate) fn collect(&self, health: &Health) {
        self.collect_memory(health);
        while health.may_remove() && self.tables.remove_file() {}
        self.tables.let_go();
    }

    /// Like [`Disk::collect`], but leaves the files to the reaper, because removing them takes
    /// long.
    pub(crate) fn collect_memory(&self, health: &Health) {
        reclaim::collect();
        if health.may_remove() {
            self.tables.free_extents();
        }
    }
}
