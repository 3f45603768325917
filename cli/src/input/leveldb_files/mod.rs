//! Reads the records of a LevelDB database from LevelDB's own files, without LevelDB.
//!
//! Contract:
//! * It reads the newest value of each key, in the order of keys, without deleted ones. That is
//!   what an iterator of LevelDB shows of the database as it was closed, or as the end of its
//!   process left it.
//! * Nothing in the directory is changed. During the reading, LevelDB's lock is held, shared, if
//!   there is a file LOCK. So no process opens the database with LevelDB meanwhile, and it is an
//!   error if one has it open.
//! * The files may hold any bytes: damage is an [`Error`] that names file and offset, and never a
//!   panic or a wrong record. Every checksum is compared. An interrupted write leaves a cut record
//!   at the end of the last log; it is left out, as LevelDB does, and noted.
//! * Memory: the records of the live logs, at most [`LOGS_BYTES_MAX`]; for each table of level 0,
//!   and for one table of each other level, its index and one block.
//! * Only the usual order of keys, byte by byte, is read. Blocks may be plain, or packed by Snappy
//!   or Zstandard.
//!
//! ```text
//! CURRENT           "MANIFEST-NNNNNN\n"
//! MANIFEST-NNNNNN   a log of edits: which tables are at which level, and the first live log
//! NNNNNN.log        a log of batches of puts and deletions, which are in no table yet
//! NNNNNN.ldb, .sst  a table: sorted blocks of entries, an index of them, a footer
//! ```
//! An entry's key is the user's key and eight bytes: a sequence number of 56 bits, and whether it
//! puts or deletes. Among entries with the same user's key the highest number counts, and they are
//! sorted so that it comes first.

mod decode;
mod level;
mod log;
mod manifest;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
#[path = "../../../tests/common/leveldb_writer.rs"]
mod writer;

use evendb::vfs::OsVfs;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use self::decode::Entry;
use self::level::Level;
use self::log::LogReader;
use self::manifest::Version;
use crate::failure::Failure;
use crate::foreign::{self, Foreign};

/// The highest number of bytes that the records of all live logs may take in memory.
const LOGS_BYTES_MAX: u64 = 1 << 30;

/// What to do about a file that is damaged.
const REPAIR: &str =
    "LevelDB's own RepairDB saves what can be saved; import the database after that";

/// Why a LevelDB database is not read.
#[derive(Debug)]
pub enum Error {
    /// The system refused a file.
    Io { path: PathBuf, error: io::Error },
    /// Bytes are not as LevelDB writes them.
    Damaged {
        path: PathBuf,
        offset: u64,
        what: String,
    },
    /// The database is sound, as far as it was read, and of a kind that is not read here.
    Unsupported { path: PathBuf, what: String },
    /// Another process has it open.
    Locked(PathBuf),
}

/// The result of a reading.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn damaged(path: &Path, offset: u64, what: impl Into<String>) -> Error {
        Error::Damaged {
            path: path.to_owned(),
            offset,
            what: what.into(),
        }
    }

    fn unsupported(path: &Path, what: impl Into<String>) -> Error {
        Error::Unsupported {
            path: path.to_owned(),
            what: what.into(),
        }
    }

    /// An error of a file, for `map_err`.
    fn io(path: &Path) -> impl Fn(io::Error) -> Error {
        move |error| Error::Io {
            path: path.to_owned(),
            error,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, error } => write!(to, "cannot read {}: {error}", path.display()),
            Error::Damaged { path, offset, what } => write!(
                to,
                "the LevelDB database is damaged: {}, offset {offset}: {what}. {REPAIR}",
                path.display()
            ),
            Error::Unsupported { path, what } => write!(to, "{}: {what}", path.display()),
            Error::Locked(path) => write!(
                to,
                "another process has the LevelDB database {} open; it can be read when that process has closed it",
                path.display()
            ),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let text = error.to_string();
        match error {
            Error::Damaged { .. } => Failure::Corrupt(text),
            Error::Locked(_) => Failure::Locked(text),
            Error::Io { .. } | Error::Unsupported { .. } => Failure::Message(text),
        }
    }
}

/// Whether the directory holds a LevelDB database.
pub fn is_leveldb(directory: &Path) -> bool {
    foreign::of(directory) == Some(Foreign::LevelDb)
}

