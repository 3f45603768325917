//! Databases and their snapshots: opening and closing, reads and writes, figures, and operations on
//! a database that is not open.
//!
//! A database knows its snapshots, so that closing it frees the snapshots that were never released:
//! they would keep its memory. Iterators that still exist when it is closed answer with an error,
//! and have to be destroyed all the same.

use crate::batch::WriteBatch;
use crate::engine::{self, Engine, Moment, Write};
use crate::error::{ErrorPlace, Result, tell};
use crate::iterator::Iterator;
use crate::memory::{self, path, slice};
use crate::options::{Options, ReadOptions, WriteOptions};
use crate::{property, repair};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// `leveldb_t`.
pub struct Database {
    engine: Engine,
    /// The snapshots that are not released yet, by their addresses. No other lock is held while it
    /// is locked.
    snapshots: Mutex<HashMap<usize, Arc<Snapshot>>>,
}

/// `leveldb_snapshot_t`.
pub struct Snapshot {
    moment: Result<Arc<Moment>>,
}

impl Snapshot {
    pub(crate) fn moment(&self) -> Result<&Arc<Moment>> {
        self.moment.as_ref().map_err(Clone::clone)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.snapshots.get_mut().clear();
        self.engine.close();
    }
}

/// Opens the database in a directory.
///
/// # Safety
/// `name` is a text; `error` is as [the crate](crate) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_open(
    options: &Options,
    name: *const c_char,
    error: ErrorPlace<'_>,
) -> Option<Box<Database>> {
    // SAFETY: the caller's text, for this call.
    let opened = engine::open(unsafe { path(name) }, options);
    let database = |engine| Database {
        engine,
        snapshots: Mutex::default(),
    };
    tell(error, opened.map(database)).map(Box::new)
}

/// Closes a database.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_close(_database: Option<Box<Database>>) {}

/// Puts a value.
///
/// # Safety
/// Bytes and errors are as [the crate](crate) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_put(
    database: &Database,
    options: &WriteOptions,
    key: *const c_char,
    key_len: usize,
    value: *const c_char,
    value_len: usize,
    error: ErrorPlace<'_>,
) {
    // SAFETY: the caller's bytes, for this call.
    let (key, value) = unsafe { (slice(key, key_len), slice(value, value_len)) };
    let written = database
        .engine
        .write(&[Write::Put(key, value)], options.sync);
    tell(error, written);
}

/// Deletes a key.
///
/// # Safety
/// Bytes and errors are as [the crate](crate) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_delete(
    database: &Database,
    options: &WriteOptions,
    key: *const c_char,
    key_len: usize,
    error: ErrorPlace<'_>,
) {
    // SAFETY: the caller's bytes, for this call.
    let key = unsafe { slice(key, key_len) };
    tell(
        error,
        database.engine.write(&[Write::Delete(key)], options.sync),
    );
}

/// Does all writes of a batch, or none. The batch stays as it is.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_write(
    database: &Database,
    options: &WriteOptions,
    batch: &WriteBatch,
    error: ErrorPlace<'_>,
) {
    tell(error, database.engine.write(&batch.writes(), options.sync));
}

/// The value of a key, which the caller frees, and its length; NULL and 0 if there is none, or an
/// error.
///
/// # Safety
/// Bytes and errors are as [the crate](crate) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_get(
    database: &Database,
    options: &ReadOptions,
    key: *const c_char,
    key_len: usize,
    value_len: &mut MaybeUninit<usize>,
    error: ErrorPlace<'_>,
) -> *mut c_char {
    // SAFETY: the caller's bytes, for this call.
    let key = unsafe { slice(key, key_len) };
    let (mut copy, mut len) = (std::ptr::null_mut(), 0);
    let mut take = |value: &[u8]| (copy, len) = (memory::bytes(value), value.len());
    tell(error, read(database, options, key, &mut take));
    value_len.write(len);
    copy
}

/// Lends the value of a key to a callback, which is not called if there is none. Returns 1 if there
/// is a value, and 0 if there is none or after an error. LevelDB does not have this function: the
/// value is not copied for the caller. An exception of a C++ callback goes through.
///
/// # Safety
/// Bytes and errors are as [the crate](crate) says, and the callback may be called with `state`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn evendb_leveldb_get(
    database: &Database,
    options: &ReadOptions,
    key: *const c_char,
    key_len: usize,
    state: *mut c_void,
    found: unsafe extern "C-unwind" fn(*mut c_void, *const c_char, usize),
    error: ErrorPlace<'_>,
) -> u8 {
    // SAFETY: the caller's bytes, for this call.
    let key = unsafe { slice(key, key_len) };
    let mut is_found = 0;
    let read = read(database, options, key, &mut |value| {
        is_found = 1;
        // SAFETY: the caller's callback; the value outlives the call.
        unsafe { found(state, value.as_ptr().cast(), value.len()) };
    });
    tell(error, read);
    is_found
}

