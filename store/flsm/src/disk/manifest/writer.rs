//! [`Manifest`]: the manifest of an open database, which grows while the database is open.
//!
//! Every opening begins a new manifest with everything that the old one says. A manifest that has
//! grown long is replaced in the same way. So nothing is ever appended behind bytes of an earlier
//! life: what that life left unsynced or torn at the end is gone with its file.
//!
//! After a failure to write or sync an edit it is not known what the disk holds. The manifest then
//! refuses all further edits, and the next opening finds out. The database must then be treated as
//! failed. A full disk is no such failure: room is reserved before an edit is written
//! ([`super::room`]), and `NoSpace` says that nothing was written.
//!
//! A manifest belongs to one thread at a time: the caller holds a lock.

use super::change;
use super::current::{self, Current};
use super::room::Room;
use super::state::{Edit, Prepared, State};
use crate::files::{self, FileName, FileNumbers};
use crate::tables::TableFile;
use crate::types::FileNumber;
use evendb_storage::framed_log::FramedLogWriter;
use evendb_storage::vfs::Vfs;
use evendb_storage::{Error, Result, random};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A manifest is begun anew when it has `ROTATE_BYTES_MIN` bytes and `ROTATE_TIMES` times the bytes
/// that it began with.
const ROTATE_BYTES_MIN: u64 = 1 << 20;
const ROTATE_TIMES: u64 = 4;

/// See the module.
#[derive(Debug)]
pub(crate) struct Manifest {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    numbers: Arc<FileNumbers>,
    number: FileNumber,
    log: FramedLogWriter,
    room: Room,
    rotate_at: u64,
    state: State,
    failed: bool,
}

impl Manifest {
    /// Begins a manifest with all of `state`, and puts it in force. The old manifest may go then.
    /// The database gets a secret of its guards here, if it has none.
    pub(crate) fn begin(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        numbers: Arc<FileNumbers>,
        mut state: State,
    ) -> Result<Manifest> {
        skip_used(&*vfs, dir, &numbers)?;
        if state.guard_secret.is_none() {
            let is_fixed = cfg!(any(debug_assertions, evendb_shuttle, evendb_loom));
            let drawn = draw_guard_secret(is_fixed);
            let what = "draw the secret of the guards of";
            state.guard_secret = Some(drawn.map_err(|source| Error::io(dir, what, source))?);
        }
        let new = write_new(&*vfs, dir, &numbers, &mut state)?;
        current::put_in_force(&*vfs, dir)?;
        let mut manifest = Manifest {
            vfs,
            dir: dir.to_owned(),
            numbers,
            number: new.number,
            rotate_at: rotate_at(&new.log),
            log: new.log,
            room: new.room,
            state,
            failed: false,
        };
        manifest.room.reserve_ahead(&manifest.log);
        Ok(manifest)
    }

    /// The current state.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Whether a file of this name may be needed.
    pub(super) fn needs(&self, name: FileName) -> bool {
        self.state.needs(name, self.number)
    }

    /// Removes the database's files that are not needed, up to the first that cannot be removed.
    /// After a failed edit it removes nothing. Call it where no other thread makes files.
    pub(crate) fn remove_unneeded(&self) -> Result<()> {
        if self.failed {
            return Ok(());
        }
        for file in files::list(&*self.vfs, &self.dir)? {
            if !self.needs(file) {
                let path = file.path(&self.dir);
                let removed = self.vfs.remove(&path);
                removed.map_err(|source| {
                    Error::io(&path, "remove a file that is not needed", source)
                })?;
            }
        }
        Ok(())
    }

    /// Makes an edit, durably. The new trees are in [`Manifest::state`] then. Tables that no tree
    /// has any more are retired: their files are removed with their last handles, which belong to
    /// the trees that are shown.
    ///
    /// An edit that contradicts the state is not made, nothing is written, and its new tables are
    /// retired. The cause is a fault of the caller, or a job for a keyspace that was dropped
    /// meanwhile. The same happens to an edit for which there is no room (`NoSpace`): it can be
    /// tried again.
    pub(crate) fn commit(&mut self, mut edit: Edit) -> Result<()> {
        if self.failed {
            let error = io::Error::other("an earlier edit failed");
            return Err(Error::io(&self.path(), "write to the manifest", error));
        }
        edit.next_file = Some(self.numbers.next());
        let mut payload = Vec::new();
        for change in edit.to_changes() {
            change::encode(&mut payload, &change);
        }
        let new_tables: Vec<Arc<TableFile>> = edit.new_tables().cloned().collect();
        let prepared = self.prepare(edit, &payload).inspect_err(|_| {
            // No manifest names these tables.
            let unknown = new_tables
                .iter()
                .filter(|table| !self.state.has_table(table.number));
            unknown.for_each(|table| table.retire());
        })?;
        self.append(&payload, !new_tables.is_empty())
            .map_err(|error| self.terminal(error))?;
        for table in self.state.install(prepared) {
            table.retire();
        }
        if self.log.end() >= self.rotate_at {
            self.rotate()?;
        }
        self.room.reserve_ahead(&self.log);
        Ok(())
    }