/// Where entries come from, in the order of their keys.
enum Source {
    Logs(std::vec::IntoIter<Entry>),
    Level(Box<Level>),
}

impl Source {
    fn next(&mut self) -> Result<Option<Entry>> {
        match self {
            Source::Logs(entries) => Ok(entries.next()),
            Source::Level(level) => level.next(),
        }
    }
}

/// The next entry of a source.
struct Next {
    entry: Entry,
    source: usize,
}

impl Ord for Next {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_key = self.entry.cmp_key(&other.entry);
        by_key.then(self.source.cmp(&other.source))
    }
}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Next {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Next {}

/// Reads the records of a database in the order of their keys.
pub struct Reader {
    sources: Vec<Source>,
    heap: BinaryHeap<Reverse<Next>>,
    last_key: Option<Vec<u8>>,
    value: Vec<u8>,
    notes: Vec<String>,
    /// Keeps LevelDB out.
    _lock: Option<File>,
}

impl Reader {
    /// Opens a database.
    pub fn open(directory: &Path) -> Result<Reader> {
        let lock = lock(directory)?;
        let mut notes = Vec::new();
        let version = Version::read(directory, &mut notes)?;
        let mut sources = Vec::new();
        for level in version.levels(directory)? {
            sources.push(Source::Level(Box::new(level)));
        }
        let logs = read_logs(directory, &version, &mut notes)?;
        sources.push(Source::Logs(logs.into_iter()));
        let mut reader = Reader {
            sources,
            heap: BinaryHeap::new(),
            last_key: None,
            value: Vec::new(),
            notes,
            _lock: lock,
        };
        for source in 0..reader.sources.len() {
            reader.advance(source)?;
        }
        Ok(reader)
    }

    /// What the user should know.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Goes to the next record; `false` at the end.
    pub fn next(&mut self) -> Result<bool> {
        while let Some(Reverse(Next { entry, source })) = self.heap.pop() {
            self.advance(source)?;
            if self.last_key.as_deref() == Some(&entry.key[..]) {
                continue;
            }
            self.last_key = Some(entry.key);
            if let Some(value) = entry.value {
                self.value = value;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The key of the record.
    pub fn key(&self) -> &[u8] {
        self.last_key.as_deref().unwrap_or_default()
    }

    /// Its value.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    fn advance(&mut self, source: usize) -> Result<()> {
        if let Some(entry) = self.sources[source].next()? {
            self.heap.push(Reverse(Next { entry, source }));
        }
        Ok(())
    }
}

/// Takes LevelDB's lock, shared, if there is one.
fn lock(directory: &Path) -> Result<Option<File>> {
    let path = directory.join("LOCK");
    let file = match OsVfs::regular_file(&path) {
        Ok(file) => file,
        // A copy may lack the file, and the reader of a copy may lack the right to read it.
        Err(_) => return Ok(None),
    };
    match rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
            Err(Error::Locked(directory.to_owned()))
        }
        // Not every file system has locks.
        _ => Ok(Some(file)),
    }
}

/// The newest entries of the live logs, by their keys.
fn read_logs(directory: &Path, version: &Version, notes: &mut Vec<String>) -> Result<Vec<Entry>> {
    let mut newest: BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)> = BTreeMap::new();
    let mut bytes = 0;
    let numbers = version.live_logs(directory)?;
    for (index, &number) in numbers.iter().enumerate() {
        let path = directory.join(format!("{number:06}.log"));
        let mut log = LogReader::open(&path)?;
        while let Some((offset, batch)) = log.next()? {
            decode::batch(&path, offset, batch, |entry| {
                bytes += (entry.key.len() + entry.value.as_ref().map_or(0, Vec::len) + 64) as u64;
                let Entry {
                    key,
                    sequence,
                    value,
                } = entry;
                let place = newest.entry(key).or_insert((sequence, None));
                if sequence >= place.0 {
                    *place = (sequence, value);
                }
            })?;
            if bytes > LOGS_BYTES_MAX {
                let what = "the logs hold more than 1 GiB of records; LevelDB makes tables of them when it opens the \
                            database: open and close it once by LevelDB";
                return Err(Error::unsupported(directory, what));
            }
        }
        log.check_end(index + 1 == numbers.len(), notes)?;
    }
    let entry = |(key, (sequence, value))| Entry {
        key,
        sequence,
        value,
    };
    Ok(newest.into_iter().map(entry).collect())
}
