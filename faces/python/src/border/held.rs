//! What an object of Python holds of the engine, and how it is let go.
//!
//! Letting a handle go may close the database, which waits for threads of the engine; one of them
//! may be waiting for the interpreter, to call a merge function. So the interpreter is let go
//! first. A forked child only forgets: what a handle stands for belongs to the parent.

use evendb_base::fork;
use pyo3::prelude::*;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

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
        let mut inner = Some(inner);
        let attached = Python::try_attach(|py| {
            let inner = inner.take();
            py.detach(move || drop(inner));
        });
        if attached.is_none() {
            drop(inner);
        }
    }
}
