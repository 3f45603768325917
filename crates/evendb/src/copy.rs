//! A copy of the database in another directory, made while writers go on: [`Db::copy_to`].
//!
//! ```text
//! source                         target
//! a.sst  -------- hard link ---> a.sst            immutable, so both may have it
//! CHUNK-LOGS  |x|run|x|run|  --> CHUNK-LOGS |run|run|   live extents only, close together
//! MANIFEST-n  ---- state ------> MANIFEST-000001  the same structure, new offsets, no commit log
//!                                CURRENT          last: with it the copy is a database
//! ```
//!
//! Order, each step needing the one before:
//! 1. The target is made and locked, with the mark `UNFINISHED-COPY` in it, durably: an opening
//!    that finds the mark and no `CURRENT` refuses.
//! 2. A checkpoint of the engine: everything acknowledged before the call is in runs and tables.
//!    Still under the checkpoint mutex, the manifest's state and a handle of every table it names
//!    are taken. The handles keep files and extents from being deleted (I13); the mutex is given
//!    back, and from here on nothing of the source waits for the copy.
//! 3. SSTables are linked, or copied where the file system has no links; extents are copied. All
//!    is synced.
//! 4. The manifest, synced; all names, synced with its own; then `CURRENT`; the mark goes.
//!
//! The copy has no commit log: no record lies above the checkpoint. Opening it above the relaxed
//! level makes one. Both databases go on from the same epoch; ids of new tables cannot meet,
//! because they are in different directories, and nobody writes into a table that exists.
//!
//! A backup ([`crate::backup`]) is made in the same way, but shares tables with the backup before it, and not with the
//! source.
//!
//! A failure is this call's alone: it never latches the source, and the target is removed, its
//! `CURRENT` first and durably.

use crate::api::db::Db;
use crate::checkpoint;
use crate::engine::Engine;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::files::{CONTAINER, CURRENT, KEYS, LOCK, UNFINISHED_COPY, is_own_name};
use crate::funk::tables::{TableHandle, table_path};
use crate::manifest::edit::{Part, Place};
use crate::manifest::state::ManifestState;
use crate::manifest::writer::Manifest;
use crate::sync::Arc;
use crate::value_files;
use evendb_storage::vfs::{File, LockGuard, Vfs, WriteBehind, read_exact_at};
use evendb_storage::{Error as StorageError, TableId};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Files are copied in pieces of this size.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;

/// What [`Db::copy_to`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopySummary {
    /// SSTables that the copy shares with the source.
    pub tables_linked: u64,
    /// Bytes of those, and of value files that are shared: they cost no space as long as both databases need them.
    pub bytes_linked: u64,
    /// SSTables that had to be copied, because no link was possible.
    pub tables_copied: u64,
    /// Runs of the chunks' logs, which are always copied.
    pub runs_copied: u64,
    /// Bytes of copied tables, runs and value files.
    pub bytes_copied: u64,
    /// From the call to the end.
    pub elapsed: Duration,
}

impl Db {
    /// Makes a copy of the database in directory `dir`, which opens like any other, while writers
    /// go on. It holds everything acknowledged before the call, and of what is written meanwhile a
    /// prefix; batches are whole. On return the copy survives power loss.
    ///
    /// SSTables are shared by hard links where `dir` is on the same file system, so the copy takes
    /// little time and space; the chunks' logs are copied. Copy and source are independent
    /// afterwards: either may be written, moved or deleted.
    ///
    /// # Errors
    /// `AlreadyExists` if `dir` exists and is not an empty directory; `NoSpace` and `Io` for
    /// failures here or there, after which the target is removed and the source goes on; as for
    /// [`flush`](Self::flush).
    #[doc(alias = "backup")]
    #[doc(alias = "checkpoint")]
    pub fn copy_to(&self, dir: impl AsRef<Path>) -> Result<CopySummary> {
        let recording = &self.engine().core.recording;
        let copy = || self.copy_into(dir.as_ref());
        recording.other("copy_to", copy)
    }

    fn copy_into(&self, dir: &Path) -> Result<CopySummary> {
        let _inside = self.engine().core.health.enter_writable()?;
        copy_to(self.engine(), dir, &|engine, wanted| {
            let dir = &engine.disk.dir;
            Some(match wanted {
                Wanted::Table(part) => table_path(dir, part.table),
                Wanted::Values { id, .. } => value_files::file_path(dir, id),
            })
        })
    }
}

/// What a copy needs.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'p> {
    /// An SSTable.
    Table(&'p Part),
    /// A value file of so many bytes. It is not written any more.
    Values { id: u64, len: u64 },
}

