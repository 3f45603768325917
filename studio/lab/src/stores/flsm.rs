//! The fragmented log-structured merge tree of store/flsm under the lab's trait: one database, its
//! default keyspace.

use std::path::Path;

use evendb_flsm::{Db, Options, Stats, WaitStats};

use super::evendb::purposes::bounds;
use super::evendb::{EvenDbOpener, level};
use crate::opener::{Opener, Settings, Variant};
use crate::purposes::BothEndsStore;
use crate::store::{BatchWrite, Figure, FigureKind, Store, StoreError, StoreResult};

/// An open database.
pub struct FlsmStore {
    database: Db,
    name: String,
}

impl FlsmStore {
    /// Opens or creates a database with these options. Reports call it `name`.
    ///
    /// # Errors
    /// What opening the database returns.
    pub fn open(path: &Path, options: Options, name: impl Into<String>) -> StoreResult<Self> {
        let name = name.into();
        let database = options
            .open(path)
            .map_err(|error| StoreError::new("open", error))?;
        Ok(Self { database, name })
    }
}

/// Opens it with its defaults, except the number of files in a guard.
pub struct FlsmOpener {
    name: &'static str,
    /// The engine's own number, if none is given.
    files: Option<usize>,
}

impl FlsmOpener {
    /// With its defaults.
    pub const DEFAULT: FlsmOpener = FlsmOpener {
        name: "flsm",
        files: None,
    };
    /// One file in each guard makes it a leveled tree.
    pub const ONE: FlsmOpener = FlsmOpener {
        name: "flsm-1",
        files: Some(1),
    };
    /// Four files write less than the default's two, and more files must be searched.
    pub const FOUR: FlsmOpener = FlsmOpener {
        name: "flsm-4",
        files: Some(4),
    };
    /// Eight files go further in that direction.
    pub const EIGHT: FlsmOpener = FlsmOpener {
        name: "flsm-8",
        files: Some(8),
    };

    fn options(&self, settings: &Settings) -> Options {
        let options = options(settings);
        match self.files {
            Some(files) => options.advanced(|advanced| advanced.max_files_per_guard(files)),
            None => options,
        }
    }
}

impl Opener for FlsmOpener {
    fn name(&self) -> &'static str {
        self.name
    }

    fn only_if_named(&self) -> bool {
        true
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        let store = FlsmStore::open(directory, self.options(settings), self.name)?;
        Ok(Box::new(store))
    }

    fn open_variant(
        &self,
        directory: &Path,
        settings: &Settings,
        variant: Variant,
    ) -> StoreResult<Box<dyn Store>> {
        let bytes = variant.write_buffer(self.name)?;
        let options = self.options(settings);
        let options = options.advanced(|advanced| advanced.write_buffer_bytes(bytes));
        let name = format!("{} ({variant})", self.name);
        let store = FlsmStore::open(directory, options, name)?;
        Ok(Box::new(store))
    }

    /// The same memory as EvenDB: the page cache gets the rest.
    fn memory_within(&self, limit_bytes: u64) -> u64 {
        EvenDbOpener.memory_within(limit_bytes)
    }
}

/// The default options, except for memory and durability.
pub(super) fn options(settings: &Settings) -> Options {
    Options::new()
        .memory_budget(settings.memory_bytes)
        .durability(level(settings.durability))
}

impl Store for FlsmStore {
    fn name(&self) -> String {
        self.name.clone()
    }

    same_calls!();

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        let mut cursor = self.database.cursor(from..);
        lend!("scan": cursor.next(), limit, each)
    }
}

impl BothEndsStore for FlsmStore {
    fn scan_back(
        &self,
        range: (&[u8], Option<&[u8]>),
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        let mut cursor = self.database.cursor::<&[u8]>(bounds(range));
        lend!("scan_back": cursor.next_back(), limit, each)
    }
}

