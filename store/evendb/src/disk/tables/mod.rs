//! Handles of tables, and the deletion of tables that no chunk names any more.
//!
//! A [`TableHandle`] is shared by every view that names the table. Deletion needs two conditions:
//! the edit that drops the last chunk's mention is durable ([`Registry::release`] runs after it),
//! and the last view is gone (the handle's drop). Then a thread of the database's own removes the
//! file or frees the extent (I13). The handle's drop itself does no I/O, because the last holder
//! may be a reader.
//!
//! **Open tables** take memory (block index, filter) and, where the table is a file, a file
//! descriptor; both have a limit. A table is opened on use and closed by second chance. `opened`
//! names the open tables, oldest first. Each use of a table sets its touched bit. Above a limit the
//! oldest is closed, or, if it was touched, spared once. The next user of a closed table opens it
//! again, with one read if its tail is short. Readers in the middle keep what they have. No thread
//! waits: queue and cell are lock-free, and an opener does a bounded number of steps.

pub(crate) mod container;
pub(crate) mod extents;
mod open_files;
pub(crate) mod segments;

pub(crate) use open_files::FilesMax;

use crate::error::Result;
use crate::files::{container_name, in_container};
use crate::manifest::edit::{Part, Place, Role};
use crate::memory::{Charge, Ledger, TABLE_BYTES, Use, allocated_bytes};
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use crate::sync::lazy::LazyArc;
use crate::sync::{Arc, Mutex, Weak, reclaim};
use crate::value_files::{NeededByTable, ValueFiles};
use container::Container;
use evendb_storage::table::Table;
use evendb_storage::vfs::{BLOCK_BYTES, File, Vfs, open_among_many};
use evendb_storage::{Error, TableId, Version};
use open_files::OpenFiles;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The largest number of steps of second chance for one opener.
const STEPS_MAX: usize = 64;
/// Closed tables may have at least this number of descriptors.
const DESCRIPTORS_MIN: u64 = 64;

/// Unneeded tables, until a thread of the database's own deletes them.
#[derive(Default)]
struct Reaper {
    /// Offset and length of tables in the container.
    extents: crossbeam_queue::SegQueue<(u64, u64)>,
    files: crossbeam_queue::SegQueue<(TableId, u64, Option<Arc<Table>>)>,
    /// Tables whose files are removed, and which other threads may still hold. They are held here,
    /// too, so that the reaper is the last holder, with which the file system frees the blocks.
    leaving: Mutex<Vec<(Arc<Table>, u64)>>,
    /// Bytes of tables that no chunk names any more and that still exist.
    bytes: AtomicU64,
    /// Bytes in blocks of the ones that are files.
    file_bytes: AtomicU64,
}

