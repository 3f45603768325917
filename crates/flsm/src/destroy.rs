//! Removing a database: which files are its own. How they go: [`evendb_base::destroy`].

use crate::error::Result;
use crate::files::FileName;
use evendb_base::{EngineKind, fork};
use evendb_storage::vfs::OsVfs;
use std::path::Path;

/// Removes the database in directory `path` with all that it holds, and the directory unless it holds other files. A
/// directory that is not there is no error.
///
/// Files that are none of a database's stay. If this is cut short, or returns an error, what is left is no database
/// that opens; call it again.
///
/// ```
/// # fn main() -> evendb_flsm::Result<()> {
/// # let parent = tempfile::tempdir().unwrap();
/// let path = parent.path().join("cache.db");
/// evendb_flsm::Db::open(&path)?.close()?;
/// evendb_flsm::destroy(&path)?;
/// assert!(!path.exists());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Locked` if somebody has it open, `Unsupported` for a directory that may be another store's or is a database of another
/// engine, `InvalidArgument` in a directory of backups and for a symbolic link, `Io` (also if one of its names is a link, a
/// directory or a pipe, which no database has; nothing is removed then), and `Forked` as for an opening.
pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
    let _resident = fork::enter()?;
    let is_own = |name: &str| FileName::parse(name).is_some();
    evendb_base::destroy::destroy(&OsVfs, path.as_ref(), EngineKind::Flsm, &is_own)
}
