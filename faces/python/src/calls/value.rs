//! The owner of a value that Python looks at without a copy.
//!
//! It keeps the bytes where the store has them, counted, so they stay as they are whatever becomes
//! of the key, the database or the handle. A `memoryview` holds its owner, and the owner has no
//! other way out. It cannot be written to.

use evendb::Value;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use std::ffi::{c_int, c_void};

/// A value of the store, through the buffer protocol.
#[pyclass(frozen, module = "evendb", name = "ValueBuffer")]
pub(crate) struct ValueBuffer(Value);

/// A `memoryview` of a value.
pub(crate) fn view_of(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyMemoryView>> {
    let owner = Bound::new(py, ValueBuffer(value))?;
    PyMemoryView::from(owner.as_any())
}

#[pymethods]
impl ValueBuffer {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a view of a value is not pickled: pass bytes(view)",
        ))
    }

    /// # Safety
    /// CPython gives a place for a buffer, which it gives back by `PyBuffer_Release`.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err(
                "a value of the store cannot be written to",
            ));
        }
        let bytes: &[u8] = &slf.get().0;
        let length = isize::try_from(bytes.len())
            .map_err(|_| PyBufferError::new_err("the value is too long"))?;
        // SAFETY: the place is CPython's. The bytes stay where they are as long as the object
        // lives, which the view holds: `PyBuffer_FillInfo` counts one more reference to it.
        let filled = unsafe {
            let at = bytes.as_ptr().cast_mut().cast::<c_void>();
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), at, length, 1, flags)
        };
        match filled {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
