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
//!    back, and from here on nothing in the source waits for the copy.
//! 3. SSTables are linked, or copied if the file system has no links; extents are copied. All of
//!    them are synced. The copied files are read again, and verified against their checksums
//!    ([`check`]).
//! 4. The manifest, synced; all names, synced with its own; then `CURRENT`; the mark goes.
//!
//! The copy has no commit log: no record lies above the checkpoint. Opening it above the relaxed
//! level makes one. Both databases go on from the same epoch; ids of new tables cannot meet,
//! because they are in different directories, and existing tables are never written to.
//!
//! A backup ([`crate::backup`]) is made in the same way, but shares tables with the backup before
//! it, and not with the source.
//!
//! A failure is this call's alone: it never latches the source, and the target is removed, its
//! `CURRENT` first and durably.

pub(crate) mod check;
mod fill;
pub(crate) mod fork;

use crate::api::db::Db;
use crate::checkpoint;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::files::{CONTAINER, CURRENT, KEYS, LOCK, UNFINISHED_COPY, in_container, is_own_name};
use crate::manifest::edit::{Part, Place};
use crate::manifest::state::ManifestState;
use crate::sync::Arc;
use crate::tables::{TableHandle, table_path};
use crate::value_files;
use check::CopyOptions;
use evendb_base::made_dirs::MadeDirs;
use evendb_base::placement;
use evendb_storage::vfs::{File, LockGuard, Vfs, WriteBehind};
use evendb_storage::{Error as StorageError, TableId};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fill::copy_bytes;

/// Files are copied in pieces of this size.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;

/// The result of [`Db::copy_to`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopySummary {
    /// SSTables that the copy shares with the source.
    pub tables_linked: u64,
    /// Bytes of these tables, and of value files that are shared: they cost no space as long as
    /// both databases need them.
    pub bytes_linked: u64,
    /// SSTables that had to be copied, because no link was possible.
    pub tables_copied: u64,
    /// Value files, and containers of runs, that are shared. Only forks share containers.
    pub(crate) values_linked: u64,
    pub(crate) containers_linked: u64,
    /// Runs of the chunks' logs, which are always copied.
    pub runs_copied: u64,
    /// Bytes of copied tables, runs and value files.
    pub bytes_copied: u64,
    /// Bytes of keys and values that were read to be verified.
    pub bytes_verified: u64,
    /// The time from the call to the end.
    pub elapsed: Duration,
}

impl Db {
    /// Makes a copy of the database in directory `dir`, which opens like any other, while writers
    /// go on. It holds everything that was acknowledged before the call, and a prefix of the writes
    /// during the call; batches are whole. On return the copy survives power loss.
    ///
    /// SSTables are shared by hard links if `dir` is on the same file system, so the copy takes
    /// little space; the chunks' logs are copied. Copy and source are independent afterwards:
    /// either may be written, moved or deleted. The whole copy is read and verified, which takes
    /// the larger part of the time; [`copy_to_with`](Self::copy_to_with) can do that faster, or not
    /// at all.
    ///
    /// # Errors
    /// `AlreadyExists` if `dir` exists and is not an empty directory; `InvalidArgument` if it lies
    /// inside a database's directory or a directory with backups; `Corruption` with the file and
    /// the offset if the database is damaged; `NoSpace` and `Io` for failures of either disk. The
    /// target is removed then, and the source goes on. Otherwise the errors of
    /// [`flush`](Self::flush).
    #[doc(alias = "backup")]
    #[doc(alias = "checkpoint")]
    pub fn copy_to(&self, dir: impl AsRef<Path>) -> Result<CopySummary> {
        self.copy_to_with(dir, &CopyOptions::new())
    }

    /// Like [`copy_to`](Self::copy_to), with options.
    ///
    /// # Errors
    /// The errors of [`copy_to`](Self::copy_to).
    pub fn copy_to_with(&self, dir: impl AsRef<Path>, how: &CopyOptions) -> Result<CopySummary> {
        let recording = &self.engine().core.recording;
        let copy = || self.copy_into(dir.as_ref(), how);
        recording.other("copy_to", copy)
    }

