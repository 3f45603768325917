//! Value files: large values, each written once, outside of the commit log, of runs and of tables.
//!
//! ```text
//!   put --> append: bytes in the active file --> record with the place (Kind::PutApart)
//!       --> log, delta, run, table
//!
//!   active --sealed: long enough--> sealed --no table, delta or write needs it--> removed
//!                                     `--too much of it is dead: the live values move into
//!                                         the active file of moved values
//! ```
//! A value file has no header and no frames: it holds values end to end, as they were put, so that
//! a value of whole pages lies in whole pages. In an encrypted database each value is sealed, and
//! 28 bytes longer ([`sealed`]). The place of a value ([`Apart`]) comes with a checksum, which
//! covers the place, too. Value extents are something else ([`crate::value_extents`]): an extent is
//! the body of one write that the commit log does not take, and goes with the next checkpoint.
//!
//! Invariants
//! * A value is in its file, as the system sees it, before the record that names it is appended to
//!   the commit log or linked.
//! * Nothing becomes durable whose values are not durable: the thread that syncs the commit log
//!   syncs the files first ([`SyncedFirst`]). A checkpoint syncs them before its edit, and so does
//!   a rewrite that has moved values.
//! * A file goes only when nothing can name it any more ([`ValueFiles::remove_unneeded`]): no table
//!   of the manifest or of a view, no record of a checkpoint that is not completed, no write under
//!   way. Tables and writes hold a counted reference ([`Needed`]). New references are made only
//!   from another reference or under the lock, which makes the count right.
//!
//! Thread safety: any. The lock of the list of files is held while a file is created and while
//! idle files are closed. A read of a value takes it too, so such a get may wait for a put that
//! begins a file (I17). Files are opened, read, written and synced without it.
//!
//! Not here: which values go apart (`write/large_values.rs`), what reads do
//! (`read/large_values.rs`), which files are worth emptying (`rebalance/`).

mod emptying;
mod reading;
mod sealed;

use crate::commit_log::SyncedFirst;
use crate::metrics::Counter;
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering, fence};
use crate::sync::{Arc, Mutex, reclaim};
use evendb_storage::vfs::{File, Vfs, open_among_many};
use evendb_storage::{Apart, Error, Result};
pub(crate) use reading::{cut, read, read_part, read_stored, read_value};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The approximate number of files that may be open at once.
const OPEN_MAX: usize = 256;

/// The number of looks that are passed over after a move that found no room.
const LOOKS_PASSED_OVER: u64 = 16;

/// The name of a value file.
pub(crate) fn file_name(id: u64) -> String {
    format!("{id:016x}.values")
}

/// The path of a value file.
pub(crate) fn file_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(file_name(id))
}

/// One file, shared by everything that needs it.
pub(crate) struct ValueFile {
    id: u64,
    /// The handle; `None` if it was not opened yet, or was closed because many are open.
    file: Mutex<Option<Arc<dyn File>>>,
    /// Bytes that writes have taken; for a file of an earlier life, its length.
    len: AtomicU64,
    /// The number of appends under way.
    writing: AtomicU64,
    /// Some written bytes are not covered by a sync.
    unsynced: AtomicBool,
    /// Bytes of values that tables name; a table that chunks share counts once.
    live: AtomicI64,
    /// No record of a later checkpoint names it, except records in tables.
    last_checkpoint: AtomicU64,
    /// A value in it could not be read to be moved: it is no longer emptied.
    damaged: AtomicBool,
    /// A table that names it was released in memory while the manifest may still name the table: it
    /// stays in this life.
    stays: AtomicBool,
}

/// The origin of a value. Moved values have outlived nearly all their neighbours, and will outlive
/// the values that are put now: in a file of their own they need not be moved again together with
/// short-lived values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Put = 0,
    Move = 1,
}

/// The bytes of a value.
pub(crate) type Bytes = std::sync::Arc<[u8]>;

/// Keeps a file from being removed.
pub(crate) type Needed = Arc<ValueFile>;

