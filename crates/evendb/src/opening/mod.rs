//! Opening: from the files of a directory to an engine, after any kind of end.
//!
//! Order (docs/concurrency.md, open):
//! 1. Directory lock. `CURRENT` names the manifest; its edits give the structure. No data is read.
//! 2. The commit log is read from the manifest's replay position to the first invalid byte, over
//!    all epochs' segments. A record whose tail lies above that position proves a lost manifest
//!    edit: corruption. So is an end that no crash leaves (`damage`), unless the caller gives up what
//!    lies behind it.
//! 3. A new epoch is recorded and synced **before** any other write: a record beyond the end that
//!    was found must not come back to life behind a new one.
//! 4. The records of checkpoints not completed are applied to deltas, in order, at one new version.
//!    Those of completed ones are skipped: else a log cut short by a power loss would bring an old
//!    value over a checkpointed one.
//! 5. Files that nothing names are removed: SSTables, value extents, manifests. No others.

use crate::admission::Admission;
use crate::ballast::{Ballast, Need};
use crate::catalog::{Catalog, DEFAULT_KEYSPACE, KeyspaceState};
use crate::chunk::index::Index;
use crate::chunk::{ChargedDelta, Chunk, KeyRange, View};
use crate::commit_log::{self, CommitLog, LivePart, LogRecord, Lsn, Segment};
use crate::engine::Engine;
use crate::engine::caches::Caches;
use crate::engine::claim::Claim;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::engine::flow::Flow;
use crate::engine::full_disk::FullDisk;
use crate::engine::idle::Idle;
use crate::engine::log::Log;
use crate::engine::space::Space;
use crate::engine::work::Work;
use crate::error::{Error, ErrorKind, Result};
use crate::figures::observer::Observer;
use crate::files::{COMMIT_LOG, CONTAINER, CURRENT, CURRENT_UNFINISHED, LOCK, STATS, is_own_name};
use crate::funk::container::{Container, extent_of};
use crate::funk::extents::Extents;
use crate::funk::tables::{Tables, table_path};
use crate::funk::{Funk, Run, SearchSettings};
use crate::manifest::edit::{Change, ChunkRecord, EpochRecord, Place, Role};
use crate::manifest::state::{ManifestState, Properties};
use crate::manifest::writer::{self, Manifest};
use crate::manifest::{ChunkId, KeyspaceId, epochs};
use crate::memory::{Ledger, LedgerOwner};
use crate::options::{Durability, Options};
use crate::payload::{self, Decoded, DecodedOp, ExtentName};
use crate::plant::planted;
use crate::record::RecordRef;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{Arc, Weak};
use crate::trace;
use crate::value_extents::{self, ValueExtents};
use crate::version::clock::{CHECKPOINT_MAX, CHECKPOINT_SHIFT, Clock, checkpoint_of};
use creation::{Creation, Locked};
use directory::Wish;
use evendb_storage::codec::hash_key;
use evendb_storage::vfs::{File, LockGuard, LockHolder, Vfs};
use evendb_storage::{Error as StorageError, ErrorKind as StorageErrorKind, Version};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};

mod creation;
mod damage;
pub(crate) mod directory;

fn io(path: &Path, what: &str) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    let what = what.to_owned();
    move |source| StorageError::io(&path, &what, source).into()
}

/// A number nobody can guess from the outside; it seeds checksums, so that bytes of an earlier
/// epoch do not verify.
fn random_seed() -> u64 {
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u64(0x6576_656e_6462);
    hasher.finish()
}

