//! [`TableFile`]: a table of a tree, open or not yet, whose file is removed with its last user.
//! [`TableOutput`]: a new table on its way to the disk.
//!
//! A table's life: [`TableOutput::create`], records, [`TableOutput::finish`] (the file is synced,
//! its name is not), an edit that names it, a later edit that does not name it any more,
//! [`TableFile::retire`] when that edit is durable, the drop of the last handle. A tree and its
//! readers hold handles, so a file is removed when nothing needs it. A table that was not retired
//! keeps its file when its handles are dropped: the database was closed. So does a table whose last
//! handle is dropped after the directory was [given up](TableDir::give_up).
//!
//! A table is opened when it is needed, and may be closed again when many are open (`open`).
//!
//! Thread safety: a [`TableFile`] is shared freely; a [`TableOutput`] belongs to one thread at a
//! time.
//! Not here: names synced in the directory (the manifest does that), leftovers of a crash (opening
//! removes them), caches.

mod open;

use crate::files::{FileName, FileNumbers};
use crate::options::TableLimits;
use crate::types::Age;
use evendb_base::fork;
use evendb_base::sync::atomic::{AtomicBool, Ordering};
use evendb_base::sync::lazy::LazyArc;
use evendb_base::sync::reclaim::Guard;
use evendb_base::sync::{Arc, Mutex};
use evendb_storage::key_hash::FilterHash;
use evendb_storage::table::{Table, TableMeta, TableOptions, TableWriter};
use evendb_storage::vfs::{Appender, File, Vfs, open_among_many};
use evendb_storage::{EntryRef, Error, Result, TableId};
use open::OpenTables;
use std::path::{Path, PathBuf};

/// A table is written in pieces of this many bytes.
const PIECE_BYTES: usize = 1 << 20;

/// The directory of a database's tables, and which of them are open.
#[derive(Debug)]
pub(crate) struct TableDir {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    open: OpenTables,
    /// Whether the directory is still this database's, so that it may remove files there. The lock
    /// is held while a file is removed.
    ours: Mutex<bool>,
}

impl TableDir {
    /// Tables in `dir`, with these limits for open tables.
    pub(crate) fn new(vfs: Arc<dyn Vfs>, dir: &Path, limits: TableLimits) -> Arc<TableDir> {
        Arc::new(TableDir {
            vfs,
            dir: dir.to_owned(),
            open: OpenTables::new(limits),
            ours: Mutex::new(true),
        })
    }

    /// Call it before the claim on the directory is given up. Files of tables that are dropped from
    /// then on are left to the next opening: the directory may then be another database's, with
    /// files of the same names.
    pub(crate) fn give_up(&self) {
        *self.ours.lock() = false;
    }

    /// Removes a table's file, while the directory is ours. If the file stays, the next opening
    /// removes it.
    fn remove(&self, number: TableId) {
        let ours = self.ours.lock();
        if *ours {
            let _ = self.vfs.remove(&self.path(number));
        }
    }

    /// The number of tables that are kept open.
    pub(crate) fn open_tables(&self) -> u64 {
        self.open.files()
    }

    /// Bytes of tables' indexes and filters in memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.open.resident()
    }

    /// Opens a table's file. If the process has no descriptor left, it closes other tables first.
    fn open_file(&self, path: &Path) -> Result<Arc<dyn File>> {
        let named = (path, "open a table");
        open_among_many(&*self.vfs, named, &|| true, &|| self.open.close_half())
    }

    fn path(&self, number: TableId) -> PathBuf {
        FileName::Table(number).path(&self.dir)
    }
}

/// A table at its place in a tree.
#[derive(Debug)]
pub(crate) struct TableFile {
    /// The number in its name.
    pub(crate) number: TableId,
    /// How new its records are.
    pub(crate) age: Age,
    /// What the manifest says about it.
    pub(crate) meta: Arc<TableMeta>,
    file: Arc<Shared>,
}

/// The part of a file that all of its handles share. A file has different places in turn.
#[derive(Debug)]
struct Shared {
    place: Arc<TableDir>,
    number: TableId,
    opened: LazyArc<Table>,
    /// Whether it was used since it was opened, or since it was last spared. A hint, which orders
    /// nothing else.
    used: AtomicBool,
    /// One thread sets it. The drop reads it, and the drop comes after all uses.
    retired: AtomicBool,
}

impl Shared {
    fn note_use(&self) {
        // Stored only if needed: other threads read this cache line.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was used. The note of that is cleared.
    fn was_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Closes it, if it is open. The next use opens it again.
    fn close(&self) {
        if let Some(table) = self.opened.clear() {
            self.place.open.closed(&table);
        }
    }
}

impl TableFile {
    /// A table that exists. Nothing is read yet.
    pub(crate) fn new(
        place: &Arc<TableDir>,
        number: TableId,
        age: Age,
        meta: TableMeta,
    ) -> Arc<TableFile> {
        Arc::new(TableFile {
            number,
            age,
            meta: Arc::new(meta),
            file: Arc::new(Shared {
                place: place.clone(),
                number,
                opened: LazyArc::new(),
                used: AtomicBool::new(false),
                retired: AtomicBool::new(false),
            }),
        })
    }

    /// The same table at another place in the order.
    pub(crate) fn with_age(&self, age: Age) -> Arc<TableFile> {
        Arc::new(TableFile {
            number: self.number,
            age,
            meta: self.meta.clone(),
            file: self.file.clone(),
        })
    }

