//! The mutex and the condition variable of the seam: the standard library's, without poisoning.
//!
//! Why these: all state of such a lock lies in the lock itself, and a thread waits in the kernel by
//! the lock's address. Locks that share a table of waiting threads are smaller. But a forked child
//! inherits that table with threads that it does not have, the application's own threads among
//! them, and the child's first wait panics or never ends (the engine lets a child open databases of
//! its own). And `notify_all` is one system call, however many threads wait: with 16 threads that
//! wait for one sync there are 8 % more synced puts, with 64 threads 22 % more (decision 0015).
//!
//! Invariants: no poisoning. On loom and shuttle, the same types wrap their locks. Thread safety:
//! these types provide it.
#![cfg_attr(
    not(any(evendb_loom, evendb_shuttle)),
    expect(
        clippy::disallowed_types,
        reason = "part of the seam itself; the models have their own"
    )
)]

use std::ops::{Deref, DerefMut};
use std::sync::TryLockError;
use std::time::Duration;

#[cfg(evendb_loom)]
use loom as backend;
#[cfg(all(evendb_shuttle, not(evendb_loom)))]
use shuttle as backend;
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
use std as backend;

/// A mutex without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T>(backend::sync::Mutex<T>);

/// Holds a [`Mutex`]. `inner` is empty only while a condition variable has the inner guard.
pub struct MutexGuard<'a, T> {
    #[cfg(any(evendb_loom, evendb_shuttle))]
    mutex: &'a Mutex<T>,
    inner: Option<backend::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    #[cfg(not(any(evendb_loom, evendb_shuttle)))]
    pub const fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }

    #[cfg(any(evendb_loom, evendb_shuttle))]
    pub fn new(value: T) -> Self {
        Mutex(backend::sync::Mutex::new(value))
    }

    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.guard(self.lock_inner())
    }

    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let inner = match self.0.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poison)) => poison.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self.guard(inner))
    }

    #[inline]
    fn lock_inner(&self) -> backend::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    #[inline]
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
    #[inline]
    fn deref(&self) -> &T {
        self.inner
            .as_ref()
            .expect("guard is present outside of a wait")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.inner
            .as_mut()
            .expect("guard is present outside of a wait")
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(backend::sync::Condvar);

/// How a timed wait ended.
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    #[cfg(not(any(evendb_loom, evendb_shuttle)))]
    pub const fn new() -> Self {
        Condvar(std::sync::Condvar::new())
    }

    #[cfg(any(evendb_loom, evendb_shuttle))]
    pub fn new() -> Self {
        Condvar(backend::sync::Condvar::new())
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let inner = guard
            .inner
            .take()
            .expect("guard is present outside of a wait");
        let inner = self.0.wait(inner);
        guard.inner = Some(inner.unwrap_or_else(|poison| poison.into_inner()));
    }

    #[cfg(not(any(evendb_loom, evendb_shuttle)))]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimeoutResult {
        let inner = guard
            .inner
            .take()
            .expect("guard is present outside of a wait");
        let done = self.0.wait_timeout(inner, time);
        let (inner, result) = done.unwrap_or_else(|poison| poison.into_inner());
        guard.inner = Some(inner);
        WaitTimeoutResult(result.timed_out())
    }

    /// A model has no time. This gives the lock up, lets others run, takes the lock again, and
    /// always reports a timeout.
    #[cfg(any(evendb_loom, evendb_shuttle))]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _time: Duration) -> WaitTimeoutResult {
        drop(guard.inner.take());
        crate::sync::thread::yield_now();
        guard.inner = Some(guard.mutex.lock_inner());
        WaitTimeoutResult(true)
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
