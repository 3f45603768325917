//! Which engine made a database. This release has the engine evendb alone; an earlier one had flsm,
//! whose databases are refused by name.
//!
//! Every engine begins its `CURRENT` with a mark of eight bytes:
//! ```text
//!   | EVENCUR | digit |    evendb   the digit is its format version
//!   | EVENCUR | F     |    flsm
//! ```
//! Only the mark is looked at. The bytes behind it belong to the engine, which says what is wrong
//! with them. If the mark is damaged or missing, the names of files tell the engine, because the
//! engines use different names. So nobody makes a new database among the files of a damaged one.
//! Each engine refuses the other's database before it reads or writes anything there.
//!
//! Thread safety: any. Nothing is written.

use crate::error::{Error, ErrorKind, Result};
use evendb_storage::Error as StorageError;
use evendb_storage::vfs::{OsVfs, Vfs};
use std::io;
use std::path::Path;

pub(crate) const CURRENT: &str = "CURRENT";
const FAMILY: &[u8; 7] = b"EVENCUR";

/// An engine of EvenDB.
///
/// A database is opened by the engine that made it, and by no other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum EngineKind {
    /// Chunks of neighbouring keys: the crate `evendb`.
    EvenDb,
    /// A fragmented log-structured merge tree: the crate `evendb-flsm`.
    Flsm,
}

impl EngineKind {
    /// Its name: `evendb` or `flsm`.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::EvenDb => "evendb",
            EngineKind::Flsm => "flsm",
        }
    }

    /// The engine that made the database in directory `dir`, whole or damaged. `None` if nothing
    /// there shows a database.
    pub fn of_database(dir: impl AsRef<Path>) -> Option<EngineKind> {
        EngineKind::of(&OsVfs, dir.as_ref())
    }

    pub(crate) fn of(vfs: &dyn Vfs, dir: &Path) -> Option<EngineKind> {
        EngineKind::by_mark(vfs, dir).or_else(|| {
            let names = vfs.list(dir).unwrap_or_default();
            let names = names.iter().filter_map(|name| name.to_str());
            EngineKind::by_names(names)
        })
    }

    fn by_mark(vfs: &dyn Vfs, dir: &Path) -> Option<EngineKind> {
        let mut mark = [0; 8];
        let file = vfs.open(&dir.join(CURRENT), false).ok()?;
        let read = file.read_at(&mut mark, 0).ok()?;
        EngineKind::of_mark(&mark[..read])
    }

    /// Whether an engine of EvenDB wrote the `CURRENT` in `dir`, in any version and with any damage
    /// behind its first bytes.
    pub(crate) fn has_family(vfs: &dyn Vfs, dir: &Path) -> io::Result<bool> {
        let mut mark = [0; FAMILY.len()];
        let read = vfs.open(&dir.join(CURRENT), false)?.read_at(&mut mark, 0)?;
        Ok(mark[..read] == *FAMILY)
    }

    fn of_mark(mark: &[u8]) -> Option<EngineKind> {
        match mark.strip_prefix(FAMILY)? {
            [b'0'..=b'9'] => Some(EngineKind::EvenDb),
            b"F" => Some(EngineKind::Flsm),
            _ => None,
        }
    }

    /// The engine by names of files that only one of the engines uses, and no other known store.
    fn by_names<'n>(names: impl Iterator<Item = &'n str>) -> Option<EngineKind> {
        let is_numbered = |name: &str, prefix| {
            let digits = name.strip_prefix(prefix).unwrap_or_default();
            digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        let (mut evendb, mut flsm) = (false, false);
        for name in names {
            evendb |= name == "COMMIT-LOG" || name == "CHUNK-LOGS";
            flsm |= is_numbered(name, "LOG-") || is_numbered(name, "TABLE-");
        }
        match (evendb, flsm) {
            (true, false) => Some(EngineKind::EvenDb),
            (false, true) => Some(EngineKind::Flsm),
            _ => None,
        }
    }

    /// Refuses a database that another engine made. It also refuses another program's directory
    /// that has a `CURRENT`, before the directory is locked, because locking would write there.
    ///
    /// # Errors
    /// `Unsupported`, with the name of the engine that made it or the path of the foreign
    /// `CURRENT`; `Io`.
    #[doc(hidden)]
    pub fn check(self, vfs: &dyn Vfs, dir: &Path) -> Result<()> {
        match EngineKind::of(vfs, dir) {
            Some(other) if other != self => {
                let message = format!(
                    "the database in {} was made by EvenDB's engine {}, which this release does not have: `evendb export` of \
                     an earlier release writes its records to files that `evendb ingest` takes",
                    dir.display(),
                    other.name()
                );
                Err(Error::new(ErrorKind::Unsupported, message))
            }
            Some(_) => Ok(()),
            None => refuse_foreign_current(vfs, dir),
        }
    }
}

/// Refuses a `CURRENT` that no engine wrote, if no other file shows an engine.
fn refuse_foreign_current(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    use io::ErrorKind as Io;
    let path = dir.join(CURRENT);
    match EngineKind::has_family(vfs, dir) {
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
    fn the_mark_says_the_engine() {
        let of = EngineKind::of_mark;
        assert_eq!(of(b"EVENCUR1"), Some(EngineKind::EvenDb));
        assert_eq!(of(b"EVENCUR5"), Some(EngineKind::EvenDb));
        assert_eq!(of(b"EVENCURF"), Some(EngineKind::Flsm));
        for other in [&b""[..], b"EVENCUR", b"EVENCURG", b"MANIFEST"] {
            assert_eq!(of(other), None);
        }
    }

    #[test]
    fn without_a_mark_the_names_of_files_tell() {
        let of = |names: &[&str]| EngineKind::by_names(names.iter().copied());
        let (evendb, flsm) = (Some(EngineKind::EvenDb), Some(EngineKind::Flsm));
        assert_eq!(of(&["LOCK", "COMMIT-LOG", "MANIFEST-000001"]), evendb);
        assert_eq!(of(&["LOCK", "TABLE-000012", "MANIFEST-000001"]), flsm);
        assert_eq!(of(&["LOG-1234567"]), flsm);
        assert_eq!(of(&["LOG-1234567", "CHUNK-LOGS"]), None);
        assert_eq!(
            of(&["LOG", "LOG-old", "LOG-12", "MANIFEST-000004", "CURRENT"]),
            None
        );
    }
}