    fn copy_into(&self, dir: &Path, how: &CopyOptions) -> Result<CopySummary> {
        let _inside = self.engine().core.health.enter_writable()?;
        placement::refuse_inside(&*self.engine().disk.vfs, dir, "a copy")?;
        let files = |engine: &Engine, wanted: Wanted<'_>| Some(from_source(engine, wanted));
        copy_to(self.engine(), dir, how, &Sources::of(&files), Mark::Goes)
    }
}

/// The source's own file, which a copy or a fork may share.
fn from_source(engine: &Engine, wanted: Wanted<'_>) -> Sharing {
    let dir = &engine.disk.dir;
    let path = match wanted {
        Wanted::Table(part) => table_path(dir, part.table),
        Wanted::Values { id, .. } => value_files::file_path(dir, id),
    };
    Sharing {
        path,
        is_verified: false,
    }
}

/// Whether the mark of an unfinished copy is removed from a copy that is a database.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Goes,
    /// The caller has more to do before the copy counts.
    Stays,
}

/// A file that a copy needs.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'p> {
    /// An SSTable.
    Table(&'p Part),
    /// A value file of this length in bytes, to which nothing is written any more.
    Values { id: u64, len: u64 },
}

/// A file that a copy may share: it has the same bytes, and nothing writes to it.
pub(crate) struct Sharing {
    pub(crate) path: PathBuf,
    /// It was verified when it was first copied.
    pub(crate) is_verified: bool,
}

/// The file that a copy may share in place of the wanted one, if there is one.
pub(crate) type SharesWith<'s> = dyn Fn(&Engine, Wanted<'_>) -> Option<Sharing> + 's;

/// What a copy shares.
pub(crate) struct Sources<'s> {
    files: &'s SharesWith<'s>,
    /// The containers that are shared, asked once under the checkpoint mutex.
    containers: &'s dyn Fn(&Engine) -> Result<BTreeSet<u64>>,
    /// A file that may be shared and cannot be linked is an error, and not copied.
    links_only: bool,
}

impl<'s> Sources<'s> {
    /// Files alone, as far as they can be linked; all runs are copied into one container.
    pub(crate) fn of(files: &'s SharesWith<'s>) -> Sources<'s> {
        Sources {
            files,
            containers: &|_| Ok(BTreeSet::new()),
            links_only: false,
        }
    }
}

/// The source of a copy: the structure at one moment, and the handles that keep its tables from
/// being deleted.
struct CopyMoment {
    state: ManifestState,
    tables: Vec<Arc<TableHandle>>,
    /// The value files that the tables name. The tables' handles keep them.
    value_files: BTreeSet<u64>,
    /// The containers that are shared; runs in others are copied. The tables' handles keep them.
    containers: BTreeSet<u64>,
}

impl CopyMoment {
    /// Leaves the containers that a part is in. Edits that came after these were chosen may have
    /// emptied one, and then nothing keeps its file.
    fn forget_empty_containers(&mut self) {
        let parts = self.state.chunks.values().flat_map(|chunk| &chunk.parts);
        let named: BTreeSet<u64> = parts
            .filter_map(|part| match part.place {
                Place::Extent { offset } => Some(in_container(offset).0),
                Place::File => None,
            })
            .collect();
        self.containers.retain(|number| named.contains(number));
    }
}

/// What a copy knows of links.
pub(crate) struct Links {
    /// Whether the two file systems may be linked.
    are_possible: bool,
    /// The directories that were looked at, with their names that are not regular files: one look
    /// for a thousand files. `None` where the look failed.
    seen: BTreeMap<PathBuf, Option<Vec<OsString>>>,
}

impl Links {
    fn new() -> Links {
        Links {
            are_possible: true,
            seen: BTreeMap::new(),
        }
    }

    /// Whether a look at the file's directory has shown that it is regular, as far as it is there.
    fn is_seen_regular(&mut self, vfs: &dyn Vfs, path: &Path) -> bool {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return false;
        };
        if !self.seen.contains_key(dir) {
            let irregular = vfs.list_irregular(dir).ok();
            self.seen.insert(dir.to_owned(), irregular);
        }
        let irregular = self.seen.get(dir).and_then(Option::as_ref);
        irregular.is_some_and(|names| names.iter().all(|irregular| irregular != name))
    }
}

/// A directory that is becoming a database.
pub(crate) struct Target<'v> {
    vfs: &'v dyn Vfs,
    pub(crate) dir: PathBuf,
    made: MadeDirs,
    /// No other process opens or fills the directory meanwhile.
    _lock: Box<dyn LockGuard>,
}

