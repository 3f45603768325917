//! Handles of tables, and the deletion of those that no chunk names any more.
//!
//! A [`TableHandle`] is shared by every view that names the table. Deletion needs both: the edit
//! that drops the last chunk's mention is durable ([`Registry::release`] runs after it), and the
//! last view is gone (the handle's drop). Then the file is removed, or the extent freed, by a
//! worker (I13). The handle's drop itself does no I/O, because a reader may be the last.

use super::container::Container;
use crate::error::Result;
use crate::manifest::edit::{Part, Place};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::once::OnceArc;
use crate::sync::{Arc, Mutex, Weak};
use evendb_storage::table::Table;
use evendb_storage::vfs::Vfs;
use evendb_storage::{Error, TableId};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Where unneeded tables go until a worker deletes them.
#[derive(Default)]
struct Reaper {
    queue: crossbeam_queue::SegQueue<(TableId, Place, u64)>,
    /// Bytes of tables that no chunk names any more and that are still there.
    bytes: AtomicU64,
}

/// One table on disk.
pub(crate) struct TableHandle {
    pub(crate) part: Part,
    vfs: Arc<dyn Vfs>,
    dir: Arc<PathBuf>,
    container: Arc<Container>,
    opened: OnceArc<Table>,
    /// The manifest no longer names it.
    released: AtomicBool,
    reaper: Arc<Reaper>,
}

/// All tables that the manifest names.
pub(crate) struct Tables {
    vfs: Arc<dyn Vfs>,
    dir: Arc<PathBuf>,
    container: Arc<Container>,
    registry: Arc<Registry>,
    reaper: Arc<Reaper>,
}

/// How many chunks name each table.
#[derive(Default)]
pub(crate) struct Registry(Mutex<HashMap<TableId, (Weak<TableHandle>, usize)>>);

impl Registry {
    /// One chunk fewer names each of the tables, and the edit that says so is durable. The caller
    /// gives the handles, so that each lives until here.
    pub(crate) fn release(&self, tables: Vec<Arc<TableHandle>>) {
        for table in tables {
            let mut known = self.0.lock();
            let id = table.part.table;
            let Some(entry) = known.get_mut(&id) else {
                continue;
            };
            entry.1 -= 1;
            if entry.1 == 0 {
                known.remove(&id);
                drop(known);
                let reaper = &table.reaper.bytes;
                reaper.fetch_add(table.part.meta.len, Ordering::Relaxed);
                table.released.store(true, Ordering::Release);
            }
        }
    }
}

/// The file of an SSTable.
pub(crate) fn table_path(dir: &Path, id: TableId) -> PathBuf {
    dir.join(format!("{:016x}.sst", id.0))
}

impl TableHandle {
    /// Bytes on disk.
    pub(crate) fn part_len(&self) -> u64 {
        self.part.meta.len
    }

    /// The table with its block index, loaded on first use.
    pub(crate) fn open(&self) -> Result<Arc<Table>> {
        if let Some(table) = self.opened.get() {
            return Ok(table);
        }
        let (file, offset) = match self.part.place {
            Place::File => {
                let path = table_path(&self.dir, self.part.table);
                let opened = self.vfs.open(&path, false);
                (
                    opened.map_err(|source| Error::io(&path, "open an SSTable", source))?,
                    0,
                )
            }
            Place::Extent { offset } => (self.container.file(), offset),
        };
        let path = file.path().to_owned();
        let table = Table::open(file, offset, self.part.meta.len, self.part.table)?;
        if table.meta().checksum != self.part.meta.checksum {
            return Err(
                Error::corruption(&path, offset, "not the table the manifest names").into(),
            );
        }
        Ok(self.opened.set(Arc::new(table)))
    }

    /// Bytes its block index takes in RAM now.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.opened.peek().map_or(0, Table::resident_bytes)
    }
}

impl Drop for TableHandle {
    fn drop(&mut self) {
        // Acquire pairs with the Release in `release`: the dropping edit is durable.
        if self.released.load(Ordering::Acquire) {
            self.reaper
                .queue
                .push((self.part.table, self.part.place, self.part.meta.len));
        }
    }
}

impl Tables {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, dir: &Path, container: Arc<Container>) -> Tables {
        Tables {
            vfs,
            dir: Arc::new(dir.to_owned()),
            container,
            registry: Arc::default(),
            reaper: Arc::default(),
        }
    }

    /// The handle of a table that one more chunk names from now on.
    pub(crate) fn acquire(&self, part: &Part) -> Arc<TableHandle> {
        let mut known = self.registry.0.lock();
        let entry = known.entry(part.table).or_insert_with(|| (Weak::new(), 0));
        entry.1 += 1;
        if let Some(handle) = entry.0.upgrade() {
            return handle;
        }
        let handle = Arc::new(TableHandle {
            part: part.clone(),
            vfs: self.vfs.clone(),
            dir: self.dir.clone(),
            container: self.container.clone(),
            opened: OnceArc::new(),
            released: AtomicBool::new(false),
            reaper: self.reaper.clone(),
        });
        entry.0 = Arc::downgrade(&handle);
        handle
    }

    /// The handle of a table that some chunk names. Whoever holds it keeps the table from being
    /// deleted.
    pub(crate) fn find(&self, id: TableId) -> Option<Arc<TableHandle>> {
        let known = self.registry.0.lock();
        known.get(&id).and_then(|entry| entry.0.upgrade())
    }

    /// The counts, for what runs after an edit.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.clone()
    }

    /// Bytes of tables that no chunk names any more and that are still there.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.reaper.bytes.load(Ordering::Relaxed)
    }

    /// Deletes what is no longer needed. Failing to remove a file is no error of the database:
    /// the next opening removes what the manifest does not name.
    pub(crate) fn reap(&self) {
        while let Some((id, place, len)) = self.reaper.queue.pop() {
            // Relaxed: a figure.
            self.reaper.bytes.fetch_sub(len, Ordering::Relaxed);
            match place {
                Place::File => {
                    let _ = self.vfs.remove(&table_path(&self.dir, id));
                }
                Place::Extent { offset } => self.container.free(offset, len),
            }
        }
    }
}
