//! Databases of other stores, if a command is given one: it names the store, and says how to bring
//! the records in. Otherwise they would be called damaged, for they have files of the same names.

use evendb::maker;
use evendb::vfs::OsVfs;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::ArgMatches;

use crate::failure::Failure;

/// Another store's database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    LevelDb,
    RocksDb,
}

/// The store whose database the directory holds, if it is not ours. Reads the file CURRENT and the
/// names of files.
pub fn of(directory: &Path) -> Option<Foreign> {
    let mut first = Vec::new();
    let current = OsVfs::regular_file(&directory.join("CURRENT")).ok()?;
    current.take(64).read_to_end(&mut first).ok()?;
    // The content is the name of the manifest; ours has other bytes.
    let digits = first.strip_prefix(b"MANIFEST-")?.trim_ascii_end();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let is_of_rocksdb = |name: &str| name == "IDENTITY" || name.starts_with("OPTIONS-");
    let mut names = fs::read_dir(directory).ok()?.flatten();
    match names.any(|entry| entry.file_name().to_str().is_some_and(is_of_rocksdb)) {
        true => Some(Foreign::RocksDb),
        false => Some(Foreign::LevelDb),
    }
}

/// What the directory is, and how its records are brought in.
pub fn named(directory: &Path, foreign: Foreign) -> String {
    let place = directory.display();
    match foreign {
        Foreign::LevelDb => format!(
            "{place} is a LevelDB database; `evendb import DB {place}` brings its records into a database DB of EvenDB"
        ),
        Foreign::RocksDb => format!(
            "{place} is a RocksDB database; RocksDB's own tool prints its records, and they are brought into a \
             database DB of EvenDB by `ldb --db={place} dump --hex | evendb import DB - --format ldb-hex` (each other \
             column family by --column_family=NAME of ldb and --keyspace NAME of evendb)"
        ),
    }
}

/// Refuses a database of another store, or of the second engine of earlier releases. This holds for
/// every command.
pub fn refuse(matches: &ArgMatches) -> Result<(), Failure> {
    let mut matches = matches;
    loop {
        if let Ok(Some(path)) = matches.try_get_one::<PathBuf>("db") {
            if let Some(foreign) = of(path) {
                return Err(Failure::Message(named(path, foreign)));
            }
            maker::check(&OsVfs, path)?;
        }
        match matches.subcommand() {
            Some((_, inner)) => matches = inner,
            None => return Ok(()),
        }
    }
}
