//! A keyspace as files, for another database: sorted tables, and a list of them that is written
//! last.
//!
//! ```text
//! export/
//!   000001.table 000002.table ...    each key once, ascending over all tables;
//!                                    table formats of docs/format.md, ids 1, 2, ...
//!   PROPERTIES                       properties of the keyspace, if it has any
//!   EXPORT-LIST                      names, lengths, checksums; with it the export is whole
//! ```
//! The records are the records of one moment, without expired ones; records that expire later keep
//! their times. An import is an ingest ([`crate::Keyspace::ingest`]): the tables are written again,
//! once, because a table's id is part of the checksums of its blocks, and ids belong to one
//! database. The keyspace's options are not part of an export. Its properties are
//! ([`exported_properties`]), and an import leaves it to its caller to set them: they may
//! contradict the keys that are already there.
//!
//! Thread safety: any number at once. Not here: how a table is shown ([`crate::ingest`]).

use super::list::{BackupList, FileSum, ListedFile};
use super::seconds_now;
use crate::api::keyspace::Keyspace;
use crate::api::property::TOTAL_BYTES_MAX as PROPERTY_BYTES_MAX;
use crate::copy::{PIECE_BYTES, failed};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::IngestSummary;
use crate::op;
use crate::options::{OPTION_PREFIX, Options};
use crate::read::get;
use crate::sync::Arc;
use evendb_base::made_dirs::MadeDirs;
use evendb_base::placement;
use evendb_storage::codec::{get_slice, put_slice};
use evendb_storage::table::{Table, TableCursor, TableOptions, TableWriter};
use evendb_storage::vfs::{OsVfs, Vfs, WriteBehind, read_exact_at, write_beside};
use evendb_storage::{EntryRef, Error as StorageError, Kind, TableId, Time, Version};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

const LIST: &str = "EXPORT-LIST";
const LIST_UNFINISHED: &str = "EXPORT-LIST.tmp";
const PROPERTIES: &str = "PROPERTIES";
/// The approximate bytes of keys and values in a table.
const TABLE_DATA_BYTES: u64 = 8 << 20;
/// The number of blocks that an import reads at a time.
const READ_AHEAD_BLOCKS: usize = 64;

/// The result of [`Keyspace::export`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportSummary {
    /// Records.
    pub records: u64,
    /// Bytes of their keys and values.
    pub data_bytes: u64,
    /// Tables.
    pub tables: u64,
    /// Bytes of these tables.
    pub table_bytes: u64,
}

impl Keyspace {
    /// Writes the records of this moment to files in directory `dir`, which is empty or does not
    /// exist, for [`import`](Self::import) by another database. On return they survive power loss.
    /// Values that expire keep their times; a value into which operands were merged since has none,
    /// because operands do not expire.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let one = evendb::Db::open(dir.path().join("one"))?;
    /// one.put("key", "value")?;
    /// one.default_keyspace().export(dir.path().join("files"))?;
    ///
    /// let other = evendb::Db::open(dir.path().join("other"))?;
    /// other.keyspace("imported")?.import(dir.path().join("files"))?;
    /// assert_eq!(other.keyspace("imported")?.get("key")?.unwrap(), "value");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `AlreadyExists` if `dir` is not empty; `InvalidArgument` if it lies inside a database's
    /// directory or a directory with backups; `NoSpace` and `Io`, after which the written files are
    /// removed; and the errors of [`get`](Self::get).
    pub fn export(&self, dir: impl AsRef<Path>) -> Result<ExportSummary> {
        let export = || self.export_to(dir.as_ref());
        self.recording().other("export", export)
    }

    fn export_to(&self, dir: &Path) -> Result<ExportSummary> {
        let dir = std::path::absolute(dir).map_err(failed(dir, "resolve the path"))?;
        let engine = &self.handle.engine;
        let core = &engine.core;
        let export = Export {
            vfs: plain_files(engine),
            dir,
        };
        let mut writer = ExportWriter::begin(export, core.table_options(self.state.id))?;
        let mut cursor = self.cursor::<&[u8]>(..);
        for (name, value) in self.state.properties.lock().iter() {
            if !name.starts_with(OPTION_PREFIX) {
                writer.property(name, value);
            }
        }
        let moment = cursor.moment();
        // Asked when the moment exists: see `ExpiryClock::note_use`.
        let moment = moment.filter(|_| core.clock.expiry.is_in_use());
        while let Some((key, value)) = cursor.next()? {
            let expires = match &moment {
                Some(moment) => get::expiry_of(engine, &self.state, key, moment.point())?,
                None => None,
            };
            writer.add(key, value, expires)?;
        }
        writer.finish()
    }

