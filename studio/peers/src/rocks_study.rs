//! RocksDB as the study of its loads had it, with its own counters: what figure 14 of the study
//! compares is what this store tells.
//!
//! | | the study | here |
//! |---|---|---|
//! | block cache | 256 MiB for 50 million pairs | the memory, all of it |
//! | blocks | 16 KiB | 16 KiB |
//! | reads, flushes, compactions | direct | direct |
//! | write buffer, tables | 64 MiB (default) | a quarter of the memory |
//! | level 1 | 256 MiB (default) | the memory |
//! | compression | 4.5 times | none |
//! | filters | none (default) | none |
//!
//! The memory of a model follows its scale (`evendb mixgraph`), so buffer, tables and levels have
//! the study's proportion to the data at each scale, and there are as many tables and levels.
//!
//! # Figures
//! * `blocks.read`, `blocks.read_bytes`, `blocks.hit`: of gets and scans alone, by RocksDB's
//!   `PerfContext`, which the study calls perf_stat. It belongs to a thread, and is read after each
//!   call. Blocks that the readahead of a scan brings along are not counted by it as read.
//! * `cache.data_hit`, `cache.data_miss`: data blocks that were looked for in the cache, by anyone:
//!   `rocksdb.block.cache.data.hit` and `.miss` of its statistics.
//! * `written.flush`, `written.compaction`, `written.log`, `written.user`, `compaction.read`: its
//!   statistics of the same kind.
//!
//! The library is loaded at run time through its C interface, so this store needs no C++ compiler:
//! `EVENDB_ROCKSDB_LIB` names the file, else `librocksdb.so` and the names of distributions are
//! tried. It is a store apart from those of the feature `rocksdb`, which are linked.
//!
//! Paying the debt is a flush, and waiting until RocksDB says that nothing runs or is due. Levels
//! of durability are as in the adapter of the linked library.
//!
//! Thread safety: the database and its options may be used by many threads at once; iterators,
//! batches and perf contexts stay in one call.

#![expect(unsafe_code, reason = "a C interface that is loaded at run time")]

use std::ffi::{CStr, c_char, c_int};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use evendb_lab::opener::Durability;
use evendb_lab::store::{
    BLOCKS_HIT, BLOCKS_READ, BLOCKS_READ_BYTES, Figure, Store, StoreError, StoreResult,
};

use crate::loaded::{Handle, Loaded, Owned, Records, Wanted, calls};

/// The bytes of a block before compression.
pub const BLOCK_BYTES: usize = 16 << 10;
/// The least write buffer that RocksDB takes.
const WRITE_BUFFER_BYTES_MIN: usize = 64 << 10;
/// `kEnableCount` of its perf levels: counters, and no times.
const PERF_COUNTS: c_int = 2;
/// The numbers of its perf metrics that are read.
const PERF_BLOCK_CACHE_HIT: c_int = 1;
const PERF_BLOCK_READ: c_int = 2;
const PERF_BLOCK_READ_BYTES: c_int = 3;

/// Figures of its statistics: our name, and that of the ticker.
const TICKERS: [(&str, &str); 7] = [
    ("cache.data_hit", "rocksdb.block.cache.data.hit"),
    ("cache.data_miss", "rocksdb.block.cache.data.miss"),
    ("compaction.read", "rocksdb.compact.read.bytes"),
    ("written.user", "rocksdb.bytes.written"),
    ("written.flush", "rocksdb.flush.write.bytes"),
    ("written.compaction", "rocksdb.compact.write.bytes"),
    ("written.log", "rocksdb.wal.bytes"),
];

/// Properties that are 0 when nothing runs and nothing is due.
const DUE: [&CStr; 4] = [
    c"rocksdb.mem-table-flush-pending",
    c"rocksdb.num-running-flushes",
    c"rocksdb.compaction-pending",
    c"rocksdb.num-running-compactions",
];
/// The interval of looks at them, and the number of looks in a row at which all must be 0: a
/// compaction that ends may make another one due a moment later.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
const QUIET_LOOKS: u32 = 3;

