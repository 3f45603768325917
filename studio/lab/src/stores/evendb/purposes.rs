//! EvenDB opened for a purpose.
//!
//! * counters: the default keyspace has the operator `Merges::AddU64`, which also takes values that
//!   are no counters. The call is `Db::merge`.
//! * sorted ingest: no option. The calls are `Keyspace::begin_ingest`, `Ingest::put` for each
//!   record, `Ingest::finish`.
//! * values apart: `Advanced::values_apart_from`, and the usual calls.
//! * appends: the default keyspace has the operator `Merges::Append`, or that of a program
//!   ([`MergingOpener`](super::MergingOpener)). The call is `Db::merge`.
//! * expiry: a clock with the speed of the lifetime. The call is `Keyspace::put_with_ttl`.
//! * no purpose, both ends: no option. The calls are `Cursor::next_back`,
//!   `Keyspace::pop_first_range` and `Keyspace::pop_last_range`.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use evendb::{KeyspaceOptions, MergeError, MergeOperator, Merges, Options, WallClock};

use super::EvenDbStore;
use crate::opener::{Lifetime, Purpose};
use crate::purposes::{
    AppendingStore, BothEndsStore, CountingStore, ExpiringStore, IngestingStore, RangeEnd,
    SortedRecords,
};
use crate::store::{StoreError, StoreResult};

/// `Merges::AddU64` under the same name. It also takes puts of values that are no counters: a
/// replay puts the records of all keyspaces of a trace into one.
struct Adds;

impl MergeOperator for Adds {
    fn name(&self) -> &str {
        Merges::AddU64.name()
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        Merges::AddU64.full_merge(key, existing, operands)
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        Merges::AddU64.partial_merge(key, operands)
    }
}

/// A time of day that begins at a fixed time and runs faster than the real one. Puts that expire
/// look at it: a look costs hardly more than one at the system's clock.
#[derive(Debug)]
struct FastClock {
    started: Instant,
    /// The speed, multiplied by 2^20.
    speed: u128,
}

/// The beginning of the clock: any time except the earliest possible one.
const BEGIN: Duration = Duration::from_secs(1_700_000_000);

impl WallClock for FastClock {
    fn now(&self) -> SystemTime {
        let nanos = (self.started.elapsed().as_nanos() * self.speed) >> 20;
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        SystemTime::UNIX_EPOCH + BEGIN + Duration::from_nanos(nanos)
    }
}

pub(super) fn open(
    directory: &Path,
    options: Options,
    purpose: Purpose,
) -> StoreResult<EvenDbStore> {
    let (options, description) = match purpose {
        Purpose::Counters | Purpose::Appends | Purpose::Ingest => (options, ""),
        Purpose::ValuesApart(from) => {
            let from = u32::try_from(from).unwrap_or(u32::MAX);
            let apart = options.advanced(|advanced| advanced.values_apart_from(Some(from)));
            (apart, "values apart")
        }
        Purpose::Expiry(lifetime) => (options.advanced(|all| all.wall_clock(clock(lifetime))), ""),
    };
    let store = EvenDbStore::open(directory, options, description)?;
    let options = KeyspaceOptions::new();
    let options = match purpose {
        Purpose::Counters => Some(options.merge_operator(Adds)),
        Purpose::Appends => Some(options.merge_operator(Merges::Append)),
        _ => None,
    };
    if let Some(options) = options {
        set(&store, &options)?;
    }
    Ok(EvenDbStore {
        purpose: Some(purpose),
        ..store
    })
}

/// Opens it for appends, whose operands are merged by this operator.
pub(super) fn open_merging(
    directory: &Path,
    options: Options,
    operator: impl MergeOperator + 'static,
) -> StoreResult<EvenDbStore> {
    let store = EvenDbStore::open(directory, options, operator.name())?;
    set(&store, &KeyspaceOptions::new().merge_operator(operator))?;
    Ok(EvenDbStore {
        purpose: Some(Purpose::Appends),
        ..store
    })
}

