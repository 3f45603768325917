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

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use evendb_lab::opener::Durability;
use evendb_lab::store::{
    BLOCKS_HIT, BLOCKS_READ, BLOCKS_READ_BYTES, BatchWrite, Figure, FigureKind, Store, StoreError,
    StoreResult,
};

use crate::loaded::{Handle, Owned, Wanted, calls, slice};

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

calls! {
    open = b"rocksdb_open\0" (Handle, *const c_char, *mut *mut c_char) -> Handle;
    close = b"rocksdb_close\0" (Handle);
    put = b"rocksdb_put\0"
        (Handle, Handle, *const u8, usize, *const u8, usize, *mut *mut c_char);
    delete = b"rocksdb_delete\0" (Handle, Handle, *const u8, usize, *mut *mut c_char);
    write = b"rocksdb_write\0" (Handle, Handle, Handle, *mut *mut c_char);
    get = b"rocksdb_get\0"
        (Handle, Handle, *const u8, usize, *mut usize, *mut *mut c_char) -> *mut c_char;
    property_int = b"rocksdb_property_int\0" (Handle, *const c_char, *mut u64) -> c_int;
    flush = b"rocksdb_flush\0" (Handle, Handle, *mut *mut c_char);
    flush_options = b"rocksdb_flushoptions_create\0" () -> Handle;
    flush_options_destroy = b"rocksdb_flushoptions_destroy\0" (Handle);
    free = b"rocksdb_free\0" (*mut c_void);
    iterator = b"rocksdb_create_iterator\0" (Handle, Handle) -> Handle;
    iterator_destroy = b"rocksdb_iter_destroy\0" (Handle);
    iterator_valid = b"rocksdb_iter_valid\0" (Handle) -> u8;
    iterator_seek = b"rocksdb_iter_seek\0" (Handle, *const u8, usize);
    iterator_next = b"rocksdb_iter_next\0" (Handle);
    iterator_key = b"rocksdb_iter_key\0" (Handle, *mut usize) -> *const u8;
    iterator_value = b"rocksdb_iter_value\0" (Handle, *mut usize) -> *const u8;
    iterator_error = b"rocksdb_iter_get_error\0" (Handle, *mut *mut c_char);
    batch = b"rocksdb_writebatch_create\0" () -> Handle;
    batch_destroy = b"rocksdb_writebatch_destroy\0" (Handle);
    batch_put = b"rocksdb_writebatch_put\0" (Handle, *const u8, usize, *const u8, usize);
    batch_delete = b"rocksdb_writebatch_delete\0" (Handle, *const u8, usize);
    options = b"rocksdb_options_create\0" () -> Handle;
    options_destroy = b"rocksdb_options_destroy\0" (Handle);
    set_create_if_missing = b"rocksdb_options_set_create_if_missing\0" (Handle, u8);
    set_compression = b"rocksdb_options_set_compression\0" (Handle, c_int);
    set_write_buffer_size = b"rocksdb_options_set_write_buffer_size\0" (Handle, usize);
    set_file_size = b"rocksdb_options_set_target_file_size_base\0" (Handle, u64);
    set_level_base = b"rocksdb_options_set_max_bytes_for_level_base\0" (Handle, u64);
    set_direct_reads = b"rocksdb_options_set_use_direct_reads\0" (Handle, u8);
    set_direct_writes =
        b"rocksdb_options_set_use_direct_io_for_flush_and_compaction\0" (Handle, u8);
    set_manual_wal_flush = b"rocksdb_options_set_manual_wal_flush\0" (Handle, u8);
    set_tables = b"rocksdb_options_set_block_based_table_factory\0" (Handle, Handle);
    enable_statistics = b"rocksdb_options_enable_statistics\0" (Handle);
    statistics = b"rocksdb_options_statistics_get_string\0" (Handle) -> *mut c_char;
    tables = b"rocksdb_block_based_options_create\0" () -> Handle;
    tables_destroy = b"rocksdb_block_based_options_destroy\0" (Handle);
    set_block_size = b"rocksdb_block_based_options_set_block_size\0" (Handle, usize);
    set_block_cache = b"rocksdb_block_based_options_set_block_cache\0" (Handle, Handle);
    cache = b"rocksdb_cache_create_lru\0" (usize) -> Handle;
    cache_destroy = b"rocksdb_cache_destroy\0" (Handle);
    read_options = b"rocksdb_readoptions_create\0" () -> Handle;
    read_options_destroy = b"rocksdb_readoptions_destroy\0" (Handle);
    write_options = b"rocksdb_writeoptions_create\0" () -> Handle;
    write_options_destroy = b"rocksdb_writeoptions_destroy\0" (Handle);
    set_sync = b"rocksdb_writeoptions_set_sync\0" (Handle, u8);
    set_perf_level = b"rocksdb_set_perf_level\0" (c_int);
    perf = b"rocksdb_perfcontext_create\0" () -> Handle;
    perf_destroy = b"rocksdb_perfcontext_destroy\0" (Handle);
    perf_reset = b"rocksdb_perfcontext_reset\0" (Handle);
    perf_metric = b"rocksdb_perfcontext_metric\0" (Handle, c_int) -> u64;
}

