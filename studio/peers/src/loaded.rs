//! C interfaces of libraries that are loaded at run time. A machine without such a library builds
//! and runs everything else, and says what it left out.
//!
//! A library is loaded when it is first asked for, and never unloaded: C++ libraries with threads
//! and thread-local state cannot be unloaded safely.
//!
//! LevelDB's interface, and those that kept it, have records, batches and iterators alike under
//! names of their own prefix: [`Records`] serves all of them. What else a store calls, it declares
//! itself by `calls!`.
//!
//! Thread safety: a database and its options may be used by many threads at once; iterators and
//! batches stay in one call.

#![expect(unsafe_code, reason = "a C interface that is loaded at run time")]

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use evendb_lab::opener::Durability;
use evendb_lab::store::{BatchWrite, StoreError, StoreResult};
use libloading::Library;

/// An object of a library. Only the library looks into it.
pub(crate) type Handle = *mut c_void;

/// A library that a store needs.
pub(crate) struct Wanted {
    /// The store's name in messages.
    pub(crate) store: &'static str,
    /// Its functions begin with this and `_`.
    pub(crate) prefix: &'static str,
    /// The environment variable that names the file.
    pub(crate) variable: &'static str,
    /// The files that are tried if the variable is not set.
    pub(crate) usual_names: &'static [&'static str],
    /// What helps if it is not here.
    pub(crate) remedy: &'static str,
}

impl Wanted {
    /// Loads the library, and finds its functions: those of all stores, and by `find` its own.
    ///
    /// # Errors
    /// Why that failed, and what helps.
    pub(crate) fn load<T>(
        &self,
        find: impl FnOnce(&Library, &str) -> Result<T, libloading::Error>,
    ) -> Result<Loaded<T>, String> {
        let named = std::env::var_os(self.variable);
        let usual = || self.usual_names.iter().map(OsString::from).collect();
        let names: Vec<OsString> = named.map_or_else(usual, |name| vec![name]);
        let mut why = String::new();
        for name in names {
            // SAFETY: the file that the user names, or that the distribution installed under this
            // name, is trusted to be that library; its initialisers need nothing from us.
            match unsafe { Library::new(&name) } {
                Ok(library) => {
                    let file = name.to_string_lossy().into_owned();
                    let common = Common::find(&library, self.prefix);
                    let found =
                        common.and_then(|common| Ok((common, find(&library, self.prefix)?)));
                    std::mem::forget(library);
                    return match found {
                        Ok((common, own)) => Ok(Loaded { common, own, file }),
                        Err(error) => Err(format!("{file} lacks a function: {error}")),
                    };
                }
                Err(error) => why = format!("{why}{error}; "),
            }
        }
        Err(format!(
            "the library of {} is not here ({}): {}",
            self.store,
            why.trim_end_matches("; "),
            self.remedy
        ))
    }
}

/// A library, and what was found in it.
pub(crate) struct Loaded<T> {
    pub(crate) common: Common,
    pub(crate) own: T,
    /// The name of its file.
    pub(crate) file: String,
}

