//! Calls of functions of Python from Rust, and the end of the interpreter.
//!
//! A thread that runs Python when the interpreter ends is ended by it (before CPython 3.14): its
//! stack is unwound by force, which no frame of Rust bears. So a function is called through a
//! declaration that may unwind, below a guard that stops the thread for ever instead: the process
//! is about to end, and daemon threads with it.

use crate::border::held::detach;
use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::cell::RefCell;
use std::sync::OnceLock;
use std::thread::ThreadId;

/// The thread in which the interpreter ends, once it does.
static ENDING: OnceLock<ThreadId> = OnceLock::new();

mod unwinding {
    use pyo3::ffi::PyObject;

    unsafe extern "C-unwind" {
        pub(super) fn PyObject_Call(
            callable: *mut PyObject,
            arguments: *mut PyObject,
            keywords: *mut PyObject,
        ) -> *mut PyObject;
    }
}

thread_local! {
    /// What a function raised that is no `Exception`, in this thread: `KeyboardInterrupt`, ...
    static INTERRUPTED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Keeps an exception that ends more than the call of a function, for the call of the program.
pub(crate) fn keep_interrupt(py: Python<'_>, error: &PyErr) {
    if !error.is_instance_of::<PyException>(py) {
        INTERRUPTED.set(Some(error.clone_ref(py)));
    }
}

/// What was kept.
pub(crate) fn interrupted() -> Option<PyErr> {
    INTERRUPTED.take()
}

/// Stops the thread when it is unwound.
struct Stop;

impl Drop for Stop {
    fn drop(&mut self) {
        stop();
    }
}

fn stop() -> ! {
    loop {
        std::thread::park();
    }
}

/// Says that the interpreter ends, in this thread.
pub(crate) fn set_ending() {
    let _ = ENDING.set(std::thread::current().id());
}

pub(crate) fn is_ending() -> bool {
    ENDING.get().is_some()
}

/// Stops a daemon thread that outlives the interpreter's other threads: what it was about to do
/// with a closed database is of no use to anybody, and its error would only be printed.
pub(crate) fn stop_if_left_over(py: Python<'_>) {
    if ENDING
        .get()
        .is_some_and(|main| *main != std::thread::current().id())
    {
        detach(py, || stop());
    }
}

/// Calls a function of the program.
pub(crate) fn call<'py, A>(
    function: &Bound<'py, PyAny>,
    arguments: A,
) -> PyResult<Bound<'py, PyAny>>
where
    A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
    A::Error: Into<PyErr>,
{
    let py = function.py();
    let arguments = arguments.into_pyobject(py).map_err(Into::into)?;
    let guard = Stop;
    // SAFETY: a callable and a tuple; NULL stands for no keywords. The declaration is CPython's,
    // and an unwinding ends at the guard.
    let answer = unsafe {
        unwinding::PyObject_Call(function.as_ptr(), arguments.as_ptr(), std::ptr::null_mut())
    };
    std::mem::forget(guard);
    // SAFETY: a new reference, or NULL with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, answer.cast::<ffi::PyObject>()) }
}
