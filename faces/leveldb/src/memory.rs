//! Bytes that come from C, and bytes that go to C by `malloc`.

use std::alloc::{Layout, handle_alloc_error};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The caller's bytes.
///
/// # Safety
/// `bytes` points to `len` bytes that can be read and do not change while the result is used; or
/// `len` is 0.
pub(crate) unsafe fn slice<'a>(bytes: *const c_char, len: usize) -> &'a [u8] {
    match len {
        0 => &[],
        // SAFETY: the caller's promise. A length of 0, with which NULL is allowed, does not come
        // here.
        _ => unsafe { std::slice::from_raw_parts(bytes.cast(), len) },
    }
}

/// The caller's path.
///
/// # Safety
/// `text` points to a text that ends with a 0 and does not change while the result is used.
pub(crate) unsafe fn path<'a>(text: *const c_char) -> &'a Path {
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    Path::new(OsStr::from_bytes(text.to_bytes()))
}

/// A copy that the caller frees. Never NULL, which would mean something else.
pub(crate) fn bytes(bytes: &[u8]) -> *mut c_char {
    let len = bytes.len().max(1);
    // SAFETY: any length may be asked for.
    let copy = unsafe { libc::malloc(len) };
    if copy.is_null() {
        handle_alloc_error(Layout::array::<u8>(len).unwrap_or(Layout::new::<u8>()));
    }
    // SAFETY: `copy` was just made, and has at least `bytes.len()` bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.cast(), bytes.len()) };
    copy.cast()
}

/// A text that the caller frees, up to the first 0 in it if there is one.
pub(crate) fn text(text: &str) -> *mut c_char {
    let mut terminated = text.as_bytes().to_vec();
    terminated.push(0);
    bytes(&terminated)
}

/// Frees a bare pointer that a function of this library returned; NULL does nothing. It is `free`,
/// under a name of this library's.
///
/// # Safety
/// `pointer` is NULL, or was made by `malloc` and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_free(pointer: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { libc::free(pointer) }
}
