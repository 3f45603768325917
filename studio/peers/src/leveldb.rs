//! LevelDB and PebblesDB: log-structured merge trees in C++ behind the same C interface, so one
//! adapter serves both. Neither is linked: the library is loaded when it is first asked for, and a
//! machine without it builds and runs everything else.
//!
//! | store | variable that names the library | else |
//! |---|---|---|
//! | LevelDB | `EVENDB_LEVELDB_LIB` | `libleveldb.so.1d`, `libleveldb.so.1`, `libleveldb.so` |
//! | PebblesDB | `EVENDB_PEBBLESDB_LIB` | `libpebblesdb.so` |
//!
//! Settings, the same for both: uncompressed, block cache a third of the memory, filters of 10 bits
//! per key, a write buffer of a sixteenth of the memory (4 to 64 MiB), the rest are the defaults.
//! The rest of the memory is the page cache's. Paying the debt is writing the memtable out and
//! waiting until the library's own account of its compactions and the process both rest.
//!
//! | level | setting |
//! |---|---|
//! | sync | `leveldb_writeoptions_set_sync`: `fdatasync` of the log (PebblesDB: `msync` of it) |
//! | process | its default: the log is in the page cache, not synced |
//! | relaxed | the same: the interface offers nothing weaker |
//!
//! Thread safety: the interface's database, read options and write options may be used by many
//! threads at once; iterators and batches stay in one call. A library is never unloaded.

#![expect(unsafe_code, reason = "a C interface that is loaded at run time")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use evendb_lab::opener::Durability;
use evendb_lab::store::{BatchWrite, Figure, Store, StoreError, StoreResult};

use crate::loaded::{Handle, Owned, Wanted, calls, slice};
use crate::rest::wait_for_rest;

/// The two stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// LevelDB.
    LevelDb,
    /// PebblesDB.
    PebblesDb,
}

impl Kind {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::LevelDb => "leveldb",
            Kind::PebblesDb => "pebblesdb",
        }
    }

    fn variable(self) -> &'static str {
        match self {
            Kind::LevelDb => "EVENDB_LEVELDB_LIB",
            Kind::PebblesDb => "EVENDB_PEBBLESDB_LIB",
        }
    }

    fn usual_names(self) -> &'static [&'static str] {
        match self {
            Kind::LevelDb => &["libleveldb.so.1d", "libleveldb.so.1", "libleveldb.so"],
            Kind::PebblesDb => &["libpebblesdb.so"],
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Kind::LevelDb => {
                "install it by scripts/peers-install, or name the file in EVENDB_LEVELDB_LIB"
            }
            Kind::PebblesDb => {
                "build its shared library from its public source and name the file in \
                 EVENDB_PEBBLESDB_LIB (docs/peers.md)"
            }
        }
    }

    /// Why this store cannot be opened on this machine, and what helps. `None` if it can.
    #[must_use]
    pub fn unavailable(self) -> Option<String> {
        self.calls().err().map(str::to_owned)
    }

    /// The library, loaded by the first caller.
    fn calls(self) -> Result<&'static Calls, &'static str> {
        static LEVELDB: OnceLock<Result<Calls, String>> = OnceLock::new();
        static PEBBLESDB: OnceLock<Result<Calls, String>> = OnceLock::new();
        let once = match self {
            Kind::LevelDb => &LEVELDB,
            Kind::PebblesDb => &PEBBLESDB,
        };
        let loaded = once.get_or_init(|| self.load());
        loaded.as_ref().map_err(String::as_str)
    }

    fn load(self) -> Result<Calls, String> {
        let wanted = Wanted {
            store: self.name(),
            variable: self.variable(),
            usual_names: self.usual_names(),
            remedy: self.remedy(),
        };
        Ok(wanted.load(Calls::find)?.0)
    }
}

