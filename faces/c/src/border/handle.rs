//! Handles: what a pointer of the caller stands for.
//!
//! ```text
//! Shared<T>   any threads at once:          a mark of poison | T
//! Slot<T>     one thread at a time, counted: a lock that is tried | Ready(T), Used or Poisoned
//! ```
//! [`call`], [`call_mut`] and [`call_take`] are the ways in. Each of them refuses NULL, a forked
//! child, and a handle that is poisoned; a slot also refuses a second thread (`EVENDB_BUSY`) and a
//! handle that was used up. A panic in the body poisons the handle.
//!
//! Thread safety: the mark of poison orders nothing: a thread that does not see it yet meets what
//! the panic left, which the engine bears. A slot's lock is never waited for, so a callback that
//! uses the handle of the call from which it comes is refused, and does not hang.

use super::error::{ErrorPlace, Failure, Result, caught, finish};
use super::status::{self, Status};
use evendb_base::fork;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A handle that any number of threads may use at once.
pub struct Shared<T> {
    poisoned: AtomicBool,
    inner: T,
}

impl<T: Send + Sync> Shared<T> {
    /// A new handle for the caller.
    pub(crate) fn give(inner: T) -> *mut Shared<T> {
        let poisoned = AtomicBool::new(false);
        Box::into_raw(Box::new(Shared { poisoned, inner }))
    }
}

impl<T> Shared<T> {
    /// What it stands for, for functions that cannot fail.
    pub(crate) fn inner(&self) -> &T {
        &self.inner
    }

    fn checked(&self) -> Result<&T> {
        match self.poisoned.load(Ordering::Relaxed) {
            false => Ok(&self.inner),
            true => Err(poisoned()),
        }
    }
}

enum State<T> {
    Ready(T),
    Used,
    Poisoned,
}

/// A handle that one thread at a time uses.
pub struct Slot<T>(Mutex<State<T>>);

impl<T: Send> Slot<T> {
    /// A new handle for the caller.
    pub(crate) fn give(inner: T) -> *mut Slot<T> {
        let slot = Arc::new(Slot(Mutex::new(State::Ready(inner))));
        Arc::into_raw(slot).cast_mut()
    }
}

impl<T> Slot<T> {
    /// Counts one more owner of a handle of the caller's.
    pub(crate) fn counted(&self) -> Arc<Slot<T>> {
        // SAFETY: every slot that a caller has was made by `give`, by `Arc::into_raw`, and is not
        // freed yet.
        unsafe {
            Arc::increment_strong_count(self);
            Arc::from_raw(self)
        }
    }

    /// Runs `body` with what it stands for.
    pub(crate) fn enter<R>(&self, body: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        let Some(mut state) = self.0.try_lock() else {
            return Err(busy());
        };
        let inner = match &mut *state {
            State::Ready(inner) => inner,
            State::Used => return Err(used_up()),
            State::Poisoned => return Err(poisoned()),
        };
        match catch_unwind(AssertUnwindSafe(|| body(inner))) {
            Ok(outcome) => outcome,
            Err(panic) => {
                let broken = std::mem::replace(&mut *state, State::Poisoned);
                // Its destructor could panic again.
                std::mem::forget(broken);
                Err(Failure::panicked(&*panic))
            }
        }
    }

    /// Runs `body` with what it stood for: the handle is used up.
    pub(crate) fn take<R>(&self, body: impl FnOnce(T) -> Result<R>) -> Result<R> {
        let Some(mut state) = self.0.try_lock() else {
            return Err(busy());
        };
        match std::mem::replace(&mut *state, State::Used) {
            State::Ready(inner) => {
                drop(state);
                caught(|| body(inner)).inspect_err(|failure| {
                    if failure.status == status::PANIC {
                        *self.0.lock() = State::Poisoned;
                    }
                })
            }
            State::Used => Err(used_up()),
            State::Poisoned => {
                *state = State::Poisoned;
                Err(poisoned())
            }
        }
    }
}

#[cold]
fn poisoned() -> Box<Failure> {
    let message = "an earlier call of this handle panicked: it can only be freed";
    Failure::new(status::PANIC, message)
}

#[cold]
fn used_up() -> Box<Failure> {
    let message = "this handle was used up by the call that ended it: it can only be freed";
    Failure::new(status::USED_UP, message)
}

#[cold]
fn busy() -> Box<Failure> {
    let message = "another call is using this handle, which one thread at a time may use";
    Failure::new(status::BUSY, message)
}

