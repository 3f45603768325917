//! The manifest's file: a queue that fixes the order of edits, one writer that appends and syncs,
//! and rotation. Not here: the file that names the manifest in force ([`super::current`]).
//!
//! Thread safety: [`Manifest::enqueue`] takes a leaf lock and no I/O, so it may be called under a
//! chunk latch. [`Manifest::flush`] does the I/O and is called holding at most the checkpoint,
//! catalog and token locks. Work that depends on an edit being durable (deleting a file, freeing an
//! extent) is handed in with the edit and runs after the sync.
//!
//! A failed append or sync is terminal for this writer: the caller latches the database and nothing
//! is appended again. An edit that contradicts the state is terminal, too, and nothing of it is
//! written. A full disk is not terminal: room is preallocated before an append, and when that fails
//! nothing has been written.
//!
//! Work that gives room back on a full disk needs edits first, and edits need a page from time to
//! time. So there are blocks behind the last edit, in the order in which they are used up:
//! ```text
//! | edits | for the next edits        | for epochs |   a step ahead, not where the disk is full |
//!         '- less than half: is_short -'
//! ```
//! The room for the next edits is replenished before the ballast is, and while it is short no put
//! is let in ([`Manifest::reserve_ahead`]). The writes that have been let in need one checkpoint's
//! edit. Deletes, which need the rest, drop more than they take.

pub(crate) use super::current::read_current;
use super::current::{Current, raise_version, terminal, write_current};
use super::edit::{self, Change};
use super::state::ManifestState;
use crate::files::CURRENT_UNFINISHED;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex};
use evendb_storage::framed_log::{FramedLogWriter, read_synced_frames};
use evendb_storage::vfs::{File, Vfs, read_exact_at};
use evendb_storage::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

const ROTATE_BYTES_MIN: u64 = 4 << 20;
/// A step ahead is as long as the file, within these limits in bytes.
const PREALLOCATE_BYTES_MIN: u64 = 32 << 10;
const PREALLOCATE_BYTES_MAX: u64 = 256 << 10;
/// The part of the reserved room, in bytes, that only the beginning of an epoch may use: on a full
/// disk a database can be opened hundreds of times before it is used up.
const EPOCH_RESERVE_BYTES: u64 = 32 << 10;
/// The smallest reserved room for the next edits, in bytes, to which a part of the state's size is
/// added: for queued edits of jobs, and two checkpoints that touch each chunk.
const EDITS_RESERVE_BYTES_MIN: u64 = 64 << 10;
const EDITS_RESERVE_PART: u64 = 4;
/// The reserved bytes of a small manifest.
pub(crate) const RESERVE_BYTES_MIN: u64 =
    EDITS_RESERVE_BYTES_MIN + EPOCH_RESERVE_BYTES + PREALLOCATE_BYTES_MIN;
/// The smallest number of bytes for which a new file is worth it.
const SHRINK_BYTES_MIN: u64 = 64 << 10;

type AfterDurable = Box<dyn FnOnce() + Send>;

struct Queued {
    changes: Vec<Change>,
    /// The edit names files whose names in the directory are not synced yet.
    new_files: bool,
    after: Option<AfterDurable>,
}

struct Writer {
    log: FramedLogWriter,
    file: Arc<dyn File>,
    id: u64,
    allocated: u64,
    /// The bytes reserved for the next edits, and the length at which this number is computed
    /// again.
    edits_bytes: u64,
    measure_at: u64,
    rotate_at: u64,
    state: ManifestState,
    failed: bool,
}

/// The manifest of an open database.
pub(crate) struct Manifest {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    queue: Mutex<Vec<Queued>>,
    /// The disk is full: the file grows only as far as needed, and no step ahead.
    sparing: AtomicBool,
    /// `lacking`: the room for the next edits is not whole. `short`: less than half is left.
    /// Written under the writer's lock, and read as hints.
    lacking: AtomicBool,
    short: AtomicBool,
    writer: Mutex<Writer>,
}

/// The name of the file of manifest `id`.
pub(crate) fn manifest_name(id: u64) -> String {
    format!("MANIFEST-{id:06}")
}

/// The file of manifest `id`.
pub(crate) fn manifest_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(manifest_name(id))
}

