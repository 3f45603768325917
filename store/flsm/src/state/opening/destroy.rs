//! Removing a database: here, which files belong to it; [`evendb_base::destroy`] removes them.

use crate::error::Result;
use crate::files::FileName;
use evendb_base::{EngineKind, fork};
use evendb_storage::vfs::OsVfs;
use std::path::Path;

/// Removes the database in directory `path` with all that it holds, and the directory unless it
/// holds other files. It is no error if the directory does not exist.
///
/// Files that do not belong to a database stay. If the removal is cut short or returns an error,
/// what is left does not open as a database; call it again then.
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
/// `Locked` if somebody has it open. `Unsupported` for a directory that may be another store's, or
/// for a database of another engine. `InvalidArgument` for a directory of backups and for a
/// symbolic link. `Io`, also if a link, a directory or a pipe has the name of one of its files: no
/// engine makes those, and nothing is removed then. `Forked` as for an opening.
pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
    let _resident = fork::enter()?;
    let is_own = |name: &str| FileName::parse(name).is_some();
    evendb_base::destroy::destroy(&OsVfs, path.as_ref(), EngineKind::Flsm, &is_own)
}
