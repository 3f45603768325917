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

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::sync::OnceLock;

use evendb_lab::opener::Durability;
use evendb_lab::store::{Figure, Store, StoreError, StoreResult};

use crate::loaded::{Handle, Loaded, Owned, Records, Wanted, calls};
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
    fn calls(self) -> Result<&'static Loaded<Calls>, &'static str> {
        static LEVELDB: OnceLock<Result<Loaded<Calls>, String>> = OnceLock::new();
        static PEBBLESDB: OnceLock<Result<Loaded<Calls>, String>> = OnceLock::new();
        let once = match self {
            Kind::LevelDb => &LEVELDB,
            Kind::PebblesDb => &PEBBLESDB,
        };
        let loaded = once.get_or_init(|| self.load());
        loaded.as_ref().map_err(String::as_str)
    }

    fn load(self) -> Result<Loaded<Calls>, String> {
        let wanted = Wanted {
            store: self.name(),
            prefix: "leveldb",
            variable: self.variable(),
            usual_names: self.usual_names(),
            remedy: self.remedy(),
        };
        wanted.load(Calls::find)
    }
}

calls! { Calls:
    property = "property_value" (Handle, *const c_char) -> *mut c_char;
    compact_range = "compact_range" (Handle, *const u8, usize, *const u8, usize);
    set_cache = "options_set_cache" (Handle, Handle);
    set_filter_policy = "options_set_filter_policy" (Handle, Handle);
    bloom = "filterpolicy_create_bloom" (c_int) -> Handle;
    filter_policy_destroy = "filterpolicy_destroy" (Handle);
    major_version = "major_version" () -> c_int;
    minor_version = "minor_version" () -> c_int;
}

/// A LevelDB or PebblesDB database.
pub struct LevelDbStore {
    calls: &'static Loaded<Calls>,
    kind: Kind,
    durability: Durability,
    // Dropped in this order: the database before the objects with which it was opened.
    records: Records,
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
        let buffer = write_buffer_bytes.unwrap_or((memory_bytes / 16).clamp(4 << 20, 64 << 20));
        let write_buffer_bytes = usize::try_from(buffer).unwrap_or(usize::MAX);
        let memory_bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        let owned = |handle, destroy| Owned { handle, destroy };
        let (common, own) = (&calls.common, &calls.own);
        // SAFETY: every handle goes to functions of its own kind only, is destroyed once (by its
        // `Owned`), and the database before the rest by the order of the fields.
        let (options, cache, filter) = unsafe {
            let options = owned((common.options)(), common.options_destroy);
            let cache = owned((common.cache)(memory_bytes / 3), common.cache_destroy);
            let filter = owned((own.bloom)(10), own.filter_policy_destroy);
            (common.set_create_if_missing)(options.handle, 1);
            (common.set_compression)(options.handle, 0);
            (common.set_write_buffer_size)(options.handle, write_buffer_bytes);
            (own.set_cache)(options.handle, cache.handle);
            (own.set_filter_policy)(options.handle, filter.handle);
            (options, cache, filter)
        };
        Ok(Self {
            calls,
            kind,
            durability,
            records: Records::open(common, path, &options, durability)?,
            _options: options,
            _cache: cache,
            _filter: filter,
        })
    }

    /// The library's own account of its levels and compactions.
    fn account(&self) -> String {
        // SAFETY: an open database and a NUL-terminated name; the text is freed by `text`.
        let text = unsafe {
            (self.calls.own.property)(self.records.database.handle, c"leveldb.stats".as_ptr())
        };
        self.calls.common.text(text).unwrap_or_default()
    }
}

impl Store for LevelDbStore {
    evendb_lab::passed_on!(records: put, delete, scan, batch);

    fn name(&self) -> String {
        let own = &self.calls.own;
        // SAFETY: these take nothing and return a number.
        let (major, minor) = unsafe { ((own.major_version)(), (own.minor_version)()) };
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
        let value = self.records.get(key)?;
        Ok(value.map(|value| check(value.bytes())).is_some())
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
            (self.calls.own.compact_range)(
                self.records.database.handle,
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
