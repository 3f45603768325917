//! EvenDB under the lab's trait: one database, its default keyspace.
//!
//! Transactions are `Db::transact`, which is serializable and tries again by itself. They use plain
//! gets, which the commit looks at again, or ([`LockingOpener`]) `get_for_update` for all keys. If
//! `Db::transact` gives up, it is called again.

/// Lends up to `$limit` records to `$each`, until that returns `false`; `$next` gets one record
/// after the other from a cursor. Returns how many were lent.
macro_rules! lend {
    ($operation:literal: $next:expr, $limit:expr, $each:expr) => {{
        let mut lent = 0;
        while lent < $limit {
            let next = $next.map_err(|error| StoreError::new($operation, error))?;
            let Some((key, value)) = next else {
                break;
            };
            lent += 1;
            if !$each(key, value) {
                break;
            }
        }
        Ok(lent)
    }};
}

mod guards;
mod purposes;
pub mod tuning;

use std::path::Path;

use evendb::{Db, Departure, ErrorKind, LogSearch, MergeOperator, Options, Stats, Transaction};

pub use self::guards::GuardsOpener;
use self::tuning::Tuning;
use crate::opener::{Durability, Opener, Purpose, Settings, Variant};
use crate::purposes::{
    AppendingStore, BothEndsStore, CountingStore, ExpiringStore, IngestingStore,
};
use crate::store::{
    BatchWrite, ComponentSteps, Figure, FigureKind, Store, StoreError, StoreResult,
};
use crate::transactions::{READS, TransactionalStore, Work};

/// An open EvenDB database.
pub struct EvenDbStore {
    database: Db,
    description: String,
    /// Whether transactions lock what they read.
    locks: bool,
    /// The purpose for which it was opened.
    purpose: Option<Purpose>,
}

impl EvenDbStore {
    /// Opens or creates a database with these options. `description` says in the report which
    /// options are not the defaults.
    ///
    /// # Errors
    /// What opening the database returns.
    pub fn open(path: &Path, options: Options, description: &str) -> StoreResult<Self> {
        let database = options
            .open(path)
            .map_err(|error| StoreError::new("open", error))?;
        let description = if description.is_empty() {
            "evendb".to_owned()
        } else {
            format!("evendb ({description})")
        };
        Ok(Self {
            database,
            description,
            locks: false,
            purpose: None,
        })
    }

    /// The same store, which reports call `description`.
    fn called(self, description: String) -> Box<dyn Store> {
        Box::new(Self {
            description,
            ..self
        })
    }

    /// The database, for what the trait does not offer.
    #[must_use]
    pub fn database(&self) -> &Db {
        &self.database
    }
}

/// Opens EvenDB with its defaults.
pub struct EvenDbOpener;

impl Opener for EvenDbOpener {
    fn name(&self) -> &'static str {
        "evendb"
    }

    fn has_transactions(&self) -> bool {
        true
    }

    fn has_range_deletions(&self) -> bool {
        true
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        let store = EvenDbStore::open(directory, options(settings), "")?;
        Ok(Box::new(store))
    }

    fn open_variant(
        &self,
        directory: &Path,
        settings: &Settings,
        variant: Variant,
    ) -> StoreResult<Box<dyn Store>> {
        let options = match variant {
            Variant::LogBytes(bytes) => {
                options(settings).advanced(|advanced| advanced.log_bytes_limits(bytes, 10 * bytes))
            }
            Variant::BloomSplit(split_factor) => options(settings)
                .advanced(|advanced| advanced.log_search(LogSearch::Bloom { split_factor })),
            Variant::BloomLinear(split_factor) => options(settings).advanced(|advanced| {
                let linear = advanced.undo(Departure::LogIndex);
                linear.log_search(LogSearch::Bloom { split_factor })
            }),
            Variant::WriteBufferBytes(_) => return Err(variant.lacked_by(self.name())),
        };
        let store = EvenDbStore::open(directory, options, &variant.to_string())?;
        Ok(Box::new(store))
    }

    fn serves(&self, purpose: Purpose) -> bool {
        !matches!(purpose, Purpose::ValuesApart(_))
    }

    fn measured_beside_values_apart(&self) -> bool {
        true
    }

    fn open_for(
        &self,
        directory: &Path,
        settings: &Settings,
        purpose: Purpose,
    ) -> StoreResult<Box<dyn Store>> {
        let store = purposes::open(directory, options(settings), purpose)?;
        Ok(Box::new(store))
    }

    /// A fifth is left to the allocator, the driver and the page cache, and at least 64 MiB, but at
    /// most half of the limit. The documentation of `Options::memory_budget` says what is taken
    /// beside the budget. With 48 MiB, processes that wrote were ended at 256 MiB.
    fn memory_within(&self, limit_bytes: u64) -> u64 {
        let rest = limit_bytes.saturating_sub(64 << 20);
        (limit_bytes / 5 * 4).min(rest).max(limit_bytes / 2)
    }
}

