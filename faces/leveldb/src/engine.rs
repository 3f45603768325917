//! The database behind the interface: LevelDB's options as EvenDB's options, and its calls.
//!
//! All records are in the default keyspace. Acknowledged writes are at [`Durability::Process`], as
//! LevelDB's are: they outlive the process, and `sync` makes a write outlive power loss. An open
//! database is used by any number of threads. Its errors are LevelDB's.

use crate::error::Result;
use crate::in_memory;
use crate::opening::{layout, memory_budget, open_files, opening_failed, refuse_leveldb};
use crate::options::{BLOCK_BYTES_DEFAULT, FILE_BYTES_DEFAULT, Options};
use crate::trace;
use evendb::vfs::{SimVfs, Vfs};
use evendb::{Compression, Cursor, Db, Durability, Trace};
use std::ffi::OsString;
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs in the logs of chunks, all in one file, may overlap.
const LOG_LEVEL: usize = 0;
/// Tables of a chunk are disjoint, and nothing is below them.
const TABLE_LEVEL: usize = 6;

/// One write of a batch.
pub(crate) enum Write<'a> {
    Put(&'a [u8], &'a [u8]),
    Delete(&'a [u8]),
}

/// A file of sorted records.
pub(crate) struct TableFile {
    /// 0 for files that may overlap; the greatest level for files with nothing below them.
    pub(crate) level: usize,
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// An open database.
pub(crate) struct Engine {
    db: Db,
    path: PathBuf,
    /// The disk that has the files, if it is in memory.
    disk: Option<SimVfs>,
    trace: Option<Trace>,
}

/// Opens the database in `path`, or creates it.
pub(crate) fn open(path: &Path, options: &Options) -> Result<Engine> {
    options.check_comparator()?;
    let mut translated = evendb_options(options)?;
    match &options.disk {
        Some(disk) => translated = translated.vfs(Arc::new(disk.clone())),
        None => refuse_leveldb(path)?,
    }
    let opened = translated.open(path);
    let db = opened.map_err(|error| opening_failed(path, options, error))?;
    Ok(Engine {
        trace: trace::start(&db, path)?,
        db,
        path: path.to_owned(),
        disk: options.disk.clone(),
    })
}

/// Removes the database in `path`.
pub(crate) fn destroy(path: &Path, options: &Options) -> Result<()> {
    if let Some(disk) = &options.disk {
        return in_memory::destroy(disk, path);
    }
    refuse_leveldb(path)?;
    Ok(evendb::destroy(path)?)
}

fn evendb_options(options: &Options) -> Result<evendb::Options> {
    let compression = match options.compresses()? {
        true => Compression::Lz4,
        false => Compression::None,
    };
    let files = open_files(options);
    let block_bytes = options.block_bytes.clamp(64, 1 << 20);
    // Limited to LevelDB's own limits.
    let file_bytes = (options.file_bytes_max as u64).clamp(1 << 20, 1 << 30);
    Ok(evendb::Options::new()
        .memory_budget(memory_budget(options))
        .durability(Durability::Process)
        .create_if_missing(options.create_if_missing)
        .error_if_exists(options.error_if_exists)
        .layout(layout(options)?)
        .compression(compression)
        .advanced(|advanced| {
            let mut advanced = advanced.filter_bits_per_key(options.filter_bits_per_key);
            if let Some(files) = files {
                advanced = advanced.open_files_max(files);
            }
            if file_bytes != FILE_BYTES_DEFAULT as u64 {
                advanced = advanced.guards(|guards| guards.table_bytes_max(file_bytes));
            }
            match block_bytes {
                BLOCK_BYTES_DEFAULT => advanced,
                bytes => advanced.block_bytes(bytes),
            }
        }))
}

/// A file of a database's directory, if it is a table.
fn table(name: OsString, bytes: u64) -> Option<TableFile> {
    let name = name.into_string().ok()?;
    name.ends_with(".sst").then_some(TableFile {
        level: TABLE_LEVEL,
        name,
        bytes,
    })
}

fn tables_on_disk(path: &Path) -> Vec<TableFile> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let tables = entries.filter_map(|entry| {
        let bytes = entry.metadata().ok()?.len();
        table(entry.file_name(), bytes)
    });
    tables.collect()
}

fn tables_in_memory(disk: &SimVfs, path: &Path) -> Vec<TableFile> {
    let Ok(dir) = disk.resolve(path) else {
        return Vec::new();
    };
    let names = disk.list(&dir).unwrap_or_default();
    let tables = names.into_iter().filter_map(|name| {
        let bytes = disk.open(&dir.join(&name), false).ok()?.len().ok()?;
        table(name, bytes)
    });
    tables.collect()
}

