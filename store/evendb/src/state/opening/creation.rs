//! Creation: the files of a new database. A creation that fails leaves the directory as it was:
//! absent or empty.
//!
//! Until `CURRENT` exists, the created files are no database, and a creation that a crash cut short
//! is replaced by the next one (`directory.rs`). This file handles a creation that can still say
//! why it failed. It removes `CURRENT` first, durably, because after a power loss `CURRENT` must
//! not exist without the files that it names. Then it removes the other files, and then the
//! directories that it made. All of this is under the lock, whose file is removed, too.
//!
//! Best effort: files that a failing disk does not remove stay, and the next creation replaces
//! them.

use super::directory::{self, Wish};
use super::keyspace::{empty_chunk, keyspace_changes, new_guards};
use crate::catalog::DEFAULT_KEYSPACE;
use crate::commit_log;
use crate::encryption;
use crate::error::{Error, ErrorKind, Result};
use crate::files::{
    BALLAST, COMMIT_LOG, CONTAINER, CURRENT, CURRENT_UNFINISHED, KEYS, KEYS_UNFINISHED, LOCK,
};
use crate::full_disk::BYTES_MIN;
use crate::manifest::state::ManifestState;
use crate::manifest::writer::{self, Manifest};
use crate::manifest::{ChunkId, KeyspaceId};
use crate::options::{Durability, KeyspaceOptions, Options};
use crate::sync::Arc;
use crate::tables::container;
use evendb_storage::Error as StorageError;
use evendb_storage::vfs::{LockGuard, Vfs};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

fn failed(path: &Path, what: &str, source: io::Error) -> Error {
    StorageError::io(path, what, source).into()
}

/// The lock of an opening in progress.
pub(crate) struct Locked {
    pub(crate) guard: Option<Box<dyn LockGuard>>,
    /// There was no database when the lock was taken.
    pub(crate) creates: bool,
}

/// The bytes that a new database takes on the disk, with a first record: its ring, its reserve,
/// room for runs and edits, and a few small files.
fn room_needed(options: &Options) -> u64 {
    let ring = match options.durability {
        Durability::Relaxed => 0,
        _ => commit_log::first_room(options.ring_bytes()),
    };
    ring + BYTES_MIN + 2 * container::GROW_BYTES_MIN + writer::RESERVE_BYTES_MIN + (32 << 10)
}

/// Creates the files of a new database; `CURRENT` comes last and makes it one.
pub(super) fn create(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    options: &Options,
) -> Result<(Arc<dyn Vfs>, Manifest)> {
    // Asked again under the lock: meanwhile a copy may be under way here.
    directory::check_vacant(&**vfs, dir, Wish::Create)?;
    let names = vfs
        .list(dir)
        .map_err(|error| failed(dir, "list the directory", error))?;
    for name in names.iter().filter_map(|name| name.to_str()) {
        if name.starts_with("MANIFEST-")
            || [
                COMMIT_LOG,
                CONTAINER,
                CURRENT_UNFINISHED,
                KEYS,
                KEYS_UNFINISHED,
            ]
            .contains(&name)
        {
            let path = dir.join(name);
            vfs.remove(&path)
                .map_err(|error| failed(&path, "remove a leftover", error))?;
        }
    }
    // This comes first: encrypted files are encrypted from their first byte on.
    let vfs = encryption::begin(vfs, dir, options.advanced.encryption.as_ref())?;
    let ring_bytes = match options.durability {
        Durability::Relaxed => 0,
        _ => options.ring_bytes(),
    };
    if ring_bytes > 0 {
        commit_log::create_file(&*vfs, &dir.join(COMMIT_LOG), ring_bytes)?;
    }
    // The file has no bytes: only its name has to become durable, together with the other names,
    // before `CURRENT` is written.
    let container = dir.join(CONTAINER);
    vfs.create(&container)
        .map_err(|error| failed(&container, "create the chunks' logs", error))?;
    let mut state = ManifestState {
        ring_bytes,
        ..ManifestState::default()
    };
    // The first edit has the keyspace that always exists. Its chunk's id belongs to no epoch.
    let chosen = KeyspaceOptions::new().of_new(options);
    let id = KeyspaceId(state.next_keyspace);
    let chunk = empty_chunk(id, ChunkId(1), new_guards(dir, &chosen)?);
    for change in keyspace_changes(DEFAULT_KEYSPACE, chunk, &chosen) {
        state
            .apply(change)
            .map_err(|what| StorageError::corruption(dir, 0, what))?;
    }
    let manifest = Manifest::create(vfs.clone(), dir, 1, state)?;
    Ok((vfs, manifest))
}

/// The state before a database was created, so that a failed creation can restore it.
pub(crate) struct Creation {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    /// Directories that were missing, the innermost first.
    missing: Vec<PathBuf>,
    names: Vec<OsString>,
    /// The bytes that a new database takes on the disk.
    needs: u64,
}

