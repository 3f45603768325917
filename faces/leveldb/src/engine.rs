//! What the interface needs from an engine, and the one place that names the engines.
//!
//! An engine is opened, repaired and destroyed by its directory, which shows which engine made the
//! database. An open engine is used through [`Engine`], by any number of threads. Its errors are
//! LevelDB's.

use crate::error::Result;
use crate::opening::{engine_of, refuse_leveldb};
use crate::options::Options;
use crate::{evendb_engine, flsm_engine, repair};
use evendb::EngineKind;
use std::path::Path;
use std::sync::Arc;

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
pub(crate) trait Engine: Send + Sync {
    /// Lends the newest value of `key` to `found`, which is not called if there is none.
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()>;
    /// The database as it is now.
    fn moment(&self) -> Result<Arc<dyn Moment>>;
    /// Does all of `writes`, in their order, or none. With `sync` they survive power loss on
    /// return, and so do all earlier writes.
    fn write(&self, writes: &[Write<'_>], sync: bool) -> Result<()>;
    /// About how many bytes the keys from `low` to below `high` take.
    fn approximate_bytes(&self, low: &[u8], high: &[u8]) -> Result<u64>;
    /// Gives back the room that the keys from `low` to `high` do not need; `None` is the end on
    /// that side.
    fn compact(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> Result<()>;
    /// Figures, for people.
    fn account(&self) -> String;
    /// Bytes of memory that the database takes.
    fn memory_bytes(&self) -> u64;
    /// The files of sorted records.
    fn tables(&self) -> Vec<TableFile>;
    /// Closes it. Objects that still refer to it return errors from then on.
    fn close(&self);
}

/// A moment of a database. The records that it sees are kept as long as it exists.
pub(crate) trait Moment: Send + Sync {
    /// As [`Engine::get`], of this moment.
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()>;
    /// A cursor over all keys of this moment, which keeps it.
    fn cursor(&self) -> Box<dyn Cursor>;
}

/// Goes over records, upwards by `seek` and `next`, or downwards by `seek_back` and `next_back`.
/// One cursor goes only one way.
///
/// The record that it lends stays valid until its next call.
pub(crate) trait Cursor {
    /// The next record is the first whose key is `key` or above.
    fn seek(&mut self, key: &[u8]);
    /// The next record downwards is the last whose key is `key` or below.
    fn seek_back(&mut self, key: &[u8]);
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>>;
    fn next_back(&mut self) -> Result<Option<(&[u8], &[u8])>>;
}

/// Opens the database in `path` with the engine that made it, or creates it with the engine that
/// the options name.
pub(crate) fn open(path: &Path, options: &Options) -> Result<Box<dyn Engine>> {
    options.check_comparator()?;
    refuse_leveldb(path)?;
    match engine_of(path, options)? {
        EngineKind::EvenDb => evendb_engine::open(path, options),
        EngineKind::Flsm => flsm_engine::open(path, options),
    }
}

/// Removes the database in `path`.
pub(crate) fn destroy(path: &Path) -> Result<()> {
    refuse_leveldb(path)?;
    match EngineKind::of_database(path) {
        Some(EngineKind::Flsm) => flsm_engine::destroy(path),
        _ => evendb_engine::destroy(path),
    }
}

/// Saves what can be saved of the database in `path`, in its place.
pub(crate) fn repair(path: &Path) -> Result<()> {
    refuse_leveldb(path)?;
    match EngineKind::of_database(path) {
        Some(EngineKind::Flsm) => flsm_engine::repair(path),
        _ => repair::repair(path),
    }
}