/// A manifest as opening found it.
pub(crate) struct FoundManifest {
    pub(crate) state: ManifestState,
    pub(crate) id: u64,
    /// The end of its last edit.
    pub(crate) end: u64,
    /// The database was closed cleanly, and not opened for writing since.
    pub(crate) closed: bool,
}

/// Reads the manifest that `CURRENT` names. Beyond the length that `CURRENT` vouches for, it ends
/// at the first edit that does not verify. If other edits follow, that is damage, because each edit
/// is synced before the next is appended.
pub(crate) fn load(vfs: &dyn Vfs, dir: &Path) -> Result<FoundManifest> {
    let current = read_current(vfs, dir)?;
    let id = current.id;
    let path = manifest_path(dir, id);
    let file = vfs
        .open(&path, false)
        .map_err(|source| Error::open(&path, "open the manifest", source))?;
    let mut state = ManifestState::default();
    let end = read_synced_frames(&*file, id, current.verified, &mut |offset, payload| {
        let corrupt = |what| Error::corruption(&path, offset, what);
        edit::changes(payload).try_for_each(|change| {
            let change = change.ok_or_else(|| corrupt("an edit cannot be decoded"))?;
            state.apply(change).map_err(corrupt)
        })
    })?;
    state
        .check()
        .map_err(|what| Error::corruption(&path, 0, what))?;
    Ok(FoundManifest {
        state,
        id,
        end,
        closed: current.closed && current.verified == end,
    })
}

/// Writes the part beyond the length that `CURRENT` vouches for again, and syncs it. An earlier
/// life may have died of a failed sync, after which the kernel calls such pages clean although they
/// are not on the disk. Syncing alone would write nothing, and a power loss would then leave a hole
/// in front of the edits to come.
fn rewrite_tail(vfs: &dyn Vfs, dir: &Path, file: &dyn File, end: u64) -> Result<()> {
    let mut at = read_current(vfs, dir)?.verified.min(end);
    let mut bytes = vec![0; (64 << 10).min((end - at) as usize)];
    while at < end {
        let len = bytes.len().min((end - at) as usize);
        read_exact_at(file, &mut bytes[..len], at)
            .and_then(|()| file.write_at(&bytes[..len], at))
            .map_err(Error::at(file.path(), "write the manifest's end again"))?;
        at += len as u64;
    }
    file.sync_data()
        .map_err(Error::at(file.path(), "sync the manifest"))
}

impl Manifest {
    fn new(vfs: Arc<dyn Vfs>, dir: &Path, writer: Writer) -> Manifest {
        Manifest {
            vfs,
            dir: dir.to_owned(),
            queue: Mutex::new(Vec::new()),
            sparing: AtomicBool::new(false),
            lacking: AtomicBool::new(true),
            short: AtomicBool::new(false),
            writer: Mutex::new(writer),
        }
    }

    /// Starts a new manifest file `id` with the whole of `state`, and makes it the one in force.
    pub(crate) fn create(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        id: u64,
        state: ManifestState,
    ) -> Result<Manifest> {
        let writer = Writer::create(&*vfs, dir, id, state)?;
        Ok(Manifest::new(vfs, dir, writer))
    }

    /// Goes on with manifest `id`, whose last valid edit ends at `end`. The part beyond is wiped,
    /// durably, before anything is appended: a frame of a torn tail must not come to stand behind a
    /// new one. The room stays: it may be the last room there is.
    pub(crate) fn resume(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        id: u64,
        end: u64,
        state: ManifestState,
    ) -> Result<Manifest> {
        let path = manifest_path(dir, id);
        let file = vfs
            .open(&path, true)
            .map_err(Error::at(&path, "open the manifest"))?;
        rewrite_tail(vfs.as_ref(), dir, &*file, end)?;
        raise_version(vfs.as_ref(), dir)?;
        let log = FramedLogWriter::resume(file.clone(), id, end)?;
        let writer = Writer::new(log, file, id, state);
        Ok(Manifest::new(vfs, dir, writer))
    }

    /// Puts an edit into the order of edits. The next successful [`flush`](Self::flush) makes it
    /// durable and runs `after`. With `new_files` the directory is synced before the edit is
    /// written.
    pub(crate) fn enqueue(
        &self,
        changes: Vec<Change>,
        new_files: bool,
        after: Option<AfterDurable>,
    ) {
        self.queue.lock().push(Queued {
            changes,
            new_files,
            after,
        });
    }

