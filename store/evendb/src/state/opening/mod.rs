//! Opening: from the files of a directory to an engine, after any kind of end.
//!
//! Order (docs/concurrency.md, open); the steps on the log are in `replay.rs`, the steps on the
//! manifest's content in `structure.rs`:
//! 1. Directory lock. `CURRENT` names the manifest; its edits give the structure. No data is read.
//! 2. The commit log is read from the manifest's replay position to the first invalid byte, over
//!    all epochs' segments. A record whose tail lies above that position proves a lost manifest
//!    edit: corruption. An end that no crash leaves is corruption, too (`damage.rs`), unless the
//!    caller gives up the records behind it.
//! 3. A new epoch is recorded and synced **before** any other write: a record beyond the end that
//!    was found must not come back to life behind a new one.
//! 4. The records of checkpoints not completed are applied to deltas, in order, at one new version.
//!    Records of completed checkpoints are skipped: otherwise a log cut short by a power loss would
//!    bring an old value over a checkpointed one.
//! 5. Files that nothing names are removed: SSTables, value extents, manifests. No others.

use crate::admission::Admission;
use crate::catalog::Catalog;
use crate::chunk::row_tag::RowTags;
use crate::commit_log::{self, CommitLog};
use crate::encryption;
use crate::engine::Engine;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::engine::flow::Flow;
use crate::engine::idle::Idle;
use crate::engine::log::{History, Log};
use crate::engine::space::Space;
use crate::engine::work::Work;
use crate::error::{Error, ErrorKind, Result};
use crate::figures::observer::Observer;
use crate::files::{COMMIT_LOG, CURRENT, HEAT, LOCK, STATS};
use crate::full_disk::{self, Ballast, FullDisk, Need};
use crate::kept_changes::KeptChanges;
use crate::key_locks::KeyLocks;
use crate::manifest::beside::Beside;
use crate::manifest::edit::{Change, EpochRecord};
use crate::manifest::epochs;
use crate::manifest::state::{EPOCH_MAX, ManifestState};
use crate::manifest::writer::{self, Manifest, manifest_path};
use crate::memory::shared::DELTAS_MIN;
use crate::memory::{Ledger, LedgerOwner};
use crate::memory_policy::MemoryPolicy;
use crate::options::{Durability, Options};
use crate::plant::planted;
use crate::sync::Arc;
use crate::sync::atomic::AtomicBool;
use crate::tables::container::Container;
use crate::tables::{FilesMax, Tables};
use crate::trace;
use crate::value_extents::ValueExtents;
use crate::value_files::{BothSyncedFirst, ValueFiles};
use crate::version::clock::{CHECKPOINT_SHIFT, Clock, checkpoint_of};
use creation::{Creation, Locked, create};
use directory::Wish;
use evendb_base::claim::Claim;
use evendb_base::{directory_lock, maker, placement};
use evendb_storage::vfs::{File, LockGuard, Vfs};
use evendb_storage::{Error as StorageError, ErrorKind as StorageErrorKind, Version, random};
use replay::Replay;
use std::path::{Path, PathBuf};

mod beside;
mod creation;
mod damage;
pub(crate) mod destroy;
pub(crate) mod directory;
pub(crate) mod keyspace;
mod replay;
mod structure;

fn io(path: &Path, what: &str) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    let what = what.to_owned();
    move |source| StorageError::io(&path, &what, source).into()
}

