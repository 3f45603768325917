//! The seam's names on loom or shuttle, with the shapes that `parking_lot` gives them.

#[cfg(evendb_loom)]
use loom as model;
#[cfg(all(evendb_shuttle, not(evendb_loom)))]
use shuttle as model;

pub(crate) use super::wake_all::{Condvar, Mutex, MutexGuard};
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
/// How a timed wait ended: in a model always by time.
pub(crate) struct WaitTimeoutResult;

impl WaitTimeoutResult {
    pub(crate) fn timed_out(&self) -> bool {
        true
    }
}
