//! Bytes and texts of the caller, and bytes that are lent to the caller.
//!
//! A length of 0 is the empty bytes, whatever the pointer is. NULL with another length is refused,
//! and so is a length that no object can have; nothing is read then.

use super::error::{Failure, Result};
use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A caller's pointer to bytes, whose number comes beside it.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Bytes(*const c_void);

/// A caller's text: NULL, or it ends with a 0.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

/// A caller's array, whose number of members comes beside it.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Many<T>(*const T);

/// The most bytes of an object.
const BYTES_MAX: usize = isize::MAX as usize;

#[cold]
fn refused(name: &str, why: &str) -> Box<Failure> {
    Failure::argument(format!("`{name}` {why}"))
}

fn check(is_null: bool, bytes: Option<usize>, name: &str) -> Result<()> {
    match bytes {
        Some(0) => Ok(()),
        Some(_) if is_null => Err(refused(name, "is NULL, and its length is not 0")),
        Some(bytes) if bytes <= BYTES_MAX => Ok(()),
        _ => Err(refused(name, "has a length that no object can have")),
    }
}

impl Bytes {
    /// The caller's bytes, for the time of the call.
    #[inline]
    pub(crate) fn of<'a>(self, size: usize, name: &str) -> Result<&'a [u8]> {
        check(self.0.is_null(), Some(size), name)?;
        if size == 0 {
            return Ok(&[]);
        }
        // SAFETY: the caller promises `size` bytes that can be read and do not change during the
        // call; the pointer is not NULL and the length is in bounds.
        Ok(unsafe { std::slice::from_raw_parts(self.0.cast(), size) })
    }
}

impl<T> Many<T> {
    /// The caller's array, for the time of the call.
    pub(crate) fn of<'a>(self, count: usize, name: &str) -> Result<&'a [T]> {
        check(self.0.is_null(), count.checked_mul(size_of::<T>()), name)?;
        if count == 0 {
            return Ok(&[]);
        }
        // SAFETY: the caller promises `count` members that can be read; the pointer is not NULL and
        // the size is in bounds.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) })
    }
}

/// Memory of the caller that is written: `count` members.
#[repr(transparent)]
pub struct Room<T>(*mut T);

impl<T> Room<T> {
    /// The caller's memory, for the time of the call.
    pub(crate) fn of<'a>(self, count: usize, name: &str) -> Result<&'a mut [MaybeUninit<T>]> {
        check(self.0.is_null(), count.checked_mul(size_of::<T>()), name)?;
        if count == 0 {
            return Ok(&mut []);
        }
        // SAFETY: the caller promises room for `count` members that nobody else uses during the
        // call; the pointer is not NULL and the size is in bounds.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0.cast(), count) })
    }
}

/// Copies bytes into memory of the caller of the same length.
#[inline]
pub(crate) fn copy_into(room: &mut [MaybeUninit<u8>], bytes: &[u8]) {
    assert_eq!(
        room.len(),
        bytes.len(),
        "as many bytes as there is room for"
    );
    // SAFETY: both are of this length, and memory that the caller lends for writing is not memory
    // of the store.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), room.as_mut_ptr().cast(), bytes.len());
    }
}

/// Memory of the caller as bytes, for a function that writes them and reads none.
pub(crate) fn written(room: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    // SAFETY: it is the caller's memory, made outside of Rust: its bytes have some value for this
    // library, which the compiler cannot see to be undefined; and any value is a `u8`.
    unsafe { &mut *(std::ptr::from_mut(room) as *mut [u8]) }
}

impl Text {
    fn bytes<'a>(self, name: &str) -> Result<&'a [u8]> {
        if self.0.is_null() {
            return Err(refused(name, "is NULL"));
        }
        // SAFETY: the caller promises a text that ends with a 0 and does not change.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    /// A name of the caller.
    pub(crate) fn str<'a>(self, name: &str) -> Result<&'a str> {
        let text = std::str::from_utf8(self.bytes(name)?);
        text.map_err(|_| refused(name, "is no text in UTF-8"))
    }

    /// A path of the caller.
    pub(crate) fn path<'a>(self, name: &str) -> Result<&'a Path> {
        match self.bytes(name)? {
            [] => Err(refused(name, "is an empty path")),
            path => Ok(Path::new(OsStr::from_bytes(path))),
        }
    }
}

/// The pointer under which bytes are lent to the caller. It is not NULL, which means that there is
/// nothing.
#[inline]
pub(crate) fn lent(bytes: &[u8]) -> *const c_void {
    match bytes {
        [] => c"".as_ptr().cast(),
        bytes => bytes.as_ptr().cast(),
    }
}

/// A text for the caller, up to the first 0 in it.
pub(crate) fn terminated(mut text: Vec<u8>) -> CString {
    if let Some(end) = text.iter().position(|&byte| byte == 0) {
        text.truncate(end);
    }
    CString::new(text).unwrap_or_default()
}
