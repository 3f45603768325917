//! Every store of this build, under its name in experiments, and its settings for each durability.
//! A store whose library is loaded at run time is listed even if the library is missing, and then
//! says so.

use std::path::Path;

#[cfg(any(feature = "rocksdb", feature = "fjall"))]
use evendb_lab::opener::Purpose;
use evendb_lab::opener::{Opener, Settings, Variant};
use evendb_lab::store::{Store, StoreResult};
use evendb_lab::stores::evendb::{
    EvenDbOpener, GuardsOpener, HalfMemoryOpener, LockingOpener, ValuesApartOpener,
};
use evendb_lab::stores::undone;

use crate::leveldb::{Kind, LevelDbStore};
use crate::lmdb::LmdbStore;
#[cfg(feature = "fjall")]
use crate::lsm::transactions::{TransactionalFjallStore, Transactions};
use crate::redb::RedbStore;
#[cfg(feature = "rocksdb")]
use crate::rocks::transactions::{Optimistic, Pessimistic};
#[cfg(feature = "rocksdb")]
use crate::rocks::{Kind as RocksKind, Opening, RocksStore, Tuning};
use crate::rocks_study::{self, RocksStudyStore};
#[cfg(feature = "rocksdb")]
use rocksdb::DB;
#[cfg(feature = "rocksdb")]
use std::marker::PhantomData;

/// All stores, EvenDB first.
#[must_use]
pub fn all() -> Vec<Box<dyn Opener>> {
    let mut all: Vec<Box<dyn Opener>> = vec![
        Box::new(EvenDbOpener),
        Box::new(HalfMemoryOpener),
        Box::new(LockingOpener),
        Box::new(ValuesApartOpener),
    ];
    all.extend(GuardsOpener::all());
    let others: Vec<Box<dyn Opener>> = vec![
        Box::new(Lmdb),
        Box::new(Redb),
        Box::new(LevelDb(Kind::LevelDb)),
        Box::new(LevelDb(Kind::PebblesDb)),
        Box::new(RocksStudy),
        #[cfg(feature = "rocksdb")]
        Box::new(Rocks::<DB>("rocksdb", Tuning::Default, PhantomData)),
        #[cfg(feature = "rocksdb")]
        Box::new(Rocks::<DB>("rocksdb-tuned", Tuning::Tuned, PhantomData)),
        #[cfg(feature = "rocksdb")]
        Box::new(Rocks::<DB>(
            "rocksdb-universal",
            Tuning::Universal,
            PhantomData,
        )),
        #[cfg(feature = "rocksdb")]
        Box::new(Rocks::<Optimistic>(
            "rocksdb-optimistic",
            Tuning::Tuned,
            PhantomData,
        )),
        #[cfg(feature = "rocksdb")]
        Box::new(Rocks::<Pessimistic>(
            "rocksdb-pessimistic",
            Tuning::Tuned,
            PhantomData,
        )),
        #[cfg(feature = "rocksdb")]
        Box::new(RocksBlobs),
        #[cfg(feature = "fjall")]
        Box::new(Fjall),
        #[cfg(feature = "fjall")]
        Box::new(TransactionalFjall(Transactions::Optimistic)),
        #[cfg(feature = "fjall")]
        Box::new(TransactionalFjall(Transactions::SingleWriter)),
        #[cfg(feature = "surrealkv")]
        Box::new(Surreal),
        #[cfg(feature = "bf-tree")]
        Box::new(Bf),
        #[cfg(feature = "wiredtiger")]
        Box::new(WiredTiger),
    ];
    all.extend(others);
    all.extend(undone::openers());
    all
}

struct Lmdb;

impl Opener for Lmdb {
    fn name(&self) -> &'static str {
        "lmdb"
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        Ok(Box::new(LmdbStore::open(directory, settings.durability)?))
    }
}

struct Redb;

impl Opener for Redb {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        let store = RedbStore::open(directory, settings.memory_bytes, settings.durability)?;
        Ok(Box::new(store))
    }
}

struct LevelDb(Kind);

impl Opener for LevelDb {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn unavailable(&self) -> Option<String> {
        self.0.unavailable()
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        leveldb(self.0, directory, settings, None)
    }

    fn open_variant(
        &self,
        directory: &Path,
        settings: &Settings,
        variant: Variant,
    ) -> StoreResult<Box<dyn Store>> {
        let bytes = variant.write_buffer(self.name())?;
        leveldb(self.0, directory, settings, Some(bytes))
    }
}

fn leveldb(
    kind: Kind,
    directory: &Path,
    settings: &Settings,
    write_buffer_bytes: Option<u64>,
) -> StoreResult<Box<dyn Store>> {
    let (memory_bytes, durability) = (settings.memory_bytes, settings.durability);
    let store = LevelDbStore::open(
        kind,
        directory,
        memory_bytes,
        write_buffer_bytes,
        durability,
    )?;
    Ok(Box::new(store))
}

/// RocksDB as the study of its loads had it.
struct RocksStudy;

impl Opener for RocksStudy {
    fn name(&self) -> &'static str {
        "rocksdb-study"
    }

    fn unavailable(&self) -> Option<String> {
        rocks_study::unavailable()
    }

    fn only_if_named(&self) -> bool {
        true
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        let (memory_bytes, durability) = (settings.memory_bytes, settings.durability);
        let store = RocksStudyStore::open(directory, memory_bytes, durability)?;
        Ok(Box::new(store))
    }
}