calls! { Calls:
    property_int = "property_int" (Handle, *const c_char, *mut u64) -> c_int;
    flush = "flush" (Handle, Handle, *mut *mut c_char);
    flush_options = "flushoptions_create" () -> Handle;
    flush_options_destroy = "flushoptions_destroy" (Handle);
    set_file_size = "options_set_target_file_size_base" (Handle, u64);
    set_level_base = "options_set_max_bytes_for_level_base" (Handle, u64);
    set_direct_reads = "options_set_use_direct_reads" (Handle, u8);
    set_direct_writes = "options_set_use_direct_io_for_flush_and_compaction" (Handle, u8);
    set_manual_wal_flush = "options_set_manual_wal_flush" (Handle, u8);
    set_tables = "options_set_block_based_table_factory" (Handle, Handle);
    enable_statistics = "options_enable_statistics" (Handle);
    statistics = "options_statistics_get_string" (Handle) -> *mut c_char;
    tables = "block_based_options_create" () -> Handle;
    tables_destroy = "block_based_options_destroy" (Handle);
    set_block_size = "block_based_options_set_block_size" (Handle, usize);
    set_block_cache = "block_based_options_set_block_cache" (Handle, Handle);
    set_perf_level = "set_perf_level" (c_int);
    perf = "perfcontext_create" () -> Handle;
    perf_destroy = "perfcontext_destroy" (Handle);
    perf_reset = "perfcontext_reset" (Handle);
    perf_metric = "perfcontext_metric" (Handle, c_int) -> u64;
}

impl Calls {
    /// The library, loaded by the first caller.
    fn loaded() -> Result<&'static Loaded<Calls>, &'static str> {
        static LOADED: OnceLock<Result<Loaded<Calls>, String>> = OnceLock::new();
        const WANTED: Wanted = Wanted {
            store: "rocksdb-study",
            prefix: "rocksdb",
            variable: "EVENDB_ROCKSDB_LIB",
            usual_names: &[
                "librocksdb.so",
                "librocksdb.so.9.10",
                "librocksdb.so.8.9",
                "librocksdb.so.7.8",
            ],
            remedy: "install it by scripts/peers-install, or name the file in EVENDB_ROCKSDB_LIB",
        };
        let loaded = LOADED.get_or_init(|| WANTED.load(Calls::find));
        loaded.as_ref().map_err(String::as_str)
    }
}

/// Why the store cannot be opened on this machine, and what helps. `None` if it can.
#[must_use]
pub fn unavailable() -> Option<String> {
    Calls::loaded().err().map(str::to_owned)
}

/// A RocksDB database with the study's settings.
pub struct RocksStudyStore {
    calls: &'static Loaded<Calls>,
    durability: Durability,
    blocks_read: AtomicU64,
    blocks_read_bytes: AtomicU64,
    blocks_hit: AtomicU64,
    // Dropped in this order: the database before the objects with which it was opened.
    records: Records,
    options: Owned,
    _tables: Owned,
    _cache: Owned,
}

// SAFETY: the interface allows concurrent calls on the database; options are only read after
// `open`, and their statistics are made for many threads.
unsafe impl Send for RocksStudyStore {}
// SAFETY: as above.
unsafe impl Sync for RocksStudyStore {}

impl RocksStudyStore {
    /// Opens or makes a database in this directory, for `memory_bytes` bytes of memory.
    ///
    /// # Errors
    /// The library is not here, or its own error: for example, the file system of the directory has
    /// no direct reads.
    pub fn open(path: &Path, memory_bytes: u64, durability: Durability) -> StoreResult<Self> {
        let calls = Calls::loaded().map_err(|why| StoreError::new("open", why.to_owned()))?;
        let cache_bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        let buffer_bytes = (cache_bytes / 4).max(WRITE_BUFFER_BYTES_MIN);
        let owned = |handle, destroy| Owned { handle, destroy };
        let (common, own) = (&calls.common, &calls.own);
        // SAFETY: every handle goes to functions of its own kind only, is destroyed once (by its
        // `Owned`), and the database before the rest by the order of the fields.
        let (options, tables, cache) = unsafe {
            let options = owned((common.options)(), common.options_destroy);
            let tables = owned((own.tables)(), own.tables_destroy);
            let cache = owned((common.cache)(cache_bytes), common.cache_destroy);
            (own.set_block_size)(tables.handle, BLOCK_BYTES);
            (own.set_block_cache)(tables.handle, cache.handle);
            (common.set_create_if_missing)(options.handle, 1);
            (common.set_compression)(options.handle, 0);
            (common.set_write_buffer_size)(options.handle, buffer_bytes);
            (own.set_file_size)(options.handle, buffer_bytes as u64);
            (own.set_level_base)(options.handle, 4 * buffer_bytes as u64);
            (own.set_direct_reads)(options.handle, 1);
            (own.set_direct_writes)(options.handle, 1);
            let relaxed = u8::from(durability == Durability::Relaxed);
            (own.set_manual_wal_flush)(options.handle, relaxed);
            (own.set_tables)(options.handle, tables.handle);
            (own.enable_statistics)(options.handle);
            (options, tables, cache)
        };
        Ok(Self {
            calls,
            durability,
            blocks_read: AtomicU64::new(0),
            blocks_read_bytes: AtomicU64::new(0),
            blocks_hit: AtomicU64::new(0),
            records: Records::open(common, path, &options, durability)?,
            options,
            _tables: tables,
            _cache: cache,
        })
    }

