//! Batches: `leveldb_writebatch_*`.
//!
//! A batch has a copy of everything that was put into it, one piece behind the other, and the
//! lengths at which to cut the bytes. It belongs to no database; it may be written several times,
//! to several databases.

use crate::engine::Write;
use crate::memory::slice;
use std::ffi::{c_char, c_void};

/// `leveldb_writebatch_t`.
#[derive(Default)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    cuts: Vec<Cut>,
}

/// The length of the next key, and of the value behind it; `None` for a delete.
#[derive(Clone, Copy)]
struct Cut {
    key: usize,
    value: Option<usize>,
}

impl WriteBatch {
    fn add(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.cuts.push(Cut {
            key: key.len(),
            value: value.map(<[u8]>::len),
        });
    }

    /// The writes of the batch, in their order.
    pub(crate) fn writes(&self) -> Vec<Write<'_>> {
        let mut rest = &self.bytes[..];
        let mut take = |len| {
            let (taken, behind) = rest.split_at(len);
            rest = behind;
            taken
        };
        let each = self.cuts.iter().map(|cut| {
            let key = take(cut.key);
            match cut.value {
                Some(len) => Write::Put(key, take(len)),
                None => Write::Delete(key),
            }
        });
        each.collect()
    }
}

/// Makes an empty batch.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_create() -> Box<WriteBatch> {
    Box::default()
}

/// Destroys a batch.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_destroy(_batch: Option<Box<WriteBatch>>) {}

/// Takes all writes out of a batch.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_clear(batch: &mut WriteBatch) {
    batch.bytes.clear();
    batch.cuts.clear();
}

/// Adds a put to a batch.
///
/// # Safety
/// Bytes are as [the crate](crate) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_put(
    batch: &mut WriteBatch,
    key: *const c_char,
    key_len: usize,
    value: *const c_char,
    value_len: usize,
) {
    // SAFETY: the caller's bytes, for this call.
    let (key, value) = unsafe { (slice(key, key_len), slice(value, value_len)) };
    batch.add(key, Some(value));
}

/// Adds a delete to a batch.
///
/// # Safety
/// Bytes are as [the crate](crate) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_delete(
    batch: &mut WriteBatch,
    key: *const c_char,
    key_len: usize,
) {
    // SAFETY: the caller's bytes, for this call.
    batch.add(unsafe { slice(key, key_len) }, None);
}

/// Calls the callbacks for the writes of a batch, in their order. An exception of a C++ callback
/// goes through.
///
/// # Safety
/// The callbacks may be called with `state`, and do not change the batch.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn leveldb_writebatch_iterate(
    batch: &WriteBatch,
    state: *mut c_void,
    put: unsafe extern "C-unwind" fn(*mut c_void, *const c_char, usize, *const c_char, usize),
    deleted: unsafe extern "C-unwind" fn(*mut c_void, *const c_char, usize),
) {
    for write in batch.writes() {
        match write {
            Write::Put(key, value) => {
                let (key_bytes, value_bytes) = (key.as_ptr().cast(), value.as_ptr().cast());
                // SAFETY: the caller's callback; key and value outlive the call.
                unsafe { put(state, key_bytes, key.len(), value_bytes, value.len()) };
            }
            // SAFETY: as above.
            Write::Delete(key) => unsafe { deleted(state, key.as_ptr().cast(), key.len()) },
        }
    }
}

/// Adds the writes of `source` to `destination`, which may be the same batch.
///
/// # Safety
/// Both are handles of batches.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_append(
    destination: *mut WriteBatch,
    source: *const WriteBatch,
) {
    let copy;
    let source = match std::ptr::eq(destination, source) {
        true => {
            // SAFETY: a handle, and nothing else refers to it during this call.
            let own = unsafe { &*source };
            copy = WriteBatch {
                bytes: own.bytes.clone(),
                cuts: own.cuts.clone(),
            };
            &copy
        }
        // SAFETY: a handle, and not the destination's.
        false => unsafe { &*source },
    };
    // SAFETY: a handle, and `source` does not point to it.
    let destination = unsafe { &mut *destination };
    destination.bytes.extend_from_slice(&source.bytes);
    destination.cuts.extend_from_slice(&source.cuts);
}
