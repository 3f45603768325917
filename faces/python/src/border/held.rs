//! What an object of Python holds of the engine, and how it is let go.
//!
//! Letting a handle go may close the database, which waits for threads of the engine; one of them
//! may be waiting for the interpreter, to call a merge function. So the interpreter is let go
//! first. A forked child only forgets: what a handle stands for belongs to the parent.
//!
//! A thread that has let the interpreter go, or that belongs to somebody else, must not take it for
//! that: who has it may be waiting for this thread. [`detach`] and [`away`] mark such threads, and
//! [`attached`] takes the mark back for a call of Python.

use evendb_base::fork;
use pyo3::prelude::*;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

thread_local! {
    /// Whether this thread does without the interpreter now.
    static AWAY: Cell<bool> = const { Cell::new(false) };
}

/// Sets the mark, and puts the former one back.
struct Mark(bool);

impl Mark {
    fn set(away: bool) -> Mark {
        Mark(AWAY.replace(away))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        AWAY.set(self.0);
    }
}

/// Runs `body` in a thread that may not take the interpreter.
pub(crate) fn away<R>(body: impl FnOnce() -> R) -> R {
    let _mark = Mark::set(true);
    body()
}

/// Runs `body` without the interpreter.
#[inline]
pub(crate) fn detach<R: Send>(py: Python<'_>, body: impl FnOnce() -> R + Send) -> R {
    py.detach(|| away(body))
}

/// Runs `body` with the interpreter, in any thread; `None` where it has ended.
pub(crate) fn attached<R>(body: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    Python::try_attach(|py| {
        let _mark = Mark::set(false);
        body(py)
    })
}

/// See the module.
pub(crate) struct Held<T: Send>(ManuallyDrop<T>);

impl<T: Send> Held<T> {
    #[inline]
    pub(crate) fn new(inner: T) -> Held<T> {
        Held(ManuallyDrop::new(inner))
    }

    /// What is held, for a call that uses it up without the interpreter.
    pub(crate) fn into_inner(self) -> T {
        let mut held = ManuallyDrop::new(self);
        // SAFETY: taken once: the drop of `held` does not run.
        unsafe { ManuallyDrop::take(&mut held.0) }
    }
}

impl<T: Send> Deref for Held<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send> DerefMut for Held<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Send> Drop for Held<T> {
    fn drop(&mut self) {
        if fork::is_child() {
            return;
        }
        // SAFETY: taken once, here, and not used after that.
        let inner = unsafe { ManuallyDrop::take(&mut self.0) };
        if AWAY.get() {
            drop(inner);
            return;
        }
        let mut inner = Some(inner);
        let attached = Python::try_attach(|py| {
            let inner = inner.take();
            detach(py, move || drop(inner));
        });
        if attached.is_none() {
            drop(inner);
        }
    }
}
