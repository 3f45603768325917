//! What the interface needs from an engine, the calls that both engines have in common, and the one
//! place that names the engines.
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

/// The calls of [`Engine`] that have the same names in both engines. The engine's type has a field
/// `db`, and its file has [`moments!`].
macro_rules! same_calls {
    ($engine:ident) => {
        fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()> {
            if let Some(value) = self.db.get(key)? {
                found(&value);
            }
            Ok(())
        }

        fn moment(&self) -> Result<Arc<dyn Moment>> {
            let snapshot = self.db.snapshot()?;
            let db = self.db.clone();
            Ok(Arc::new(At { snapshot, db }))
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
                batch.durability($engine::Durability::Sync);
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

        fn close(&self) {
            // Nobody is left who could get the error. Whatever fails here, acknowledged writes are
            // in the engine's log.
            let _ = self.db.clone().close();
        }
    };
}
pub(crate) use same_calls;

/// A moment of an engine, and its cursors.
macro_rules! moments {
    ($engine:ident) => {
        struct At {
            snapshot: $engine::Snapshot,
            db: $engine::Db,
        }

        impl Moment for At {
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

        impl Cursor for $engine::Cursor {
            fn seek(&mut self, key: &[u8]) {
                $engine::Cursor::seek(self, key);
            }

            fn seek_back(&mut self, key: &[u8]) {
                $engine::Cursor::seek_back(self, key);
            }

            fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
                Ok($engine::Cursor::next(self)?)
            }

            fn next_back(&mut self) -> Result<Option<(&[u8], &[u8])>> {
                Ok($engine::Cursor::next_back(self)?)
            }
        }
    };
}
pub(crate) use moments;

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

#[cfg(test)]
mod tests {
    use super::*;
    use evendb::vfs::{CrashMode, SimVfs};

    /// Which of the keys `a` and `b` exist after these writes and a power loss that takes
    /// everything unsynced.
    fn left_of(
        open_on: fn(&SimVfs) -> Box<dyn Engine>,
        writes: &[(&[Write<'_>], bool)],
    ) -> Vec<u8> {
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
        let b = || [Write::Put(b"b", b"1")];
        let both = || [Write::Put(b"a", b"1"), Write::Put(b"b", b"1")];
        let gone = || [Write::Delete(b"a")];
        for open_on in [evendb_engine::open_on, flsm_engine::open_on] {
            let left = |writes: &[(&[Write<'_>], bool)]| left_of(open_on, writes);
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
