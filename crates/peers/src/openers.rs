//! Every store of this build under the name by which experiments choose it, and its settings for
//! each durability.

use std::path::Path;

use evendb_lab::opener::{Durability, Opener, Settings};
use evendb_lab::store::{Store, StoreError, StoreResult};
use evendb_lab::stores::evendb::EvenDbOpener;

use crate::lmdb::LmdbStore;

/// All of them, EvenDB first.
#[must_use]
pub fn all() -> Vec<Box<dyn Opener>> {
    vec![
        Box::new(EvenDbOpener),
        Box::new(Lmdb),
        #[cfg(feature = "rocksdb")]
        Box::new(Rocks),
        #[cfg(feature = "rocksdb")]
        Box::new(RocksTuned),
        #[cfg(feature = "fjall")]
        Box::new(Fjall),
    ]
}

/// The level that all adapters know.
fn only_process(settings: &Settings) -> StoreResult<()> {
    match settings.durability {
        Durability::Process => Ok(()),
        other => Err(StoreError::new(
            "open",
            format!("no {} level", other.name()),
        )),
    }
}

struct Lmdb;

impl Opener for Lmdb {
    fn name(&self) -> &'static str {
        "lmdb"
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        only_process(settings)?;
        Ok(Box::new(LmdbStore::open(directory)?))
    }
}

#[cfg(feature = "rocksdb")]
struct Rocks;

#[cfg(feature = "rocksdb")]
impl Opener for Rocks {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        open_rocks(directory, settings, crate::rocks::Tuning::Default)
    }
}

#[cfg(feature = "rocksdb")]
struct RocksTuned;

#[cfg(feature = "rocksdb")]
impl Opener for RocksTuned {
    fn name(&self) -> &'static str {
        "rocksdb-tuned"
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        open_rocks(directory, settings, crate::rocks::Tuning::Tuned)
    }
}

#[cfg(feature = "rocksdb")]
fn open_rocks(
    directory: &Path,
    settings: &Settings,
    tuning: crate::rocks::Tuning,
) -> StoreResult<Box<dyn Store>> {
    only_process(settings)?;
    let store = crate::rocks::RocksStore::open(directory, tuning, settings.memory_bytes)?;
    Ok(Box::new(store))
}

#[cfg(feature = "fjall")]
struct Fjall;

#[cfg(feature = "fjall")]
impl Opener for Fjall {
    fn name(&self) -> &'static str {
        "fjall"
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        only_process(settings)?;
        let store = crate::lsm::FjallStore::open(directory, settings.memory_bytes)?;
        Ok(Box::new(store))
    }
}
