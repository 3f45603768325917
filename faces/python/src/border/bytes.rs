//! Bytes of the caller's as arguments.
//!
//! `bytes` are borrowed: they never change, and the caller holds them for the call. Any other
//! object with the buffer protocol is copied when the call begins, before the interpreter's lock is
//! released: another thread may write to it, or resize it, afterwards. Its shape does not matter;
//! an array with gaps is copied in the order of its elements.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::ffi::CStr;
use std::ops::Deref;

/// An argument's bytes.
pub(crate) enum Input<'a> {
    Borrowed(&'a [u8]),
    Copied(Vec<u8>),
}

impl<'a> Input<'a> {
    /// The bytes of `object`, the argument `name`.
    #[inline]
    pub(crate) fn of(object: &'a Bound<'_, PyAny>, name: &str) -> PyResult<Input<'a>> {
        match object.cast::<PyBytes>() {
            Ok(bytes) => Ok(Input::Borrowed(bytes.as_bytes())),
            Err(_) => copied(object, name).map(Input::Copied),
        }
    }

    /// The bytes of an argument that may be `None`.
    pub(crate) fn of_optional(
        object: Option<&'a Bound<'_, PyAny>>,
        name: &str,
    ) -> PyResult<Option<Input<'a>>> {
        match object {
            Some(object) if !object.is_none() => Input::of(object, name).map(Some),
            _ => Ok(None),
        }
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        match self {
            Input::Borrowed(bytes) => bytes.to_vec(),
            Input::Copied(bytes) => bytes,
        }
    }
}

impl Deref for Input<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Input::Borrowed(bytes) => bytes,
            Input::Copied(bytes) => bytes,
        }
    }
}

/// A buffer of another object's, given back when this is dropped.
struct View(ffi::Py_buffer);

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: a buffer that `PyObject_GetBuffer` filled, once; the interpreter is attached,
        // because a `View` lives within `copied` only.
        unsafe { ffi::PyBuffer_Release(&raw mut self.0) }
    }
}

#[cold]
fn copied(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<u8>> {
    let mut view = ffi::Py_buffer::new();
    // SAFETY: an object, and a place for its buffer.
    let got =
        unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut view, ffi::PyBUF_FULL_RO) };
    if got != 0 {
        let refused = PyErr::fetch(object.py());
        return Err(refusal(object, name, refused));
    }
    let view = View(view);
    // SAFETY: NULL, or a text that ends with a 0 and lives as long as the buffer.
    let format = (!view.0.format.is_null()).then(|| unsafe { CStr::from_ptr(view.0.format) });
    if format.is_some_and(|format| format.to_bytes().contains(&b'O')) {
        let message = format!("{name} must be bytes-like, not an array of objects");
        return Err(PyTypeError::new_err(message));
    }
    let length = usize::try_from(view.0.len).unwrap_or(0);
    let mut bytes = vec![0_u8; length];
    // SAFETY: `bytes` has room for the buffer's whole length; `C` is the order of its elements.
    let done = unsafe {
        let source = (&raw const view.0).cast_mut();
        ffi::PyBuffer_ToContiguous(bytes.as_mut_ptr().cast(), source, view.0.len, b'C' as _)
    };
    match done {
        0 => Ok(bytes),
        _ => Err(PyErr::fetch(object.py())),
    }
}

fn refusal(object: &Bound<'_, PyAny>, name: &str, refused: PyErr) -> PyErr {
    let py = object.py();
    if !refused.is_instance_of::<PyTypeError>(py) {
        return refused;
    }
    let kind = object.get_type().name();
    let kind = kind.map_or_else(|_| "?".to_owned(), |name| name.to_string());
    let hint = match object.is_instance_of::<PyString>() {
        true => "; encode it, for example by .encode()",
        false => "",
    };
    PyTypeError::new_err(format!("{name} must be bytes-like, not {kind}{hint}"))
}