#[cold]
fn missing(name: &str) -> Box<Failure> {
    Failure::argument(format!("`{name}` is NULL"))
}

/// A further handle among the arguments of a call.
#[inline]
pub(crate) fn argument<'h, T>(handle: Option<&'h Shared<T>>, name: &str) -> Result<&'h T> {
    handle.ok_or_else(|| missing(name))?.checked()
}

/// A further handle, which one thread at a time may use.
pub(crate) fn argument_mut<'h, T>(handle: Option<&'h Slot<T>>, name: &str) -> Result<&'h Slot<T>> {
    handle.ok_or_else(|| missing(name))
}

/// A call of a handle that any threads may use.
#[inline]
pub(crate) fn call<T>(
    handle: Option<&Shared<T>>,
    error: ErrorPlace<'_>,
    body: impl FnOnce(&T) -> Result<()>,
) -> Status {
    finish(error, call_begins(handle, body))
}

/// [`call`] whose end is up to its caller: for calls that go on when they have returned.
#[inline]
pub(crate) fn call_begins<T, R>(
    handle: Option<&Shared<T>>,
    body: impl FnOnce(&T) -> Result<R>,
) -> Result<R> {
    fork::check()?;
    let handle = handle.ok_or_else(|| missing("the handle"))?;
    let inner = handle.checked()?;
    match catch_unwind(AssertUnwindSafe(|| body(inner))) {
        Ok(outcome) => outcome,
        Err(panic) => {
            handle.poisoned.store(true, Ordering::Relaxed);
            Err(Failure::panicked(&*panic))
        }
    }
}

/// A call of a handle that one thread at a time may use.
#[inline]
pub(crate) fn call_mut<T>(
    handle: Option<&Slot<T>>,
    error: ErrorPlace<'_>,
    body: impl FnOnce(&mut T) -> Result<()>,
) -> Status {
    let enter = || {
        fork::check()?;
        handle.ok_or_else(|| missing("the handle"))?.enter(body)
    };
    finish(error, enter())
}

/// A call of a handle that stands for memory alone, and for no database: a forked child may use it.
pub(crate) fn call_own<T>(
    handle: Option<&Shared<T>>,
    error: ErrorPlace<'_>,
    body: impl FnOnce(&T) -> Result<()>,
) -> Status {
    let enter = || {
        let inner = argument(handle, "the handle")?;
        caught(|| body(inner))
    };
    finish(error, enter())
}

/// [`call_own`] for handles that one thread at a time may use.
pub(crate) fn call_own_mut<T>(
    handle: Option<&Slot<T>>,
    error: ErrorPlace<'_>,
    body: impl FnOnce(&mut T) -> Result<()>,
) -> Status {
    let enter = || handle.ok_or_else(|| missing("the handle"))?.enter(body);
    finish(error, enter())
}

/// A call that uses its handle up.
pub(crate) fn call_take<T>(
    handle: Option<&Slot<T>>,
    error: ErrorPlace<'_>,
    body: impl FnOnce(T) -> Result<()>,
) -> Status {
    finish(error, take_begins(handle, body))
}

/// [`call_take`] whose end is up to its caller.
pub(crate) fn take_begins<T, R>(
    handle: Option<&Slot<T>>,
    body: impl FnOnce(T) -> Result<R>,
) -> Result<R> {
    fork::check()?;
    handle.ok_or_else(|| missing("the handle"))?.take(body)
}

/// A call without a handle.
pub(crate) fn plain(error: ErrorPlace<'_>, body: impl FnOnce() -> Result<()>) -> Status {
    finish(error, caught(body))
}

/// Frees a handle. A forked child only forgets it: what it stands for belongs to the parent.
pub(crate) fn free<T>(handle: *mut Shared<T>) {
    if handle.is_null() || fork::is_child() {
        return;
    }
    // SAFETY: the caller gives a handle back that `Shared::give` made, and uses it no more.
    let handle = unsafe { Box::from_raw(handle) };
    let _ = caught(|| {
        drop(handle);
        Ok(())
    });
}

/// [`free`] for handles that one thread at a time uses.
pub(crate) fn free_slot<T>(handle: *mut Slot<T>) {
    if handle.is_null() || fork::is_child() {
        return;
    }
    // SAFETY: the caller gives a handle back that `Slot::give` made, and uses it no more.
    let handle = unsafe { Arc::from_raw(handle) };
    let _ = caught(|| {
        drop(handle);
        Ok(())
    });
}
