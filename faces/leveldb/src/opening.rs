//! Opening: how LevelDB's options are translated, and refusals in LevelDB's words.

use crate::error::{Code, Error, Result};
use crate::options::{OPEN_FILES_DEFAULT, Options};
use evendb::{ErrorKind, Layout};
use rustix::fs::{Access, access};
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// Names the layout of databases that are created, if the program names none: `chunks` or `guards`.
const LAYOUT_VARIABLE: &str = "EVENDB_LEVELDB_LAYOUT";

/// Bytes of LevelDB's cache, if the program sets none.
const CACHE_BYTES_DEFAULT: u64 = 8 << 20;
/// The least memory budget. A value may take a quarter of it, and a batch keeps within it up to a
/// quarter. LevelDB has no such limit: programs write batches of some tens of MiB, which count 64
/// bytes more for each record here.
const BUDGET_BYTES_MIN: u64 = 256 << 20;
const BUDGET_BYTES_MAX: u64 = 16 << 40;
const OPEN_FILES_MIN: u64 = 16;

/// The layout of a new database, which the program or the environment names.
pub(crate) fn layout(options: &Options) -> Result<Layout> {
    let asked = options.layout.clone();
    let asked = asked.or_else(|| std::env::var(LAYOUT_VARIABLE).ok());
    match asked.filter(|name| !name.is_empty()) {
        Some(name) => Ok(name.parse()?),
        None => Ok(Layout::default()),
    }
}

/// The cache, and two write buffers: one that is written to, and one on its way to the disk.
pub(crate) fn memory_budget(options: &Options) -> u64 {
    let buffers = (options.write_buffer_bytes as u64).saturating_mul(2);
    let cache = options.cache_bytes.map(|bytes| bytes as u64);
    cache
        .unwrap_or(CACHE_BYTES_DEFAULT)
        .saturating_add(buffers)
        .clamp(BUDGET_BYTES_MIN, BUDGET_BYTES_MAX)
}

/// How many tables may be open. LevelDB's default becomes EvenDB's own default, which is
/// `None`: LevelDB's number was chosen for tables of other sizes, and a closed table costs a read
/// of the disk when it is needed.
pub(crate) fn open_files(options: &Options) -> Option<u64> {
    if options.open_files_max == OPEN_FILES_DEFAULT {
        return None;
    }
    let files = u64::try_from(options.open_files_max).unwrap_or(0);
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 2;
    Some(files.max(OPEN_FILES_MIN).min(limit.max(1)))
}

/// Refuses a directory that LevelDB or a store derived from it made. Their `CURRENT` names a
/// manifest as text. Without `CURRENT` the names of tables and logs tell. Nothing is touched.
pub(crate) fn refuse_leveldb(path: &Path) -> Result<()> {
    let mut begins = [0; 9];
    let current = fs::File::open(path.join("CURRENT"));
    let is_leveldbs = match current.and_then(|mut current| current.read_exact(&mut begins)) {
        Ok(()) => begins == *b"MANIFEST-",
        Err(error) if error.kind() == io::ErrorKind::NotFound => has_files_of_leveldb(path),
        // EvenDB says what is wrong with it.
        Err(_) => false,
    };
    if !is_leveldbs {
        return Ok(());
    }
    let message = format!(
        "{}: the files are those of LevelDB itself (or RocksDB), which are not read here, and nothing was changed; \
         `evendb import NEW {}` brings the records of a LevelDB database over",
        path.display(),
        path.display()
    );
    Err(Error::new(Code::NotSupported, message))
}

/// Whether a file has the name of one of LevelDB's tables or logs: a number in digits, and a suffix
/// for the kind.
fn has_files_of_leveldb(path: &Path) -> bool {
    let names = fs::read_dir(path).into_iter().flatten().flatten();
    names.map(|entry| entry.file_name()).any(|name| {
        let name = name.to_string_lossy();
        let number = [".ldb", ".log"]
            .iter()
            .find_map(|end| name.strip_suffix(end));
        number
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// The error, in LevelDB's words where programs look for them.
pub(crate) fn opening_failed(path: &Path, options: &Options, error: evendb::Error) -> Error {
    let name = path.display();
    match error.kind() {
        // LevelDB reports this first, because it locks before it looks.
        ErrorKind::NotFound if path.is_dir() && access(path, Access::WRITE_OK).is_err() => {
            Error::new(Code::Io, format!("{name}/LOCK: Permission denied"))
        }
        ErrorKind::NotFound => {
            let message = format!("{name}: does not exist (create_if_missing is false): {error}");
            Error::new(Code::InvalidArgument, message)
        }
        ErrorKind::AlreadyExists if options.error_if_exists => {
            let message = format!("{name}: exists (error_if_exists is true): {error}");
            Error::new(Code::InvalidArgument, message)
        }
        ErrorKind::Locked => Error::new(Code::Io, format!("lock {name}/LOCK: {error}")),
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_of_open_files_is_evendbs_own_and_other_numbers_are_taken() {
        let mut options = Options::new();
        assert_eq!(open_files(&options), None);
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 2;
        for (given, taken) in [(-1, 16), (0, 16), (17, 17), (999, 999), (1001, 1001)] {
            options.open_files_max = given;
            assert_eq!(open_files(&options), Some(taken.min(limit)), "{given}");
        }
        options.open_files_max = i32::MAX;
        assert_eq!(open_files(&options), Some(limit.min(i32::MAX as u64)));
    }
}