/// EvenDB with half the memory budget that it is told to plan with, and everything else the same:
/// the page cache gets the rest of a limit from outside. A store with less memory must never be
/// faster; beside [`EvenDbOpener`] this one shows whether that holds.
pub struct HalfMemoryOpener;

impl HalfMemoryOpener {
    /// The name by which a user chooses it.
    pub const NAME: &str = "evendb-half-memory";
}

impl Opener for HalfMemoryOpener {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn only_if_named(&self) -> bool {
        true
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        let half = Settings {
            memory_bytes: settings.memory_bytes / 2,
            ..*settings
        };
        let store = EvenDbStore::open(directory, options(&half), "half the memory")?;
        Ok(Box::new(store))
    }

    fn memory_within(&self, limit_bytes: u64) -> u64 {
        EvenDbOpener.memory_within(limit_bytes)
    }
}

/// EvenDB with its defaults. Its transactions lock what they read.
pub struct LockingOpener;

impl Opener for LockingOpener {
    fn name(&self) -> &'static str {
        "evendb-for-update"
    }

    fn only_if_named(&self) -> bool {
        true
    }

    fn has_transactions(&self) -> bool {
        true
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        let store = EvenDbStore::open(directory, options(settings), "for update")?;
        Ok(Box::new(EvenDbStore {
            locks: true,
            ..store
        }))
    }

    fn memory_within(&self, limit_bytes: u64) -> u64 {
        EvenDbOpener.memory_within(limit_bytes)
    }
}

/// EvenDB with large values apart from their keys ([`Purpose::ValuesApart`]), and everything else
/// as in [`EvenDbOpener`].
pub struct ValuesApartOpener;

/// Values of at least this number of bytes lie apart by default.
const APART_FROM: u64 = 4096;

impl Opener for ValuesApartOpener {
    fn name(&self) -> &'static str {
        "evendb-values-apart"
    }

    fn only_if_named(&self) -> bool {
        true
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        self.open_for(directory, settings, Purpose::ValuesApart(APART_FROM))
    }

    fn serves(&self, purpose: Purpose) -> bool {
        matches!(purpose, Purpose::ValuesApart(_))
    }

    fn open_for(
        &self,
        directory: &Path,
        settings: &Settings,
        purpose: Purpose,
    ) -> StoreResult<Box<dyn Store>> {
        let store = purposes::open(directory, options(settings), purpose)?;
        Ok(Box::new(store))
    }

    fn memory_within(&self, limit_bytes: u64) -> u64 {
        EvenDbOpener.memory_within(limit_bytes)
    }
}

/// EvenDB with the merge operator of a program. A replay with
/// [`Merges::Appends`](crate::replay::Merges::Appends) gives it each operand as it is in the trace,
/// so that the program's own merges are replayed. Keys of a trace of several keyspaces have the
/// number of theirs before them.
pub struct MergingOpener<M> {
    /// Makes the operator.
    pub operator: fn() -> M,
}

impl<M: MergeOperator + 'static> Opener for MergingOpener<M> {
    fn name(&self) -> &'static str {
        "evendb-merging"
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        self.open_for(directory, settings, Purpose::Appends)
    }

    fn serves(&self, purpose: Purpose) -> bool {
        purpose == Purpose::Appends
    }

    fn open_for(
        &self,
        directory: &Path,
        settings: &Settings,
        purpose: Purpose,
    ) -> StoreResult<Box<dyn Store>> {
        if !self.serves(purpose) {
            let message = format!("{} has no {}", self.name(), purpose.name());
            return Err(StoreError::new("open", message));
        }
        let store = purposes::open_merging(directory, options(settings), (self.operator)())?;
        Ok(Box::new(store))
    }

    fn memory_within(&self, limit_bytes: u64) -> u64 {
        EvenDbOpener.memory_within(limit_bytes)
    }
}