/// The engine's error for `map_err`.
pub(crate) fn failed<'p>(path: &'p Path, what: &'p str) -> impl FnOnce(io::Error) -> Error + 'p {
    move |source| StorageError::io(path, what, source).into()
}

/// Makes a copy. The caller has entered.
pub(crate) fn copy_to(
    engine: &Engine,
    dir: &Path,
    how: &CopyOptions,
    sources: &Sources<'_>,
    mark: Mark,
) -> Result<CopySummary> {
    let started = Instant::now();
    let dir = std::path::absolute(dir).map_err(failed(dir, "resolve the path"))?;
    let target = Target::make(&*engine.disk.vfs, &dir)?;
    let copied = take_moment(engine, sources)
        .and_then(|moment| fill::fill(engine, &target, moment, how, sources))
        .and_then(|summary| match mark {
            Mark::Goes => target.finish().map(|()| summary),
            Mark::Stays => Ok(summary),
        });
    // Tables that the source dropped meanwhile waited for the copy.
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
fn take_moment(engine: &Engine, sources: &Sources<'_>) -> Result<CopyMoment> {
    let _no_other_checkpoint = engine.flow.checkpoint_mutex.lock();
    checkpoint::checkpoint_locked(engine)?;
    let containers = (sources.containers)(engine)?;
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
            containers,
        })
    })?;
    // From here on nothing is written to the files that they name.
    let values = &engine.core.value_files;
    values.seal();
    let named = moment
        .tables
        .iter()
        .flat_map(|table| &table.part.meta.value_files);
    moment.value_files = named.map(|(id, _)| *id).collect();
    moment.forget_empty_containers();
    Ok(moment)
}

impl Target<'_> {
    /// Step 1.
    pub(crate) fn make<'v>(vfs: &'v dyn Vfs, dir: &Path) -> Result<Target<'v>> {
        let is_there = vfs
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
        if is_there {
            match vfs.list(dir) {
                Ok(names) if names.is_empty() => {}
                Ok(_) => return refuse("it is not empty"),
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                    return refuse("it is not a directory");
                }
                Err(error) => return Err(failed(dir, "list the target")(error)),
            }
        }
        let made = MadeDirs::make(vfs, dir).map_err(failed(dir, "create the target"))?;
        let lock_path = dir.join(LOCK);
        let lock = match vfs.lock(&lock_path, false) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return refuse("somebody else has locked it");
            }
            Err(error) => {
                made.undo(vfs);
                return Err(failed(&lock_path, "lock the target")(error));
            }
        };
        // From now on no other process can make a database here; the look finds one that was made a
        // moment ago.
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

    /// Links a file; returns whether that was possible, or the reason why it was not. If the two
    /// file systems can never be linked, it need not be tried again.
    fn link(
        &self,
        from: &Path,
        to: &Path,
        links: &mut Links,
    ) -> Result<std::result::Result<(), io::Error>> {
        let linked = match links.is_seen_regular(self.vfs, from) {
            true => self.vfs.hard_link_regular(from, to),
            false => self.vfs.hard_link(from, to),
        };
        match linked {
            Ok(()) => Ok(Ok(())),
            Err(error) => match error.kind() {
                io::ErrorKind::CrossesDevices
                | io::ErrorKind::Unsupported
                | io::ErrorKind::PermissionDenied => {
                    links.are_possible = false;
                    Ok(Err(error))
                }
                io::ErrorKind::TooManyLinks => Ok(Err(error)),
                _ => Err(failed(to, "link a file")(error)),
            },
        }
    }

    /// Copies a file and syncs the copy; `note` gets the bytes of each piece.
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
        copy_bytes(&*source, 0..bytes, (&*file, behind), 0, note)?;
        file.sync_data()
            .map_err(failed(to, "sync the copy of a file"))
    }

    /// The copy is a database, durably, so the mark is removed. If that fails, the next opening for
    /// writing removes it.
    pub(crate) fn finish(&self) -> Result<()> {
        let _ = self.vfs.remove(&self.dir.join(UNFINISHED_COPY));
        self.sync_names()
    }

    /// Removes the copy. As long as `CURRENT` may come back after a power loss, all files that it
    /// needs stay; as long as any file is there, the mark stays.
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
            self.made.undo(self.vfs);
        }
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
