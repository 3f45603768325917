//! Places where nothing may be made: inside a database's directory, or inside a directory of
//! backups. Files there are taken for ours, and removed or read as such. And databases that may not
//! be written: a backup is a database too.
//!
//! Every call and command that makes a directory or a file, or opens a database for writing, asks
//! here first, with the path as the caller gave it. Links, `.` and `..` are followed. Nothing is
//! written. A directory that cannot be looked at counts as no database.
//! Thread safety: any.

use crate::error::{Error, ErrorKind, Result};
use crate::maker;
use evendb_storage::Error as StorageError;
use evendb_storage::vfs::{OsVfs, Vfs};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The list of a backup. A directory with this file counts as a backup.
pub const BACKUP_LIST: &str = "BACKUP-LIST";
/// The lock of a database's directory, and of a directory with backups.
const LOCK: &str = "LOCK";

/// The number of a backup whose directory has this name, in a directory of backups: in decimal with
/// at least 6 digits. `None` for other names.
pub fn backup_number(name: &str) -> Option<u64> {
    let number = name.parse().ok()?;
    (name == backup_name(number)).then_some(number)
}

/// The name of the directory of a backup.
pub fn backup_name(number: u64) -> String {
    format!("{number:06}")
}

/// Refuses to make `what` in `path` if that lies inside a database's directory or inside one with
/// backups.
///
/// # Errors
/// `InvalidArgument` with both paths.
pub fn refuse_inside(vfs: &dyn Vfs, path: &Path, what: &str) -> Result<()> {
    let resolved = resolve(vfs, path)?;
    for around in resolved.ancestors().skip(1) {
        let whose = match (is_database(vfs, around), is_of_backups(vfs, around)) {
            (true, _) => "a database",
            (false, true) => "backups",
            (false, false) => continue,
        };
        return Err(refusal(
            path,
            what,
            &format!("inside of {}, the directory of {whose}", around.display()),
        ));
    }
    Ok(())
}

/// Refuses to write to the database in `path` if it is a backup, lies inside one, or is a directory
/// of backups: it would no longer be what its list says. A copy of a backup in another place is a
/// database like any other.
///
/// # Errors
/// `InvalidArgument` with the path, and with the command that makes a database from a backup.
pub fn refuse_writing(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    let resolved = resolve(vfs, path)?;
    let number_of = |dir: &Path| {
        let number = backup_number(dir.file_name()?.to_str()?)?;
        let has_list = vfs.exists(&dir.join(BACKUP_LIST)).unwrap_or(false);
        has_list.then_some(number)
    };
    let mut around = resolved.ancestors();
    let found = around.find_map(|dir| Some((number_of(dir)?, dir.parent()?)));
    let (is, restore) = match found {
        Some((number, backups)) => {
            let backups = backups.display();
            let is = format!("backup {number} in {backups}, or lies inside of it");
            (is, format!("{backups} NEWDIR --number {number}"))
        }
        None if is_of_backups(vfs, &resolved) => {
            let is = "a directory of backups".to_owned();
            (is, format!("{} NEWDIR", resolved.display()))
        }
        None => return Ok(()),
    };
    let message = format!(
        "{} is {is}, and no database to write to; restore makes a database of a backup \
         (Backups::restore, `evendb restore {restore}`)",
        path.display()
    );
    Err(Error::new(ErrorKind::InvalidArgument, message))
}

/// Refuses to make `what` in `path` if `path` is the directory of the database in `db`, inside it
/// or around it.
///
/// # Errors
/// `InvalidArgument` with both paths.
pub fn refuse_at(vfs: &dyn Vfs, path: &Path, db: &Path, what: &str) -> Result<()> {
    let (resolved, database) = (resolve(vfs, path)?, resolve(vfs, db)?);
    let how = if resolved == database {
        "the directory"
    } else if resolved.starts_with(&database) {
        "inside of the directory"
    } else if database.starts_with(&resolved) {
        "around the directory"
    } else {
        return Ok(());
    };
    let where_it_is = format!("{how} of the database in {}", db.display());
    Err(refusal(path, what, &where_it_is))
}