/// EvenDB with settings that were chosen by name.
pub struct TunedOpener {
    /// The settings.
    pub tuning: Tuning,
}

impl TunedOpener {
    /// The name of the store: the same as with defaults.
    pub const NAME: &str = "evendb";

    fn budgeted(&self, settings: &Settings) -> Settings {
        Settings {
            memory_bytes: self.tuning.budget(settings.memory_bytes),
            ..*settings
        }
    }

    fn options(&self, settings: &Settings) -> Options {
        self.tuning.applied(options(&self.budgeted(settings)))
    }

    fn described(&self, store: EvenDbStore) -> Box<dyn Store> {
        store.called(format!("evendb ({})", self.tuning))
    }
}

impl Opener for TunedOpener {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        let store = EvenDbStore::open(directory, self.options(settings), "")?;
        Ok(self.described(store))
    }

    fn serves(&self, purpose: Purpose) -> bool {
        EvenDbOpener.serves(purpose)
    }

    fn open_for(
        &self,
        directory: &Path,
        settings: &Settings,
        purpose: Purpose,
    ) -> StoreResult<Box<dyn Store>> {
        let store = purposes::open(directory, self.options(settings), purpose)?;
        Ok(self.described(store))
    }
}

/// The default options, except for memory and durability.
pub(super) fn options(settings: &Settings) -> Options {
    Options::new()
        .memory_budget(settings.memory_bytes)
        .durability(level(settings.durability))
}

/// EvenDB's word for what a measured put survives.
fn level(durability: Durability) -> evendb::Durability {
    match durability {
        Durability::Relaxed => evendb::Durability::Relaxed,
        Durability::Process => evendb::Durability::Process,
        Durability::Sync => evendb::Durability::Sync,
    }
}