calls! {
    open = b"leveldb_open\0" (Handle, *const c_char, *mut *mut c_char) -> Handle;
    close = b"leveldb_close\0" (Handle);
    put = b"leveldb_put\0"
        (Handle, Handle, *const u8, usize, *const u8, usize, *mut *mut c_char);
    delete = b"leveldb_delete\0" (Handle, Handle, *const u8, usize, *mut *mut c_char);
    write = b"leveldb_write\0" (Handle, Handle, Handle, *mut *mut c_char);
    get = b"leveldb_get\0"
        (Handle, Handle, *const u8, usize, *mut usize, *mut *mut c_char) -> *mut c_char;
    property = b"leveldb_property_value\0" (Handle, *const c_char) -> *mut c_char;
    compact_range = b"leveldb_compact_range\0" (Handle, *const u8, usize, *const u8, usize);
    free = b"leveldb_free\0" (*mut c_void);
    iterator = b"leveldb_create_iterator\0" (Handle, Handle) -> Handle;
    iterator_destroy = b"leveldb_iter_destroy\0" (Handle);
    iterator_valid = b"leveldb_iter_valid\0" (Handle) -> u8;
    iterator_seek = b"leveldb_iter_seek\0" (Handle, *const u8, usize);
    iterator_next = b"leveldb_iter_next\0" (Handle);
    iterator_key = b"leveldb_iter_key\0" (Handle, *mut usize) -> *const u8;
    iterator_value = b"leveldb_iter_value\0" (Handle, *mut usize) -> *const u8;
    iterator_error = b"leveldb_iter_get_error\0" (Handle, *mut *mut c_char);
    batch = b"leveldb_writebatch_create\0" () -> Handle;
    batch_destroy = b"leveldb_writebatch_destroy\0" (Handle);
    batch_put = b"leveldb_writebatch_put\0" (Handle, *const u8, usize, *const u8, usize);
    batch_delete = b"leveldb_writebatch_delete\0" (Handle, *const u8, usize);
    options = b"leveldb_options_create\0" () -> Handle;
    options_destroy = b"leveldb_options_destroy\0" (Handle);
    set_create_if_missing = b"leveldb_options_set_create_if_missing\0" (Handle, u8);
    set_compression = b"leveldb_options_set_compression\0" (Handle, c_int);
    set_write_buffer_size = b"leveldb_options_set_write_buffer_size\0" (Handle, usize);
    set_cache = b"leveldb_options_set_cache\0" (Handle, Handle);
    set_filter_policy = b"leveldb_options_set_filter_policy\0" (Handle, Handle);
    cache = b"leveldb_cache_create_lru\0" (usize) -> Handle;
    cache_destroy = b"leveldb_cache_destroy\0" (Handle);
    bloom = b"leveldb_filterpolicy_create_bloom\0" (c_int) -> Handle;
    filter_policy_destroy = b"leveldb_filterpolicy_destroy\0" (Handle);
    read_options = b"leveldb_readoptions_create\0" () -> Handle;
    read_options_destroy = b"leveldb_readoptions_destroy\0" (Handle);
    write_options = b"leveldb_writeoptions_create\0" () -> Handle;
    write_options_destroy = b"leveldb_writeoptions_destroy\0" (Handle);
    set_sync = b"leveldb_writeoptions_set_sync\0" (Handle, u8);
    major_version = b"leveldb_major_version\0" () -> c_int;
    minor_version = b"leveldb_minor_version\0" () -> c_int;
}