impl Calls {
    /// The library, loaded by the first caller, and the name of its file.
    fn loaded() -> Result<&'static (Calls, String), &'static str> {
        static LOADED: OnceLock<Result<(Calls, String), String>> = OnceLock::new();
        const WANTED: Wanted = Wanted {
            store: "rocksdb-study",
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

    /// Takes over the text that a call left in its error pointer.
    fn outcome(&self, operation: &'static str, error: *mut c_char) -> StoreResult<()> {
        match self.text(error) {
            None => Ok(()),
            Some(text) => Err(StoreError::new(operation, text)),
        }
    }

    /// Copies and frees a text of the library.
    fn text(&self, text: *mut c_char) -> Option<String> {
        if text.is_null() {
            return None;
        }
        // SAFETY: not null, so a NUL-terminated text that the library allocated and gave to us; it
        // is copied before it is freed, and nobody else has the pointer.
        unsafe {
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.free)(text.cast());
            Some(copy)
        }
    }
}

/// Why the store cannot be opened on this machine, and what helps. `None` if it can.
#[must_use]
pub fn unavailable() -> Option<String> {
    Calls::loaded().err().map(str::to_owned)
}

/// A RocksDB database with the study's settings.
pub struct RocksStudyStore {
    calls: &'static Calls,
    library: &'static str,
    durability: Durability,
    blocks_read: AtomicU64,
    blocks_read_bytes: AtomicU64,
    blocks_hit: AtomicU64,
    // Dropped in this order: the database before the objects with which it was opened.
    database: Owned,
    read: Owned,
    write: Owned,
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
        let (calls, library) =
            Calls::loaded().map_err(|why| StoreError::new("open", why.to_owned()))?;
        let name = CString::new(path.as_os_str().as_bytes());
        let name = name.map_err(|error| StoreError::new("open", error))?;
        let cache_bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        let buffer_bytes = (cache_bytes / 4).max(WRITE_BUFFER_BYTES_MIN);
        let owned = |handle, destroy| Owned { handle, destroy };
        // SAFETY: every handle goes to functions of its own kind only, is destroyed once (by its
        // `Owned`), and the database before the rest by the order of the fields. `name` outlives
        // the call.
        unsafe {
            let options = owned((calls.options)(), calls.options_destroy);
            let tables = owned((calls.tables)(), calls.tables_destroy);
            let cache = owned((calls.cache)(cache_bytes), calls.cache_destroy);
            (calls.set_block_size)(tables.handle, BLOCK_BYTES);
            (calls.set_block_cache)(tables.handle, cache.handle);
            (calls.set_create_if_missing)(options.handle, 1);
            (calls.set_compression)(options.handle, 0);
            (calls.set_write_buffer_size)(options.handle, buffer_bytes);
            (calls.set_file_size)(options.handle, buffer_bytes as u64);
            (calls.set_level_base)(options.handle, 4 * buffer_bytes as u64);
            (calls.set_direct_reads)(options.handle, 1);
            (calls.set_direct_writes)(options.handle, 1);
            let relaxed = u8::from(durability == Durability::Relaxed);
            (calls.set_manual_wal_flush)(options.handle, relaxed);
            (calls.set_tables)(options.handle, tables.handle);
            (calls.enable_statistics)(options.handle);
            let read = owned((calls.read_options)(), calls.read_options_destroy);
            let write = owned((calls.write_options)(), calls.write_options_destroy);
            (calls.set_sync)(write.handle, u8::from(durability == Durability::Sync));
            let mut error = std::ptr::null_mut();
            let database = (calls.open)(options.handle, name.as_ptr(), &mut error);
            calls.outcome("open", error)?;
            Ok(Self {
                calls,
                library,
                durability,
                blocks_read: AtomicU64::new(0),
                blocks_read_bytes: AtomicU64::new(0),
                blocks_hit: AtomicU64::new(0),
                database: owned(database, calls.close),
                read,
                write,
                options,
                _tables: tables,
                _cache: cache,
            })
        }
    }

