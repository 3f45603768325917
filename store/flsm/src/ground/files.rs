//! Names of the files in a database's directory.
//!
//! ```text
//!   CURRENT   CURRENT.tmp   LOCK   BALLAST   MANIFEST-000007   LOG-000012   TABLE-000031
//! ```
//! A number has at least six digits, and no two files ever have the same number, whatever they are.
//! `CURRENT` is also a name of the first engine. So each of the two engines finds it in the other's
//! directory, and its first bytes tell which engine wrote it.

use crate::types::FileNumber;
use evendb_base::ballast::BALLAST;
use evendb_storage::vfs::Vfs;
use evendb_storage::{Error, NUMBER_MAX, Result, TableId};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The kind of a file, by its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum FileName {
    /// Names the manifest in force.
    Current,
    /// A `CURRENT` that is not written yet.
    CurrentUnfinished,
    /// Locked by the process that has the database open.
    Lock,
    /// Reserved blocks, for deletes and jobs on a full disk.
    Ballast,
    /// Edits of the trees.
    Manifest(FileNumber),
    /// The write-ahead log of a generation.
    Log(FileNumber),
    /// A sorted table.
    Table(TableId),
}

const MANIFEST: &str = "MANIFEST-";
const LOG: &str = "LOG-";
const TABLE: &str = "TABLE-";

impl FileName {
    /// The file of this name. `None`: a database has no such file.
    pub(crate) fn parse(name: &str) -> Option<FileName> {
        let number = |prefix| {
            let digits = name.strip_prefix(prefix)?;
            let number = digits.parse().ok()?;
            // Each number has only one name, and there is always a next number.
            (digits == padded(number) && number <= NUMBER_MAX).then_some(number)
        };
        match name {
            "CURRENT" => Some(FileName::Current),
            "CURRENT.tmp" => Some(FileName::CurrentUnfinished),
            "LOCK" => Some(FileName::Lock),
            BALLAST => Some(FileName::Ballast),
            _ => number(MANIFEST)
                .map(|number| FileName::Manifest(FileNumber(number)))
                .or_else(|| number(LOG).map(|number| FileName::Log(FileNumber(number))))
                .or_else(|| number(TABLE).map(|number| FileName::Table(TableId(number)))),
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> String {
        match self {
            FileName::Current => "CURRENT".to_owned(),
            FileName::CurrentUnfinished => "CURRENT.tmp".to_owned(),
            FileName::Lock => "LOCK".to_owned(),
            FileName::Ballast => BALLAST.to_owned(),
            FileName::Manifest(number) => format!("{MANIFEST}{}", padded(number.0)),
            FileName::Log(number) => format!("{LOG}{}", padded(number.0)),
            FileName::Table(number) => format!("{TABLE}{}", padded(number.0)),
        }
    }

    /// Its path in directory `dir`.
    pub(crate) fn path(self, dir: &Path) -> PathBuf {
        dir.join(self.name())
    }

    /// The number in the name, if it has one.
    pub(crate) fn number(self) -> Option<FileNumber> {
        match self {
            FileName::Current
            | FileName::CurrentUnfinished
            | FileName::Lock
            | FileName::Ballast => None,
            FileName::Manifest(number) | FileName::Log(number) => Some(number),
            FileName::Table(number) => Some(FileNumber(number.0)),
        }
    }
}

/// The files of a database that lie in `dir`, sorted.
pub(crate) fn list(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<FileName>> {
    let names = vfs.list(dir);
    let names = names.map_err(|source| Error::io(dir, "list the directory", source))?;
    let files = names
        .iter()
        .filter_map(|name| FileName::parse(name.to_str()?));
    let mut files: Vec<FileName> = files.collect();
    files.sort_unstable();
    Ok(files)
}

/// Gives out the numbers of new files. All code that makes files shares one.
#[derive(Debug)]
pub(crate) struct FileNumbers(AtomicU64);

impl FileNumbers {
    /// Gives out `next` first.
    pub(crate) fn new(next: FileNumber) -> FileNumbers {
        FileNumbers(AtomicU64::new(next.0))
    }

    /// A number that no file has had.
    pub(crate) fn take(&self) -> FileNumber {
        FileNumber(self.0.fetch_add(1, Ordering::Relaxed))
    }

    /// A number above all numbers that were given out.
    pub(crate) fn next(&self) -> FileNumber {
        FileNumber(self.0.load(Ordering::Relaxed))
    }

    /// Notes that number `used` is in use.
    pub(crate) fn skip(&self, used: FileNumber) {
        let next = used.0.saturating_add(1);
        self.0.fetch_max(next, Ordering::Relaxed);
    }
}

fn padded(number: u64) -> String {
    format!("{number:06}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_what_it_was_written_for() {
        for file in [
            FileName::Current,
            FileName::CurrentUnfinished,
            FileName::Lock,
            FileName::Ballast,
            FileName::Manifest(FileNumber(7)),
            FileName::Log(FileNumber(0)),
            FileName::Table(TableId(1_000_000)),
            FileName::Table(TableId(NUMBER_MAX)),
        ] {
            assert_eq!(FileName::parse(&file.name()), Some(file));
        }
        assert_eq!(FileName::Log(FileNumber(12)).name(), "LOG-000012");
    }

    #[test]
    fn numbers_are_given_out_once() {
        let numbers = FileNumbers::new(FileNumber(5));
        numbers.skip(FileNumber(3));
        assert_eq!(
            (numbers.take(), numbers.take()),
            (FileNumber(5), FileNumber(6))
        );
        numbers.skip(FileNumber(9));
        assert_eq!(
            (numbers.next(), numbers.take()),
            (FileNumber(10), FileNumber(10))
        );
    }

    #[test]
    fn other_names_are_of_no_file() {
        for name in [
            "",
            "LOG-",
            "LOG-12",
            "LOG-0000012",
            "LOG-+00012",
            "LOG-99999999999999999999",
            "TABLE-00001x",
            "COMMIT-LOG",
            "000000000000000c.sst",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }
}
