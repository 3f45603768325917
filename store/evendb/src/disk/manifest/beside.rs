//! A reader beside the process that writes: which files of its moment are still what they were.
//!
//! ```text
//!   opening: manifest at (id, end) ---> Moment: extents and files that it names
//!   a read:  bytes do not verify, or a file is gone
//!              -> the manifest as it is now still names that extent or file?   yes: damage
//!                                                                             no:  Stale
//! ```
//! The writer uses an extent again, or removes a file, only after the edit that drops it is durable
//! (I13). Every block is checksummed with its table's number and its place. So bytes that the
//! writer has replaced do not verify, and the manifest, read after that, no longer names them.
//! Wrong bytes are never returned, and damage is never mistaken for the writer's work, or the
//! reverse.
//!
//! [`BesideVfs`] has the reader's files. It refuses everything that would change anything, so this
//! process unlinks, truncates, renames and writes nothing, and it never opens `LOCK`.
//!
//! Thread safety: any. Not here: how often an opening is tried (`opening/beside.rs`).

use super::KeyspaceId;
use super::edit::Place;
use super::state::ManifestState;
use super::writer::{self, FoundManifest};
use crate::commit_log::Lsn;
use crate::files::in_container;
use crate::sync::{Arc, thread};
use evendb_storage::vfs::{BootId, File, LockGuard, LockHolder, Mapping, Vfs};
use evendb_storage::{Error, ErrorKind, Replaced, Result, TableId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// The largest number of attempts at an opening, or at a look at the manifest.
pub(crate) const ATTEMPTS_MAX: u32 = 100;
/// A failure that comes this many times in a row is damage.
const DAMAGED_AFTER: u32 = 4;
/// The longest pause between two attempts; each is twice as long as the one before.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Failures of attempts beside a writer, which may have gone on between two steps of each: it
/// appends to its manifest, goes on to another one, and removes files. Then the next attempt finds
/// something else. Damage is what is found again and again: the same manifest, and the same failure
/// at the same place.
pub(crate) struct Failures {
    last: Option<(Option<(u64, u64)>, String)>,
    times: u32,
    pause: Duration,
}

impl Failures {
    pub(crate) fn new() -> Failures {
        Failures {
            last: None,
            times: 0,
            pause: Duration::from_millis(1),
        }
    }

    /// Notes a failure of an attempt that saw the manifest end `at` this place, or that did not
    /// come so far. Returns whether it is damage; if not, it has waited for the next attempt.
    pub(crate) fn is_damage(&mut self, at: Option<(u64, u64)>, failure: &str) -> bool {
        let this = (at, failure.to_owned());
        self.times = match self.last.as_ref() == Some(&this) {
            true => self.times + 1,
            false => 1,
        };
        if self.times == DAMAGED_AFTER {
            return true;
        }
        self.last = Some(this);
        self.wait();
        false
    }

    /// Waits for the next attempt, behind a failure that is the writer's work for certain.
    pub(crate) fn wait(&mut self) {
        thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

/// How files are named, by rooms above this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paths {
    pub(crate) table: fn(&Path, TableId) -> PathBuf,
    pub(crate) container: fn(&Path, u64) -> PathBuf,
    pub(crate) value_file: fn(&Path, u64) -> PathBuf,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Beside {
    /// The files as they are, with the database's secret if it has one.
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    paths: Paths,
    /// What the reader sees; set once its opening has read the manifest.
    moment: OnceLock<Moment>,
}

/// What a manifest names at one place.
#[derive(Debug)]
pub(crate) struct Moment {
    /// The file, and the end of its last edit.
    at: (u64, u64),
    pub(crate) replay_from: Lsn,
    pub(crate) last_epoch: u64,
    keyspaces: BTreeMap<KeyspaceId, String>,
    /// Offset of each run in its container, with its length and table.
    extents: HashMap<PathBuf, BTreeMap<u64, (u64, TableId)>>,
    files: HashSet<PathBuf>,
}

impl Moment {
    fn new(found: &FoundManifest, dir: &Path, paths: Paths) -> Moment {
        let state: &ManifestState = &found.state;
        let mut moment = Moment {
            at: (found.id, found.end),
            replay_from: state.replay_from,
            last_epoch: state.epochs.back().map_or(0, |epoch| epoch.epoch),
            keyspaces: state.keyspaces.clone(),
            extents: HashMap::new(),
            files: HashSet::new(),
        };
        for part in state.chunks.values().flat_map(|chunk| &chunk.parts) {
            match part.place {
                Place::Extent { offset } => {
                    let (number, offset) = in_container(offset);
                    let container = (paths.container)(dir, number);
                    let run = (part.meta.len, part.table);
                    moment
                        .extents
                        .entry(container)
                        .or_default()
                        .insert(offset, run);
                }
                Place::File => drop(moment.files.insert((paths.table)(dir, part.table))),
            }
            for file in &part.meta.value_files {
                moment.files.insert((paths.value_file)(dir, file.0));
            }
        }
        moment
    }

    /// Whether a keyspace of this moment was dropped since, or has another name in `now`: any of
    /// them, or this one. Those that are new do not count.
    fn has_lost(&self, now: &Moment, of: Option<KeyspaceId>) -> bool {
        let mut mine = self.keyspaces.iter();
        mine.any(|(id, name)| of.is_none_or(|of| of == *id) && now.keyspaces.get(id) != Some(name))
    }

    /// The runs that have the byte at `offset` of this container, or end there: an error about a
    /// footer names the end.
    fn runs_at(&self, path: &Path, offset: u64) -> impl Iterator<Item = (u64, (u64, TableId))> {
        let runs = self.extents.get(path).into_iter();
        let below = runs.flat_map(move |runs| runs.range(..=offset).rev().take(2));
        let runs = below.map(|(&start, &run)| (start, run));
        runs.filter(move |(start, run)| offset - start <= run.0)
    }
}

impl Beside {
    /// `vfs` has the files as they are.
    pub(crate) fn new(vfs: Arc<dyn Vfs>, dir: &Path, paths: Paths) -> Beside {
        Beside {
            vfs,
            dir: dir.to_owned(),
            paths,
            moment: OnceLock::new(),
        }
    }

    /// The reader sees what this manifest names. Only the first call counts.
    pub(crate) fn begin(&self, found: &FoundManifest) {
        let _ = self.moment.set(Moment::new(found, &self.dir, self.paths));
    }

    /// What the manifest names now. `Stale` if the writer went on during each attempt.
    pub(crate) fn look(&self) -> Result<Moment> {
        let mut failures = Failures::new();
        for _ in 0..ATTEMPTS_MAX {
            match writer::load(&*self.vfs, &self.dir) {
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    if failures.is_damage(None, &error.to_string()) {
                        return Err(error);
                    }
                }
                found => return Ok(Moment::new(&found?, &self.dir, self.paths)),
            }
        }
        let detail = "the writer's process goes on faster than its manifest is read";
        Err(Error::stale(&self.dir, 0, detail))
    }

    /// Whether the manifest is the one that the reader sees.
    pub(crate) fn is_newest(&self) -> Result<bool> {
        let now = self.look()?;
        Ok(self.moment.get().is_some_and(|mine| mine.at == now.at))
    }

    /// Whether a keyspace that the reader sees, any or this one, was dropped or renamed since.
    pub(crate) fn has_lost(&self, now: &Moment, of: Option<KeyspaceId>) -> bool {
        self.moment.get().is_some_and(|mine| mine.has_lost(now, of))
    }

    /// The place of the manifest that the reader sees.
    pub(crate) fn seen_at(&self) -> Option<(u64, u64)> {
        self.moment.get().map(|moment| moment.at)
    }

    /// Whether the reader's moment named what lies at `offset` of `path`, and the manifest does not
    /// any more. A manifest that cannot be read counts as one that does not: a newer moment needs
    /// it too, so that the refreshing gives its own error.
    fn is_replaced(&self, path: &Path, offset: u64) -> bool {
        let Some(mine) = self.moment.get() else {
            return false;
        };
        let Ok(now) = self.look() else {
            return true;
        };
        if mine.extents.contains_key(path) {
            let Some(still) = now.extents.get(path) else {
                return true;
            };
            let mut runs = mine.runs_at(path, offset);
            return runs.any(|(start, run)| still.get(&start) != Some(&run));
        }
        mine.files.contains(path) && !now.files.contains(path)
    }
}

/// The files of a reader beside a writer. Whatever would change a file or a name fails.
#[derive(Debug)]
pub(crate) struct BesideVfs {
    inner: Arc<dyn Vfs>,
    beside: Arc<Beside>,
}

impl BesideVfs {
    pub(crate) fn new(inner: Arc<dyn Vfs>, beside: Arc<Beside>) -> BesideVfs {
        BesideVfs { inner, beside }
    }
}

fn refused<T>() -> io::Result<T> {
    let message = "a reader beside a writer changes nothing";
    Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, message))
}