impl Engine {
    /// Lends the newest value of `key` to `found`, which is not called if there is none.
    pub(crate) fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(value) = self.db.get(key)? {
            found(&value);
        }
        Ok(())
    }

    /// The database as it is now.
    pub(crate) fn moment(&self) -> Result<Arc<Moment>> {
        let snapshot = self.db.snapshot()?;
        let db = self.db.clone();
        Ok(Arc::new(Moment { snapshot, db }))
    }

    /// Does all of `writes`, in their order, or none. With `sync` they survive power loss on
    /// return, and so do all earlier writes.
    pub(crate) fn write(&self, writes: &[Write<'_>], sync: bool) -> Result<()> {
        match (writes, sync) {
            ([], false) => return Ok(()),
            // LevelDB writes an empty record, and syncs it with everything before it.
            ([], true) => return Ok(self.db.persist()?),
            ([Write::Put(key, value)], false) => return Ok(self.db.put(key, value)?),
            ([Write::Delete(key)], false) => return Ok(self.db.delete(key)?),
            _ => {}
        }
        let keyspace = self.db.default_keyspace();
        let mut batch = self.db.batch();
        for write in writes {
            match write {
                Write::Put(key, value) => batch.put(keyspace, key, value),
                Write::Delete(key) => batch.delete(keyspace, key),
            };
        }
        if sync {
            batch.durability(Durability::Sync);
        }
        Ok(batch.commit()?)
    }

    /// About how many bytes the keys from `low` to below `high` take.
    pub(crate) fn approximate_bytes(&self, low: &[u8], high: &[u8]) -> Result<u64> {
        let keyspace = self.db.default_keyspace();
        Ok(keyspace.approximate_size(low..high)?.bytes)
    }

    /// Gives back the room that the keys from `low` to `high` do not need; `None` is the end on
    /// that side.
    pub(crate) fn compact(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> Result<()> {
        let low = low.map_or(Bound::Unbounded, Bound::Included);
        let high = high.map_or(Bound::Unbounded, Bound::Included);
        let keyspace = self.db.default_keyspace();
        keyspace.compact_range::<&[u8]>((low, high))?;
        Ok(())
    }

    /// Figures, for people.
    pub(crate) fn account(&self) -> String {
        self.db.stats().to_string()
    }

    /// Bytes of memory that the database takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.db.stats().memory.used()
    }

    /// The files of sorted records.
    pub(crate) fn tables(&self) -> Vec<TableFile> {
        let mut tables = match &self.disk {
            None => tables_on_disk(&self.path),
            Some(disk) => tables_in_memory(disk, &self.path),
        };
        let stats = self.db.stats();
        let in_tables: u64 = tables.iter().map(|table| table.bytes).sum();
        // The file of the chunks' logs has small tables, too.
        let bytes = (stats.log_bytes + stats.sstable_bytes).saturating_sub(in_tables);
        if bytes > 0 {
            let name = "CHUNK-LOGS".to_owned();
            tables.push(TableFile {
                level: LOG_LEVEL,
                name,
                bytes,
            });
        }
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        tables
    }

    /// Closes it. Objects that still refer to it return errors from then on.
    pub(crate) fn close(&mut self) {
        self.trace = None;
        // Nobody is left who could get the error. Whatever fails here, acknowledged writes are in
        // the commit log.
        let _ = self.db.clone().close();
    }
}

/// A moment of a database. The records that it sees are kept as long as it exists.
pub(crate) struct Moment {
    snapshot: evendb::Snapshot,
    db: Db,
}

impl Moment {
    /// As [`Engine::get`], of this moment.
    pub(crate) fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(value) = self.snapshot.get(self.db.default_keyspace(), key)? {
            found(&value);
        }
        Ok(())
    }

    /// A cursor over all keys of this moment, which keeps it.
    pub(crate) fn cursor(&self) -> Cursor {
        let keyspace = self.db.default_keyspace();
        self.snapshot.cursor::<&[u8]>(keyspace, ..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evendb::Layout;
    use evendb::vfs::{CrashMode, SimVfs};

    /// A database on simulated files.
    fn open_on(vfs: &SimVfs, layout: Layout) -> Engine {
        let mut options = Options::new();
        options.create_if_missing = true;
        let options = evendb_options(&options).unwrap().layout(layout);
        let path = PathBuf::from("/db");
        let db = options.workers(0).vfs(Arc::new(vfs.clone())).open(&path);
        Engine {
            db: db.unwrap(),
            path,
            disk: Some(vfs.clone()),
            trace: None,
        }
    }

    /// Which of the keys `a` and `b` exist after these writes and a power loss that takes
    /// everything unsynced.
    fn left_of(layout: Layout, writes: &[(&[Write<'_>], bool)]) -> Vec<u8> {
        let vfs = SimVfs::new(1);
        let engine = open_on(&vfs, layout);
        for (writes, sync) in writes {
            engine.write(writes, *sync).unwrap();
        }
        let engine = open_on(&vfs.crash(CrashMode::PowerLossNothing), layout);
        let mut left = Vec::new();
        for key in [b'a', b'b'] {
            engine.get(&[key], &mut |_| left.push(key)).unwrap();
        }
        left
    }

    #[test]
    fn sync_makes_a_write_survive_power_loss_and_all_before_it() {
        let a = || [Write::Put(b"a", b"1")];
        let b = || [Write::Put(b"b", b"1")];
        let both = || [Write::Put(b"a", b"1"), Write::Put(b"b", b"1")];
        let gone = || [Write::Delete(b"a")];
        for layout in [Layout::Chunks, Layout::Guards] {
            let left = |writes: &[(&[Write<'_>], bool)]| left_of(layout, writes);
            assert_eq!(left(&[(&a(), false)]), b"");
            assert_eq!(left(&[(&a(), true)]), b"a");
            assert_eq!(left(&[(&both(), false)]), b"");
            assert_eq!(left(&[(&both(), true)]), b"ab");
            assert_eq!(left(&[(&a(), false), (&b(), true)]), b"ab");
            assert_eq!(left(&[(&a(), false), (&[], true)]), b"a");
            assert_eq!(left(&[(&a(), false), (&[], false)]), b"");
            assert_eq!(left(&[(&a(), true), (&gone(), false)]), b"a");
            assert_eq!(left(&[(&a(), true), (&gone(), true)]), b"");
        }
    }
}