    /// Sets whether to take no more of the disk than is needed.
    pub(crate) fn set_sparing(&self, yes: bool) {
        self.sparing.store(yes, Ordering::Relaxed);
    }

    /// The number of edits that wait for a flush.
    pub(crate) fn queued(&self) -> usize {
        self.queue.lock().len()
    }

    /// Appends all queued edits and then `last`, syncs, and applies them. Returns the bytes
    /// written. After an error of kind `NoSpace` nothing has been written and the queue is kept;
    /// the caller has to give `last` again.
    pub(crate) fn flush(&self, last: Vec<Change>) -> Result<u64> {
        self.flush_keeping(EPOCH_RESERVE_BYTES, last)
    }

    /// Like [`flush`](Self::flush), for queued edits on a full disk: they may use half of the room
    /// that is otherwise kept for openings, because the tables that they drop give room back.
    pub(crate) fn flush_into_reserve(&self) -> Result<u64> {
        self.flush_keeping(EPOCH_RESERVE_BYTES / 2, Vec::new())
    }

    /// Like [`flush`](Self::flush), for the edit that opening writes: it may use all reserved room.
    pub(crate) fn begin_epoch(&self, changes: Vec<Change>) -> Result<u64> {
        self.flush_keeping(0, changes)
    }

    fn flush_keeping(&self, keep_bytes: u64, last: Vec<Change>) -> Result<u64> {
        let mut writer = self.writer.lock();
        if writer.failed {
            return Err(Error::io(
                writer.file.path(),
                "append to the manifest",
                std::io::Error::other("an earlier append failed"),
            ));
        }
        let pending = std::mem::take(&mut *self.queue.lock());
        if pending.is_empty() && last.is_empty() {
            return Ok(0);
        }
        if pending.iter().any(|edit| edit.new_files) {
            // Order: new file, its sync, its name's sync, and only then the edit that names it.
            if let Err(source) = self.vfs.sync_dir(&self.dir) {
                writer.failed = true;
                return Err(Error::io(&self.dir, "sync the directory", source));
            }
        }
        let edits = || pending.iter().map(|edit| &edit.changes).chain([&last]);
        // Checked before anything is written: no opening would read an edit that contradicts the
        // state. Such an edit is a fault of the engine. The caller latches; the data on the disk,
        // including the commit log, is whole.
        if let Err(what) = writer.state.check_changes(edits().flatten()) {
            writer.failed = true;
            let refused = std::io::Error::other(format!("manifest edit refused: {what}"));
            let path = writer.file.path();
            return Err(Error::io(path, "append to the manifest", refused));
        }
        let ahead = !self.sparing.load(Ordering::Relaxed);
        let appended = writer.append(
            keep_bytes,
            ahead,
            edits().filter(|changes| !changes.is_empty()),
        );
        match appended {
            Ok(bytes) => {
                for change in edits().flatten() {
                    let applied = writer.state.apply(change.clone());
                    applied.expect("the same changes were checked");
                }
                let rotated = writer.rotate_if_large(&*self.vfs, &self.dir);
                writer.measure();
                self.note_reserve(&writer);
                drop(writer);
                for after in pending.into_iter().filter_map(|edit| edit.after) {
                    after();
                }
                rotated.map(|()| bytes)
            }
            Err(error) => {
                if error.kind() == ErrorKind::NoSpace && !writer.failed {
                    self.queue.lock().splice(0..0, pending);
                }
                Err(error)
            }
        }
    }

    /// Starts a new file now if that gives much room back: on a full disk old edits are garbage,
    /// too. Returns whether it did. After an error of kind `NoSpace` the old file goes on.
    pub(crate) fn shrink(&self) -> Result<bool> {
        let mut writer = self.writer.lock();
        if writer.failed {
            return Ok(false);
        }
        let least = edit::encode(&writer.state.to_changes()).len() as u64 + EPOCH_RESERVE_BYTES;
        if writer.log.end() < 2 * least + SHRINK_BYTES_MIN {
            return Ok(false);
        }
        let rotated = writer.rotate(&*self.vfs, &self.dir).map(|()| true);
        self.note_reserve(&writer);
        rotated
    }