impl ValueFile {
    fn new(id: u64, len: u64, file: Option<Arc<dyn File>>) -> Needed {
        Arc::new(ValueFile {
            id,
            file: Mutex::new(file),
            len: AtomicU64::new(len),
            writing: AtomicU64::new(0),
            unsynced: AtomicBool::new(false),
            damaged: AtomicBool::new(false),
            live: AtomicI64::new(0),
            last_checkpoint: AtomicU64::new(0),
            stays: AtomicBool::new(false),
        })
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Notes that a record of this checkpoint names it.
    pub(crate) fn note_record(&self, checkpoint: u64) {
        self.last_checkpoint.fetch_max(checkpoint, Ordering::AcqRel);
    }

    /// Bytes that writes have taken, and the part of them that tables name.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let live = self.live.load(Ordering::Relaxed).max(0) as u64;
        (self.len.load(Ordering::Relaxed), live)
    }
}

/// The files that a table names, as long as its handle lives.
pub(crate) struct NeededByTable {
    files: Vec<(Needed, u64)>,
    /// Whether its values count as live.
    counts: AtomicBool,
}

impl NeededByTable {
    /// Called when the manifest no longer names the table: its values no longer count as live. Its
    /// files are needed as long as a handle exists, which may be long. Meanwhile the values in its
    /// successors count, and must not be counted twice.
    pub(crate) fn stop_counting(&self) {
        if self.counts.swap(false, Ordering::AcqRel) {
            for (file, bytes) in &self.files {
                file.live.fetch_sub(*bytes as i64, Ordering::Relaxed);
            }
        }
    }

    /// Called when the handle goes. `released` says that the manifest durably no longer names the
    /// table.
    pub(crate) fn let_go(&mut self, released: bool) {
        self.stop_counting();
        for (file, _) in self.files.drain(..) {
            if !released {
                file.stays.store(true, Ordering::Release);
            }
        }
    }
}

#[derive(Default)]
struct Known {
    /// The files that exist.
    files: BTreeMap<u64, Needed>,
    /// The files to which values are appended: one for puts, one for moves.
    active: [Option<Needed>; 2],
    /// The approximate number of open files.
    open: usize,
}

impl Known {
    fn is_active(&self, id: u64) -> bool {
        self.active.iter().flatten().any(|active| active.id == id)
    }
}

/// The value files of a database.
pub(crate) struct ValueFiles {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    known: Mutex<Known>,
    /// A file is sealed from this length in bytes on.
    file_bytes: u64,
    /// All records of this checkpoint and earlier ones are in tables whose handles exist.
    completed: AtomicU64,
    /// Bytes appended since the last checkpoint began.
    since_checkpoint: AtomicU64,
    /// The files that are being emptied, and whether there are any. Relaxed: a chunk that is missed
    /// is found at the next look.
    to_empty: Mutex<BTreeSet<u64>>,
    any_to_empty: AtomicBool,
    looks_to_pass_over: AtomicU64,
    /// Bytes appended in this life, and the part of them that rewrites moved.
    pub(crate) written: Counter,
    pub(crate) moved: Counter,
    /// Files removed in this life.
    pub(crate) removed: Counter,
    /// A file was created, and no sync of the directory covers its name yet. This is set before the
    /// file is marked unsynced.
    new_names: AtomicBool,
    /// One thread at a time syncs: bytes that another thread has begun to sync are not durable
    /// before its sync ends.
    syncing: Mutex<()>,
    /// P47: files count as unneeded even if something needs them.
    #[cfg(test)]
    pub(crate) planted_unneeded: AtomicBool,
}

