//! What some stores can do beyond puts, gets and scans: counters, sorted ingest, records that
//! expire.
//!
//! A store is opened for one of these ([`Opener::open_for`](crate::opener::Opener::open_for)), and
//! then lends it:
//! ```text
//!   Purpose::Counters --> Store::counters      --> CountingStore::add
//!   Purpose::Ingest   --> Store::sorted_ingest --> IngestingStore::ingest
//!   Purpose::Expiry   --> Store::expiring      --> ExpiringStore::put_expiring
//!   Purpose::Appends  --> Store::appending     --> AppendingStore::append
//!   (always)          --> Store::both_ends     --> BothEndsStore::scan_back, pop
//! ```
//! The head of each adapter says which calls of its store it makes for that. Thread safety: as
//! [`crate::store`]. Not here: experiments, which check what the stores say
//! ([`crate::experiments`]).

use crate::store::{Store, StoreError, StoreResult};

/// Bytes of a counter: a `u64`, little-endian.
pub const COUNTER_BYTES: usize = 8;

/// A store with counters. A counter is a value like others: gets and scans lend its
/// [`COUNTER_BYTES`] bytes.
pub trait CountingStore {
    /// Adds to a counter. A missing counter begins at zero. Other threads may add to it at the same
    /// time, and every addition counts.
    ///
    /// # Errors
    /// The store's own.
    fn add(&self, key: &[u8], addend: u64) -> StoreResult<()>;

    /// How it adds, in few words, for the report.
    fn adds_by(&self) -> &'static str;
}

/// A store that appends to values without reading them first.
pub trait AppendingStore {
    /// Appends the operand to the value of a key. A missing value begins as an empty one.
    ///
    /// # Errors
    /// The store's own.
    fn append(&self, key: &[u8], operand: &[u8]) -> StoreResult<()>;
}

/// An end of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeEnd {
    /// The end with the least key.
    First,
    /// The end with the greatest key.
    Last,
}

/// A store that reads and takes from both ends of a range. A range goes from a key to below another
/// key, or to the last key of all.
pub trait BothEndsStore: Store {
    /// Lends up to `limit` records of the range, the greatest key first, to `each`, until it
    /// returns `false`. Returns how many were lent.
    ///
    /// # Errors
    /// The store's own.
    fn scan_back(
        &self,
        range: (&[u8], Option<&[u8]>),
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize>;

    /// Removes the record at an end of the range, and lends its value to `taken`; false if there is
    /// none. A store without such a call reads and deletes, and another thread may come in between.
    ///
    /// # Errors
    /// The store's own.
    fn pop(
        &self,
        range: (&[u8], Option<&[u8]>),
        end: RangeEnd,
        taken: &mut dyn FnMut(&[u8]),
    ) -> StoreResult<bool> {
        let mut found = None;
        let mut take = |key: &[u8], value: &[u8]| {
            if range.1.is_none_or(|high| key < high) {
                found = Some(key.to_vec());
                taken(value);
            }
            false
        };
        match end {
            RangeEnd::First => self.scan(range.0, 1, &mut take)?,
            RangeEnd::Last => self.scan_back(range, 1, &mut take)?,
        };
        let Some(key) = found else { return Ok(false) };
        self.delete(&key)?;
        Ok(true)
    }
}

/// The number in a counter's value.
#[must_use]
pub fn counter_of(value: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(value.try_into().ok()?))
}

/// Hands out records in ascending order of their keys: fills key and value, or returns false if no
/// record is left.
pub type SortedRecords<'a> = dyn FnMut(&mut Vec<u8>, &mut Vec<u8>) -> bool + 'a;

/// A store that takes sorted records all at once.
pub trait IngestingStore {
    /// Takes all records, each key once. On return they are visible, and survive power loss.
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

    /// Whether gets and scans hide expired records that are still stored.
    fn hides_expired(&self) -> bool;
}

/// The part of a store for which it was opened.
///
/// # Errors
/// It was opened for something else.
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