    /// Ingests the records that [`export`](Self::export) has written: all at once, and newer than
    /// the records of the keyspace. The keyspace keeps its own properties; [`exported_properties`]
    /// returns the properties of the export.
    ///
    /// # Errors
    /// `NotFound` if there is no export, `Corruption` with the file if it is damaged, and the
    /// errors of [`ingest`](Self::ingest). Nothing was ingested then.
    pub fn import(&self, dir: impl AsRef<Path>) -> Result<IngestSummary> {
        let import = || self.import_from(dir.as_ref());
        self.recording().other("import", import)
    }

    fn import_from(&self, dir: &Path) -> Result<IngestSummary> {
        let export = Export {
            vfs: plain_files(&self.handle.engine),
            dir: dir.to_owned(),
        };
        let list = export.read_list()?;
        let mut ingest = self.begin_ingest()?;
        let tables = list.files().filter(|file| file.name != PROPERTIES);
        for (index, file) in tables.enumerate() {
            let mut cursor = TableCursor::new(export.open(index, &file)?, READ_AHEAD_BLOCKS);
            cursor.seek_first()?;
            while cursor.valid() {
                let entry = cursor.entry();
                let prefix_bytes = match entry.kind {
                    kind @ (Kind::Put | Kind::PutUntil) => kind.prefix_bytes(),
                    _ => {
                        let what = "a record of an export that is no put";
                        return Err(
                            StorageError::unsupported(&export.dir.join(&file.name), what).into(),
                        );
                    }
                };
                ingest.put_until(entry.key, &entry.value[prefix_bytes..], entry.expires())?;
                cursor.next()?;
            }
        }
        ingest.finish()
    }
}

/// The properties of the keyspace that was exported to directory `dir`, without its options; see
/// [`Keyspace::set_property`].
///
/// # Errors
/// `NotFound` if there is no export, `Corruption` with the file if it is damaged; `Io`.
pub fn exported_properties(dir: impl AsRef<Path>) -> Result<BTreeMap<String, Vec<u8>>> {
    let export = Export {
        vfs: Arc::new(OsVfs),
        dir: dir.as_ref().to_owned(),
    };
    let list = export.read_list()?;
    let properties = list.files().find(|file| file.name == PROPERTIES);
    match properties {
        Some(file) => export.read_properties(&file),
        None => Ok(BTreeMap::new()),
    }
}

pub(crate) fn decode_properties(mut input: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut properties = BTreeMap::new();
    while !input.is_empty() {
        let name = String::from_utf8(get_slice(&mut input)?.to_vec()).ok()?;
        properties.insert(name, get_slice(&mut input)?.to_vec());
    }
    Some(properties)
}

fn unsorted(last: &[u8], key: &[u8]) -> Error {
    let message = format!(
        "the key b\"{}\" comes after b\"{}\": what is exported must be in ascending order, each key once",
        key.escape_ascii(),
        last.escape_ascii()
    );
    Error::new(ErrorKind::Unsorted, message)
}

/// An export is not encrypted, even of an encrypted database: it is to be read elsewhere.
fn plain_files(engine: &Engine) -> Arc<dyn Vfs> {
    engine.core.options.vfs.clone()
}

/// A record of an export; `stored` is for a value with its time.
fn entry_of<'a>(
    key: &'a [u8],
    value: &'a [u8],
    expires: Option<Time>,
    stored: &'a mut Vec<u8>,
) -> EntryRef<'a> {
    let (kind, value) = match expires {
        None => (Kind::Put, value),
        Some(time) => {
            stored.clear();
            stored.extend_from_slice(&time.0.to_le_bytes());
            stored.extend_from_slice(value);
            (Kind::PutUntil, &stored[..])
        }
    };
    let version = Version::ZERO;
    EntryRef {
        key,
        version,
        kind,
        value,
    }
}

/// Writes records from any source as an export, for [`Keyspace::import`]. Dropped before it is
/// finished, it leaves the directory as it was: missing, or empty.
///
/// ```
/// # fn main() -> evendb::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let mut export = evendb::ExportWriter::create(dir.path().join("files"))?;
/// export.put("a", "1")?;
/// export.put("b", "2")?;
/// assert_eq!(export.finish()?.records, 2);
///
/// let db = evendb::Db::open(dir.path().join("db"))?;
/// db.default_keyspace().import(dir.path().join("files"))?;
/// assert_eq!(db.get("b")?.unwrap(), "2");
/// # Ok(())
/// # }
/// ```
#[must_use = "an export that is not finished is removed"]
pub struct ExportWriter {
    export: Export,
    options: TableOptions,
    files: Vec<ListedFile>,
    open: Option<TableWriter<Vec<u8>>>,
    /// Bytes of keys and values in the open table.
    open_bytes: u64,
    last_key: Option<Vec<u8>>,
    /// Properties in their written form.
    properties: Vec<u8>,
    made: MadeDirs,
    /// The current value with its time.
    stored: Vec<u8>,
    summary: ExportSummary,
    is_finished: bool,
}