/// Opens or creates the database in `path`.
pub(crate) fn open(path: &Path, mut options: Options) -> Result<Engine> {
    options.join_shared()?;
    let vfs = options.vfs.clone();
    let dir = std::path::absolute(path).map_err(io(path, "resolve the path"))?;
    if options.beside_writer {
        return open_beside_writer(dir, options);
    }
    let exists = vfs
        .exists(&dir.join(CURRENT))
        .map_err(io(&dir, "look for the database"))?;
    maker::check(&*vfs, &dir)?;
    if !options.read_only {
        placement::refuse_writing(&*vfs, path)?;
    }
    if exists && options.error_if_exists {
        let message = format!(
            "there is a database in {} already; give another directory, or open it without \
             error_if_exists",
            dir.display()
        );
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    let mut creation = None;
    let wish = match (options.read_only, options.create_if_missing) {
        (true, _) => Wish::Read,
        (false, false) => Wish::Write,
        (false, true) => Wish::Create,
    };
    if !exists && directory::is_vacant(&*vfs, &dir, wish)? {
        placement::refuse_inside(&*vfs, path, "a database")?;
        encryption::check_creation(&dir, options.advanced.encryption.as_ref())?;
        creation = Some(Creation::begin(&options, &dir)?);
    } else {
        // Before anything is touched, including the lock's file.
        encryption::find(&vfs, &dir, options.advanced.encryption.as_ref())?;
    }
    let mut locked = None;
    let opened = open_locked(vfs, dir, options, &mut locked);
    match (opened, creation) {
        (Err(error), Some(creation)) => Err(creation.undo(locked, error)),
        (opened, _) => opened,
    }
}

/// Opens the database in `dir` without its lock.
fn open_beside_writer(dir: PathBuf, options: Options) -> Result<Engine> {
    let exists = options.vfs.exists(&dir.join(CURRENT));
    let exists = exists.map_err(io(&dir, "look for the database"))?;
    maker::check(&*options.vfs, &dir)?;
    if !exists {
        directory::is_vacant(&*options.vfs, &dir, Wish::Read)?;
    }
    beside::open(&dir, &options, &|vfs, beside| {
        let provider = options.advanced.encryption.as_ref();
        let vfs = encryption::find(&vfs, &dir, provider)?;
        let options = options.clone();
        Opening::new(vfs, dir.clone(), options, None, Some(beside))?.run(&mut None)
    })
}

/// Locks the directory, and opens the database or creates it. After an error the caller still has
/// the lock.
fn open_locked(
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    options: Options,
    locked: &mut Option<Locked>,
) -> Result<Engine> {
    let how = (options.read_only, options.advanced.wait_for_lock);
    let guard = directory_lock::lock_within(&*vfs, &dir, LOCK, how)?;
    // Asked again under the lock: another process may have created it meanwhile.
    let exists = vfs
        .exists(&dir.join(CURRENT))
        .map_err(io(&dir, "look for the database"))?;
    let locked = locked.insert(Locked {
        guard,
        creates: !exists,
    });
    if !options.read_only {
        // The figures and the list of hot spans may be missing: other files under their names are
        // left as they are.
        let is_needed = |name: &str| destroy::is_of_database(name) && name != STATS && name != HEAT;
        placement::refuse_foreign(&*vfs, &dir, &is_needed)?;
    }
    let provider = options.advanced.encryption.as_ref();
    let (vfs, manifest) = match exists {
        true => (encryption::find(&vfs, &dir, provider)?, None),
        false => {
            let (vfs, manifest) = create(&vfs, &dir, &options)?;
            (vfs, Some(manifest))
        }
    };
    Opening::new(vfs, dir, options, manifest, None)?.run(&mut locked.guard)
}

/// The state of an opening.
struct Opening {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    options: Options,
    state: ManifestState,
    manifest: Option<Manifest>,
    manifest_id: u64,
    manifest_end: u64,
    /// The end was clean: the commit log has no records.
    closed: bool,
    ring: Option<Arc<dyn File>>,
    /// The opening reads beside a writer.
    beside: Option<Arc<Beside>>,
}

impl Opening {
    fn new(
        vfs: Arc<dyn Vfs>,
        dir: PathBuf,
        options: Options,
        created: Option<Manifest>,
        beside: Option<Arc<Beside>>,
    ) -> Result<Opening> {
        let found = match &created {
            Some(manifest) => writer::FoundManifest {
                state: manifest.with_state(ManifestState::clone),
                id: 1,
                end: 0,
                closed: true,
            },
            None => writer::load(&*vfs, &dir)?,
        };
        if let Some(beside) = &beside {
            beside.begin(&found);
        }
        let ring = match found.state.ring_bytes {
            0 => None,
            bytes => {
                let path = dir.join(COMMIT_LOG);
                let file = vfs
                    .open(&path, !options.read_only)
                    .map_err(|source| StorageError::open(&path, "open the commit log", source))?;
                let len = file.len().map_err(io(&path, "look at the commit log"))?;
                if len < bytes {
                    let detail = format!("the commit log has {len} bytes instead of {bytes}");
                    return Err(StorageError::corruption(&path, len, detail).into());
                }
                Some(file)
            }
        };
        Ok(Opening {
            vfs,
            dir,
            options,
            state: found.state,
            manifest: created,
            manifest_id: found.id,
            manifest_end: found.end,
            closed: found.closed,
            ring,
            beside,
        })
    }

    /// Takes the lock only when nothing can fail any more.
    fn run(mut self, lock: &mut Option<Box<dyn LockGuard>>) -> Result<Engine> {
        let choices = self.keyspace_options()?;
        let replay = match self.beside {
            Some(_) => self.look_at_commit_log(),
            None => self.scan_commit_log()?,
        };
        let epoch = self.next_epoch(&replay)?;
        let version = Version((replay.checkpoint_max + 1) << CHECKPOINT_SHIFT);
        let container = self.open_container()?;
        let ledger_owner = LedgerOwner::take();
        let ledger = ledger_owner.ledger();
        let value_files = self.open_value_files(&replay, checkpoint_of(version))?;
        let tables = self.open_tables(&container, &value_files, ledger);
        let mut ballast = self.look_for_ballast();
        let log = self.begin_life(&epoch, &replay, &mut ballast, &value_files)?;
        let admission = self.admission(&log);
        let checkpoint = checkpoint_of(version);
        let row_tags = Arc::new(RowTags::default());
        let catalog = self.build_catalog(&tables, &admission, ledger, checkpoint, &row_tags)?;
        let (dirty, version, timed) = match self.beside {
            Some(_) => (Vec::new(), version, false),
            None => self.apply(&replay, version, &catalog, ledger)?,
        };
        if !self.options.read_only {
            self.take_over(&replay, &log, &admission)?;
        }
        trace::event!(
            INFO,
            "recovered",
            epoch = epoch.epoch,
            replayed_bytes = replay.end.0.saturating_sub(self.state.replay_from.0),
            dirty_chunks = dirty.len()
        );
        let clock = self.start_clock(version, timed);
        let core = Core::new(
            self.options,
            clock,
            admission,
            ledger_owner,
            row_tags,
            value_files,
        );
        for (id, options) in choices {
            core.choices.set(id, options);
        }
        let given_up = replay.given_up.map_or(0, |damage| damage.records);
        core.metrics.log_records_given_up.add(given_up);
        let keyspaces = catalog.into_values();
        let keyspaces = keyspaces
            .map(|state| (state.name().to_owned(), state))
            .collect();
        let manifest = self.manifest.map(Arc::new);
        let admission = core.admission.clone();
        let full_disk = FullDisk::new(ballast, container, manifest.clone(), admission.clone());
        let ring = log.commit_log.clone();
        Ok(Engine {
            memory: MemoryPolicy::new(&core.options, ledger, admission, ring),
            disk: Disk::new(self.vfs, self.dir, manifest, tables, full_disk, epoch.epoch),
            log,
            flow: Flow::new(self.state.completed, dirty),
            catalog: Catalog::new(keyspaces),
            work: Work::default(),
            space: Space::default(),
            idle: Idle::default(),
            observer: Observer::default(),
            key_locks: KeyLocks::default(),
            claim: Claim::new(lock.take()),
            core,
        })
    }

    /// Admission that counts nothing yet.
    fn admission(&self, log: &Log) -> Arc<Admission> {
        let usable = log.commit_log.as_deref().map_or(0, CommitLog::usable);
        // A part of a shared budget has room for more from the first round on.
        let deltas = match self.options.member() {
            Some(_) => DELTAS_MIN,
            None => self.options.delta_bytes_max(),
        };
        let admission = Admission::new(usable, deltas);
        Arc::new(admission.alone(self.options.workers == 0))
    }

    /// What the life before left: its records take room in the log, its values are written again,
    /// and step 5.
    fn take_over(&self, replay: &Replay, log: &Log, admission: &Admission) -> Result<()> {
        let live = match log.ring_bytes {
            0 => 0,
            _ => replay.live_bytes(self.state.replay_from),
        };
        admission.adopt(live, 0);
        self.write_values_again(replay)?;
        self.remove_orphans(replay)
    }

    /// `expires` says that a record in the commit log expires.
    fn start_clock(&self, version: Version, expires: bool) -> Clock {
        let clock = Clock::with_wall_clock(version, self.options.advanced.wall_clock.clone());
        #[cfg(test)]
        if crate::plant::planted!(self.options, TimeGoesBack) {
            clock.expiry.plant_going_back();
        }
        let mut parts = self.state.chunks.values().flat_map(|chunk| &chunk.parts);
        if expires || parts.any(|part| part.meta.expiring > 0) {
            clock.expiry.note_use();
        }
        clock
    }

    fn look_for_ballast(&self) -> Ballast {
        full_disk::ballast(
            self.vfs.clone(),
            &self.dir,
            self.options.chunk_bytes_max(),
            self.options.delta_bytes_max(),
            self.table_bytes(),
        )
    }

    fn open_tables(
        &self,
        container: &Arc<Container>,
        value_files: &Arc<ValueFiles>,
        ledger: Ledger,
    ) -> Tables {
        let files_max = FilesMax {
            most: self.options.open_files_limit(),
            member: self.options.member().cloned(),
        };
        let (vfs, container) = (self.vfs.clone(), container.clone());
        let values = value_files.clone();
        Tables::new(vfs, &self.dir, container, values, ledger, files_max)
    }

    /// The seed is a number that nobody can guess, and that no other life has which began from the
    /// same state. Bytes of other lives do not verify with it, and in an encrypted database it is
    /// the only difference between the keys of two lives.
    fn next_epoch(&self, replay: &Replay) -> Result<EpochRecord> {
        let last_epoch = self.state.epochs.back().map_or(0, |epoch| epoch.epoch);
        if last_epoch >= EPOCH_MAX && !self.options.read_only {
            let path = manifest_path(&self.dir, self.manifest_id);
            let detail = "no epoch is left: the database can be read and copied, and not be opened for writing";
            return Err(StorageError::unsupported(&path, detail).into());
        }
        Ok(EpochRecord {
            epoch: last_epoch + 1,
            seed: random::number().map_err(io(&self.dir, "get random numbers"))?,
            start: replay.end,
            previous_closed_at: replay.end,
            completed_before: self.state.completed,
            boot: self.vfs.boot_id(),
        })
    }

    /// Step 3: the new epoch, and the commit log that continues in it.
    fn begin_life(
        &mut self,
        epoch: &EpochRecord,
        replay: &Replay,
        ballast: &mut Ballast,
        value_files: &Arc<ValueFiles>,
    ) -> Result<Log> {
        let value_extents = ValueExtents::new(self.vfs.clone(), &self.dir, &replay.extents);
        let value_extents = Arc::new(value_extents);
        let mut commit_log = None;
        if !self.options.read_only {
            if replay.given_up.is_some() {
                self.keep_damaged_log(epoch.epoch)?;
            }
            self.begin_epoch(epoch, ballast)?;
            commit_log = self.start_commit_log(epoch, replay, ballast)?;
        }
        if !planted!(self.options, NoExtentsSynced) {
            let both = Arc::new(BothSyncedFirst {
                extents: value_extents.clone(),
                values: value_files.clone(),
            });
            commit_log = commit_log.map(|log| log.with_synced_first(both));
        }
        let ring_bytes = commit_log.as_ref().map_or(0, |_| self.state.ring_bytes);
        let mut lives = epochs::lives(&self.state);
        if !self.options.read_only {
            lives = epochs::with_next(lives, epoch);
        }
        let kept = match &self.ring {
            _ if self.beside.is_some() => None,
            None => None,
            Some(_) => Some(KeptChanges::open(
                self.vfs.clone(),
                &self.dir,
                self.options.advanced.keep_changes_bytes,
                self.state.replay_from,
                !self.options.read_only,
            )?),
        };
        let history = History {
            kept,
            file: self.ring.clone(),
            capacity: self.state.ring_bytes,
            lives,
            replayed: (self.state.replay_from, replay.end),
            read_only: self.options.read_only,
            found: self.found(),
        };
        Ok(Log {
            history,
            commit_log: commit_log.map(Arc::new),
            value_extents,
            epoch_start: epoch.start,
            ring_bytes,
            is_stuck: AtomicBool::new(false),
            inherits: AtomicBool::new(replay.end > self.state.replay_from),
        })
    }

    /// A manifest that was created by this opening goes on; any other one is resumed.
    fn begin_epoch(&mut self, epoch: &EpochRecord, ballast: &mut Ballast) -> Result<()> {
        if self.manifest.is_none() {
            // The process before may have died between a rename and the sync of the directory: data
            // that is built on the names found here must not be lost with them.
            self.vfs
                .sync_dir(&self.dir)
                .map_err(io(&self.dir, "sync the directory"))?;
            self.manifest = Some(Manifest::resume(
                self.vfs.clone(),
                &self.dir,
                self.manifest_id,
                self.manifest_end,
                self.state.clone(),
            )?);
        }
        let mut changes = Vec::new();
        if self.state.ring_bytes == 0 && self.options.durability > Durability::Relaxed {
            // Created without a commit log, now opened at a level that needs one.
            let bytes = self.options.ring_bytes();
            let path = self.dir.join(COMMIT_LOG);
            if self
                .vfs
                .exists(&path)
                .map_err(io(&path, "look for a commit log"))?
            {
                self.vfs
                    .remove(&path)
                    .map_err(io(&path, "remove a leftover"))?;
            }
            let created = commit_log::create_file(&*self.vfs, &path, bytes);
            self.ring = Some(created.inspect_err(|_| {
                // It is of no use, and takes room that others need on a full disk.
                let _ = self.vfs.remove(&path);
            })?);
            self.vfs
                .sync_dir(&self.dir)
                .map_err(io(&self.dir, "sync the directory"))?;
            self.state.ring_bytes = bytes;
            changes.push(Change::Format { ring_bytes: bytes });
        }
        changes.push(Change::Epoch(epoch.clone()));
        let manifest = self.manifest.as_ref().expect("just made");
        let recorded = manifest.begin_epoch(changes.clone());
        match recorded {
            // A full disk must not keep a database from opening.
            Err(error)
                if error.kind() == StorageErrorKind::NoSpace && ballast.release(Need::Jobs) =>
            {
                manifest.begin_epoch(changes)?;
            }
            recorded => drop(recorded?),
        }
        Ok(())
    }
}
