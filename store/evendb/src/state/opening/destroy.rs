//! Removing a database: which files belong to it. How they are removed: [`evendb_base::destroy`].

use crate::error::Result;
use crate::files::{
    BALLAST, COMMIT_LOG, CONTAINER, CURRENT, DAMAGED_LOG, HEAT, KEYS, LOCK, STATS, is_own_name,
};
use crate::{fork, kept_changes};
use evendb_storage::vfs::OsVfs;
use std::path::Path;

/// Removes the database in directory `path` with all that it holds, and the directory unless it
/// holds other files. A missing directory is no error.
///
/// Files that do not belong to a database stay. If this is cut short, or returns an error, the
/// remaining files are no database that opens; call it again.
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
/// `Locked` if the database is open; `Unsupported` for a directory that may be another store's (its
/// `CURRENT` is not EvenDB's, or it has none and holds other files) or is a database of the engine
/// flsm of earlier releases; `InvalidArgument` for a backup and for a symbolic link; `Io` (also if
/// one of its names is a link, a directory or a pipe, which no database has; then nothing is
/// removed); and `Forked` as for an opening.
pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
    let _resident = fork::enter()?;
    evendb_base::destroy::destroy(&OsVfs, path.as_ref(), &is_of_database)
}

fn is_number(text: &str) -> bool {
    let number = text.parse::<u64>();
    number.is_ok_and(|number| number.to_string() == text)
}

/// Whether a database has a file of this name.
pub(super) fn is_of_database(name: &str) -> bool {
    let fixed = [
        CURRENT, LOCK, COMMIT_LOG, CONTAINER, BALLAST, STATS, HEAT, KEYS,
    ];
    fixed.contains(&name)
        || name.strip_prefix(DAMAGED_LOG).is_some_and(is_number)
        || is_own_name(name)
        || kept_changes::file_id(name).is_some()
}

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests {
    use super::*;
    use crate::{Db, ErrorKind, Options};
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
        // Files without `CURRENT` may belong to anyone.
        fs::rename(dir.path().join("CURRENT"), dir.path().join("000005.ldb")).unwrap();
        let error = destroy(dir.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    #[test]
    fn the_database_of_another_engine_is_neither_opened_nor_removed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(CURRENT), "EVENCURF and what it says").unwrap();
        fs::write(dir.path().join("MANIFEST-000001"), "x").unwrap();
        let opened = Db::open(dir.path()).err();
        let read = Options::new().read_only(true).open(dir.path()).err();
        let verified =
            crate::inspect::verify(dir.path(), crate::inspect::InspectOptions::new()).err();
        for error in [opened, read, verified, destroy(dir.path()).err()] {
            let error = error.unwrap();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(
                error.to_string().contains("made by EvenDB's engine flsm"),
                "{error}"
            );
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
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