/// Refuses to make backups of the database in `db` in directory `path`, unless that is a place of
/// its own.
///
/// # Errors
/// `InvalidArgument` with both paths.
pub fn refuse_backups(vfs: &dyn Vfs, path: &Path, db: &Path) -> Result<()> {
    const WHAT: &str = "backups";
    refuse_at(vfs, path, db, WHAT)?;
    refuse_inside(vfs, path, WHAT)?;
    match maker::is_database(vfs, path) {
        false => Ok(()),
        true => Err(refusal(path, WHAT, "the directory of a database")),
    }
}

/// Refuses a directory for writing if a name of a database's file (`is_own`) in it is not a regular
/// file: we make only regular files, so it belongs to somebody else. Call it before the first
/// write, so that nothing is changed.
///
/// # Errors
/// `Io` with the path of the first such name.
pub fn refuse_foreign(vfs: &dyn Vfs, dir: &Path, is_own: &dyn Fn(&str) -> bool) -> Result<()> {
    let names = vfs.list_irregular(dir);
    let names = names.map_err(|source| StorageError::io(dir, "list the directory", source))?;
    for name in names.iter().filter_map(|name| name.to_str()) {
        let path = dir.join(name);
        // A file that has just been removed disturbs nobody.
        if is_own(name)
            && let Err(source) = vfs.check_regular(&path)
            && source.kind() != io::ErrorKind::NotFound
        {
            return Err(StorageError::io(&path, "take for a file of a database", source).into());
        }
    }
    Ok(())
}

/// Whether the name in this directory is a link.
///
/// # Errors
/// `Io` with the path.
pub fn is_link(vfs: &dyn Vfs, parent: &Path, name: &OsStr) -> Result<bool> {
    Ok(resolve(vfs, &parent.join(name))? != resolve(vfs, parent)?.join(name))
}

/// Refuses to make the file `path`, which the user has named and which will be `what`. It is
/// refused [inside a database's directory](refuse_inside), and where anything but a character
/// device exists already.
///
/// # Errors
/// `InvalidArgument`, `AlreadyExists` and `Io`, with the path.
pub fn refuse_output(path: &Path, what: &str) -> Result<()> {
    refuse_inside(&OsVfs, path, what)?;
    OsVfs::refuse_present(path).map_err(|error| cannot_make(path, error))
}

/// Makes the file of [`refuse_output`].
///
/// # Errors
/// As [`refuse_output`].
pub fn new_output(path: &Path, what: &str) -> Result<File> {
    refuse_inside(&OsVfs, path, what)?;
    OsVfs::new_file(path).map_err(|error| cannot_make(path, error))
}

/// Makes the file of [`refuse_output`] with this text.
///
/// # Errors
/// As [`refuse_output`].
pub fn write_output(path: &Path, what: &str, text: &str) -> Result<()> {
    let written = new_output(path, what)?.write_all(text.as_bytes());
    written.map_err(|error| cannot_make(path, error))
}

fn cannot_make(path: &Path, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::AlreadyExists {
        let path = path.display();
        let message = format!(
            "cannot write {path}: it is there already, and is left as it is; name a new file"
        );
        return Error::new(ErrorKind::AlreadyExists, message);
    }
    StorageError::io(path, "write", error).into()
}

fn refusal(path: &Path, what: &str, is: &str) -> Error {
    let message = format!(
        "cannot make {what} in {}: it is {is}; give a place outside of it",
        path.display()
    );
    Error::new(ErrorKind::InvalidArgument, message)
}

fn resolve(vfs: &dyn Vfs, path: &Path) -> Result<PathBuf> {
    let resolved = vfs.resolve(path);
    Ok(resolved.map_err(|source| StorageError::io(path, "resolve the path", source))?)
}

fn is_database(vfs: &dyn Vfs, dir: &Path) -> bool {
    maker::has_family(vfs, dir).unwrap_or(false)
}

