//! Which files of the directory are the database, from CURRENT and the manifest.

use evendb::vfs::OsVfs;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::decode::{Bytes, table_key};
use super::level::Level;
use super::log::LogReader;
use super::table::TableFile;
use super::{Error, Result};

const COMPARATOR: &[u8] = b"leveldb.BytewiseComparator";

/// The highest number of levels.
const LEVELS: usize = 7;

/// The state of a database that the manifest ends with.
#[derive(Default)]
pub struct Version {
    manifest: PathBuf,
    /// Tables by level and number.
    tables: BTreeMap<(usize, u64), Table>,
    log_number: u64,
    previous_log: u64,
    next_file: u64,
}

/// A table in the manifest: its size, and the first and the last key.
struct Table {
    bytes: u64,
    smallest: Vec<u8>,
    largest: Vec<u8>,
}

/// The name of a manifest has at most this number of bytes.
const CURRENT_BYTES_MAX: u64 = 1 << 10;

impl Version {
    /// Reads CURRENT and the manifest.
    pub fn read(directory: &Path, notes: &mut Vec<String>) -> Result<Version> {
        let current = directory.join("CURRENT");
        let mut name = Vec::new();
        OsVfs::regular_file(&current)
            .and_then(|file| file.take(CURRENT_BYTES_MAX).read_to_end(&mut name))
            .map_err(Error::io(&current))?;
        let number = name
            .strip_prefix(b"MANIFEST-")
            .and_then(|rest| rest.strip_suffix(b"\n"));
        let number = number.filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let number = number.and_then(|digits| std::str::from_utf8(digits).ok());
        let Some(number) = number else {
            return Err(Error::damaged(&current, 0, "it does not name a manifest"));
        };
        let manifest = directory.join(format!("MANIFEST-{number}"));
        let mut version = Version {
            manifest: manifest.clone(),
            ..Version::default()
        };
        let mut log = LogReader::open(&manifest)?;
        let mut edits = 0u64;
        let mut seen = Seen::default();
        while let Some((offset, edit)) = log.next()? {
            version.apply(edit, offset, &mut seen)?;
            edits += 1;
        }
        log.check_end(true, notes)?;
        if edits == 0 || !seen.has_comparator || !seen.has_log || !seen.has_next_file {
            return Err(Error::damaged(
                &manifest,
                0,
                "it does not say all that is needed",
            ));
        }
        version.check_unnamed(directory)?;
        Ok(version)
    }

    fn apply(&mut self, edit: &[u8], offset: u64, seen: &mut Seen) -> Result<()> {
        let path = self.manifest.clone();
        let mut left = Bytes(edit);
        while !left.0.is_empty() {
            self.apply_one(&mut left, seen).ok_or_else(|| {
                Error::damaged(&path, offset, "an edit is not as LevelDB writes it")
            })?;
            if let Some(comparator) = &seen.other_comparator {
                let what = format!(
                    "the database's keys are in the order of the comparator `{comparator}`; only LevelDB's usual one, \
                     byte by byte, is read"
                );
                return Err(Error::unsupported(&path, what));
            }
        }
        Ok(())
    }

    /// Applies one part of an edit. `None` if the bytes are no part of an edit.
    fn apply_one(&mut self, left: &mut Bytes<'_>, seen: &mut Seen) -> Option<()> {
        match left.varint32()? {
            1 => {
                let name = left.text()?;
                seen.has_comparator = true;
                if name != COMPARATOR {
                    seen.other_comparator = Some(String::from_utf8_lossy(name).into_owned());
                }
            }
            2 => (self.log_number, seen.has_log) = (left.varint()?, true),
            3 => (self.next_file, seen.has_next_file) = (left.varint()?, true),
            // The last sequence number. The entries have it themselves.
            4 => {
                left.varint()?;
            }
            // Where a compaction goes on.
            5 => {
                level(left)?;
                left.text()?;
            }
            6 => {
                let place = (level(left)?, left.varint()?);
                self.tables.remove(&place)?;
            }
            7 => {
                let place = (level(left)?, left.varint()?);
                let table = Table {
                    bytes: left.varint()?,
                    smallest: left.text()?.to_vec(),
                    largest: left.text()?.to_vec(),
                };
                table_key(&table.smallest)?;
                table_key(&table.largest)?;
                self.tables.insert(place, table);
            }
            9 => self.previous_log = left.varint()?,
            _ => return None,
        }
        Some(())
    }