/// The statistics as figures of a report.
#[must_use]
pub fn figures(stats: &Stats) -> Vec<Figure> {
    let counter = |name, value| Figure {
        name,
        value,
        kind: FigureKind::Counter,
    };
    let gauge = |name, value| Figure {
        name,
        value,
        kind: FigureKind::Gauge,
    };
    let waits = |names: [&'static str; 3], waits: WaitStats| {
        [
            counter(names[0], waits.count),
            counter(names[1], waits.nanos_total),
            gauge(names[2], waits.nanos_max),
        ]
    };
    let mut all = vec![
        counter("written.user", stats.user_bytes),
        counter("written.log", stats.log_bytes),
        counter("written.flush", stats.flushed_bytes),
        counter("written.down", stats.moved_bytes),
        counter("written.merge", stats.merged_bytes),
        counter("compaction_read_bytes", stats.compaction_read_bytes),
        counter("flushes", stats.flushes),
        counter("compactions", stats.compactions),
        counter("write_groups", stats.groups),
        counter("log_syncs", stats.syncs),
        counter("cache.hits", stats.cache_hits),
        counter("cache.misses", stats.cache_misses),
        gauge("cache_bytes", stats.cache_bytes),
        gauge("memory.budget", stats.memory_budget),
        gauge("memory_table_bytes", stats.memory_bytes),
        gauge("debt_bytes", stats.debt_bytes),
        gauge("tables", stats.tables.iter().sum()),
        gauge("table_bytes", stats.level_bytes.iter().sum()),
        gauge("guards", stats.guards.iter().sum()),
    ];
    let slow = [
        "pause.slow_count",
        "pause.slow_nanos_total",
        "pause.slow_nanos_max",
    ];
    let stop = [
        "pause.stop_count",
        "pause.stop_nanos_total",
        "pause.stop_nanos_max",
    ];
    all.extend(waits(slow, stats.slowed));
    all.extend(waits(stop, stats.stopped));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opener::Durability;

    #[test]
    fn answers_through_the_trait() {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            memory_bytes: 8 << 20,
            durability: Durability::Process,
        };
        answers(&FlsmOpener::DEFAULT, directory.path(), &settings);
        let own = tempfile::tempdir().unwrap();
        answers(&FlsmOpener::ONE, own.path(), &settings);
    }

    #[test]
    fn takes_a_write_buffer_and_no_option_of_other_stores() {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            memory_bytes: 8 << 20,
            durability: Durability::Process,
        };
        let open = |variant| FlsmOpener::FOUR.open_variant(directory.path(), &settings, variant);
        let refused = open(Variant::BloomSplit(2)).err().unwrap();
        assert!(refused.to_string().contains("flsm-4 has no option"));
        let store = open(Variant::WriteBufferBytes(64 << 10)).unwrap();
        assert_eq!(store.name(), "flsm-4 (write buffer 64.00 KiB)");
        let flushes = |store: &dyn Store| {
            let figures = store.stats();
            let found = figures.iter().find(|figure| figure.name == "flushes");
            found.unwrap().value
        };
        for key in 0..4u8 {
            store.put(&[key], &[7; 40 << 10]).unwrap();
        }
        store.settle_debt().unwrap();
        assert!(flushes(&*store) >= 2);
        store.close().unwrap();
    }

    fn answers(opener: &dyn Opener, directory: &Path, settings: &Settings) {
        let store = opener.open(directory, settings).unwrap();
        assert_eq!(store.name(), opener.name());
        store.put(b"a", b"1").unwrap();
        store
            .batch(&[BatchWrite::Put(b"b", b"2"), BatchWrite::Delete(b"a")])
            .unwrap();
        store.put(b"c", b"3").unwrap();
        assert!(!store.get(b"a", &mut |_| panic!("a is deleted")).unwrap());
        let mut seen = Vec::new();
        let mut check = |value: &[u8]| seen.extend_from_slice(value);
        assert!(store.get(b"b", &mut check).unwrap());
        assert_eq!(seen, b"2");
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        let mut each = |key: &[u8], _: &[u8]| {
            forward.extend_from_slice(key);
            true
        };
        assert_eq!(store.scan(b"a", 9, &mut each).unwrap(), 2);
        let mut each = |key: &[u8], _: &[u8]| {
            backward.extend_from_slice(key);
            true
        };
        let both_ends = store.both_ends().unwrap();
        let lent = both_ends.scan_back((b"a", Some(b"c")), 9, &mut each);
        assert_eq!(lent.unwrap(), 1);
        assert_eq!((&forward[..], &backward[..]), (&b"bc"[..], &b"b"[..]));
        store.settle_debt().unwrap();
        let figures = store.stats();
        let of = |name| {
            let found = figures.iter().find(|figure| figure.name == name);
            found.unwrap().value
        };
        assert_eq!((of("written.user"), of("debt_bytes")), (7, 0));
        assert!(of("written.log") > 0 && of("written.flush") > 0);
        let names: std::collections::HashSet<_> = figures.iter().map(|f| f.name).collect();
        assert_eq!(names.len(), figures.len(), "figure names are unique");
        store.close().unwrap();
    }
}