impl Reaper {
    /// Lowered only when the blocks are free, because threads that wait for room look at it.
    fn gone(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn file_is_gone(&self, bytes: u64) {
        self.file_bytes
            .fetch_sub(file_blocks(bytes), Ordering::Relaxed);
        self.gone(bytes);
    }
}

/// The bytes of the blocks of a file of this length, as far as file systems agree.
pub(crate) fn file_blocks(len: u64) -> u64 {
    len.next_multiple_of(BLOCK_BYTES as u64)
}

/// Index, filter and footer of a long table take about one part in this number of its bytes.
const END_PART: u64 = 64;

/// Whether a block for each key is worth its cost in a run of this number of records, and of bytes
/// of keys and values together. With such blocks a scan reads only the records that it returns. A
/// block takes some 20 bytes on the disk and in memory beside the key; and each scan reads some
/// records of a large run in any case.
pub(crate) fn are_worth_naming(records: u64, bytes: u64) -> bool {
    const RECORDS_MAX: u64 = 128;
    const RECORD_BYTES_MIN: u64 = 256;
    (1..=RECORDS_MAX).contains(&records) && bytes / records >= RECORD_BYTES_MIN
}

/// Bytes that a table keeps for each value file that it names: twice its figures, and a reference.
const VALUE_FILE_BYTES: usize = 56;

/// One table on disk.
pub(crate) struct TableHandle {
    pub(crate) part: Part,
    opened: LazyArc<Table>,
    /// Used since it was opened, or since it was last spared.
    touched: AtomicBool,
    /// The manifest no longer names it.
    released: AtomicBool,
    /// A job of guards could not read it, so jobs leave it out until the database is reopened.
    damaged: AtomicBool,
    /// See [`TableHandle::max_version`].
    max_version: AtomicU64,
    /// The value files of its values that lie apart.
    values: NeededByTable,
    shared: Arc<SharedByTables>,
    charge: Charge,
}

/// The data that all handles share.
struct SharedByTables {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    container: Arc<Container>,
    value_files: Arc<ValueFiles>,
    /// Unneeded tables, until a worker deletes them.
    reaper: Reaper,
    ledger: Ledger,
    /// Tables in the order in which they were opened; some of them may be closed or gone.
    opened: crossbeam_queue::SegQueue<Weak<TableHandle>>,
    /// Bytes and files of the open tables; closed tables that are still in use do not count.
    bytes: AtomicI64,
    files: OpenFiles,
    /// The number of descriptors of tables, including closed tables that are not freed yet.
    descriptors: Arc<AtomicU64>,
    bytes_max: AtomicU64,
}

/// All tables that the manifest names.
pub(crate) struct Tables {
    shared: Arc<SharedByTables>,
    registry: Arc<Registry>,
}

/// The number of chunks that name each table.
#[derive(Default)]
pub(crate) struct Registry(Mutex<HashMap<TableId, (Weak<TableHandle>, usize)>>);

impl Registry {
    /// Notes that each of the tables is named by one chunk fewer; the edit that says so is durable.
    /// The caller gives the handles, so that each lives until here.
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
                let (reaper, len) = (&table.shared.reaper, table.part.meta.len);
                reaper.bytes.fetch_add(len, Ordering::Relaxed);
                if table.part.place == Place::File {
                    reaper
                        .file_bytes
                        .fetch_add(file_blocks(len), Ordering::Relaxed);
                }
                table.values.stop_counting();
                table.released.store(true, Ordering::Release);
            }
        }
    }
}

/// The file of an SSTable.
pub(crate) fn table_path(dir: &Path, id: TableId) -> PathBuf {
    dir.join(format!("{:016x}.sst", id.0))
}

/// The file of container `number`.
pub(crate) fn container_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(container_name(number))
}

/// The file that holds a part's table.
pub(crate) fn part_path(dir: &Path, part: &Part) -> PathBuf {
    match part.place {
        Place::File => table_path(dir, part.table),
        Place::Extent { offset } => container_path(dir, in_container(offset).0),
    }
}

