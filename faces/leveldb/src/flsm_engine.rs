//! EvenDB's second engine, a fragmented log-structured merge tree, as the engine behind
//! [`crate::engine`]: LevelDB's options as its options, and its calls.
//!
//! As with the first engine, all records are in the default keyspace, and acknowledged writes are
//! at [`Durability::Process`].

use crate::engine::{Cursor, Engine, Moment, TableFile, Write};
use crate::error::{Code, Error, Result};
use crate::opening::{cache_bytes, memory_budget, open_files, opening_failed};
use crate::options::{BLOCK_BYTES_DEFAULT, FILE_BYTES_DEFAULT, Options};
use evendb_flsm::inspect::{self, Finding, InspectOptions, Severity};
use evendb_flsm::{Compression, Db, Durability, Snapshot};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

const FILTER_BITS_MAX: u32 = 40;

struct Flsm {
    db: Db,
}

pub(crate) fn open(path: &Path, options: &Options) -> Result<Box<dyn Engine>> {
    let opened = flsm_options(options)?.open(path);
    let db = opened.map_err(|error| opening_failed(path, options, error))?;
    Ok(Box::new(Flsm { db }))
}

pub(crate) fn destroy(path: &Path) -> Result<()> {
    Ok(evendb_flsm::destroy(path)?)
}

/// A sound database needs nothing. This engine cannot save anything from a damaged one.
pub(crate) fn repair(path: &Path) -> Result<()> {
    let report = inspect::verify(path, InspectOptions::new())?;
    let is_damage = |finding: &&Finding| finding.severity == Severity::Corruption;
    match report.findings.iter().find(is_damage) {
        None => Ok(()),
        Some(damage) => {
            let message = format!(
                "{}: the engine flsm repairs nothing, and nothing was changed; what is damaged: {damage}",
                path.display()
            );
            Err(Error::new(Code::NotSupported, message))
        }
    }
}

fn flsm_options(options: &Options) -> Result<evendb_flsm::Options> {
    let compression = match options.compresses()? {
        true => Compression::Lz4,
        false => Compression::None,
    };
    let (cache, filter_bits) = (cache_bytes(options), options.filter_bits_per_key);
    let write_buffer = (options.write_buffer_bytes as u64).clamp(4 << 10, 1 << 30);
    Ok(evendb_flsm::Options::new()
        .memory_budget(memory_budget(options))
        .durability(Durability::Process)
        .create_if_missing(options.create_if_missing)
        .error_if_exists(options.error_if_exists)
        .advanced(|advanced| {
            let mut advanced = advanced
                .compression(compression)
                .cache_bytes(cache)
                .filter_bits_per_key(filter_bits.min(FILTER_BITS_MAX))
                .write_buffer_bytes(write_buffer);
            if let Some(files) = open_files(options) {
                advanced = advanced.open_files_max(files);
            }
            let advanced = match options.block_bytes {
                BLOCK_BYTES_DEFAULT => advanced,
                bytes => advanced.block_bytes(bytes.clamp(64, 1 << 20)),
            };
            match options.file_bytes_max {
                FILE_BYTES_DEFAULT => advanced,
                // Limited to LevelDB's own limits.
                bytes => advanced.table_bytes_max((bytes as u64).clamp(1 << 20, 1 << 30)),
            }
        }))
}

impl Engine for Flsm {
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(value) = self.db.get(key)? {
            found(&value);
        }
        Ok(())
    }

    fn moment(&self) -> Result<Arc<dyn Moment>> {
        let snapshot = self.db.snapshot()?;
        let db = self.db.clone();
        Ok(Arc::new(FlsmMoment { snapshot, db }))
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
        let keyspace = self.db.default_keyspace();
        Ok(keyspace.approximate_size(low..high)?.bytes)
    }

    fn compact(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> Result<()> {
        let low = low.map_or(Bound::Unbounded, Bound::Included);
        let high = high.map_or(Bound::Unbounded, Bound::Included);
        let keyspace = self.db.default_keyspace();
        keyspace.compact_range::<&[u8]>((low, high))?;
        Ok(())
    }

    fn account(&self) -> String {
        self.db.stats().to_string()
    }

    fn memory_bytes(&self) -> u64 {
        let stats = self.db.stats();
        stats.memory_bytes + stats.cache_bytes + stats.table_bytes
    }

    fn tables(&self) -> Vec<TableFile> {
        let tables = self.db.tables().into_iter();
        let tables = tables.map(|table| TableFile {
            level: table.level,
            name: table.file,
            bytes: table.bytes,
        });
        tables.collect()
    }

    fn close(&self) {
        // Nobody is left who could get the error. Whatever fails here, acknowledged writes are in
        // the log.
        let _ = self.db.clone().close();
    }
}

struct FlsmMoment {
    snapshot: Snapshot,
    db: Db,
}

impl Moment for FlsmMoment {
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

impl Cursor for evendb_flsm::Cursor {
    fn seek(&mut self, key: &[u8]) {
        evendb_flsm::Cursor::seek(self, key);
    }

    fn seek_back(&mut self, key: &[u8]) {
        evendb_flsm::Cursor::seek_back(self, key);
    }

    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Ok(evendb_flsm::Cursor::next(self)?)
    }

    fn next_back(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Ok(evendb_flsm::Cursor::next_back(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evendb_flsm::vfs::{CrashMode, SimVfs};

    fn open_on(vfs: &SimVfs) -> Flsm {
        let mut options = Options::new();
        options.create_if_missing = true;
        let options = flsm_options(&options).unwrap();
        let db = options.vfs(Arc::new(vfs.clone())).open("/db");
        Flsm { db: db.unwrap() }
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
        assert_eq!(left_of(&[(&both(), true)]), b"ab");
        assert_eq!(
            left_of(&[(&a(), false), (&[Write::Put(b"b", b"1")], true)]),
            b"ab"
        );
        assert_eq!(left_of(&[(&a(), false), (&[], true)]), b"a");
        assert_eq!(
            left_of(&[(&a(), true), (&[Write::Delete(b"a")], true)]),
            b""
        );
    }
}