    /// Reserves the room for the next edits, if it is not whole. The error is a full disk; a part
    /// may have been reserved.
    pub(crate) fn reserve_ahead(&self) -> Result<()> {
        if !self.lacking.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut writer = self.writer.lock();
        if writer.failed {
            return Ok(());
        }
        let reserved = writer.reserve_for_edits();
        self.note_reserve(&writer);
        reserved
    }

    /// Whether the room for the next edits is so short that only work that gives room back may add
    /// edits.
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    fn note_reserve(&self, writer: &Writer) {
        let ahead = writer.allocated.saturating_sub(writer.log.end());
        let edits = ahead.saturating_sub(EPOCH_RESERVE_BYTES);
        self.lacking
            .store(edits < writer.edits_bytes, Ordering::Relaxed);
        self.short
            .store(edits < writer.edits_bytes / 2, Ordering::Relaxed);
    }

    /// Reads the state of the last flush.
    pub(crate) fn with_state<R>(&self, read: impl FnOnce(&ManifestState) -> R) -> R {
        read(&self.writer.lock().state)
    }

    /// Records in `CURRENT` the length up to which the manifest must verify from now on, and
    /// whether the database is `closed`. After an error of kind `NoSpace` everything is as before.
    pub(crate) fn seal(&self, closed: bool) -> Result<()> {
        let writer = self.writer.lock();
        let current = Current {
            id: writer.id,
            verified: writer.log.end(),
            closed,
        };
        let sealed = write_current(&*self.vfs, &self.dir, current);
        if sealed
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::NoSpace)
        {
            let _ = self.vfs.remove(&self.dir.join(CURRENT_UNFINISHED));
        }
        sealed
    }
}

impl Writer {
    /// Goes on after the last edit of `log`, which is in `file`.
    fn new(log: FramedLogWriter, file: Arc<dyn File>, id: u64, state: ManifestState) -> Writer {
        let end = log.end();
        let rotate_at = (end * 2).max(ROTATE_BYTES_MIN);
        let mut writer = Writer {
            log,
            file,
            id,
            allocated: end,
            edits_bytes: 0,
            measure_at: 0,
            rotate_at,
            state,
            failed: false,
        };
        writer.measure();
        writer
    }

    /// Computes the room for the next edits, from time to time: it takes a look at the whole state.
    fn measure(&mut self) {
        let end = self.log.end();
        if end >= self.measure_at {
            let state_bytes = edit::encode(&self.state.to_changes()).len() as u64;
            self.edits_bytes = EDITS_RESERVE_BYTES_MIN + state_bytes / EDITS_RESERVE_PART;
            self.measure_at = end + state_bytes.max(EDITS_RESERVE_BYTES_MIN);
        }
    }

    fn create(vfs: &dyn Vfs, dir: &Path, id: u64, state: ManifestState) -> Result<Writer> {
        let path = manifest_path(dir, id);
        let file = vfs
            .create(&path)
            .map_err(Error::at(&path, "create a manifest"))?;
        let mut log = FramedLogWriter::create(file.clone(), id)?;
        let end = log.append(&edit::encode(&state.to_changes()))?;
        log.sync()?;
        vfs.sync_dir(dir)
            .map_err(Error::at(dir, "sync directory"))?;
        let current = Current {
            id,
            verified: end,
            closed: false,
        };
        write_current(vfs, dir, current)?;
        Ok(Writer::new(log, file, id, state))
    }