impl TableHandle {
    /// A job of guards could not read it.
    pub(crate) fn note_damage(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    /// Whether a job of guards could not read it, so that jobs leave it out.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Memory charged for the handle; the open table is charged for itself.
    pub(crate) fn charged_bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Bytes on disk.
    pub(crate) fn part_len(&self) -> u64 {
        self.part.meta.len
    }

    /// No record has a greater version. All records of an ingested table have this version: in the
    /// life of the ingest it is the version at which the table was shown, later the version in the
    /// manifest. Its rows have no versions.
    pub(crate) fn max_version(&self) -> Version {
        // Relaxed: set before the table is in any view.
        Version(self.max_version.load(Ordering::Relaxed))
    }

    /// Shows the records of an ingested table at `version`. No view has the table yet.
    pub(crate) fn show_at(&self, version: Version) {
        self.max_version.store(version.0, Ordering::Relaxed);
    }

    /// The table with its block index, loaded on use.
    pub(crate) fn open(self: &Arc<Self>) -> Result<Arc<Table>> {
        if let Some(table) = self.opened.get() {
            // Stored only if needed: other threads read this cache line.
            if !self.touched.load(Ordering::Relaxed) {
                self.touched.store(true, Ordering::Relaxed);
            }
            return Ok(table);
        }
        let table = Arc::new(self.read()?);
        // Counted if the cell takes it. If another thread was faster, and its table was closed
        // since then, only this reader keeps the table.
        if !self.opened.offer(&table) {
            return Ok(self.opened.get().unwrap_or(table));
        }
        self.shared.count(self, &table, 1);
        self.shared.opened.push(Arc::downgrade(self));
        self.shared.close_some(STEPS_MAX);
        self.shared.collect_if_much();
        Ok(table)
    }

    /// About which share of the table's bytes, from 0 to 1, belongs to the keys from `low` to below
    /// `high`. Only a table that the range cuts is opened for it, which reads its block index.
    pub(crate) fn share_between(self: &Arc<Self>, low: &[u8], high: Option<&[u8]>) -> Result<f64> {
        let meta = &self.part.meta;
        if !meta.overlaps(low, high) {
            return Ok(0.0);
        }
        let ends_before = high.is_none_or(|high| *meta.max_key < *high);
        match *low <= *meta.min_key && ends_before {
            true => Ok(1.0),
            false => Ok(self.open()?.share_between(low, high)),
        }
    }

    /// Tells the system that all of the table will be read soon, whether it is open or not. A hint.
    pub(crate) fn will_need(&self) {
        match self.opened.get() {
            Some(table) => table.will_need(),
            None => self.will_need_of_file(0),
        }
    }

    /// Tells the system that the table will be opened soon. A hint.
    pub(crate) fn will_open(&self) {
        // Opening a file takes as long as the reads that would be spared.
        if matches!(self.part.place, Place::Extent { .. }) && !self.is_open() {
            self.will_need_of_file(self.part.meta.len - self.tail_bytes());
        }
    }

    /// Like [`will_open`](Self::will_open), for a scan that comes to the table later. It is done
    /// for a file, too, which is then opened twice.
    pub(crate) fn will_open_for_scan(&self) {
        let len = self.part.meta.len;
        self.will_need_of_file(len - self.tail_bytes().max(len / END_PART));
    }

    /// How many of the table's last bytes are read to open it. Of a keyed run that is index, filter
    /// and footer, for no block of it is kept; of others it may be all of it.
    fn tail_bytes(&self) -> u64 {
        let meta = &self.part.meta;
        let most = Table::tail_bytes(meta.len);
        match self.part.role != Role::Base && are_worth_naming(meta.entries, meta.data_bytes) {
            true => meta.len.saturating_sub(meta.data_bytes).min(most),
            false => most,
        }
    }

    /// Whether the table is open.
    pub(crate) fn is_open(&self) -> bool {
        self.opened.is_set()
    }

    /// Tells the system that the table's bytes from `relative` on will be read soon. The table need
    /// not be open.
    fn will_need_of_file(&self, relative: u64) {
        let len = self.part.meta.len - relative;
        match self.part.place {
            Place::Extent { offset } => {
                let (number, offset) = in_container(offset);
                if let Some(file) = self.shared.container.segments().file(number) {
                    file.will_need(offset + relative, len);
                }
            }
            Place::File => {
                let path = table_path(&self.shared.dir, self.part.table);
                if let Ok(file) = self.shared.vfs.open(&path, false) {
                    file.will_need(relative, len);
                }
            }
        }
    }

    /// Opens the file, and closes others if there are too many for the process.
    fn open_file(&self, path: &Path) -> Result<Arc<dyn File>> {
        let shared = &self.shared;
        let (may, named) = (|| shared.may_have_one_more(), (path, "open an SSTable"));
        let file = open_among_many(&*shared.vfs, named, &may, &|| {
            shared.close_half();
            reclaim::collect();
        })?;
        // Scans and rewrites themselves read many blocks at once.
        file.expect_random_reads();
        Ok(file)
    }

    fn read(&self) -> Result<Table> {
        let (file, offset, descriptor) = match self.part.place {
            Place::File => {
                let path = table_path(&self.shared.dir, self.part.table);
                let file = self.open_file(&path)?;
                (file, 0, Some(Descriptor::new(&self.shared.descriptors)))
            }
            Place::Extent { offset } => {
                let (number, offset) = in_container(offset);
                let file = self.shared.container.segments().file(number);
                let lost = || {
                    let path = container_path(&self.shared.dir, number);
                    Error::corruption(&path, offset, "the file with a run is not there")
                };
                (file.ok_or_else(lost)?, offset, None)
            }
        };
        let (len, id) = (self.part.meta.len, self.part.table);
        let table = Table::open_by_tail(file.clone(), offset, len, id, self.tail_bytes())?;
        if table.meta().checksum != self.part.meta.checksum {
            let what = "not the table the manifest names";
            return Err(file.unverified(offset, what).into());
        }
        let table = match self.part.version_of_rows(table.meta()) {
            Some(_) => table.with_version(self.max_version()),
            None => table,
        };
        let bytes = table.resident_bytes() + allocated_bytes(size_of::<Charge>());
        let charge = Charge::new(self.shared.ledger, Use::Tables, bytes);
        Ok(table.with_companion(Box::new((charge, descriptor))))
    }

    /// Closes the table, if it is open, and returns it: the next use opens it again.
    fn close(&self) -> Option<Arc<Table>> {
        let table = self.opened.clear()?;
        self.shared.count(self, &table, -1);
        Some(table)
    }
}

/// Counts in [`SharedByTables::descriptors`] until it is dropped with its table.
struct Descriptor(Arc<AtomicU64>);

impl Descriptor {
    fn new(count: &Arc<AtomicU64>) -> Descriptor {
        count.fetch_add(1, Ordering::Relaxed);
        Descriptor(count.clone())
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SharedByTables {
    fn count(&self, handle: &TableHandle, table: &Table, sign: i64) {
        let bytes = sign * table.resident_bytes() as i64;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if handle.part.place == Place::File {
            self.files.add(sign);
        }
    }

    fn is_over(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.bytes_max.load(Ordering::Relaxed) as i64
            || self.files.are_too_many()
    }

    /// Closes tables while they are above a limit, looking at no more than `steps`.
    fn close_some(&self, steps: usize) {
        for _ in 0..steps {
            if !self.is_over() {
                break;
            }
            let Some(oldest) = self.opened.pop() else {
                break;
            };
            let Some(handle) = oldest.upgrade() else {
                continue;
            };
            if handle.touched.swap(false, Ordering::Relaxed) {
                self.opened.push(oldest);
            } else {
                drop(handle.close());
            }
        }
    }

    /// Whether one more file may be opened, although some closed tables still have their
    /// descriptors: readers that open and close one table after the other are faster than the
    /// freeing.
    fn may_have_one_more(&self) -> bool {
        let most = self.files.max.most;
        let most = most.saturating_add((most / 2).max(DESCRIPTORS_MIN));
        let may = || self.descriptors.load(Ordering::Relaxed) < most;
        may() || {
            reclaim::collect();
            may()
        }
    }

    /// Frees closed tables if they take much memory: otherwise gets that open and close one table
    /// after the other would be faster than upkeep.
    fn collect_if_much(&self) {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        let held = self.ledger.bytes(Use::Tables);
        if held > bytes_max.saturating_add((bytes_max / 4).max(256 << 10)) {
            reclaim::collect();
        }
    }

    /// Closes every second table.
    fn close_half(&self) {
        for step in 0..self.opened.len() {
            let Some(handle) = self.opened.pop() else {
                break;
            };
            match handle.upgrade() {
                Some(open) if step % 2 == 0 => drop(open.close()),
                Some(_) => self.opened.push(handle),
                None => {}
            }
        }
    }

    /// Forgets queue entries of tables that are gone, if there are many: each keeps a handle's
    /// memory.
    fn prune(&self, live: usize) {
        let len = self.opened.len();
        if len < 2 * live + 1024 {
            return;
        }
        for _ in 0..len {
            let Some(handle) = self.opened.pop() else {
                break;
            };
            if handle.upgrade().is_some_and(|open| open.opened.is_set()) {
                self.opened.push(handle);
            }
        }
    }
}

impl Drop for TableHandle {
    fn drop(&mut self) {
        // Acquire pairs with the Release in `release`: the dropping edit is durable.
        let table = self.opened.take();
        if let Some(table) = &table {
            self.shared.count(self, table, -1);
        }
        let released = self.released.load(Ordering::Acquire);
        self.values.let_go(released);
        if released {
            let (reaper, len) = (&self.shared.reaper, self.part.meta.len);
            match self.part.place {
                Place::Extent { offset } => reaper.extents.push((offset, len)),
                Place::File => reaper.files.push((self.part.table, len, table)),
            }
        }
    }
}

impl Tables {
    /// No tables yet. At most `files_max` tables that are files are open when none is in use.
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        container: Arc<Container>,
        value_files: Arc<ValueFiles>,
        ledger: Ledger,
        files_max: impl Into<FilesMax>,
    ) -> Tables {
        let shared = SharedByTables {
            vfs,
            dir: dir.to_owned(),
            container,
            value_files,
            reaper: Reaper::default(),
            ledger,
            opened: crossbeam_queue::SegQueue::new(),
            bytes: AtomicI64::new(0),
            files: OpenFiles::new(files_max.into()),
            descriptors: Arc::default(),
            bytes_max: AtomicU64::new(u64::MAX >> 1),
        };
        Tables {
            shared: Arc::new(shared),
            registry: Arc::default(),
        }
    }

    /// The file of the tables that have no file of their own.
    pub(crate) fn container(&self) -> &Arc<Container> {
        &self.shared.container
    }

    /// Sets the limit of the open tables' memory, and closes tables above it.
    pub(crate) fn set_bytes_max(&self, bytes_max: u64) {
        self.shared.bytes_max.store(bytes_max, Ordering::Relaxed);
        self.shared.close_some(2 * self.shared.opened.len());
        self.shared.prune(self.registry.0.lock().len());
    }

    /// Open tables that are files of their own.
    pub(crate) fn open_files(&self) -> u64 {
        self.shared.files.count()
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
            charge: Charge::new(
                self.shared.ledger,
                Use::Metadata,
                TABLE_BYTES
                    + 2 * (part.meta.min_key.len() + part.meta.max_key.len())
                    + VALUE_FILE_BYTES * part.meta.value_files.len(),
            ),
            part: part.clone(),
            values: self
                .shared
                .value_files
                .needed_by_table(&part.meta.value_files),
            opened: LazyArc::new(),
            touched: AtomicBool::new(false),
            released: AtomicBool::new(false),
            damaged: AtomicBool::new(false),
            max_version: AtomicU64::new(part.meta.max_version.0),
            shared: self.shared.clone(),
        });
        entry.0 = Arc::downgrade(&handle);
        handle
    }

