//! Other stores under the lab's trait, so that one driver measures them beside EvenDB.
//!
//! | feature | store | settings |
//! |---|---|---|
//! | always | LMDB | [`lmdb::LmdbStore`]: defaults |
//! | always | redb | [`redb::RedbStore`]: defaults |
//! | always, loaded at run time | LevelDB, PebblesDB | [`leveldb::LevelDbStore`]: tuned |
//! | always, loaded at run time | RocksDB | [`rocks_study::RocksStudyStore`]: as the study had it |
//! | `rocksdb` | RocksDB | `rocks::Tuning`: defaults, and tuned |
//! | `fjall` | fjall | `lsm::FjallStore`: defaults |
//! | `surrealkv` | surrealkv | `surreal::SurrealStore`: tuned |
//! | `bf-tree` | bf-tree | `bftree::BfTreeStore`: tuned |
//! | `wiredtiger` | WiredTiger | `wiredtiger::WiredTigerStore`: tuned |
//!
//! [`redb_comparison`] is no store of the lab: it is EvenDB as redb's own program asks for a store.
//!
//! Tuned means: for the memory. Experiments ask for a level of durability; the head of each adapter
//! says what that is for its store. Nothing is compressed.

#[cfg(feature = "bf-tree")]
pub mod bftree;
pub mod conformance;
pub mod conformance_command;
pub mod leveldb;
pub mod lmdb;
mod loaded;
#[cfg(feature = "fjall")]
pub mod lsm;
pub mod openers;
pub mod redb;
pub mod redb_comparison;
mod rest;
#[cfg(feature = "rocksdb")]
pub mod rocks;
pub mod rocks_study;
#[cfg(feature = "surrealkv")]
pub mod surreal;
#[cfg(feature = "wiredtiger")]
pub mod wiredtiger;
pub mod wrong;

use evendb_lab::store::StoreError;

/// Wraps a store's error for the lab.
fn failed<E: std::error::Error + Send + Sync + 'static>(
    operation: &'static str,
) -> impl FnOnce(E) -> StoreError {
    move |error| StoreError::new(operation, error)
}