/// Lends `found` the value that the options see.
fn read(
    database: &Database,
    options: &ReadOptions,
    key: &[u8],
    found: &mut dyn FnMut(&[u8]),
) -> Result<()> {
    match options.moment()? {
        None => database.engine.get(key, found),
        Some(moment) => moment.get(key, found),
    }
}

/// Makes an iterator over the newest records, or over the records of the options' snapshot. It is
/// not at a record yet.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_iterator(
    database: &Database,
    options: &ReadOptions,
) -> Box<Iterator> {
    let moment = options.moment().and_then(|moment| match moment {
        None => database.engine.moment(),
        Some(moment) => Ok(moment),
    });
    Box::new(Iterator::new(moment))
}

/// Takes a snapshot. If that fails, reads of the snapshot fail.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_snapshot(database: &Database) -> *const Snapshot {
    let snapshot = Arc::new(Snapshot {
        moment: database.engine.moment(),
    });
    let handle = Arc::as_ptr(&snapshot);
    database.snapshots.lock().insert(handle.addr(), snapshot);
    handle
}

/// Releases a snapshot of this database. Any other pointer is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_release_snapshot(database: &Database, snapshot: *const Snapshot) {
    let released = database.snapshots.lock().remove(&snapshot.addr());
    // Dropping it may free memory, which takes time, so the lock is not held.
    drop(released);
}

/// A figure as a text, which the caller frees; NULL for an unknown name.
///
/// # Safety
/// `name` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_property_value(
    database: &Database,
    name: *const c_char,
) -> *mut c_char {
    // SAFETY: the caller's text, for this call.
    let name = unsafe { CStr::from_ptr(name) };
    let value = property::value(&database.engine, name.to_bytes());
    value.map_or(std::ptr::null_mut(), |value| memory::text(&value))
}

/// About how many bytes each range takes, from a start key to below a limit key; 0 for a range
/// whose size is not known.
///
/// # Safety
/// The caller's four arrays have `ranges` elements, which are bytes as [the crate](crate) says, and
/// `sizes` has room for `ranges` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_approximate_sizes(
    database: &Database,
    ranges: c_int,
    start_keys: *const *const c_char,
    start_key_lens: *const usize,
    limit_keys: *const *const c_char,
    limit_key_lens: *const usize,
    sizes: *mut u64,
) {
    for n in 0..usize::try_from(ranges).unwrap_or(0) {
        // SAFETY: `n` is below the number of elements of each array, and each key is the caller's,
        // for this call.
        let (start, limit) = unsafe {
            (
                slice(*start_keys.add(n), *start_key_lens.add(n)),
                slice(*limit_keys.add(n), *limit_key_lens.add(n)),
            )
        };
        let size = database.engine.approximate_bytes(start, limit).unwrap_or(0);
        // SAFETY: `sizes` has room for `ranges` elements.
        unsafe { sizes.add(n).write(size) };
    }
}

/// Compacts a range of keys, which gives back unneeded room, and waits for it; NULL is the end on
/// that side. Errors are not reported.
///
/// # Safety
/// Bytes are as [the crate](crate) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_compact_range(
    database: &Database,
    start_key: *const c_char,
    start_key_len: usize,
    limit_key: *const c_char,
    limit_key_len: usize,
) {
    // SAFETY: the caller's bytes, for this call.
    let bound = |key: *const c_char, len| (!key.is_null()).then(|| unsafe { slice(key, len) });
    let (low, high) = (
        bound(start_key, start_key_len),
        bound(limit_key, limit_key_len),
    );
    // A failed compaction has changed no record, and writes and reads will show the problem.
    let _ = database.engine.compact(low, high);
}

/// Removes the database in a directory, and the directory unless it holds other files.
///
/// # Safety
/// `name` is a text; `error` is as [the crate](crate) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_destroy_db(
    options: &Options,
    name: *const c_char,
    error: ErrorPlace<'_>,
) {
    // SAFETY: the caller's text, for this call.
    let path = unsafe { path(name) };
    tell(error, engine::destroy(path, options));
}

/// Saves what can be saved of a damaged database, in its place. A sound database is not changed.
///
/// # Safety
/// `name` is a text; `error` is as [the crate](crate) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_repair_db(
    options: &Options,
    name: *const c_char,
    error: ErrorPlace<'_>,
) {
    // SAFETY: the caller's text, for this call.
    let path = unsafe { path(name) };
    tell(
        error,
        options
            .check_comparator()
            .and_then(|()| repair::repair(path, options)),
    );
}
