//! The seam for everything that schedules: locks, condition variables, atomics, threads, and
//! reclamation by pins ([`reclaim`]).
//!
//! Normal builds: `std` locks ([`lock`]), atomics and threads, `crossbeam-epoch`. With
//! `--cfg evendb_loom` and `--cfg evendb_shuttle` the same names are loom's and shuttle's, so that
//! a schedule is a test input. Nothing else in the crate names `std::sync::atomic`, `std::thread`
//! or a lock directly. Locks do not poison: a panic in a worker latches the database instead.

pub(crate) mod lazy;
pub(crate) mod lock;
pub(crate) mod reclaim;
pub(crate) mod yielding;

pub(crate) use lock::{Condvar, Mutex, MutexGuard};
pub(crate) use std::sync::{Arc, OnceLock, Weak};

#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod real {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic;
    pub(crate) use std::thread;
}
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
pub(crate) use real::*;

#[cfg(any(evendb_loom, evendb_shuttle))]
mod model;
#[cfg(all(evendb_shuttle, not(evendb_loom)))]
pub(crate) mod model_reclaim;
#[cfg(any(evendb_loom, evendb_shuttle))]
pub(crate) use model::*;
