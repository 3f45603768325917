//! EvenDB as the engine behind [`crate::engine`]: LevelDB's options as EvenDB's options, and its
//! calls.
//!
//! All records are in the default keyspace. Acknowledged writes are at [`Durability::Process`], as
//! LevelDB's are: they outlive the process, and `sync` makes a write outlive power loss.

use crate::engine::{Cursor, Engine, Moment, TableFile, Write};
use crate::error::Result;
use crate::opening::{memory_budget, open_files, opening_failed};
use crate::options::{BLOCK_BYTES_DEFAULT, Options};
use evendb::{Compression, Db, Durability, Snapshot};
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs in the logs of chunks, all in one file, may overlap.
const LOG_LEVEL: usize = 0;
/// Tables of a chunk are disjoint, and nothing is below them.
const TABLE_LEVEL: usize = 6;

struct EvenDb {
    db: Db,
    path: PathBuf,
}

pub(crate) fn open(path: &Path, options: &Options) -> Result<Box<dyn Engine>> {
    let opened = evendb_options(options)?.open(path);
    let db = opened.map_err(|error| opening_failed(path, options, error))?;
    let path = path.to_owned();
    Ok(Box::new(EvenDb { db, path }))
}

pub(crate) fn destroy(path: &Path) -> Result<()> {
    Ok(evendb::destroy(path)?)
}

fn evendb_options(options: &Options) -> Result<evendb::Options> {
    let compression = match options.compresses()? {
        true => Compression::Lz4,
        false => Compression::None,
    };
    let files = open_files(options);
    let block_bytes = options.block_bytes.clamp(64, 1 << 20);
    Ok(evendb::Options::new()
        .memory_budget(memory_budget(options))
        .durability(Durability::Process)
        .create_if_missing(options.create_if_missing)
        .error_if_exists(options.error_if_exists)
        .compression(compression)
        .advanced(|advanced| {
            let mut advanced = advanced.filter_bits_per_key(options.filter_bits_per_key);
            if let Some(files) = files {
                advanced = advanced.open_files_max(files);
            }
            match block_bytes {
                BLOCK_BYTES_DEFAULT => advanced,
                bytes => advanced.block_bytes(bytes),
            }
        }))
}

impl Engine for EvenDb {
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(value) = self.db.get(key)? {
            found(&value);
        }
        Ok(())
    }

    fn moment(&self) -> Result<Arc<dyn Moment>> {
        let snapshot = self.db.snapshot()?;
        let db = self.db.clone();
        Ok(Arc::new(EvenMoment { snapshot, db }))
    }

    fn write(&self, writes: &[Write<'_>], sync: bool) -> Result<()> {
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

    fn approximate_bytes(&self, low: &[u8], high: &[u8]) -> Result<u64> {
        Ok(self.db.approximate_size(low..high)?.bytes)
    }

    fn compact(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> Result<()> {
        let low = low.map_or(Bound::Unbounded, Bound::Included);
        let high = high.map_or(Bound::Unbounded, Bound::Included);
        self.db
            .default_keyspace()
            .compact_range::<&[u8]>((low, high))?;
        Ok(())
    }

    fn account(&self) -> String {
        self.db.stats().to_string()
    }

    fn memory_bytes(&self) -> u64 {
        self.db.stats().memory.used()
    }

    fn tables(&self) -> Vec<TableFile> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let tables = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let bytes = entry.metadata().ok()?.len();
            name.ends_with(".sst").then_some(TableFile {
                level: TABLE_LEVEL,
                name,
                bytes,
            })
        });
        let mut tables: Vec<_> = tables.collect();
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

    fn close(&self) {
        // Nobody is left who could get the error. Whatever fails here, acknowledged writes are in
        // the commit log.
        let _ = self.db.clone().close();
    }
}

struct EvenMoment {
    snapshot: Snapshot,
    db: Db,
}

impl Moment for EvenMoment {
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(value) = self.snapshot.get(self.db.default_keyspace(), key)? {
            found(&value);
        }
        Ok(())
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        let keyspace = self.db.default_keyspace();
        Box::new(self.snapshot.cursor::<&[u8]>(keyspace, ..))
    }
}

impl Cursor for evendb::Cursor {
    fn seek(&mut self, key: &[u8]) {
        evendb::Cursor::seek(self, key);
    }

    fn seek_back(&mut self, key: &[u8]) {
        evendb::Cursor::seek_back(self, key);
    }

    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Ok(evendb::Cursor::next(self)?)
    }

    fn next_back(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Ok(evendb::Cursor::next_back(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evendb::vfs::{CrashMode, SimVfs};

    fn open_on(vfs: &SimVfs) -> EvenDb {
        let mut options = Options::new();
        options.create_if_missing = true;
        let options = evendb_options(&options).unwrap();
        let path = PathBuf::from("/db");
        let db = options.workers(0).vfs(Arc::new(vfs.clone())).open(&path);
        EvenDb {
            db: db.unwrap(),
            path,
        }
    }

    /// Which of the keys `a` and `b` exist after these writes and a power loss that takes
    /// everything unsynced.
    fn left_of(writes: &[(&[Write<'_>], bool)]) -> Vec<u8> {
        let vfs = SimVfs::new(1);
        let engine = open_on(&vfs);
        for (writes, sync) in writes {
            engine.write(writes, *sync).unwrap();
        }
        let engine = open_on(&vfs.crash(CrashMode::PowerLossNothing));
        let mut left = Vec::new();
        for key in [b'a', b'b'] {
            engine.get(&[key], &mut |_| left.push(key)).unwrap();
        }
        left
    }

    #[test]
    fn sync_makes_a_write_survive_power_loss_and_all_before_it() {
        let a = || [Write::Put(b"a", b"1")];
        let both = || [Write::Put(b"a", b"1"), Write::Put(b"b", b"1")];
        assert_eq!(left_of(&[(&a(), false)]), b"");
        assert_eq!(left_of(&[(&a(), true)]), b"a");
        assert_eq!(left_of(&[(&both(), false)]), b"");
        assert_eq!(left_of(&[(&both(), true)]), b"ab");
        assert_eq!(
            left_of(&[(&a(), false), (&[Write::Put(b"b", b"1")], true)]),
            b"ab"
        );
        assert_eq!(left_of(&[(&a(), false), (&[], true)]), b"a");
        assert_eq!(left_of(&[(&a(), false), (&[], false)]), b"");
        assert_eq!(
            left_of(&[(&a(), true), (&[Write::Delete(b"a")], false)]),
            b"a"
        );
        assert_eq!(
            left_of(&[(&a(), true), (&[Write::Delete(b"a")], true)]),
            b""
        );
    }
}