    /// The tables of level 0, each alone since they overlap, and the tables of each other level as
    /// one sequence.
    pub fn levels(&self, directory: &Path) -> Result<Vec<Level>> {
        let mut levels: BTreeMap<usize, Vec<TableFile>> = BTreeMap::new();
        let mut found = Vec::new();
        for (&(level, number), table) in &self.tables {
            let file = TableFile {
                path: self.table_path(directory, number, table.bytes)?,
                bytes: table.bytes,
                smallest: table.smallest.clone(),
                largest: table.largest.clone(),
            };
            match level {
                0 => found.push(Level::new(vec![file])?),
                _ => levels.entry(level).or_default().push(file),
            }
        }
        for files in levels.into_values() {
            found.push(Level::new(files)?);
        }
        Ok(found)
    }

    fn table_path(&self, directory: &Path, number: u64, bytes: u64) -> Result<PathBuf> {
        for extension in ["ldb", "sst"] {
            let path = directory.join(format!("{number:06}.{extension}"));
            match fs::metadata(&path) {
                Ok(metadata) if metadata.len() == bytes => return Ok(path),
                Ok(metadata) => {
                    let found = metadata.len();
                    let what =
                        format!("the table has {found} bytes, and the manifest says {bytes}");
                    return Err(Error::damaged(&path, found.min(bytes), what));
                }
                Err(_) => {}
            }
        }
        let what = format!("the table {number:06}.ldb is missing");
        Err(Error::damaged(&self.manifest, 0, what))
    }

    /// The numbers of the logs whose records are in no table, the oldest first.
    pub fn live_logs(&self, directory: &Path) -> Result<Vec<u64>> {
        let live = |number: &u64| *number >= self.log_number || *number == self.previous_log;
        let numbers = numbered(directory, &["log"])?;
        Ok(numbers.into_iter().filter(live).collect())
    }

    /// Refuses a table that is newer than all tables in the manifest. Either the manifest is cut,
    /// or LevelDB ended before it could add the table, and removes or adds it at the next opening.
    /// Nobody can tell from outside what the table holds.
    fn check_unnamed(&self, directory: &Path) -> Result<()> {
        let unnamed = numbered(directory, &["ldb", "sst"])?;
        match unnamed.range(self.next_file..).next() {
            None => Ok(()),
            Some(number) => {
                let what = format!(
                    "it does not name the table {number:06}.ldb, which is newer than all that it names: open and close \
                     the database once by LevelDB, if it was not closed properly; else the manifest is damaged"
                );
                Err(Error::damaged(&self.manifest, 0, what))
            }
        }
    }
}

/// The content of a manifest up to here.
#[derive(Default)]
struct Seen {
    has_comparator: bool,
    has_log: bool,
    has_next_file: bool,
    other_comparator: Option<String>,
}

fn level(left: &mut Bytes<'_>) -> Option<usize> {
    left.varint32().filter(|&level| level < LEVELS)
}

/// The numbers of the files with these extensions.
fn numbered(directory: &Path, extensions: &[&str]) -> Result<BTreeSet<u64>> {
    let mut numbers = BTreeSet::new();
    for entry in fs::read_dir(directory).map_err(Error::io(directory))? {
        let name = entry.map_err(Error::io(directory))?.file_name();
        let parts = name.to_str().and_then(|name| name.split_once('.'));
        if let Some((number, extension)) = parts
            && extensions.contains(&extension)
            && let Ok(number) = number.parse()
        {
            numbers.insert(number);
        }
    }
    Ok(numbers)
}
