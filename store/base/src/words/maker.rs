//! Who made the database in a directory. Earlier releases had a second engine, flsm, whose
//! databases are refused by name.
//!
//! `CURRENT` begins with a mark of eight bytes:
//! ```text
//!   | EVENCUR | digit |    this engine   the digit is its format version
//!   | EVENCUR | F     |    flsm
//! ```
//! Only the mark is looked at. The opening says what is wrong with the bytes behind it. If the mark
//! is damaged or missing, the names of files tell who made the database, because flsm used other
//! names. So nobody makes a new database among the files of a damaged one.
//!
//! Thread safety: any. Nothing is written.

use crate::error::{Error, ErrorKind, Result};
use evendb_storage::Error as StorageError;
use evendb_storage::vfs::Vfs;
use std::io;
use std::path::Path;

pub(crate) const CURRENT: &str = "CURRENT";
const FAMILY: &[u8; 7] = b"EVENCUR";

/// Whether there is a database of EvenDB in `dir`, whole or damaged, of whichever engine.
pub fn is_database(vfs: &dyn Vfs, dir: &Path) -> bool {
    is_of_second_engine(vfs, dir).is_some()
}

/// Whether the second engine made the database in `dir`. `None` if nothing there shows a database.
fn is_of_second_engine(vfs: &dyn Vfs, dir: &Path) -> Option<bool> {
    by_mark(vfs, dir).or_else(|| {
        let names = vfs.list(dir).unwrap_or_default();
        by_names(names.iter().filter_map(|name| name.to_str()))
    })
}

fn by_mark(vfs: &dyn Vfs, dir: &Path) -> Option<bool> {
    let mut mark = [0; 8];
    let file = vfs.open(&dir.join(CURRENT), false).ok()?;
    let read = file.read_at(&mut mark, 0).ok()?;
    of_mark(&mark[..read])
}

fn of_mark(mark: &[u8]) -> Option<bool> {
    match mark.strip_prefix(FAMILY)? {
        [b'0'..=b'9'] => Some(false),
        b"F" => Some(true),
        _ => None,
    }
}

/// The answer by names of files that only one of the engines uses, and no other known store.
fn by_names<'n>(names: impl Iterator<Item = &'n str>) -> Option<bool> {
    let is_numbered = |name: &str, prefix| {
        let digits = name.strip_prefix(prefix).unwrap_or_default();
        digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let (mut this, mut second) = (false, false);
    for name in names {
        this |= name == "COMMIT-LOG" || name == "CHUNK-LOGS";
        second |= is_numbered(name, "LOG-") || is_numbered(name, "TABLE-");
    }
    (this != second).then_some(second)
}

/// Whether EvenDB wrote the `CURRENT` in `dir`, in any version and with any damage behind its first
/// bytes.
pub(crate) fn has_family(vfs: &dyn Vfs, dir: &Path) -> io::Result<bool> {
    let mut mark = [0; FAMILY.len()];
    let read = vfs.open(&dir.join(CURRENT), false)?.read_at(&mut mark, 0)?;
    Ok(mark[..read] == *FAMILY)
}

/// Refuses a database that the second engine made. It also refuses another program's directory that
/// has a `CURRENT`, before the directory is locked, because locking would write there.
///
/// # Errors
/// `Unsupported`, with the name of the second engine or the path of the foreign `CURRENT`; `Io`.
pub fn check(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    match is_of_second_engine(vfs, dir) {
        Some(true) => {
            let message = format!(
                "the database in {} was made by EvenDB's engine flsm, which this release does not have: `evendb export` of \
                 an earlier release writes its records to files that `evendb ingest` takes",
                dir.display()
            );
            Err(Error::new(ErrorKind::Unsupported, message))
        }
        Some(false) => Ok(()),
        None => refuse_foreign_current(vfs, dir),
    }
}

/// Refuses a `CURRENT` that EvenDB did not write, if no other file shows a database of EvenDB.
fn refuse_foreign_current(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    use io::ErrorKind as Io;
    let path = dir.join(CURRENT);
    match has_family(vfs, dir) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let message = format!(
                "{} is none of EvenDB's, and no file beside it tells of a database of EvenDB: the directory may be another \
                 store's, and is left as it is",
                path.display()
            );
            Err(Error::new(ErrorKind::Unsupported, message))
        }
        // There is no `CURRENT`, or no directory.
        Err(error) if matches!(error.kind(), Io::NotFound | Io::NotADirectory) => Ok(()),
        Err(error) => Err(StorageError::open(&path, "open CURRENT", error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_says_who_made_it() {
        assert_eq!(of_mark(b"EVENCUR1"), Some(false));
        assert_eq!(of_mark(b"EVENCUR5"), Some(false));
        assert_eq!(of_mark(b"EVENCURF"), Some(true));
        for other in [&b""[..], b"EVENCUR", b"EVENCURG", b"MANIFEST"] {
            assert_eq!(of_mark(other), None);
        }
    }

    #[test]
    fn without_a_mark_the_names_of_files_tell() {
        let of = |names: &[&str]| by_names(names.iter().copied());
        let (this, second) = (Some(false), Some(true));
        assert_eq!(of(&["LOCK", "COMMIT-LOG", "MANIFEST-000001"]), this);
        assert_eq!(of(&["LOCK", "TABLE-000012", "MANIFEST-000001"]), second);
        assert_eq!(of(&["LOG-1234567"]), second);
        assert_eq!(of(&["LOG-1234567", "CHUNK-LOGS"]), None);
        assert_eq!(
            of(&["LOG", "LOG-old", "LOG-12", "MANIFEST-000004", "CURRENT"]),
            None
        );
    }
}