impl Vfs for BesideVfs {
    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        refused()
    }
    fn create(&self, _path: &Path) -> io::Result<Arc<dyn File>> {
        refused()
    }
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        if write {
            return refused();
        }
        match self.inner.open(path, false) {
            Ok(inner) => {
                let beside = self.beside.clone();
                Ok(Arc::new(BesideFile { inner, beside }))
            }
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && self.beside.is_replaced(path, 0) =>
            {
                Err(io::Error::other(Replaced))
            }
            Err(error) => Err(error),
        }
    }
    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refused()
    }
    fn hard_link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refused()
    }
    fn remove(&self, _path: &Path) -> io::Result<()> {
        refused()
    }
    fn check_regular(&self, path: &Path) -> io::Result<()> {
        self.inner.check_regular(path)
    }
    fn remove_dir(&self, _dir: &Path) -> io::Result<()> {
        refused()
    }
    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        refused()
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.inner.list(dir)
    }
    fn list_irregular(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.inner.list_irregular(dir)
    }
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.resolve(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }
    fn lock(&self, _path: &Path, _shared: bool) -> io::Result<Box<dyn LockGuard>> {
        refused()
    }
    fn allocated_bytes(&self, path: &Path) -> io::Result<u64> {
        self.inner.allocated_bytes(path)
    }
    fn open_files_max(&self) -> Option<u64> {
        self.inner.open_files_max()
    }
    fn boot_id(&self) -> Option<BootId> {
        self.inner.boot_id()
    }
    fn lock_holder(&self, path: &Path) -> LockHolder {
        self.inner.lock_holder(path)
    }
}