    /// Does a read, and counts the blocks that it asked for.
    fn counted<T>(&self, read: impl FnOnce() -> T) -> T {
        let calls = self.calls;
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
                (self.calls.property_int)(self.database.handle, name.as_ptr(), &mut value)
            };
            if known == 0 { value } else { 0 }
        };
        DUE.iter().map(value).sum()
    }

    fn get_at_once(&self, key: &[u8]) -> StoreResult<Option<(Owned, usize)>> {
        let (calls, mut length, mut error) = (self.calls, 0, std::ptr::null_mut());
        // SAFETY: open database and read options; the key lives through the call.
        let value = unsafe {
            (calls.get)(
                self.database.handle,
                self.read.handle,
                key.as_ptr(),
                key.len(),
                &mut length,
                &mut error,
            )
        };
        let value = (!value.is_null()).then_some(Owned {
            handle: value.cast(),
            destroy: calls.free,
        });
        calls.outcome("get", error)?;
        Ok(value.map(|value| (value, length)))
    }

    fn scan_at_once(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        let calls = self.calls;
        let mut lent = 0;
        // SAFETY: the iterator is this call's alone and is destroyed before the database; key and
        // value belong to it and stay unchanged until it moves, which is after `each` returned.
        unsafe {
            let records = Owned {
                handle: (calls.iterator)(self.database.handle, self.read.handle),
                destroy: calls.iterator_destroy,
            };
            (calls.iterator_seek)(records.handle, from.as_ptr(), from.len());
            while lent < limit && (calls.iterator_valid)(records.handle) != 0 {
                let (mut key_bytes, mut value_bytes) = (0, 0);
                let key = (calls.iterator_key)(records.handle, &mut key_bytes);
                let value = (calls.iterator_value)(records.handle, &mut value_bytes);
                lent += 1;
                if !each(slice(key, key_bytes), slice(value, value_bytes)) {
                    break;
                }
                // A move costs, so the iterator does not move after the last wanted record.
                if lent < limit {
                    (calls.iterator_next)(records.handle);
                }
            }
            let mut error = std::ptr::null_mut();
            (calls.iterator_error)(records.handle, &mut error);
            calls.outcome("scan", error)?;
        }
        Ok(lent)
    }
}

impl Store for RocksStudyStore {
    fn name(&self) -> String {
        let level = match self.durability {
            Durability::Process => String::new(),
            other => format!(", {}", other.name()),
        };
        let file = Path::new(self.library).file_name();
        let file = file.unwrap_or_default().to_string_lossy();
        format!("rocksdb (study, {file}{level})")
    }

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        let Some((value, length)) = self.counted(|| self.get_at_once(key))? else {
            return Ok(false);
        };
        // SAFETY: not null, so `length` bytes that are ours until `value` is dropped.
        check(unsafe { slice(value.handle.cast(), length) });
        Ok(true)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        let mut error = std::ptr::null_mut();
        // SAFETY: open database and write options; key and value live through the call.
        unsafe {
            (self.calls.put)(
                self.database.handle,
                self.write.handle,
                key.as_ptr(),
                key.len(),
                value.as_ptr(),
                value.len(),
                &mut error,
            );
        }
        self.calls.outcome("put", error)
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        let mut error = std::ptr::null_mut();
        // SAFETY: as for a put.
        unsafe {
            (self.calls.delete)(
                self.database.handle,
                self.write.handle,
                key.as_ptr(),
                key.len(),
                &mut error,
            );
        }
        self.calls.outcome("delete", error)
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        self.counted(|| self.scan_at_once(from, limit, each))
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> StoreResult<()> {
        let calls = self.calls;
        let mut error = std::ptr::null_mut();
        // SAFETY: the batch is this call's alone and copies what is put into it.
        unsafe {
            let batch = Owned {
                handle: (calls.batch)(),
                destroy: calls.batch_destroy,
            };
            for write in writes {
                match write {
                    BatchWrite::Put(key, value) => (calls.batch_put)(
                        batch.handle,
                        key.as_ptr(),
                        key.len(),
                        value.as_ptr(),
                        value.len(),
                    ),
                    BatchWrite::Delete(key) => {
                        (calls.batch_delete)(batch.handle, key.as_ptr(), key.len());
                    }
                }
            }
            (calls.write)(
                self.database.handle,
                self.write.handle,
                batch.handle,
                &mut error,
            );
        }
        calls.outcome("batch", error)
    }

    fn stats(&self) -> Vec<Figure> {
        // SAFETY: open options with statistics; the text is freed by `text`.
        let text = unsafe { (self.calls.statistics)(self.options.handle) };
        let text = self.calls.text(text).unwrap_or_default();
        let counter = |name, value| Figure {
            name,
            value,
            kind: FigureKind::Counter,
        };
        let own = [
            (BLOCKS_READ, &self.blocks_read),
            (BLOCKS_READ_BYTES, &self.blocks_read_bytes),
            (BLOCKS_HIT, &self.blocks_hit),
        ];
        let own = own.map(|(name, counted)| counter(name, counted.load(Ordering::Relaxed)));
        let tickers = TICKERS.map(|(name, ticker)| counter(name, ticker_of(&text, ticker)));
        own.into_iter().chain(tickers).collect()
    }

    fn settle_debt(&self) -> StoreResult<()> {
        let mut error = std::ptr::null_mut();
        // SAFETY: open database; the options are this call's. They wait by default.
        unsafe {
            let options = Owned {
                handle: (self.calls.flush_options)(),
                destroy: self.calls.flush_options_destroy,
            };
            (self.calls.flush)(self.database.handle, options.handle, &mut error);
        }
        self.calls.outcome("settle_debt", error)?;
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
