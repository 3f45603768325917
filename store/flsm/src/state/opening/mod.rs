//! Opening: from the files of a directory to an engine, after any kind of end.
//!
//! 1. The directory is locked. `CURRENT` names the manifest, which gives the trees. Without
//!    `CURRENT` a database is made, if there are no other files.
//! 2. The logs are read into memory tables ([`crate::log::replay`]), and made durable as far as
//!    they were read.
//! 3. Logs that were given up are removed, the newest first. That is done before anything new can
//!    be read behind them.
//! 4. A new manifest begins. Tables, logs and manifests that it does not need are removed, by their
//!    names.
//! 5. A new generation begins. Its log continues the last one. The records that were read wait to
//!    be flushed, and their logs are removed after the flush.
//!
//! A crash between any two of these steps leaves files that the next opening reads in the same way.
//!
//! An opening for reading only writes nothing: the manifest stays in force, the records that were
//! read stay in memory, and no generation begins.

pub(crate) mod destroy;

use crate::cache::BlockCache;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::engine::health::Health;
use crate::engine::work::{Generation, Work};
use crate::engine::write_path::{WritePath, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::figures::Figures;
use crate::files::{FileName, FileNumbers, list};
use crate::full_disk::{FullDisk, MayBeFull};
use crate::keyspace::{DEFAULT_KEYSPACE, KeyspaceState};
use crate::log::record::{Group, Previous, Refused};
use crate::log::replay::{ReadLog, Replayed, replay};
use crate::log::writer::LogWriter;
use crate::manifest::kept::Kept;
use crate::manifest::state::{Edit, State};
use crate::manifest::writer::Manifest;
use crate::manifest::{current, reader};
use crate::memory::MemoryTable;
use crate::options::Options;
use crate::plant::planted;
use crate::tables::{Making, TableDir, TableForm};
use crate::tree::choose::GuardRule;
use crate::types::{FileNumber, KeyspaceId};
use evendb_base::ballast::Need;
use evendb_base::claim::Claim;
use evendb_base::sync::{Arc, Mutex};
use evendb_base::{Durability, EngineKind, directory_lock, placement};
use evendb_storage::vfs::{LockGuard, Vfs, WriteBehind};
use evendb_storage::{Error as StorageError, Version};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Opens the database in `path`, or creates it. No thread works in it yet.
pub(crate) fn open(path: &Path, options: Options) -> Result<Engine> {
    options.check()?;
    let dir = std::path::absolute(path).map_err(StorageError::at(path, "resolve the path"))?;
    let vfs = options.vfs.clone();
    let lock = lock_directory(&options, &dir)?;
    let exists = check_wanted(&options, &dir)?;
    if !options.read_only {
        let is_own = |name: &str| FileName::parse(name).is_some();
        placement::refuse_foreign(&*vfs, &dir, &is_own)?;
    }
    let place = TableDir::new(vfs.clone(), &dir, options.table_limits());
    let state = match exists {
        true => reader::load(&*vfs, &dir, &place)?,
        false => State::new(place),
    };
    let files = list(&*vfs, &dir)?;
    let numbers = Arc::new(FileNumbers::new(state.next_file));
    let mut read = Read::logs(&*vfs, &dir, &files, &state)?;
    if planted!(options, KeyspaceNotReplayed) {
        read.memories.pop_last();
    }
    let full_disk = look_at_disk(&options, &dir, &state, read.log_bytes());
    let manifest = match options.read_only {
        true => {
            // Numbers go on as if the records that were read were to be flushed.
            let used = files.iter().filter_map(|file| file.number());
            used.for_each(|used| numbers.skip(used));
            Kept::OnlyRead(dir.clone(), state)
        }
        false => {
            read.make_durable(&*vfs, &dir)?;
            let begin = || Manifest::begin(vfs.clone(), &dir, numbers.clone(), state.clone());
            let manifest = match begin() {
                Err(error) if exists && error.is_full() => {
                    remove_leftovers(&*vfs, &dir, &files, &state)?;
                    full_disk.with(Need::Jobs, begin)?
                }
                begun => begun?,
            };
            manifest.remove_unneeded()?;
            Kept::Written(manifest)
        }
    };
    let making = Making {
        place: manifest.state().place().clone(),
        numbers,
        form: TableForm {
            options: options.table_options(),
            past_cache: false,
            writes_ahead: WriteBehind::depth(false),
        },
        table_bytes_max: options.advanced.table_bytes_max,
        #[cfg(test)]
        plant: options.plant,
    };
    let opened = Opened {
        dir,
        lock,
        manifest,
        full_disk,
    };
    assemble(options, opened, making, read)
}

/// Makes the directory if need be, and locks it.
fn lock_directory(options: &Options, dir: &Path) -> Result<Option<Box<dyn LockGuard>>> {
    let vfs = &*options.vfs;
    // Checked before anything is made, and by the caller again under the lock: another thread or
    // process may make a database just now.
    match check_wanted(options, dir) {
        Err(error) if error.kind() == ErrorKind::Corruption => {}
        checked => {
            checked?;
        }
    }
    if !options.read_only {
        let created = vfs.create_dir_all(dir);
        created.map_err(StorageError::at(dir, "create the directory"))?;
    }
    let how = (options.read_only, options.advanced.wait_for_lock);
    directory_lock::lock_within(vfs, dir, &FileName::Lock.name(), how)
}

/// Whether there is a database in `dir`. Fails if the options refuse that, and for a database of
/// another engine. Writes nothing.
fn check_wanted(options: &Options, dir: &Path) -> Result<bool> {
    let vfs = &*options.vfs;
    EngineKind::Flsm.check(vfs, dir)?;
    if !options.read_only {
        placement::refuse_writing(vfs, dir)?;
    }
    let exists = vfs.exists(&FileName::Current.path(dir));
    match exists.map_err(StorageError::at(dir, "look for the database"))? {
        true if options.error_if_exists => {
            let place = dir.display();
            let message = format!("there is a database in {place} already");
            Err(Error::new(ErrorKind::AlreadyExists, message))
        }
        true => Ok(true),
        false => check_vacant(options, dir).map(|()| false),
    }
}

/// Refuses to make a database where none is wanted, among other files, or where its first files are
/// missing.
fn check_vacant(options: &Options, dir: &Path) -> Result<()> {
    let names = match options.vfs.list(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        names => names.map_err(StorageError::at(dir, "list the directory"))?,
    };
    let files = names
        .iter()
        .filter_map(|name| FileName::parse(name.to_str()?));
    let files: Vec<FileName> = files.collect();
    let has_data = |file: &FileName| matches!(file, FileName::Log(_) | FileName::Table(_));
    if files.iter().any(has_data) {
        let path = FileName::Current.path(dir);
        let detail = "the file is missing, and there are files of a database";
        return Err(StorageError::corruption(&path, 0, detail).into());
    }
    if options.read_only || !options.create_if_missing {
        let message = format!("there is no database in {}", dir.display());
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    match names.len() > files.len() {
        true => {
            let message = format!(
                "the directory {} has other files, and no database is made among them",
                dir.display()
            );
            Err(Error::new(ErrorKind::AlreadyExists, message))
        }
        false => placement::refuse_inside(&*options.vfs, dir, "a database"),
    }
}

/// The contents of the logs.
struct Read {
    replayed: Replayed,
    memories: BTreeMap<KeyspaceId, Arc<MemoryTable>>,
}

impl Read {
    fn logs(vfs: &dyn Vfs, dir: &Path, files: &[FileName], state: &State) -> Result<Read> {
        let logs: Vec<FileNumber> = files
            .iter()
            .filter_map(|file| match file {
                FileName::Log(number) if *number >= state.log_number => Some(*number),
                _ => None,
            })
            .collect();
        let mut memories = BTreeMap::new();
        let mut each = |group: Group<'_>| read_group(group, state, &mut memories);
        let (needed, last) = (state.log_number, state.last_version);
        let replayed = replay(vfs, dir, &logs, needed, last, &mut each)?;
        Ok(Read { replayed, memories })
    }

    fn log_bytes(&self) -> u64 {
        self.replayed.read.iter().map(|log| log.end).sum()
    }

    /// Makes what was read durable, and removes the logs that were given up, durably.
    fn make_durable(&self, vfs: &dyn Vfs, dir: &Path) -> Result<()> {
        for log in &self.replayed.read {
            let synced = log.file.sync_data();
            synced.map_err(StorageError::at(log.file.path(), "sync a log"))?;
        }
        for number in self.replayed.given_up.iter().rev() {
            let path = FileName::Log(*number).path(dir);
            let removed = vfs.remove(&path).and_then(|()| vfs.sync_dir(dir));
            removed.map_err(StorageError::at(&path, "remove a log"))?;
        }
        Ok(())
    }
}

fn read_group(
    group: Group<'_>,
    state: &State,
    memories: &mut BTreeMap<KeyspaceId, Arc<MemoryTable>>,
) -> std::result::Result<(), Refused> {
    for (at, record) in group.records.enumerate() {
        let record = record?;
        let version = Version(group.first.0.wrapping_add(at as u64));
        let id = record.keyspace;
        if id >= state.next_keyspace {
            return Err(Refused::Malformed);
        }
        // Records of a dropped keyspace are left out.
        if state.keyspaces().contains_key(&id) {
            let table = memories
                .entry(id)
                .or_insert_with(|| Arc::new(MemoryTable::new()));
            table.insert(record.entry(version));
        }
    }
    Ok(())
}

/// Removes the files that a job or an opening has left that was cut short. They take the room that
/// this opening needs.
fn remove_leftovers(vfs: &dyn Vfs, dir: &Path, files: &[FileName], state: &State) -> Result<()> {
    let in_force = current::read(vfs, dir)?.manifest;
    for file in files.iter().filter(|file| !state.needs(**file, in_force)) {
        let path = file.path(dir);
        match vfs.remove(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed.map_err(StorageError::at(&path, "remove a leftover"))?,
        }
    }
    Ok(())
}

/// The room that is kept back for a full disk, for the existing tables and logs.
fn look_at_disk(options: &Options, dir: &Path, state: &State, log_bytes: u64) -> FullDisk {
    let tables = state.keyspaces().values();
    let tables = tables.flat_map(|keyspace| keyspace.tree.tables());
    let table_bytes = tables.map(|(_, table)| table.meta.len);
    let data = table_bytes.fold(log_bytes, u64::saturating_add);
    let buffers = options.advanced.level0.compact as u64 + 1;
    let sizes = (options.write_buffer_bytes(), buffers);
    FullDisk::new(options.vfs.clone(), dir, sizes, data)
}

/// The parts of an opening when everything was read.
struct Opened {
    dir: PathBuf,
    lock: Option<Box<dyn LockGuard>>,
    manifest: Kept,
    full_disk: FullDisk,
}

fn assemble(options: Options, opened: Opened, making: Making, read: Read) -> Result<Engine> {
    let Opened {
        dir,
        lock,
        mut manifest,
        full_disk,
    } = opened;
    let default = |keyspace: &crate::manifest::state::Keyspace| keyspace.name == DEFAULT_KEYSPACE;
    let is_whole = manifest.state().keyspaces().values().any(default);
    if !is_whole && !options.read_only {
        let id = manifest.state().next_keyspace;
        full_disk.with(Need::Jobs, || {
            manifest.commit(Edit {
                created: vec![(id, DEFAULT_KEYSPACE.to_owned())],
                ..Edit::default()
            })
        })?;
    }
    let known = manifest.state().keyspaces().iter();
    let known = known.map(|(id, known)| {
        let state = KeyspaceState::new(*id, known.name.clone(), known.tree.clone());
        (known.name.clone(), state)
    });
    let mut catalog: BTreeMap<String, Arc<KeyspaceState>> = known.collect();
    if !is_whole && options.read_only {
        // The creation of the database was cut short: there is nothing in it.
        let (id, name) = (manifest.state().next_keyspace, DEFAULT_KEYSPACE.to_owned());
        let empty = KeyspaceState::new(id, name.clone(), Arc::default());
        catalog.insert(name, empty);
    }
    let (last, log_bytes) = (read.replayed.last_version, read.log_bytes());
    let work = Work::default();
    let number = making.numbers.take();
    let has_log = !options.read_only && options.durability != Durability::Relaxed;
    let log = has_log.then(|| {
        let previous = read.replayed.read.last().map(previous_of);
        let begin = || LogWriter::begin(&*options.vfs, &dir, number, previous);
        full_disk.with(Need::Jobs, begin)
    });
    let log = log.transpose()?;
    push_what_was_read(&making, &catalog, read, number, &work);
    let clock = Clock::new(last);
    #[cfg(test)]
    let clock = clock.planted(options.plant);
    // A database that is opened read-only chooses no guards.
    let secret = manifest.state().guard_secret.unwrap_or_default();
    let engine = Engine {
        guards: GuardRule::new(options.last_guard_bytes(), secret),
        health: Health::new(options.read_only),
        figures: Figures::default(),
        catalog: Mutex::new(catalog),
        clock,
        writes: WritePath::new(Writer::new(number, log, last)),
        manifest: Mutex::new(manifest),
        work,
        cache: BlockCache::new(options.cache_bytes()),
        making,
        claim: Claim::new(lock),
        dir,
        full_disk,
        options,
    };
    engine.note_tables(engine.manifest.lock().state());
    engine.full_disk.note_waiting(log_bytes);
    if !engine.options.read_only {
        // If there is no room for it, it is owed, and puts are refused until there is room.
        let _ = engine.full_disk.lay();
    }
    Ok(engine)
}

/// The whole log was synced.
fn previous_of(log: &ReadLog) -> Previous {
    Previous {
        number: log.number,
        end: log.end,
        durable: log.end,
    }
}

/// Lets the records of the logs wait to be flushed, before the generation `next`.
fn push_what_was_read(
    making: &Making,
    catalog: &BTreeMap<String, Arc<KeyspaceState>>,
    read: Read,
    next: FileNumber,
    work: &Work,
) {
    if read.replayed.read.is_empty() {
        return;
    }
    // The number is below that of the next generation, as the order of generations needs it.
    let number = read.replayed.read.last().map_or(next, |log| log.number);
    debug_assert!(number < next && next < making.numbers.next());
    let mut memories = Vec::new();
    for keyspace in catalog.values() {
        if let Some(table) = read.memories.get(&keyspace.id) {
            keyspace.change(|view| view.memories.insert(0, (number, table.clone())));
            memories.push((keyspace.clone(), table.clone()));
        }
    }
    work.push(Generation {
        number,
        memories,
        last_version: read.replayed.last_version,
        logs: read.replayed.read.iter().map(|log| log.number).collect(),
        next,
    });
}