    /// Does everything that can be refused. Nothing is written yet.
    fn prepare(&mut self, edit: Edit, payload: &[u8]) -> Result<Prepared> {
        let prepared = self.state.prepare(edit).map_err(|what| {
            let what = io::Error::new(io::ErrorKind::InvalidInput, what);
            Error::io(
                &self.path(),
                "make an edit that contradicts the state",
                what,
            )
        })?;
        self.room.reserve(&self.log, payload.len())?;
        Ok(prepared)
    }

    fn append(&mut self, payload: &[u8], has_new_files: bool) -> Result<()> {
        // True while it is not known what the disk holds.
        self.failed = true;
        if has_new_files {
            let synced = self.vfs.sync_dir(&self.dir);
            synced.map_err(|source| Error::io(&self.dir, "sync the directory", source))?;
        }
        self.log.append(payload)?;
        self.log.sync()?;
        self.failed = false;
        Ok(())
    }

    /// Goes on in a new file. If there is no room for one, it goes on in this file for a while.
    pub(super) fn rotate(&mut self) -> Result<()> {
        self.failed = true;
        let old = self.path();
        let new = match write_new(&*self.vfs, &self.dir, &self.numbers, &mut self.state) {
            Err(error) if error.kind().is_for_want() => {
                self.rotate_at = self.log.end() + ROTATE_BYTES_MIN;
                self.failed = false;
                return Ok(());
            }
            written => written.map_err(|error| self.terminal(error))?,
        };
        current::put_in_force(&*self.vfs, &self.dir).map_err(|error| self.terminal(error))?;
        self.rotate_at = rotate_at(&new.log);
        (self.number, self.log, self.room) = (new.number, new.log, new.room);
        self.failed = false;
        // If the file stays, the next opening removes it.
        let _ = self.vfs.remove(&old);
        Ok(())
    }

    /// The error of a failure after which it is not known what the disk holds. An error of a full
    /// disk becomes another error: otherwise the caller would take it for "nothing was written" and
    /// go on.
    fn terminal(&self, error: Error) -> Error {
        match error.kind().is_for_want() {
            true => {
                let source = io::Error::other(error.to_string());
                Error::io(&self.path(), "write to the manifest", source)
            }
            false => error,
        }
    }

    fn path(&self) -> PathBuf {
        FileName::Manifest(self.number).path(&self.dir)
    }
}

/// The secret of a database that has none. Where it is fixed, as in tests, a seed must give the
/// same steps again.
pub(super) fn draw_guard_secret(is_fixed: bool) -> io::Result<u64> {
    match is_fixed {
        true => Ok(1),
        false => random::number(),
    }
}

/// Skips the numbers of all files in `dir`, needed or not, so that no new file gets one of them.
fn skip_used(vfs: &dyn Vfs, dir: &Path, numbers: &FileNumbers) -> Result<()> {
    let used = files::list(vfs, dir)?
        .into_iter()
        .filter_map(FileName::number);
    used.for_each(|used| numbers.skip(used));
    Ok(())
}

fn rotate_at(log: &FramedLogWriter) -> u64 {
    (log.end() * ROTATE_TIMES).max(ROTATE_BYTES_MIN)
}

/// A manifest that is written and synced, and not in force yet.
struct NewManifest {
    number: FileNumber,
    log: FramedLogWriter,
    room: Room,
}

/// Writes a new manifest with all of `state`. If that fails, the one in force is unchanged.
fn write_new(
    vfs: &dyn Vfs,
    dir: &Path,
    numbers: &FileNumbers,
    state: &mut State,
) -> Result<NewManifest> {
    numbers.skip(FileNumber(state.next_file.0.saturating_sub(1)));
    let number = numbers.take();
    state.next_file = numbers.next();
    let path = FileName::Manifest(number).path(dir);
    let file = vfs.create(&path);
    let file = file.map_err(|source| Error::io(&path, "create a manifest", source))?;
    let mut payload = Vec::new();
    for change in state.to_changes() {
        change::encode(&mut payload, &change);
    }
    let write = || -> Result<FramedLogWriter> {
        let mut log = FramedLogWriter::create(file.clone(), number.0)?;
        log.append(&payload)?;
        log.sync()?;
        // The step that puts it in force needs room, too.
        current::write_unfinished(
            vfs,
            dir,
            Current {
                manifest: number,
                verified: log.end(),
            },
        )?;
        Ok(log)
    };
    let log = write().inspect_err(|_| {
        // If the file stays, the next opening removes it.
        let _ = vfs.remove(&path);
    })?;
    let room = Room::new(file, &log);
    Ok(NewManifest { number, log, room })
}
