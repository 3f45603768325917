//! [`Manifest`]: the manifest of an open database, which goes on while the database does.
//!
//! Every opening begins a new manifest with all that the old one says, as does one that has grown long. So nothing is ever appended
//! behind what another life wrote: what that left unsynced or torn at the end is gone with its file.
//!
//! After a failure to write or sync an edit it is not known what the disk holds: the manifest refuses all further edits,
//! and the next opening finds out. The database is then to be treated as failed.
//!
//! Belongs to one thread at a time: the caller has a lock.

use super::change::{self, Change, ENGINE, FORMAT_VERSION, Refused};
use super::current::{self, Current};
use super::state::{Edit, State};
use crate::files::{FileName, FileNumbers};
use crate::tables::{TableDir, TableFile};
use crate::types::FileNumber;
use evendb_storage::framed_log::{FramedLogWriter, find_frame, read_frames};
use evendb_storage::vfs::Vfs;
use evendb_storage::{Error, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A manifest is begun anew when it has this many bytes, or some times the bytes that it began with.
const ROTATE_BYTES_MIN: u64 = 1 << 20;
const ROTATE_TIMES: u64 = 4;

/// See the module.
#[derive(Debug)]
pub(crate) struct Manifest {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    numbers: Arc<FileNumbers>,
    number: FileNumber,
    /// `None` at rest.
    log: Option<FramedLogWriter>,
    rotate_at: u64,
    state: State,
    failed: bool,
}

/// Reads the manifest that `CURRENT` in `dir` names, and writes nothing.
pub(crate) fn load(vfs: &dyn Vfs, dir: &Path, place: &Arc<TableDir>) -> Result<State> {
    let current = current::read(vfs, dir)?;
    let path = FileName::Manifest(current.manifest).path(dir);
    let file = vfs.open(&path, false);
    let file = file.map_err(|source| Error::open(&path, "open the manifest", source))?;
    let number = current.manifest.0;
    let mut state = State::new(place.clone());
    let end = read_frames(&*file, number, current.verified, &mut |offset, payload| {
        let corrupt = |what: &str| Error::corruption(&path, offset, what);
        let changes = change::decode(payload).map_err(|refused| match refused {
            Refused::Unknown(what) => Error::unsupported(&path, what),
            Refused::Malformed => corrupt("an edit cannot be decoded"),
        })?;
        check_format(&path, &changes)?;
        let edit = state.edit_of(changes);
        let prepared = edit.and_then(|edit| state.prepare(edit)).map_err(corrupt)?;
        state.install(prepared);
        Ok(())
    })?;
    // Each edit is synced before the next is appended.
    if let Some(next) = find_frame(&*file, number, end)? {
        let detail = format!("an edit does not verify, though the one at {next} behind it does");
        return Err(Error::corruption(&path, end, detail));
    }
    match end > evendb_storage::framed_log::HEADER_BYTES {
        true => Ok(state),
        false => Err(Error::corruption(&path, end, "a manifest without edits")),
    }
}

/// Refuses what another engine or another version wrote.
fn check_format(path: &Path, changes: &[Change]) -> Result<()> {
    let Some(Change::Format { engine, version }) = changes.first() else {
        return Ok(());
    };
    if engine != ENGINE {
        let detail = format!("a database of engine {engine:?}, not of {ENGINE:?}");
        return Err(Error::unsupported(path, detail));
    }
    if *version != FORMAT_VERSION {
        let detail = format!("manifest of version {version}, this build reads {FORMAT_VERSION}");
        return Err(Error::unsupported(path, detail));
    }
    Ok(())
}

impl Manifest {
    /// Begins a manifest with all of `state`, and makes it the one in force. What `state` was read from may go then.
    pub(crate) fn begin(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        numbers: Arc<FileNumbers>,
        mut state: State,
    ) -> Result<Manifest> {
        skip_used(&*vfs, dir, &numbers)?;
        let (number, log) = write_new(&*vfs, dir, &numbers, &mut state)?;
        Ok(Manifest {
            vfs,
            dir: dir.to_owned(),
            numbers,
            number,
            rotate_at: rotate_at(&log),
            log: Some(log),
            state,
            failed: false,
        })
    }

    /// Of a database that is only read: there are no edits, and no file is made.
    pub(crate) fn at_rest(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        numbers: Arc<FileNumbers>,
        state: State,
    ) -> Manifest {
        Manifest {
            vfs,
            dir: dir.to_owned(),
            numbers,
            number: FileNumber(0),
            rotate_at: u64::MAX,
            log: None,
            state,
            failed: false,
        }
    }

    /// What there is.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Whether a file of this name may be needed. Of the others opening removes what it finds.
    pub(crate) fn needs(&self, name: FileName) -> bool {
        match name {
            FileName::Current | FileName::Lock => true,
            FileName::CurrentUnfinished => false,
            FileName::Manifest(number) => number == self.number,
            FileName::Log(number) => number >= self.state.log_number,
            FileName::Table(number) => self.state.has_table(number),
        }
    }

    /// Makes an edit, durably. The new trees are in [`Manifest::state`] then, and the tables are retired that no tree has any
    /// more: their files go with the last handles, which are those of the trees that are shown.
    ///
    /// An edit that contradicts the state is not made, nothing is written, and its new tables are retired. That is a fault of
    /// the caller's, or a job for a keyspace that was dropped meanwhile.
    pub(crate) fn commit(&mut self, mut edit: Edit) -> Result<()> {
        let refused = match (&self.log, self.failed) {
            (Some(_), false) => None,
            (Some(_), true) => Some("an earlier edit failed"),
            (None, _) => Some("the database is only read"),
        };
        if let Some(why) = refused {
            let error = io::Error::other(why);
            return Err(Error::io(&self.path(), "write to the manifest", error));
        }
        edit.next_file = Some(self.numbers.next());
        let mut payload = Vec::new();
        for change in edit.to_changes() {
            change::encode(&mut payload, &change);
        }
        let new_tables: Vec<Arc<TableFile>> = edit.new_tables().cloned().collect();
        let prepared = self.state.prepare(edit).map_err(|what| {
            // No manifest names them.
            let unknown = new_tables
                .iter()
                .filter(|table| !self.state.has_table(table.number));
            unknown.for_each(|table| table.retire());
            let what = io::Error::new(io::ErrorKind::InvalidInput, what);
            Error::io(
                &self.path(),
                "make an edit that contradicts the state",
                what,
            )
        })?;
        // Set while it is not known what the disk holds.
        self.failed = true;
        if !new_tables.is_empty() {
            let synced = self.vfs.sync_dir(&self.dir);
            synced.map_err(|source| Error::io(&self.dir, "sync the directory", source))?;
        }
        let mut end = 0;
        if let Some(log) = &mut self.log {
            log.append(&payload)?;
            log.sync()?;
            end = log.end();
        }
        self.failed = false;
        for table in self.state.install(prepared) {
            table.retire();
        }
        match end >= self.rotate_at {
            true => self.rotate(),
            false => Ok(()),
        }
    }

    /// Goes on in a new file.
    fn rotate(&mut self) -> Result<()> {
        self.failed = true;
        let old = self.path();
        let written = write_new(&*self.vfs, &self.dir, &self.numbers, &mut self.state);
        let (number, log) = written?;
        self.number = number;
        self.rotate_at = rotate_at(&log);
        self.log = Some(log);
        self.failed = false;
        // If it stays, the next opening removes it.
        let _ = self.vfs.remove(&old);
        Ok(())
    }

    fn path(&self) -> PathBuf {
        FileName::Manifest(self.number).path(&self.dir)
    }
}

/// No file gets a number that a file in `dir` has, needed or not.
fn skip_used(vfs: &dyn Vfs, dir: &Path, numbers: &FileNumbers) -> Result<()> {
    let names = vfs.list(dir);
    let names = names.map_err(|source| Error::io(dir, "list the directory", source))?;
    let files = names
        .iter()
        .filter_map(|name| FileName::parse(name.to_str()?));
    files
        .filter_map(FileName::number)
        .for_each(|used| numbers.skip(used));
    Ok(())
}

fn rotate_at(log: &FramedLogWriter) -> u64 {
    (log.end() * ROTATE_TIMES).max(ROTATE_BYTES_MIN)
}

/// Writes a new manifest with all of `state`, and makes it the one in force, durably.
fn write_new(
    vfs: &dyn Vfs,
    dir: &Path,
    numbers: &FileNumbers,
    state: &mut State,
) -> Result<(FileNumber, FramedLogWriter)> {
    numbers.skip(FileNumber(state.next_file.0.saturating_sub(1)));
    let number = numbers.take();
    state.next_file = numbers.next();
    let path = FileName::Manifest(number).path(dir);
    let file = vfs.create(&path);
    let file = file.map_err(|source| Error::io(&path, "create a manifest", source))?;
    let mut log = FramedLogWriter::create(file, number.0)?;
    let mut payload = Vec::new();
    for change in state.to_changes() {
        change::encode(&mut payload, &change);
    }
    let verified = log.append(&payload)?;
    log.sync()?;
    let manifest = number;
    current::write(vfs, dir, Current { manifest, verified })?;
    Ok((number, log))
}