/// The file with which a copy may share it, if there is one: it has the same bytes, and nobody writes to it.
pub(crate) type SharesWith<'s> = dyn Fn(&Engine, Wanted<'_>) -> Option<PathBuf> + 's;

/// What is copied: the structure at one moment, and what keeps its tables from being deleted.
struct CopyMoment {
    state: ManifestState,
    tables: Vec<Arc<TableHandle>>,
    /// The value files that they name. The tables' handles keep them.
    value_files: BTreeSet<u64>,
}

/// A directory that is becoming a database.
pub(crate) struct Target<'v> {
    vfs: &'v dyn Vfs,
    pub(crate) dir: PathBuf,
    /// The directory was not there before.
    made: bool,
    /// Nobody opens or fills it meanwhile.
    _lock: Box<dyn LockGuard>,
}

pub(crate) fn failed(path: &Path, what: &str) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    let what = what.to_owned();
    move |source| StorageError::io(&path, &what, source).into()
}

/// The caller has entered.
pub(crate) fn copy_to(
    engine: &Engine,
    dir: &Path,
    shares_with: &SharesWith<'_>,
) -> Result<CopySummary> {
    let started = Instant::now();
    let dir = std::path::absolute(dir).map_err(failed(dir, "resolve the path"))?;
    let target = Target::make(&*engine.disk.vfs, &dir)?;
    let copied = take_moment(engine).and_then(|moment| fill(engine, &target, moment, shares_with));
    // What was dropped from the source meanwhile waited for the copy.
    engine.disk.collect(&engine.core.health);
    match copied {
        Ok(summary) => Ok(CopySummary {
            elapsed: started.elapsed(),
            ..summary
        }),
        Err(error) => {
            target.discard();
            Err(error)
        }
    }
}

/// Step 2.
fn take_moment(engine: &Engine) -> Result<CopyMoment> {
    let _no_other_checkpoint = engine.flow.checkpoint_mutex.lock();
    checkpoint::checkpoint_locked(engine)?;
    let mut moment = engine.disk.manifest().with_state(|state| {
        let parts = state.chunks.values().flat_map(|chunk| &chunk.parts);
        let mut tables: BTreeMap<TableId, Arc<TableHandle>> = BTreeMap::new();
        for part in parts {
            if let Entry::Vacant(vacant) = tables.entry(part.table) {
                vacant.insert(engine.disk.tables.find(part.table).ok_or_else(|| {
                    let detail = format!("nobody holds table {:?}", part.table);
                    Error::from(StorageError::corruption(&engine.disk.dir, 0, detail))
                })?);
            }
        }
        let value_files = BTreeSet::new();
        Ok::<_, Error>(CopyMoment {
            state: state.clone(),
            tables: tables.into_values().collect(),
            value_files,
        })
    })?;
    // From here on nobody writes to the files that they name.
    let values = &engine.core.value_files;
    values.seal();
    let named = moment
        .tables
        .iter()
        .flat_map(|table| &table.part.meta.value_files);
    moment.value_files = named.map(|(id, _)| *id).collect();
    Ok(moment)
}