impl ValueFiles {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, dir: &Path, file_bytes: u64, completed: u64) -> Self {
        ValueFiles {
            vfs,
            dir: dir.to_owned(),
            known: Mutex::default(),
            file_bytes,
            completed: AtomicU64::new(completed),
            since_checkpoint: AtomicU64::new(0),
            to_empty: Mutex::default(),
            any_to_empty: AtomicBool::new(false),
            looks_to_pass_over: AtomicU64::new(0),
            written: Counter::default(),
            moved: Counter::default(),
            removed: Counter::default(),
            new_names: AtomicBool::new(false),
            syncing: Mutex::new(()),
            #[cfg(test)]
            planted_unneeded: AtomicBool::new(false),
        }
    }

    /// The database's directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Notes a file of an earlier life, with its length. With `replayed`, records of this
    /// checkpoint name it, and their values may not be on the disk.
    pub(crate) fn adopt(&self, id: u64, len: u64, replayed: Option<u64>) {
        let mut known = self.known.lock();
        let file = known.files.entry(id);
        let file = file.or_insert_with(|| ValueFile::new(id, len, None));
        if let Some(checkpoint) = replayed {
            file.note_record(checkpoint);
            file.unsynced.store(true, Ordering::Relaxed);
        }
    }

    /// The files that a table names: `files` has their numbers and the bytes of the table's values
    /// in each. The caller has a table that names them, or the references of the writer, or it is
    /// opening the database.
    pub(crate) fn needed_by_table(&self, files: &[(u64, u64)]) -> NeededByTable {
        let mut known = self.known.lock();
        let each = files.iter().map(|&(id, bytes)| {
            // A missing file is reported when it is read.
            let file = known.files.entry(id);
            let file = file.or_insert_with(|| ValueFile::new(id, 0, None)).clone();
            file.live.fetch_add(bytes as i64, Ordering::Relaxed);
            (file, bytes)
        });
        NeededByTable {
            files: each.collect(),
            counts: AtomicBool::new(true),
        }
    }

    /// The path of a file.
    pub(crate) fn path(&self, id: u64) -> PathBuf {
        file_path(&self.dir, id)
    }

    /// A counted reference to a file, if it exists.
    pub(crate) fn find(&self, id: u64) -> Option<Needed> {
        self.known.lock().files.get(&id).cloned()
    }

    /// Appends `value`. Returns its place, and the reference that keeps its file. Nothing names the
    /// place yet, so a failure loses only room. `new_id` gives a number for a new file.
    pub(crate) fn append(
        &self,
        origin: Origin,
        value: &[u8],
        new_id: impl FnOnce() -> Result<u64>,
    ) -> Result<(Apart, Needed)> {
        let secrets = self.vfs.secrets();
        let len = (value.len() + secrets.map_or(0, |_| sealed::SEAL_BYTES)) as u64;
        let (needed, offset) = self.take_room(origin, len, new_id)?;
        let sealed = secrets.map(|secrets| sealed::seal(secrets, (needed.id, offset), value));
        let stored = sealed.as_deref().unwrap_or(value);
        let path = file_path(&self.dir, needed.id);
        let failed = |source| Error::io(&path, "write a value", source);
        let file = self.opened(&needed);
        let written = file.and_then(|file| {
            file.write_at(stored, offset).map_err(failed)?;
            begin_writing_out(&*file, offset, len);
            Ok(())
        });
        // Pairs with the Acquire in `seal`.
        needed.writing.fetch_sub(1, Ordering::Release);
        written?;
        // Set before anything names the value: a later sync then finds that it has to sync the
        // file. Pairs with the swap in `sync`.
        needed.unsynced.store(true, Ordering::Release);
        if origin == Origin::Put {
            self.since_checkpoint.fetch_add(len, Ordering::Relaxed);
        }
        self.written.add(len);
        let apart = Apart {
            file: needed.id,
            offset,
            len: len as u32,
            checksum: Apart::checksum_of(needed.id, offset, stored),
        };
        Ok((apart, needed))
    }

    /// Takes room in the active file, or in a new one.
    fn take_room(
        &self,
        origin: Origin,
        len: u64,
        new_id: impl FnOnce() -> Result<u64>,
    ) -> Result<(Needed, u64)> {
        let mut known = self.known.lock();
        if let Some(active) = &known.active[origin as usize] {
            let at = active.len.load(Ordering::Relaxed);
            if at < self.file_bytes {
                active.len.store(at + len, Ordering::Relaxed);
                active.writing.fetch_add(1, Ordering::Relaxed);
                return Ok((active.clone(), at));
            }
        }
        let id = new_id()?;
        let path = file_path(&self.dir, id);
        let file = self.vfs.create(&path);
        let file = file.map_err(|source| Error::io(&path, "create a value file", source))?;
        self.new_names.store(true, Ordering::Release);
        file.expect_random_reads();
        let active = ValueFile::new(id, len, Some(file));
        active.writing.fetch_add(1, Ordering::Relaxed);
        known.open += 1;
        known.files.insert(id, active.clone());
        known.active[origin as usize] = Some(active.clone());
        Ok((active, 0))
    }

    /// No more values are appended to the files that exist now; waits for the appends under way.
    pub(crate) fn seal(&self) {
        let all: Vec<Needed> = {
            let mut known = self.known.lock();
            known.active = [None, None];
            known.files.values().cloned().collect()
        };
        for file in all {
            while file.writing.load(Ordering::Acquire) > 0 {
                crate::sync::thread::yield_now();
            }
        }
    }

    /// The files that records in RAM alone may name.
    pub(crate) fn not_completed(&self) -> Vec<Needed> {
        let known = self.known.lock();
        let completed = self.completed.load(Ordering::Acquire);
        let named = |file: &&Needed| file.last_checkpoint.load(Ordering::Acquire) > completed;
        known.files.values().filter(named).cloned().collect()
    }

    fn opened(&self, needed: &ValueFile) -> Result<Arc<dyn File>> {
        if let Some(file) = &*needed.file.lock() {
            return Ok(file.clone());
        }
        let path = file_path(&self.dir, needed.id);
        let named = (&*path, "open a value file");
        let opened = open_among_many(&*self.vfs, named, &|| true, &|| {
            self.close_idle(&mut self.known.lock());
            reclaim::collect();
        })?;
        opened.expect_random_reads();
        self.close_some();
        let file = needed.file.lock().get_or_insert(opened).clone();
        Ok(file)
    }

    /// Called when one more file is about to be open: closes others if there are many. A file in
    /// use stays open until it is no longer used.
    fn close_some(&self) {
        let mut known = self.known.lock();
        known.open += 1;
        if known.open > OPEN_MAX {
            self.close_idle(&mut known);
            known.open += 1;
        }
    }

    /// Closes files to which nothing is written.
    fn close_idle(&self, known: &mut Known) {
        let Known {
            files,
            active,
            open,
        } = known;
        // The handle of a file that is being written serves the writers, so it stays.
        let idle = |file: &&Needed| {
            !active.iter().flatten().any(|active| active.id == file.id)
                && !file.unsynced.load(Ordering::Relaxed)
                && file.writing.load(Ordering::Acquire) == 0
        };
        for file in files.values().filter(idle) {
            *file.file.lock() = None;
        }
        let is_open = |file: &&Needed| file.file.lock().is_some();
        *open = files.values().filter(is_open).count();
    }

    /// The value at this place; `None` if the file does not exist (any more).
    pub(crate) fn read(&self, apart: &Apart) -> Result<Option<Bytes>> {
        match self.find(apart.file) {
            Some(file) => self.read_of(&file, apart).map(Some),
            None => Ok(None),
        }
    }

    /// The bytes of the value at this place that lie in `part`, cut to what the value has; `None`
    /// if the file does not exist (any more).
    pub(crate) fn read_part(&self, apart: &Apart, part: &Range<u64>) -> Result<Option<Bytes>> {
        let Some(needed) = self.find(apart.file) else {
            return Ok(None);
        };
        let file = self.opened(&needed)?;
        read_part(&*file, &file_path(&self.dir, needed.id), apart, part).map(Some)
    }

    fn read_of(&self, needed: &ValueFile, apart: &Apart) -> Result<Bytes> {
        let file = self.opened(needed)?;
        read_value(&*file, &file_path(&self.dir, needed.id), apart)
    }

    /// Bytes appended since the last checkpoint began.
    pub(crate) fn since_checkpoint(&self) -> u64 {
        self.since_checkpoint.load(Ordering::Relaxed)
    }

    /// A checkpoint begins: it takes over the count of bytes appended so far.
    pub(crate) fn begin_checkpoint(&self) -> u64 {
        self.since_checkpoint.swap(0, Ordering::Relaxed)
    }

    /// A checkpoint was given up: its bytes are for the next one.
    pub(crate) fn give_up_checkpoint(&self, bytes: u64) {
        self.since_checkpoint.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that all records of checkpoint `number` and earlier ones are in tables whose handles
    /// exist.
    pub(crate) fn note_completed(&self, number: u64) {
        self.completed.fetch_max(number, Ordering::AcqRel);
    }

    /// Whether [`remove_unneeded`](Self::remove_unneeded) would find a file.
    pub(crate) fn has_unneeded(&self) -> bool {
        let known = self.known.lock();
        known
            .files
            .values()
            .any(|file| self.is_unneeded(&known, file))
    }

    /// Called under the lock, so that meanwhile references are made only from other references.
    fn is_unneeded(&self, known: &Known, file: &Needed) -> bool {
        let is_active = known.is_active(file.id);
        #[cfg(test)]
        let is_planted = self.planted_unneeded.load(Ordering::Relaxed);
        #[cfg(not(test))]
        let is_planted = false;
        if is_active || Arc::strong_count(file) > 1 && !is_planted {
            return false;
        }
        // The count is read first: a write notes its checkpoint before it drops its reference.
        fence(Ordering::Acquire);
        file.last_checkpoint.load(Ordering::Acquire) <= self.completed.load(Ordering::Acquire)
            && !file.stays.load(Ordering::Acquire)
    }

    /// Removes the files that nothing can name any more. If removing a file fails, the next opening
    /// removes it.
    pub(crate) fn remove_unneeded(&self) {
        let mut gone = Vec::new();
        {
            let mut known = self.known.lock();
            let unneeded = |file: &&Needed| self.is_unneeded(&known, file);
            let ids: Vec<u64> = known
                .files
                .values()
                .filter(unneeded)
                .map(|file| file.id)
                .collect();
            for id in ids {
                gone.extend(known.files.remove(&id));
            }
            let open = gone
                .iter()
                .filter(|file| file.file.lock().is_some())
                .count();
            known.open = known.open.saturating_sub(open);
        }
        for file in gone {
            let _ = self.vfs.remove(&file_path(&self.dir, file.id));
            self.removed.add(1);
        }
    }

    /// Syncs everything that was appended before the call, and the names of the files.
    pub(crate) fn sync(&self) -> Result<()> {
        let _one_at_a_time = self.syncing.lock();
        let unsynced: Vec<Needed> = {
            let known = self.known.lock();
            let unsynced = |file: &&Needed| file.unsynced.load(Ordering::Acquire);
            known.files.values().filter(unsynced).cloned().collect()
        };
        // The bytes may be synced, but not the name of the file: then a sync of the directory
        // failed.
        for needed in &unsynced {
            // Cleared before the sync: a write during the sync sets it again.
            needed.unsynced.store(false, Ordering::Release);
            let path = file_path(&self.dir, needed.id);
            let synced = self.opened(needed).and_then(|file| {
                let synced = file.sync_data();
                synced.map_err(|source| Error::sync(&path, "sync a value file", source))
            });
            synced.inspect_err(|_| needed.unsynced.store(true, Ordering::Release))?;
        }
        if !self.new_names.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let synced = self.vfs.sync_dir(&self.dir);
        synced.map_err(|source| {
            self.new_names.store(true, Ordering::Release);
            Error::sync(&self.dir, "sync the directory", source)
        })
    }

    /// Bytes written into the existing files, the part of them that tables name, and the number of
    /// files.
    pub(crate) fn totals(&self) -> (u64, u64, u64) {
        let known = self.known.lock();
        let each = known.files.values().map(|file| file.bytes());
        let (bytes, live) = each.fold((0, 0), |sum, file| (sum.0 + file.0, sum.1 + file.1));
        (bytes, live, known.files.len() as u64)
    }
}

/// Makes the disk begin with the written bytes, a piece at a time, so that a sync does not find all
/// of them still to be written.
fn begin_writing_out(file: &dyn File, offset: u64, len: u64) {
    const PIECE_BYTES: u64 = 4 << 20;
    let (before, after) = (offset / PIECE_BYTES, (offset + len) / PIECE_BYTES);
    if before < after {
        file.start_writing(before * PIECE_BYTES, (after - before) * PIECE_BYTES);
    }
}

/// The files that must be durable before the commit log is: value extents, and value files.
pub(crate) struct BothSyncedFirst {
    pub(crate) extents: Arc<dyn SyncedFirst>,
    pub(crate) values: Arc<ValueFiles>,
}

impl SyncedFirst for BothSyncedFirst {
    fn sync(&self) -> Result<()> {
        self.values.sync()?;
        self.extents.sync()
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