impl Creation {
    pub(crate) fn begin(options: &Options, dir: &Path) -> Result<Creation> {
        let vfs = &options.vfs;
        let mut missing = Vec::new();
        for ancestor in dir.ancestors() {
            if vfs
                .exists(ancestor)
                .map_err(|error| failed(ancestor, "look for the directory", error))?
            {
                break;
            }
            missing.push(ancestor.to_owned());
        }
        let names = match missing.is_empty() {
            true => vfs
                .list(dir)
                .map_err(|error| failed(dir, "list the directory", error))?,
            false => Vec::new(),
        };
        let creation = Creation {
            vfs: vfs.clone(),
            dir: dir.to_owned(),
            missing,
            names,
            needs: room_needed(options),
        };
        match vfs.create_dir_all(dir) {
            Ok(()) => Ok(creation),
            Err(error) => {
                let error = failed(dir, "create the directory", error);
                Err(creation.undo(None, error))
            }
        }
    }

    /// Removes the created files, as far as the disk allows it, and says why; for a full disk it
    /// says how much room a database takes. The lock is held until its file is gone.
    pub(crate) fn undo(&self, locked: Option<Locked>, error: Error) -> Error {
        match locked {
            // Another process created it meanwhile: it stays, whatever went wrong with it here.
            Some(locked) if !locked.creates => return error,
            Some(_) => {
                let current = self.dir.join(CURRENT);
                let is_database = self.vfs.exists(&current).unwrap_or(true);
                // This is first and final: a power loss must not bring it back without the files
                // that it names. Any other remains are whole, or are replaced by the next creation.
                if is_database
                    && (self.vfs.remove(&current).is_err() || self.vfs.sync_dir(&self.dir).is_err())
                {
                    return error;
                }
                self.remove_new_files();
            }
            // Another opening has the lock, and perhaps no file in the directory yet.
            None if error.kind() == ErrorKind::Locked => return error,
            // A lock file that is there now may belong to another process.
            None => {}
        }
        for dir in &self.missing {
            let _ = self.vfs.remove_dir(dir);
        }
        match error.kind() {
            ErrorKind::NoSpace => self.no_room(&error),
            _ => error,
        }
    }

    fn remove_new_files(&self) {
        let manifest = writer::manifest_path(&self.dir, 1);
        // The keys are removed after the files that they open.
        let own = [
            CURRENT_UNFINISHED,
            COMMIT_LOG,
            CONTAINER,
            BALLAST,
            KEYS_UNFINISHED,
            KEYS,
            LOCK,
        ]
        .map(|name| self.dir.join(name));
        for path in own.iter().chain([&manifest]) {
            let was_there = |name: &OsString| path.file_name() == Some(name);
            // A lock file may have been there before; the other names that were there before are
            // remains of a creation that was cut short.
            if !(path.ends_with(LOCK) && self.names.iter().any(was_there)) {
                let _ = self.vfs.remove(path);
            }
        }
    }

    fn no_room(&self, error: &Error) -> Error {
        let source =
            std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
        let message = format!(
            "no database was created in {}, and nothing was left there: {source}; a new one needs {} KiB \
             of free space with this memory budget, and less with a smaller one (memory_budget, \
             --memory)",
            self.dir.display(),
            self.needs.div_ceil(1 << 10)
        );
        Error::new(ErrorKind::NoSpace, message)
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::files::UNFINISHED_COPY;
    use evendb_storage::vfs::{CrashMode, SimVfs};

    /// Between the first look at a directory and its lock, a copy may have been begun there, or a
    /// database made and damaged.
    #[test]
    fn what_came_to_lie_there_before_the_lock_was_taken_is_left_alone() {
        let manifest = writer::manifest_path(Path::new("/db"), 2);
        for left in [Path::new("/db").join(UNFINISHED_COPY), manifest] {
            let sim = SimVfs::new(1);
            let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
            let dir = Path::new("/db");
            vfs.create_dir_all(dir).unwrap();
            sim.write_file(&left, b"whatever".to_vec());
            sim.write_file(&dir.join(CONTAINER), b"runs".to_vec());
            let names = sim.file_names(dir);
            let created = create(&vfs, dir, &Options::new());
            assert!(created.is_err(), "beside {}", left.display());
            assert_eq!(sim.file_names(dir), names);
            assert_eq!(sim.read_file(&left), b"whatever");
        }
    }

    /// A process may die between the rename of `CURRENT` and the sync of its name, and the next one
    /// goes on with the files that it finds.
    #[test]
    fn what_is_flushed_after_a_creation_that_was_cut_off_survives() {
        for level in [Durability::Relaxed, Durability::Process, Durability::Sync] {
            let open = |vfs: &SimVfs| {
                let options = Options::new().memory_budget(1 << 20).workers(0);
                let options = options.advanced(|advanced| advanced.commit_log_bytes(64 << 10));
                let options = options.durability(level).vfs(Arc::new(vfs.clone()));
                options.open("/db")
            };
            for at in 0.. {
                let machine = SimVfs::new(1);
                machine.set_crash_at(at);
                let created = open(&machine).is_ok() && !machine.crashed();
                let left = machine.crash(CrashMode::Process);
                let db = open(&left).unwrap();
                db.put("key", "value").unwrap();
                db.flush().unwrap();
                let db = open(&left.crash(CrashMode::PowerLossNothing)).unwrap();
                let found = db.get("key").unwrap();
                assert!(found.is_some(), "{level:?}, operation {at}");
                if created {
                    assert!(at > 10, "{at} operations");
                    break;
                }
            }
        }
    }
}
