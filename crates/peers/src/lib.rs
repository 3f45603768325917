//! Other stores under the lab's trait, so that one driver measures them beside EvenDB.
//!
//! | feature | store | settings |
//! |---|---|---|
//! | always | LMDB | [`lmdb::LmdbStore`]: written through a map, never synced |
//! | `rocksdb` | RocksDB | [`rocks::Tuning`]: as it comes, and tuned |
//! | `fjall` | fjall | [`lsm::FjallStore`]: as it comes |
//!
//! All keep to the durability of EvenDB's default put: an acknowledged put survives the process,
//! not the machine (write-ahead log on, never synced). Nothing is compressed.

pub mod lmdb;
pub mod lmdb_parts;
#[cfg(feature = "fjall")]
pub mod lsm;
pub mod openers;
#[cfg(feature = "rocksdb")]
pub mod rocks;
pub mod table;

use evendb_lab::store::StoreError;

/// Wraps a store's error for the lab.
fn failed<E: std::error::Error + Send + Sync + 'static>(
    operation: &'static str,
) -> impl FnOnce(E) -> StoreError {
    move |error| StoreError::new(operation, error)
}
