//! The seam's names on loom or shuttle, with the shapes that `parking_lot` gives them.

#[cfg(evendb_loom)]
use loom as model;
#[cfg(all(evendb_shuttle, not(evendb_loom)))]
use shuttle as model;

pub(crate) use model::hint::spin_loop;
pub(crate) use model::sync::atomic;
/// Threads; sleeping is giving the others a turn.
pub(crate) mod thread {
    pub(crate) use super::model::thread::*;

    #[cfg(evendb_loom)]
    pub(crate) fn sleep(_: std::time::Duration) {
        yield_now();
    }
}
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// A mutex without poisoning.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(model::sync::Mutex<T>);

/// Holds a [`Mutex`]; `inner` is empty only while a condition variable has the inner guard.
pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    inner: Option<model::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(model::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            mutex: self,
            inner: Some(self.lock_inner()),
        }
    }

    fn lock_inner(&self) -> model::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|guard| MutexGuard {
            mutex: self,
            inner: Some(guard),
        })
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.inner
            .as_ref()
            .expect("guard is present outside of a wait")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner
            .as_mut()
            .expect("guard is present outside of a wait")
    }
}

/// A condition variable; timed waits may end at any time.
#[derive(Debug, Default)]
pub(crate) struct Condvar(model::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Condvar(model::sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let inner = guard
            .inner
            .take()
            .expect("guard is present outside of a wait");
        guard.inner = Some(
            self.0
                .wait(inner)
                .unwrap_or_else(|poison| poison.into_inner()),
        );
    }

    pub(crate) fn wait_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        _timeout: Duration,
    ) -> WaitTimeoutResult {
        // A model has no time: give the lock up, let others run, take it again.
        drop(guard.inner.take());
        thread::yield_now();
        guard.inner = Some(guard.mutex.lock_inner());
        WaitTimeoutResult
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// How a timed wait ended: in a model always by time.
pub(crate) struct WaitTimeoutResult;

impl WaitTimeoutResult {
    pub(crate) fn timed_out(&self) -> bool {
        true
    }
}