/// Declares a type with one pointer for each function, by the function's name without the prefix.
macro_rules! calls {
    ($name:ident: $($field:ident = $function:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Functions of the C interface that are used here. All take what the interface's header
        /// says. A returned bare pointer to characters is freed by `free`.
        pub(crate) struct $name {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $name {
            pub(crate) fn find(
                library: &libloading::Library,
                prefix: &str,
            ) -> Result<Self, libloading::Error> {
                let symbol = |function: &str| format!("{prefix}_{function}\0");
                // SAFETY: the types are those of the interface's header, which the library has kept
                // through all versions that are used here.
                unsafe { Ok(Self { $($field: *library.get(symbol($function).as_bytes())?,)* }) }
            }
        }
    };
}
pub(crate) use calls;

calls! { Common:
    open = "open" (Handle, *const c_char, *mut *mut c_char) -> Handle;
    close = "close" (Handle);
    put = "put" (Handle, Handle, *const u8, usize, *const u8, usize, *mut *mut c_char);
    delete = "delete" (Handle, Handle, *const u8, usize, *mut *mut c_char);
    write = "write" (Handle, Handle, Handle, *mut *mut c_char);
    get = "get" (Handle, Handle, *const u8, usize, *mut usize, *mut *mut c_char) -> *mut c_char;
    free = "free" (*mut c_void);
    iterator = "create_iterator" (Handle, Handle) -> Handle;
    iterator_destroy = "iter_destroy" (Handle);
    iterator_valid = "iter_valid" (Handle) -> u8;
    iterator_seek = "iter_seek" (Handle, *const u8, usize);
    iterator_next = "iter_next" (Handle);
    iterator_key = "iter_key" (Handle, *mut usize) -> *const u8;
    iterator_value = "iter_value" (Handle, *mut usize) -> *const u8;
    iterator_error = "iter_get_error" (Handle, *mut *mut c_char);
    batch = "writebatch_create" () -> Handle;
    batch_destroy = "writebatch_destroy" (Handle);
    batch_put = "writebatch_put" (Handle, *const u8, usize, *const u8, usize);
    batch_delete = "writebatch_delete" (Handle, *const u8, usize);
    options = "options_create" () -> Handle;
    options_destroy = "options_destroy" (Handle);
    set_create_if_missing = "options_set_create_if_missing" (Handle, u8);
    set_compression = "options_set_compression" (Handle, c_int);
    set_write_buffer_size = "options_set_write_buffer_size" (Handle, usize);
    cache = "cache_create_lru" (usize) -> Handle;
    cache_destroy = "cache_destroy" (Handle);
    read_options = "readoptions_create" () -> Handle;
    read_options_destroy = "readoptions_destroy" (Handle);
    write_options = "writeoptions_create" () -> Handle;
    write_options_destroy = "writeoptions_destroy" (Handle);
    set_sync = "writeoptions_set_sync" (Handle, u8);
}

impl Common {
    /// Takes over the text that a call left in its error pointer.
    pub(crate) fn outcome(&self, operation: &'static str, error: *mut c_char) -> StoreResult<()> {
        match self.text(error) {
            None => Ok(()),
            Some(text) => Err(StoreError::new(operation, text)),
        }
    }

    /// Copies and frees a text of the library.
    pub(crate) fn text(&self, text: *mut c_char) -> Option<String> {
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

/// A handle that is destroyed when this is dropped, even after a panic in the caller's closure.
pub(crate) struct Owned {
    pub(crate) handle: Handle,
    pub(crate) destroy: unsafe extern "C" fn(Handle),
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made by the function that belongs to `destroy`, and destroyed once.
        unsafe { (self.destroy)(self.handle) }
    }
}

/// Bytes of a library. An empty slice may have any pointer.
///
/// # Safety
/// `bytes` points to `length` bytes that live and stay unchanged while the result is used.
pub(crate) unsafe fn slice<'a>(bytes: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: of the caller.
    unsafe { std::slice::from_raw_parts(bytes, length) }
}

/// A value that the library gave to us.
pub(crate) struct Value {
    value: Owned,
    length: usize,
}

impl Value {
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: not null, so `length` bytes that are ours until this is dropped.
        unsafe { slice(self.value.handle.cast(), self.length) }
    }
}

/// The records of an open database. It is closed when this is dropped, which comes before the
/// objects with which it was opened go.
pub(crate) struct Records {
    calls: &'static Common,
    // Dropped in this order: the database before its options.
    pub(crate) database: Owned,
    read: Owned,
    write: Owned,
}

// SAFETY: the interface allows concurrent calls on the database; options are only read after
// `open`.
unsafe impl Send for Records {}
// SAFETY: as above.
unsafe impl Sync for Records {}

impl Records {
    /// Opens the database of a directory by these options, which outlive it.
    pub(crate) fn open(
        calls: &'static Common,
        path: &Path,
        options: &Owned,
        durability: Durability,
    ) -> StoreResult<Records> {
        let name = CString::new(path.as_os_str().as_bytes());
        let name = name.map_err(|error| StoreError::new("open", error))?;
        let owned = |handle, destroy| Owned { handle, destroy };
        // SAFETY: every handle goes to functions of its own kind only, and is destroyed once (by
        // its `Owned`). `name` outlives the call.
        unsafe {
            let read = owned((calls.read_options)(), calls.read_options_destroy);
            let write = owned((calls.write_options)(), calls.write_options_destroy);
            (calls.set_sync)(write.handle, u8::from(durability == Durability::Sync));
            let mut error = std::ptr::null_mut();
            let database = (calls.open)(options.handle, name.as_ptr(), &mut error);
            calls.outcome("open", error)?;
            Ok(Records {
                calls,
                database: owned(database, calls.close),
                read,
                write,
            })
        }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> StoreResult<Option<Value>> {
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
        Ok(value.map(|value| Value { value, length }))
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
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

    pub(crate) fn delete(&self, key: &[u8]) -> StoreResult<()> {
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

    /// Lends records from a key on.
    pub(crate) fn scan(
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

    pub(crate) fn batch(&self, writes: &[BatchWrite<'_>]) -> StoreResult<()> {
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
}