fn set(store: &EvenDbStore, options: &KeyspaceOptions) -> StoreResult<()> {
    let keyspace = store.database.default_keyspace();
    keyspace
        .set_options(options)
        .map_err(|error| StoreError::new("open", error))
}

fn clock(lifetime: Lifetime) -> Arc<FastClock> {
    Arc::new(FastClock {
        started: Instant::now(),
        speed: (lifetime.speed * f64::from(1 << 20)) as u128,
    })
}

pub(super) fn counters(store: &EvenDbStore) -> Option<&dyn CountingStore> {
    (store.purpose == Some(Purpose::Counters)).then_some(store)
}

pub(super) fn appending(store: &EvenDbStore) -> Option<&dyn AppendingStore> {
    (store.purpose == Some(Purpose::Appends)).then_some(store)
}

pub(super) fn sorted_ingest(store: &EvenDbStore) -> Option<&dyn IngestingStore> {
    (store.purpose == Some(Purpose::Ingest)).then_some(store)
}

pub(super) fn expiring(store: &EvenDbStore) -> Option<&dyn ExpiringStore> {
    matches!(store.purpose, Some(Purpose::Expiry(_))).then_some(store)
}

impl CountingStore for EvenDbStore {
    fn add(&self, key: &[u8], addend: u64) -> StoreResult<()> {
        self.database
            .merge(key, addend.to_le_bytes())
            .map_err(|error| StoreError::new("add", error))
    }

    fn adds_by(&self) -> &'static str {
        "merge"
    }
}

impl AppendingStore for EvenDbStore {
    fn append(&self, key: &[u8], operand: &[u8]) -> StoreResult<()> {
        self.database
            .merge(key, operand)
            .map_err(|error| StoreError::new("append", error))
    }
}

/// A range in the form that the engine takes.
pub(in crate::stores) fn bounds<'k>(
    (low, high): (&'k [u8], Option<&'k [u8]>),
) -> (Bound<&'k [u8]>, Bound<&'k [u8]>) {
    let end = high.map_or(Bound::Unbounded, Bound::Excluded);
    (Bound::Included(low), end)
}

impl BothEndsStore for EvenDbStore {
    fn scan_back(
        &self,
        range: (&[u8], Option<&[u8]>),
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        let cursor = self.database.cursor::<&[u8]>(bounds(range));
        let mut cursor = cursor.limit_hint(limit as u64);
        lend!("scan_back": cursor.next_back(), limit, each)
    }

    fn pop(
        &self,
        range: (&[u8], Option<&[u8]>),
        end: RangeEnd,
        taken: &mut dyn FnMut(&[u8]),
    ) -> StoreResult<bool> {
        let keyspace = self.database.default_keyspace();
        let popped = match end {
            RangeEnd::First => keyspace.pop_first_range::<&[u8]>(bounds(range)),
            RangeEnd::Last => keyspace.pop_last_range::<&[u8]>(bounds(range)),
        };
        let popped = popped.map_err(|error| StoreError::new("pop", error))?;
        if let Some((_, value)) = &popped {
            taken(value);
        }
        Ok(popped.is_some())
    }
}

impl IngestingStore for EvenDbStore {
    fn ingest(&self, records: &mut SortedRecords<'_>) -> StoreResult<()> {
        let failed = |error| StoreError::new("ingest", error);
        let keyspace = self.database.default_keyspace();
        let mut ingest = keyspace.begin_ingest().map_err(failed)?;
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while records(&mut key, &mut value) {
            ingest.put(&key, &value).map_err(failed)?;
        }
        ingest.finish().map_err(failed)?;
        Ok(())
    }
}

impl ExpiringStore for EvenDbStore {
    fn put_expiring(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        let Some(Purpose::Expiry(lifetime)) = self.purpose else {
            return Err(StoreError::new("put", "not opened for records that expire"));
        };
        self.database
            .default_keyspace()
            .put_with_ttl(key, value, lifetime.ttl)
            .map_err(|error| StoreError::new("put", error))
    }

    fn hides_expired(&self) -> bool {
        true
    }
}
