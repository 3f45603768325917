//! A mutex and a condition variable whose `notify_all` is one system call, however many wait.
//!
//! `parking_lot`'s wakes one thread and leaves it to each to wake the next; for one thread or few
//! that is better, and its locks are smaller. But many threads wait for one sync: where one call wakes
//! them all, 16 threads make 8 % more synced puts, 64 make 22 % more (decision 0015).
//!
//! Invariants: no poisoning; the shapes are those of `parking_lot`. On loom and shuttle these are
//! the seam's locks, all of them. Thread safety: they are what gives it.

use std::ops::{Deref, DerefMut};

#[cfg(evendb_loom)]
use loom as backend;
#[cfg(all(evendb_shuttle, not(evendb_loom)))]
use shuttle as backend;
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
use std as backend;

/// A mutex without poisoning.
#[derive(Debug, Default)]
#[cfg_attr(
    not(any(evendb_loom, evendb_shuttle)),
    expect(
        clippy::disallowed_types,
        reason = "part of the seam itself; the models have their own"
    )
)]
pub(crate) struct Mutex<T>(backend::sync::Mutex<T>);

/// Holds a [`Mutex`]; `inner` is empty only while a condition variable has the inner guard.
pub(crate) struct MutexGuard<'a, T> {
    #[cfg(any(evendb_loom, evendb_shuttle))]
    mutex: &'a Mutex<T>,
    inner: Option<backend::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.guard(self.lock_inner())
    }

    fn lock_inner(&self) -> backend::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    fn guard<'a>(&'a self, inner: backend::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard {
            #[cfg(any(evendb_loom, evendb_shuttle))]
            mutex: self,
            inner: Some(inner),
        }
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

/// A condition variable.
#[derive(Debug, Default)]
pub(crate) struct Condvar(backend::sync::Condvar);

impl Condvar {
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

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// What else the seam's locks can do, where these are all of them.
#[cfg(any(evendb_loom, evendb_shuttle))]
mod more {
    use super::*;
    use crate::sync::{WaitTimeoutResult, thread};
    use std::time::Duration;

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(backend::sync::Mutex::new(value))
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            Some(self.guard(self.0.try_lock().ok()?))
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Self {
            Condvar(backend::sync::Condvar::new())
        }

        /// Timed waits may end at any time.
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
    }
}
