//! What some stores can do beyond puts, gets and scans: counters, sorted ingest, records that expire.
//!
//! A store is opened for one of these ([`Opener::open_for`](crate::opener::Opener::open_for)), and then lends it:
//! ```text
//!   Purpose::Counters --> Store::counters      --> CountingStore::add
//!   Purpose::Ingest   --> Store::sorted_ingest --> IngestingStore::ingest
//!   Purpose::Expiry   --> Store::expiring      --> ExpiringStore::put_expiring
//! ```
//! Which calls of its own a store makes for that is in the head of its adapter. Thread safety: as [`crate::store`].
//! What is not here: experiments, which check what the stores say ([`crate::experiments`]).

use crate::store::{Store, StoreError, StoreResult};

/// Bytes of a counter: a `u64`, little-endian.
pub const COUNTER_BYTES: usize = 8;

/// A store with counters. A counter is a value like others: gets and scans lend [`COUNTER_BYTES`] bytes of it.
pub trait CountingStore {
    /// Adds to a counter; one that is not there begins at zero. Other threads may add to it at the same time, and
    /// nothing of that is lost.
    ///
    /// # Errors
    /// The store's own.
    fn add(&self, key: &[u8], addend: u64) -> StoreResult<()>;

    /// What an addition is, in few words, for the report.
    fn adds_by(&self) -> &'static str;
}

/// The number that a counter's value says.
#[must_use]
pub fn counter_of(value: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(value.try_into().ok()?))
}

/// Hands out records in ascending order of their keys: fills both, or says that there is none left.
pub type SortedRecords<'a> = dyn FnMut(&mut Vec<u8>, &mut Vec<u8>) -> bool + 'a;

/// A store that takes sorted records all at once.
pub trait IngestingStore {
    /// Takes all records, each key once. On return they are seen, and survive power loss.
    ///
    /// # Errors
    /// The store's own.
    fn ingest(&self, records: &mut SortedRecords<'_>) -> StoreResult<()>;
}

/// A store whose records expire after the time to live for which it was opened.
pub trait ExpiringStore {
    /// Sets a key, for the time to live from now on.
    ///
    /// # Errors
    /// The store's own.
    fn put_expiring(&self, key: &[u8], value: &[u8]) -> StoreResult<()>;

    /// Whether gets and scans hide what has expired and is still stored.
    fn hides_expired(&self) -> bool;
}

/// What the store was to be opened for.
///
/// # Errors
/// It was not.
pub fn given<'s, T: ?Sized>(
    store: &dyn Store,
    what: Option<&'s T>,
    operation: &'static str,
) -> StoreResult<&'s T> {
    what.ok_or_else(|| StoreError::new(operation, format!("{} has none", store.name())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::put_only::PutOnlyStore;

    #[test]
    fn a_store_without_a_purpose_says_so() {
        let store = PutOnlyStore(|| Ok(()));
        let error = given(&store, store.counters(), "add").err().unwrap();
        assert_eq!(error.to_string(), "add failed: put only has none");
    }

    #[test]
    fn a_counter_has_eight_bytes() {
        assert_eq!(counter_of(&7u64.to_le_bytes()), Some(7));
        assert_eq!(counter_of(&[7]), None);
    }
}