/// Steps 3 and 4.
fn fill(
    engine: &Engine,
    target: &Target<'_>,
    moment: CopyMoment,
    shares_with: &SharesWith<'_>,
) -> Result<CopySummary> {
    let Engine { core, disk, .. } = engine;
    let CopyMoment {
        mut state,
        tables,
        value_files,
    } = moment;
    let mut summary = CopySummary::default();
    let mut may_link = true;
    for table in &tables {
        if table.part.place == Place::File {
            core.health.check_readable()?;
            let id = table.part.table;
            let to = table_path(&target.dir, id);
            let bytes = table.part_len();
            let shared = shares_with(engine, Wanted::Table(&table.part)).filter(|_| may_link);
            let is_linked = match shared {
                Some(from) => target.link(&from, &to, &mut may_link)?,
                None => false,
            };
            if is_linked {
                summary.tables_linked += 1;
                summary.bytes_linked += bytes;
            } else {
                target.copy_file(&table_path(&disk.dir, id), &to, bytes, &mut |_| {})?;
                summary.tables_copied += 1;
                summary.bytes_copied += bytes;
            }
        }
    }
    if disk.vfs.secrets().is_some() {
        // Replaced as a whole when the key changes: either of the two opens the copy.
        let (from, to) = (disk.dir.join(KEYS), target.dir.join(KEYS));
        let len = disk.vfs.open(&from, false).and_then(|file| file.len());
        let len = len.map_err(failed(&from, "look at the keys"))?;
        target.copy_file(&from, &to, len, &mut |_| {})?;
    }
    for id in value_files {
        core.health.check_readable()?;
        let from = value_files::file_path(&disk.dir, id);
        let to = value_files::file_path(&target.dir, id);
        // As it lies there: room that a value had taken which then was not written is not in the file.
        let len = disk.vfs.open(&from, false).and_then(|file| file.len());
        let len = len.map_err(failed(&from, "look at a value file"))?;
        let shared = shares_with(engine, Wanted::Values { id, len }).filter(|_| may_link);
        let is_linked = match shared {
            Some(from) => target.link(&from, &to, &mut may_link)?,
            None => false,
        };
        match is_linked {
            true => summary.bytes_linked += len,
            false => {
                target.copy_file(&from, &to, len, &mut |_| {})?;
                summary.bytes_copied += len;
            }
        }
    }
    let places = copy_runs(core, disk, target, &tables, &mut summary)?;
    for chunk in state.chunks.values_mut() {
        for part in &mut chunk.parts {
            if let Some(&offset) = places.get(&part.table) {
                part.place = Place::Extent { offset };
            }
        }
    }
    state.ring_bytes = 0;
    // It syncs the directory before `CURRENT` comes.
    drop(Manifest::create(disk.vfs.clone(), &target.dir, 1, state)?);
    target.finish()?;
    Ok(summary)
}

/// Copies the live extents, in the order in which they lie, into a new container; where each
/// table is there.
fn copy_runs(
    core: &Core,
    disk: &Disk,
    target: &Target<'_>,
    tables: &[Arc<TableHandle>],
    summary: &mut CopySummary,
) -> Result<BTreeMap<TableId, u64>> {
    let mut extents: Vec<(u64, u64, TableId)> = tables
        .iter()
        .filter_map(|table| match table.part.place {
            Place::Extent { offset } => Some((offset, table.part_len(), table.part.table)),
            Place::File => None,
        })
        .collect();
    extents.sort_unstable();
    let file = target.create(CONTAINER)?;
    let path = file.path().to_owned();
    let total: u64 = extents.iter().map(|extent| sectors(extent.1)).sum();
    if total > 0 {
        file.preallocate(0, total)
            .map_err(failed(&path, "reserve room for the copy's logs"))?;
    }
    let source = disk.container.file();
    let mut behind = WriteBehind::default();
    let mut places = BTreeMap::new();
    let mut at = 0;
    let mut rest = &extents[..];
    while let Some(&(start, len, _)) = rest.first() {
        core.health.check_readable()?;
        // Neighbours in one go, as long as they are a piece at most.
        let mut end = start + len;
        let mut count = 0;
        for &(offset, len, id) in rest {
            let near = count == 0 || offset == start + sectors(end - start);
            if !near || (count > 0 && offset + len - start > PIECE_BYTES) {
                break;
            }
            places.insert(id, at + offset - start);
            end = offset + len;
            count += 1;
        }
        let to = (&*file, &mut behind);
        copy_bytes(&*source, start, to, at, end - start, &mut |_| {})?;
        summary.runs_copied += count as u64;
        summary.bytes_copied += end - start;
        at += sectors(end - start);
        rest = &rest[count..];
    }
    file.sync_data()
        .map_err(failed(&path, "sync the copy's logs"))?;
    Ok(places)
}

fn sectors(len: u64) -> u64 {
    len.next_multiple_of(512)
}

/// `behind` is of the target's writes; `note` is given the bytes, in pieces of [`PIECE_BYTES`].
fn copy_bytes(
    from: &dyn File,
    start: u64,
    (to, behind): (&dyn File, &mut WriteBehind),
    at: u64,
    len: u64,
    note: &mut dyn FnMut(&[u8]),
) -> Result<()> {
    let mut buffer = vec![0; PIECE_BYTES.min(len) as usize];
    let mut done = 0;
    while done < len {
        let piece = &mut buffer[..PIECE_BYTES.min(len - done) as usize];
        read_exact_at(from, piece, start + done).map_err(failed(from.path(), "read to copy"))?;
        behind
            .write_at(to, piece, at + done)
            .map_err(failed(to.path(), "write a copy"))?;
        note(piece);
        done += piece.len() as u64;
    }
    Ok(())
}

