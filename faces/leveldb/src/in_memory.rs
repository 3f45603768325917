//! Databases whose files are in the memory of the process: `evendb_leveldb_memory_*`. They are what
//! `NewMemEnv` is for in LevelDB's C++ interface: tests, and data that nobody needs afterwards.
//!
//! ```text
//! evendb_leveldb_memory_t ---> a disk in memory <--- databases that are opened with it, by their names
//! ```
//!
//! The disk is the simulated one by which the store is tested. It lives as long as its handle or a
//! database that was opened with it, and goes with the last of them. A database that was closed can
//! be opened again from it. Each database has its lock there, as on a real disk. Any number of
//! threads may use it; one lock guards it, so it is slower than a real disk's cache.
//!
//! Not here: files of the program's own. The C++ environment keeps those by itself
//! (`cpp/memory.cc`).

use crate::error::{Code, Error, Result};
use crate::options::Options;
use evendb::vfs::{SimVfs, Vfs};
use std::io;
use std::path::Path;

/// The seed of the simulated disk. It decides about torn writes after a crash, and there is none.
const SEED: u64 = 1;

/// The name of the lock in a database's directory.
const LOCK: &str = "LOCK";

/// `evendb_leveldb_memory_t`: a disk in memory.
pub struct Disk {
    files: SimVfs,
}

/// Makes an empty disk in memory.
#[unsafe(no_mangle)]
pub extern "C" fn evendb_leveldb_memory_create() -> Box<Disk> {
    Box::new(Disk {
        files: SimVfs::new(SEED),
    })
}

/// Destroys the handle of a disk. Open databases keep the disk until they are closed.
#[unsafe(no_mangle)]
pub extern "C" fn evendb_leveldb_memory_destroy(_disk: Option<Box<Disk>>) {}

/// Sets the disk in memory on which the database is opened, destroyed and repaired; NULL is the
/// real one. LevelDB does not have this function.
#[unsafe(no_mangle)]
pub extern "C" fn evendb_leveldb_options_set_memory(options: &mut Options, disk: Option<&Disk>) {
    options.disk = disk.map(|disk| disk.files.clone());
}

/// Removes the database in `path` of a disk in memory. A missing one is no error.
pub(crate) fn destroy(files: &SimVfs, path: &Path) -> Result<()> {
    let failed = |error: io::Error| Error::new(Code::Io, format!("{}: {error}", path.display()));
    let dir = files.resolve(path).map_err(failed)?;
    let names = match files.list(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names.map_err(failed)?,
    };
    let lock = files.lock(&dir.join(LOCK), false).map_err(|error| {
        let message = format!(
            "lock {}/{LOCK}: the database is open: {error}",
            path.display()
        );
        Error::new(Code::Io, message)
    })?;
    for name in names.iter().filter(|name| *name != LOCK) {
        files.remove(&dir.join(name)).map_err(failed)?;
    }
    drop(lock);
    files.remove(&dir.join(LOCK)).map_err(failed)?;
    files.remove_dir(&dir).map_err(failed)
}

/// A database in memory has no damage that a repair could meet, if it exists.
pub(crate) fn repair(files: &SimVfs, path: &Path) -> Result<()> {
    let exists = files.resolve(path).and_then(|dir| files.exists(&dir));
    if exists.is_ok_and(|yes| yes) {
        return Ok(());
    }
    let message = format!("{}: there is no such database in memory", path.display());
    Err(Error::new(Code::InvalidArgument, message))
}