/// Opens or creates the database in `path`.
pub(crate) fn open(path: &Path, options: Options) -> Result<Engine> {
    let vfs = options.vfs.clone();
    let dir = std::path::absolute(path).map_err(io(path, "resolve the path"))?;
    let exists = vfs
        .exists(&dir.join(CURRENT))
        .map_err(io(&dir, "look for the database"))?;
    if exists && options.error_if_exists {
        let message = format!(
            "there is a database in {} already; give another directory, or open it without \
             error_if_exists",
            dir.display()
        );
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    let mut creation = None;
    if !exists {
        let wish = match (options.read_only, options.create_if_missing) {
            (true, _) => Wish::Read,
            (false, false) => Wish::Write,
            (false, true) => Wish::Create,
        };
        directory::check_vacant(&*vfs, &dir, wish)?;
        creation = Some(Creation::begin(&options, &dir)?);
    }
    let mut locked = None;
    let opened = open_locked(vfs, dir, options, &mut locked);
    match (opened, creation) {
        (Err(error), Some(creation)) => Err(creation.undo(locked, error)),
        (opened, _) => opened,
    }
}

/// Locks the directory, and opens what is there or creates it. What goes wrong leaves the lock with the
/// caller.
fn open_locked(
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    options: Options,
    locked: &mut Option<Locked>,
) -> Result<Engine> {
    let guard = lock(&*vfs, &dir, options.read_only)?;
    // Asked again under the lock: somebody may have created it meanwhile.
    let exists = vfs
        .exists(&dir.join(CURRENT))
        .map_err(io(&dir, "look for the database"))?;
    let locked = locked.insert(Locked {
        guard,
        creates: !exists,
    });
    let manifest = match exists {
        true => None,
        false => Some(create(&*vfs, &dir, &options)?),
    };
    Opening::new(vfs, dir, options, manifest)?.run(&mut locked.guard)
}

/// Locks the directory. A reader of a directory that has no lock file, and in which none can be
/// made (a read-only medium), does without: nobody can write there.
fn lock(vfs: &dyn Vfs, dir: &Path, shared: bool) -> Result<Option<Box<dyn LockGuard>>> {
    use std::io::ErrorKind as Io;
    let path = dir.join(LOCK);
    let mut locked = vfs.lock(&path, shared);
    if shared
        && locked
            .as_ref()
            .is_err_and(|error| error.kind() == Io::NotFound)
    {
        locked = match vfs.lock(&path, false) {
            Ok(made) => {
                drop(made);
                vfs.lock(&path, true)
            }
            Err(error) if matches!(error.kind(), Io::ReadOnlyFilesystem | Io::PermissionDenied) => {
                return Ok(None);
            }
            Err(error) => Err(error),
        };
    }
    match locked {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.kind() == Io::WouldBlock => Err(open_elsewhere(
            dir,
            vfs.lock_holder(&path),
            std::process::id(),
        )),
        Err(error) => Err(io(&path, "lock the database")(error)),
    }
}

/// The refusal of a second opener: who the first is, as far as is known, and what to do.
pub(crate) fn open_elsewhere(dir: &Path, holder: LockHolder, own: u32) -> Error {
    let who = match holder.process {
        _ if holder.shared => {
            "for reading elsewhere (readers leave no name); close them before writing".to_owned()
        }
        Some(id) if id == own => {
            format!("in this process ({id}) already; share that handle, or close it first")
        }
        Some(id) if holder.process_seen => {
            format!("in process {id}; end that process, or have it close the database")
        }
        Some(id) => format!(
            "elsewhere: its LOCK file names process {id}, which cannot be seen from here (another \
             container or machine?)"
        ),
        None => "elsewhere, by a process that its LOCK file does not name".to_owned(),
    };
    let message = format!("the database in {} is open {who}", dir.display());
    Error::new(ErrorKind::Locked, message)
}

/// Creates the files of a new database; `CURRENT` comes last and makes it one.
fn create(vfs: &dyn Vfs, dir: &Path, options: &Options) -> Result<Manifest> {
    // Asked again under the lock: a copy may be being made here by now.
    directory::check_vacant(vfs, dir, Wish::Create)?;
    let names = vfs.list(dir).map_err(io(dir, "list the directory"))?;
    for name in names.iter().filter_map(|name| name.to_str()) {
        if name.starts_with("MANIFEST-")
            || [COMMIT_LOG, CONTAINER, CURRENT_UNFINISHED].contains(&name)
        {
            let path = dir.join(name);
            vfs.remove(&path).map_err(io(&path, "remove a leftover"))?;
        }
    }
    let ring_bytes = match options.durability {
        Durability::Relaxed => 0,
        _ => options.ring_bytes(),
    };
    if ring_bytes > 0 {
        commit_log::create_file(vfs, &dir.join(COMMIT_LOG), ring_bytes)?;
    }
    // It has no bytes: its name is all that is to be made durable, with those of the others, before
    // `CURRENT` is written.
    let container = dir.join(CONTAINER);
    vfs.create(&container)
        .map_err(io(&container, "create the chunks' logs"))?;
    let mut state = ManifestState {
        ring_bytes,
        ..ManifestState::default()
    };
    // The keyspace that is always there, in the first edit. Its chunk's id is of no epoch.
    for change in keyspace_changes(
        KeyspaceId(state.next_keyspace),
        DEFAULT_KEYSPACE,
        ChunkId(1),
    ) {
        state
            .apply(&change)
            .map_err(|what| StorageError::corruption(dir, 0, what))?;
    }
    Ok(Manifest::create(options.vfs.clone(), dir, 1, state)?)
}

/// The commit log as recovery found it.
struct Replay {
    /// Where the valid records end.
    end: Lsn,
    /// What lies behind the end was lost by damage, and the caller gave it up.
    given_up: Option<damage::Damage>,
    /// Highest checkpoint number seen in any record or in the manifest.
    checkpoint_max: u64,
    /// Value extents that valid records name, with the ends of those records.
    extents: Vec<(Lsn, u64)>,
    /// Where a filler begins, which no put reserved, and where it ends.
    filler: Option<(Lsn, Lsn)>,
}

/// What opening works on.
struct Opening {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    options: Options,
    state: ManifestState,
    manifest: Option<Manifest>,
    manifest_id: u64,
    manifest_end: u64,
    /// The end was clean: the commit log holds nothing.
    closed: bool,
    ring: Option<Arc<dyn File>>,
}

impl Opening {
    fn new(
        vfs: Arc<dyn Vfs>,
        dir: PathBuf,
        options: Options,
        created: Option<Manifest>,
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
        })
    }

    /// Takes the lock when nothing can fail any more.
    fn run(mut self, lock: &mut Option<Box<dyn LockGuard>>) -> Result<Engine> {
        let replay = self.scan_commit_log()?;
        let last_epoch = self.state.epochs.last().map_or(0, |epoch| epoch.epoch);
        let epoch = EpochRecord {
            epoch: last_epoch + 1,
            seed: random_seed(),
            start: replay.end,
            previous_closed_at: replay.end,
            completed_before: self.state.completed,
            boot: self.vfs.boot_id(),
        };
        let version = Version((replay.checkpoint_max + 1) << CHECKPOINT_SHIFT);
        let clock = Clock::new(version);
        let container = self.open_container()?;
        let ledger_owner = LedgerOwner::take();
        let ledger = ledger_owner.ledger();
        let files_max = self.options.open_files_limit();
        let tables = Tables::new(
            self.vfs.clone(),
            &self.dir,
            container.clone(),
            ledger,
            files_max,
        );
        let ballast = Ballast::new(
            self.vfs.clone(),
            &self.dir,
            self.options.chunk_bytes_max(),
            self.options.delta_bytes_max(),
        );
        ballast.begin_with(self.table_bytes());
        let value_extents = ValueExtents::new(self.vfs.clone(), &self.dir, &replay.extents);
        let value_extents = Arc::new(value_extents);
        let mut commit_log = None;
        if !self.options.read_only {
            if replay.given_up.is_some() {
                self.keep_damaged_log(epoch.epoch)?;
            }
            self.begin_epoch(&epoch, &ballast)?;
            commit_log = self.start_commit_log(&epoch, &replay, &ballast)?;
        }
        if !planted!(self.options, NoExtentsSynced) {
            commit_log = commit_log.map(|log| log.with_synced_first(value_extents.clone()));
        }
        let ring_bytes = commit_log.as_ref().map_or(0, |_| self.state.ring_bytes);
        let usable = commit_log.as_ref().map_or(0, CommitLog::usable);
        let admission = Arc::new(Admission::new(usable, self.options.delta_bytes_max()));
        let search_settings = SearchSettings {
            search: self.options.advanced.log_search,
            log_bytes_max: self.options.chunk_bytes_max() / 5,
            ledger,
        };
        let checkpoint = checkpoint_of(version);
        let catalog = self.build_catalog(&tables, &admission, ledger, checkpoint)?;
        let dirty = self.apply(&replay, version, &catalog, &admission)?;
        if !self.options.read_only {
            let filler = replay.filler.map_or(0, |(start, end)| end.0 - start.0);
            let live = replay.end.0 - self.state.replay_from.0.min(replay.end.0) - filler;
            admission.adopt(if ring_bytes > 0 { live } else { 0 }, 0);
            self.remove_orphans(&replay)?;
        }
        trace::event!(
            INFO,
            "recovered",
            epoch = epoch.epoch,
            replayed_bytes = replay.end.0.saturating_sub(self.state.replay_from.0),
            dirty_chunks = dirty.len()
        );
        let given_up = replay.given_up.map_or(0, |damage| damage.records);
        let core = Core::new(self.options, &self.dir, clock, admission, ledger_owner);
        core.metrics.log_records_given_up.add(given_up);
        let keyspaces = catalog.into_values();
        let keyspaces = keyspaces.map(|state| (state.name.clone(), state)).collect();
        Ok(Engine {
            caches: Caches::new(&core.options, search_settings),
            disk: Disk {
                vfs: self.vfs,
                dir: self.dir,
                manifest: self.manifest,
                tables,
                container,
                ballast,
                full_disk: FullDisk::default(),
                delta_room: AtomicU64::new(0),
                epoch: epoch.epoch,
                shrinks_at_end: AtomicBool::new(false),
                // The epoch is in the high bits, so an id given out but never recorded is not reused.
                next_id: AtomicU64::new((epoch.epoch << 32) + 1),
            },
            log: Log {
                commit_log,
                value_extents,
                epoch_start: epoch.start,
                ring_bytes,
                is_stuck: AtomicBool::new(false),
                inherits: AtomicBool::new(replay.end > self.state.replay_from),
            },
            flow: Flow::new(self.state.completed, dirty),
            catalog: Catalog::new(keyspaces),
            work: Work::default(),
            space: Space::default(),
            idle: Idle::default(),
            observer: Observer::default(),
            claim: Claim::new(lock.take()),
            core,
        })
    }

    fn segments(&self) -> Vec<Segment> {
        epochs::segments(&self.state)
    }

    /// Bytes in tables; those that chunks share count for each.
    fn table_bytes(&self) -> u64 {
        let chunks = self.state.chunks.values();
        let parts = chunks.flat_map(|chunk| &chunk.parts);
        parts.map(|part| part.meta.len).sum()
    }

    /// Hands out the valid records above the replay position. `each` says whether to go on; the
    /// position returned is where the valid ones end.
    fn for_each_record(&self, each: &mut dyn FnMut(&LogRecord<'_>) -> Result<bool>) -> Result<Lsn> {
        let from = self.state.replay_from;
        let Some(ring) = &self.ring else {
            return Ok(from);
        };
        let mut stopped = None;
        let mut failure = None;
        let end = commit_log::recover(
            &**ring,
            self.state.ring_bytes,
            from,
            &self.segments(),
            &mut |record| {
                if stopped.is_some() || failure.is_some() {
                    return Ok(());
                }
                match each(&record) {
                    Ok(true) => {}
                    Ok(false) => stopped = Some(record.lsn),
                    Err(error) => failure = Some(error),
                }
                Ok(())
            },
        )?;
        match failure {
            Some(error) => Err(error),
            None => Ok(stopped.unwrap_or(end)),
        }
    }

    /// Step 2: finds the end of the valid records, changing nothing.
    fn scan_commit_log(&self) -> Result<Replay> {
        let mut checkpoint_max = self.state.completed;
        let mut extents = Vec::new();
        // A record that does not begin where the one before ended has a filler before it.
        let (mut last_end, mut filler) = (self.state.replay_from, None);
        let mut note_gap = |start: Lsn, end: Lsn| {
            if start > last_end {
                filler = Some((last_end, start));
            }
            last_end = end;
        };
        let mut bad_extent = None;
        let end = self.for_each_record(&mut |record| {
            if record.tail > self.state.replay_from {
                let path = self.dir.join(COMMIT_LOG);
                let offset = record.lsn.0 % self.state.ring_bytes.max(1);
                let detail = "the commit log was recycled further than the manifest knows";
                return Err(StorageError::corruption(&path, offset, detail).into());
            }
            let valid = match payload::decode(record.payload) {
                None => return Err(self.bad_record(record)),
                Some(Decoded::Inline(_)) => true,
                Some(Decoded::Extent(name)) => {
                    extents.push((record.end, name.id));
                    let whole = self.read_extent(&name)?.is_some();
                    bad_extent = (!whole).then_some(name);
                    whole
                }
            };
            if checkpoint_of(record.version) > CHECKPOINT_MAX {
                return Err(self.bad_record(record));
            }
            if valid {
                checkpoint_max = checkpoint_max.max(checkpoint_of(record.version));
                note_gap(record.lsn, record.end);
            }
            Ok(valid)
        })?;
        note_gap(end, end);
        extents.retain(|(record_end, _)| *record_end <= end);
        let given_up = self.find_damage(end, bad_extent)?;
        if let Some(damage) = &given_up {
            self.refuse_damage(damage)?;
        }
        Ok(Replay {
            end,
            given_up,
            checkpoint_max,
            extents,
            filler,
        })
    }

    fn bad_record(&self, record: &LogRecord<'_>) -> Error {
        let path = self.dir.join(COMMIT_LOG);
        let offset = record.lsn.0 % self.state.ring_bytes.max(1);
        StorageError::corruption(&path, offset, "a commit-log record makes no sense").into()
    }

    /// The contents of a value extent, if they verify.
    fn read_extent(&self, name: &ExtentName) -> Result<Option<Vec<u8>>> {
        Ok(value_extents::read(&*self.vfs, &self.dir, name)?)
    }

    /// Step 3. A manifest that was created by this opening goes on; another is resumed.
    fn begin_epoch(&mut self, epoch: &EpochRecord, ballast: &Ballast) -> Result<()> {
        if self.manifest.is_none() {
            // The process before may have died between a rename and the sync of the directory:
            // what is built on the names found here must not be lost with them.
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
                // Of no use, and in the way of others on a full disk.
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

    fn start_commit_log(
        &self,
        epoch: &EpochRecord,
        replay: &Replay,
        ballast: &Ballast,
    ) -> Result<Option<CommitLog>> {
        let Some(ring) = &self.ring else {
            return Ok(None);
        };
        if self.options.durability == Durability::Relaxed {
            return Ok(None);
        }
        let path = self.dir.join(COMMIT_LOG);
        let capacity = self.state.ring_bytes;
        let live = LivePart {
            tail: self.state.replay_from,
            end: epoch.start,
            filler: replay.filler.map(|(start, _)| start),
        };
        let allocated = ring
            .allocated_bytes()
            .map_err(io(&path, "look at the commit log"))?;
        let grower = self
            .vfs
            .open(&path, true)
            .map_err(io(&path, "open the commit log"))?;
        let manifest = self.manifest.as_ref().expect("the epoch is in it");
        match manifest.seal(false) {
            // What it records only helps to tell damage from a torn end.
            Err(error) if error.kind() == StorageErrorKind::NoSpace => {}
            sealed => sealed?,
        }
        let log = CommitLog::start(
            ring.clone(),
            capacity,
            self.options.commit_log_writing(),
            epoch.epoch,
            epoch.seed,
            epoch.start,
            self.state.replay_from,
        )?
        .with_room(commit_log::room_found(live, allocated, capacity), grower)
        .with_filler(replay.filler);
        match log.back() {
            // A full disk must not keep a database from opening: what is put asks again.
            Err(error) if error.kind() == StorageErrorKind::NoSpace => {
                if ballast.release(Need::Jobs)
                    && let Err(error) = log.back()
                    && error.kind() != StorageErrorKind::NoSpace
                {
                    return Err(error.into());
                }
            }
            backed => backed?,
        }
        Ok(Some(log))
    }

    fn open_container(&self) -> Result<Arc<Container>> {
        let path = self.dir.join(CONTAINER);
        let file = self
            .vfs
            .open(&path, !self.options.read_only)
            .map_err(|source| StorageError::open(&path, "open the chunks' logs", source))?;
        let len = file.len().map_err(io(&path, "look at the chunks' logs"))?;
        let mut extents = Extents::new(0);
        let mut seen = HashSet::new();
        for chunk in self.state.chunks.values() {
            for part in &chunk.parts {
                let Place::Extent { offset } = part.place else {
                    continue;
                };
                if !seen.insert(part.table) {
                    continue;
                }
                let end = offset.checked_add(part.meta.len);
                if end.is_none_or(|end| end > len) {
                    let detail = "a run lies beyond the end of the chunks' logs";
                    return Err(StorageError::corruption(&path, offset, detail).into());
                }
                extents
                    .mark_used(extent_of(offset, part.meta.len))
                    .map_err(|_| {
                        StorageError::corruption(
                            &path,
                            offset,
                            "two runs overlap in the chunks' logs",
                        )
                    })?;
            }
        }
        Ok(Arc::new(Container::new(file, extents, len)))
    }

    fn build_catalog(
        &self,
        tables: &Tables,
        admission: &Arc<Admission>,
        ledger: Ledger,
        checkpoint: u64,
    ) -> Result<BTreeMap<KeyspaceId, Arc<KeyspaceState>>> {
        let mut by_keyspace: BTreeMap<KeyspaceId, Vec<&ChunkRecord>> = BTreeMap::new();
        for chunk in self.state.chunks.values() {
            by_keyspace.entry(chunk.keyspace).or_default().push(chunk);
        }
        let mut catalog = BTreeMap::new();
        for (id, mut chunks) in by_keyspace {
            let Some(name) = self.state.keyspaces.get(&id) else {
                continue;
            };
            chunks.sort_by(|a, b| a.low.cmp(&b.low));
            let mut entries = Vec::with_capacity(chunks.len());
            for (index, record) in chunks.iter().enumerate() {
                let high = chunks.get(index + 1).map(|next| Box::from(&next.low[..]));
                let range = KeyRange {
                    low: Box::from(&record.low[..]),
                    high,
                };
                let view = View {
                    active: ChargedDelta::new(checkpoint, admission),
                    frozen: Vec::new(),
                    munk: None,
                    funk: Arc::new(self.build_funk(record, tables)?),
                };
                let chunk = Chunk::new(record.id, id, range, view, ledger);
                entries.push((Box::from(&record.low[..]), Arc::new(chunk)));
            }
            let properties = self.state.properties.get(&id).cloned().unwrap_or_default();
            let state = KeyspaceState::new(id, name.clone(), properties, Index::new(entries));
            catalog.insert(id, Arc::new(state));
        }
        Ok(catalog)
    }

    fn build_funk(&self, record: &ChunkRecord, tables: &Tables) -> Result<Funk> {
        let mut base = Vec::new();
        let mut runs = Vec::new();
        for part in &record.parts {
            // The recovery table as a check (I7 makes it unreachable): nothing of a checkpoint that
            // was not completed is ever named.
            if part.checkpoint > self.state.completed {
                let path = self.dir.join(CURRENT);
                let detail = format!("table {:?} is of a checkpoint never completed", part.table);
                return Err(StorageError::corruption(&path, 0, detail).into());
            }
            let table = tables.acquire(part);
            match part.role {
                Role::Base => base.push(table),
                Role::Run { ordinal } => runs.push(Run { ordinal, table }),
            }
        }
        base.sort_by(|a, b| a.part.meta.min_key.cmp(&b.part.meta.min_key));
        runs.sort_by_key(|run| run.ordinal);
        let run_end = runs.last().map_or(0, |run| run.ordinal + 1);
        Ok(Funk::new(base, runs, run_end))
    }

    /// Step 4. Returns the chunks that are dirty now.
    fn apply(
        &self,
        replay: &Replay,
        version: Version,
        catalog: &BTreeMap<KeyspaceId, Arc<KeyspaceState>>,
        admission: &Arc<Admission>,
    ) -> Result<Vec<(Weak<Chunk>, u64)>> {
        let mut dirty = Vec::new();
        let mut apply_ops = |ops: &[DecodedOp<'_>], record: &LogRecord<'_>| -> Result<()> {
            for op in ops {
                let Some(keyspace) = catalog.get(&op.keyspace) else {
                    // Dropped since; an id never given out is another matter.
                    if op.keyspace.0 >= self.state.next_keyspace {
                        return Err(self.bad_record(record));
                    }
                    continue;
                };
                let chunk = keyspace.index.load_full().find(op.key).clone();
                let mut new = RecordRef::new(op.key, op.value, op.kind, hash_key(op.key));
                new.set_version(version);
                let mut writer = chunk.latch.lock();
                if !writer.queued {
                    writer.queued = true;
                    dirty.push((Arc::downgrade(&chunk), writer.active.checkpoint()));
                }
                let before = writer.active.bytes() as u64;
                writer.active.insert(new);
                let after = writer.active.bytes() as u64;
                // Adopted whatever the limit: the ring bounds it.
                admission.adopt(0, after.saturating_sub(before));
            }
            Ok(())
        };
        self.for_each_record(&mut |record| {
            if record.lsn >= replay.end {
                return Ok(false);
            }
            if checkpoint_of(record.version) <= self.state.completed {
                return Ok(true);
            }
            match payload::decode(record.payload) {
                Some(Decoded::Inline(ops)) => apply_ops(&ops, record)?,
                Some(Decoded::Extent(name)) => {
                    let bytes = self.read_extent(&name)?;
                    let ops = bytes.as_deref().and_then(payload::decode_ops);
                    apply_ops(&ops.ok_or_else(|| self.bad_record(record))?, record)?;
                }
                None => return Err(self.bad_record(record)),
            }
            Ok(true)
        })?;
        Ok(dirty)
    }

    /// Step 5.
    fn remove_orphans(&self, replay: &Replay) -> Result<()> {
        let mut named: BTreeSet<PathBuf> = BTreeSet::new();
        for chunk in self.state.chunks.values() {
            for part in chunk.parts.iter().filter(|part| part.place == Place::File) {
                named.insert(table_path(&self.dir, part.table));
            }
        }
        named.extend(
            replay
                .extents
                .iter()
                .map(|(_, id)| value_extents::file_path(&self.dir, *id)),
        );
        let manifest_id = writer::read_current(&*self.vfs, &self.dir)?.id;
        named.insert(self.dir.join(format!("MANIFEST-{manifest_id:06}")));
        let names = self
            .vfs
            .list(&self.dir)
            .map_err(io(&self.dir, "list the directory"))?;
        for name in names.iter().filter_map(|name| name.to_str()) {
            let path = self.dir.join(name);
            if name == STATS {
                // No part of the database: whether it can be removed does not matter.
                let _ = self.vfs.remove(&path);
            }
            if is_own_name(name) && !named.contains(&path) {
                self.vfs
                    .remove(&path)
                    .map_err(io(&path, "remove an orphan"))?;
            }
        }
        Ok(())
    }
}

/// A keyspace with one chunk that covers everything, and the edit that makes it known.
pub(crate) fn new_keyspace(
    core: &Core,
    disk: &Disk,
    name: &str,
) -> (Arc<KeyspaceState>, Vec<Change>) {
    let id = KeyspaceId(disk.manifest().with_state(|state| state.next_keyspace));
    let (state, chunk_id) = empty_keyspace(core, disk, name, id);
    (state, keyspace_changes(id, name, chunk_id))
}

fn keyspace_changes(id: KeyspaceId, name: &str, chunk: ChunkId) -> Vec<Change> {
    let record = ChunkRecord {
        id: chunk,
        keyspace: id,
        low: Vec::new(),
        parts: Vec::new(),
    };
    let name = name.to_owned();
    vec![
        Change::CreateKeyspace { id, name },
        Change::SetChunk(record),
    ]
}

/// A keyspace with one empty chunk, and that chunk's id; in memory only.
pub(crate) fn empty_keyspace(
    core: &Core,
    disk: &Disk,
    name: &str,
    id: KeyspaceId,
) -> (Arc<KeyspaceState>, ChunkId) {
    let chunk_id = ChunkId(disk.new_id());
    let view = View {
        active: ChargedDelta::new(checkpoint_of(core.clock.now()), &core.admission),
        frozen: Vec::new(),
        munk: None,
        funk: Arc::new(Funk::new(Vec::new(), Vec::new(), 0)),
    };
    let range = KeyRange {
        low: Box::default(),
        high: None,
    };
    let ledger = core.ledger();
    let chunk = Arc::new(Chunk::new(chunk_id, id, range, view, ledger));
    let index = Index::new(vec![(Box::default(), chunk)]);
    let state = Arc::new(KeyspaceState::new(
        id,
        name.to_owned(),
        Properties::new(),
        index,
    ));
    (state, chunk_id)
}
