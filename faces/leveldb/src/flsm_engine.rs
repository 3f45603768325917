//! EvenDB's second engine, a fragmented log-structured merge tree, as the engine behind
//! [`crate::engine`]: LevelDB's options as its options, and its calls.
//!
//! As with the first engine, all records are in the default keyspace, and acknowledged writes are
//! at [`Durability::Process`].

use crate::engine::{Cursor, Engine, Moment, TableFile, Write, moments, same_calls};
use crate::error::{Code, Error, Result};
use crate::opening::{cache_bytes, memory_budget, open_files, opening_failed};
use crate::options::{BLOCK_BYTES_DEFAULT, FILE_BYTES_DEFAULT, Options};
use evendb_flsm::inspect::{self, Finding, InspectOptions, Severity};
use evendb_flsm::{Compression, Db, Durability};
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
    same_calls!(evendb_flsm);

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
}

moments!(evendb_flsm);

/// A database on simulated files.
#[cfg(test)]
pub(crate) fn open_on(vfs: &evendb_flsm::vfs::SimVfs) -> Box<dyn Engine> {
    let mut options = Options::new();
    options.create_if_missing = true;
    let options = flsm_options(&options).unwrap();
    let db = options.vfs(Arc::new(vfs.clone())).open("/db");
    Box::new(Flsm { db: db.unwrap() })
}
