//! [`Population`]: which records of a data set exist while threads insert more.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The number of records while several threads insert at the end.
///
/// `next` hands out numbers. All records below `acknowledged` were put successfully, so each of
/// them must be found.
#[derive(Debug)]
pub struct Population {
    next: AtomicU64,
    /// Stored under `early`'s lock with Release; readers load it with Acquire.
    acknowledged: AtomicU64,
    early: Mutex<BTreeSet<u64>>,
}

impl Population {
    /// A population of `records` records that are all there.
    #[must_use]
    pub fn new(records: u64) -> Self {
        Self {
            next: AtomicU64::new(records),
            acknowledged: AtomicU64::new(records),
            early: Mutex::new(BTreeSet::new()),
        }
    }

    /// Takes the next record number for a put.
    pub fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The next record number that [`take`](Self::take) will hand out: all below were handed out.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Says that the put of `record`, taken before, has succeeded.
    pub fn acknowledge(&self, record: u64) {
        let mut early = self.early.lock();
        early.insert(record);
        let mut present = self.acknowledged.load(Ordering::Relaxed);
        while early.remove(&present) {
            present += 1;
        }
        self.acknowledged.store(present, Ordering::Release);
    }

    /// Records that certainly exist.
    #[must_use]
    pub fn present(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }
}