impl Store for EvenDbStore {
    fn name(&self) -> String {
        self.description.clone()
    }

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        let found = self.database.get(key);
        match found.map_err(|error| StoreError::new("get", error))? {
            Some(value) => {
                check(&value);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        let put = self.database.put(key, value);
        put.map_err(|error| StoreError::new("put", error))
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        let deleted = self.database.delete(key);
        deleted.map_err(|error| StoreError::new("delete", error))
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> StoreResult<()> {
        let keyspace = self.database.default_keyspace();
        let mut batch = self.database.batch();
        for write in writes {
            match write {
                BatchWrite::Put(key, value) => batch.put(keyspace, key, value),
                BatchWrite::Delete(key) => batch.delete(keyspace, key),
            };
        }
        let committed = batch.commit();
        committed.map_err(|error| StoreError::new("batch", error))
    }

    fn both_ends(&self) -> Option<&dyn BothEndsStore> {
        Some(self)
    }

    fn stats(&self) -> Vec<Figure> {
        figures(&self.database.stats())
    }

    fn settle_debt(&self) -> StoreResult<()> {
        let settled = self.database.settle_debt();
        settled.map_err(|error| StoreError::new("settle_debt", error))
    }

    fn close(self: Box<Self>) -> StoreResult<()> {
        let closed = self.database.close();
        closed.map_err(|error| StoreError::new("close", error))
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        let mut cursor = self.database.cursor(from..).limit_hint(limit as u64);
        lend!("scan": cursor.next(), limit, each)
    }

    fn delete_range(&self, low: &[u8], high: &[u8]) -> StoreResult<()> {
        self.database
            .delete_range(low..high)
            .map_err(|error| StoreError::new("delete_range", error))
    }

    fn transactions(&self) -> Option<&dyn TransactionalStore> {
        Some(self)
    }

    fn counters(&self) -> Option<&dyn CountingStore> {
        purposes::counters(self)
    }

    fn sorted_ingest(&self) -> Option<&dyn IngestingStore> {
        purposes::sorted_ingest(self)
    }

    fn expiring(&self) -> Option<&dyn ExpiringStore> {
        purposes::expiring(self)
    }

    fn appending(&self) -> Option<&dyn AppendingStore> {
        purposes::appending(self)
    }

    fn get_latencies(&self) -> Vec<ComponentSteps> {
        let all = self.database.get_latencies().into_iter();
        all.map(|(component, steps)| ComponentSteps { component, steps })
            .collect()
    }
}

/// Why an attempt of a transaction ended.
enum Ended {
    Engine(evendb::Error),
    Wrong(StoreError),
}

impl From<evendb::Error> for Ended {
    fn from(error: evendb::Error) -> Self {
        Self::Engine(error)
    }
}

/// Whether the error says that a transaction met another one.
fn has_met_another(error: &evendb::Error) -> bool {
    use ErrorKind::{Conflict, Deadlock, LockTimeout};
    matches!(error.kind(), Conflict | Deadlock | LockTimeout)
}

impl EvenDbStore {
    fn attempt(&self, transaction: &mut Transaction, work: &mut Work) -> Result<(), Ended> {
        let keyspace = self.database.default_keyspace();
        for position in 0..READS {
            let key = work.key(position);
            let value = match self.locks {
                true => transaction.get_for_update(keyspace, key)?,
                false => transaction.get(keyspace, key)?,
            };
            work.take(position, value.as_deref())
                .map_err(Ended::Wrong)?;
        }
        for (key, value) in work.writes() {
            transaction.put(keyspace, key, value)?;
        }
        Ok(())
    }
}

impl TransactionalStore for EvenDbStore {
    fn run(&self, work: &mut Work) -> StoreResult<u64> {
        let mut attempts = 0;
        loop {
            let done = self.database.transact(|transaction| {
                attempts += 1;
                self.attempt(transaction, work)
            });
            match done {
                Ok(()) => return Ok(attempts - 1),
                Err(Ended::Engine(error)) if has_met_another(&error) => {}
                Err(Ended::Engine(error)) => return Err(StoreError::new("transaction", error)),
                Err(Ended::Wrong(error)) => return Err(error),
            }
        }
    }
}

/// EvenDB's statistics as figures of a report, under its own names.
#[must_use]
pub fn figures(stats: &Stats) -> Vec<Figure> {
    let figure = |figure: &evendb::Figure| Figure {
        name: figure.name,
        value: figure.value,
        kind: match figure.kind {
            evendb::FigureKind::Counter => FigureKind::Counter,
            evendb::FigureKind::Gauge => FigureKind::Gauge,
        },
    };
    stats.figures().iter().map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_through_the_trait() {
        let directory = tempfile::tempdir().unwrap();
        let store = EvenDbStore::open(directory.path(), Options::new(), "").unwrap();
        store.put(b"a", b"1").unwrap();
        store
            .batch(&[BatchWrite::Put(b"b", b"2"), BatchWrite::Delete(b"a")])
            .unwrap();
        assert!(!store.get(b"a", &mut |_| panic!("a is deleted")).unwrap());
        let mut seen = Vec::new();
        assert!(
            store
                .get(b"b", &mut |value| seen.extend_from_slice(value))
                .unwrap()
        );
        assert_eq!(seen, b"2");
        store.put(b"c", b"3").unwrap();
        let mut keys = Vec::new();
        let mut each = |key: &[u8], _: &[u8]| {
            keys.extend_from_slice(key);
            true
        };
        assert_eq!(store.scan(b"a", 9, &mut each).unwrap(), 2);
        assert_eq!(keys, b"bc");
        let of = |component| {
            let all = store.get_latencies();
            let found = all.into_iter().find(|one| one.component == component);
            found.unwrap().count()
        };
        // If RAM answers, one get in 64 is timed.
        let before = of("delta");
        for _ in 0..640 {
            assert!(store.get(b"c", &mut |_| ()).unwrap());
        }
        assert!(of("delta") > before && of("log") == 0);
        store.settle_debt().unwrap();
        let names: std::collections::HashSet<_> = store.stats().iter().map(|f| f.name).collect();
        assert_eq!(names.len(), store.stats().len(), "figure names are unique");
        Box::new(store).close().unwrap();
    }

    #[test]
    fn half_the_memory_is_half_the_budget() {
        let settings = Settings {
            memory_bytes: 128 << 20,
            durability: Durability::Process,
        };
        let openers: [(&dyn Opener, u64); 2] = [(&EvenDbOpener, 128), (&HalfMemoryOpener, 64)];
        for (opener, mib) in openers {
            let directory = tempfile::tempdir().unwrap();
            let store = opener.open(directory.path(), &settings).unwrap();
            let figures = store.stats();
            let budget = figures.iter().find(|figure| figure.name == "memory.budget");
            assert_eq!(budget.unwrap().value, mib << 20, "{}", opener.name());
            store.close().unwrap();
        }
    }
}