impl Calls {
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

/// A LevelDB or PebblesDB database.
pub struct LevelDbStore {
    calls: &'static Calls,
    kind: Kind,
    durability: Durability,
    // Dropped in this order: the database before the objects with which it was opened.
    database: Owned,
    read: Owned,
    write: Owned,
    _options: Owned,
    _cache: Owned,
    _filter: Owned,
}

// SAFETY: the interface allows concurrent calls on the database; options are only read after
// `open`.
unsafe impl Send for LevelDbStore {}
// SAFETY: as above.
unsafe impl Sync for LevelDbStore {}

impl LevelDbStore {
    /// Opens or makes a database in this directory, for `memory_bytes` bytes of memory in all. They
    /// include the write buffer, if its size is not given.
    ///
    /// # Errors
    /// The library is not here, or its own error.
    pub fn open(
        kind: Kind,
        path: &Path,
        memory_bytes: u64,
        write_buffer_bytes: Option<u64>,
        durability: Durability,
    ) -> StoreResult<Self> {
        let calls = kind
            .calls()
            .map_err(|why| StoreError::new("open", why.to_owned()))?;
        let name = CString::new(path.as_os_str().as_bytes());
        let name = name.map_err(|error| StoreError::new("open", error))?;
        let buffer = write_buffer_bytes.unwrap_or((memory_bytes / 16).clamp(4 << 20, 64 << 20));
        let write_buffer_bytes = usize::try_from(buffer).unwrap_or(usize::MAX);
        let memory_bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        let owned = |handle, destroy| Owned { handle, destroy };
        // SAFETY: every handle goes to functions of its own kind only, is destroyed once (by its
        // `Owned`), and the database before the rest by the order of the fields. `name` outlives
        // the call.
        unsafe {
            let options = owned((calls.options)(), calls.options_destroy);
            let cache = owned((calls.cache)(memory_bytes / 3), calls.cache_destroy);
            let filter = owned((calls.bloom)(10), calls.filter_policy_destroy);
            (calls.set_create_if_missing)(options.handle, 1);
            (calls.set_compression)(options.handle, 0);
            (calls.set_write_buffer_size)(options.handle, write_buffer_bytes);
            (calls.set_cache)(options.handle, cache.handle);
            (calls.set_filter_policy)(options.handle, filter.handle);
            let read = owned((calls.read_options)(), calls.read_options_destroy);
            let write = owned((calls.write_options)(), calls.write_options_destroy);
            (calls.set_sync)(write.handle, u8::from(durability == Durability::Sync));
            let mut error = std::ptr::null_mut();
            let database = (calls.open)(options.handle, name.as_ptr(), &mut error);
            calls.outcome("open", error)?;
            Ok(Self {
                calls,
                kind,
                durability,
                database: owned(database, calls.close),
                read,
                write,
                _options: options,
                _cache: cache,
                _filter: filter,
            })
        }
    }

    /// The library's own account of its levels and compactions.
    fn account(&self) -> String {
        // SAFETY: an open database and a NUL-terminated name; the text is freed by `text`.
        let text =
            unsafe { (self.calls.property)(self.database.handle, c"leveldb.stats".as_ptr()) };
        self.calls.text(text).unwrap_or_default()
    }
}

impl Store for LevelDbStore {
    fn name(&self) -> String {
        // SAFETY: these take nothing and return a number.
        let (major, minor) =
            unsafe { ((self.calls.major_version)(), (self.calls.minor_version)()) };
        let level = match self.durability {
            Durability::Process => String::new(),
            other => format!(", {}", other.name()),
        };
        match self.kind {
            Kind::LevelDb => format!("leveldb ({major}.{minor}{level})"),
            // It kept the version number of the LevelDB that it comes from.
            Kind::PebblesDb => format!("pebblesdb (of leveldb {major}.{minor}{level})"),
        }
    }

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
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
        let Some(value) = value else { return Ok(false) };
        // SAFETY: not null, so `length` bytes that are ours until `value` is dropped.
        check(unsafe { std::slice::from_raw_parts(value.handle.cast(), length) });
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
        Vec::new()
    }

    fn settle_debt(&self) -> StoreResult<()> {
        // A range beyond all keys: the memtable is written out for any range, and there is nothing
        // else to compact.
        let beyond = [0xff; 64];
        // SAFETY: open database; the bounds live through the call.
        unsafe {
            (self.calls.compact_range)(
                self.database.handle,
                beyond.as_ptr(),
                beyond.len(),
                beyond.as_ptr(),
                beyond.len(),
            );
        }
        // The interface cannot wait for compactions.
        wait_for_rest(|| self.account());
        Ok(())
    }

    fn close(self: Box<Self>) -> StoreResult<()> {
        Ok(())
    }
}