    /// The open table. After a failure the next call tries again.
    pub(crate) fn open(&self) -> Result<Arc<Table>> {
        let shared = &self.file;
        if let Some(table) = shared.opened.get() {
            shared.note_use();
            return Ok(table);
        }
        // Two threads may both read it. One of the two results stays.
        let table = Arc::new(shared.place.open.account(self.read()?));
        if shared.opened.offer(&table) {
            shared.place.open.opened(shared, &table);
            return Ok(table);
        }
        Ok(shared.opened.get().unwrap_or(table))
    }

    /// Whether the filter says that no record has a key of this hash. `false` too if the table is
    /// not open. It does no I/O, and writes to no shared counter.
    pub(crate) fn is_ruled_out(&self, hash: FilterHash, pin: &Guard) -> bool {
        self.file.opened.peek(pin).is_some_and(|table| {
            self.file.note_use();
            !table.may_contain(hash)
        })
    }

    fn read(&self) -> Result<Table> {
        let path = self.path();
        let file = self.file.place.open_file(&path)?;
        file.expect_random_reads();
        let table = Table::open(file, 0, self.meta.len, self.number)?;
        match *table.meta() == *self.meta {
            true => Ok(table),
            false => Err(Error::corruption(
                &path,
                0,
                "not the table that the manifest names",
            )),
        }
    }

    /// The path of its file.
    pub(crate) fn path(&self) -> PathBuf {
        self.file.place.path(self.number)
    }

    /// Whether the table may have records of this key, by its limits.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        *self.meta.min_key <= *key && *key <= *self.meta.max_key
    }

    /// Marks that no durable edit names it any more: the file is removed with the last handle.
    pub(crate) fn retire(&self) {
        self.file.retired.store(true, Ordering::Relaxed);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if fork::is_child() {
            // The parent may still read the file, and its threads may hold the lock of the open
            // tables.
            return;
        }
        if let Some(table) = self.opened.take() {
            self.place.open.closed(&table);
        }
        if self.retired.load(Ordering::Relaxed) {
            self.place.remove(self.number);
        }
    }
}

/// How tables are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableForm {
    /// The layout.
    pub(crate) options: TableOptions,
    /// Whether written data stays out of the system's cache, if the system can do that.
    pub(crate) past_cache: bool,
    /// The number of pieces that may be on their way to the disk while the next one is made
    /// ([`Appender::set_depth`]).
    pub(crate) writes_ahead: usize,
}

/// How and where tables are made.
#[derive(Clone, Debug)]
pub(crate) struct Making {
    pub(crate) place: Arc<TableDir>,
    pub(crate) numbers: Arc<FileNumbers>,
    pub(crate) form: TableForm,
    /// A table ends with the key at which it reaches this many bytes.
    pub(crate) table_bytes_max: u64,
    #[cfg(test)]
    pub(crate) plant: crate::plant::Plant,
}

/// A table that is being written. If it is dropped before it is kept, it leaves no file.
pub(crate) struct TableOutput {
    file: NewFile,
    writer: TableWriter<Appender>,
}

/// A file that is removed unless it is kept.
struct NewFile {
    place: Arc<TableDir>,
    number: TableId,
    kept: bool,
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.kept {
            self.place.remove(self.number);
        }
    }
}

/// A table whose file is written and synced. If it is dropped before it is kept, it leaves no file.
pub(crate) struct FinishedTable {
    file: NewFile,
    /// Its properties.
    pub(crate) meta: TableMeta,
}

impl FinishedTable {
    /// The table as a part of a tree. From here on the manifest decides about the file. Call it
    /// when an edit that names the table is about to be written.
    pub(crate) fn keep(mut self, age: Age) -> Arc<TableFile> {
        self.file.kept = true;
        TableFile::new(&self.file.place, self.file.number, age, self.meta)
    }
}

impl TableOutput {
    /// Creates the file of a new table.
    pub(crate) fn create(
        place: &Arc<TableDir>,
        number: TableId,
        form: TableForm,
    ) -> Result<TableOutput> {
        let path = place.path(number);
        let created = place.vfs.create(&path);
        let created = created.map_err(|source| Error::io(&path, "create a table", source))?;
        let file = NewFile {
            place: place.clone(),
            number,
            kept: false,
        };
        let mut appender = Appender::new(created, PIECE_BYTES, form.past_cache);
        appender.set_depth(form.writes_ahead);
        let writer = TableWriter::new(appender, number, form.options).sealed(place.vfs.secrets());
        Ok(TableOutput { file, writer })
    }

    /// Appends a record: keys ascending, versions of a key descending.
    pub(crate) fn add(&mut self, entry: EntryRef<'_>) -> Result<()> {
        self.writer.add(entry)
    }

    /// About how many bytes the table has so far.
    pub(crate) fn bytes_estimate(&self) -> u64 {
        self.writer.bytes_estimate()
    }

    /// Writes the rest, and makes the file durable, but not its name.
    pub(crate) fn finish(self) -> Result<FinishedTable> {
        let (appender, meta) = self.writer.finish()?;
        let file = appender.file();
        file.sync_data()
            .map_err(Error::at(file.path(), "sync a table"))?;
        Ok(FinishedTable {
            file: self.file,
            meta,
        })
    }
}

#[cfg(all(test, not(evendb_loom)))]
mod open_tests;
#[cfg(test)]
pub(crate) mod tests;