    /// Does a read, and counts the blocks that it asked for.
    fn counted<T>(&self, read: impl FnOnce() -> T) -> T {
        let calls = &self.calls.own;
        // SAFETY: these set and read what belongs to this thread; the context is made, used and
        // destroyed in this call.
        let perf = unsafe {
            (calls.set_perf_level)(PERF_COUNTS);
            let perf = Owned {
                handle: (calls.perf)(),
                destroy: calls.perf_destroy,
            };
            (calls.perf_reset)(perf.handle);
            perf
        };
        let done = read();
        for (counter, metric) in [
            (&self.blocks_read, PERF_BLOCK_READ),
            (&self.blocks_read_bytes, PERF_BLOCK_READ_BYTES),
            (&self.blocks_hit, PERF_BLOCK_CACHE_HIT),
        ] {
            // SAFETY: the context above, in the same thread.
            let count = unsafe { (calls.perf_metric)(perf.handle, metric) };
            counter.fetch_add(count, Ordering::Relaxed);
        }
        done
    }

    /// The number of flushes and compactions that run or are due, as far as RocksDB tells.
    fn due(&self) -> u64 {
        let value = |name: &&CStr| {
            let mut value = 0;
            // SAFETY: an open database, a NUL-terminated name, and a number that outlives the call.
            let known = unsafe {
                let database = self.records.database.handle;
                (self.calls.own.property_int)(database, name.as_ptr(), &mut value)
            };
            if known == 0 { value } else { 0 }
        };
        DUE.iter().map(value).sum()
    }
}

impl Store for RocksStudyStore {
    evendb_lab::passed_on!(records: put, delete, batch);

    fn name(&self) -> String {
        let level = match self.durability {
            Durability::Process => String::new(),
            other => format!(", {}", other.name()),
        };
        let file = Path::new(&self.calls.file).file_name();
        let file = file.unwrap_or_default().to_string_lossy();
        format!("rocksdb (study, {file}{level})")
    }

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        let value = self.counted(|| self.records.get(key))?;
        Ok(value.map(|value| check(value.bytes())).is_some())
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        self.counted(|| self.records.scan(from, limit, each))
    }

    fn stats(&self) -> Vec<Figure> {
        // SAFETY: open options with statistics; the text is freed by `text`.
        let text = unsafe { (self.calls.own.statistics)(self.options.handle) };
        let text = self.calls.common.text(text).unwrap_or_default();
        let own = [
            (BLOCKS_READ, &self.blocks_read),
            (BLOCKS_READ_BYTES, &self.blocks_read_bytes),
            (BLOCKS_HIT, &self.blocks_hit),
        ];
        let own = own.map(|(name, counted)| Figure::counter(name, counted.load(Ordering::Relaxed)));
        let tickers = TICKERS.map(|(name, ticker)| Figure::counter(name, ticker_of(&text, ticker)));
        own.into_iter().chain(tickers).collect()
    }

    fn settle_debt(&self) -> StoreResult<()> {
        let own = &self.calls.own;
        let mut error = std::ptr::null_mut();
        // SAFETY: open database; the options are this call's. They wait by default.
        unsafe {
            let options = Owned {
                handle: (own.flush_options)(),
                destroy: own.flush_options_destroy,
            };
            (own.flush)(self.records.database.handle, options.handle, &mut error);
        }
        self.calls.common.outcome("settle_debt", error)?;
        let mut quiet = 0;
        while quiet < QUIET_LOOKS {
            quiet = if self.due() == 0 { quiet + 1 } else { 0 };
            sleep(LOOK_INTERVAL);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> StoreResult<()> {
        Ok(())
    }
}

/// A counter of RocksDB's text of its statistics: a line `name COUNT : number`.
fn ticker_of(text: &str, ticker: &str) -> u64 {
    let line = |line: &str| {
        let count = line
            .trim()
            .strip_prefix(ticker)?
            .strip_prefix(" COUNT : ")?;
        count.trim().parse().ok()
    };
    text.lines().find_map(line).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickers_are_found_by_their_whole_name() {
        let text = "rocksdb.block.cache.data.hit.x COUNT : 4\n\
                    rocksdb.block.cache.data.hit COUNT : 17\n\
                    rocksdb.db.get.micros P50 : 0.5 P95 : 0.7\n";
        assert_eq!(ticker_of(text, "rocksdb.block.cache.data.hit"), 17);
        assert_eq!(ticker_of(text, "rocksdb.wal.bytes"), 0);
    }
}