#[derive(Debug)]
struct BesideFile {
    inner: Arc<dyn File>,
    beside: Arc<Beside>,
}

impl File for BesideFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn unverified(&self, offset: u64, detail: &str) -> Error {
        match self.beside.is_replaced(self.path(), offset) {
            true => Error::stale(self.path(), offset, detail),
            false => Error::corruption(self.path(), offset, detail),
        }
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }
    fn write_at(&self, _data: &[u8], _offset: u64) -> io::Result<()> {
        refused()
    }
    fn expect_random_reads(&self) {
        self.inner.expect_random_reads();
    }
    fn will_need(&self, offset: u64, len: u64) {
        self.inner.will_need(offset, len);
    }
    fn sync_data(&self) -> io::Result<()> {
        refused()
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn allocated_bytes(&self) -> io::Result<u64> {
        self.inner.allocated_bytes()
    }
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        self.inner.next_data(offset)
    }
    fn set_len(&self, _len: u64) -> io::Result<()> {
        refused()
    }
    fn preallocate(&self, _offset: u64, _len: u64) -> io::Result<()> {
        refused()
    }
    fn punch_hole(&self, _offset: u64, _len: u64) -> io::Result<()> {
        refused()
    }
    fn map(&self, _len: usize) -> io::Result<Box<dyn Mapping>> {
        refused()
    }
}