fn is_of_backups(vfs: &dyn Vfs, dir: &Path) -> bool {
    // Asked first: few directories that are not ours have this file, and some have very many names.
    vfs.exists(&dir.join(LOCK)).unwrap_or(false)
        && vfs.list(dir).unwrap_or_default().iter().any(|name| {
            let is_number = name
                .to_str()
                .is_some_and(|name| backup_number(name).is_some());
            is_number
                && vfs
                    .exists(&dir.join(name).join(BACKUP_LIST))
                    .unwrap_or(false)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A place with two directories: one with a database, and one with backups.
    fn place() -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("db/sub")).unwrap();
        fs::write(at("db/CURRENT"), "EVENCUR5").unwrap();
        fs::create_dir_all(at("backups/000001")).unwrap();
        fs::write(at("backups/LOCK"), "").unwrap();
        fs::write(at("backups/000001/BACKUP-LIST"), "").unwrap();
        fs::create_dir_all(at("else/sub")).unwrap();
        symlink(at("db/sub"), at("else/link")).unwrap();
        symlink("link", at("else/link of a link")).unwrap();
        place
    }

    #[test]
    fn what_lies_inside_of_a_database_or_of_backups_is_refused_through_links_and_dots_too() {
        let place = place();
        let at = |name: &str| place.path().join(name);
        let inside = [
            "db/x",
            "db/sub",
            "db/sub/x/y",
            "db/../db/x",
            "else/../db/./sub/x",
            "else/link/x",
            "else/link of a link",
            "else/link/../x",
            "else/missing/../../db/x",
            "backups/x",
            "backups/000002",
            "backups/000001/x",
        ];
        for path in inside {
            let error = refuse_inside(&OsVfs, &at(path), "a trace").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{path}");
            let around = place.path().canonicalize().unwrap();
            let around = around.join(if path.starts_with("backups") {
                "backups"
            } else {
                "db"
            });
            let text = error.to_string();
            assert!(
                text.contains(path) && text.contains(around.to_str().unwrap()),
                "{text}"
            );
        }
        for path in [
            "db",
            "x",
            "else/x",
            "else/link/../../x",
            "backups",
            "db2/x",
            "else/sub/../x",
        ] {
            refuse_inside(&OsVfs, &at(path), "a trace").expect(path);
        }
    }

    #[test]
    fn a_backup_what_lies_in_it_and_the_directory_of_backups_are_not_written_to() {
        let place = place();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("backups/000002")).unwrap();
        symlink(at("backups/000001"), at("link")).unwrap();
        for path in ["backups", "backups/000001", "backups/000001/x/y", "link"] {
            let error = refuse_writing(&OsVfs, &at(path)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{path}");
            let text = error.to_string();
            let backups = place.path().canonicalize().unwrap().join("backups");
            let restore = format!("evendb restore {} NEWDIR", backups.display());
            assert!(text.contains(path) && text.contains(&restore), "{text}");
        }
        // An incomplete backup counts as nothing, and a backup in another place is a copy.
        fs::create_dir_all(at("copy")).unwrap();
        fs::write(at("copy/BACKUP-LIST"), "").unwrap();
        for path in ["db", "db/sub", "copy", "else", "x", "backups/000002"] {
            refuse_writing(&OsVfs, &at(path)).expect(path);
        }
    }

    #[test]
    fn the_same_inside_and_around_are_refused_and_beside_is_not() {
        let place = place();
        let at = |name: &str| place.path().join(name);
        for path in [
            "db",
            "db/",
            "db/sub",
            "db/sub/x",
            ".",
            "else/..",
            "else/link",
            "x/../db",
        ] {
            let error = refuse_at(&OsVfs, &at(path), &at("db"), "backups").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{path}");
            assert!(
                error.to_string().contains(at("db").to_str().unwrap()),
                "{error}"
            );
        }
        for path in ["d", "db2", "else", "else/sub/../../x"] {
            refuse_at(&OsVfs, &at(path), &at("db"), "backups").expect(path);
        }
    }

    #[test]
    fn numbers_of_backups_have_one_name_each() {
        assert_eq!(backup_number("000001"), Some(1));
        assert_eq!(backup_number("20240101"), Some(20_240_101));
        for other in [
            "1",
            "00001",
            "0000001",
            "+00001",
            "00000a",
            "",
            "99999999999999999999",
        ] {
            assert_eq!(backup_number(other), None, "{other}");
        }
    }
}
