//! EvenDB opened for a purpose.
//!
//! | purpose | what it is given | calls |
//! |---|---|---|
//! | counters | the default keyspace has the operator `Merges::AddU64` | `Db::merge` |
//! | sorted ingest | nothing | `Keyspace::begin_ingest`, `Ingest::put` of each record, `Ingest::finish` |
//! | values apart | `Advanced::values_apart_from` | the usual ones |
//! | expiry | a clock that runs as fast as the lifetime says | `Keyspace::put_with_ttl` |

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use evendb::{KeyspaceOptions, Merges, WallClock};

use super::{EvenDbStore, options};
use crate::opener::{Lifetime, Purpose, Settings};
use crate::purposes::{CountingStore, ExpiringStore, IngestingStore, SortedRecords};
use crate::store::{StoreError, StoreResult};

/// A time of day that begins somewhere and runs faster than the real one. Puts that expire pay for a look at it: it costs
/// hardly more than one at the system's clock.
#[derive(Debug)]
struct FastClock {
    started: Instant,
    /// Times 2^20.
    speed: u128,
}

/// Where it begins: any time will do that is not the first that there is.
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
    settings: &Settings,
    purpose: Purpose,
) -> StoreResult<EvenDbStore> {
    let options = options(settings);
    let (options, description) = match purpose {
        Purpose::Counters | Purpose::Ingest => (options, ""),
        Purpose::ValuesApart(from) => {
            let from = u32::try_from(from).unwrap_or(u32::MAX);
            let apart = options.advanced(|advanced| advanced.values_apart_from(Some(from)));
            (apart, "values apart")
        }
        Purpose::Expiry(lifetime) => (options.advanced(|all| all.wall_clock(clock(lifetime))), ""),
    };
    let store = EvenDbStore::open(directory, options, description)?;
    if purpose == Purpose::Counters {
        let counters = KeyspaceOptions::new().merge_operator(Merges::AddU64);
        let keyspace = store.database.default_keyspace();
        keyspace
            .set_options(&counters)
            .map_err(|error| StoreError::new("open", error))?;
    }
    Ok(EvenDbStore {
        purpose: Some(purpose),
        ..store
    })
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
