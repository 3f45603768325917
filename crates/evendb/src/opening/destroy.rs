//! Removing a database: the files that are its own, under its lock, and no other file.
//!
//! Order: `CURRENT` goes first, durably, so that a crash in the middle never leaves a database that opens and lacks
//! something. What such a crash leaves is refused by an opening, and removed when this is called again. `LOCK` goes
//! last, while the lock is held. The directory goes too if nothing else is in it.

use crate::error::{Error, ErrorKind, Result};
use crate::files::{
    BALLAST, COMMIT_LOG, CONTAINER, CURRENT, DAMAGED_LOG, HEAT, KEYS, LOCK, STATS, is_own_name,
};
use crate::manifest::writer;
use crate::{fork, kept_changes};
use evendb_base::directory_lock::lock;
use evendb_storage::Error as StorageError;
use evendb_storage::vfs::{OsVfs, Vfs};
use std::io;
use std::path::Path;

/// Removes the database in directory `path` with all that it holds, and the directory unless it holds other files. A
/// directory that is not there is no error.
///
/// Files that are none of a database's stay. If this is cut short, or returns an error, what is left is no database
/// that opens; call it again.
///
/// ```
/// # fn main() -> evendb::Result<()> {
/// # let parent = tempfile::tempdir().unwrap();
/// let path = parent.path().join("cache.db");
/// evendb::Db::open(&path)?.close()?;
/// evendb::destroy(&path)?;
/// assert!(!path.exists());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Locked` if somebody has it open, `Unsupported` for a directory that may be another store's (its `CURRENT` is none of
/// EvenDB's, or it has none and holds other files), `Io`, and `Forked` as for an opening.
pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
    let _resident = fork::enter()?;
    destroy_in(&OsVfs, path.as_ref())
}

fn destroy_in(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    if own_names(vfs, dir)?.is_empty() {
        return remove_if_empty(vfs, dir);
    }
    let guard = lock(vfs, dir, LOCK, false)?;
    // Looked at again, now that nobody else opens it.
    let names = own_names(vfs, dir)?;
    if names.iter().any(|name| name == CURRENT) {
        remove(vfs, dir, CURRENT)?;
        vfs.sync_dir(dir)
            .map_err(|error| failed(dir, "sync the directory", error))?;
    }
    for name in names
        .iter()
        .filter(|name| *name != CURRENT && *name != LOCK)
    {
        remove(vfs, dir, name)?;
    }
    remove(vfs, dir, LOCK)?;
    drop(guard);
    remove_if_empty(vfs, dir)
}

fn failed(path: &Path, what: &str, source: io::Error) -> Error {
    StorageError::io(path, what, source).into()
}

/// The files in `dir` that are a database's. Refuses a directory in which another store has its own: some names are
/// common to several stores, and `CURRENT` tells whose they are. Without it they are a database's only if no other file
/// is there.
fn own_names(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<String>> {
    let names = match vfs.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(|error| failed(dir, "list the directory", error))?,
    };
    let all = names.len();
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    let own: Vec<String> = names.filter(|name| is_of_database(name)).collect();
    let why = match own.iter().any(|name| name == CURRENT) {
        true if writer::is_own_current(vfs, dir)? => return Ok(own),
        true => "its CURRENT is of another store",
        false if own.is_empty() || own.len() == all => return Ok(own),
        false => "it has no CURRENT, and holds other files",
    };
    let message = format!(
        "{} is no EvenDB database: {why}; nothing was removed",
        dir.display()
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}

fn remove(vfs: &dyn Vfs, dir: &Path, name: &str) -> Result<()> {
    let path = dir.join(name);
    vfs.remove(&path)
        .map_err(|error| failed(&path, "remove a file", error))
}

fn remove_if_empty(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    use io::ErrorKind as Io;
    match vfs.remove_dir(dir) {
        Err(error) if !matches!(error.kind(), Io::DirectoryNotEmpty | Io::NotFound) => {
            Err(failed(dir, "remove the directory", error))
        }
        _ => Ok(()),
    }
}

fn is_of_database(name: &str) -> bool {
    let fixed = [
        CURRENT, LOCK, COMMIT_LOG, CONTAINER, BALLAST, STATS, HEAT, KEYS,
    ];
    fixed.contains(&name)
        || name.starts_with(DAMAGED_LOG)
        || is_own_name(name)
        || kept_changes::file_id(name).is_some()
}

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests {
    use super::*;
    use crate::{Db, Options};
    use std::fs;

    #[test]
    fn a_destroyed_database_leaves_nothing_and_may_be_made_again() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("db");
        destroy(&path).unwrap();
        for _ in 0..2 {
            let db = Options::new()
                .advanced(|advanced| {
                    advanced
                        .keep_changes_bytes(1 << 20)
                        .values_apart_from(Some(8))
                })
                .open(&path)
                .unwrap();
            assert!(db.get("key").unwrap().is_none());
            db.put("key", "a value that lies apart").unwrap();
            db.flush().unwrap();
            db.close().unwrap();
            destroy(&path).unwrap();
            assert!(!path.exists());
        }
    }

    #[test]
    fn files_of_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        Db::open(dir.path()).unwrap().close().unwrap();
        fs::write(dir.path().join("notes.txt"), "kept").unwrap();
        destroy(dir.path()).unwrap();
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(left.len(), 1);
        assert_eq!(fs::read(dir.path().join("notes.txt")).unwrap(), b"kept");
    }

    #[test]
    fn an_open_database_is_refused_and_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        db.put("key", "value").unwrap();
        let error = destroy(dir.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        db.close().unwrap();
        assert!(Db::open(dir.path()).unwrap().contains_key("key").unwrap());
    }

    #[test]
    fn the_database_of_another_store_is_refused_and_left() {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in [
            ("CURRENT", "MANIFEST-000002\n"),
            ("MANIFEST-000002", "x"),
            ("LOCK", ""),
        ] {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        let error = destroy(dir.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
        // What is left without CURRENT may be anybody's.
        fs::rename(dir.path().join("CURRENT"), dir.path().join("000005.ldb")).unwrap();
        let error = destroy(dir.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    #[test]
    fn what_a_cut_destroy_leaves_does_not_open_and_goes_with_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        fs::remove_file(dir.path().join(CURRENT)).unwrap();
        let error = Db::open(dir.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        destroy(dir.path()).unwrap();
        assert!(!dir.path().exists());
    }
}