#[cfg(feature = "rocksdb")]
struct Rocks<K>(&'static str, Tuning, PhantomData<K>);

#[cfg(feature = "rocksdb")]
impl<K: RocksKind + 'static> Opener for Rocks<K> {
    fn name(&self) -> &'static str {
        self.0
    }

    fn only_if_named(&self) -> bool {
        self.has_transactions()
    }

    fn has_transactions(&self) -> bool {
        K::WORD.is_some()
    }

    fn has_range_deletions(&self) -> bool {
        K::WORD.is_none()
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        let opening = rocks_opening(directory, self.1, settings);
        Ok(Box::new(RocksStore::<K>::open(&opening)?))
    }

    fn open_variant(
        &self,
        directory: &Path,
        settings: &Settings,
        variant: Variant,
    ) -> StoreResult<Box<dyn Store>> {
        let opening = Opening {
            write_buffer_bytes: Some(variant.write_buffer(self.0)?),
            ..rocks_opening(directory, self.1, settings)
        };
        Ok(Box::new(RocksStore::<K>::open(&opening)?))
    }

    fn serves(&self, purpose: Purpose) -> bool {
        K::WORD.is_none() && !matches!(purpose, Purpose::ValuesApart(_) | Purpose::Appends)
    }

    fn measured_beside_values_apart(&self) -> bool {
        K::WORD.is_none() && self.1 == Tuning::Tuned
    }

    fn open_for(
        &self,
        directory: &Path,
        settings: &Settings,
        purpose: Purpose,
    ) -> StoreResult<Box<dyn Store>> {
        if !self.serves(purpose) {
            let message = format!("{} has no {}", self.0, purpose.name());
            return Err(evendb_lab::store::StoreError::new("open", message));
        }
        let opening = rocks_opening(directory, self.1, settings);
        Ok(Box::new(RocksStore::<DB>::open_for(&opening, purpose)?))
    }
}

#[cfg(feature = "rocksdb")]
fn rocks_opening<'a>(directory: &'a Path, tuning: Tuning, settings: &Settings) -> Opening<'a> {
    Opening {
        path: directory,
        tuning,
        memory_bytes: settings.memory_bytes,
        write_buffer_bytes: None,
        durability: settings.durability,
    }
}

/// RocksDB as tuned, with large values in blob files.
#[cfg(feature = "rocksdb")]
struct RocksBlobs;

#[cfg(feature = "rocksdb")]
impl Opener for RocksBlobs {
    fn name(&self) -> &'static str {
        "rocksdb-blobs"
    }

    fn only_if_named(&self) -> bool {
        true
    }

    fn serves(&self, purpose: Purpose) -> bool {
        matches!(purpose, Purpose::ValuesApart(_))
    }

    /// Uses the lab's default for the size from which on values lie apart.
    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        self.open_for(directory, settings, Purpose::ValuesApart(4096))
    }

    fn open_for(
        &self,
        directory: &Path,
        settings: &Settings,
        purpose: Purpose,
    ) -> StoreResult<Box<dyn Store>> {
        let opening = rocks_opening(directory, Tuning::Tuned, settings);
        Ok(Box::new(RocksStore::<DB>::open_for(&opening, purpose)?))
    }
}

#[cfg(feature = "fjall")]
struct Fjall;

#[cfg(feature = "fjall")]
impl Opener for Fjall {
    fn name(&self) -> &'static str {
        "fjall"
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        let store =
            crate::lsm::FjallStore::open(directory, settings.memory_bytes, settings.durability)?;
        Ok(Box::new(store))
    }

    fn serves(&self, purpose: Purpose) -> bool {
        purpose == Purpose::Counters
    }

    /// Counters need nothing else.
    fn open_for(
        &self,
        directory: &Path,
        settings: &Settings,
        _purpose: Purpose,
    ) -> StoreResult<Box<dyn Store>> {
        self.open(directory, settings)
    }
}

#[cfg(feature = "fjall")]
struct TransactionalFjall(Transactions);

#[cfg(feature = "fjall")]
impl Opener for TransactionalFjall {
    fn name(&self) -> &'static str {
        match self.0 {
            Transactions::Optimistic => "fjall-optimistic",
            Transactions::SingleWriter => "fjall-single-writer",
        }
    }

    fn only_if_named(&self) -> bool {
        true
    }

    fn has_transactions(&self) -> bool {
        true
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        let (memory_bytes, durability) = (settings.memory_bytes, settings.durability);
        let store = TransactionalFjallStore::open(directory, self.0, memory_bytes, durability)?;
        Ok(Box::new(store))
    }
}

#[cfg(feature = "surrealkv")]
struct Surreal;

#[cfg(feature = "surrealkv")]
impl Opener for Surreal {
    fn name(&self) -> &'static str {
        "surrealkv"
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        let (memory_bytes, durability) = (settings.memory_bytes, settings.durability);
        let store = crate::surreal::SurrealStore::open(directory, memory_bytes, durability)?;
        Ok(Box::new(store))
    }
}

#[cfg(feature = "bf-tree")]
struct Bf;

#[cfg(feature = "bf-tree")]
impl Opener for Bf {
    fn name(&self) -> &'static str {
        "bf-tree"
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        let (memory_bytes, durability) = (settings.memory_bytes, settings.durability);
        let store = crate::bftree::BfTreeStore::open(directory, memory_bytes, durability)?;
        Ok(Box::new(store))
    }
}

#[cfg(feature = "wiredtiger")]
struct WiredTiger;

#[cfg(feature = "wiredtiger")]
impl Opener for WiredTiger {
    fn name(&self) -> &'static str {
        "wiredtiger"
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        let (memory_bytes, durability) = (settings.memory_bytes, settings.durability);
        let store = crate::wiredtiger::WiredTigerStore::open(directory, memory_bytes, durability)?;
        Ok(Box::new(store))
    }
}
