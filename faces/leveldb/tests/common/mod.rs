//! The C functions as a test calls them: handles that are given back, errors as texts.
#![allow(dead_code, reason = "each test binary uses a part")]

use leveldb::*;
use std::ffi::{CStr, CString, c_char};
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr;

pub type Outcome<T> = Result<T, String>;

/// The text that a function returned.
pub fn text(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: a text of the library, which is freed once.
    unsafe {
        let copy = CStr::from_ptr(text).to_str().unwrap().to_owned();
        leveldb_free(text.cast());
        Some(copy)
    }
}

/// The result of a call, and the error that it left.
pub fn outcome<T>(call: impl FnOnce(Option<&mut *mut c_char>) -> T) -> Outcome<T> {
    let mut error = ptr::null_mut();
    let returned = call(Some(&mut error));
    text(error).map_or(Ok(returned), Err)
}

pub fn c_path(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

pub fn bytes(bytes: &[u8]) -> (*const c_char, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}

/// Options that create a database with the layout of this test binary: `tests/guards.rs` includes
/// the tests of the others.
pub fn creating() -> Box<Options> {
    let mut options = leveldb_options_create();
    leveldb_options_set_create_if_missing(&mut options, 1);
    let guards = env!("CARGO_CRATE_NAME") == "guards";
    set_layout(&mut options, if guards { c"guards" } else { c"chunks" });
    options
}

pub fn set_layout(options: &mut Options, name: &CStr) {
    // SAFETY: a text that outlives the call.
    unsafe { evendb_leveldb_options_set_layout(options, name.as_ptr()) }
}

/// An open database with default options for reads and writes.
pub struct Store {
    database: Option<Box<Database>>,
    pub read: Box<ReadOptions>,
    pub write: Box<WriteOptions>,
}

impl Store {
    pub fn open(path: &Path) -> Store {
        Store::open_with(path, &creating()).unwrap()
    }

    pub fn open_with(path: &Path, options: &Options) -> Outcome<Store> {
        let name = c_path(path);
        // SAFETY: a text that outlives the call.
        let opened = outcome(|error| unsafe { leveldb_open(options, name.as_ptr(), error) })?;
        Ok(Store {
            database: Some(opened.expect("a database or an error")),
            read: leveldb_readoptions_create(),
            write: leveldb_writeoptions_create(),
        })
    }

    pub fn database(&self) -> &Database {
        self.database.as_deref().unwrap()
    }

    pub fn close(&mut self) {
        leveldb_close(self.database.take());
    }

    pub fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let ((key, key_len), (value, value_len)) = (bytes(key), bytes(value));
        outcome(|error| {
            // SAFETY: bytes that outlive the call.
            unsafe {
                leveldb_put(
                    self.database(),
                    &self.write,
                    key,
                    key_len,
                    value,
                    value_len,
                    error,
                );
            }
        })
    }

    pub fn delete(&self, key: &[u8]) -> Outcome<()> {
        let (key, len) = bytes(key);
        // SAFETY: bytes that outlive the call.
        outcome(|error| unsafe { leveldb_delete(self.database(), &self.write, key, len, error) })
    }

    pub fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        self.get_with(&self.read, key)
    }

    pub fn get_with(&self, options: &ReadOptions, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        let (key, key_len) = bytes(key);
        let mut len = MaybeUninit::uninit();
        let value = outcome(|error| {
            // SAFETY: bytes that outlive the call.
            unsafe { leveldb_get(self.database(), options, key, key_len, &mut len, error) }
        })?;
        // SAFETY: the call has written it.
        let len = unsafe { len.assume_init() };
        if value.is_null() {
            assert_eq!(len, 0);
            return Ok(None);
        }
        // SAFETY: `len` bytes of the library, which are freed once.
        unsafe {
            let copy = std::slice::from_raw_parts(value.cast(), len).to_vec();
            leveldb_free(value.cast());
            Ok(Some(copy))
        }
    }

    pub fn write(&self, batch: &WriteBatch) -> Outcome<()> {
        outcome(|error| leveldb_write(self.database(), &self.write, batch, error))
    }

    pub fn property(&self, name: &CStr) -> Option<String> {
        // SAFETY: a text that outlives the call.
        text(unsafe { leveldb_property_value(self.database(), name.as_ptr()) })
    }

    pub fn size(&self, start: &[u8], limit: &[u8]) -> u64 {
        let ((start, start_len), (limit, limit_len)) = (bytes(start), bytes(limit));
        let mut size = u64::MAX;
        // SAFETY: arrays of one element each that outlive the call.
        unsafe {
            leveldb_approximate_sizes(
                self.database(),
                1,
                &start,
                &start_len,
                &limit,
                &limit_len,
                &mut size,
            );
        }
        size
    }

    pub fn compact_all(&self) {
        // SAFETY: both ends are open.
        unsafe { leveldb_compact_range(self.database(), ptr::null(), 0, ptr::null(), 0) };
    }

    pub fn iterator(&self) -> Box<Iterator> {
        leveldb_create_iterator(self.database(), &self.read)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

/// The record of an iterator.
pub fn at(iterator: &Iterator) -> Option<(Vec<u8>, Vec<u8>)> {
    let part = |part: extern "C" fn(&Iterator, &mut MaybeUninit<usize>) -> *const c_char| {
        let mut len = MaybeUninit::uninit();
        let bytes = part(iterator, &mut len);
        // SAFETY: the call has written it.
        let len = unsafe { len.assume_init() };
        if bytes.is_null() {
            assert_eq!(len, 0);
            return None;
        }
        // SAFETY: `len` bytes that the iterator lends, which does not move here.
        Some(unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) }.to_vec())
    };
    let record = part(leveldb_iter_key).zip(part(leveldb_iter_value));
    assert_eq!(leveldb_iter_valid(iterator) != 0, record.is_some());
    record
}

pub fn seek(iterator: &mut Iterator, key: &[u8]) {
    let (key, len) = bytes(key);
    // SAFETY: bytes that outlive the call.
    unsafe { leveldb_iter_seek(iterator, key, len) }
}

pub fn error_of(iterator: &Iterator) -> Outcome<()> {
    outcome(|error| leveldb_iter_get_error(iterator, error))
}

/// All records from the first on.
pub fn all(iterator: &mut Iterator) -> Vec<(Vec<u8>, Vec<u8>)> {
    leveldb_iter_seek_to_first(iterator);
    let mut records = Vec::new();
    while let Some(record) = at(iterator) {
        records.push(record);
        leveldb_iter_next(iterator);
    }
    records
}

pub fn batch_put(batch: &mut WriteBatch, key: &[u8], value: &[u8]) {
    let ((key, key_len), (value, value_len)) = (bytes(key), bytes(value));
    // SAFETY: bytes that outlive the call.
    unsafe { leveldb_writebatch_put(batch, key, key_len, value, value_len) }
}

pub fn batch_delete(batch: &mut WriteBatch, key: &[u8]) {
    let (key, len) = bytes(key);
    // SAFETY: bytes that outlive the call.
    unsafe { leveldb_writebatch_delete(batch, key, len) }
}

pub fn destroy(path: &Path) -> Outcome<()> {
    let name = c_path(path);
    // SAFETY: a text that outlives the call.
    outcome(|error| unsafe { leveldb_destroy_db(&creating(), name.as_ptr(), error) })
}

pub fn repair(path: &Path) -> Outcome<()> {
    let name = c_path(path);
    // SAFETY: a text that outlives the call.
    outcome(|error| unsafe { leveldb_repair_db(&creating(), name.as_ptr(), error) })
}
