//! The seam for everything that schedules: locks, condition variables, atomics, threads, and
//! reclamation by pins ([`reclaim`]).
//!
//! Normal builds use `std` locks ([`lock`]), atomics and threads, and `crossbeam-epoch`. With
//! `--cfg evendb_loom` and `--cfg evendb_shuttle` the same names are loom's and shuttle's, so that
//! a schedule is a test input. Nothing else in the engine names `std::sync::atomic`, `std::thread`
//! or a lock directly. Locks do not poison: instead, a panic in a worker latches the database.

pub mod lazy;
pub mod lock;
pub mod reclaim;
pub mod yielding;

use evendb_storage::signals::without_signals;
pub use lock::{Condvar, Mutex, MutexGuard};
pub use std::sync::{Arc, OnceLock, Weak};

#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod real {
    pub use std::hint::spin_loop;
    pub use std::sync::atomic;
    pub use std::thread;
}
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
pub use real::*;

#[cfg(any(evendb_loom, evendb_shuttle))]
mod model;
#[cfg(all(evendb_shuttle, not(evendb_loom)))]
pub mod model_reclaim;
#[cfg(any(evendb_loom, evendb_shuttle))]
pub use model::*;

/// Starts a thread of the store, which takes no signal of the program: every such thread is started
/// here.
///
/// # Errors
/// The system starts no more threads.
pub fn start_thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<thread::JoinHandle<T>> {
    let thread = thread::Builder::new().name(name.to_owned());
    without_signals(|| thread.spawn(body))
}