    /// The handle of a table that some chunk names. Holding it keeps the table from being deleted.
    pub(crate) fn find(&self, id: TableId) -> Option<Arc<TableHandle>> {
        let known = self.registry.0.lock();
        known.get(&id).and_then(|entry| entry.0.upgrade())
    }

    /// The number of chunks that name the table, in this life's view of the manifest.
    pub(crate) fn chunks_naming(&self, id: TableId) -> usize {
        self.registry.0.lock().get(&id).map_or(0, |entry| entry.1)
    }

    /// The counts, for code that runs after an edit.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.clone()
    }

    /// Bytes of tables that no chunk names any more and that still exist.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.shared.reaper.bytes.load(Ordering::Relaxed)
    }

    /// Like [`pending_bytes`](Self::pending_bytes), for files only, in blocks on the disk: extents
    /// belong to the container.
    pub(crate) fn pending_file_bytes(&self) -> u64 {
        self.shared.reaper.file_bytes.load(Ordering::Relaxed)
    }

    /// Whether there are files to remove, or removed files that another thread held.
    pub(crate) fn has_unneeded(&self) -> bool {
        let reaper = &self.shared.reaper;
        !reaper.files.is_empty()
            || !reaper.leaving.lock().is_empty()
            || self.shared.container.segments().has_unneeded()
            || self.shared.value_files.has_unneeded()
    }

    /// Frees the extents of unneeded tables. No I/O.
    pub(crate) fn free_extents(&self) {
        while let Some((offset, len)) = self.shared.reaper.extents.pop() {
            self.shared.container.free(offset, len);
            self.shared.reaper.gone(len);
        }
    }

    /// Removes one unneeded file; returns whether there was one. It may take long: some file
    /// systems tell the disk of every block. Failing to remove a file is no error of the database:
    /// the next opening removes files that the manifest does not name.
    pub(crate) fn remove_file(&self) -> bool {
        if let Some(number) = self.shared.container.segments().take_unneeded() {
            let path = container_path(&self.shared.dir, number);
            let _ = self.shared.vfs.remove(&path);
            return true;
        }
        let Some((id, len, table)) = self.shared.reaper.files.pop() else {
            self.shared.value_files.remove_unneeded();
            return false;
        };
        let _ = self.shared.vfs.remove(&table_path(&self.shared.dir, id));
        match table {
            Some(table) => self.shared.reaper.leaving.lock().push((table, len)),
            None => self.shared.reaper.file_is_gone(len),
        }
        true
    }

    /// Closes removed files that no other thread has open any more: now their blocks are free.
    pub(crate) fn let_go(&self) {
        let reaper = &self.shared.reaper;
        let (keep, done): (Vec<_>, Vec<_>) = std::mem::take(&mut *reaper.leaving.lock())
            .into_iter()
            .partition(|(table, _)| Arc::strong_count(table) > 1);
        reaper.leaving.lock().extend(keep);
        for (table, len) in done {
            drop(table);
            reaper.file_is_gone(len);
        }
    }
}
