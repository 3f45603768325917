//! [`ScanLengths`]: how long scans of a keyspace were lately. The next one is expected to be as long, and reads by that.
//!
//! A scan that leaves the block of its seek reads several pages at once. Too few, and it waits for the disk once more; too many, and they
//! are read in vain: scans of 5 pairs of 1 KB took 1.3 to 1.8 times as long with 8 pages as with 2, those of 50 the other way round
//! (docs/decisions/0086-parallel-seeks-and-windows.md). Nobody says how far he will go, but who scans does so many times.
//!
//! ```text
//!   mean of bytes shown by a scan   0 .. 8 KiB | .. 12 KiB | ... | from 32 KiB on
//!   first window, pages                   2    |     3     |     |       8
//! ```
//! Shared by all threads. One scan in 16 is told of, by chance, so that they do not wait for each other; of two updates at once one may
//! be lost. It pairs with nothing, and decides nothing but how much is read at once.

use super::looks::is_sampled;
use evendb_base::sync::atomic::{AtomicU64, Ordering::Relaxed};
use evendb_storage::table::PAGE_BYTES;

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

    /// Pages that a scan reads at once when it leaves the block of its seek.
    pub(super) fn first_window(&self) -> usize {
        let pages = self.mean_bytes.load(Relaxed) / PAGE_BYTES as u64;
        pages.clamp(PAGES_MIN, PAGES_MAX) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lengths: &ScanLengths, scans: impl Iterator<Item = u64>) -> usize {
        scans.for_each(|bytes| lengths.count(bytes));
        lengths.first_window()
    }

    #[test]
    fn windows_follow_the_scans() {
        let lengths = ScanLengths::default();
        assert_eq!(lengths.first_window(), 2);
        assert_eq!(after(&lengths, [5 << 10; 100].into_iter()), 2);
        assert_eq!(after(&lengths, [20 << 10; 100].into_iter()), 4);
        assert_eq!(after(&lengths, [52 << 10; 100].into_iter()), 8);
        // Seeks among them, which need no window: half of each.
        assert_eq!(after(&lengths, (0..100).map(|at| at % 2 * (52 << 10))), 6);
        assert_eq!(after(&lengths, [1 << 10; 100].into_iter()), 2);
        // One long scan in a while changes little.
        assert_eq!(after(&lengths, [u64::MAX].into_iter()), 2);
        assert_eq!(after(&lengths, [u64::MAX; 100].into_iter()), 8);
    }
}
