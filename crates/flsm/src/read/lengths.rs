//! [`ScanLengths`]: how long scans of a keyspace were lately. The next one is expected to be as long, and reads by that.
//!
//! A scan that leaves the block of its seek reads several pages at once. Too few, and it waits for the disk once more; too many, and they
//! are read in vain. With 8 pages instead of one, scans of 50 pairs of 1 KB took 0.8 of the time, and those of 5 pairs 1.4 times as long
//! (docs/decisions/0086-parallel-seeks-and-windows.md). Nobody says how far he will go, but who scans does so many times.
//!
//! ```text
//!   first window = 2 * mean of bytes that scans showed / sources,    from 2 to 8 pages
//! ```
//! The sources are what a scan merges: tables of level 0, and levels. Each has a part of what the scan shows, and parts are uneven: so
//! it is twice the even one.
//!
//! Shared by all threads. One scan in 16 is told of, by chance, so that they do not wait for each other; of two updates at once one may
//! be lost. It pairs with nothing, and decides nothing but how much is read at once; so it is no atomic that shuttle replaces, whose
//! schedules would depend on chance then.

use super::looks::is_sampled;
use evendb_storage::table::PAGE_BYTES;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PAGES_MIN: u64 = 2;
const PAGES_MAX: u64 = 8;

/// A scan counts for no more: one of everything says little of the others.
const BYTES_MAX: u64 = 2 * PAGES_MAX * PAGE_BYTES as u64;

/// The mean is as of so many scans that were told of.
const SCANS: u64 = 8;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ScanLengths {
    mean_bytes: AtomicU64,
}

impl ScanLengths {
    /// A scan that showed so many bytes of keys and values is over.
    pub(super) fn note(&self, bytes: u64) {
        if is_sampled() {
            self.count(bytes);
        }
    }

    fn count(&self, bytes: u64) {
        let before = self.mean_bytes.load(Relaxed);
        let mean = (before * (SCANS - 1) + bytes.min(BYTES_MAX)) / SCANS;
        if mean != before {
            self.mean_bytes.store(mean, Relaxed);
        }
    }

    /// Pages that a scan of so many sources reads at once of one when it leaves the block of its seek.
    pub(super) fn first_window(&self, sources: usize) -> usize {
        let bytes = 2 * self.mean_bytes.load(Relaxed) / sources.max(1) as u64;
        (bytes / PAGE_BYTES as u64).clamp(PAGES_MIN, PAGES_MAX) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lengths: &ScanLengths, scans: impl Iterator<Item = u64>) -> usize {
        scans.for_each(|bytes| lengths.count(bytes));
        lengths.first_window(2)
    }

    #[test]
    fn windows_follow_the_scans() {
        let lengths = ScanLengths::default();
        assert_eq!(lengths.first_window(2), 2);
        assert_eq!(after(&lengths, [5 << 10; 100].into_iter()), 2);
        assert_eq!(after(&lengths, [20 << 10; 100].into_iter()), 4);
        assert_eq!(after(&lengths, [52 << 10; 100].into_iter()), 8);
        let by_sources = [0, 1, 4, 8, 12, 100].map(|sources| lengths.first_window(sources));
        assert_eq!(by_sources, [8, 8, 6, 3, 2, 2]);
        // Seeks among them, which need no window: half of each.
        assert_eq!(after(&lengths, (0..100).map(|at| at % 2 * (52 << 10))), 6);
        assert_eq!(after(&lengths, [1 << 10; 100].into_iter()), 2);
        // One long scan in a while changes little.
        assert_eq!(after(&lengths, [u64::MAX].into_iter()), 2);
        assert_eq!(after(&lengths, [u64::MAX; 100].into_iter()), 8);
    }
}
