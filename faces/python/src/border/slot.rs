//! A thing that one thread at a time uses, for objects that any number of threads may have.
//!
//! ```text
//!   Here(T) --- taken by a call that may wait ---> Away --- it comes back ---> Here(T)
//!      '------- used up by its last call --------> Used
//!      '------- the database was closed ---------> Released
//! ```
//! Invariants: the mutex is held for a few instructions, and no call of Python is made under it: so
//! who waits for it may have the interpreter's lock. Who needs the thing while it is away lets the
//! interpreter go and waits for the signal. The thing comes back on every path, by a guard.
//!
//! Thread safety: any. In a forked child every way in fails first, before a lock that a thread of
//! the parent may have held; and so it does after a close.

use super::error::Failure;
use crate::border::held::detach;
use crate::opening::{Opening, Release, closed};
use evendb_base::fork;
use parking_lot::{Condvar, Mutex};
use pyo3::prelude::*;
use std::sync::Arc;

enum Place<T> {
    Here(T),
    Away,
    Used,
    Released,
}

/// See the module.
pub(crate) struct Slot<T> {
    opening: Arc<Opening>,
    place: Mutex<Place<T>>,
    back: Condvar,
    /// What a call says that comes after the last one.
    used_up: (Failure, &'static str),
}

/// Brings the thing back.
struct Return<'s, T> {
    slot: &'s Slot<T>,
    thing: Option<T>,
}

impl<T> Drop for Return<'_, T> {
    fn drop(&mut self) {
        let place = self.thing.take().map_or(Place::Used, Place::Here);
        *self.slot.place.lock() = place;
        self.slot.back.notify_all();
    }
}

impl<T: Send> Release for Slot<T> {
    fn release(&self) {
        let mut place = self.place.lock();
        if matches!(&*place, Place::Here(_)) {
            let thing = std::mem::replace(&mut *place, Place::Released);
            drop(place);
            drop(thing);
        }
    }
}

impl<T: Send + 'static> Slot<T> {
    pub(crate) fn new(
        opening: &Arc<Opening>,
        thing: T,
        used_up: (Failure, &'static str),
    ) -> Arc<Slot<T>> {
        let slot = Arc::new(Slot {
            opening: opening.clone(),
            place: Mutex::new(Place::Here(thing)),
            back: Condvar::new(),
            used_up,
        });
        opening.adopt(&slot);
        slot
    }

    pub(crate) fn opening(&self) -> &Arc<Opening> {
        &self.opening
    }

    /// Runs `body`, which neither waits nor calls Python, with the thing.
    pub(crate) fn brief<R>(&self, py: Python<'_>, body: impl FnOnce(&mut T) -> R) -> PyResult<R> {
        let _inside = self.opening.enter(py)?;
        loop {
            match &mut *self.place.lock() {
                Place::Here(thing) => return Ok(body(thing)),
                Place::Used => return Err(self.refusal(py)),
                Place::Released => return Err(closed(py)),
                Place::Away => {}
            }
            self.wait(py);
        }
    }

    /// Runs `body`, which may wait, with the thing and without the interpreter.
    pub(crate) fn at_length<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut T) -> R + Send,
    ) -> PyResult<R> {
        let _inside = self.opening.enter(py)?;
        detach(py, || self.detached(body)).ok_or_else(|| self.refusal(py))
    }

    /// Runs `body` with the thing in a thread that has let the interpreter go, and is inside.
    /// `None` after the last call.
    pub(crate) fn detached<R>(&self, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut place = self.place.lock();
        while matches!(&*place, Place::Away) {
            self.back.wait(&mut place);
        }
        if !matches!(&*place, Place::Here(_)) {
            return None;
        }
        let Place::Here(thing) = std::mem::replace(&mut *place, Place::Away) else {
            return None;
        };
        drop(place);
        let mut back = Return {
            slot: self,
            thing: Some(thing),
        };
        back.thing.as_mut().map(body)
    }

    /// The thing, for its last call.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<T> {
        let _inside = self.opening.enter(py)?;
        loop {
            let mut place = self.place.lock();
            match std::mem::replace(&mut *place, Place::Used) {
                Place::Here(thing) => return Ok(thing),
                Place::Away => *place = Place::Away,
                Place::Released => {
                    *place = Place::Released;
                    drop(place);
                    return Err(closed(py));
                }
                Place::Used => {
                    drop(place);
                    return Err(self.refusal(py));
                }
            }
            drop(place);
            self.wait(py);
        }
    }

    /// Whether the last call has been.
    pub(crate) fn is_used(&self) -> bool {
        !fork::is_child() && matches!(&*self.place.lock(), Place::Used)
    }

    /// Waits until the thing is not away.
    fn wait(&self, py: Python<'_>) {
        detach(py, || {
            let mut place = self.place.lock();
            while matches!(&*place, Place::Away) {
                self.back.wait(&mut place);
            }
        });
    }

    #[cold]
    fn refusal(&self, py: Python<'_>) -> PyErr {
        self.used_up.0.raised(py, self.used_up.1)
    }
}