    fn append<'a>(
        &mut self,
        keep_bytes: u64,
        ahead: bool,
        edits: impl Iterator<Item = &'a Vec<Change>>,
    ) -> Result<u64> {
        // One frame, so that no frame is appended before the previous one is synced: a frame that
        // verifies behind one that does not proves damage.
        let payload: Vec<u8> = edits.flat_map(|changes| edit::encode(changes)).collect();
        let bytes = self.log.frame_bytes(payload.len());
        self.reserve(self.log.end() + bytes + keep_bytes, ahead)?;
        // From here on, a failure leaves bytes with an unknown fate behind the last good edit.
        self.failed = true;
        let mut append = || {
            self.log.append(&payload)?;
            self.log.sync()
        };
        append().map_err(terminal(self.file.path(), "append to the manifest"))?;
        self.failed = false;
        Ok(bytes)
    }

    /// Reserves the file's blocks up to `end`. With `ahead` it also reserves the room for the next
    /// edits and a step more, if there is room. Room that an earlier life reserved still exists, so
    /// this finds room on a full disk.
    fn reserve(&mut self, end: u64, ahead: bool) -> Result<()> {
        let kept = end + self.edits_bytes;
        if ahead && kept > self.allocated {
            let step = end.clamp(PREALLOCATE_BYTES_MIN, PREALLOCATE_BYTES_MAX);
            let _ = self
                .reserve_up_to(kept + step)
                .or_else(|_| self.reserve_up_to(kept));
        }
        self.reserve_up_to(end)
    }

    /// Reserves the room for the next edits and for epochs, or as large a part of it as there is
    /// room for.
    fn reserve_for_edits(&mut self) -> Result<()> {
        let least = self.log.end() + EPOCH_RESERVE_BYTES;
        let whole = self.reserve_up_to(least + self.edits_bytes);
        if whole.is_err() {
            // In parts of the missing bytes: smaller parts are found sooner.
            let missing = (least + self.edits_bytes).saturating_sub(self.allocated);
            let mut parts = [2, 4, 8, 16]
                .map(|part| self.allocated + missing / part)
                .into_iter();
            let _ = parts.find(|end| self.reserve_up_to(*end).is_ok());
        }
        whole
    }

    fn reserve_up_to(&mut self, end: u64) -> Result<()> {
        if end > self.allocated {
            self.file
                .preallocate(self.allocated, end - self.allocated)
                .map_err(Error::at(self.file.path(), "reserve room for the manifest"))?;
            self.allocated = end;
        }
        Ok(())
    }

    fn rotate_if_large(&mut self, vfs: &dyn Vfs, dir: &Path) -> Result<()> {
        if self.log.end() < self.rotate_at {
            return Ok(());
        }
        match self.rotate(vfs, dir) {
            // There is no room for a copy: the old file goes on, and a copy is tried again when it
            // has grown.
            Err(error) if error.kind().is_for_want() => {
                self.rotate_at = self.log.end() * 2;
                Ok(())
            }
            rotated => rotated,
        }
    }

    /// Writes the whole state into a new file; `CURRENT` moves to it; only then is the old file
    /// deleted. Without room nothing is left of the new file.
    fn rotate(&mut self, vfs: &dyn Vfs, dir: &Path) -> Result<()> {
        let old = manifest_path(dir, self.id);
        let state = self.state.clone();
        let new_path = manifest_path(dir, self.id + 1);
        if vfs
            .exists(&new_path)
            .map_err(Error::at(&new_path, "look for a manifest"))?
        {
            vfs.remove(&new_path)
                .map_err(Error::at(&new_path, "remove an unfinished manifest"))?;
        }
        match Writer::create(vfs, dir, self.id + 1, state) {
            Ok(writer) => {
                *self = writer;
                // A leftover is removed by the next opening.
                let _ = vfs.remove(&old);
                // Room for the next edits and openings, before others take it.
                let _ = self.reserve_for_edits();
                Ok(())
            }
            Err(error) if error.kind().is_for_want() => {
                // `CURRENT` still names the old file: moving it fails in other ways only.
                let _ = vfs.remove(&new_path);
                let _ = vfs.remove(&dir.join(CURRENT_UNFINISHED));
                Err(error)
            }
            Err(error) => {
                self.failed = true;
                Err(error)
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::super::ChunkId;
    use super::*;
    use evendb_storage::vfs::SimVfs;

    #[test]
    fn of_an_edit_that_contradicts_the_state_nothing_is_written() {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
        let dir = Path::new("/db");
        vfs.create_dir_all(dir).unwrap();
        let manifest = Manifest::create(vfs.clone(), dir, 1, ManifestState::default()).unwrap();
        let change = |number| Change::Checkpoint {
            number,
            replay_from: crate::commit_log::Lsn(0),
        };
        manifest.flush(vec![change(1)]).unwrap();
        manifest.enqueue(vec![change(2)], false, None);
        let of_nothing = Change::AddParts {
            id: ChunkId(7),
            parts: Vec::new(),
        };
        let refused = manifest.flush(vec![of_nothing]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Io);
        assert!(refused.to_string().contains("ChunkId(7)"), "{refused}");
        // Later edits may depend on it.
        assert!(manifest.flush(vec![change(3)]).is_err());
        assert_eq!(manifest.with_state(|state| state.completed), 1);
        assert_eq!(load(&*vfs, dir).unwrap().state.completed, 1);
    }
}
