//! The seam's atomics and threads on loom or shuttle.

#[cfg(evendb_loom)]
use loom as model;
#[cfg(all(evendb_shuttle, not(evendb_loom)))]
use shuttle as model;

pub use model::hint::spin_loop;
pub use model::sync::atomic;
/// Threads. A sleep gives the other threads a turn.
pub mod thread {
    pub use super::model::thread::*;

    #[cfg(evendb_loom)]
    pub fn sleep(_: std::time::Duration) {
        yield_now();
    }
}