impl Target<'_> {
    /// Step 1.
    pub(crate) fn make<'v>(vfs: &'v dyn Vfs, dir: &Path) -> Result<Target<'v>> {
        let made = !vfs
            .exists(dir)
            .map_err(failed(dir, "look for the target"))?;
        let refuse = |what: &str| {
            let message = format!(
                "cannot make a database in {}: {what}; give a directory that does not exist or \
                 is empty",
                dir.display()
            );
            Err(Error::new(ErrorKind::AlreadyExists, message))
        };
        if !made {
            match vfs.list(dir) {
                Ok(names) if names.is_empty() => {}
                Ok(_) => return refuse("it is not empty"),
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                    return refuse("it is not a directory");
                }
                Err(error) => return Err(failed(dir, "list the target")(error)),
            }
        }
        vfs.create_dir_all(dir)
            .map_err(failed(dir, "create the target"))?;
        let lock_path = dir.join(LOCK);
        let lock = match vfs.lock(&lock_path, false) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return refuse("somebody else has locked it");
            }
            Err(error) => {
                if made {
                    let _ = vfs.remove_dir(dir);
                }
                return Err(failed(&lock_path, "lock the target")(error));
            }
        };
        // Nobody can make a database here from now on; nor may anybody have a moment ago.
        let names = vfs.list(dir).map_err(failed(dir, "list the target"))?;
        if names.iter().any(|name| name != LOCK) {
            return refuse("it is not empty");
        }
        let target = Target {
            vfs,
            dir: dir.to_owned(),
            made,
            _lock: lock,
        };
        let marked = target
            .create(UNFINISHED_COPY)
            .and_then(|_| target.sync_names());
        marked.inspect_err(|_| target.discard())?;
        Ok(target)
    }

    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        let path = self.dir.join(name);
        self.vfs
            .create(&path)
            .map_err(failed(&path, "create a file of the copy"))
    }

    pub(crate) fn sync_names(&self) -> Result<()> {
        self.vfs
            .sync_dir(&self.dir)
            .map_err(failed(&self.dir, "sync the copy's directory"))
    }

    /// Whether it could be linked. Where the two can never be linked it need not be tried again.
    fn link(&self, from: &Path, to: &Path, may_link: &mut bool) -> Result<bool> {
        match self.vfs.hard_link(from, to) {
            Ok(()) => Ok(true),
            Err(error) => match error.kind() {
                io::ErrorKind::CrossesDevices
                | io::ErrorKind::Unsupported
                | io::ErrorKind::PermissionDenied => {
                    *may_link = false;
                    Ok(false)
                }
                io::ErrorKind::TooManyLinks => Ok(false),
                _ => Err(failed(to, "link an SSTable")(error)),
            },
        }
    }

    /// Copies a file and syncs the copy; `note` is given the bytes in pieces.
    pub(crate) fn copy_file(
        &self,
        from: &Path,
        to: &Path,
        bytes: u64,
        note: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let source = self
            .vfs
            .open(from, false)
            .map_err(failed(from, "open a file to copy"))?;
        let file = self
            .vfs
            .create(to)
            .map_err(failed(to, "create the copy of a file"))?;
        let behind = &mut WriteBehind::default();
        copy_bytes(&*source, 0, (&*file, behind), 0, bytes, note)?;
        file.sync_data()
            .map_err(failed(to, "sync the copy of a file"))
    }

    /// The copy is a database, durably: the mark goes. If it does not, the next opening for
    /// writing removes it.
    pub(crate) fn finish(&self) -> Result<()> {
        let _ = self.vfs.remove(&self.dir.join(UNFINISHED_COPY));
        self.sync_names()
    }

    /// Removes what was made. As long as `CURRENT` may come back after a power loss, all it needs
    /// stays; as long as anything is there, so does the mark.
    pub(crate) fn discard(&self) {
        let Ok(names) = self.vfs.list(&self.dir) else {
            return;
        };
        let names: Vec<&str> = names.iter().filter_map(|name| name.to_str()).collect();
        let remove = |name: &str| self.vfs.remove(&self.dir.join(name));
        if names.contains(&CURRENT)
            && remove(CURRENT)
                .and_then(|()| self.vfs.sync_dir(&self.dir))
                .is_err()
        {
            return;
        }
        let mut all_gone = true;
        for name in names {
            let own = is_own_name(name) || [CONTAINER, LOCK, KEYS].contains(&name);
            if own && name != UNFINISHED_COPY {
                all_gone &= remove(name).is_ok();
            }
        }
        if all_gone && self.vfs.sync_dir(&self.dir).is_ok() {
            let _ = remove(UNFINISHED_COPY);
            if self.made {
                let _ = self.vfs.remove_dir(&self.dir);
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
