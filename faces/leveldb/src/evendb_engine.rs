//! EvenDB as the engine behind [`crate::engine`]: LevelDB's options as EvenDB's options, and its
//! calls.
//!
//! All records are in the default keyspace. Acknowledged writes are at [`Durability::Process`], as
//! LevelDB's are: they outlive the process, and `sync` makes a write outlive power loss.

use crate::engine::{Cursor, Engine, Moment, TableFile, Write, moments, same_calls};
use crate::error::Result;
use crate::opening::{memory_budget, open_files, opening_failed};
use crate::options::{BLOCK_BYTES_DEFAULT, Options};
use evendb::{Compression, Db, Durability};
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
    same_calls!(evendb);

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
}

moments!(evendb);

/// A database on simulated files.
#[cfg(test)]
pub(crate) fn open_on(vfs: &evendb::vfs::SimVfs) -> Box<dyn Engine> {
    let mut options = Options::new();
    options.create_if_missing = true;
    let options = evendb_options(&options).unwrap();
    let path = PathBuf::from("/db");
    let db = options.workers(0).vfs(Arc::new(vfs.clone())).open(&path);
    let db = db.unwrap();
    Box::new(EvenDb { db, path })
}
