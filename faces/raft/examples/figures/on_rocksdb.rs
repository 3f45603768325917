//! RocksDB, by the C interface of its shared library, which is loaded when it is asked for:
//! Debian's package `librocksdb7.8`, or the file that `EVENDB_ROCKSDB_LIB` names.
//!
//! As the storages among openraft's examples do it: default settings (without compression, as for
//! all stores here); a batch is written, and a thread makes it durable by `flush_wal` with a sync.
//! Entries are postcard instead of JSON, so that the bytes of the formats do not count. The state,
//! which is in memory there, is a database without a write-ahead log here.
//!
//! Thread safety: the interface's database and options may be used by many threads at once;
//! iterators and batches stay in one call. The library is never unloaded.

#![expect(unsafe_code, reason = "a C interface that is loaded at run time")]

use super::baseline::{Record, Store};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

/// An object of the library. Only the library looks into it.
type Handle = *mut c_void;
/// Where a call leaves the text of an error.
type Error = *mut *mut c_char;

/// Declares [`Calls`]: one pointer for each function, by its name in the library.
macro_rules! calls {
    ($($field:ident = $symbol:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that are used here. All take what the interface's header says.
        struct Calls {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Calls {
            fn find(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of the interface's header, which has kept them
                // through all versions.
                unsafe { Ok(Self { $($field: *library.get($symbol)?,)* }) }
            }
        }
    };
}

calls! {
    open = b"rocksdb_open\0" (Handle, *const c_char, Error) -> Handle;
    close = b"rocksdb_close\0" (Handle);
    write = b"rocksdb_write\0" (Handle, Handle, Handle, Error);
    flush_wal = b"rocksdb_flush_wal\0" (Handle, u8, Error);
    flush = b"rocksdb_flush\0" (Handle, Handle, Error);
    flush_options = b"rocksdb_flushoptions_create\0" () -> Handle;
    free = b"rocksdb_free\0" (*mut c_void);
    options = b"rocksdb_options_create\0" () -> Handle;
    set_create = b"rocksdb_options_set_create_if_missing\0" (Handle, u8);
    set_compression = b"rocksdb_options_set_compression\0" (Handle, c_int);
    write_options = b"rocksdb_writeoptions_create\0" () -> Handle;
    disable_log = b"rocksdb_writeoptions_disable_WAL\0" (Handle, c_int);
    read_options = b"rocksdb_readoptions_create\0" () -> Handle;
    batch = b"rocksdb_writebatch_create\0" () -> Handle;
    batch_put = b"rocksdb_writebatch_put\0" (Handle, *const u8, usize, *const u8, usize);
    batch_delete = b"rocksdb_writebatch_delete_range\0"
        (Handle, *const u8, usize, *const u8, usize);
    batch_destroy = b"rocksdb_writebatch_destroy\0" (Handle);
    iterator = b"rocksdb_create_iterator\0" (Handle, Handle) -> Handle;
    iterator_seek = b"rocksdb_iter_seek\0" (Handle, *const u8, usize);
    iterator_valid = b"rocksdb_iter_valid\0" (Handle) -> u8;
    iterator_next = b"rocksdb_iter_next\0" (Handle);
    iterator_key = b"rocksdb_iter_key\0" (Handle, *mut usize) -> *const u8;
    iterator_value = b"rocksdb_iter_value\0" (Handle, *mut usize) -> *const u8;
    iterator_error = b"rocksdb_iter_get_error\0" (Handle, Error);
    iterator_destroy = b"rocksdb_iter_destroy\0" (Handle);
}

/// The library.
pub struct RocksDb(Calls);

/// A database.
pub struct Rocks {
    library: Arc<RocksDb>,
    db: Handle,
    write: Handle,
    read: Handle,
    has_log: bool,
}

// SAFETY: the library lets all threads use a database and its options at once; nothing changes the
// options after the opening.
unsafe impl Send for Rocks {}
// SAFETY: as above.
unsafe impl Sync for Rocks {}

impl RocksDb {
    /// Loads the library.
    ///
    /// # Errors
    /// If it is not here.
    pub fn load() -> io::Result<Arc<RocksDb>> {
        let named = std::env::var("EVENDB_ROCKSDB_LIB");
        let name = named.unwrap_or_else(|_| "librocksdb.so.7.8".to_owned());
        // SAFETY: the file that the user names, or that the distribution installed under this name,
        // is trusted to be that library; its initialisers need nothing from us.
        let library = unsafe { Library::new(&name) }.map_err(io::Error::other)?;
        let calls = Calls::find(&library).map_err(io::Error::other);
        // C++ libraries with threads and thread-local state are not safe to unload.
        std::mem::forget(library);
        Ok(Arc::new(RocksDb(calls?)))
    }

    /// Makes a call that may leave the text of an error.
    fn try_call<T>(&self, call: impl FnOnce(&Calls, Error) -> T) -> io::Result<T> {
        let mut error: *mut c_char = null_mut();
        let result = call(&self.0, &mut error);
        if error.is_null() {
            return Ok(result);
        }
        // SAFETY: the library left a text that ends with a zero, which the caller frees.
        let text = unsafe {
            let text = CStr::from_ptr(error).to_string_lossy().into_owned();
            (self.0.free)(error.cast());
            text
        };
        Err(io::Error::other(text))
    }
}

impl Rocks {
    /// Makes a database in this directory, with a write-ahead log or without.
    ///
    /// # Errors
    /// RocksDB's own.
    pub fn open(library: &Arc<RocksDb>, dir: &Path, has_log: bool) -> io::Result<Arc<Rocks>> {
        std::fs::create_dir_all(dir)?;
        let path = CString::new(dir.to_str().ok_or(io::ErrorKind::InvalidInput)?)?;
        // SAFETY: handles are of the library's making, and the path ends with a zero. The options
        // live as long as the process.
        let (db, write, read) = unsafe {
            let calls = &library.0;
            let options = (calls.options)();
            (calls.set_create)(options, 1);
            (calls.set_compression)(options, 0);
            let open = |calls: &Calls, error| (calls.open)(options, path.as_ptr(), error);
            let db = library.try_call(open)?;
            let write = (calls.write_options)();
            (calls.disable_log)(write, c_int::from(!has_log));
            (db, write, (calls.read_options)())
        };
        Ok(Arc::new(Rocks {
            library: library.clone(),
            db,
            write,
            read,
            has_log,
        }))
    }

    /// Writes what `fill` puts into a batch.
    fn batch(&self, fill: impl FnOnce(&Calls, Handle)) -> io::Result<()> {
        let calls = &self.library.0;
        // SAFETY: no arguments.
        let batch = unsafe { (calls.batch)() };
        fill(calls, batch);
        let written = self.library.try_call(|calls, error| {
            // SAFETY: all handles are of the library's making, and open.
            unsafe { (calls.write)(self.db, self.write, batch, error) }
        });
        // SAFETY: the batch is not used any more.
        unsafe { (calls.batch_destroy)(batch) };
        written
    }

    /// Gives records from a key on, until `each` returns false.
    fn scan(&self, from: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> bool) -> io::Result<()> {
        let calls = &self.library.0;
        // SAFETY: handles are of the library's making; slices are as long as they say; what the
        // iterator lends lives until it moves.
        unsafe {
            let iterator = (calls.iterator)(self.db, self.read);
            (calls.iterator_seek)(iterator, from.as_ptr(), from.len());
            while (calls.iterator_valid)(iterator) != 0 {
                let (mut key_len, mut value_len) = (0, 0);
                let key = (calls.iterator_key)(iterator, &mut key_len);
                let value = (calls.iterator_value)(iterator, &mut value_len);
                let key = std::slice::from_raw_parts(key, key_len);
                let value = std::slice::from_raw_parts(value, value_len);
                if !each(key, value) {
                    break;
                }
                (calls.iterator_next)(iterator);
            }
            let error = |calls: &Calls, error| (calls.iterator_error)(iterator, error);
            let scanned = self.library.try_call(error);
            (calls.iterator_destroy)(iterator);
            scanned
        }
    }
}

impl Store for Rocks {
    const SYNCS_APART: bool = true;

    fn put(&self, records: &[Record], is_durable: bool) -> io::Result<()> {
        self.batch(|calls, batch| {
            for (key, value) in records {
                let (key, value) = (&key[..], &value[..]);
                // SAFETY: the batch is open, and copies the bytes.
                unsafe {
                    (calls.batch_put)(batch, key.as_ptr(), key.len(), value.as_ptr(), value.len());
                }
            }
        })?;
        if is_durable { self.sync() } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        // SAFETY: the database is open.
        let sync = |calls: &Calls, error| unsafe { (calls.flush_wal)(self.db, 1, error) };
        if self.has_log {
            self.library.try_call(sync)
        } else {
            Ok(())
        }
    }

    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut found = None;
        self.scan(key, |at, value| {
            found = (at == key).then(|| value.to_vec());
            false
        })?;
        Ok(found)
    }

    fn range(&self, from: &[u8], until: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        self.scan(from, |key, value| {
            let is_in = key < until;
            if is_in {
                found.push(value.to_vec());
            }
            is_in
        })?;
        Ok(found)
    }

    fn delete(&self, from: &[u8], until: &[u8]) -> io::Result<()> {
        self.batch(|calls, batch| {
            // SAFETY: the batch is open, and copies the bytes.
            unsafe {
                let (until_at, until_len) = (until.as_ptr(), until.len());
                (calls.batch_delete)(batch, from.as_ptr(), from.len(), until_at, until_len);
            }
        })?;
        self.sync()
    }

    fn settle(&self) -> io::Result<()> {
        self.library.try_call(|calls, error| {
            // SAFETY: the database is open; these options say that the call waits.
            unsafe { (calls.flush)(self.db, (calls.flush_options)(), error) }
        })
    }
}

impl Drop for Rocks {
    fn drop(&mut self) {
        // SAFETY: nobody uses the database any more.
        unsafe { (self.library.0.close)(self.db) };
    }
}