impl ExportWriter {
    /// Begins an export into directory `dir`, which is empty or does not exist.
    ///
    /// # Errors
    /// `AlreadyExists` if `dir` is not empty; `InvalidArgument` if it lies inside a database's
    /// directory or a directory with backups; `Io`, `NoSpace`.
    pub fn create(dir: impl AsRef<Path>) -> Result<ExportWriter> {
        let dir = dir.as_ref();
        let export = Export {
            vfs: Arc::new(OsVfs),
            dir: std::path::absolute(dir).map_err(failed(dir, "resolve the path"))?,
        };
        ExportWriter::begin(export, Options::new().table_options())
    }

    fn begin(export: Export, options: TableOptions) -> Result<ExportWriter> {
        let made = export.make_directory()?;
        Ok(ExportWriter {
            made,
            properties: Vec::new(),
            export,
            options,
            files: Vec::new(),
            open: None,
            open_bytes: 0,
            last_key: None,
            stored: Vec::new(),
            summary: ExportSummary::default(),
            is_finished: false,
        })
    }

    /// Adds a record, whose key is greater than the one before.
    ///
    /// # Errors
    /// `Unsorted` if it is not; `KeyTooLarge` and `ValueTooLarge` as for a put; `Io`, `NoSpace`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        if let Some(last) = &self.last_key
            && *last.as_slice() >= *key
        {
            return Err(unsorted(last, key));
        }
        op::check_limits(key, value)?;
        self.add(key, value, None)?;
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        Ok(())
    }

    fn property(&mut self, name: &str, value: &[u8]) {
        put_slice(&mut self.properties, name.as_bytes());
        put_slice(&mut self.properties, value);
    }

    fn add(&mut self, key: &[u8], value: &[u8], expires: Option<Time>) -> Result<()> {
        if self.open_bytes >= TABLE_DATA_BYTES {
            self.end_table()?;
        }
        let id = TableId(self.files.len() as u64 + 1);
        let new = || TableWriter::new(Vec::new(), id, self.options);
        let writer = self.open.get_or_insert_with(new);
        writer.add(entry_of(key, value, expires, &mut self.stored))?;
        self.open_bytes += (key.len() + value.len()) as u64;
        self.summary.records += 1;
        Ok(())
    }

    fn end_table(&mut self) -> Result<()> {
        let Some(writer) = self.open.take() else {
            return Ok(());
        };
        let (table, meta) = writer.finish()?;
        self.summary.data_bytes += std::mem::take(&mut self.open_bytes);
        self.summary.table_bytes += meta.len;
        let number = self.files.len() as u64 + 1;
        let name = format!("{number:06}.table");
        let file = self.export.write_file(name, &table, Some(meta.checksum))?;
        self.files.push(file);
        Ok(())
    }

    /// Ends the export: on return it survives power loss. Each table is synced, then the list; then
    /// the list appears, and all names are synced.
    ///
    /// # Errors
    /// `Io`, `NoSpace`. The written files are removed then.
    pub fn finish(mut self) -> Result<ExportSummary> {
        self.end_table()?;
        self.summary.tables = self.files.len() as u64;
        let (seconds, mut files) = (seconds_now(), std::mem::take(&mut self.files));
        if !self.properties.is_empty() {
            let name = PROPERTIES.to_owned();
            files.push(self.export.write_file(name, &self.properties, None)?);
        }
        self.export.write_list(&BackupList::new(seconds, &files))?;
        self.is_finished = true;
        Ok(self.summary)
    }
}

impl Drop for ExportWriter {
    fn drop(&mut self) {
        if !self.is_finished {
            self.export.discard();
            self.made.undo(&*self.export.vfs);
        }
    }
}

/// The largest number of bytes of properties in an export: each property has its lengths in
/// addition to the bytes that a keyspace may have.
const PROPERTIES_BYTES_MAX: u64 = 4 * PROPERTY_BYTES_MAX as u64;

/// A directory with exported files.
struct Export {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
}

