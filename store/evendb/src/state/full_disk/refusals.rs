//! Refusals on a full disk: of threads that waited for a checkpoint, and of puts for which no room
//! could be made.
//!
//! Thread safety: any; the error's mutex is a leaf.

use crate::error::{Error, ErrorKind};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::path::Path;

/// The largest number of deletes after which a put makes room in any case, if it finds none.
const DELETES_MIN_MAX: u64 = 1023;

/// See the module.
#[derive(Default)]
pub(crate) struct Refusals {
    /// The number of deletes that had been written when a put last tried in vain to make room, and
    /// the number of further deletes until the next put tries. The second grows each time, because
    /// an attempt looks at all chunks.
    deletes_before: AtomicU64,
    deletes_min: AtomicU64,
    /// The number of times that waiting requests were refused; changes only under the mutex of
    /// `completed`.
    count: AtomicU64,
    error: Mutex<Option<Error>>,
}

impl Refusals {
    /// A number that changes when waiting requests are refused.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Threads that wait will be refused with this error.
    pub(crate) fn because_of(&self, error: &Error) {
        *self.error.lock() = Some(error.clone());
    }

    /// Refuses threads that wait for a checkpoint. The caller holds the mutex of `completed`.
    pub(crate) fn refuse(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether enough was deleted since the last attempt for a put to make room.
    pub(crate) fn is_promising(&self, deletes: u64) -> bool {
        let more = deletes.saturating_sub(self.deletes_before.load(Ordering::Relaxed));
        more > self.deletes_min.load(Ordering::Relaxed)
    }

    /// Notes that a put tried in vain to make room when this number of deletes had been written.
    pub(crate) fn note_failure(&self, deletes: u64) {
        let least = 2 * self.deletes_min.load(Ordering::Relaxed) + 1;
        self.deletes_before.store(deletes, Ordering::Relaxed);
        self.deletes_min
            .store(least.min(DELETES_MIN_MAX), Ordering::Relaxed);
    }

    /// Notes that a put made room. The next put may try again without another delete: a checkpoint
    /// alone may have been enough for this one, with everything that was deleted still there.
    pub(crate) fn note_success(&self) {
        self.deletes_min.store(0, Ordering::Relaxed);
    }

    /// The error of the last checkpoint that found no room.
    pub(crate) fn last_error(&self, dir: &Path) -> Error {
        self.error.lock().clone().unwrap_or_else(|| {
            let message = format!("no storage space for a checkpoint in {}", dir.display());
            Error::new(ErrorKind::NoSpace, message)
        })
    }
}