impl Export {
    fn make_directory(&self) -> Result<MadeDirs> {
        let (vfs, dir) = (&self.vfs, &self.dir);
        placement::refuse_inside(&**vfs, dir, "an export")?;
        let names = match vfs.list(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            listed => listed.map_err(failed(dir, "list the target"))?,
        };
        if !names.is_empty() {
            let message = format!(
                "cannot export to {}: it is not empty; give a directory that does not exist or is empty",
                dir.display()
            );
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        let made = MadeDirs::make(&**vfs, dir);
        made.map_err(failed(dir, "create a directory"))
    }

    /// Writes a file; `table` is its own checksum if it is a table.
    fn write_file(&self, name: String, bytes: &[u8], table: Option<u32>) -> Result<ListedFile> {
        let path = self.dir.join(&name);
        let file = self.vfs.create(&path);
        let file = file.map_err(failed(&path, "create an exported file"))?;
        let mut behind = WriteBehind::default();
        let mut sum = FileSum::default();
        let mut at = 0;
        for piece in bytes.chunks(PIECE_BYTES as usize) {
            let written = behind.write_at(&*file, piece, at);
            written.map_err(failed(&path, "write an exported file"))?;
            sum.add(piece);
            at += piece.len() as u64;
        }
        let synced = file.sync_data();
        synced.map_err(failed(&path, "sync an exported file"))?;
        Ok(ListedFile {
            name,
            len: bytes.len() as u64,
            checksum: sum.0,
            table,
            shared: false,
            verified: true,
        })
    }

    fn write_list(&self, list: &BackupList) -> Result<()> {
        let (temporary, path) = (self.dir.join(LIST_UNFINISHED), self.dir.join(LIST));
        let written = write_beside(&*self.vfs, &temporary, &list.encode());
        written.map_err(failed(&temporary, "write the list of an export"))?;
        let renamed = self.vfs.rename(&temporary, &path);
        renamed.map_err(failed(&path, "rename the list of an export"))?;
        let synced = self.vfs.sync_dir(&self.dir);
        synced.map_err(failed(&self.dir, "sync the directory of an export"))
    }

    fn read_list(&self) -> Result<BackupList> {
        let path = self.dir.join(LIST);
        let file = self.vfs.open(&path, false).map_err(|source| {
            let message = format!("{} holds no export: {source}", self.dir.display());
            match source.kind() {
                io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, message),
                _ => failed(&path, "open the list of an export")(source),
            }
        })?;
        BackupList::read(&*file, &path)
    }

    fn read_properties(&self, listed: &ListedFile) -> Result<BTreeMap<String, Vec<u8>>> {
        let path = self.dir.join(&listed.name);
        let file = self.vfs.open(&path, false);
        let file = file.map_err(|source| StorageError::open(&path, "open", source))?;
        let what = "not the properties that the list of the export names";
        let refused = || StorageError::corruption(&path, 0, what);
        let len = file.len().map_err(failed(&path, "ask for the length of"))?;
        if len != listed.len || len > PROPERTIES_BYTES_MAX {
            return Err(refused().into());
        }
        let mut bytes = vec![0; len as usize];
        read_exact_at(&*file, &mut bytes, 0).map_err(failed(&path, "read the file"))?;
        let mut sum = FileSum::default();
        for piece in bytes.chunks(PIECE_BYTES as usize) {
            sum.add(piece);
        }
        let properties = match sum.0 == listed.checksum {
            true => decode_properties(&bytes),
            false => None,
        };
        properties.ok_or_else(|| refused().into())
    }

    /// Opens a table, which must be the one of the list; its blocks are verified when they are
    /// read.
    fn open(&self, index: usize, file: &ListedFile) -> Result<Arc<Table>> {
        let path = self.dir.join(&file.name);
        let opened = self.vfs.open(&path, false);
        let opened = opened.map_err(|source| StorageError::open(&path, "open", source))?;
        let len = opened
            .len()
            .map_err(failed(&path, "ask for the length of"))?;
        let table = Table::open(opened, 0, len, TableId(index as u64 + 1))?;
        if Some(table.meta().checksum) != file.table {
            let what = "not the table that the list of the export names";
            return Err(StorageError::corruption(&path, 0, what).into());
        }
        Ok(Arc::new(table))
    }

    /// Removes the written files: the directory was empty before.
    fn discard(&self) {
        let Ok(names) = self.vfs.list(&self.dir) else {
            return;
        };
        for name in names {
            let _ = self.vfs.remove(&self.dir.join(name));
        }
    }
}
